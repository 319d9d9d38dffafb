#include "server/sync.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/crypto/hash.h"
#include "server/agreement.h"
#include "server/catch-up.h"
#include "server/host.h"
#include "server/peers.h"
#include "server/project.h"

#define LOOK_TIMEOUT_MS 5000
#define CHUNK_TIMEOUT_MS 10000
#define CHUNK_FAILURES                                                                             \
    64u /* between two looks: while a publisher uploads, others may have what one lacks */

struct skep_sync {
    struct skep_host *host;
    struct skep_timer *timer;
};

static void look(void *user);

struct skep_sync *skep_sync_new(struct skep_host *host)
{
    struct skep_sync *sync = skep_alloc(1, sizeof *sync);
    sync->host = host;
    sync->timer = skep_timer_new(host->loop, look, sync);
    return sync;
}

void skep_sync_free(struct skep_sync *sync)
{
    if (sync != NULL) {
        skep_timer_free(sync->timer);
        free(sync);
    }
}

void skep_sync_start(struct skep_sync *sync)
{
    skep_timer_start(sync->timer, SKEP_LOOK_MS / 3, SKEP_LOOK_MS);
}

void skep_sync_shard(struct skep_kept_shard *shard, const struct skep_peer_id *peer)
{
    struct skep_host *host = shard->project->host;
    const struct skep_record *record = peer != NULL ? skep_peers_find(host->peers, peer) : NULL;
    if (record == NULL) {
        /* Any live keeper of the replica set, beginning anywhere. */
        size_t first = skep_rng_below(&host->rng, shard->replicas.count);
        for (size_t i = 0; i < shard->replicas.count && record == NULL; i++) {
            size_t place = (first + i) % shard->replicas.count;
            record = skep_peers_find(host->peers, &shard->replicas.keepers[place]);
        }
    }
    if (record != NULL && shard->catch_up == NULL && !host->leaving) {
        skep_catch_up_start(shard, record);
    }
}

/* A shard that is behind at two looks in a row is not just about to hear the news. */
static void compare_head(struct skep_kept_shard *shard, uint64_t theirs,
                         const struct skep_peer_id *peer)
{
    uint64_t ours = skep_kept_shard_head(shard)->version;
    bool ahead = theirs > ours;
    if (ahead && shard->behind && shard->behind_version == ours) {
        skep_sync_shard(shard, peer);
    }
    shard->behind = ahead;
    shard->behind_version = ours;
}

/* The question for one project's heads, and who was asked. */
struct head_question {
    struct skep_project *project;
    struct skep_peer_id peer;
};

static int read_heads(const struct head_question *question, const struct skep_buffer *body,
                      struct skep_error *err)
{
    struct skep_json *root = NULL;
    int result = skep_json_parse(body->data, body->size, "head", &root, err);
    if (result != SKEP_OK) {
        return result;
    }
    const struct skep_json *shards = NULL;
    result = skep_json_get_object(root, "head", "shards", &shards, err);
    const struct skep_json *value = NULL;
    const char *key = result == SKEP_OK ? skep_json_next(shards, NULL, &value) : NULL;
    while (key != NULL && result == SKEP_OK) {
        int64_t version = 0;
        struct skep_shard shard;
        result = skep_json_get_integer(value, key, "version", 0, INT64_MAX, &version, err);
        if (result == SKEP_OK && skep_shard_parse(key, &shard)) {
            struct skep_kept_shard *kept = skep_project_shard(question->project, &shard, NULL);
            if (kept != NULL) {
                compare_head(kept, (uint64_t)version, &question->peer);
            }
        }
        key = skep_json_next(shards, key, &value);
    }
    skep_json_free(root);
    return result;
}

static void on_heads(void *user, int result, const struct skep_http_answer *answer,
                     const struct skep_error *err)
{
    struct head_question *question = user;
    struct skep_error reason = {0};
    if (result == SKEP_OK && answer->status == 200) {
        result = read_heads(question, &answer->body, &reason);
    } else if (result != SKEP_OK && err != NULL) {
        reason = *err;
    }
    if (result != SKEP_OK && result != SKEP_ERR_CANCELLED) {
        skep_log(SKEP_LOG_DEBUG, "heads of keeper %.12s: %s", skep_id_text(question->peer.bytes),
                 reason.text);
    }
    free(question);
}

static void ask_heads(struct skep_project *project)
{
    struct skep_host *host = project->host;
    const struct skep_record *record =
        skep_peers_of(host->peers, project, skep_rng_below(&host->rng, SKEP_LIMIT_KEEPERS));
    if (record == NULL) {
        return;
    }
    struct head_question *question = skep_alloc(1, sizeof *question);
    *question = (struct head_question){.project = project, .peer = record->keeper};
    char path[64 + SKEP_ID_TEXT_SIZE];
    snprintf(path, sizeof path, "/v1/projects/%s/head",
             skep_id_text(project->manifest.project.bytes));
    struct skep_http_request request = {
        .method = "GET", .path = path, .timeout_ms = LOOK_TIMEOUT_MS};
    skep_peers_send(host->peers, record, &request, on_heads, question);
}

/* Shards without state, or without the seals that say whom to leave out, look for them; machines that the disk stopped start again. */
static void mend_shards(struct skep_project *project)
{
    for (size_t i = 0; i < project->shard_count; i++) {
        struct skep_kept_shard *shard = project->shards[i];
        if (shard == NULL || shard->round != NULL) {
            continue;
        }
        struct skep_error reason = {0};
        if (!shard->has_state || !skep_kept_shard_can_judge(shard)) {
            skep_sync_shard(shard, NULL);
        } else if (skep_agreement_start(shard, &reason) != SKEP_OK) {
            skep_log(SKEP_LOG_ERROR, "%s: %s", shard->text, reason.text);
        }
    }
}

static void look(void *user)
{
    struct skep_sync *sync = user;
    if (sync->host->leaving) {
        return;
    }
    for (size_t i = 0; i < sync->host->project_count; i++) {
        struct skep_project *project = sync->host->projects[i];
        mend_shards(project);
        ask_heads(project);
        project->chunk_failures = 0;
        skep_sync_chunks(project);
    }
}

/* A data chunk on its way. */
struct chunk_question {
    struct skep_project *project;
    struct skep_data_chunk *chunk;
};

static int store_chunk(const struct chunk_question *question, const struct skep_buffer *body,
                       struct skep_error *err)
{
    struct skep_project *project = question->project;
    int result = skep_blobs_put(project->host->blobs, body->data, body->size,
                                &question->chunk->hash, NULL, err);
    if (result == SKEP_OK) {
        skep_project_chunk_stored(project, question->chunk);
    }
    return result;
}

static void on_chunk(void *user, int result, const struct skep_http_answer *answer,
                     const struct skep_error *err)
{
    struct chunk_question question = *(struct chunk_question *)user;
    free(user);
    question.chunk->asked = false;
    if (result == SKEP_ERR_CANCELLED) {
        return;
    }
    struct skep_error reason = {0};
    if (result == SKEP_OK && answer->status == 200) {
        result = store_chunk(&question, &answer->body, &reason);
    } else if (result == SKEP_OK) {
        result = skep_error_set(&reason, SKEP_ERR_NOT_FOUND, "status %d", answer->status);
    } else if (err != NULL) {
        reason = *err;
    }
    if (result != SKEP_OK) {
        question.chunk->asks++; /* the next keeper */
        question.project->chunk_failures++;
    }
    if (result != SKEP_OK && result != SKEP_ERR_NOT_FOUND) {
        skep_log(SKEP_LOG_INFO, "data chunk %.12s: %s", skep_id_text(question.chunk->hash.bytes),
                 reason.text);
    } else if (question.project->chunk_failures < CHUNK_FAILURES) {
        skep_sync_chunks(question.project);
    }
}

static bool ask_chunk(struct skep_project *project, size_t place)
{
    struct skep_data_chunk *chunk = &project->chunks[place];
    struct skep_peers *peers = project->host->peers;
    const struct skep_record *record = skep_peers_of(peers, project, place + chunk->asks);
    if (record == NULL) {
        return false;
    }
    struct chunk_question *question = skep_alloc(1, sizeof *question);
    *question = (struct chunk_question){.project = project, .chunk = chunk};
    chunk->asked = true;
    char path[32 + SKEP_ID_TEXT_SIZE];
    snprintf(path, sizeof path, "/v1/blobs/%s", skep_id_text(chunk->hash.bytes));
    struct skep_http_request request = {.method = "GET",
                                        .path = path,
                                        .timeout_ms = CHUNK_TIMEOUT_MS,
                                        .limit = SKEP_LIMIT_CHUNK_BYTES};
    skep_peers_send(peers, record, &request, on_chunk, question);
    return true;
}

void skep_sync_chunks(struct skep_project *project)
{
    if (project->chunks_held == project->chunk_count || project->host->leaving) {
        return;
    }
    size_t under_way = 0;
    for (size_t i = 0; i < project->chunk_count; i++) {
        under_way += project->chunks[i].asked;
    }
    /* Least often asked first, so that chunks which nobody has yet do not block the others. */
    while (under_way < SKEP_CHUNKS_AT_ONCE) {
        size_t best = SIZE_MAX;
        for (size_t i = 0; i < project->chunk_count; i++) {
            const struct skep_data_chunk *chunk = &project->chunks[i];
            if (!chunk->held && !chunk->asked &&
                (best == SIZE_MAX || chunk->asks < project->chunks[best].asks)) {
                best = i;
            }
        }
        if (best == SIZE_MAX || !ask_chunk(project, best)) {
            return;
        }
        under_way++;
    }
}
