#include "server/audit.h"

#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/swarm/history.h"
#include "common/swarm/job-file.h"
#include "common/sys/clock.h"
#include "common/sys/file.h"
#include "common/sys/process.h"
#include "server/agreement.h"
#include "server/audit-internal.h"
#include "server/audit-job.h"
#include "server/evidence.h"
#include "server/host.h"
#include "server/project.h"
#include "server/shard.h"
#include "server/trust.h"

#define TICK_MS 500u

uint64_t skep_audit_now(const struct skep_audit *audit)
{
    return skep_loop_now_ms(audit->host->loop);
}

/* ---- evidence ---- */

struct search {
    const struct skep_hash *history;
    size_t size; /* of its bytes; 0: not known */
    const struct skep_kept_shard *shard;
};

static bool is_searched(void *user, const struct skep_hash *history,
                        const struct skep_kept_shard *shard)
{
    struct search *search = user;
    if (skep_hash_equal(history, search->history) &&
        (search->size == 0 || search->size == skep_history_bytes(shard->shape.layout.parameters))) {
        search->shard = shard;
        return false;
    }
    return true;
}

/* The shard of a history that some job needs that is to run; NULL if none does. Anyone can name another's history, even for a shard that it does not
 * fit: whoever does must not come between the two. */
static const struct skep_kept_shard *shard_of_wanted(const struct skep_audit *audit,
                                                     const struct skep_hash *history, size_t size)
{
    struct search search = {.history = history, .size = size};
    for (struct skep_audit_job *job = audit->queue.jobs; job != NULL && search.shard == NULL;
         job = job->next) {
        if (job->stage != SKEP_AUDIT_PINNED) {
            skep_audit_load_histories(job->load, is_searched, &search);
        }
    }
    return search.shard;
}

static enum skep_evidence_want who_wants(void *user, const struct skep_hash *history)
{
    const struct skep_audit *audit = user;
    enum skep_evidence_want want = SKEP_EVIDENCE_UNWANTED;
    for (struct skep_audit_job *job = audit->queue.jobs;
         job != NULL && want != SKEP_EVIDENCE_WANTED; job = job->next) {
        struct search search = {.history = history};
        if (job->stage != SKEP_AUDIT_PINNED && (job->trusted || want == SKEP_EVIDENCE_UNWANTED)) {
            skep_audit_load_histories(job->load, is_searched, &search);
        }
        if (search.shard != NULL) {
            want = job->trusted ? SKEP_EVIDENCE_WANTED : SKEP_EVIDENCE_PROBATION;
        }
    }
    return want;
}

struct lacking {
    const struct skep_evidence *evidence;
    bool (*each)(void *user, const struct skep_hash *history, const struct skep_kept_shard *shard);
    void *user;
};

static bool tell_lacking(void *user, const struct skep_hash *history,
                         const struct skep_kept_shard *shard)
{
    struct lacking *lacking = user;
    return skep_evidence_has(lacking->evidence, history) ||
           lacking->each(lacking->user, history, shard);
}

void skep_audit_wanted(struct skep_project *project, const struct skep_peer_id *donor,
                       bool (*each)(void *user, const struct skep_hash *history,
                                    const struct skep_kept_shard *shard),
                       void *user)
{
    const struct skep_audit *audit = project->host->audit;
    struct lacking lacking = {.evidence = audit->evidence, .each = each, .user = user};
    for (struct skep_audit_job *job = audit->queue.jobs; job != NULL; job = job->next) {
        const struct skep_audit_load *load = job->load;
        if (job->stage == SKEP_AUDIT_WAITING && load->project == project &&
            skep_peer_id_equal(&load->donor, donor)) {
            skep_audit_load_histories(load, tell_lacking, &lacking);
        }
    }
}

/* ---- verdicts ---- */

int skep_audit_set_verdict(struct skep_project *project, const struct skep_audit_row *row,
                           struct skep_error *err)
{
    bool changed = false;
    int result = skep_keeper_db_set_verdict(project->host->db, &project->manifest.project, row,
                                            &changed, err);
    project->audited[row->verdict] += changed;
    return result;
}

void skep_audit_write_verdict(const struct skep_audit_load *load, size_t i,
                              enum skep_audit_verdict verdict, const struct skep_audit_look *look,
                              double seconds)
{
    struct skep_project *project = load->project;
    const struct skep_audit_update *update = &load->updates[i];
    struct skep_error reason = {0};
    if (verdict == SKEP_AUDIT_UNANSWERED && update->shard->shard.kind == SKEP_SHARD_TRUNK) {
        verdict = skep_trust_silence(project, &load->donor);
    }
    struct skep_audit_row row = {.update = update->hash,
                                 .verdict = verdict,
                                 .distance = look != NULL ? look->body.distance : 0,
                                 .overlap = look != NULL ? look->body.overlap : 0,
                                 .seconds = seconds};
    if (skep_audit_set_verdict(project, &row, &reason) != SKEP_OK) {
        skep_log(SKEP_LOG_ERROR, "a verdict is lost, and its audit will be done again: %s",
                 reason.text);
    }
}

void skep_audit_end_all(struct skep_audit *audit, struct skep_audit_job *job,
                        enum skep_audit_verdict verdict)
{
    struct skep_audit_load *load = job->load;
    for (size_t i = 0; i < load->update_count; i++) {
        skep_audit_write_verdict(load, i, verdict, NULL, 0);
    }
    skep_audit_queue_remove(&audit->queue, job);
    skep_audit_load_remove(load);
}

/* The trunk's seals say what was found. */
static void tell(const struct skep_audit_load *load, bool valid)
{
    for (size_t i = 0; i < load->update_count; i++) {
        const struct skep_audit_update *update = &load->updates[i];
        struct skep_round_update found = {
            .hash = update->hash, .donor = load->donor, .base_version = update->base_version};
        bool told = valid && load->late; /* the trunk's update has a verdict, or none was drawn */
        if (update->shard->shard.kind == SKEP_SHARD_TRUNK && !told) {
            skep_agreement_verdict(update->shard, &found, valid);
        }
    }
}

void skep_audit_let_one_in(const struct skep_audit_update *update, const struct skep_peer_id *donor)
{
    struct skep_kept_shard *shard = update->shard;
    struct skep_round_update waiting = {
        .hash = update->hash, .donor = *donor, .base_version = update->base_version};
    bool late = skep_kept_shard_merged(shard, &update->hash, donor, update->base_version) != NULL ||
                update->base_version + SKEP_LIMIT_STALENESS < skep_kept_shard_head(shard)->version;
    if (!late && skep_trust_admits(shard, &update->hash, donor)) {
        skep_agreement_update(shard, &waiting);
    }
}

/* What was held back goes to the agreement. */
static void let_in(const struct skep_audit_load *load)
{
    for (size_t i = 0; i < load->update_count; i++) {
        skep_audit_let_one_in(&load->updates[i], &load->donor);
    }
}

static void log_look(const struct skep_audit_load *load, size_t i,
                     const struct skep_audit_look *look, bool valid, double seconds)
{
    skep_log(
        SKEP_LOG_INFO,
        "audit of update %.12s of donor %.12s for %s: %s, distance %.2g, overlap %.4f, history "
        "%.2g %.2g %.2g%s, %.1f s",
        skep_id_text(load->updates[i].hash.bytes), skep_id_text(load->donor.bytes),
        load->updates[i].shard->text, valid ? "valid" : "INVALID", look->body.distance,
        look->body.overlap, look->first, look->second, look->carried,
        look->has_history && !look->steps_agree ? ", another step" : "", seconds);
}

/* Whoever lies about one shard has lied about the job: its updates have one verdict. */
static int judge(struct skep_audit *audit, struct skep_audit_job *job, double seconds,
                 bool *ret_valid, struct skep_error *err)
{
    struct skep_audit_load *load = job->load;
    struct skep_audit_look *looks = skep_alloc(load->update_count + 1, sizeof *looks);
    bool valid = true;
    int result = SKEP_OK;
    for (size_t i = 0; i < load->update_count && result == SKEP_OK; i++) {
        result = skep_audit_load_look(load, i, audit->evidence, &looks[i], err);
        if (result == SKEP_OK) {
            bool good = skep_audit_look_valid(&looks[i]);
            log_look(load, i, &looks[i], good, seconds);
            valid = valid && good;
        }
    }
    for (size_t i = 0; i < load->update_count && result == SKEP_OK; i++) {
        skep_audit_write_verdict(load, i, valid ? SKEP_AUDIT_VALID : SKEP_AUDIT_INVALID, &looks[i],
                                 seconds);
    }
    free(looks);
    *ret_valid = valid;
    return result;
}

/* ---- the worker ---- */

static void run_next(struct skep_audit *audit);

static void on_line(void *user, const char *line)
{
    struct skep_audit *audit = user;
    struct skep_job_event event;
    if (skep_job_event_decode(line, &event, NULL) != SKEP_OK) {
        return;
    }
    audit->done = audit->done || event.kind == SKEP_JOB_DONE;
    if (event.kind == SKEP_JOB_ERROR) {
        audit->failed = audit->failed || event.code == SKEP_ERR_NUMERIC;
        skep_log(SKEP_LOG_WARNING, "an audit's worker failed: %s", event.message);
    }
}

/* `numeric`: it ended because numbers of the job are none, which what a donor began with can make of them. Whatever else goes wrong is ours: memory,
 * the disk, data and states (which are checked before), a worker that does not start or is killed. */
static void finish(struct skep_audit *audit, struct skep_audit_job *job, bool well, bool numeric,
                   double seconds)
{
    struct skep_audit_load *load = job->load;
    struct skep_error reason = {0};
    bool valid = false;
    if (well) {
        int result = judge(audit, job, seconds, &valid, &reason);
        well = result == SKEP_OK;
        numeric = result == SKEP_ERR_NUMERIC;
    }
    if (!well && reason.text[0] != '\0') {
        skep_log(SKEP_LOG_WARNING, "an audit failed: %s", reason.text);
    }
    if (!well && numeric) {
        skep_audit_queue_blame(job);
    }
    if (!skep_audit_queue_ended(job, well)) {
        return;
    }
    if (!well) {
        bool guilty = skep_audit_queue_is_guilty(job);
        skep_audit_end_all(audit, job, guilty ? SKEP_AUDIT_UNANSWERED : SKEP_AUDIT_NOT_DRAWN);
        return;
    }
    tell(load, valid);
    let_in(load);
    skep_audit_queue_remove(&audit->queue, job);
    skep_audit_load_remove(load);
}

/* What its donor signed cannot be, so nothing is repeated. */
static void convict(struct skep_audit *audit, struct skep_audit_job *job, const char *why)
{
    struct skep_audit_load *load = job->load;
    skep_log(SKEP_LOG_INFO, "the job of version %llu of donor %.12s is INVALID: %s",
             (unsigned long long)load->trunk_version, skep_id_text(load->donor.bytes), why);
    for (size_t i = 0; i < load->update_count; i++) {
        skep_audit_write_verdict(load, i, SKEP_AUDIT_INVALID, NULL, 0);
    }
    tell(load, false);
    skep_audit_queue_remove(&audit->queue, job);
    skep_audit_load_remove(load);
}

static void on_worker_exit(void *user, int status)
{
    struct skep_audit *audit = user;
    struct skep_audit_job *job = audit->running;
    double seconds = (double)(skep_clock_monotonic_ms() - audit->started_ms) / 1000;
    skep_process_free(audit->worker);
    audit->worker = NULL;
    audit->running = NULL;
    finish(audit, job, status == 0 && audit->done, audit->failed, seconds);
    run_next(audit);
}

static int start_worker(struct skep_audit *audit, const char *path, struct skep_error *err)
{
    static const char *const environment[] = {"OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1", NULL};
    char *program = skep_process_find("skep-worker");
    const char *const arguments[] = {"nice", "-n", "19", program, path, NULL};
    struct skep_process_options options = {.arguments = arguments,
                                           .environment = environment,
                                           .on_line = on_line,
                                           .on_exit = on_worker_exit,
                                           .user = audit};
    audit->done = false;
    audit->failed = false;
    audit->started_ms = skep_clock_monotonic_ms();
    int result = skep_process_start(audit->host->loop, &options, &audit->worker, err);
    free(program);
    return result;
}

static void run_next(struct skep_audit *audit)
{
    struct skep_audit_job *job = NULL;
    while (!audit->host->leaving && (job = skep_audit_queue_next(&audit->queue)) != NULL) {
        char *path = NULL;
        struct skep_error reason = {0};
        if (skep_audit_load_is_false(job->load, audit->evidence, &reason)) {
            convict(audit, job, reason.text);
            continue;
        }
        int result = skep_audit_load_write(job->load, audit->evidence, &path, &reason);
        if (result == SKEP_OK) {
            result = start_worker(audit, path, &reason);
        }
        free(path);
        if (result == SKEP_OK) {
            audit->running = job;
            return;
        }
        skep_log(SKEP_LOG_WARNING, "an audit cannot begin: %s", reason.text);
        finish(audit, job, false, false, 0);
    }
}

/* ---- the queue ---- */

/* Those whose needs are there become ready, those that waited too long unanswered. */
static void look(struct skep_audit *audit)
{
    struct skep_audit_job *job = NULL;
    uint64_t now = skep_audit_now(audit);
    for (job = audit->queue.jobs; job != NULL; job = job->next) {
        struct skep_audit_load *load = job->load;
        if (!load->pinned) {
            skep_audit_load_pin(load);
        }
        if (job->stage == SKEP_AUDIT_WAITING &&
            skep_audit_load_complete(load, audit->evidence, now)) {
            skep_audit_queue_ready(job);
        }
    }
    while ((job = skep_audit_queue_expired(&audit->queue, now)) != NULL) {
        struct skep_audit_load *load = job->load;
        if (load->crowded && !load->prolonged) { /* others may have made room meanwhile */
            load->prolonged = true;
            load->crowded = false; /* if it is shown again in vain, that is said again */
            skep_audit_queue_prolong(&audit->queue, job, now);
            continue;
        }
        bool silent = skep_audit_load_is_silent(load, audit->evidence);
        skep_log(SKEP_LOG_INFO, "a job of donor %.12s of version %llu is not repeated: %s",
                 skep_id_text(load->donor.bytes), (unsigned long long)load->trunk_version,
                 silent ? "it did not show what it began with" : "something is lacking here");
        skep_audit_end_all(audit, job, silent ? SKEP_AUDIT_UNANSWERED : SKEP_AUDIT_NOT_DRAWN);
    }
    run_next(audit);
}

static void on_timer(void *user)
{
    struct skep_audit *audit = user;
    if (!audit->host->leaving) {
        look(audit);
    }
}

int skep_audit_open(struct skep_host *host, struct skep_audit **ret_audit, struct skep_error *err)
{
    struct skep_audit *audit = skep_alloc(1, sizeof *audit);
    char *folder = skep_host_path(host, "evidence");
    audit->host = host;
    audit->queue.limit = SKEP_AUDIT_JOBS;
    audit->queue.most_new = SKEP_AUDIT_NEW_JOBS;
    audit->queue.most_of_donor = SKEP_AUDIT_DONOR_JOBS;
    audit->queue.wait_ms = SKEP_AUDIT_WAIT_MS;
    audit->timer = skep_timer_new(host->loop, on_timer, audit);
    int result = skep_evidence_open(folder, SKEP_AUDIT_EVIDENCE_BYTES, who_wants, audit,
                                    &audit->evidence, err);
    free(folder);
    if (result != SKEP_OK) {
        skep_audit_close(audit);
        return result;
    }
    skep_timer_start(audit->timer, TICK_MS, TICK_MS);
    *ret_audit = audit;
    return SKEP_OK;
}

void skep_audit_close(struct skep_audit *audit)
{
    if (audit == NULL) {
        return;
    }
    skep_process_free(audit->worker);
    while (audit->queue.jobs != NULL) {
        struct skep_audit_job *job = audit->queue.jobs;
        skep_audit_load_free(job->load);
        skep_audit_queue_remove(&audit->queue, job);
    }
    skep_timer_free(audit->timer);
    skep_evidence_close(audit->evidence);
    skep_audit_asked_done(&audit->asked);
    free(audit);
}

/* ---- from outside ---- */

static bool say_yes(void *user, const struct skep_hash *history,
                    const struct skep_kept_shard *shard)
{
    (void)history;
    (void)shard;
    *(bool *)user = true;
    return false;
}

bool skep_audit_asks(struct skep_project *project, const struct skep_hash *update)
{
    struct skep_audit_row row;
    bool asks = false;
    if (skep_trust_audits(project) &&
        skep_keeper_db_get_audit(project->host->db, &project->manifest.project, update, &row,
                                 NULL) == SKEP_OK) {
        skep_audit_wanted(project, &row.donor, say_yes, &asks);
    }
    return asks;
}

bool skep_audit_tells(struct skep_project *project, const struct skep_hash *update,
                      unsigned *ret_passed)
{
    struct skep_audit_row row;
    if (!skep_trust_audits(project) ||
        skep_keeper_db_get_audit(project->host->db, &project->manifest.project, update, &row,
                                 NULL) != SKEP_OK) {
        return false;
    }
    *ret_passed = skep_trust_passed(project, &row.donor);
    return true;
}

bool skep_audit_yields(struct skep_project *project, const struct skep_hash *update)
{
    struct skep_audit *audit = project->host->audit;
    struct skep_audit_row row;
    if (skep_keeper_db_get_audit(project->host->db, &project->manifest.project, update, &row,
                                 NULL) != SKEP_OK) {
        return false;
    }
    struct skep_hash id = skep_audit_id(&project->manifest.project, &row.donor, &row.ticket);
    enum skep_audit_standing standing = skep_audit_queue_find(&audit->queue, &id) != NULL
                                            ? SKEP_AUDIT_LOOKED_AT
                                            : SKEP_AUDIT_NOT_LOOKED_AT;
    if (row.verdict == SKEP_AUDIT_INVALID || skep_trust_is_banned(project, &row.donor)) {
        standing = SKEP_AUDIT_CAUGHT;
    }
    return skep_audit_asked_gives(&audit->asked, update, standing, skep_audit_now(audit));
}

/* Those that need this history and cannot have it for want of room. */
static void note_crowded(struct skep_audit *audit, const struct skep_hash *history)
{
    for (struct skep_audit_job *job = audit->queue.jobs; job != NULL; job = job->next) {
        struct search search = {.history = history};
        struct skep_audit_load *load = job->load;
        skep_audit_load_histories(load, is_searched, &search);
        load->crowded = load->crowded || search.shard != NULL;
    }
}

int skep_audit_evidence(struct skep_audit *audit, const struct skep_hash *history, const void *data,
                        size_t size, struct skep_error *err)
{
    const struct skep_kept_shard *shard = shard_of_wanted(audit, history, size);
    if (shard == NULL) { /* what is wrong with these bytes is said below */
        shard = shard_of_wanted(audit, history, 0);
    }
    if (shard == NULL) {
        return skep_error_set(err, SKEP_ERR_NOT_FOUND, "nobody here asked for history %.16s",
                              skep_id_text(history->bytes));
    }
    int result = skep_evidence_put(audit->evidence, history, shard->shape.layout.parameters, data,
                                   size, err);
    if (result == SKEP_OK) {
        look(audit);
    } else if (result != SKEP_ERR_FORMAT && result != SKEP_ERR_HASH) {
        note_crowded(audit, history);
    }
    return result;
}

size_t skep_audit_waiting(const struct skep_audit *audit)
{
    return audit->queue.count - skep_audit_queue_count(&audit->queue, SKEP_AUDIT_PINNED);
}

uint64_t skep_audit_evidence_bytes(const struct skep_audit *audit)
{
    return skep_evidence_bytes(audit->evidence);
}
