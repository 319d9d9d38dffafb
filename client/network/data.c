/* Data chunks: named by their hash, taken from any keeper that has them. */
#include <stdlib.h>
#include <string.h>

#include "client/network/session.h"
#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/base/log.h"

#define CHUNK_TIMEOUT_MS 15000u

struct chunks_call {
    struct skep_session *session;
    size_t pending;
    int result;
    struct skep_error err;
    skep_session_done done;
    void *user;
};

/* One chunk; keepers are asked in turn, starting at a place given by the hash so that the load spreads. */
struct chunk_fetch {
    struct chunks_call *call;
    struct skep_hash hash;
    size_t tried;
    struct skep_peer_id asked;
    struct skep_error err;
};

static void ask_chunk(struct chunk_fetch *fetch);

static void chunks_release(struct chunks_call *call)
{
    if (--call->pending == 0) {
        call->done(call->user, call->result, &call->err);
        free(call);
    }
}

static void chunk_end(struct chunk_fetch *fetch, int result)
{
    struct chunks_call *call = fetch->call;
    if (result != 0 && call->result == 0) {
        call->err = fetch->err;
        call->result =
            skep_error_prefix(&call->err, "data chunk %.16s", skep_id_text(fetch->hash.bytes));
    }
    free(fetch);
    chunks_release(call);
}

static void on_chunk(void *user, int result, const struct skep_http_answer *answer,
                     const struct skep_error *failure)
{
    struct chunk_fetch *fetch = user;
    struct skep_session *session = fetch->call->session;
    int rc = skep_answer_check(result, answer, failure, "blob", &fetch->err);
    if (rc == SKEP_ERR_CANCELLED) {
        chunk_end(fetch, rc);
        return;
    }
    if (rc == 0) {
        rc = skep_blobs_put(session->blobs, answer->body.data, answer->body.size, &fetch->hash,
                            NULL, &fetch->err);
        if (rc == SKEP_ERR_HASH) {
            skep_log(SKEP_LOG_WARNING, "keeper %.8s sent wrong bytes for chunk %.16s",
                     skep_id_text(fetch->asked.bytes), skep_id_text(fetch->hash.bytes));
            skep_peers_set_aside(session->peers, &fetch->asked, true);
        } else {
            chunk_end(fetch, rc);
            return;
        }
    } else if (rc == SKEP_ERR_NETWORK) {
        skep_peers_set_aside(session->peers, &fetch->asked, false);
    }
    ask_chunk(fetch);
}

static void ask_chunk(struct chunk_fetch *fetch)
{
    struct skep_session *session = fetch->call->session;
    size_t keepers = session->manifest.keeper_count;
    const struct skep_record *record = NULL;
    while (record == NULL && fetch->tried < keepers) {
        fetch->asked = session->manifest.keepers[(fetch->hash.bytes[0] + fetch->tried++) % keepers];
        if (!skep_peers_is_aside(session->peers, &fetch->asked)) {
            record = skep_peers_find_keeper(session->peers, &fetch->asked);
        }
    }
    if (record == NULL) {
        if (fetch->err.code == 0) {
            skep_error_set(&fetch->err, SKEP_ERR_NETWORK, "no keeper can be reached");
        }
        chunk_end(fetch, fetch->err.code);
        return;
    }
    char *path = skep_format("/v1/blobs/%s", skep_id_text(fetch->hash.bytes));
    struct skep_http_request request = {.method = "GET",
                                        .host = record->host,
                                        .port = record->port,
                                        .path = path,
                                        .pin = &record->tls_pin,
                                        .timeout_ms = CHUNK_TIMEOUT_MS,
                                        .limit = SKEP_LIMIT_CHUNK_BYTES};
    session->transport.send(session->transport.user, &request, on_chunk, fetch);
    free(path);
}

void skep_session_fetch_chunks(struct skep_session *session, const struct skep_data_set *set,
                               const size_t *places, size_t count, skep_session_done done,
                               void *user)
{
    struct chunks_call *call = skep_alloc(1, sizeof *call);
    *call = (struct chunks_call){.session = session, .pending = 1, .done = done, .user = user};
    for (size_t i = 0; i < count; i++) {
        if (skep_blobs_has(session->blobs, &set->chunks[places[i]])) {
            continue;
        }
        struct chunk_fetch *fetch = skep_alloc(1, sizeof *fetch);
        fetch->call = call;
        fetch->hash = set->chunks[places[i]];
        call->pending++; /* NOLINT(clang-analyzer-unix.Malloc): the first 1 of `pending` is ours */
        ask_chunk(fetch);
    }
    chunks_release(call); /* NOLINT(clang-analyzer-unix.Malloc) */
}
