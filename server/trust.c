#include "server/trust.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/store/keeper-audits.h"
#include "common/swarm/history.h"
#include "common/swarm/reputation.h"
#include "server/host.h"
#include "server/project.h"
#include "server/shard.h"

#define CHAIN 16u /* earlier updates of a donor that are looked at */
/* Of the trunk, for how it answered: more than a probation of which half is silence. */
#define ANSWERS 1024u
#define VERDICTS 65536u /* the newest, looked at for such as no seal holds */

bool skep_trust_audits(const struct skep_project *project)
{
    return project->manifest.trust.audits && project->kept_count == project->shard_count;
}

/* ---- reputations: from the seals and nothing else ---- */

/* The newest version, of the seals up to `head`, that must have left something in the table; 0 if none has. */
static uint64_t last_trace(const struct skep_kept_shard *trunk, uint64_t head)
{
    for (uint64_t version = head; version > 0; version--) {
        struct skep_seal seal = {0};
        bool traced = skep_kept_shard_seal(trunk, version, &seal, NULL) != SKEP_OK;
        for (size_t i = 0; i < seal.receipt_count; i++) {
            traced = traced || seal.receipts[i].merged || seal.receipts[i].audited;
        }
        skep_seal_done(&seal);
        if (traced) {
            return version;
        }
    }
    return 0;
}

/* Fills an empty table from the stored rows; false if these are behind the seals. */
static bool restore(struct skep_project *project, struct skep_reputations *table)
{
    struct skep_error reason = {0};
    struct skep_reputation *rows = NULL;
    size_t count = 0;
    uint64_t newest = 0;
    uint64_t head = skep_kept_shard_head(project->shards[0])->version;
    int result = skep_keeper_db_get_reputation(project->host->db, &project->manifest.project, &rows,
                                               &count, &reason);
    for (size_t i = 0; i < count; i++) {
        newest = rows[i].seen > newest ? rows[i].seen : newest;
        newest = rows[i].banned_at > newest ? rows[i].banned_at : newest;
    }
    if (result == SKEP_OK && newest < last_trace(project->shards[0], head)) {
        result = skep_error_set(&reason, SKEP_ERR_STATE, "they end at version %llu",
                                (unsigned long long)newest);
    }
    if (result == SKEP_OK) {
        result = skep_reputation_restore(table, head, rows, count, &reason);
    }
    free(rows);
    if (result != SKEP_OK) {
        skep_log(SKEP_LOG_INFO, "reputations of project %.12s are made anew from its seals: %s",
                 skep_id_text(project->manifest.project.bytes), reason.text);
    }
    return result == SKEP_OK;
}

void skep_trust_forget(struct skep_project *project)
{
    skep_reputations_free(project->reputations);
    project->reputations = NULL;
    project->reputations_stored = false;
}

static void rebuild(struct skep_project *project)
{
    struct skep_error reason = {0};
    skep_trust_forget(project);
    project->reputations = skep_reputations_new(SKEP_REPUTATION_LIMIT);
    int result = skep_keeper_db_rebuild_reputation(project->host->db, &project->manifest.project,
                                                   project->reputations, &reason);
    project->reputations_stored = result == SKEP_OK;
    if (result != SKEP_OK) {
        skep_log(SKEP_LOG_WARNING, "reputations stay at the trunk's version %llu: %s",
                 (unsigned long long)skep_reputation_version(project->reputations), reason.text);
    }
}

/* Is the seal here that the table waits for? */
static bool has_next(const struct skep_project *project)
{
    struct skep_seal seal = {0};
    uint64_t next = skep_reputation_version(project->reputations) + 1;
    bool has = skep_kept_shard_seal(project->shards[0], next, &seal, NULL) == SKEP_OK;
    skep_seal_done(&seal);
    return has;
}

void skep_trust_follow(struct skep_project *project)
{
    if (!project->manifest.trust.audits || project->shards[0] == NULL) {
        return;
    }
    if (project->reputations == NULL) {
        project->reputations = skep_reputations_new(SKEP_REPUTATION_LIMIT);
        project->reputations_stored = restore(project, project->reputations);
        if (!project->reputations_stored) {
            rebuild(project);
        }
    }
    uint64_t head = skep_kept_shard_head(project->shards[0])->version;
    if (skep_reputation_version(project->reputations) < head && has_next(project)) {
        rebuild(project);
    }
}

void skep_trust_apply(struct skep_project *project, const struct skep_seal *seal,
                      struct skep_version_row *row)
{
    struct skep_reputations *table = project->reputations;
    if (table == NULL || !project->reputations_stored || seal->shard.kind != SKEP_SHARD_TRUNK ||
        seal->version != skep_reputation_version(table) + 1 ||
        skep_reputation_apply(table, seal, NULL) != SKEP_OK) {
        return;
    }
    const struct skep_peer_id *written = skep_reputation_written(table, &row->reputation_count);
    struct skep_reputation *rows = skep_alloc(row->reputation_count + 1, sizeof *rows);
    for (size_t i = 0; i < row->reputation_count; i++) {
        rows[i] = skep_reputation_find(table, &written[i]);
    }
    row->reputation = rows;
    row->forgotten = skep_reputation_forgotten(table, &row->forgotten_count);
}

void skep_trust_sealed(struct skep_project *project)
{
    skep_trust_follow(project);
    const struct skep_reputations *table = project->reputations;
    size_t count = table != NULL ? skep_reputation_count(table) : 0;
    for (size_t i = 0; i < count; i++) {
        struct skep_reputation row = skep_reputation_at(table, i);
        for (size_t j = 0; row.banned && j < project->shard_count; j++) {
            if (project->shards[j] != NULL && project->shards[j]->round != NULL) {
                skep_round_ban(project->shards[j]->round, &row.donor);
            }
        }
    }
}

/* ---- this keeper's verdicts that no seal holds ---- */

struct untold {
    struct skep_kept_shard *trunk;
    uint64_t now_ms;
    bool whole; /* all seals that could hold one are here */
    size_t stated_count;
    struct skep_hash *stated; /* updates whose verdict is sealed, rising */
};

static int by_hash(const void *a, const void *b)
{
    return skep_hash_compare(a, b);
}

static void push_stated(struct untold *untold, const struct skep_hash *update)
{
    untold->stated =
        skep_realloc(untold->stated, untold->stated_count + 1, sizeof untold->stated[0]);
    untold->stated[untold->stated_count++] = *update;
}

static void read_stated(struct untold *untold)
{
    uint64_t head = skep_kept_shard_head(untold->trunk)->version;
    untold->whole = true;
    for (uint64_t version = head;
         version > 0 && version + SKEP_ROUND_VERDICT_VERSIONS > head && untold->whole; version--) {
        struct skep_seal seal = {0};
        untold->whole = skep_kept_shard_seal(untold->trunk, version, &seal, NULL) == SKEP_OK;
        for (size_t i = 0; i < seal.receipt_count; i++) {
            if (seal.receipts[i].audited) {
                push_stated(untold, &seal.receipts[i].update);
            }
        }
        for (size_t i = 0; i < seal.finding_count; i++) {
            push_stated(untold, &seal.findings[i].update);
        }
        skep_seal_done(&seal);
    }
    if (untold->stated_count > 0) {
        qsort(untold->stated, untold->stated_count, sizeof untold->stated[0], by_hash);
    }
}

static int tell(void *user, const struct skep_audit_row *row)
{
    struct untold *untold = user;
    const struct skep_reputations *table = untold->trunk->project->reputations;
    bool valid = row->verdict == SKEP_AUDIT_VALID;
    bool banned = table != NULL && skep_reputation_find(table, &row->donor).banned;
    if (row->shard.kind != SKEP_SHARD_TRUNK || (!valid && row->verdict != SKEP_AUDIT_INVALID) ||
        (valid ? !untold->whole : banned) ||
        (untold->stated_count > 0 && bsearch(&row->update, untold->stated, untold->stated_count,
                                             sizeof untold->stated[0], by_hash) != NULL)) {
        return SKEP_OK;
    }
    struct skep_round_update update = {
        .hash = row->update, .donor = row->donor, .base_version = row->base_version};
    skep_round_verdict(untold->trunk->round, &update, valid, untold->now_ms);
    return SKEP_OK;
}

void skep_trust_tell(struct skep_kept_shard *trunk)
{
    struct skep_project *project = trunk->project;
    struct skep_error reason = {0};
    struct untold untold = {.trunk = trunk, .now_ms = skep_loop_now_ms(project->host->loop)};
    if (!skep_trust_audits(project)) {
        return;
    }
    read_stated(&untold);
    if (skep_keeper_db_list_audits(project->host->db, &project->manifest.project, VERDICTS, tell,
                                   &untold, &reason) != SKEP_OK) {
        skep_log(SKEP_LOG_WARNING, "verdicts are kept to ourselves: %s", reason.text);
    }
    free(untold.stated);
}

/* ---- donors ---- */

/* A donor's verdicts, newest first, back to the silence that its debt is of. */
struct answers {
    unsigned valid;
    bool silent;
};

static int look_at_answer(void *user, const struct skep_audit_row *row)
{
    struct answers *answers = user;
    answers->valid += row->verdict == SKEP_AUDIT_VALID;
    answers->silent = row->verdict == SKEP_AUDIT_UNANSWERED;
    return answers->silent || answers->valid >= SKEP_PROBATION ? SKEP_ERR_DUPLICATE : SKEP_OK;
}

/* How many jobs have yet to be found valid since the donor fell silent. What lies before that says nothing, so that no debt comes back when rows
 * are forgotten. */
static unsigned count_owed(const struct skep_project *project, const struct skep_peer_id *donor)
{
    const struct skep_shard trunk = {.kind = SKEP_SHARD_TRUNK};
    struct answers answers = {.valid = 0};
    (void)skep_keeper_db_donor_audits(project->host->db, &project->manifest.project, donor, &trunk,
                                      ANSWERS, look_at_answer, &answers, NULL);
    return answers.silent && answers.valid < SKEP_PROBATION ? SKEP_PROBATION - answers.valid : 0;
}

/* Walked over once for an update, not for each question that it raises. */
static unsigned owed_answers(const struct skep_project *project, const struct skep_peer_id *donor)
{
    struct skep_trust_owed *owed = &project->host->owed;
    uint64_t changes = skep_keeper_db_audit_changes(project->host->db) + 1;
    if (owed->changes != changes || !skep_peer_id_equal(&owed->donor, donor) ||
        memcmp(&owed->project, &project->manifest.project, sizeof owed->project) != 0) {
        *owed = (struct skep_trust_owed){.project = project->manifest.project,
                                         .donor = *donor,
                                         .changes = changes,
                                         .answers = count_owed(project, donor)};
    }
    return owed->answers;
}

enum skep_audit_verdict skep_trust_silence(const struct skep_project *project,
                                           const struct skep_peer_id *donor)
{
    return owed_answers(project, donor) == 0 ? SKEP_AUDIT_UNANSWERED : SKEP_AUDIT_UNANSWERED_AGAIN;
}

bool skep_trust_is_trusted(const struct skep_project *project, const struct skep_peer_id *donor)
{
    if (project->reputations == NULL) {
        return false;
    }
    struct skep_reputation reputation = skep_reputation_find(project->reputations, donor);
    return skep_reputation_trusted(&reputation) && owed_answers(project, donor) == 0;
}

unsigned skep_trust_passed(const struct skep_project *project, const struct skep_peer_id *donor)
{
    if (project->reputations == NULL) {
        return 0;
    }
    struct skep_reputation reputation = skep_reputation_find(project->reputations, donor);
    unsigned here = SKEP_PROBATION - owed_answers(project, donor);
    return reputation.n < here ? reputation.n : here;
}

bool skep_trust_is_banned(const struct skep_project *project, const struct skep_peer_id *donor)
{
    if (project->reputations != NULL && skep_reputation_find(project->reputations, donor).banned) {
        return true;
    }
    return skep_trust_audits(project) &&
           skep_keeper_db_caught(project->host->db, &project->manifest.project, donor);
}

struct trunk_search {
    const struct skep_hash *ticket;
    struct skep_audit_row *row;
};

static int look_at_ticket(void *user, const struct skep_audit_row *row)
{
    struct trunk_search *search = user;
    if (!skep_hash_equal(&row->ticket, search->ticket)) {
        return SKEP_OK;
    }
    *search->row = *row;
    return SKEP_ERR_DUPLICATE; /* one is enough */
}

bool skep_trust_trunk_came(const struct skep_project *project, const struct skep_peer_id *donor,
                           const struct skep_hash *ticket, struct skep_audit_row *ret_row)
{
    const struct skep_shard trunk = {.kind = SKEP_SHARD_TRUNK};
    struct trunk_search search = {.ticket = ticket, .row = ret_row};
    return skep_keeper_db_donor_audits(project->host->db, &project->manifest.project, donor, &trunk,
                                       CHAIN, look_at_ticket, &search, NULL) == SKEP_ERR_DUPLICATE;
}

/* Does the lot fall on it too, or did it? */
static bool can_be_drawn(const struct skep_project *project, const struct skep_audit_row *row)
{
    struct skep_audit_row trunk;
    return (row->verdict == SKEP_AUDIT_NOT_DRAWN || row->verdict == SKEP_AUDIT_OPEN) &&
           (row->shard.kind == SKEP_SHARD_TRUNK ||
            skep_trust_trunk_came(project, &row->donor, &row->ticket, &trunk));
}

bool skep_trust_admits(const struct skep_kept_shard *shard, const struct skep_hash *update,
                       const struct skep_peer_id *donor)
{
    const struct skep_project *project = shard->project;
    struct skep_audit_row row;
    if (!skep_trust_audits(project)) {
        return !skep_trust_is_banned(project, donor);
    }
    int result =
        skep_keeper_db_get_audit(project->host->db, &project->manifest.project, update, &row, NULL);
    if (result == SKEP_ERR_NOT_FOUND) {
        return true; /* of remote calls, which a manifest with audits does not let in */
    }
    if (result != SKEP_OK || skep_trust_is_banned(project, donor)) {
        return false;
    }
    return row.verdict == SKEP_AUDIT_VALID ||
           (skep_trust_is_trusted(project, donor) && can_be_drawn(project, &row));
}

/* ---- the chain of histories ---- */

struct chain {
    const struct skep_hash *before;
    uint64_t base_version;
    bool found;
    bool last_known; /* the donor's update from the version below is here */
};

static int look_at_link(void *user, const struct skep_audit_row *row)
{
    struct chain *chain = user;
    chain->found = chain->found || skep_hash_equal(&row->after, chain->before);
    chain->last_known = chain->last_known || row->base_version + 1 == chain->base_version;
    return SKEP_OK;
}

/* A donor publishes one update for each version of a shard, so the one from the version below is its last, unless it was not accepted
 * elsewhere: then the donor goes back to the one before that. Where the last one is not here nothing can be said. */
static int check_link(const struct skep_project *project, const struct skep_peer_id *donor,
                      const struct skep_update_part *part, struct skep_error *err)
{
    struct chain chain = {.before = &part->before, .base_version = part->base_version};
    char name[SKEP_SHARD_TEXT_SIZE];
    if (skep_history_is_new(&part->before)) {
        return SKEP_OK;
    }
    int result = skep_keeper_db_donor_audits(project->host->db, &project->manifest.project, donor,
                                             &part->shard, CHAIN, look_at_link, &chain, err);
    if (result != SKEP_OK || chain.found || !chain.last_known) {
        return result;
    }
    skep_shard_format(&part->shard, name);
    return skep_refuse(err, SKEP_REFUSAL_HISTORY,
                       "the job begins with history %.16s of %s, which donor %.12s did not end any "
                       "of its last jobs with",
                       skep_id_text(part->before.bytes), name, skep_id_text(donor->bytes));
}

int skep_trust_check(const struct skep_project *project,
                     const struct skep_update_statement *statement,
                     const struct skep_update_part *parts, struct skep_error *err)
{
    if (skep_trust_is_banned(project, &statement->donor)) {
        return skep_refuse(err, SKEP_REFUSAL_BANNED,
                           "donor %.12s was found to have published what no job gives",
                           skep_id_text(statement->donor.bytes));
    }
    if (!skep_trust_audits(project)) {
        return SKEP_OK;
    }
    struct skep_update_part own = {.shard = statement->shard,
                                   .base_version = statement->base_version,
                                   .before = statement->before};
    int result = check_link(project, &statement->donor, &own, err);
    for (size_t i = 0; i < statement->part_count && parts != NULL && result == SKEP_OK; i++) {
        result = check_link(project, &statement->donor, &parts[i], err);
    }
    return result;
}
