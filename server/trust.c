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

#define CHAIN 16u     /* earlier updates of a donor that are looked at, */
#define ANSWERS 1024u /* and here */

bool skep_trust_audits(const struct skep_project *project)
{
    return project->manifest.trust.audits && project->kept_count == project->shard_count;
}

/* Keepers do not agree on verdicts in their seals yet, so each counts those that it found itself: a view of its own, and nobody else has to
 * be believed. */
static void mark_audited(struct skep_project *project, struct skep_seal *seal)
{
    for (size_t i = 0; i < seal->receipt_count; i++) {
        struct skep_audit_row row;
        if (skep_keeper_db_get_audit(project->host->db, &project->manifest.project,
                                     &seal->receipts[i].update, &row, NULL) == SKEP_OK &&
            row.verdict == SKEP_AUDIT_VALID) {
            seal->receipts[i].audited = true;
        }
    }
    while (project->late_count > 0 && seal->finding_count < SKEP_LIMIT_FINDINGS) {
        seal->findings =
            skep_realloc(seal->findings, seal->finding_count + 1, sizeof *seal->findings);
        seal->findings[seal->finding_count++] = project->late[--project->late_count];
    }
}

void skep_trust_found(struct skep_project *project, const struct skep_hash *update,
                      const struct skep_peer_id *donor, uint64_t base_version)
{
    if (project->late_count == SKEP_LIMIT_FINDINGS) {
        return; /* they count at the next start */
    }
    project->late = skep_realloc(project->late, project->late_count + 1, sizeof *project->late);
    project->late[project->late_count++] = (struct skep_finding){.update = *update,
                                                                 .donor = *donor,
                                                                 .base_version = base_version,
                                                                 .verdict = SKEP_VERDICT_VALID};
}

/* The trunk's seal of this version; false if it is not here. */
static bool apply_version(struct skep_project *project, uint64_t version)
{
    struct skep_version_row row = {0};
    struct skep_envelope envelope = {0};
    struct skep_seal seal = {0};
    struct skep_error reason = {0};
    const struct skep_shard trunk = {.kind = SKEP_SHARD_TRUNK};
    int result = skep_keeper_db_get_version(project->host->db, &project->manifest.project, &trunk,
                                            version, &row, &reason);
    if (result != SKEP_OK || row.seal == NULL) {
        return false;
    }
    result = skep_envelope_parse(row.seal, strlen(row.seal), &envelope, &reason);
    if (result == SKEP_OK) {
        result = skep_seal_decode(envelope.payload.data, envelope.payload.size, &seal, &reason);
    }
    if (result == SKEP_OK) {
        mark_audited(project, &seal);
        result = skep_reputation_apply(project->reputations, &seal, &reason);
    }
    if (result != SKEP_OK) {
        skep_log(SKEP_LOG_DEBUG, "reputations stay at the trunk's version %llu: %s",
                 (unsigned long long)version - 1, reason.text);
    }
    skep_seal_done(&seal);
    skep_envelope_done(&envelope);
    free((void *)row.seal);
    return result == SKEP_OK;
}

void skep_trust_follow(struct skep_project *project)
{
    if (!project->manifest.trust.audits || project->shards[0] == NULL) {
        return;
    }
    if (project->reputations == NULL) {
        project->reputations = skep_reputations_new(SKEP_REPUTATION_LIMIT);
    }
    uint64_t head = skep_kept_shard_head(project->shards[0])->version;
    uint64_t version = skep_reputation_version(project->reputations);
    while (version < head && apply_version(project, version + 1)) {
        version++;
    }
}

/* The newest verdict that says something of the donor. */
static int look_at_verdict(void *user, const struct skep_audit_row *row)
{
    enum skep_audit_verdict *verdict = user;
    if (row->verdict == SKEP_AUDIT_VALID || row->verdict == SKEP_AUDIT_UNANSWERED) {
        *verdict = row->verdict;
        return SKEP_ERR_DUPLICATE; /* one is enough */
    }
    return SKEP_OK;
}

/* Whoever is drawn and shows nothing is no liar for that, but has to be found valid again before it is believed unseen. */
static bool owes_an_answer(const struct skep_project *project, const struct skep_peer_id *donor)
{
    const struct skep_shard trunk = {.kind = SKEP_SHARD_TRUNK};
    enum skep_audit_verdict verdict = SKEP_AUDIT_OPEN;
    (void)skep_keeper_db_donor_audits(project->host->db, &project->manifest.project, donor, &trunk,
                                      ANSWERS, look_at_verdict, &verdict, NULL);
    return verdict == SKEP_AUDIT_UNANSWERED;
}

bool skep_trust_is_trusted(const struct skep_project *project, const struct skep_peer_id *donor)
{
    if (project->reputations == NULL) {
        return false;
    }
    struct skep_reputation reputation = skep_reputation_find(project->reputations, donor);
    return skep_reputation_trusted(&reputation) && !owes_an_answer(project, donor);
}

bool skep_trust_is_banned(const struct skep_project *project, const struct skep_peer_id *donor)
{
    if (!skep_trust_audits(project)) {
        return false;
    }
    if (project->reputations != NULL && skep_reputation_find(project->reputations, donor).banned) {
        return true;
    }
    return skep_keeper_db_caught(project->host->db, &project->manifest.project, donor);
}

bool skep_trust_admits(const struct skep_kept_shard *shard, const struct skep_hash *update,
                       const struct skep_peer_id *donor)
{
    const struct skep_project *project = shard->project;
    struct skep_audit_row row;
    if (!skep_trust_audits(project)) {
        return true;
    }
    int result =
        skep_keeper_db_get_audit(project->host->db, &project->manifest.project, update, &row, NULL);
    if (result == SKEP_ERR_NOT_FOUND) {
        return true; /* of remote calls, which a manifest with audits does not let in */
    }
    if (result != SKEP_OK || skep_trust_is_banned(project, donor)) {
        return false;
    }
    return row.verdict == SKEP_AUDIT_VALID || skep_trust_is_trusted(project, donor);
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
    if (!skep_trust_audits(project)) {
        return SKEP_OK;
    }
    if (skep_trust_is_banned(project, &statement->donor)) {
        return skep_refuse(err, SKEP_REFUSAL_BANNED,
                           "donor %.12s was found to have published what no job gives",
                           skep_id_text(statement->donor.bytes));
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
