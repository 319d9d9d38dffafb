#include "client/agent/agent.h"

#include <assert.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/agent/agent-internal.h"
#include "client/agent/attachment.h"
#include "client/agent/identity.h"
#include "client/agent/receipts.h"
#include "client/agent/showing.h"
#include "client/agent/stamp.h"
#include "client/plan/plan.h"
#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/sys/clock.h"
#include "common/sys/file.h"

#define FRESH_MS 20000u /* keepers found this recently need not be looked for again */
#define POLL_MS 250u
#define EXPERTS_MS 300u /* experts are sealed a little after the trunk */
#define WAIT_MORE_MS 5000u
#define PUBLISH_MS 30000u
#define BACKOFF_FIRST_MS 1000u
#define BACKOFF_MOST_MS 60000u
#define STOP_MS                                                                                    \
    10000u         /* a worker that writes its checkpoint; without one it is a matter of moments */
#define CRASHES 3u /* of a job's worker before the job is given up */

/* An answer that is waited for, and in which state. */
struct skep_agent_call {
    struct skep_agent *agent;
    uint64_t generation;
    bool *have; /* FETCHING_EXPERTS: what was fetched */
};

/* NOLINTBEGIN(misc-no-recursion): agent-internal.h says why it has an end */

void skep_agent_say(struct skep_agent *agent, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(agent->sentence, sizeof agent->sentence, format, arguments);
    va_end(arguments);
    skep_log(SKEP_LOG_DEBUG, "%s", agent->sentence);
}

void skep_agent_fail(struct skep_agent *agent, const struct skep_error *err)
{
    unsigned doublings = agent->failures < 6 ? agent->failures : 6;
    uint64_t wait = (uint64_t)BACKOFF_FIRST_MS << doublings;
    wait = wait < BACKOFF_MOST_MS ? wait : BACKOFF_MOST_MS;
    agent->found_ms = 0;
    if (agent->job.kept && agent->state < SKEP_AGENT_FETCHING_DATA) {
        skep_log(SKEP_LOG_INFO, "%s; going on with the job meanwhile", err->text);
        skep_agent_happen(agent, SKEP_AGENT_KEPT);
        return;
    }
    agent->failures++;
    skep_agent_happen(agent, SKEP_AGENT_FAILED);
    if (agent->state == SKEP_AGENT_BACKOFF) {
        skep_agent_say(agent, "Trying again in %llu s, because %s.",
                       (unsigned long long)((wait + 999) / 1000), err->text);
        skep_log(SKEP_LOG_WARNING, "%s; trying again in %llu ms", err->text,
                 (unsigned long long)wait);
        skep_timer_start(agent->timer, wait, 0);
    }
}

static struct skep_agent_call *call_new(struct skep_agent *agent)
{
    struct skep_agent_call *call = skep_alloc(1, sizeof *call);
    *call = (struct skep_agent_call){.agent = agent, .generation = agent->generation};
    return call;
}

/* Ends a call; true if the agent is still waiting for it. */
static bool call_end(struct skep_agent_call *call, int result)
{
    bool awaited = call->generation == call->agent->generation && result != SKEP_ERR_CANCELLED;
    free(call->have);
    free(call);
    return awaited;
}

static void on_call(void *user, int result, const struct skep_error *err)
{
    struct skep_agent_call *call = user;
    struct skep_agent *agent = call->agent;
    if (!call_end(call, result)) {
        return;
    }
    if (result == 0) {
        skep_agent_happen(agent, SKEP_AGENT_DONE);
    } else {
        skep_agent_fail(agent, err);
    }
}

/* ---- what each state does when it is entered ---- */

static void on_settled(void *user, const struct skep_update_statement *statement, bool accepted)
{
    struct skep_agent *agent = user;
    if (accepted) {
        agent->updates_sent++;
        if (statement->shard.kind == SKEP_SHARD_TRUNK &&
            statement->base_version + 1 > agent->trained) {
            agent->trained = statement->base_version + 1;
        }
        skep_project_save_figures(agent);
    }
    if (agent->state == SKEP_AGENT_PUBLISHING && skep_outbox_unsettled(agent->outbox) == 0) {
        skep_agent_happen(agent, SKEP_AGENT_DONE);
    }
}

/* A job that was done sooner waits for it in BACKOFF. */
static void on_stamp(void *user)
{
    struct skep_agent *agent = user;
    if (agent->state == SKEP_AGENT_BACKOFF) {
        skep_agent_happen(agent, SKEP_AGENT_TIME);
    }
}

/* Once the manifest is there: the stamp, what waits to be sent, and a job that was interrupted. */
static int open_outbox(struct skep_agent *agent, struct skep_error *err)
{
    struct skep_session *session = agent->session;
    int rc = skep_outbox_new(session, on_settled, agent, &agent->outbox, err);
    if (rc == 0) {
        struct skep_stamp_search search;
        skep_stamp_begin(&search, &session->project, &agent->id,
                         session->manifest.trust.stamp_bits);
        skep_showing_introduce(skep_outbox_showing(agent->outbox), &agent->id);
        agent->stamper = skep_stamper_open(agent->loop, session->folder, &search, on_stamp, agent);
        (void)skep_job_load(&agent->job, agent->session);
    }
    return rc;
}

/* Before anything but the manifest is fetched. True if the agent has moved to REFUSING. */
static bool refuse_too_large(struct skep_agent *agent)
{
    struct skep_error err = {0};
    if (skep_plan_check(&agent->session->manifest, agent->memory_bytes, agent->threads,
                        &agent->recompute, &err) == 0) {
        return false;
    }
    skep_agent_happen(agent, SKEP_AGENT_TOO_LARGE);
    skep_agent_say(agent, "%s", err.text);
    skep_log(SKEP_LOG_WARNING, "%s", err.text);
    return true;
}

static void on_find(void *user, int result, const struct skep_error *err)
{
    struct skep_agent_call *call = user;
    struct skep_agent *agent = call->agent;
    struct skep_error own = {0};
    agent->finding = NULL;
    if (result == 0 && agent->outbox == NULL) {
        result = open_outbox(agent, &own);
        err = &own;
    }
    if (result == 0) {
        agent->found_ms = skep_clock_monotonic_ms();
    }
    if (!call_end(call, result)) {
        return;
    }
    if (result != 0) {
        skep_agent_fail(agent, err);
    } else if (!refuse_too_large(agent)) {
        skep_agent_happen(agent, SKEP_AGENT_DONE);
    }
}

static void enter_finding(struct skep_agent *agent)
{
    if (agent->session == NULL) {
        skep_agent_happen(agent, SKEP_AGENT_DETACHED);
        return;
    }
    skep_agent_say(agent, "Looking for keepers of project %.8s.",
                   skep_id_text(agent->project.bytes));
    if (agent->session->has_manifest && refuse_too_large(agent)) {
        return;
    }
    uint64_t now = skep_clock_monotonic_ms();
    if (agent->finding != NULL) {
        agent->finding->generation = agent->generation; /* one runs already: that one counts */
    } else if (agent->outbox != NULL && agent->found_ms != 0 && now - agent->found_ms < FRESH_MS) {
        skep_agent_happen(agent, SKEP_AGENT_DONE);
    } else {
        agent->finding = call_new(agent);
        skep_session_find(agent->session, on_find, agent->finding);
    }
}

static void on_refresh(void *user)
{
    struct skep_agent *agent = user;
    bool resting = agent->state == SKEP_AGENT_PAUSED || agent->state == SKEP_AGENT_STOPPING ||
                   agent->state == SKEP_AGENT_BACKOFF || agent->state == SKEP_AGENT_REFUSING;
    if (agent->session != NULL && agent->finding == NULL && !resting) {
        agent->finding = call_new(agent);
        agent->finding->generation = UINT64_MAX; /* no state waits for it */
        skep_session_find(agent->session, on_find, agent->finding);
    }
}

static void on_receipts(void *user, int result, const struct skep_error *err)
{
    struct skep_agent *agent = user;
    (void)result;
    (void)err;
    agent->receipts_busy = false;
    (void)skep_donor_db_sum(agent->db, &agent->project, &agent->updates_merged,
                            &agent->credit_micro, NULL);
}

static void ask_receipts(struct skep_agent *agent)
{
    if (!agent->receipts_busy) {
        agent->receipts_busy = true;
        skep_receipts_fetch(agent->session, agent->db, &agent->id, on_receipts, agent);
    }
}

/* Will updates of the kept job be accepted when the trunk is at this version? */
static bool is_fresh(const struct skep_agent *agent, uint64_t trunk_version)
{
    return trunk_version <= agent->job.trunk_version + SKEP_LIMIT_STALENESS;
}

static void on_heads(void *user, int result, const struct skep_error *err)
{
    struct skep_agent_call *call = user;
    struct skep_agent *agent = call->agent;
    if (!call_end(call, result)) {
        return;
    }
    if (result != 0) {
        skep_agent_fail(agent, err);
        return;
    }
    agent->round = agent->session->heads.heads[0].version;
    ask_receipts(agent);
    if (agent->job.kept) {
        /* a keeper's mere word does not make it too old: the trunk's seal is looked at then */
        skep_agent_happen(agent, is_fresh(agent, agent->round) ? SKEP_AGENT_KEPT : SKEP_AGENT_DONE);
        return;
    }
    skep_agent_happen(agent, agent->round + 1 <= agent->trained ? SKEP_AGENT_NOTHING_NEW
                                                                : SKEP_AGENT_DONE);
}

static void enter_looking(struct skep_agent *agent)
{
    skep_agent_say(agent, "Asking keepers for the newest versions.");
    skep_session_ask_heads(agent->session, on_heads, call_new(agent));
}

static void on_trunk(void *user, int result, const struct skep_error *err)
{
    struct skep_agent_call *call = user;
    struct skep_agent *agent = call->agent;
    if (!call_end(call, result)) {
        return;
    }
    if (result != 0) {
        skep_agent_fail(agent, err);
        return;
    }
    uint64_t version = agent->session->sealed[0].version;
    if (agent->job.kept && is_fresh(agent, version)) {
        skep_agent_happen(agent, SKEP_AGENT_KEPT);
        return;
    }
    if (agent->job.kept) {
        skep_log(SKEP_LOG_INFO,
                 "the interrupted job is given up: it began at version %llu, and with the trunk at "
                 "version %llu its updates would be too old",
                 (unsigned long long)agent->job.trunk_version, (unsigned long long)version);
        skep_job_drop(&agent->job);
    }
    skep_agent_happen(agent, SKEP_AGENT_DONE);
}

static void enter_fetching_trunk(struct skep_agent *agent)
{
    static const size_t trunk = 0;
    struct skep_agent_call *call = call_new(agent);
    call->have = skep_alloc(1, sizeof *call->have);
    skep_agent_say(agent, "Fetching the trunk of round %llu.", (unsigned long long)agent->round);
    skep_session_fetch_shards(agent->session, &trunk, 1, call->have, on_trunk, call);
}

static void enter_fetching_data(struct skep_agent *agent)
{
    struct skep_job *job = &agent->job;
    skep_job_draw(job, agent->session, &agent->id);
    agent->round = job->trunk_version;
    skep_agent_say(agent, "Fetching %zu data chunks for round %llu.", job->place_count,
                   (unsigned long long)job->trunk_version);
    skep_session_fetch_chunks(agent->session, &agent->session->manifest.train, job->places,
                              job->place_count, on_call, call_new(agent));
}

static void on_experts(void *user, int result, const struct skep_error *err)
{
    struct skep_agent_call *call = user;
    struct skep_agent *agent = call->agent;
    struct skep_error own = {0};
    bool awaited = call->generation == agent->generation && result != SKEP_ERR_CANCELLED;
    int rc = awaited ? skep_job_keep(&agent->job, call->have, &own) : 0;
    call_end(call, result);
    if (!awaited) {
        return;
    }
    if (rc == 0) {
        skep_agent_happen(agent, SKEP_AGENT_DONE);
    } else {
        skep_agent_fail(agent, result != 0 ? err : &own);
    }
}

static void enter_fetching_experts(struct skep_agent *agent)
{
    struct skep_error err = {0};
    if (skep_job_route(&agent->job, agent->session, &err) != 0) {
        skep_agent_fail(agent, &err);
        return;
    }
    skep_session_prune(agent->session, 0);
    struct skep_agent_call *call = call_new(agent);
    call->have = skep_alloc(agent->job.shard_count, sizeof *call->have);
    skep_agent_say(agent, "Fetching %zu experts for round %llu.", agent->job.shard_count - 1,
                   (unsigned long long)agent->job.trunk_version);
    skep_session_fetch_shards(agent->session, agent->job.shards, agent->job.shard_count, call->have,
                              on_experts, call);
}

struct skep_loss_unit skep_agent_loss_unit(const struct skep_agent *agent)
{
    static const struct skep_loss_unit units[] = {
        [SKEP_MODEL_LM] = {1 / 0.69314718055994531, "bits per byte", "tokens"}, /* 1 / log(2) */
        [SKEP_MODEL_CLASSIFIER] = {1, "nats per record", "records"},
    };
    return units[agent->session != NULL ? agent->session->manifest.model.kind : SKEP_MODEL_LM];
}

int skep_agent_publish(struct skep_agent *agent, struct skep_error *err)
{
    uint64_t stamp = 0;
    if (!skep_stamper_found(agent->stamper, &stamp)) {
        return skep_error_set(err, SKEP_ERR_STATE,
                              "the stamp that this project asks of a new key is not found yet");
    }
    return skep_job_publish(&agent->job, agent->session, agent->outbox, agent->key, stamp, err);
}

static void enter_publishing(struct skep_agent *agent)
{
    struct skep_error err = {0};
    skep_agent_say(agent, "Publishing %zu updates of round %llu.", agent->job.shard_count,
                   (unsigned long long)agent->job.trunk_version);
    struct skep_loss_unit unit = skep_agent_loss_unit(agent);
    skep_log(SKEP_LOG_INFO, "trained round %llu: %.3f %s, %.0f %s/s",
             (unsigned long long)agent->job.trunk_version, agent->loss, unit.name,
             agent->tokens_per_s, unit.tokens);
    if (skep_agent_publish(agent, &err) != 0) {
        skep_agent_fail(agent, &err);
        return;
    }
    skep_project_save_figures(agent);
    skep_timer_start(agent->timer, PUBLISH_MS, 0);
    if (skep_outbox_unsettled(agent->outbox) == 0) {
        skep_agent_happen(agent, SKEP_AGENT_DONE);
    }
}

static void enter_waiting(struct skep_agent *agent)
{
    assert(agent->session != NULL);
    agent->failures = 0;
    agent->polling = false;
    agent->deadline_ms =
        skep_clock_monotonic_ms() + agent->session->manifest.merge.window_ms + WAIT_MORE_MS;
    skep_agent_say(agent, "Waiting for the keepers to merge round %llu.",
                   (unsigned long long)agent->round);
    skep_timer_start(agent->timer, 0, POLL_MS);
}

/* Are all shards of our last job beyond the version it started from? */
static bool job_is_sealed(const struct skep_agent *agent)
{
    const struct skep_job *job = &agent->job;
    for (size_t i = 0; job->bases != NULL && i < job->shard_count; i++) {
        if (agent->session->heads.heads[job->shards[i]].version <= job->bases[i].version) {
            return false;
        }
    }
    return true;
}

static void on_poll(void *user, int result, const struct skep_error *err)
{
    struct skep_agent_call *call = user;
    struct skep_agent *agent = call->agent;
    (void)err; /* another keeper is asked next time, and the wait has an end */
    if (!call_end(call, result)) {
        return;
    }
    agent->polling = false;
    if (agent->session->heads.heads[0].version <= agent->round) {
        return;
    }
    uint64_t soon = skep_clock_monotonic_ms() + EXPERTS_MS;
    if (job_is_sealed(agent)) {
        skep_agent_happen(agent, SKEP_AGENT_DONE);
    } else if (soon < agent->deadline_ms) {
        /* a second update for a version we have already helped to end would be refused: give them a moment */
        agent->deadline_ms = soon;
        skep_timer_start(agent->timer, EXPERTS_MS / 3, EXPERTS_MS / 3);
    }
}

static void enter_stopping(struct skep_agent *agent)
{
    skep_agent_say(agent, "Stopping.");
    if (agent->attached) {
        skep_project_save_figures(agent);
    }
    if (agent->job.worker != NULL) {
        skep_process_signal(agent->job.worker, SIGTERM);
        skep_timer_start(agent->timer, STOP_MS, 0);
    } else {
        skep_training_save_result(agent);
        skep_loop_stop(agent->loop);
    }
}

static void enter(struct skep_agent *agent)
{
    switch (agent->state) {
    case SKEP_AGENT_IDLE:
        skep_agent_say(agent, "No project is attached; \"skep attach PROJECT\" gives work.");
        break;
    case SKEP_AGENT_FINDING:
        enter_finding(agent);
        break;
    case SKEP_AGENT_LOOKING:
        enter_looking(agent);
        break;
    case SKEP_AGENT_FETCHING_TRUNK:
        enter_fetching_trunk(agent);
        break;
    case SKEP_AGENT_FETCHING_DATA:
        enter_fetching_data(agent);
        break;
    case SKEP_AGENT_FETCHING_EXPERTS:
        enter_fetching_experts(agent);
        break;
    case SKEP_AGENT_TRAINING:
        skep_training_enter(agent);
        break;
    case SKEP_AGENT_PUBLISHING:
        enter_publishing(agent);
        break;
    case SKEP_AGENT_WAITING:
        enter_waiting(agent);
        break;
    case SKEP_AGENT_PAUSED:
        skep_agent_say(agent, "Paused on request; \"skep resume\" goes on.");
        break;
    case SKEP_AGENT_STOPPING:
        enter_stopping(agent);
        break;
    case SKEP_AGENT_BACKOFF:  /* skep_agent_fail() says why and starts the clock */
    case SKEP_AGENT_REFUSING: /* refuse_too_large() says why */
    case SKEP_AGENT_STAY:
    case SKEP_AGENT_STATES:
        break;
    }
}

void skep_agent_happen(struct skep_agent *agent, enum skep_agent_event event)
{
    enum skep_agent_state before = agent->state;
    enum skep_agent_state next = skep_agent_next(before, event);
    if (next == before) {
        return;
    }
    agent->state = next;
    agent->generation++;
    agent->since_s = skep_clock_unix_s();
    skep_timer_stop(agent->timer);
    if (before == SKEP_AGENT_TRAINING && next == SKEP_AGENT_PAUSED && agent->job.worker != NULL) {
        skep_process_signal(agent->job.worker, SIGTERM); /* it keeps what it has */
    } else if (before == SKEP_AGENT_TRAINING && next != SKEP_AGENT_STOPPING) {
        skep_process_free(agent->job.worker);
        agent->job.worker = NULL;
    }
    enter(agent);
}

static void on_timer(void *user)
{
    struct skep_agent *agent = user;
    if (agent->state == SKEP_AGENT_STOPPING) {
        skep_loop_stop(agent->loop);
    } else if (agent->state != SKEP_AGENT_WAITING ||
               skep_clock_monotonic_ms() >= agent->deadline_ms) {
        skep_agent_happen(agent, SKEP_AGENT_TIME);
    } else if (!agent->polling) {
        agent->polling = true;
        skep_session_poll_trunk(agent->session, on_poll, call_new(agent));
    }
}

/* ---- from outside ---- */

int skep_agent_attach(struct skep_agent *agent, const char *project, const char *bootstrap,
                      struct skep_error *err)
{
    int rc = skep_attachment_check(project, bootstrap, err);
    if (rc != 0) {
        return rc;
    }
    char *kept = skep_strdup(bootstrap != NULL ? bootstrap : agent->bootstrap);
    skep_agent_detach(agent);
    rc = skep_project_open(agent, project, kept, err);
    free(kept);
    if (rc != 0) {
        return rc;
    }
    if (agent->session->has_manifest) {
        rc = open_outbox(agent, err);
    }
    if (rc == 0) {
        rc = skep_project_remember(agent, agent->state == SKEP_AGENT_PAUSED, err);
    }
    if (rc != 0) {
        skep_project_close(agent);
        return rc;
    }
    skep_agent_happen(agent, SKEP_AGENT_ATTACHED);
    return 0;
}

void skep_agent_detach(struct skep_agent *agent)
{
    skep_agent_happen(agent, SKEP_AGENT_DETACHED);
    skep_project_close(agent);
    (void)skep_project_remember(agent, agent->state == SKEP_AGENT_PAUSED, NULL);
}

void skep_agent_pause(struct skep_agent *agent, bool paused)
{
    skep_agent_happen(agent, paused ? SKEP_AGENT_PAUSE : SKEP_AGENT_RESUME);
    (void)skep_project_remember(agent, paused, NULL);
}

void skep_agent_quit(struct skep_agent *agent)
{
    skep_agent_happen(agent, SKEP_AGENT_QUIT);
}

static int open_folder(struct skep_agent *agent, struct skep_error *err)
{
    char *lock = skep_format("%s/lock", agent->dir);
    char *key = skep_format("%s/key.pem", agent->dir);
    char *db = skep_format("%s/donor.db", agent->dir);
    char *control = skep_format("%s/control.sock", agent->dir);
    int rc = skep_folder_make(agent->dir, err);
    if (rc == 0) {
        rc = skep_lock_take(lock, "skepd", &agent->lock, err);
    }
    if (rc == 0) {
        rc = skep_identity_load(key, true, &agent->key, NULL, err);
    }
    if (rc == 0) {
        agent->id = skep_key_id(agent->key);
        rc = skep_donor_db_open(db, &agent->db, err);
    }
    if (rc == 0) {
        rc = skep_ipc_server_open(agent->loop, control, skep_control_answer, agent, &agent->control,
                                  err);
    }
    free(lock);
    free(key);
    free(db);
    free(control);
    return rc;
}

/* What is asked for now, else what was attached before. */
static int begin(struct skep_agent *agent, const struct skep_agent_options *options,
                 struct skep_error *err)
{
    struct skep_attachment kept = {0};
    char folder_text[SKEP_ID_TEXT_SIZE] = "";
    skep_attachment_load(agent->dir, &kept);
    if (kept.attached) {
        snprintf(folder_text, sizeof folder_text, "%s", skep_id_text(kept.project.bytes));
    }
    const char *project = options->attach != NULL ? options->attach : folder_text;
    const char *bootstrap = options->bootstrap != NULL ? options->bootstrap : kept.bootstrap;
    agent->bootstrap = skep_strdup(bootstrap);
    int rc = 0;
    if (kept.paused && options->attach == NULL) {
        skep_agent_happen(agent, SKEP_AGENT_PAUSE);
    }
    if (project[0] != '\0') {
        rc = skep_agent_attach(agent, project, bootstrap, err);
    }
    free(kept.bootstrap);
    return rc;
}

static uint64_t half_of_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size / 2 : UINT64_MAX;
}

int skep_agent_open(struct skep_loop *loop, const struct skep_agent_options *options,
                    struct skep_agent **ret_agent, struct skep_error *err)
{
    struct skep_agent *agent = skep_alloc(1, sizeof *agent);
    agent->loop = loop;
    agent->dir = skep_strdup(options->dir);
    agent->listen_host = skep_strdup(options->listen_host);
    agent->lock = -1;
    agent->threads = options->threads != 0 ? options->threads : 1;
    agent->device = options->device;
    agent->memory_bytes = options->memory_bytes != 0 ? options->memory_bytes : half_of_memory();
    agent->state = SKEP_AGENT_IDLE;
    agent->since_s = skep_clock_unix_s();
    agent->timer = skep_timer_new(loop, on_timer, agent);
    agent->refresh = skep_timer_new(loop, on_refresh, agent);
    skep_timer_start(agent->refresh, FRESH_MS, FRESH_MS);
    enter(agent);
    int rc = open_folder(agent, err);
    if (rc == 0) {
        rc = begin(agent, options, err);
    }
    if (rc != 0) {
        skep_agent_close(agent);
        return rc;
    }
    *ret_agent = agent;
    return 0;
}

void skep_agent_close(struct skep_agent *agent)
{
    if (agent == NULL) {
        return;
    }
    agent->generation++;
    skep_ipc_server_close(agent->control);
    skep_project_close(agent);
    skep_timer_free(agent->timer);
    skep_timer_free(agent->refresh);
    skep_donor_db_close(agent->db);
    skep_key_free(agent->key);
    if (agent->lock >= 0) {
        close(agent->lock);
    }
    free(agent->bootstrap);
    free(agent->listen_host);
    free(agent->dir);
    free(agent);
}

/* NOLINTEND(misc-no-recursion) */
