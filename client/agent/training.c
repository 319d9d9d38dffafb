/* TRAINING: the job's worker started, listened to, and what follows from its end. */
#include <math.h>
#include <signal.h>

#include "client/agent/agent-internal.h"
#include "common/base/log.h"
#include "common/sys/clock.h"

#define CRASHES 3u /* of a job's worker before the job is given up */

/* NOLINTBEGIN(misc-no-recursion): agent-internal.h says why it has an end */

static void on_progress(void *user)
{
    struct skep_agent *agent = user;
    const struct skep_job *job = &agent->job;
    uint64_t elapsed = skep_clock_monotonic_ms() - job->started_ms;
    if (job->last.tokens > 0) {
        uint64_t tokens = job->last.tokens - (job->counting ? job->started_tokens : 0);
        agent->loss = job->last.loss * skep_agent_loss_unit(agent).nats;
        agent->tokens_per_s = elapsed > 0 ? (double)tokens * 1000 / (double)elapsed : 0;
    }
}

/* The worker has ended without being done and without having been asked to. */
static void worker_failed(struct skep_agent *agent, int status)
{
    struct skep_job *job = &agent->job;
    struct skep_error err = {0};
    job->crashes++;
    if (job->failure[0] != '\0') {
        skep_error_set(&err, SKEP_ERR_STATE, "the worker failed: %s", job->failure);
        skep_job_forget_damaged(job, agent->session);
    } else {
        skep_error_set(&err, SKEP_ERR_STATE, "the worker ended with %s %d",
                       status < 0 ? "signal" : "status", status < 0 ? -status : status);
    }
    /* what it gave a reason for would happen again; what killed it perhaps not */
    if (job->failure[0] != '\0' || job->crashes >= CRASHES) {
        skep_job_drop(job);
    }
    skep_agent_fail(agent, &err);
}

/* A result that came when we were about to leave: it is sent by the next run. */
void skep_training_save_result(struct skep_agent *agent)
{
    struct skep_error err = {0};
    if (agent->job.last.kind == SKEP_JOB_DONE && agent->job.kept &&
        skep_agent_publish(agent, &err) != 0) {
        skep_log(SKEP_LOG_WARNING, "%s", err.text);
    }
}

static void start_worker(struct skep_agent *agent);

static void on_worker_exit(void *user, int status)
{
    struct skep_agent *agent = user;
    skep_process_free(agent->job.worker);
    agent->job.worker = NULL;
    if (agent->state == SKEP_AGENT_STOPPING) {
        skep_training_save_result(agent);
        skep_loop_stop(agent->loop);
    } else if (agent->state != SKEP_AGENT_TRAINING) {
        skep_log(SKEP_LOG_DEBUG, "the job is %s", agent->job.stopped ? "interrupted" : "over");
    } else if (agent->job.stopped) {
        start_worker(agent); /* resumed while it was still writing */
    } else if (status == 0 && agent->job.last.kind == SKEP_JOB_DONE) {
        agent->tokens_total += agent->job.last.tokens;
        agent->peak_bytes = agent->job.last.peak_bytes;
        skep_agent_happen(agent, SKEP_AGENT_DONE);
    } else {
        worker_failed(agent, status);
    }
}

static void start_worker(struct skep_agent *agent)
{
    struct skep_error err = {0};
    struct skep_job_means means = {.threads = agent->threads,
                                   .recompute = agent->recompute,
                                   .device = skep_device_name(agent->device)};
    agent->watch = (struct skep_job_watch){
        .job = &agent->job, .on_progress = on_progress, .on_exit = on_worker_exit, .user = agent};
    if (skep_job_start(&agent->job, agent->session, agent->outbox, &means, &agent->watch, &err) !=
        0) {
        skep_agent_fail(agent, &err);
    }
}

void skep_training_enter(struct skep_agent *agent)
{
    struct skep_job *job = &agent->job;
    agent->round = job->trunk_version;
    skep_agent_say(agent, "Training round %llu of %s: the trunk and %zu experts%s.",
                   (unsigned long long)job->trunk_version, agent->session->manifest.name,
                   job->shard_count - 1, job->kept ? ", from where it was interrupted" : "");
    if (job->worker != NULL) {
        return; /* on_worker_exit() starts it again */
    }
    if (job->last.kind == SKEP_JOB_DONE) {
        /* it was done just before it was to pause, or could not be published */
        skep_agent_happen(agent, SKEP_AGENT_DONE);
    } else {
        start_worker(agent);
    }
}

/* NOLINTEND(misc-no-recursion) */
