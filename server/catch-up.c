#include "server/catch-up.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/crypto/hash.h"
#include "common/swarm/chunk-hash.h"
#include "common/swarm/statement.h"
#include "server/agreement.h"
#include "server/host.h"
#include "server/peers.h"
#include "server/project.h"

#define STEP_TIMEOUT_MS 10000

/* The newest version that the peer has, and what of it is here already. */
struct skep_catch_up {
    struct skep_kept_shard *shard;
    struct skep_peer_id peer;
    uint64_t version;
    struct skep_hash payload; /* skep_seal_hash() of its seal */
    struct skep_envelope envelope;
    struct skep_seal seal;
    struct skep_chunks chunks;
    uint64_t passed;              /* seals stored up to here */
    struct skep_hash passed_hash; /* the last one's place in the chain */
    struct skep_buffer file;
    size_t chunk; /* the one being fetched */
};

/* A version as a peer tells it. */
struct told_version {
    int64_t version;
    bool has_seal;
    struct skep_envelope envelope;
    struct skep_seal seal;
    struct skep_hash payload;
    bool has_chunks;
    struct skep_chunks chunks;
};

static void told_version_done(struct told_version *told)
{
    skep_envelope_done(&told->envelope);
    skep_seal_done(&told->seal);
    skep_chunks_done(&told->chunks);
}

static void finish(struct skep_catch_up *run)
{
    run->shard->catch_up = NULL;
    skep_envelope_done(&run->envelope);
    skep_seal_done(&run->seal);
    skep_chunks_done(&run->chunks);
    skep_buffer_done(&run->file);
    free(run);
}

static void give_up(struct skep_catch_up *run, const struct skep_error *reason)
{
    if (reason->code != SKEP_ERR_CANCELLED) {
        skep_log(SKEP_LOG_INFO, "%s: catching up from keeper %.12s failed: %s", run->shard->text,
                 skep_id_text(run->peer.bytes), reason->text);
    }
    finish(run);
}

/* Asks the peer for `path` below the shard's versions; only bytes range[0] .. range[1] unless range is NULL. */
static void ask(struct skep_catch_up *run, const char *path, const uint64_t range[2],
                skep_http_callback callback)
{
    struct skep_host *host = run->shard->project->host;
    const struct skep_record *record = skep_peers_find(host->peers, &run->peer);
    if (record == NULL) {
        struct skep_error reason = {0};
        skep_error_set(&reason, SKEP_ERR_NETWORK, "it is no longer there");
        give_up(run, &reason);
        return;
    }
    char *whole = skep_format("/v1/projects/%s/shards/%s/versions/%s",
                              skep_id_text(run->shard->project->manifest.project.bytes),
                              run->shard->text, path);
    struct skep_http_request request = {
        .method = "GET", .path = whole, .timeout_ms = STEP_TIMEOUT_MS};
    if (range != NULL) {
        request.ranged = true;
        request.range_first = range[0];
        request.range_last = range[1];
    }
    skep_peers_send(host->peers, record, &request, callback, run);
    free(whole);
}

/* The body of an answer with the wanted status, or the reason why not. */
static int check_answer(int result, const struct skep_http_answer *answer,
                        const struct skep_error *err, bool ranged, struct skep_error *reason)
{
    if (result != SKEP_OK) {
        if (err != NULL) {
            *reason = *err;
        }
        return skep_error_set(reason, (enum skep_err)result, "%s",
                              err != NULL ? err->text : "no answer");
    }
    if (answer->status != 200 && !(ranged && answer->status == 206)) {
        return skep_error_set(reason, SKEP_ERR_NETWORK, "it answered with status %d",
                              answer->status);
    }
    return SKEP_OK;
}

static int read_seal(const struct skep_kept_shard *shard, const struct skep_json *root,
                     struct told_version *told, struct skep_error *err)
{
    const struct skep_json *value = NULL;
    int result = skep_json_get_object(root, "version", "seal", &value, err);
    if (result == SKEP_OK) {
        result = skep_envelope_from_json(value, &told->envelope, err);
    }
    if (result == SKEP_OK) {
        result = skep_seal_open(&told->envelope, &shard->project->manifest, &told->seal,
                                &told->payload, err);
    }
    if (result == SKEP_OK && (!skep_shard_equal(&told->seal.shard, &shard->shard) ||
                              told->seal.version != (uint64_t)told->version)) {
        result = skep_error_set(err, SKEP_ERR_FORMAT, "its seal is of another shard or version");
    }
    told->has_seal = result == SKEP_OK;
    return result;
}

/* Reads {"version", "seal", "chunks"} with the seal's signatures and the chunks' root checked. */
static int read_version(const struct skep_kept_shard *shard, const struct skep_buffer *body,
                        struct told_version *told, struct skep_error *err)
{
    struct skep_json *root = NULL;
    int result = skep_json_parse(body->data, body->size, "version", &root, err);
    if (result == SKEP_OK) {
        result =
            skep_json_get_integer(root, "version", "version", 0, INT64_MAX, &told->version, err);
    }
    if (result == SKEP_OK && told->version > 0) {
        result = read_seal(shard, root, told, err);
    }
    const struct skep_json *value = NULL;
    if (result == SKEP_OK &&
        skep_json_get_object(root, "version", "chunks", &value, NULL) == SKEP_OK) {
        result = skep_chunks_from_json(value, &told->chunks, err);
        told->has_chunks = result == SKEP_OK;
    }
    if (told->has_chunks && told->has_seal) {
        struct skep_hash found = skep_chunks_root(&told->chunks);
        if (!skep_hash_equal(&found, &told->seal.state)) {
            result = skep_error_set(err, SKEP_ERR_HASH, "its chunks have another root than sealed");
        }
    }
    skep_json_free(root);
    return result;
}

static void next_step(struct skep_catch_up *run);

/* A seal between ours and the newest: the next link of the chain. */
static int pass_seal(struct skep_catch_up *run, const struct skep_buffer *body,
                     struct skep_error *err)
{
    struct told_version told = {0};
    int result = read_version(run->shard, body, &told, err);
    if (result == SKEP_OK && (!told.has_seal || told.seal.version != run->passed + 1 ||
                              !skep_hash_equal(&told.seal.previous, &run->passed_hash))) {
        result = skep_error_set(err, SKEP_ERR_HASH, "its version %llu does not follow ours",
                                (unsigned long long)run->passed + 1);
    }
    if (result == SKEP_OK) {
        result = skep_kept_shard_pass(run->shard, &told.envelope, &told.seal, &told.payload, err);
    }
    if (result == SKEP_OK) {
        run->passed = told.seal.version;
        run->passed_hash = told.payload;
    }
    told_version_done(&told);
    return result;
}

static void on_seal(void *user, int result, const struct skep_http_answer *answer,
                    const struct skep_error *err)
{
    struct skep_catch_up *run = user;
    struct skep_error reason = {0};
    result = check_answer(result, answer, err, false, &reason);
    if (result == SKEP_OK) {
        result = pass_seal(run, &answer->body, &reason);
    }
    if (result == SKEP_OK) {
        next_step(run);
    } else {
        give_up(run, &reason);
    }
}

static int take_chunk(struct skep_catch_up *run, const void *data, size_t size,
                      struct skep_error *err)
{
    struct skep_hash hash = skep_hash_of(data, size);
    if (size != skep_chunk_size(&run->chunks, run->chunk) ||
        !skep_hash_equal(&hash, &run->chunks.hashes[run->chunk])) {
        return skep_error_set(err, SKEP_ERR_HASH, "chunk %zu of version %llu is not the sealed one",
                              run->chunk, (unsigned long long)run->version);
    }
    skep_buffer_append(&run->file, data, size);
    run->chunk++;
    return SKEP_OK;
}

static void on_chunk(void *user, int result, const struct skep_http_answer *answer,
                     const struct skep_error *err)
{
    struct skep_catch_up *run = user;
    struct skep_error reason = {0};
    result = check_answer(result, answer, err, true, &reason);
    if (result == SKEP_OK) {
        result = take_chunk(run, answer->body.data, answer->body.size, &reason);
    }
    if (result == SKEP_OK) {
        next_step(run);
    } else {
        give_up(run, &reason);
    }
}

/* Chunks that our own newest state has at the same place need no request. */
static void take_known_chunks(struct skep_catch_up *run)
{
    const struct skep_kept_shard *shard = run->shard;
    while (shard->has_state && run->chunk < run->chunks.count) {
        uint64_t offset = skep_chunk_offset(&run->chunks, run->chunk);
        size_t size = skep_chunk_size(&run->chunks, run->chunk);
        if (offset + size > shard->file.size ||
            take_chunk(run, shard->file.data + offset, size, NULL) != SKEP_OK) {
            return;
        }
    }
}

/* All is here: the new head, unless agreement was faster. */
static int adopt(struct skep_catch_up *run, struct skep_error *err)
{
    struct skep_kept_shard *shard = run->shard;
    uint64_t ours = skep_kept_shard_head(shard)->version;
    int result = skep_shape_check_state(&shard->shape, run->file.data, run->file.size, err);
    if (result != SKEP_OK || (shard->has_state && ours >= run->version)) {
        return result;
    }
    bool restored = run->version == ours;
    result = restored ? skep_kept_shard_restore(shard, &run->file, err)
                      : skep_kept_shard_adopt(shard, &run->envelope, &run->seal, &run->payload,
                                              &run->file, err);
    if (result != SKEP_OK) {
        return result;
    }
    skep_log(SKEP_LOG_INFO, "%s caught up from version %llu to %llu, from keeper %.12s",
             shard->text, (unsigned long long)ours, (unsigned long long)run->version,
             skep_id_text(run->peer.bytes));
    if (shard->round != NULL && run->version == ours + 1) {
        skep_agreement_adopted(shard, &run->seal, &run->payload);
        return SKEP_OK;
    }
    return skep_agreement_start(shard, err);
}

/* The newest seal is a link of the chain like those before it. (Without any new one only the state is fetched.) */
static int check_link(const struct skep_catch_up *run, struct skep_error *err)
{
    if (run->version == run->passed + 1 &&
        !skep_hash_equal(&run->seal.previous, &run->passed_hash)) {
        return skep_error_set(err, SKEP_ERR_HASH, "its version %llu does not follow ours",
                              (unsigned long long)run->version);
    }
    return SKEP_OK;
}

static void next_step(struct skep_catch_up *run)
{
    char path[64];
    struct skep_error reason = {0};
    if (run->passed + 1 < run->version) {
        snprintf(path, sizeof path, "%llu", (unsigned long long)run->passed + 1);
        ask(run, path, NULL, on_seal);
        return;
    }
    if (check_link(run, &reason) != SKEP_OK) {
        give_up(run, &reason);
        return;
    }
    take_known_chunks(run);
    if (run->chunk < run->chunks.count) {
        uint64_t first = skep_chunk_offset(&run->chunks, run->chunk);
        uint64_t range[2] = {first, first + skep_chunk_size(&run->chunks, run->chunk) - 1};
        snprintf(path, sizeof path, "%llu/state", (unsigned long long)run->version);
        ask(run, path, range, on_chunk);
        return;
    }
    if (adopt(run, &reason) == SKEP_OK) {
        finish(run);
    } else {
        give_up(run, &reason);
    }
}

/* What the peer has: newer than ours, or the state that we lack. */
static int take_latest(struct skep_catch_up *run, const struct skep_buffer *body, bool *ret_wanted,
                       struct skep_error *err)
{
    const struct skep_kept_shard *shard = run->shard;
    const struct skep_kept_version *head = skep_kept_shard_head(shard);
    struct told_version told = {0};
    int result = read_version(shard, body, &told, err);
    uint64_t version = (uint64_t)told.version;
    *ret_wanted = result == SKEP_OK &&
                  (version > head->version || (!shard->has_state && version == head->version));
    if (*ret_wanted && !told.has_chunks) {
        result = skep_error_set(err, SKEP_ERR_STATE, "it does not hold the state itself");
    }
    if (result == SKEP_OK && *ret_wanted) {
        run->version = version;
        run->payload = told.payload;
        run->envelope = told.envelope;
        run->seal = told.seal;
        run->chunks = told.chunks;
        run->passed = head->version;
        run->passed_hash = head->payload;
        told = (struct told_version){0};
    }
    told_version_done(&told);
    return result;
}

static void on_latest(void *user, int result, const struct skep_http_answer *answer,
                      const struct skep_error *err)
{
    struct skep_catch_up *run = user;
    struct skep_error reason = {0};
    bool wanted = false;
    result = check_answer(result, answer, err, false, &reason);
    if (result == SKEP_OK) {
        result = take_latest(run, &answer->body, &wanted, &reason);
    }
    if (result != SKEP_OK) {
        give_up(run, &reason);
    } else if (!wanted) {
        finish(run);
    } else {
        next_step(run);
    }
}

static void begin(struct skep_catch_up *run);

/* The machine may have waited for what says whom to leave out. */
static int start_again(struct skep_kept_shard *shard, struct skep_error *err)
{
    return shard->has_state && skep_kept_shard_can_judge(shard) ? skep_agreement_start(shard, err)
                                                                : SKEP_OK;
}

/* A seal that our disk has lost. */
static int mend(struct skep_catch_up *run, const struct skep_buffer *body, struct skep_error *err)
{
    struct skep_kept_shard *shard = run->shard;
    struct told_version told = {0};
    int result = read_version(shard, body, &told, err);
    if (result == SKEP_OK &&
        (!told.has_seal || told.seal.version != skep_kept_shard_missing_seal(shard))) {
        result = skep_error_set(err, SKEP_ERR_FORMAT, "it told version %lld, which is not missing",
                                (long long)told.version);
    }
    if (result == SKEP_OK) {
        result = skep_kept_shard_mend(shard, &told.envelope, &told.seal, &told.payload, err);
    }
    if (result == SKEP_OK && skep_kept_shard_missing_seal(shard) == told.seal.version) {
        result = skep_error_set(
            err, SKEP_ERR_IO, "the seal of version %llu cannot be stored",
            (unsigned long long)told.seal.version); /* no pause but the next look's */
    }
    if (result == SKEP_OK) {
        result = start_again(shard, err);
    }
    told_version_done(&told);
    return result;
}

static void on_missing(void *user, int result, const struct skep_http_answer *answer,
                       const struct skep_error *err)
{
    struct skep_catch_up *run = user;
    struct skep_error reason = {0};
    result = check_answer(result, answer, err, false, &reason);
    if (result == SKEP_OK) {
        result = mend(run, &answer->body, &reason);
    }
    if (result == SKEP_OK) {
        begin(run);
    } else {
        give_up(run, &reason);
    }
}

/* No seal is missing and yet they do not say whom to leave out: they could not be read when they were looked for. */
static int read_again(struct skep_kept_shard *shard, struct skep_error *err)
{
    skep_kept_shard_load_standings(shard);
    return skep_kept_shard_can_judge(shard)
               ? start_again(shard, err)
               : skep_error_set(err, SKEP_ERR_STATE, "the seals below version %llu do not follow",
                                (unsigned long long)skep_kept_shard_head(shard)->version);
}

static void begin(struct skep_catch_up *run)
{
    struct skep_kept_shard *shard = run->shard;
    struct skep_error reason = {0};
    bool judges = skep_kept_shard_can_judge(shard);
    uint64_t missing = judges ? 0 : skep_kept_shard_missing_seal(shard);
    if (missing > 0) {
        char path[24];
        snprintf(path, sizeof path, "%llu", (unsigned long long)missing);
        ask(run, path, NULL, on_missing);
    } else if (!judges && read_again(shard, &reason) != SKEP_OK) {
        give_up(run, &reason);
    } else {
        ask(run, "latest", NULL, on_latest);
    }
}

void skep_catch_up_start(struct skep_kept_shard *shard, const struct skep_record *record)
{
    struct skep_catch_up *run = skep_alloc(1, sizeof *run);
    run->shard = shard;
    run->peer = record->keeper;
    shard->catch_up = run;
    begin(run);
}
