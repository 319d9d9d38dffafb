/* How updates are taken up: the row that says what a donor committed to, the job that the update is of, and what comes late. */
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/sys/clock.h"
#include "common/sys/process.h"
#include "server/audit-internal.h"
#include "server/audit-job.h"
#include "server/host.h"
#include "server/project.h"
#include "server/shard.h"
#include "server/trust.h"

/* The job of a row, found or new; NULL if there is no room. One that was open at the start had its place before. */
static struct skep_audit_job *job_of(struct skep_project *project, const struct skep_audit_row *row,
                                     bool resumed)
{
    struct skep_audit_queue *queue = &project->host->audit->queue;
    const struct skep_project_id *name = &project->manifest.project;
    struct skep_hash id = skep_audit_id(name, &row->donor, &row->ticket);
    struct skep_audit_job *job = skep_audit_queue_find(queue, &id);
    if (job != NULL) {
        return job;
    }
    bool trusted = skep_trust_is_trusted(project, &row->donor);
    if (resumed || skep_audit_queue_has_room(queue, name, &row->donor, trusted)) {
        job = skep_audit_queue_add(queue, &id, name, &row->donor, trusted);
    }
    if (job != NULL) {
        struct skep_audit_load *load = skep_audit_load_new(project, &row->donor, &row->ticket);
        load->resumed = resumed;
        load->came_version = skep_kept_shard_head(project->shards[0])->version;
        job->load = load;
    }
    return job;
}

/* Of an update that there was no room to look at. */
static void leave_undrawn(struct skep_project *project, const struct skep_audit_row *row)
{
    struct skep_audit_row undrawn = {.update = row->update, .verdict = SKEP_AUDIT_NOT_DRAWN};
    struct skep_error reason = {0};
    skep_log(SKEP_LOG_INFO, "there is no room to repeat the job of update %.12s of donor %.12s",
             skep_id_text(row->update.bytes), skep_id_text(row->donor.bytes));
    if (skep_audit_set_verdict(project, &undrawn, &reason) != SKEP_OK) {
        skep_log(SKEP_LOG_WARNING, "%s", reason.text);
    }
}

/* An update came of a job that was thought to be whole: it is repeated when what belongs to that has come, too. */
static void take_up_again(struct skep_audit *audit, struct skep_audit_job *job)
{
    if (audit->running == job) {
        skep_process_free(audit->worker);
        audit->worker = NULL;
        audit->running = NULL;
    }
    skep_audit_queue_again(&audit->queue, job, skep_audit_now(audit));
}

/* An expert's update that comes when the lot for its job has fallen: with the trunk's update, which is among the blobs as long as its version is, the
 * job can be repeated once more. False if it is gone, or what the job began with is. */
static bool take_late(struct skep_project *project, struct skep_audit_job *job,
                      const struct skep_audit_row *row)
{
    struct skep_audit_load *load = job->load;
    struct skep_audit_row trunk;
    if (load->has_trunk || row->shard.kind == SKEP_SHARD_TRUNK ||
        !skep_trust_trunk_came(project, &row->donor, &row->ticket, &trunk) ||
        trunk.verdict == SKEP_AUDIT_OPEN) {
        return true;
    }
    load->late = true;
    return skep_audit_load_add(load, &trunk, skep_audit_now(project->host->audit), NULL) ==
               SKEP_OK &&
           !skep_audit_load_is_too_late(load);
}

/* Experts' updates that came too late to be repeated: the trunk's verdict stays, for nobody was asked for anything. */
static void leave_out(struct skep_audit *audit, struct skep_audit_job *job)
{
    struct skep_audit_load *load = job->load;
    for (size_t i = 0; i < load->update_count; i++) {
        if (load->updates[i].shard->shard.kind != SKEP_SHARD_TRUNK) {
            skep_audit_write_verdict(load, i, SKEP_AUDIT_UNANSWERED, NULL, 0);
        }
    }
    skep_audit_queue_remove(&audit->queue, job);
    skep_audit_load_remove(load);
}

/* Experts' updates of a trusted donor, which waited for the trunk's: now the job can be drawn as a whole. Not the trunk's own, which its intake lets in: a
 * keeper that is alone seals and draws at once, and then the job may be over. */
static void let_experts_in(const struct skep_audit_load *load)
{
    size_t count = load->update_count;
    struct skep_audit_update *updates = skep_alloc(count + 1, sizeof *updates);
    struct skep_peer_id donor = load->donor;
    memcpy(updates, load->updates, count * sizeof *updates);
    for (size_t i = 0; i < count; i++) {
        if (updates[i].shard->shard.kind != SKEP_SHARD_TRUNK) {
            skep_audit_let_one_in(&updates[i], &donor);
        }
    }
    free(updates);
}

/* What cannot be taken up stays open: it is our lack and not the donor's, and the next start tries again. */
static void take(struct skep_project *project, const struct skep_audit_row *row, bool resumed)
{
    struct skep_audit *audit = project->host->audit;
    struct skep_error reason = {0};
    struct skep_audit_job *job = job_of(project, row, resumed);
    if (job == NULL) {
        leave_undrawn(project, row);
        return;
    }
    if (skep_audit_load_add(job->load, row, skep_audit_now(audit), &reason) != SKEP_OK) {
        skep_log(SKEP_LOG_WARNING, "update %.12s is not audited before the next start: %s",
                 skep_id_text(row->update.bytes), reason.text);
        return;
    }
    if (!take_late(project, job, row)) {
        skep_log(SKEP_LOG_INFO, "update %.12s of donor %.12s came too long after the trunk's",
                 skep_id_text(row->update.bytes), skep_id_text(row->donor.bytes));
        leave_out(audit, job);
        return;
    }
    take_up_again(audit, job);
    if (!skep_trust_is_trusted(project, &row->donor)) {
        skep_audit_queue_want(&audit->queue, job, true, skep_audit_now(audit));
    }
    if (row->shard.kind == SKEP_SHARD_TRUNK) {
        let_experts_in(job->load);
    }
}

/* Rows are collected first: the walk must not be disturbed. */
struct rows {
    struct skep_audit_row *rows;
    size_t count;
};

static int collect(void *user, const struct skep_audit_row *row)
{
    struct rows *rows = user;
    rows->rows = skep_realloc(rows->rows, rows->count + 1, sizeof *rows->rows);
    rows->rows[rows->count++] = *row;
    return SKEP_OK;
}

/* A row is written before its update: if the keeper ended between the two, nobody was told that it has the update, and it comes again. */
static bool is_stored(struct skep_project *project, const struct skep_audit_row *row)
{
    return skep_blobs_has(project->host->blobs, &row->update) ||
           skep_audit_load_holds(project, row);
}

void skep_audit_resume(struct skep_project *project)
{
    struct rows rows = {0};
    struct skep_error reason = {0};
    if (!skep_trust_audits(project)) {
        return;
    }
    struct skep_keeper_db *db = project->host->db;
    if (skep_keeper_db_open_audits(db, &project->manifest.project, collect, &rows, &reason) !=
        SKEP_OK) {
        skep_log(SKEP_LOG_WARNING, "%s", reason.text);
    }
    for (size_t i = 0; i < rows.count; i++) {
        if (is_stored(project, &rows.rows[i])) {
            take(project, &rows.rows[i], true);
        } else {
            (void)skep_keeper_db_remove_audit(db, &project->manifest.project, &rows.rows[i].update,
                                              NULL);
        }
    }
    free(rows.rows);
}

int skep_audit_check_room(const struct skep_project *project,
                          const struct skep_update_statement *statement, struct skep_error *err)
{
    const struct skep_audit *audit = project->host->audit;
    if (!skep_trust_audits(project) || statement->remote || audit == NULL) {
        return SKEP_OK;
    }
    struct skep_hash id =
        skep_audit_id(&project->manifest.project, &statement->donor, &statement->ticket);
    if (skep_audit_queue_find(&audit->queue, &id) != NULL ||
        skep_audit_queue_has_room(&audit->queue, &project->manifest.project, &statement->donor,
                                  skep_trust_is_trusted(project, &statement->donor))) {
        return SKEP_OK;
    }
    return skep_refuse(err, SKEP_REFUSAL_WAITING,
                       "%zu jobs wait to be repeated here, and there is no room for another of "
                       "donor %.12s; try again after the next version",
                       audit->queue.count, skep_id_text(statement->donor.bytes));
}

int skep_audit_note(struct skep_project *project, const struct skep_update_statement *statement,
                    const struct skep_hash *update, struct skep_error *err)
{
    if (!skep_trust_audits(project) || statement->remote) {
        return SKEP_OK;
    }
    struct skep_audit_row row = {.update = *update,
                                 .shard = statement->shard,
                                 .donor = statement->donor,
                                 .ticket = statement->ticket,
                                 .base_version = statement->base_version,
                                 .before = statement->before,
                                 .after = statement->after,
                                 .came_s = skep_clock_unix_s()};
    return skep_keeper_db_add_audit(project->host->db, &project->manifest.project, &row, err);
}

void skep_audit_took(struct skep_project *project, const struct skep_hash *update)
{
    struct skep_audit_row row;
    if (skep_trust_audits(project) &&
        skep_keeper_db_get_audit(project->host->db, &project->manifest.project, update, &row,
                                 NULL) == SKEP_OK &&
        row.verdict == SKEP_AUDIT_OPEN) {
        take(project, &row, false);
    }
}
