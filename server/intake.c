#include "server/intake.h"

#include <string.h>

#include "common/base/log.h"
#include "common/swarm/admission.h"
#include "common/swarm/update-open.h"
#include "server/agreement.h"
#include "server/host.h"
#include "server/project.h"
#include "server/shard.h"

/* Room for what the agreement asks for, above SKEP_LIMIT_PENDING_UPDATES: that of the round machine. */
#define ROOM_FOR_FETCHED (2 * SKEP_LIMIT_UPDATES_PER_ROUND)

/* What waits in the database for one shard: whether this update is among it, or another of the same donor and base. */
struct waiting {
    const struct skep_round_update *wanted;
    size_t count;
    bool found;
    bool rival;
};

static int look_at_waiting(void *user, const struct skep_hash *update,
                           const struct skep_peer_id *donor, uint64_t base_version)
{
    struct waiting *waiting = user;
    const struct skep_round_update *wanted = waiting->wanted;
    bool same = skep_hash_equal(update, &wanted->hash);
    waiting->count++;
    waiting->found = waiting->found || same;
    waiting->rival = waiting->rival || (!same && base_version == wanted->base_version &&
                                        skep_peer_id_equal(donor, &wanted->donor));
    return SKEP_OK;
}

static int refuse_second(const struct skep_kept_shard *shard,
                         const struct skep_round_update *update, const char *state,
                         struct skep_error *err)
{
    return skep_error_set(err, SKEP_ERR_DUPLICATE,
                          "another update of donor %.12s for %s from version %llu %s already",
                          skep_id_text(update->donor.bytes), shard->text,
                          (unsigned long long)update->base_version, state);
}

/* Is it here already, is there another of the same donor, is there room? */
static int check_known(struct skep_kept_shard *shard, const struct skep_round_update *update,
                       bool fetched, bool *ret_known, struct skep_error *err)
{
    const struct skep_round_update *merged =
        skep_kept_shard_merged(shard, &update->hash, &update->donor, update->base_version);
    if (merged != NULL) {
        *ret_known = true;
        return skep_hash_equal(&merged->hash, &update->hash)
                   ? SKEP_OK
                   : refuse_second(shard, update, "was merged", err);
    }
    struct waiting waiting = {.wanted = update};
    int result =
        skep_keeper_db_each_update(shard->project->host->db, &shard->project->manifest.project,
                                   &shard->shard, look_at_waiting, &waiting, err);
    /* A waiting update whose file is gone may be handed in again. */
    *ret_known = waiting.found && skep_blobs_has(shard->project->host->blobs, &update->hash);
    if (result != SKEP_OK || waiting.found) {
        return result;
    }
    if (waiting.rival && !fetched) {
        return refuse_second(shard, update, "waits", err);
    }
    if (waiting.count >= SKEP_LIMIT_PENDING_UPDATES + (fetched ? ROOM_FOR_FETCHED : 0)) {
        return skep_error_set(err, SKEP_ERR_STATE,
                              "%zu updates of %s wait already; try again after its next version",
                              waiting.count, shard->text);
    }
    return SKEP_OK;
}

/* File first, row second: a row without its file could be voted for and not be merged. */
static int store(struct skep_kept_shard *shard, const struct skep_round_update *update,
                 const void *file, size_t size, struct skep_error *err)
{
    struct skep_host *host = shard->project->host;
    int result = skep_blobs_put(host->blobs, file, size, &update->hash, NULL, err);
    if (result != SKEP_OK) {
        return result;
    }
    result = skep_keeper_db_add_update(host->db, &shard->project->manifest.project, &shard->shard,
                                       &update->hash, &update->donor, update->base_version, err);
    if (result != SKEP_OK) {
        skep_blobs_remove(host->blobs, &update->hash);
    }
    return result;
}

static int take(struct skep_project *project, const struct skep_buffer *file, bool fetched,
                struct skep_hash *ret_hash, bool *ret_new, struct skep_error *err)
{
    struct skep_update_statement statement;
    struct skep_round_update update = {0};
    const uint8_t *body = NULL;
    size_t body_size = 0;
    int result =
        skep_update_open(file->data, file->size, &statement, &update.hash, &body, &body_size, err);
    if (result != SKEP_OK) {
        return result;
    }
    if (memcmp(statement.project.bytes, project->manifest.project.bytes, SKEP_ID_SIZE) != 0) {
        return skep_error_set(err, SKEP_ERR_REFUSED, "the update is for project %s, not %s",
                              skep_id_text(statement.project.bytes),
                              skep_id_text(project->manifest.project.bytes));
    }
    struct skep_kept_shard *shard = skep_project_shard(project, &statement.shard, err);
    if (shard == NULL) {
        return SKEP_ERR_NOT_FOUND;
    }
    update.donor = statement.donor;
    update.base_version = statement.base_version;
    bool known = false;
    result = check_known(shard, &update, fetched, &known, err);
    if (result == SKEP_OK && !known) {
        struct skep_shard_head head = skep_kept_shard_admission_head(shard);
        result = skep_admission_check(&project->manifest, &head, &statement, err);
        if (result == SKEP_OK) {
            result =
                skep_shape_check_body(&shard->shape, statement.base_version, body, body_size, err);
        }
        if (result == SKEP_OK) {
            result = store(shard, &update, file->data, file->size, err);
        }
    }
    if (result != SKEP_OK) {
        return result;
    }
    *ret_hash = update.hash;
    *ret_new = !known;
    if (!known) {
        skep_log(SKEP_LOG_DEBUG, "update %.12s of donor %.12s for %s from version %llu waits",
                 skep_id_text(update.hash.bytes), skep_id_text(update.donor.bytes), shard->text,
                 (unsigned long long)update.base_version);
    }
    if (!known ||
        fetched) { /* what the agreement asks for it does not hold, whatever we have on disk */
        skep_agreement_update(shard, &update);
    }
    return SKEP_OK;
}

int skep_intake_update(struct skep_project *project, const void *file, size_t size,
                       struct skep_hash *ret_hash, bool *ret_new, struct skep_error *err)
{
    const struct skep_buffer borrowed = {.data = (uint8_t *)file, .size = size};
    return take(project, &borrowed, false, ret_hash, ret_new, err);
}

int skep_intake_fetched(struct skep_project *project, const void *file, size_t size,
                        struct skep_error *err)
{
    const struct skep_buffer borrowed = {.data = (uint8_t *)file, .size = size};
    struct skep_hash hash;
    bool is_new = false;
    return take(project, &borrowed, true, &hash, &is_new, err);
}
