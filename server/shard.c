#include "server/shard.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/crypto/hash.h"
#include "common/swarm/chunk-hash.h"
#include "server/host.h"
#include "server/project.h"
#include "server/trust.h"

static struct skep_keeper_db *db_of(const struct skep_kept_shard *shard)
{
    return shard->project->host->db;
}

static struct skep_blobs *blobs_of(const struct skep_kept_shard *shard)
{
    return shard->project->host->blobs;
}

static const struct skep_project_id *project_of(const struct skep_kept_shard *shard)
{
    return &shard->project->manifest.project;
}

const struct skep_kept_version *skep_kept_shard_head(const struct skep_kept_shard *shard)
{
    return &shard->versions[0];
}

struct skep_shard_head skep_kept_shard_admission_head(const struct skep_kept_shard *shard)
{
    struct skep_shard_head head = {.version = shard->versions[0].version};
    for (size_t i = 0; i < shard->version_count; i++) {
        uint64_t behind = head.version - shard->versions[i].version;
        if (behind <= SKEP_LIMIT_STALENESS) {
            head.roots[behind] = shard->versions[i].root;
            head.beacons[behind] = shard->versions[i].payload;
        }
    }
    return head;
}

struct skep_kept_version *skep_kept_shard_version(struct skep_kept_shard *shard, uint64_t version)
{
    for (size_t i = 0; i < shard->version_count; i++) {
        if (shard->versions[i].version == version) {
            return &shard->versions[i];
        }
    }
    return NULL;
}

int skep_kept_shard_state(struct skep_kept_shard *shard, uint64_t version, struct skep_buffer *room,
                          const struct skep_buffer **ret_data, struct skep_error *err)
{
    struct skep_kept_version *kept = skep_kept_shard_version(shard, version);
    if (kept == &shard->versions[0] && shard->has_state) {
        *ret_data = &shard->file;
        return SKEP_OK;
    }
    struct skep_error reason = {0};
    if (kept == NULL || kept == &shard->versions[0] ||
        skep_blobs_get(blobs_of(shard), &kept->state, room, &reason) != SKEP_OK) {
        return skep_error_set(err, SKEP_ERR_NOT_FOUND,
                              "the state of %s version %llu is not held here; the newest version "
                              "is %llu",
                              shard->text, (unsigned long long)version,
                              (unsigned long long)shard->versions[0].version);
    }
    *ret_data = room;
    return SKEP_OK;
}

int skep_kept_shard_chunks(struct skep_kept_shard *shard, uint64_t version,
                           const struct skep_chunks **ret_chunks, struct skep_error *err)
{
    struct skep_kept_version *kept = skep_kept_shard_version(shard, version);
    if (kept == NULL || !kept->has_chunks) {
        struct skep_buffer room = {0};
        const struct skep_buffer *data = NULL;
        int result = skep_kept_shard_state(shard, version, &room, &data, err);
        if (result != SKEP_OK) {
            skep_buffer_done(&room);
            return result;
        }
        assert(kept != NULL && data != NULL &&
               "the state of a version that is not kept was refused");
        skep_chunks_of(data->data, data->size, shard->project->manifest.chunk_bytes, &kept->chunks);
        kept->has_chunks = true;
        skep_buffer_done(&room);
    }
    *ret_chunks = &kept->chunks;
    return SKEP_OK;
}

const struct skep_round_update *skep_kept_shard_merged(const struct skep_kept_shard *shard,
                                                       const struct skep_hash *update,
                                                       const struct skep_peer_id *donor,
                                                       uint64_t base_version)
{
    for (size_t i = 0; i < shard->recent_count; i++) {
        const struct skep_round_update *recent = &shard->recent[i];
        if (skep_hash_equal(&recent->hash, update) ||
            (skep_peer_id_equal(&recent->donor, donor) && recent->base_version == base_version)) {
            return recent;
        }
    }
    return NULL;
}

/* The updates merged in the kept versions, from their receipts. */
static int load_recent(struct skep_kept_shard *shard, struct skep_error *err)
{
    struct skep_round_update *recent = NULL;
    size_t total = 0;
    for (size_t i = 0; i < shard->version_count; i++) {
        struct skep_receipt_row *rows = NULL;
        size_t count = 0;
        int result = skep_keeper_db_get_receipts(db_of(shard), project_of(shard), &shard->shard,
                                                 shard->versions[i].version, &rows, &count, err);
        if (result != SKEP_OK && result != SKEP_ERR_NOT_FOUND) {
            free(recent);
            return result;
        }
        recent = skep_realloc(recent, total + count + 1, sizeof *recent);
        for (size_t j = 0; j < count; j++) {
            recent[total++] = (struct skep_round_update){.hash = rows[j].update,
                                                         .donor = rows[j].donor,
                                                         .base_version = rows[j].base_version};
        }
        free(rows);
    }
    free(shard->recent);
    shard->recent = recent;
    shard->recent_count = total;
    return SKEP_OK;
}

static bool state_used(const struct skep_kept_shard *shard, const struct skep_hash *state)
{
    for (size_t i = 0; i < shard->version_count; i++) {
        if (skep_hash_equal(&shard->versions[i].state, state)) {
            return true;
        }
    }
    return false;
}

/* The oldest kept version leaves, with its state and the update files that it merged. */
static void drop_oldest(struct skep_kept_shard *shard)
{
    struct skep_kept_version oldest = shard->versions[--shard->version_count];
    skep_chunks_done(&oldest.chunks);
    if (!state_used(shard, &oldest.state)) {
        skep_blobs_remove(blobs_of(shard), &oldest.state);
    }
    struct skep_receipt_row *rows = NULL;
    size_t count = 0;
    if (skep_keeper_db_get_receipts(db_of(shard), project_of(shard), &shard->shard, oldest.version,
                                    &rows, &count, NULL) == SKEP_OK) {
        for (size_t i = 0; i < count; i++) {
            skep_blobs_remove(blobs_of(shard), &rows[i].update);
        }
    }
    free(rows);
}

/* Makes `version` the newest. */
static void push_version(struct skep_kept_shard *shard, const struct skep_kept_version *version)
{
    if (shard->version_count == SKEP_KEPT_VERSIONS) {
        drop_oldest(shard);
    }
    memmove(&shard->versions[1], &shard->versions[0],
            shard->version_count * sizeof shard->versions[0]);
    shard->versions[0] = *version;
    shard->version_count++;
}

/* Names of waiting update files that a version makes useless: stale ones, and rivals of those in its list. */
struct stale_files {
    const struct skep_seal *seal;
    size_t count;
    struct skep_hash *hashes;
};

static bool is_rival(const struct skep_seal *seal, const struct skep_hash *update,
                     const struct skep_peer_id *donor, uint64_t base_version)
{
    for (size_t i = 0; i < seal->receipt_count; i++) {
        const struct skep_receipt *receipt = &seal->receipts[i];
        if (receipt->base_version == base_version && skep_peer_id_equal(&receipt->donor, donor)) {
            return !skep_hash_equal(&receipt->update, update);
        }
    }
    return false;
}

static int push_if_stale(void *user, const struct skep_hash *update,
                         const struct skep_peer_id *donor, uint64_t base_version)
{
    struct stale_files *stale = user;
    if (base_version + SKEP_LIMIT_STALENESS < stale->seal->version ||
        is_rival(stale->seal, update, donor, base_version)) {
        stale->hashes = skep_realloc(stale->hashes, stale->count + 1, sizeof *stale->hashes);
        stale->hashes[stale->count++] = *update;
    }
    return SKEP_OK;
}

static void note_seal(struct skep_kept_shard *shard, const struct skep_seal *seal)
{
    struct skep_project *project = shard->project;
    struct skep_last_seal last = {.version = seal->version};
    memcpy(last.shard, shard->text, sizeof last.shard);
    for (size_t i = 0; i < seal->receipt_count; i++) {
        last.updates += seal->receipts[i].merged;
    }
    last.donors = last.updates; /* a list has one update of a donor */
    project->last_seal = last;
    if (shard->shard.kind == SKEP_SHARD_TRUNK && last.donors > project->most_donors_in_seal) {
        project->most_donors_in_seal = last.donors;
    }
}

/* Rows of the version and its receipts, in one transaction. */
static int write_row(struct skep_kept_shard *shard, const struct skep_envelope *envelope,
                     const struct skep_seal *seal, const struct skep_kept_version *version,
                     struct skep_error *err)
{
    char *text = skep_envelope_write(envelope);
    struct skep_receipt_row *rows = skep_alloc(seal->receipt_count + 1, sizeof *rows);
    for (size_t i = 0; i < seal->receipt_count; i++) {
        const struct skep_receipt *receipt = &seal->receipts[i];
        rows[i] = (struct skep_receipt_row){.update = receipt->update,
                                            .donor = receipt->donor,
                                            .base_version = receipt->base_version,
                                            .credit_micro = receipt->credit_micro,
                                            .merged = receipt->merged,
                                            .copy = receipt->copy,
                                            .agreement_permille = receipt->agreement_permille};
    }
    struct skep_version_row row = {.version = version->version,
                                   .payload_hash = version->payload,
                                   .root = version->root,
                                   .state = version->state,
                                   .seal = text};
    skep_trust_apply(shard->project, seal, &row);
    int result = skep_keeper_db_add_version(db_of(shard), project_of(shard), &shard->shard, &row,
                                            rows, seal->receipt_count, err);
    if (result != SKEP_OK && row.reputation != NULL) {
        skep_trust_forget(shard->project);
    }
    free((void *)row.reputation);
    free(rows);
    free(text);
    return result;
}

/* The rows, and then the removal of waiting files that they make useless. */
static int store_rows(struct skep_kept_shard *shard, const struct skep_envelope *envelope,
                      const struct skep_seal *seal, const struct skep_kept_version *version,
                      struct skep_error *err)
{
    struct stale_files stale = {.seal = seal};
    int result = skep_keeper_db_each_update(db_of(shard), project_of(shard), &shard->shard,
                                            push_if_stale, &stale, err);
    if (result == SKEP_OK) {
        result = write_row(shard, envelope, seal, version, err);
    }
    for (size_t i = 0; result == SKEP_OK && i < stale.count; i++) {
        skep_blobs_remove(blobs_of(shard), &stale.hashes[i]);
    }
    free(stale.hashes);
    if (result == SKEP_OK) {
        note_seal(shard, seal);
    }
    return result;
}

/* The newest rows into `versions`, which is empty. */
static int load_rows(struct skep_kept_shard *shard, struct skep_error *err)
{
    uint64_t wanted = UINT64_MAX;
    while (shard->version_count < SKEP_KEPT_VERSIONS) {
        struct skep_version_row row = {0};
        int result = skep_keeper_db_get_version(db_of(shard), project_of(shard), &shard->shard,
                                                wanted, &row, err);
        if (result != SKEP_OK) {
            return result == SKEP_ERR_NOT_FOUND && shard->version_count > 0 ? SKEP_OK : result;
        }
        free((void *)row.seal);
        shard->versions[shard->version_count++] =
            (struct skep_kept_version){.version = row.version,
                                       .payload = row.payload_hash,
                                       .root = row.root,
                                       .state = row.state,
                                       .since_ms = UINT64_MAX};
        if (row.version == 0) {
            return SKEP_OK;
        }
        wanted = row.version - 1;
    }
    return SKEP_OK;
}

/* Makes a stored version the newest in memory; after a jump its predecessors are read from their rows. */
static int show_version(struct skep_kept_shard *shard, const struct skep_kept_version *version,
                        const struct skep_seal *seal, struct skep_error *err)
{
    if (version->version == shard->versions[0].version + 1) {
        push_version(shard, version);
        skep_standings_push(shard->standings, seal);
    } else {
        while (shard->version_count > 0) {
            drop_oldest(shard);
        }
        int result = load_rows(shard, err);
        if (result != SKEP_OK) {
            return result;
        }
        skep_kept_shard_load_standings(shard);
    }
    return load_recent(shard, err);
}

static void set_file(struct skep_kept_shard *shard, struct skep_buffer *take_file)
{
    skep_buffer_done(&shard->file);
    shard->file = *take_file;
    *take_file = (struct skep_buffer){0};
    shard->has_state = true;
    shard->merge.valid = false;
}

static struct skep_hash root_of(const struct skep_kept_shard *shard, const struct skep_buffer *file)
{
    struct skep_chunks chunks = {0};
    skep_chunks_of(file->data, file->size, shard->project->manifest.chunk_bytes, &chunks);
    struct skep_hash root = skep_chunks_root(&chunks);
    skep_chunks_done(&chunks);
    return root;
}

/* Names the merge of a list onto a version, so that a commit finds the merge that the vote was for. */
static struct skep_hash merge_key(uint64_t base, const struct skep_round_update *list, size_t count)
{
    struct skep_hasher *hasher = skep_hasher_new();
    uint8_t number[8];
    skep_put_u64(number, base);
    skep_hasher_add(hasher, number, sizeof number);
    for (size_t i = 0; i < count; i++) {
        skep_hasher_add(hasher, list[i].hash.bytes, SKEP_ID_SIZE);
    }
    struct skep_hash key = skep_hasher_finish(hasher);
    skep_hasher_free(hasher);
    return key;
}

/* Reads the update files of a list and merges them onto what `round` says besides. */
static int merge_files(struct skep_kept_shard *shard, struct skep_shape_round round,
                       const struct skep_round_update *list, struct skep_buffer *ret_file,
                       struct skep_round_outcome *ret_outcome, struct skep_error *err)
{
    size_t count = round.count;
    struct skep_buffer *files = skep_alloc(count + 1, sizeof *files);
    int result = SKEP_OK;
    for (size_t i = 0; i < count && result == SKEP_OK; i++) {
        result = skep_blobs_get(blobs_of(shard), &list[i].hash, &files[i], err);
    }
    if (result == SKEP_OK) {
        round.files = files;
        result = skep_shape_merge(&shard->shape, &round, ret_file, ret_outcome, err);
    }
    for (size_t i = 0; i < count; i++) {
        skep_buffer_done(&files[i]);
    }
    free(files);
    return result;
}

int skep_kept_shard_merge(struct skep_kept_shard *shard, const struct skep_round_update *list,
                          size_t count, struct skep_round_outcome *ret_outcome,
                          struct skep_error *err)
{
    uint64_t base = shard->versions[0].version;
    struct skep_hash key = merge_key(base, list, count);
    if (!shard->merge.valid || !skep_hash_equal(&key, &shard->merge.key)) {
        struct skep_kept_merge merge = {.valid = true, .key = key};
        struct skep_shape_round round = {.version = base,
                                         .head = shard->versions[0].payload,
                                         .state_file = &shard->file,
                                         .count = count,
                                         .standings = shard->standings};
        assert(skep_standings_version(shard->standings) == base);
        int result = merge_files(shard, round, list, &merge.file, &merge.outcome, err);
        if (result != SKEP_OK) {
            skep_buffer_done(&merge.file);
            return result;
        }
        skep_buffer_done(&shard->merge.file);
        shard->merge = merge;
    }
    *ret_outcome = shard->merge.outcome;
    return SKEP_OK;
}

static struct skep_round_update *list_of(const struct skep_seal *seal)
{
    struct skep_round_update *list = skep_alloc(seal->receipt_count + 1, sizeof *list);
    for (size_t i = 0; i < seal->receipt_count; i++) {
        list[i] = (struct skep_round_update){.hash = seal->receipts[i].update,
                                             .donor = seal->receipts[i].donor,
                                             .base_version = seal->receipts[i].base_version};
    }
    return list;
}

int skep_kept_shard_commit(struct skep_kept_shard *shard, const struct skep_envelope *envelope,
                           const struct skep_seal *seal, const struct skep_hash *payload_hash,
                           struct skep_error *err)
{
    if (seal->version != shard->versions[0].version + 1) {
        return skep_error_set(err, SKEP_ERR_STATE, "the seal is of version %llu, ours is %llu",
                              (unsigned long long)seal->version,
                              (unsigned long long)shard->versions[0].version);
    }
    struct skep_round_update *list = list_of(seal);
    struct skep_round_outcome outcome = {0};
    int result = skep_kept_shard_merge(shard, list, seal->receipt_count, &outcome, err);
    free(list);
    if (result == SKEP_OK && !skep_hash_equal(&outcome.root, &seal->state)) {
        result = skep_error_set(err, SKEP_ERR_HASH,
                                "merging the seal's updates gives state %.12s, the seal says %.12s",
                                skep_id_text(outcome.root.bytes), skep_id_text(seal->state.bytes));
    }
    if (result != SKEP_OK) {
        return result;
    }
    struct skep_buffer file = shard->merge.file;
    shard->merge = (struct skep_kept_merge){0};
    result = skep_kept_shard_adopt(shard, envelope, seal, payload_hash, &file, err);
    skep_buffer_done(&file);
    return result;
}

int skep_kept_shard_adopt(struct skep_kept_shard *shard, const struct skep_envelope *envelope,
                          const struct skep_seal *seal, const struct skep_hash *payload_hash,
                          struct skep_buffer *take_file, struct skep_error *err)
{
    struct skep_kept_version version = {.version = seal->version,
                                        .payload = *payload_hash,
                                        .root = seal->state,
                                        .since_ms = skep_loop_now_ms(shard->project->host->loop)};
    int result = skep_blobs_put(blobs_of(shard), take_file->data, take_file->size, NULL,
                                &version.state, err);
    if (result == SKEP_OK) {
        result = store_rows(shard, envelope, seal, &version, err);
    }
    if (result == SKEP_OK) {
        set_file(shard, take_file);
        result = show_version(shard, &version, seal, err);
    }
    return result;
}

int skep_kept_shard_pass(struct skep_kept_shard *shard, const struct skep_envelope *envelope,
                         const struct skep_seal *seal, const struct skep_hash *payload_hash,
                         struct skep_error *err)
{
    /* Our machine and state stay where they are until the newest version is here: only the row is written, and only if agreement
     * has not been faster. */
    if (seal->version <= shard->versions[0].version) {
        return SKEP_OK;
    }
    struct skep_kept_version version = {
        .version = seal->version, .payload = *payload_hash, .root = seal->state};
    return store_rows(shard, envelope, seal, &version, err);
}

int skep_kept_shard_restore(struct skep_kept_shard *shard, struct skep_buffer *take_file,
                            struct skep_error *err)
{
    struct skep_kept_version *head = &shard->versions[0];
    struct skep_hash root = root_of(shard, take_file);
    if (!skep_hash_equal(&root, &head->root)) {
        return skep_error_set(err, SKEP_ERR_HASH,
                              "the state found for %s has root %.12s, not %.12s", shard->text,
                              skep_id_text(root.bytes), skep_id_text(head->root.bytes));
    }
    struct skep_version_row row = {
        .version = head->version, .payload_hash = head->payload, .root = head->root};
    int result =
        skep_blobs_put(blobs_of(shard), take_file->data, take_file->size, NULL, &row.state, err);
    if (result == SKEP_OK) {
        result = skep_keeper_db_add_version(db_of(shard), project_of(shard), &shard->shard, &row,
                                            NULL, 0, err);
    }
    if (result == SKEP_OK) {
        head->state = row.state;
        set_file(shard, take_file);
    }
    return result;
}

int skep_kept_shard_mend(struct skep_kept_shard *shard, const struct skep_envelope *envelope,
                         const struct skep_seal *seal, const struct skep_hash *payload_hash,
                         struct skep_error *err)
{
    struct skep_seal above = {0};
    struct skep_kept_version version = {
        .version = seal->version, .payload = *payload_hash, .root = seal->state};
    bool newest = seal->version == shard->versions[0].version;
    int result = newest ? SKEP_OK : skep_kept_shard_seal(shard, seal->version + 1, &above, err);
    const struct skep_hash *expected = newest ? &shard->versions[0].payload : &above.previous;
    if (result == SKEP_OK && !skep_hash_equal(payload_hash, expected)) {
        result = skep_error_set(err, SKEP_ERR_HASH, "its version %llu is not the one before ours",
                                (unsigned long long)seal->version);
    }
    skep_seal_done(&above);
    if (result == SKEP_OK) {
        result = write_row(shard, envelope, seal, &version, err);
    }
    if (result == SKEP_OK) {
        skep_kept_shard_load_standings(shard);
    }
    return result;
}

/* Version 0 follows from the manifest. */
static int make_first(struct skep_kept_shard *shard, struct skep_error *err)
{
    struct skep_buffer file = {0};
    struct skep_kept_version version = {.payload = shard->project->manifest_hash,
                                        .since_ms = UINT64_MAX};
    int result = skep_shape_seed(&shard->shape, &file, err);
    if (result == SKEP_OK) {
        version.root = root_of(shard, &file);
        result = skep_blobs_put(blobs_of(shard), file.data, file.size, NULL, &version.state, err);
    }
    if (result == SKEP_OK) {
        struct skep_version_row row = {
            .payload_hash = version.payload, .root = version.root, .state = version.state};
        result = skep_keeper_db_add_version(db_of(shard), project_of(shard), &shard->shard, &row,
                                            NULL, 0, err);
    }
    if (result == SKEP_OK) {
        push_version(shard, &version);
        set_file(shard, &file);
    }
    skep_buffer_done(&file);
    return result;
}

/* As when the newest version was made: with the standings before it. */
static int merge_list_again(struct skep_kept_shard *shard, const struct skep_buffer *base,
                            const struct skep_round_update *list, size_t count,
                            struct skep_buffer *ret_file, struct skep_error *err)
{
    uint64_t below = shard->versions[1].version;
    struct skep_standings *standings = skep_kept_shard_standings(shard, below);
    struct skep_round_outcome outcome;
    struct skep_shape_round round = {.version = below,
                                     .head = shard->versions[1].payload,
                                     .state_file = base,
                                     .count = count,
                                     .standings = standings};
    int result =
        skep_standings_whole(standings)
            ? merge_files(shard, round, list, ret_file, &outcome, err)
            : skep_error_set(err, SKEP_ERR_NOT_FOUND, "seals below version %llu are missing",
                             (unsigned long long)below);
    skep_standings_free(standings);
    return result;
}

/* The newest state from the version below it and the updates of its seal. */
static int merge_again(struct skep_kept_shard *shard, struct skep_buffer *ret_file,
                       struct skep_error *err)
{
    if (shard->version_count < 2) {
        return skep_error_set(err, SKEP_ERR_NOT_FOUND, "the version below is not held");
    }
    struct skep_buffer base = {0};
    int result = skep_blobs_get(blobs_of(shard), &shard->versions[1].state, &base, err);
    struct skep_receipt_row *rows = NULL;
    size_t count = 0;
    if (result == SKEP_OK) {
        result = skep_keeper_db_get_receipts(db_of(shard), project_of(shard), &shard->shard,
                                             shard->versions[0].version, &rows, &count, err);
    }
    if (result == SKEP_OK) {
        struct skep_round_update *list = skep_alloc(count + 1, sizeof *list);
        for (size_t i = 0; i < count; i++) {
            list[i].hash = rows[i].update;
        }
        result = merge_list_again(shard, &base, list, count, ret_file, err);
        free(list);
    }
    free(rows);
    skep_buffer_done(&base);
    return result;
}

/* The newest state from disk, or made again; without success the shard waits for its peers, which is no error. */
static void load_state(struct skep_kept_shard *shard)
{
    struct skep_buffer file = {0};
    struct skep_error reason = {0};
    struct skep_kept_version *head = &shard->versions[0];
    if (skep_blobs_get(blobs_of(shard), &head->state, &file, &reason) == SKEP_OK) {
        set_file(shard, &file);
        return;
    }
    skep_log(SKEP_LOG_WARNING, "%s version %llu has lost its state (%s); making it again",
             shard->text, (unsigned long long)head->version, reason.text);
    skep_buffer_done(&file);
    int result = head->version == 0 ? skep_shape_seed(&shard->shape, &file, &reason)
                                    : merge_again(shard, &file, &reason);
    if (result == SKEP_OK) {
        result = skep_kept_shard_restore(shard, &file, &reason);
    }
    if (result != SKEP_OK) {
        skep_log(SKEP_LOG_WARNING, "%s version %llu must come from another keeper: %s", shard->text,
                 (unsigned long long)head->version, reason.text);
    }
    skep_buffer_done(&file);
}

/* The largest number of donors in one seal, over the trunk's whole history. */
static int count_donors(struct skep_kept_shard *shard, struct skep_error *err)
{
    for (uint64_t version = shard->versions[0].version; version > 0; version--) {
        struct skep_seal seal = {0};
        int result = skep_kept_shard_seal(shard, version, &seal, err);
        if (result == SKEP_OK) {
            note_seal(shard, &seal);
        } else if (result == SKEP_ERR_IO) {
            return result;
        }
        skep_seal_done(&seal);
    }
    shard->project->last_seal = (struct skep_last_seal){0};
    return SKEP_OK;
}

int skep_kept_shard_open(struct skep_project *project, size_t index,
                         struct skep_kept_shard **ret_shard, struct skep_error *err)
{
    struct skep_kept_shard *shard = skep_alloc(1, sizeof *shard);
    shard->project = project;
    shard->shard = skep_manifest_shard(&project->manifest, index);
    skep_shard_format(&shard->shard, shard->text);
    skep_shape_init(&shard->shape, &project->manifest, &shard->shard);
    shard->replicas = skep_replicas_of(&project->manifest, &shard->shard);
    int result = load_rows(shard, err);
    if (result == SKEP_ERR_NOT_FOUND) {
        result = make_first(shard, err);
    } else if (result == SKEP_OK) {
        load_state(shard);
    }
    if (result == SKEP_OK) {
        skep_kept_shard_load_standings(shard);
        result = load_recent(shard, err);
    }
    if (result == SKEP_OK && shard->shard.kind == SKEP_SHARD_TRUNK) {
        result = count_donors(shard, err);
    }
    if (result != SKEP_OK) {
        skep_error_prefix(err, "%s", shard->text);
        skep_kept_shard_free(shard);
        return result;
    }
    *ret_shard = shard;
    return SKEP_OK;
}

void skep_kept_shard_free(struct skep_kept_shard *shard)
{
    if (shard == NULL) {
        return;
    }
    skep_round_free(shard->round);
    for (size_t i = 0; i < shard->version_count; i++) {
        skep_chunks_done(&shard->versions[i].chunks);
    }
    skep_buffer_done(&shard->file);
    skep_buffer_done(&shard->merge.file);
    skep_standings_free(shard->standings);
    skep_shape_done(&shard->shape);
    free(shard->recent);
    free(shard);
}
