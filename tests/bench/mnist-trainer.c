/*
 * A donor in remote mode for tests/bench/mnist-remote: trainers that hold only the trunk, with an exponential delay before every
 * call of a layer's experts, forward and backward, as in the paper's simulation of a slow network (arXiv 2002.04013, section 4.2), but
 * on real calls. Writes one line a second: seconds, batches, records, share right, nats a record, trunk version, updates made.
 * Ends on SIGTERM, SIGINT or after --batches, and then its last line is "end".
 */
#include <getopt.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/remote/donor.h"
#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/sys/clock.h"
#include "common/sys/loop.h"

#define FIND_MS 30000u
#define LINE_MS 1000u

struct program {
    const char *dir;
    const char *project;
    const char *bootstrap;
    uint32_t trainers;
    uint32_t batch;
    uint32_t period_ms;
    double delay_ms;
    uint64_t batches; /* 0: until a signal */
    uint64_t seed;
    struct skep_loop *loop;
    struct skep_session *session;
    struct skep_remote_donor *donor;
    uint64_t start_ms;
    struct skep_rng rngs[SKEP_REMOTE_TRAINERS]; /* each trainer's own */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool ending;
};

/* An exponentially distributed time, or until the end. */
static void delay(void *user, uint32_t trainer)
{
    struct program *program = user;
    double ms = -program->delay_ms * log(1 - skep_rng_unit(&program->rngs[trainer]));
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + (uint64_t)(ms * 1e6);
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    pthread_mutex_lock(&program->lock);
    while (!program->ending &&
           pthread_cond_timedwait(&program->ended, &program->lock, &until) == 0) {
    }
    pthread_mutex_unlock(&program->lock);
}

static void end(struct program *program)
{
    pthread_mutex_lock(&program->lock);
    program->ending = true;
    pthread_cond_broadcast(&program->ended);
    pthread_mutex_unlock(&program->lock);
    skep_loop_stop(program->loop);
}

static void on_signal(void *user, int signal_number)
{
    (void)signal_number;
    end(user);
}

static void write_line(struct program *program, const char *first_word)
{
    struct skep_remote_progress progress;
    skep_remote_donor_progress(program->donor, &progress);
    double tokens = progress.tokens > 0 ? (double)progress.tokens : 1;
    printf("%s seconds=%.1f batches=%llu records=%llu right=%.4f nats=%.4f trunk_version=%llu "
           "trunk_updates=%llu expert_updates=%llu expert_early=%llu expert_failed=%llu "
           "failed=%llu\n",
           first_word, (double)(skep_clock_monotonic_ms() - program->start_ms) / 1000,
           (unsigned long long)progress.batches, (unsigned long long)progress.tokens,
           (double)progress.correct / tokens, progress.nats / tokens,
           (unsigned long long)progress.trunk_version, (unsigned long long)progress.trunk_updates,
           (unsigned long long)progress.expert_updates, (unsigned long long)progress.expert_early,
           (unsigned long long)progress.expert_failed, (unsigned long long)progress.failed);
    fflush(stdout);
    if (program->batches > 0 && progress.batches >= program->batches) {
        end(program);
    }
}

static void on_line(void *user)
{
    write_line(user, "at");
}

static int open_project(struct program *program, struct skep_error *err)
{
    struct skep_session_options options = {.folder = program->dir, .bootstrap = program->bootstrap};
    struct skep_wait wait = {0};
    if (!skep_hex_decode(program->project, options.project.bytes, sizeof options.project.bytes)) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "--project is \"%.80s\"; expected: 64 hexadecimal digits",
                              program->project);
    }
    int rc = skep_session_open(program->loop, &options, &program->session, err);
    if (rc == SKEP_OK) {
        skep_session_find(program->session, skep_session_woken, &wait);
        rc = skep_session_wait(program->session, &wait, FIND_MS, err);
    }
    return rc;
}

/* A key from the seed: one donor each, the same in every run. */
static struct skep_key *make_key(uint64_t seed)
{
    uint8_t bytes[32] = "mnist-remote";
    skep_put_u64(bytes + 24, seed);
    return skep_key_from_seed(bytes);
}

static int run(struct program *program)
{
    struct skep_error err = {0};
    struct skep_key *key = make_key(program->seed);
    struct skep_timer *timer = NULL;
    program->loop = skep_loop_new();
    skep_loop_on_signal(program->loop, SIGTERM, on_signal, program);
    skep_loop_on_signal(program->loop, SIGINT, on_signal, program);
    int rc = open_project(program, &err);
    if (rc == SKEP_OK) {
        struct skep_remote_donor_options options = {.session = program->session,
                                                    .key = key,
                                                    .trainers = program->trainers,
                                                    .batch = program->batch,
                                                    .period_ms = program->period_ms,
                                                    .before_call = delay,
                                                    .user = program};
        rc = skep_remote_donor_open(&options, &program->donor, &err);
    }
    if (rc == SKEP_OK) {
        timer = skep_timer_new(program->loop, on_line, program);
        skep_timer_start(timer, LINE_MS, LINE_MS);
        skep_loop_run(program->loop);
        skep_remote_donor_stop(program->donor);
        write_line(program, "end");
    } else {
        fprintf(stderr, "mnist-trainer: %s\n", err.text);
    }
    skep_timer_free(timer);
    skep_session_close(program->session);
    skep_remote_donor_free(program->donor);
    skep_loop_free(program->loop);
    skep_key_free(key);
    return rc == SKEP_OK ? 0 : 1;
}

static void init(struct program *program)
{
    pthread_condattr_t attributes;
    pthread_mutex_init(&program->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&program->ended, &attributes);
    pthread_condattr_destroy(&attributes);
    for (uint64_t i = 0; i < SKEP_REMOTE_TRAINERS; i++) {
        program->rngs[i] = skep_rng_of(program->seed * SKEP_REMOTE_TRAINERS + i);
    }
    program->start_ms = skep_clock_monotonic_ms();
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"dir", required_argument, NULL, 'd'},       {"project", required_argument, NULL, 'p'},
        {"bootstrap", required_argument, NULL, 'b'}, {"trainers", required_argument, NULL, 't'},
        {"batch", required_argument, NULL, 'n'},     {"period", required_argument, NULL, 'r'},
        {"delay", required_argument, NULL, 'y'},     {"batches", required_argument, NULL, 'm'},
        {"seed", required_argument, NULL, 's'},      {NULL, 0, NULL, 0}};
    struct program program = {.trainers = 4, .period_ms = 5000, .seed = 1};
    int letter;
    while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (letter) {
        case 'd':
            program.dir = optarg;
            break;
        case 'p':
            program.project = optarg;
            break;
        case 'b':
            program.bootstrap = optarg;
            break;
        case 't':
            program.trainers = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'n':
            program.batch = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'r':
            program.period_ms = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'y':
            program.delay_ms = strtod(optarg, NULL);
            break;
        case 'm':
            program.batches = strtoull(optarg, NULL, 10);
            break;
        case 's':
            program.seed = strtoull(optarg, NULL, 10);
            break;
        default:
            return 2;
        }
    }
    if (program.dir == NULL || program.project == NULL || program.bootstrap == NULL) {
        fputs("usage: mnist-trainer --dir DIR --project ID --bootstrap HOST:PORT [--trainers N] "
              "[--batch N]\n       [--period MS] [--delay MS] [--batches N] [--seed N]\n",
              stderr);
        return 2;
    }
    skep_log_configure(SKEP_LOG_INFO, "mnist-trainer", NULL);
    init(&program);
    return run(&program);
}
