#include "server/intake.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/swarm/admission.h"
#include "common/swarm/pace.h"
#include "common/swarm/stamp.h"
#include "common/swarm/update-open.h"
#include "server/agreement.h"
#include "server/audit.h"
#include "server/beacons.h"
#include "server/host.h"
#include "server/project.h"
#include "server/shard.h"
#include "server/trust.h"

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
                         const struct skep_round_update *update, enum skep_refusal reason,
                         struct skep_error *err)
{
    return skep_refuse(
        err, reason, "another update of donor %.12s for %s from version %llu %s already",
        skep_id_text(update->donor.bytes), shard->text, (unsigned long long)update->base_version,
        reason == SKEP_REFUSAL_REPLAY ? "was merged" : "waits");
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
                   : refuse_second(shard, update, SKEP_REFUSAL_REPLAY, err);
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
    /* Another keeper may have taken the rival first; if a majority voted for that one, nothing else can be sealed. */
    if (waiting.rival && !fetched) {
        return refuse_second(shard, update, SKEP_REFUSAL_DUPLICATE, err);
    }
    if (waiting.count >= SKEP_LIMIT_PENDING_UPDATES + (fetched ? ROOM_FOR_FETCHED : 0)) {
        return skep_refuse(err, SKEP_REFUSAL_WAITING,
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

/* An update file on its way through the steps, and what they found of it. */
struct arrival {
    struct skep_project *project;
    const uint8_t *file;
    size_t file_size;
    bool fetched; /* the agreement asked for it */
    uint64_t now_ms;
    struct skep_update_statement statement;
    struct skep_round_update update;
    const uint8_t *body;
    size_t body_size;
    struct skep_kept_shard *shard;
    bool known; /* nothing is left to do */
};

static int open_file(struct arrival *arrival, struct skep_error *err)
{
    int result = skep_update_open(arrival->file, arrival->file_size, &arrival->statement,
                                  &arrival->update.hash, &arrival->body, &arrival->body_size, err);
    arrival->update.donor = arrival->statement.donor;
    arrival->update.base_version = arrival->statement.base_version;
    return result;
}

static int find_shard(struct arrival *arrival, struct skep_error *err)
{
    const struct skep_manifest *manifest = &arrival->project->manifest;
    const struct skep_update_statement *statement = &arrival->statement;
    int result = skep_admission_check_place(manifest, statement, err);
    if (result != SKEP_OK) {
        return result;
    }
    arrival->shard = skep_project_shard(arrival->project, &statement->shard, err);
    return arrival->shard != NULL
               ? SKEP_OK
               : skep_error_reason(err, SKEP_ERR_NOT_FOUND, SKEP_REFUSAL_NOT_HERE);
}

static int look_whether_known(struct arrival *arrival, struct skep_error *err)
{
    return check_known(arrival->shard, &arrival->update, arrival->fetched, &arrival->known, err);
}

static int check_statement(struct arrival *arrival, struct skep_error *err)
{
    const struct skep_update_statement *statement = &arrival->statement;
    struct skep_shard_head head = skep_kept_shard_admission_head(arrival->shard);
    struct skep_trunk_view trunk = {0};
    if (!statement->remote) {
        trunk = skep_beacons_view(arrival->project->beacons, statement->trunk_version);
    }
    if (arrival->fetched) {
        trunk.newest = 0; /* another keeper took it in time */
    }
    return skep_admission_check(&arrival->project->manifest, &head, &trunk, statement, err);
}

static int check_stamp(struct arrival *arrival, struct skep_error *err)
{
    /* what a list under agreement names must not wait for the stamps of others */
    uint64_t now_ms = arrival->fetched ? UINT64_MAX : arrival->now_ms;
    return skep_stamps_admit(arrival->project->host->stamps, &arrival->project->manifest,
                             &arrival->statement, now_ms, err);
}

static int check_pace(struct arrival *arrival, struct skep_error *err)
{
    const struct skep_kept_version *base =
        skep_kept_shard_version(arrival->shard, arrival->statement.base_version);
    return arrival->fetched
               ? SKEP_OK
               : skep_pace_admit(arrival->project->pace, &arrival->statement,
                                 base != NULL ? base->since_ms : UINT64_MAX, arrival->now_ms, err);
}

static int check_body(struct arrival *arrival, struct skep_error *err)
{
    return skep_shape_check_body(&arrival->shard->shape, arrival->statement.base_version,
                                 arrival->body, arrival->body_size, err);
}

/* A version that we have not got can be one that nobody has: then the job could not be repeated, and the donor would be free of its audit. */
static int check_parts(const struct arrival *arrival, const struct skep_update_part *parts,
                       size_t count, struct skep_error *err)
{
    for (size_t i = 0; i < count && skep_trust_audits(arrival->project); i++) {
        const struct skep_kept_shard *shard =
            skep_project_shard(arrival->project, &parts[i].shard, NULL);
        uint64_t head = shard != NULL ? skep_kept_shard_head(shard)->version : UINT64_MAX;
        if (parts[i].base_version > head) {
            return skep_refuse(
                err, SKEP_REFUSAL_BASE_AHEAD,
                "the job began with version %llu of %s, the newest here is %llu: try "
                "again later",
                (unsigned long long)parts[i].base_version, shard->text, (unsigned long long)head);
        }
    }
    return SKEP_OK;
}

/* What only those who audit look at: versions that are not here yet, banned donors, breaks in the chain of histories. It is what this
 * keeper has seen and others need not have, so it says what we propose, and not what we hold of what they have voted for: a donor that
 * shows each keeper another past would stop the shard. */
static int check_donor(struct arrival *arrival, struct skep_error *err)
{
    if (arrival->fetched) {
        return SKEP_OK;
    }
    const struct skep_update_statement *statement = &arrival->statement;
    struct skep_update_part *parts = NULL;
    size_t count = 0;
    int result = SKEP_OK;
    if (statement->part_count != 0) {
        result = skep_update_open_parts(arrival->file, arrival->file_size, &parts, &count, err);
    }
    if (result == SKEP_OK) {
        result = check_parts(arrival, parts, count, err);
    }
    if (result == SKEP_OK) {
        result = skep_trust_check(arrival->project, statement, parts, err);
    }
    free(parts);
    return result;
}

/* What others hold already is looked at by them. */
static int check_room(struct arrival *arrival, struct skep_error *err)
{
    return arrival->fetched ? SKEP_OK
                            : skep_audit_check_room(arrival->project, &arrival->statement, err);
}

static int note(struct arrival *arrival, struct skep_error *err)
{
    return skep_audit_note(arrival->project, &arrival->statement, &arrival->update.hash, err);
}

static int keep(struct arrival *arrival, struct skep_error *err)
{
    return store(arrival->shard, &arrival->update, arrival->file, arrival->file_size, err);
}

/* In the order of what they cost: everything up to the stamp is cheap, and a body is only read for who has one. */
static int (*const steps[])(struct arrival *arrival, struct skep_error *err) = {
    open_file,  find_shard,  look_whether_known, check_statement, check_donor,
    check_room, check_stamp, check_pace,         check_body,      note,
    keep,
};

static int take(struct arrival *arrival, struct skep_error *err)
{
    int result = SKEP_OK;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        result = steps[i](arrival, err);
        if (result != SKEP_OK || arrival->known) {
            break;
        }
    }
    if (result != SKEP_OK) {
        return result;
    }
    if (!arrival->known) {
        skep_log(SKEP_LOG_DEBUG, "update %.12s of donor %.12s for %s from version %llu waits",
                 skep_id_text(arrival->update.hash.bytes),
                 skep_id_text(arrival->update.donor.bytes), arrival->shard->text,
                 (unsigned long long)arrival->update.base_version);
    }
    if (!arrival->known) {
        skep_audit_took(arrival->project, &arrival->update.hash);
    }
    if ((!arrival->known || arrival->fetched) &&
        (skep_trust_admits(arrival->shard, &arrival->update.hash, &arrival->update.donor) ||
         (arrival->fetched && skep_audit_yields(arrival->project, &arrival->update.hash)))) {
        /* what the agreement asks for it does not hold, whatever we have on disk */
        skep_agreement_update(arrival->shard, &arrival->update);
    }
    return SKEP_OK;
}

int skep_intake_update(struct skep_project *project, const void *file, size_t size,
                       struct skep_hash *ret_hash, bool *ret_new, struct skep_error *err)
{
    struct arrival arrival = {.project = project,
                              .file = file,
                              .file_size = size,
                              .now_ms = skep_loop_now_ms(project->host->loop)};
    struct skep_error reason = {0};
    int result = take(&arrival, &reason);
    if (result == SKEP_OK) {
        *ret_hash = arrival.update.hash;
        *ret_new = !arrival.known;
        project->accepted += !arrival.known;
        return SKEP_OK;
    }
    project->refused[reason.reason]++;
    if (err != NULL) {
        *err = reason;
    }
    return result;
}

int skep_intake_fetched(struct skep_project *project, const void *file, size_t size,
                        struct skep_error *err)
{
    struct arrival arrival = {.project = project,
                              .file = file,
                              .file_size = size,
                              .fetched = true,
                              .now_ms = skep_loop_now_ms(project->host->loop)};
    return take(&arrival, err);
}
