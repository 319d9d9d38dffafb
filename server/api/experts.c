/* Calls of experts: forward and backward passes, sessions of callers, and the updates that come of them (server/experts.h). */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/crypto/hash.h"
#include "common/crypto/random.h"
#include "common/swarm/statement.h"
#include "common/swarm/ticket.h"
#include "common/sys/clock.h"
#include "common/wire/base64.h"
#include "common/wire/safetensors.h"
#include "server/api/api.h"
#include "server/api/reply.h"
#include "server/experts.h"
#include "server/shard.h"

#define BEARER "Bearer "
#define MOST_SHARDS ((size_t)1024) /* in one request */
#define NAME_SIZE SKEP_SHARD_TEXT_SIZE

/* One request while it is being read. */
struct call {
    struct skep_remote *remote;
    struct skep_project *project;
    struct skep_remote_session *session; /* NULL in forward passes */
    struct skep_tensor_view *views;
    size_t view_count;
    struct skep_remote_request *request;
};

static void call_done(struct call *call)
{
    skep_remote_request_free(call->request);
    free(call->views);
}

static int begin(struct skep_host *host, const struct skep_route_parts *parts, struct call *call,
                 struct skep_error *err)
{
    call->remote = host->remote;
    if (call->remote == NULL) {
        return skep_error_set(err, SKEP_ERR_REFUSED,
                              "this keeper computes no experts for others (--remote-threads 0)");
    }
    return skep_api_project(host, parts, &call->project, err);
}

/* What cannot be done now but may be soon: 503 and when to come again. Anything else is returned as it is. */
static int or_busy(int result, struct skep_http_reply *reply, const struct skep_error *err)
{
    if (result != SKEP_ERR_STATE) {
        return result;
    }
    skep_reply_error(reply, 503, err);
    reply->retry_after_s = SKEP_REMOTE_RETRY_S;
    return SKEP_OK;
}

/* Queues the request; the reply comes later. */
static int submit(struct call *call, const struct skep_http_exchange *exchange,
                  struct skep_http_reply *reply, struct skep_error *err)
{
    int result = skep_remote_submit(call->request, exchange, err);
    if (result == SKEP_OK) {
        call->request = NULL;
        reply->status = SKEP_API_LATER;
    }
    return result;
}

/* ---- sessions ---- */

SKEP_API_HANDLER(skep_api_post_expert_session)
{
    struct skep_host *host = user;
    struct call call = {0};
    int result = begin(host, parts, &call, err);
    struct skep_envelope envelope = {0};
    struct skep_caller_statement statement;
    if (result == SKEP_OK) {
        result = skep_envelope_parse(exchange->body, exchange->body_size, &envelope, err);
    }
    if (result == SKEP_OK) {
        result = skep_caller_open(&envelope, &call.project->manifest.project, &host->id,
                                  skep_clock_unix_s(), &statement, err);
    }
    if (result == SKEP_OK) {
        struct skep_hash token;
        skep_random_bytes(token.bytes, sizeof token.bytes);
        const struct skep_remote_session session = {
            .project = call.project,
            .caller = statement.caller,
            .token = skep_hash_of(token.bytes, sizeof token.bytes),
            .statement = skep_hash_of(envelope.payload.data, envelope.payload.size)};
        result = skep_remote_sessions_open(skep_remote_sessions_of(call.remote), &session,
                                           skep_remote_now_ms(call.remote), err);
        if (result == SKEP_OK) {
            struct skep_json *root = skep_json_object_new();
            skep_json_set_hex(root, "token", token.bytes, sizeof token.bytes);
            skep_json_set_integer(root, "idle_s", SKEP_REMOTE_IDLE_MS / 1000);
            skep_reply_json(reply, 201, root);
        }
    }
    skep_envelope_done(&envelope);
    return or_busy(result, reply, err);
}

/* The caller's session, or a reply with 401 and NULL. */
static bool authenticate(const struct skep_http_exchange *exchange, struct call *call,
                         struct skep_http_reply *reply, struct skep_error *err)
{
    const char *text = skep_http_header(exchange, "Authorization");
    struct skep_hash token;
    if (text != NULL && strncmp(text, BEARER, strlen(BEARER)) == 0 &&
        skep_hex_decode(text + strlen(BEARER), token.bytes, sizeof token.bytes)) {
        struct skep_hash hash = skep_hash_of(token.bytes, sizeof token.bytes);
        call->session = skep_remote_sessions_find(skep_remote_sessions_of(call->remote), &hash,
                                                  skep_remote_now_ms(call->remote));
    }
    if (call->session != NULL && call->session->project == call->project) {
        return true;
    }
    skep_error_set(err, SKEP_ERR_REFUSED,
                   "there is no such session (or it has ended); open one with a signed statement");
    skep_reply_error(reply, 401, err);
    return false;
}

/* ---- tensors ---- */

/* [rows, d] of finite numbers, not too many rows. */
static int check_tensor(const struct call *call, const struct skep_tensor_view *view,
                        struct skep_error *err)
{
    uint32_t dim = call->project->manifest.model.dim;
    size_t most = skep_remote_rows_limit(call->remote);
    if (view->dim_count != 2 || view->dims[1] != dim) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "tensor %s has %u axes, the last of %u; expected [rows, %u]",
                              view->name, view->dim_count,
                              view->dim_count > 0 ? view->dims[view->dim_count - 1] : 1, dim);
    }
    if (view->dims[0] > most) {
        return skep_error_set(err, SKEP_ERR_TOO_LARGE,
                              "tensor %s has %u rows; allowed: up to %zu (--remote-batch)",
                              view->name, view->dims[0], most);
    }
    if (!skep_remote_finite(view->data, view->count)) {
        return skep_error_set(err, SKEP_ERR_NUMERIC, "tensor %s has a NaN or an infinity",
                              view->name);
    }
    return SKEP_OK;
}

/* The expert named by the first `size` characters; false for the trunk and for what is no shard. */
static bool parse_expert(const char *name, size_t size, struct skep_shard *ret_shard)
{
    char text[NAME_SIZE];
    if (size >= sizeof text) {
        return false;
    }
    memcpy(text, name, size);
    text[size] = '\0';
    return skep_shard_parse(text, ret_shard) && ret_shard->kind != SKEP_SHARD_TRUNK;
}

static int not_an_expert(const char *name, const char *expected, struct skep_error *err)
{
    return skep_error_set(err, SKEP_ERR_FORMAT, "a tensor is named %s; expected %s", name,
                          expected);
}

/* The expert if it can be computed here: kept, and its state is there. */
static struct skep_kept_shard *find_kept(struct skep_project *project,
                                         const struct skep_shard *shard, struct skep_error *err)
{
    struct skep_kept_shard *kept = skep_project_shard(project, shard, err);
    if (kept != NULL && !kept->has_state) {
        skep_error_set(err, SKEP_ERR_NOT_FOUND, "the state of %s is not here yet", kept->text);
        return NULL;
    }
    return kept;
}

static int read_body(const struct skep_http_exchange *exchange, struct call *call,
                     struct skep_error *err)
{
    int result = skep_safetensors_read_few(exchange->body, exchange->body_size, 2 * MOST_SHARDS,
                                           &call->views, &call->view_count, err);
    for (size_t i = 0; result == SKEP_OK && i < call->view_count; i++) {
        result = check_tensor(call, &call->views[i], err);
    }
    return result;
}

/* Makes the file that the answers go into: one tensor for each task, named by its expert, as large as its input. */
static int frame_answer(struct skep_remote_request *request, size_t dim, struct skep_error *err)
{
    struct skep_tensor_view *views = skep_alloc(request->count + 1, sizeof *views);
    uint8_t **places = skep_alloc(request->count + 1, sizeof *places);
    for (size_t i = 0; i < request->count; i++) {
        const struct skep_remote_task *task = &request->tasks[i];
        views[i] = (struct skep_tensor_view){.dims = {(uint32_t)task->rows, (uint32_t)dim},
                                             .dim_count = 2,
                                             .count = task->rows * dim};
        skep_shard_format(&task->parameters->shape->layout.shard, views[i].name);
    }
    int result = skep_safetensors_frame(views, request->count, &request->answer, places, err);
    for (size_t i = 0; result == SKEP_OK && i < request->count; i++) {
        request->tasks[i].answer = places[i];
    }
    free(views);
    free(places);
    return result;
}

/* Replies with what lies in request->answer. */
static void finish_tensors(struct skep_remote_request *request, struct skep_http_reply *reply)
{
    reply->status = 200;
    reply->content_type = "application/octet-stream";
    reply->body = request->answer;
    request->answer = (struct skep_buffer){0};
}

/* ---- forward ---- */

/* A task for each tensor whose expert is here; others are left out. */
static int forward_tasks(struct call *call, struct skep_error *err)
{
    struct skep_remote_request *request = call->request;
    size_t count = 0;
    int result = SKEP_OK;
    for (size_t i = 0; result == SKEP_OK && i < call->view_count; i++) {
        const struct skep_tensor_view *view = &call->views[i];
        struct skep_shard shard;
        if (!parse_expert(view->name, strlen(view->name), &shard)) {
            result = not_an_expert(view->name, "ffn.<layer>.<row>.<column>", err);
            break;
        }
        struct skep_kept_shard *kept = find_kept(call->project, &shard, NULL);
        if (kept != NULL) {
            result = skep_remote_request_expert(request, count, kept, err);
            request->tasks[count].pass = SKEP_REMOTE_FORWARD;
            request->tasks[count].rows = view->dims[0];
            request->tasks[count].x = view->data;
            count += result == SKEP_OK;
        }
    }
    request->count = count;
    return result;
}

SKEP_API_HANDLER(skep_api_post_expert_forward)
{
    struct call call = {0};
    int result = begin(user, parts, &call, err);
    if (result == SKEP_OK) {
        result = read_body(exchange, &call, err);
    }
    if (result == SKEP_OK) {
        result = skep_remote_request_new(call.remote, call.view_count, &call.request, err);
    }
    if (result == SKEP_OK) {
        result = forward_tasks(&call, err);
    }
    if (result == SKEP_OK) {
        call.request->finish = finish_tensors;
        result = frame_answer(call.request, call.project->manifest.model.dim, err);
    }
    if (result == SKEP_OK && call.request->count == 0) {
        finish_tensors(call.request, reply);
    } else if (result == SKEP_OK) {
        result = submit(&call, exchange, reply, err);
    }
    call_done(&call);
    return or_busy(result, reply, err);
}

/* ---- backward ---- */

/* The gradient that belongs to an input, of the same shape. */
static int find_gradient(const struct call *call, const struct skep_tensor_view *x,
                         size_t shard_size, const struct skep_tensor_view **ret_dy,
                         struct skep_error *err)
{
    char name[NAME_SIZE + 4];
    snprintf(name, sizeof name, "%.*s.dy", (int)shard_size, x->name);
    const struct skep_tensor_view *dy = skep_tensor_view_find(call->views, call->view_count, name);
    if (dy == NULL || dy->dims[0] != x->dims[0]) {
        return skep_error_set(err, SKEP_ERR_FORMAT, "tensor %s has %u rows; found for %s: %u",
                              x->name, x->dims[0], name, dy != NULL ? dy->dims[0] : 0);
    }
    *ret_dy = dy;
    return SKEP_OK;
}

static int backward_task(struct call *call, const struct skep_tensor_view *x, size_t shard_size,
                         struct skep_error *err)
{
    struct skep_remote_request *request = call->request;
    struct skep_remote_task *task = &request->tasks[request->count];
    struct skep_shard shard;
    const struct skep_tensor_view *dy = NULL;
    if (!parse_expert(x->name, shard_size, &shard)) {
        return not_an_expert(x->name, "ffn.<layer>.<row>.<column>.x and .dy", err);
    }
    struct skep_kept_shard *kept = find_kept(call->project, &shard, err);
    int result = kept != NULL ? find_gradient(call, x, shard_size, &dy, err) : SKEP_ERR_NOT_FOUND;
    if (result != SKEP_OK) {
        return result;
    }
    assert(dy != NULL);
    request->count++;
    task->pass = SKEP_REMOTE_BACKWARD;
    task->rows = x->dims[0];
    task->x = x->data;
    task->dy = dy->data;
    result = skep_remote_request_expert(request, request->count - 1, kept, err);
    struct skep_remote_account *account = NULL;
    if (result == SKEP_OK) {
        result = skep_remote_account_get(skep_remote_sessions_of(call->remote), call->session,
                                         &shard, kept->shape.layout.parameters,
                                         skep_remote_now_ms(call->remote), &account, err);
    }
    if (result == SKEP_OK) {
        skep_remote_request_account(request, request->count - 1, account);
    }
    return result;
}

/* A task for each pair of tensors; everything must be here, since a gradient that is dropped silently would be missed. */
static int backward_tasks(struct call *call, struct skep_error *err)
{
    size_t gradients = 0;
    int result = SKEP_OK;
    call->request->count = 0;
    for (size_t i = 0; result == SKEP_OK && i < call->view_count; i++) {
        const char *name = call->views[i].name;
        size_t size = strlen(name);
        if (size > 3 && strcmp(name + size - 3, ".dy") == 0) {
            gradients++;
        } else if (size > 2 && strcmp(name + size - 2, ".x") == 0) {
            result = backward_task(call, &call->views[i], size - 2, err);
        } else {
            result = not_an_expert(name, "ffn.<layer>.<row>.<column>.x and .dy", err);
        }
    }
    if (result == SKEP_OK && (gradients == 0 || gradients != call->request->count)) {
        result = skep_error_set(err, SKEP_ERR_FORMAT,
                                "the body has %zu inputs and %zu gradients; expected one of each "
                                "for every expert",
                                call->request->count, gradients);
    }
    return result;
}

SKEP_API_HANDLER(skep_api_post_expert_backward)
{
    struct call call = {0};
    int result = begin(user, parts, &call, err);
    if (result == SKEP_OK && !authenticate(exchange, &call, reply, err)) {
        return SKEP_OK;
    }
    if (result == SKEP_OK) {
        result = read_body(exchange, &call, err);
    }
    if (result == SKEP_OK) {
        result = skep_remote_request_new(call.remote, call.view_count, &call.request, err);
    }
    if (result == SKEP_OK) {
        result = backward_tasks(&call, err);
    }
    if (result == SKEP_OK) {
        call.request->finish = finish_tensors;
        result = frame_answer(call.request, call.project->manifest.model.dim, err);
    }
    if (result == SKEP_OK) {
        result = submit(&call, exchange, reply, err);
    }
    call_done(&call);
    return or_busy(result, reply, err);
}

/* ---- updates ---- */

/* What the caller is to check and sign. */
static void push_update(struct skep_json *list, const struct skep_remote_request *request,
                        const struct skep_remote_task *task)
{
    const struct skep_remote_parameters *parameters = task->parameters;
    const struct skep_shape *shape = parameters->shape;
    const struct skep_buffer *body = &task->step.body;
    const struct skep_update_statement statement = {
        .project = shape->manifest->project,
        .shard = shape->layout.shard,
        .base_version = parameters->version,
        .base_state = parameters->root,
        .donor = request->caller,
        .trunk_version = parameters->version,
        .remote = true,
        .ticket = skep_ticket_of(&parameters->payload, &request->caller, parameters->version),
        .body = skep_hash_of(body->data, body->size),
        .tokens = task->step.rows};
    char *text = skep_update_statement_encode(&statement);
    char *base64 = skep_base64_encode(body->data, body->size);
    struct skep_json *object = skep_json_object_new();
    skep_json_set_shard(object, "shard", &statement.shard);
    skep_json_set_text(object, "statement", text);
    skep_json_set_text(object, "body", base64);
    skep_json_push_take(list, object);
    free(base64);
    free(text);
}

static void finish_updates(struct skep_remote_request *request, struct skep_http_reply *reply)
{
    struct skep_json *updates = skep_json_array_new();
    struct skep_json *early = skep_json_array_new();
    for (size_t i = 0; i < request->count; i++) {
        const struct skep_remote_task *task = &request->tasks[i];
        if (task->step.outcome == SKEP_REMOTE_MADE) {
            push_update(updates, request, task);
        } else if (task->step.outcome == SKEP_REMOTE_EARLY) {
            char name[NAME_SIZE];
            skep_shard_format(&task->parameters->shape->layout.shard, name);
            skep_json_push_text(early, name);
        }
    }
    struct skep_json *root = skep_json_object_new();
    skep_json_set_take(root, "updates", updates);
    skep_json_set_take(root, "early", early);
    skep_reply_json(reply, 200, root);
}

/* A task for each expert of which the caller has an account. */
static int update_task(struct call *call, const char *name, struct skep_error *err)
{
    struct skep_remote_request *request = call->request;
    struct skep_shard shard;
    if (name == NULL || !parse_expert(name, strlen(name), &shard)) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "shards has \"%.40s\"; expected ffn.<layer>.<row>.<column>",
                              name != NULL ? name : "?");
    }
    struct skep_kept_shard *kept = find_kept(call->project, &shard, err);
    if (kept == NULL) {
        return SKEP_ERR_NOT_FOUND;
    }
    struct skep_remote_account *account = skep_remote_account_find(call->session, &shard);
    if (account == NULL) {
        return SKEP_OK;
    }
    request->tasks[request->count].pass = SKEP_REMOTE_UPDATE;
    int result = skep_remote_request_expert(request, request->count, kept, err);
    if (result == SKEP_OK) {
        skep_remote_request_account(request, request->count, account);
        request->count++;
    }
    return result;
}

static int update_tasks(const struct skep_http_exchange *exchange, struct call *call,
                        struct skep_error *err)
{
    static const char *const keys[] = {"shards", NULL};
    struct skep_json *root = NULL;
    const struct skep_json *shards = NULL;
    int result = skep_json_parse(exchange->body, exchange->body_size, "request", &root, err);
    if (result == SKEP_OK) {
        result = skep_json_allow(root, "request", keys, err);
    }
    if (result == SKEP_OK) {
        result = skep_json_get_array(root, "request", "shards", MOST_SHARDS, &shards, err);
    }
    size_t count = result == SKEP_OK ? skep_json_array_size(shards) : 0;
    if (result == SKEP_OK) {
        result = skep_remote_request_new(call->remote, count, &call->request, err);
    }
    if (result == SKEP_OK) {
        call->request->count = 0;
        call->request->caller = call->session->caller;
        call->request->finish = finish_updates;
    }
    for (size_t i = 0; result == SKEP_OK && i < count; i++) {
        result = update_task(call, skep_json_text(skep_json_array_at(shards, i)), err);
    }
    skep_json_free(root);
    return result;
}

SKEP_API_HANDLER(skep_api_post_expert_updates)
{
    struct call call = {0};
    int result = begin(user, parts, &call, err);
    if (result == SKEP_OK && !authenticate(exchange, &call, reply, err)) {
        return SKEP_OK;
    }
    if (result == SKEP_OK) {
        result = update_tasks(exchange, &call, err);
    }
    if (result == SKEP_OK && call.request->count == 0) {
        finish_updates(call.request, reply);
    } else if (result == SKEP_OK) {
        result = submit(&call, exchange, reply, err);
    }
    call_done(&call);
    return or_busy(result, reply, err);
}
