/* On whom the lot falls (the rules are in audit.h). */
#include "common/base/log.h"
#include "common/swarm/reputation.h"
#include "server/audit-internal.h"
#include "server/audit-job.h"
#include "server/host.h"
#include "server/project.h"
#include "server/shard.h"
#include "server/trust.h"

#define DROP_EVERY 16u /* versions */

/* The job that an update is of, if it is held and no lot has fallen yet; else NULL. */
static struct skep_audit_job *undrawn_job(struct skep_audit *audit,
                                          const struct skep_project *project,
                                          const struct skep_hash *update)
{
    struct skep_audit_row row;
    if (skep_keeper_db_get_audit(audit->host->db, &project->manifest.project, update, &row, NULL) !=
            SKEP_OK ||
        row.verdict != SKEP_AUDIT_OPEN) {
        return NULL;
    }
    struct skep_hash id = skep_audit_id(&project->manifest.project, &row.donor, &row.ticket);
    struct skep_audit_job *job = skep_audit_queue_find(&audit->queue, &id);
    return job != NULL && job->stage == SKEP_AUDIT_PINNED ? job : NULL;
}

static void draw(struct skep_audit *audit, struct skep_audit_job *job,
                 const struct skep_hash *update, bool suspect, const struct skep_hash *beacon)
{
    const struct skep_audit_load *load = job->load;
    struct skep_reputation reputation =
        skep_reputation_find(load->project->reputations, &load->donor);
    uint32_t permille = skep_audit_permille(&reputation);
    bool drawn = suspect || skep_audit_drawn(beacon, update, permille);
    skep_log(SKEP_LOG_DEBUG, "update %.12s of donor %.12s (%u audits, %u of 1000) is %sdrawn",
             skep_id_text(update->bytes), skep_id_text(load->donor.bytes), reputation.n, permille,
             drawn ? "" : "not ");
    if (drawn) {
        skep_audit_queue_want(&audit->queue, job, false, skep_loop_now_ms(audit->host->loop));
    } else {
        skep_audit_end_all(audit, job, SKEP_AUDIT_NOT_DRAWN);
    }
}

static bool is_past(uint64_t base, uint64_t head)
{
    return base + SKEP_LIMIT_STALENESS + 1 < head;
}

/* No version can merge any of its updates. */
static bool are_all_stale(const struct skep_audit_load *load)
{
    bool stale = true;
    for (size_t i = 0; i < load->update_count && stale; i++) {
        const struct skep_audit_update *update = &load->updates[i];
        stale = is_past(update->base_version, skep_kept_shard_head(update->shard)->version);
    }
    return stale;
}

/* Experts' updates whose trunk's did not come. What may be merged yet waits for it as long as it can come, and is left out if it did not: without it
 * nobody could repeat the job, and no lot would fall on it. */
static void end_without_trunk(struct skep_audit *audit, struct skep_audit_job *job,
                              uint64_t trunk_version)
{
    const struct skep_audit_load *load = job->load;
    if (are_all_stale(load)) {
        skep_audit_end_all(audit, job, SKEP_AUDIT_NOT_DRAWN);
    } else if (is_past(load->came_version, trunk_version)) {
        skep_audit_end_all(audit, job, SKEP_AUDIT_UNANSWERED);
    }
}

/* The trunk's, by which a job is drawn at all keepers in whatever order its updates came; NULL if it has none. */
static const struct skep_hash *trunk_update(const struct skep_audit_load *load)
{
    for (size_t i = 0; i < load->update_count; i++) {
        if (load->updates[i].shard->shard.kind == SKEP_SHARD_TRUNK) {
            return &load->updates[i].hash;
        }
    }
    return NULL;
}

/* What no version of the trunk has merged in time is drawn now if it has experts' updates, which may be merged yet or are already, and else
 * never. */
static void end_stale(struct skep_audit *audit, const struct skep_project *project,
                      uint64_t version, const struct skep_hash *beacon)
{
    struct skep_audit_job *next = NULL;
    for (struct skep_audit_job *job = audit->queue.jobs; job != NULL; job = next) {
        const struct skep_audit_load *load = job->load;
        next = job->next;
        if (job->stage != SKEP_AUDIT_PINNED || load->project != project) {
            continue;
        }
        if (!load->has_trunk) {
            end_without_trunk(audit, job, version);
            continue;
        }
        if (!is_past(load->trunk_version, version)) {
            continue;
        }
        const struct skep_hash *update = trunk_update(load);
        if (update != NULL && load->update_count > 1) {
            draw(audit, job, update, false, beacon);
        } else {
            skep_audit_end_all(audit, job, SKEP_AUDIT_NOT_DRAWN);
        }
    }
}

static void trunk_sealed(struct skep_audit *audit, struct skep_project *project,
                         const struct skep_seal *seal, const struct skep_hash *payload_hash)
{
    bool suspect[SKEP_LIMIT_UPDATES_PER_ROUND];
    skep_audit_suspects(seal->receipts, seal->receipt_count, false, suspect);
    for (size_t i = 0; i < seal->receipt_count; i++) {
        const struct skep_hash *update = &seal->receipts[i].update;
        struct skep_audit_job *job = undrawn_job(audit, project, update);
        if (job != NULL) {
            draw(audit, job, update, suspect[i], payload_hash);
        }
    }
    end_stale(audit, project, seal->version, payload_hash);
}

/* Only those that came when the lot for their job had fallen have one of their own. */
static void expert_sealed(struct skep_audit *audit, const struct skep_project *project,
                          const struct skep_seal *seal, const struct skep_hash *payload_hash)
{
    for (size_t i = 0; i < seal->receipt_count; i++) {
        const struct skep_hash *update = &seal->receipts[i].update;
        struct skep_audit_job *job = undrawn_job(audit, project, update);
        const struct skep_audit_load *load = job != NULL ? job->load : NULL;
        if (load != NULL && load->late) {
            draw(audit, job, update, false, payload_hash);
        }
    }
}

static void drop_rows(const struct skep_kept_shard *shard, uint64_t version)
{
    struct skep_error reason = {0};
    const struct skep_project *project = shard->project;
    if (skep_keeper_db_drop_audits(project->host->db, &project->manifest.project, &shard->shard,
                                   version, &reason) != SKEP_OK) {
        skep_log(SKEP_LOG_WARNING, "old rows of audits stay: %s", reason.text);
    }
}

void skep_audit_sealed(struct skep_kept_shard *shard, const struct skep_seal *seal,
                       const struct skep_hash *payload_hash)
{
    struct skep_project *project = shard->project;
    struct skep_audit *audit = project->host->audit;
    bool trunk = shard->shard.kind == SKEP_SHARD_TRUNK;
    if (!project->manifest.trust.audits) {
        return;
    }
    if (trunk) {
        skep_trust_sealed(project);
    }
    if (!skep_trust_audits(project) || audit == NULL || project->reputations == NULL) {
        return;
    }
    if (seal->version % DROP_EVERY == 0) {
        drop_rows(shard, seal->version);
    }
    if (trunk) {
        trunk_sealed(audit, project, seal, payload_hash);
    } else {
        expert_sealed(audit, project, seal, payload_hash);
    }
}
