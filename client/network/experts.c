#include "client/network/experts.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/network/experts-internal.h"
#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/base/limits.h"
#include "common/model/model.h"
#include "common/swarm/replicas.h"
#include "common/sys/clock.h"
#include "common/wire/safetensors.h"

/* An answer is as large as its rows, but others may write its header at greater length. */
#define ANSWER_SPARE 65536u
#define MOST_SILENCES 5u /* each doubles the time aside: 80 s at most */

/* ---- the caller ---- */

/* Only keepers whose record is known; each caller begins at another place, so that callers spread. */
static void lay_route(struct skep_caller *caller, size_t place, size_t turn)
{
    struct skep_shard shard = skep_manifest_shard(caller->manifest, place);
    struct skep_replicas replicas = skep_replicas_of(caller->manifest, &shard);
    struct skep_caller_route *route = &caller->routes[place];
    for (size_t n = 0; n < replicas.count; n++) {
        const struct skep_peer_id *id = &replicas.keepers[(turn + n) % replicas.count];
        for (size_t k = 0; k < caller->keeper_count; k++) {
            if (skep_peer_id_equal(&caller->keepers[k].record.keeper, id)) {
                route->keepers[route->count++] = (uint8_t)k;
            }
        }
    }
}

struct skep_caller *skep_caller_new(const struct skep_caller_options *options)
{
    struct skep_caller *caller = skep_alloc(1, sizeof *caller);
    caller->manifest = options->manifest;
    caller->key = options->key;
    caller->timeout_ms = options->timeout_ms != 0 ? options->timeout_ms : SKEP_CALLER_TIMEOUT_MS;
    caller->grace_ms = options->grace_ms;
    caller->keeper_count =
        options->record_count < SKEP_LIMIT_KEEPERS ? options->record_count : SKEP_LIMIT_KEEPERS;
    caller->keepers = skep_alloc(caller->keeper_count + 1, sizeof *caller->keepers);
    for (size_t k = 0; k < caller->keeper_count; k++) {
        caller->keepers[k].record = options->records[k];
        caller->keepers[k].record.projects = NULL;
        caller->keepers[k].record.project_count = 0;
        pthread_mutex_init(&caller->keepers[k].opening, NULL);
    }
    skep_hex_encode(caller->manifest->project.bytes, SKEP_ID_SIZE, caller->project);
    size_t turn = 0;
    if (caller->key != NULL) {
        caller->id = skep_key_id(caller->key);
        turn = caller->id.bytes[0];
    }
    caller->route_count = skep_manifest_shard_count(caller->manifest);
    caller->routes = skep_alloc(caller->route_count, sizeof *caller->routes);
    for (size_t i = 1; i < caller->route_count; i++) {
        lay_route(caller, i, turn + i);
    }
    pthread_mutex_init(&caller->lock, NULL);
    return caller;
}

void skep_caller_set_stamp(struct skep_caller *caller, uint64_t nonce)
{
    pthread_mutex_lock(&caller->lock);
    caller->stamp = nonce;
    pthread_mutex_unlock(&caller->lock);
}

void skep_caller_free(struct skep_caller *caller)
{
    if (caller == NULL) {
        return;
    }
    pthread_mutex_destroy(&caller->lock);
    for (size_t k = 0; k < caller->keeper_count; k++) {
        pthread_mutex_destroy(&caller->keepers[k].opening);
    }
    free(caller->keepers);
    free(caller->routes);
    free(caller);
}

size_t skep_caller_choose(struct skep_caller *caller, size_t shard)
{
    const struct skep_caller_route *route = &caller->routes[shard];
    uint64_t now_ms = skep_clock_monotonic_ms();
    size_t chosen = route->count > 0 ? route->keepers[0] : SIZE_MAX; /* if all are set aside */
    pthread_mutex_lock(&caller->lock);
    for (size_t n = 0; n < route->count; n++) {
        struct skep_caller_keeper *keeper = &caller->keepers[route->keepers[n]];
        if (keeper->aside_until_ms <= now_ms) {
            chosen = route->keepers[n];
            if (keeper->silences > 0) { /* one tries; the others wait for what comes of it */
                keeper->aside_until_ms = now_ms + caller->timeout_ms;
            }
            break;
        }
    }
    pthread_mutex_unlock(&caller->lock);
    return chosen;
}

void skep_caller_set_aside(struct skep_caller *caller, size_t keeper)
{
    struct skep_caller_keeper *known = &caller->keepers[keeper];
    uint64_t now_ms = skep_clock_monotonic_ms();
    pthread_mutex_lock(&caller->lock);
    /* Threads that wait for it together are silenced by the same silence. */
    if (known->silences == 0 || now_ms >= known->silent_ms + SKEP_CALLER_ASIDE_MS) {
        known->silences += known->silences < MOST_SILENCES;
        known->silent_ms = now_ms;
    }
    known->aside_until_ms = now_ms + ((uint64_t)SKEP_CALLER_ASIDE_MS << (known->silences - 1));
    pthread_mutex_unlock(&caller->lock);
}

static void has_answered(struct skep_caller *caller, size_t keeper)
{
    pthread_mutex_lock(&caller->lock);
    caller->keepers[keeper].silences = 0;
    caller->keepers[keeper].aside_until_ms = 0;
    pthread_mutex_unlock(&caller->lock);
}

bool skep_caller_is_aside(struct skep_caller *caller, size_t keeper)
{
    uint64_t now_ms = skep_clock_monotonic_ms();
    pthread_mutex_lock(&caller->lock);
    bool aside = caller->keepers[keeper].aside_until_ms > now_ms;
    pthread_mutex_unlock(&caller->lock);
    return aside;
}

/* ---- lines ---- */

struct skep_caller_line *skep_caller_line_new(struct skep_caller *caller)
{
    struct skep_caller_line *line = skep_alloc(1, sizeof *line);
    line->caller = caller;
    line->loop = skep_loop_new();
    line->http = skep_http_client_new(line->loop, 2 * SKEP_LIMIT_KEEPERS);
    return line;
}

void skep_caller_line_free(struct skep_caller_line *line)
{
    if (line == NULL) {
        return;
    }
    skep_http_client_free(line->http); /* what was given up ends here */
    skep_loop_free(line->loop);
    free(line);
}

char *skep_caller_address(const struct skep_caller *caller, size_t keeper, const char *what,
                          struct skep_http_request *request)
{
    const struct skep_record *record = &caller->keepers[keeper].record;
    char *path = skep_format("/v1/projects/%s/%s", caller->project, what);
    request->host = record->host;
    request->port = record->port;
    request->pin = &record->tls_pin;
    request->path = path;
    request->timeout_ms = caller->timeout_ms;
    return path;
}

struct exchange {
    bool done;
    int result;
    struct skep_http_answer answer;
    struct skep_error err;
};

static void on_exchanged(void *user, int result, const struct skep_http_answer *answer,
                         const struct skep_error *err)
{
    struct exchange *exchange = user;
    exchange->result = result;
    if (result == SKEP_OK) {
        exchange->answer.status = answer->status;
        skep_buffer_append(&exchange->answer.body, answer->body.data, answer->body.size);
    } else {
        exchange->err = *err;
    }
    exchange->done = true;
}

int skep_caller_exchange(struct skep_caller_line *line, const struct skep_http_request *request,
                         struct skep_http_answer *ret_answer, struct skep_error *err)
{
    struct exchange exchange = {0};
    skep_http_send(line->http, request, on_exchanged, &exchange);
    while (!exchange.done) { /* at the latest when the request's time is over */
        skep_loop_run_until(line->loop, &exchange.done, request->timeout_ms);
    }
    if (exchange.result == SKEP_OK) {
        *ret_answer = exchange.answer;
    } else if (err != NULL) {
        *err = exchange.err;
    }
    return exchange.result;
}

/* ---- one call of a layer ---- */

/* One forward or backward pass of one layer. */
struct pass {
    struct skep_caller_line *line;
    uint32_t layer;
    size_t dim;
    const struct skep_expert_group *groups;
    size_t group_count;
    const float *x;
    const float *dy; /* NULL in forward passes */
    float *result;   /* y or dx */
    bool *answered;  /* as the model gave it; here: true once a group's rows are there */
    size_t *keepers; /* of each group, SIZE_MAX: none */
    size_t running;  /* parcels on their way */
    bool any;        /* one has answered */
    bool all;        /* none is on its way */
    bool news;       /* one has ended, well or not */
    size_t refused;  /* parcels whose session was refused */
};

/* What goes to one keeper in one call: freed when its answer came, also when nobody waits for it any more. */
struct parcel {
    struct pass *pass; /* NULL: given up */
    size_t keeper;
    size_t tensor_count;
    struct skep_buffer body;
    char token[SKEP_CALLER_TOKEN_SIZE];
    bool refused; /* its session is not known (any more) */
    bool again;   /* it was sent a second time, with a new one */
    struct parcel *next;
};

static size_t shard_place(const struct pass *pass, const struct skep_expert_group *group)
{
    const struct skep_model_config *config = &pass->line->caller->manifest->model;
    return 1 + (size_t)pass->layer * config->rows * config->columns + group->expert;
}

static void name_group(const struct pass *pass, size_t group, const char *suffix,
                       struct skep_tensor_view *view)
{
    const struct skep_model_config *config = &pass->line->caller->manifest->model;
    uint32_t expert = pass->groups[group].expert;
    struct skep_shard shard = {.kind = SKEP_SHARD_FFN,
                               .layer = (uint16_t)pass->layer,
                               .row = (uint16_t)(expert / config->columns),
                               .column = (uint16_t)(expert % config->columns)};
    char text[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(&shard, text);
    snprintf(view->name, sizeof view->name, "%s%s", text, suffix);
    view->dims[0] = (uint32_t)pass->groups[group].count;
    view->dims[1] = (uint32_t)pass->dim;
    view->dim_count = 2;
    view->count = pass->groups[group].count * pass->dim;
}

static bool is_asked(const struct pass *pass, size_t group, size_t keeper)
{
    return pass->keepers[group] == keeper && !pass->answered[group] &&
           pass->groups[group].count > 0;
}

/* Writes the rows of all groups that this keeper is asked for. */
static int pack(const struct pass *pass, struct parcel *parcel, struct skep_error *err)
{
    size_t most = 2 * pass->group_count;
    struct skep_tensor_view *views = skep_alloc(most + 1, sizeof *views);
    const float **values = skep_alloc(most + 1, sizeof *values);
    uint8_t **places = skep_alloc(most + 1, sizeof *places);
    size_t count = 0;
    for (size_t g = 0; g < pass->group_count; g++) {
        if (!is_asked(pass, g, parcel->keeper)) {
            continue;
        }
        size_t first = pass->groups[g].first * pass->dim;
        name_group(pass, g, pass->dy != NULL ? ".x" : "", &views[count]);
        values[count++] = pass->x + first;
        if (pass->dy != NULL) {
            name_group(pass, g, ".dy", &views[count]);
            values[count++] = pass->dy + first;
        }
    }
    int rc = skep_safetensors_frame(views, count, &parcel->body, places, err);
    for (size_t i = 0; rc == SKEP_OK && i < count; i++) {
        skep_put_floats(places[i], values[i], views[i].count);
    }
    parcel->tensor_count = count;
    free(places);
    free(values);
    free(views);
    return rc;
}

static bool all_finite(const float *values, size_t count)
{
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        good &= isfinite(values[i]) != 0;
    }
    return good;
}

/* Takes in what a keeper computed; false if it is not what a keeper of this project would say, or if it has none of what it was asked
 * for. Experts that it left out did not answer. */
static bool unpack(struct pass *pass, size_t keeper, const struct skep_buffer *body,
                   size_t most_tensors)
{
    struct skep_tensor_view *views = NULL;
    size_t count = 0;
    bool some = false;
    bool good =
        skep_safetensors_read_few(body->data, body->size, most_tensors, &views, &count, NULL) == 0;
    for (size_t g = 0; g < pass->group_count && good; g++) {
        struct skep_tensor_view wanted = {0};
        if (!is_asked(pass, g, keeper)) {
            continue;
        }
        name_group(pass, g, "", &wanted);
        const struct skep_tensor_view *found = skep_tensor_view_find(views, count, wanted.name);
        float *to = pass->result + pass->groups[g].first * pass->dim;
        if (found == NULL) {
            continue;
        }
        some = true;
        good = found->dim_count == 2 && found->dims[0] == wanted.dims[0] &&
               found->dims[1] == wanted.dims[1];
        if (good) {
            skep_get_floats(found->data, found->count, to);
            good = all_finite(to, found->count);
        }
        pass->answered[g] = good;
    }
    free(views);
    return good && some;
}

static void parcel_free(struct parcel *parcel)
{
    skep_buffer_done(&parcel->body);
    free(parcel);
}

static void on_answer(void *user, int result, const struct skep_http_answer *answer,
                      const struct skep_error *err)
{
    struct parcel *parcel = user;
    struct pass *pass = parcel->pass;
    (void)err;
    if (pass == NULL) {
        parcel_free(parcel);
        return;
    }
    if (result == SKEP_OK && answer->status == 200) {
        if (unpack(pass, parcel->keeper, &answer->body, parcel->tensor_count)) {
            has_answered(pass->line->caller, parcel->keeper);
            pass->any = true;
        } else {
            skep_caller_set_aside(pass->line->caller, parcel->keeper);
        }
    } else if (result == SKEP_OK && answer->status == 401 && !parcel->again) {
        parcel->refused = true;
        pass->refused++;
    } else if (result != SKEP_ERR_CANCELLED && (result != SKEP_OK || answer->status != 503)) {
        skep_caller_set_aside(pass->line->caller, parcel->keeper); /* but not for being busy */
    }
    parcel->pass = NULL; /* has ended; its owner frees it */
    pass->news = true;
    pass->running--;
    pass->all = pass->running == 0;
}

static void send(struct pass *pass, struct parcel *parcel)
{
    bool back = pass->dy != NULL;
    struct skep_http_request request = {
        .method = "POST",
        .content_type = "application/octet-stream",
        .authorization = back ? parcel->token : NULL,
        .body = parcel->body.data,
        .body_size = parcel->body.size,
        .body_stays = true,
        .limit = parcel->body.size + ANSWER_SPARE,
    };
    char *path = skep_caller_address(pass->line->caller, parcel->keeper,
                                     back ? "experts/backward" : "experts/forward", &request);
    parcel->pass = pass;
    parcel->refused = false;
    pass->running++;
    skep_http_send(pass->line->http, &request, on_answer, parcel);
    free(path);
}

/* A parcel for each keeper of whom something is wanted, on its way. Keepers with whom no session can be opened stay silent. */
static int send_all(struct pass *pass, struct parcel **ret_parcels, struct skep_error *err)
{
    struct skep_caller *caller = pass->line->caller;
    int rc = SKEP_OK;
    for (size_t k = 0; k < caller->keeper_count && rc == SKEP_OK; k++) {
        bool wanted = false;
        for (size_t g = 0; g < pass->group_count && !wanted; g++) {
            wanted = is_asked(pass, g, k);
        }
        if (!wanted) {
            continue;
        }
        struct parcel *parcel = skep_alloc(1, sizeof *parcel);
        parcel->keeper = k;
        if (pass->dy != NULL &&
            skep_caller_session(pass->line, k, NULL, parcel->token, NULL) != SKEP_OK) {
            skep_caller_set_aside(caller, k);
            parcel_free(parcel);
            continue;
        }
        rc = pack(pass, parcel, err);
        if (rc != SKEP_OK) {
            parcel_free(parcel);
            continue;
        }
        parcel->next = *ret_parcels;
        *ret_parcels = parcel;
        send(pass, parcel);
    }
    return rc;
}

static void wait_until(struct pass *pass, const bool *flag, uint64_t end_ms)
{
    uint64_t now_ms = skep_clock_monotonic_ms();
    if (!*flag && now_ms < end_ms) {
        skep_loop_run_until(pass->line->loop, flag, end_ms - now_ms);
    }
}

/* Until all answered, or as long as they are given. */
static void wait_for_answers(struct pass *pass)
{
    const struct skep_caller *caller = pass->line->caller;
    uint64_t end_ms = skep_clock_monotonic_ms() + caller->timeout_ms;
    pass->all = pass->running == 0;
    while (caller->grace_ms > 0 && !pass->any && !pass->all && skep_clock_monotonic_ms() < end_ms) {
        pass->news = false;
        wait_until(pass, &pass->news, end_ms);
    }
    if (caller->grace_ms > 0 && skep_clock_monotonic_ms() + caller->grace_ms < end_ms) {
        end_ms = skep_clock_monotonic_ms() + caller->grace_ms;
    }
    wait_until(pass, &pass->all, end_ms);
}

/* Sessions end when a keeper starts again: once, a new one is opened and the parcel sent again. */
static void send_refused_again(struct pass *pass, struct parcel *parcels)
{
    for (struct parcel *parcel = parcels; parcel != NULL; parcel = parcel->next) {
        if (!parcel->refused) {
            continue;
        }
        if (skep_caller_session(pass->line, parcel->keeper, parcel->token, parcel->token, NULL) ==
            SKEP_OK) {
            parcel->again = true;
            send(pass, parcel);
        } else {
            skep_caller_set_aside(pass->line->caller, parcel->keeper);
        }
    }
    wait_for_answers(pass);
}

/* Frees what has ended; what is still on its way is silent now, and frees itself when it ends. */
static void end_parcels(struct pass *pass, struct parcel *parcels)
{
    struct parcel *next = NULL;
    for (struct parcel *parcel = parcels; parcel != NULL; parcel = next) {
        next = parcel->next;
        if (parcel->pass == NULL) {
            parcel_free(parcel);
        } else {
            skep_caller_set_aside(pass->line->caller, parcel->keeper);
            parcel->pass = NULL;
        }
    }
}

static int run_pass(struct pass *pass, struct skep_error *err)
{
    struct skep_caller *caller = pass->line->caller;
    struct parcel *parcels = NULL;
    bool *wanted = skep_alloc(pass->group_count + 1, sizeof *wanted);
    pass->dim = caller->manifest->model.dim;
    pass->keepers = skep_alloc(pass->group_count + 1, sizeof *pass->keepers);
    for (size_t g = 0; g < pass->group_count; g++) {
        wanted[g] = pass->answered[g];
        pass->answered[g] = pass->groups[g].count == 0; /* nothing to ask */
        pass->keepers[g] =
            wanted[g] ? skep_caller_choose(caller, shard_place(pass, &pass->groups[g])) : SIZE_MAX;
    }
    int rc = send_all(pass, &parcels, err);
    if (rc == SKEP_OK) {
        wait_for_answers(pass);
        if (pass->refused > 0) {
            send_refused_again(pass, parcels);
        }
    }
    end_parcels(pass, parcels);
    for (size_t g = 0; g < pass->group_count; g++) {
        const struct skep_expert_group *group = &pass->groups[g];
        pass->answered[g] = pass->answered[g] && wanted[g];
        if (!pass->answered[g]) { /* half an answer is none */
            memset(pass->result + group->first * pass->dim, 0,
                   group->count * pass->dim * sizeof *pass->result);
        }
    }
    free(pass->keepers);
    free(wanted);
    return rc;
}

static int forward(void *user, uint32_t layer, const struct skep_expert_group *groups,
                   size_t group_count, const float *x, float *y, bool *answered,
                   struct skep_error *err)
{
    struct pass pass = {.line = user,
                        .layer = layer,
                        .groups = groups,
                        .group_count = group_count,
                        .x = x,
                        .result = y,
                        .answered = answered};
    return run_pass(&pass, err);
}

static int backward(void *user, uint32_t layer, const struct skep_expert_group *groups,
                    size_t group_count, const float *x, const float *dy, float *dx, bool *answered,
                    struct skep_error *err)
{
    struct pass pass = {.line = user,
                        .layer = layer,
                        .groups = groups,
                        .group_count = group_count,
                        .x = x,
                        .dy = dy,
                        .result = dx,
                        .answered = answered};
    if (pass.line->caller->key == NULL) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "a backward pass needs the key of the caller");
    }
    return run_pass(&pass, err);
}

struct skep_expert_calls skep_caller_line_calls(struct skep_caller_line *line)
{
    return (struct skep_expert_calls){.user = line, .forward = forward, .backward = backward};
}
