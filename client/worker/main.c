/*
 * skep-worker JOBFILE: trains one job and writes the updates' bodies (job-file.h says what comes in and what goes out). It never
 * touches the network, and nothing but its job's folder is written.
 */
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/worker/checkpoint.h"
#include "client/worker/parts.h"
#include "client/worker/work.h"
#include "common/base/log.h"
#include "common/swarm/job-file.h"
#include "common/sys/clock.h"

#define PROGRESS_MS 250u
#define RETURNED_BYTES (1 << 17) /* pieces of this size and more go back to the system when freed */

/* While nothing has been computed there is nothing to keep, and whoever stops us then need not wait for gigabytes to be read. */
#define NOTHING_TO_KEEP                                                                            \
    "{\"event\":\"halted\",\"step\":0,\"tokens\":0}\n{\"event\":\"stopped\",\"step\":0,"           \
    "\"tokens\":0}\n"

static atomic_bool stop_wanted;
static volatile sig_atomic_t reading; /* the job is being read */

/* What is remembered between the steps. */
struct course {
    struct skep_work *work;
    struct skep_train_position kept; /* as in the checkpoint on the disk, */
    uint32_t kept_parts;             /* too */
    uint64_t told_ms;
    uint64_t kept_ms;
    uint64_t pause_ms; /* between checkpoints; 0: none */
    char line[64];     /* of stdin, as far as it has come */
    size_t line_size;
    struct skep_error err; /* that a checkpoint met */
};

static void on_stop(int signal_number)
{
    (void)signal_number;
    if (reading) {
        ssize_t ignored = write(STDOUT_FILENO, NOTHING_TO_KEEP, sizeof NOTHING_TO_KEEP - 1);
        (void)ignored;
        _exit(0);
    }
    atomic_store(&stop_wanted, true);
}

static void tell(const struct skep_job_event *event)
{
    char *line = skep_job_event_encode(event);
    puts(line);
    fflush(stdout);
    free(line);
}

static void tell_position(const struct course *course, enum skep_job_event_kind kind)
{
    const struct skep_train_position *position = &course->work->position;
    tell(
        &(struct skep_job_event){.kind = kind, .step = position->step, .tokens = position->tokens});
}

/* ---- between the steps ---- */

static void take_line(const char *line)
{
    char *end = NULL;
    unsigned long threads = 0;
    if (strncmp(line, "threads ", 8) == 0) {
        threads = strtoul(line + 8, &end, 10);
    }
    if (threads >= 1 && threads <= SKEP_JOB_THREADS && *end == '\0') {
        skep_ops_set_threads((unsigned)threads);
    } else {
        skep_log(SKEP_LOG_WARNING, "stdin said \"%.60s\"; expected: threads N", line);
    }
}

/* What skepd has said since the last step, without waiting. */
static void listen_to_agent(struct course *course)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char letter;
    while (poll(&input, 1, 0) == 1 && (input.revents & POLLIN) != 0 &&
           read(STDIN_FILENO, &letter, 1) == 1) {
        if (letter == '\n') {
            course->line[course->line_size] = '\0';
            course->line_size = 0;
            take_line(course->line);
        } else if (course->line_size < sizeof course->line - 1) {
            course->line[course->line_size++] = letter;
        }
    }
}

/* Is there anything that the checkpoint on the disk does not have? */
static bool is_news(const struct course *course)
{
    const struct skep_work *work = course->work;
    const struct skep_train_position *position = &work->position;
    const struct skep_train_position *kept = &course->kept;
    return position->step != kept->step || position->updating != kept->updating ||
           position->shard != kept->shard || position->offset != kept->offset ||
           work->parts != course->kept_parts;
}

static int keep(struct course *course, struct skep_error *err)
{
    const struct skep_work *work = course->work;
    if (!is_news(course)) {
        return 0;
    }
    if (work->parts != 0) {
        skep_parts_sync(work);
    }
    int rc = skep_checkpoint_write(work, err);
    if (rc == 0) {
        course->kept = work->position;
        course->kept_parts = work->parts;
        course->kept_ms = skep_clock_monotonic_ms();
    }
    return rc;
}

static bool on_step(void *user, uint32_t step, double loss_nats, uint64_t tokens)
{
    struct course *course = user;
    uint64_t now = skep_clock_monotonic_ms();
    (void)tokens; /* of this step */
    if (now - course->told_ms >= PROGRESS_MS) {
        course->told_ms = now;
        tell(&(struct skep_job_event){.kind = SKEP_JOB_PROGRESS,
                                      .step = step,
                                      .loss = loss_nats,
                                      .tokens = course->work->position.tokens});
    }
    listen_to_agent(course);
    if (course->pause_ms != 0 && now - course->kept_ms >= course->pause_ms) {
        struct skep_error err = {0};
        if (keep(course, &err) != 0) { /* a full disk must not end a job that needs no checkpoint */
            skep_log(SKEP_LOG_WARNING, "no checkpoint: %s", err.text);
            course->kept_ms = now;
        }
    }
    return atomic_load(&stop_wanted);
}

/* ---- the job ---- */

/* From the checkpoint if there is one that is good, else from the beginning. */
static int set_out(struct course *course, struct skep_error *err)
{
    struct skep_work *work = course->work;
    struct skep_error why = {0};
    int rc = skep_checkpoint_read(work, &why);
    if (rc == 0) {
        skep_log(SKEP_LOG_INFO, "going on after step %u of %u", work->position.step,
                 work->manifest.training.steps);
        course->kept = work->position;
        course->kept_parts = work->parts;
        return 0;
    }
    work->parts = 0;
    work->position = course->kept; /* nothing that is better than what is on the disk */
    if (rc == SKEP_ERR_CANCELLED) {
        *err = why;
        return rc;
    }
    if (rc != SKEP_ERR_NOT_FOUND) {
        skep_log(SKEP_LOG_WARNING, "the job begins anew, because its checkpoint cannot be used: %s",
                 why.text);
    }
    return skep_work_begin(work, err);
}

static int train(struct course *course, struct skep_error *err)
{
    struct skep_work *work = course->work;
    struct skep_train_job job = {
        .training = &work->manifest.training,
        .learning_rate = skep_train_rate(&work->manifest.training, work->job.trunk_version),
        .shards = work->shards,
        .moments = work->moments,
        .shard_count = work->job.shard_count,
        .chunks = work->chunks,
        .chunk_count = work->job.chunk_count,
        .ticket = &work->job.ticket,
        .poll = on_step,
        .user = course};
    if (work->job.checkpoint_s != 0) {
        course->pause_ms =
            skep_checkpoint_pause_ms(skep_checkpoint_bytes(work), work->job.checkpoint_s);
    }
    course->kept_ms = skep_clock_monotonic_ms();
    int rc = skep_train_run(work->model, &job, &work->position, err);
    if (rc == 0 && !(isfinite(work->position.loss_first) && isfinite(work->position.loss_last))) {
        rc = skep_error_set(err, SKEP_ERR_NUMERIC, "the loss of this job is not a number");
    }
    return rc;
}

static uint64_t peak_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

static int run(struct course *course, const char *path, struct skep_error *err)
{
    struct skep_work *work = course->work;
    reading = 1;
    int rc = skep_work_open(work, path, err);
    if (rc == 0) {
        rc = set_out(course, err);
    }
    reading = 0;
    if (rc == 0) {
        rc = train(course, err);
    }
    while (rc == 0 && work->parts < work->job.shard_count) {
        rc = skep_work_stopped(err);
        if (rc == 0) {
            rc = skep_part_write(work, work->parts, err);
            work->parts += rc == 0;
        }
    }
    if (rc == 0) {
        tell(&(struct skep_job_event){.kind = SKEP_JOB_DONE,
                                      .tokens = work->position.tokens,
                                      .loss = work->position.loss_last,
                                      .loss_first = work->position.loss_first,
                                      .peak_bytes = peak_bytes()});
    }
    return rc;
}

static void tell_failure(const struct skep_work *work, const struct skep_error *err)
{
    struct skep_job_event event = {.kind = SKEP_JOB_ERROR, .code = err->code};
    snprintf(event.message, sizeof event.message, "%s", err->text);
    if (work->damaged != NULL) {
        event.damaged = true;
        event.shard = *work->damaged;
    }
    tell(&event);
    skep_log(SKEP_LOG_ERROR, "%s", err->text);
}

/* SIGTERM when skepd asks for it or is gone: then nobody waits for the result now, but the next skepd takes it up. */
static void obey(void)
{
    struct sigaction action = {.sa_handler = on_stop};
    pid_t parent = getppid();
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE,
           SIG_IGN); /* a daemon that is gone hears nothing, and the checkpoint matters still */
    skep_ops_set_stop(&stop_wanted);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        atomic_store(&stop_wanted, true);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2 || argv[1][0] == '-') {
        fprintf(stderr, "usage: skep-worker JOBFILE   (started by skepd)\n");
        return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }
    skep_log_configure(SKEP_LOG_INFO, "skep-worker", NULL);
    mallopt(M_MMAP_THRESHOLD, RETURNED_BYTES);
    obey();
    struct skep_work work = {0};
    struct course course = {.work = &work};
    struct skep_error err = {0};
    int rc = run(&course, argv[1], &err);
    if (rc != 0 && atomic_load(&stop_wanted)) {
        tell_position(&course, SKEP_JOB_HALTED);
        rc = keep(&course, &err);
        if (rc == 0) {
            tell_position(&course, SKEP_JOB_STOPPED);
        }
    }
    if (rc != 0) {
        tell_failure(&work, &err);
    }
    skep_work_done(&work);
    return skep_err_exit_status((enum skep_err)rc);
}
