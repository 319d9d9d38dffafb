#include "client/network/session.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/swarm/replicas.h"
#include "common/swarm/statement.h"
#include "common/sys/clock.h"
#include "common/sys/file.h"

#define PARALLEL 16u
#define HEAD_TIMEOUT_MS 5000u
#define MANIFEST_TIMEOUT_MS 15000u
#define SHARDS_AT_ONCE 6u
#define PART_KEPT_S 3600

/* After closing began nothing leaves any more; callers still get their callback. */
static void session_send(void *user, const struct skep_http_request *request,
                         skep_http_callback callback, void *callback_user)
{
    struct skep_session *session = user;
    if (session->closing) {
        struct skep_error err = {0};
        skep_error_set(&err, SKEP_ERR_CANCELLED, "stopped");
        callback(callback_user, SKEP_ERR_CANCELLED, NULL, &err);
        return;
    }
    skep_http_send(session->http, request, callback, callback_user);
}

/* Takes the manifest in if it is the project's. */
static int take_manifest(struct skep_session *session, const void *text, size_t size,
                         struct skep_error *err)
{
    struct skep_manifest manifest = {0};
    struct skep_hash hash;
    int rc = skep_manifest_open(text, size, &session->project, &manifest, &hash, err);
    if (rc != 0) {
        return rc;
    }
    rc = skep_heads_init(&session->heads, &manifest, err);
    session->sealed = rc == 0 ? calloc(session->heads.count, sizeof *session->sealed) : NULL;
    if (rc == 0 && session->sealed == NULL) {
        skep_heads_done(&session->heads);
        rc = skep_error_set(err, SKEP_ERR_MEMORY, "no memory for the shards of the model");
    }
    if (rc != 0) {
        skep_manifest_done(&manifest);
        return rc;
    }
    session->manifest = manifest;
    session->manifest_hash = hash;
    session->has_manifest = true;
    return 0;
}

static void load_manifest(struct skep_session *session)
{
    char *path = skep_format("%s/manifest", session->folder);
    struct skep_buffer text = {0};
    struct skep_error err = {0};
    if (skep_file_exists(path)) {
        int rc = skep_file_read(path, SKEP_LIMIT_STATEMENT_BYTES, &text, &err);
        if (rc == 0) {
            rc = take_manifest(session, text.data, text.size, &err);
        }
        if (rc != 0) {
            skep_log(SKEP_LOG_WARNING, "%s: %s; fetching it again", path, err.text);
        }
    }
    skep_buffer_done(&text);
    free(path);
}

static int open_folders(struct skep_session *session, struct skep_error *err)
{
    char *states = skep_format("%s/states", session->folder);
    char *data = skep_format("%s/data", session->folder);
    int rc = skep_folder_make(states, err);
    if (rc == 0) {
        rc = skep_folder_make(data, err);
    }
    if (rc == 0) {
        rc = skep_blobs_open(data, &session->blobs, err);
    }
    free(states);
    free(data);
    return rc;
}

int skep_session_open(struct skep_loop *loop, const struct skep_session_options *options,
                      struct skep_session **ret_session, struct skep_error *err)
{
    struct skep_session *session = skep_alloc(1, sizeof *session);
    session->loop = loop;
    session->project = options->project;
    session->folder = skep_strdup(options->folder);
    session->transport = (struct skep_transport){.send = session_send, .user = session};
    session->turn = (unsigned)getpid();
    session->http = skep_http_client_new(loop, PARALLEL);
    char *addresses = skep_format("%s/addresses", session->folder);
    struct skep_peers_options peers = {.project = options->project,
                                       .bootstrap = options->bootstrap,
                                       .listen_host = options->listen_host,
                                       .addresses_path = addresses};
    int rc = open_folders(session, err);
    if (rc == 0) {
        rc = skep_peers_new(loop, &session->transport, &peers, &session->peers, err);
    }
    free(addresses);
    if (rc != 0) {
        skep_session_close(session);
        return rc;
    }
    load_manifest(session);
    *ret_session = session;
    return 0;
}

void skep_session_close(struct skep_session *session)
{
    if (session == NULL) {
        return;
    }
    session->closing = true;
    skep_http_client_free(session->http);
    skep_peers_free(session->peers);
    skep_blobs_close(session->blobs);
    if (session->has_manifest) {
        skep_heads_done(&session->heads);
        skep_manifest_done(&session->manifest);
    }
    free(session->sealed);
    free(session->folder);
    free(session);
}

/* ---- finding: keepers, then the manifest ---- */

struct find {
    struct skep_session *session;
    size_t next; /* record to ask for the manifest */
    struct skep_error err;
    skep_session_done done;
    void *user;
};

static void ask_manifest(struct find *find);

static void find_end(struct find *find, int result)
{
    find->done(find->user, result, &find->err);
    free(find);
}

static void on_manifest(void *user, int result, const struct skep_http_answer *answer,
                        const struct skep_error *failure)
{
    struct find *find = user;
    struct skep_session *session = find->session;
    int rc = skep_answer_check(result, answer, failure, "manifest", &find->err);
    if (rc == 0 && !session->has_manifest) {
        rc = take_manifest(session, answer->body.data, answer->body.size, &find->err);
    }
    if (rc == 0) {
        char *path = skep_format("%s/manifest", session->folder);
        rc = skep_file_write(path, 0600, answer->body.data, answer->body.size, &find->err);
        free(path);
        find_end(find, rc);
    } else if (rc == SKEP_ERR_CANCELLED) {
        find_end(find, rc);
    } else {
        ask_manifest(find);
    }
}

static void ask_manifest(struct find *find)
{
    struct skep_session *session = find->session;
    if (find->next >= skep_peers_count(session->peers)) {
        if (find->err.code == 0) {
            skep_error_set(&find->err, SKEP_ERR_NETWORK, "no keeper gave the manifest");
        }
        find_end(find, find->err.code);
        return;
    }
    const struct skep_record *record = skep_peers_at(session->peers, find->next++);
    char *path = skep_format("/v1/projects/%s/manifest", skep_id_text(session->project.bytes));
    struct skep_http_request request = {.method = "GET",
                                        .host = record->host,
                                        .port = record->port,
                                        .path = path,
                                        .pin = &record->tls_pin,
                                        .timeout_ms = MANIFEST_TIMEOUT_MS,
                                        .limit = SKEP_LIMIT_STATEMENT_BYTES};
    session->transport.send(session->transport.user, &request, on_manifest, find);
    free(path);
}

static void on_peers(void *user, int result, const struct skep_error *err)
{
    struct find *find = user;
    if (result != 0) {
        find->err = *err;
        find_end(find, result);
    } else if (find->session->has_manifest) {
        find_end(find, 0);
    } else {
        ask_manifest(find);
    }
}

void skep_session_find(struct skep_session *session, skep_session_done done, void *user)
{
    struct find *find = skep_alloc(1, sizeof *find);
    *find = (struct find){.session = session, .done = done, .user = user};
    skep_peers_find(session->peers, on_peers, find);
}

/* ---- heads ---- */

struct heads_call {
    struct skep_session *session;
    size_t pending;
    size_t answered;
    struct skep_error err;
    skep_session_done done;
    void *user;
};

struct head_request {
    struct heads_call *call;
    struct skep_peer_id keeper;
};

static void heads_release(struct heads_call *call)
{
    if (--call->pending > 0) {
        return;
    }
    int result = 0;
    if (call->answered == 0 || !call->session->heads.heads[0].known) {
        if (call->err.code == 0) {
            skep_error_set(&call->err, SKEP_ERR_NETWORK,
                           "no keeper that the manifest names can be reached");
        }
        result = call->err.code;
    }
    call->done(call->user, result, &call->err);
    free(call);
}

static void on_head(void *user, int result, const struct skep_http_answer *answer,
                    const struct skep_error *failure)
{
    struct head_request *request = user;
    struct heads_call *call = request->call;
    struct skep_session *session = call->session;
    struct skep_json *root = NULL;
    struct skep_error err = {0};
    int rc = skep_answer_json(result, answer, failure, "head", &root, &err);
    if (rc == 0) {
        rc = skep_heads_read(&session->heads, &session->manifest, &request->keeper, root, &err);
    }
    if (rc == 0) {
        call->answered++;
    } else {
        call->err = err;
        if (rc != SKEP_ERR_CANCELLED && rc != SKEP_ERR_NOT_FOUND) {
            skep_peers_set_aside(session->peers, &request->keeper, rc == SKEP_ERR_FORMAT);
        }
    }
    skep_json_free(root);
    free(request);
    heads_release(call);
}

/* False if the keeper cannot be asked. */
static bool ask_head(struct heads_call *call, const struct skep_peer_id *keeper)
{
    struct skep_session *session = call->session;
    const struct skep_record *record = skep_peers_find_keeper(session->peers, keeper);
    if (record == NULL || skep_peers_is_aside(session->peers, keeper)) {
        return false;
    }
    struct head_request *head = skep_alloc(1, sizeof *head);
    *head = (struct head_request){.call = call, .keeper = *keeper};
    char *path = skep_format("/v1/projects/%s/head", skep_id_text(session->project.bytes));
    struct skep_http_request request = {.method = "GET",
                                        .host = record->host,
                                        .port = record->port,
                                        .path = path,
                                        .pin = &record->tls_pin,
                                        .timeout_ms = HEAD_TIMEOUT_MS};
    call->pending++;
    session->transport.send(session->transport.user, &request, on_head, head);
    free(path);
    return true;
}

static struct heads_call *heads_call_new(struct skep_session *session, skep_session_done done,
                                         void *user)
{
    assert(session->has_manifest);
    struct heads_call *call = skep_alloc(1, sizeof *call);
    *call = (struct heads_call){.session = session, .pending = 1, .done = done, .user = user};
    (void)skep_peers_count(session->peers); /* expires old records */
    return call;
}

void skep_session_ask_heads(struct skep_session *session, skep_session_done done, void *user)
{
    struct heads_call *call = heads_call_new(session, done, user);
    for (size_t i = 0; i < session->manifest.keeper_count; i++) {
        (void)ask_head(call, &session->manifest.keepers[i]);
    }
    heads_release(call);
}

void skep_session_poll_trunk(struct skep_session *session, skep_session_done done, void *user)
{
    struct heads_call *call = heads_call_new(session, done, user);
    struct skep_shard trunk = {.kind = SKEP_SHARD_TRUNK};
    struct skep_replicas replicas = skep_replicas_of(&session->manifest, &trunk);
    size_t start = session->turn++;
    for (size_t n = 0; n < replicas.count; n++) {
        if (ask_head(call, &replicas.keepers[(start + n) % replicas.count])) {
            break;
        }
    }
    heads_release(call);
}

/* ---- several shards ---- */

struct shards_call {
    struct skep_session *session;
    size_t *shards;
    size_t count;
    size_t next;
    size_t running;
    bool starting;
    bool *ret_have;
    int result;
    struct skep_error err;
    skep_session_done done;
    void *user;
};

struct shard_request {
    struct shards_call *call;
    size_t i;
};

static void start_shards(struct shards_call *call);

static void on_shard(void *user, int result, const struct skep_error *err)
{
    struct shard_request *request = user;
    struct shards_call *call = request->call;
    call->ret_have[request->i] = result == 0;
    free(request);
    call->running--;
    if (result != 0 && call->result == 0) {
        call->result = result;
        call->err = *err;
    }
    start_shards(call);
}

static void start_shards(struct shards_call *call)
{
    if (call->starting) {
        return;
    }
    call->starting = true;
    while (call->next < call->count && call->running < SHARDS_AT_ONCE) {
        struct shard_request *request = skep_alloc(1, sizeof *request);
        *request = (struct shard_request){.call = call, .i = call->next++};
        call->running++;
        skep_shard_fetch(call->session, call->shards[request->i], on_shard, request);
    }
    call->starting = false;
    if (call->running == 0) {
        call->done(call->user, call->result, &call->err);
        free(call->shards);
        free(call);
    }
}

void skep_session_fetch_shards(struct skep_session *session, const size_t *shards, size_t count,
                               bool *ret_have, skep_session_done done, void *user)
{
    struct shards_call *call = skep_alloc(1, sizeof *call);
    *call = (struct shards_call){.session = session,
                                 .shards = skep_alloc(count + 1, sizeof *shards),
                                 .count = count,
                                 .ret_have = ret_have,
                                 .done = done,
                                 .user = user};
    memcpy(call->shards, shards, count * sizeof *shards);
    start_shards(call);
}

struct prune {
    struct skep_session *session;
    int64_t before_s;
};

static void prune_one(void *user, const char *name)
{
    struct prune *prune = user;
    struct skep_session *session = prune->session;
    struct skep_hash root = {{0}}; /* no state has this root: a part file matches none */
    size_t length = strlen(name);
    int64_t before_s = prune->before_s;
    if (length > 5 && strcmp(name + length - 5, ".part") == 0) {
        before_s -= PART_KEPT_S; /* a fetch may go on from it */
    } else if (!skep_hex_decode(name, root.bytes, sizeof root.bytes)) {
        return;
    }
    for (size_t i = 0; i < session->heads.count; i++) {
        const struct skep_head *head = &session->heads.heads[i];
        const struct skep_sealed *sealed = &session->sealed[i];
        if ((head->known && skep_hash_equal(&head->root, &root)) ||
            (sealed->known && skep_hash_equal(&sealed->root, &root))) {
            return;
        }
    }
    char *path = skep_format("%s/states/%s", session->folder, name);
    struct stat status;
    if (stat(path, &status) == 0 && (int64_t)status.st_mtime <= before_s) {
        (void)unlink(path);
    }
    free(path);
}

void skep_session_prune(struct skep_session *session, int64_t older_than_s)
{
    struct prune prune = {.session = session, .before_s = skep_clock_unix_s() - older_than_s};
    char *states = skep_format("%s/states", session->folder);
    (void)skep_folder_list(states, prune_one, &prune, NULL);
    free(states);
}

/* ---- waiting ---- */

void skep_session_woken(void *user, int result, const struct skep_error *err)
{
    struct skep_wait *wait = user;
    wait->result = result;
    wait->err = *err;
    wait->done = true;
}

int skep_session_wait(struct skep_session *session, struct skep_wait *wait, uint64_t limit_ms,
                      struct skep_error *err)
{
    if (!skep_loop_run_until(session->loop, &wait->done, limit_ms)) {
        return skep_error_set(err, SKEP_ERR_NETWORK, "no answer within %llu s",
                              (unsigned long long)(limit_ms / 1000));
    }
    if (wait->result != 0 && err != NULL) {
        *err = wait->err;
    }
    return wait->result;
}
