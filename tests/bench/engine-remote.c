/*
 * Experts computed by a real keeper for callers on the same machine, over HTTPS on loopback, against hivemind's expert server and layer
 * doing the same on this kind of machine.
 *
 *   engine-remote [--quick] [FIGURE]...
 *
 *   remote_1024_512     samples/s forward and backward of one ffn, d = 1024, batches of 512, 2 clients; keeper with 1 thread
 *   remote_1024_512_2   the same with 2 threads
 *   remote_256_64       d = 256, batches of 64, 2 clients
 *   remote_256_64_2     the same with 2 threads
 *   remote_nop          calls/s, forward, 1 client, 1 sample a call, of the smallest expert there is (d = 256, h = 8): what a call costs
 *   dmoe_remote_128     samples/s of one trainer with a whole layer, 4x4 experts, d = 128, k = 4, batches of 64, forward and backward
 *
 * A rate is that of the best WINDOW_S seconds: other programs on the machine can only slow one down. The mean over the whole run and the
 * processor time per sample go to stderr. A backward pass computes the forward pass again, as hivemind's does. hivemind's figures: 0.9.9, 2 virtual cores (AMD EPYC), Debian 12.
 */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "client/network/experts.h"
#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/model/layout.h"
#include "common/model/model.h"
#include "tests/lib/real-keepers.h"

#define CLIENTS_MOST 4u
#define CALLS_MOST ((size_t)1 << 20)
#define WINDOW_S 3.0
#define RUN_S 20.0
#define QUICK_S 5.0

struct figure {
    const char *name;
    const char *unit;
    double reference; /* hivemind's */
    const char *threads;
    unsigned clients;
    uint32_t dim;
    uint32_t hidden;
    uint32_t batch;
    uint32_t side; /* of the grid */
    uint32_t experts_per_token;
    bool backward;
};

static const struct figure figures[] = {
    {"remote_1024_512", "samples/s", 801, "1", 2, 1024, 4096, 512, 1, 1, true},
    {"remote_1024_512_2", "samples/s", 1122, "2", 2, 1024, 4096, 512, 1, 1, true},
    {"remote_256_64", "samples/s", 2957, "1", 2, 256, 1024, 64, 1, 1, true},
    {"remote_256_64_2", "samples/s", 2716, "2", 2, 256, 1024, 64, 1, 1, true},
    {"remote_nop", "calls/s", 119, "1", 1, 256, 8, 1, 1, 1, false},
    {"dmoe_remote_128", "samples/s", 24, "1", 1, 128, 512, 64, 4, 4, true},
};

/* When calls (forward and backward) of any client ended. */
struct journal {
    pthread_mutex_t lock;
    size_t count;
    double *ends_s;
};

/* One client and its thread. */
struct client {
    pthread_t thread;
    const struct figure *figure;
    struct skep_caller *caller;
    const struct skep_manifest *manifest;
    double seconds; /* to go on for */
    pthread_barrier_t *start;
    struct journal *journal;
    uint64_t samples; /* with those before it was measured */
    bool failed;
};

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void note_call(struct journal *journal)
{
    pthread_mutex_lock(&journal->lock);
    if (journal->count < CALLS_MOST) {
        journal->ends_s[journal->count++] = now_s();
    }
    pthread_mutex_unlock(&journal->lock);
}

/* The best calls/s over WINDOW_S or more. Clients that share batches end together, so only multiples of their number say how long a
 * call takes. */
static double best_rate(const struct journal *journal, unsigned clients)
{
    double best = 0;
    size_t first = 0;
    assert(clients > 0);
    for (size_t last = 0; last < journal->count; last++) {
        while (first + clients <= last &&
               journal->ends_s[last] - journal->ends_s[first + 1] >= WINDOW_S) {
            first++;
        }
        size_t calls = (last - first) / clients * clients;
        double spent_s = journal->ends_s[last] - journal->ends_s[last - calls];
        if (calls > 0 && spent_s >= 0.8 * WINDOW_S && (double)calls / spent_s > best) {
            best = (double)calls / spent_s;
        }
    }
    return best;
}

static double mean_rate(const struct journal *journal)
{
    double spent_s =
        journal->count > 1 ? journal->ends_s[journal->count - 1] - journal->ends_s[0] : 0;
    return spent_s > 0 ? (double)(journal->count - 1) / spent_s : 0;
}

static float *random_rows(size_t count, uint64_t seed)
{
    struct skep_rng rng = skep_rng_of(seed);
    float *values = skep_alloc(count, sizeof *values);
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(2 * skep_rng_unit(&rng) - 1);
    }
    return values;
}

/* ---- one expert ---- */

struct rows {
    float *x;
    float *y;
    float *dx;
};

static bool call_once(struct client *client, const struct skep_expert_calls *calls,
                      struct rows *rows)
{
    const struct skep_expert_group group = {.count = client->figure->batch};
    struct skep_error err = {0};
    bool answered = true;
    int rc = calls->forward(calls->user, 0, &group, 1, rows->x, rows->y, &answered, &err);
    if (rc == SKEP_OK && answered && client->figure->backward) {
        rc =
            calls->backward(calls->user, 0, &group, 1, rows->x, rows->y, rows->dx, &answered, &err);
    }
    if (rc != SKEP_OK || !answered) {
        fprintf(stderr, "engine-remote: a call failed: %s\n", err.text);
        client->failed = true;
    }
    client->samples += client->figure->batch;
    return !client->failed;
}

static void run_expert(struct client *client, const struct skep_expert_calls *calls)
{
    size_t count = (size_t)client->figure->batch * client->figure->dim;
    struct rows rows = {random_rows(count, 1), random_rows(count, 2), random_rows(count, 3)};
    (void)call_once(client, calls, &rows);
    pthread_barrier_wait(client->start);
    double start = now_s();
    while (!client->failed && now_s() - start < client->seconds &&
           call_once(client, calls, &rows)) {
        note_call(client->journal);
    }
    free(rows.x);
    free(rows.y);
    free(rows.dx);
}

/* ---- a whole layer ---- */

static bool train_once(struct client *client, struct skep_model *model, const uint8_t *records)
{
    struct skep_model_loss loss;
    struct skep_error err = {0};
    int rc = skep_model_forward(model, records, client->figure->batch, &loss, &err);
    if (rc == SKEP_OK) {
        rc = skep_model_backward(model, 0, &err);
    }
    if (rc != SKEP_OK) {
        fprintf(stderr, "engine-remote: training failed: %s\n", err.text);
        client->failed = true;
    }
    client->samples += client->figure->batch;
    return !client->failed;
}

static void set_trunk(struct client *client, struct skep_model *model)
{
    const struct skep_shard trunk = {.kind = SKEP_SHARD_TRUNK};
    struct skep_layout layout;
    skep_layout_of(&client->manifest->model, &trunk, &layout);
    float *values = skep_alloc(layout.parameters, sizeof *values);
    skep_layout_seed(&layout, &client->manifest->model, &client->manifest->seed, values);
    client->failed = skep_model_set(model, &trunk, values) != SKEP_OK;
    free(values);
    skep_layout_done(&layout);
}

static void run_layer(struct client *client, const struct skep_expert_calls *calls)
{
    const struct skep_model_config *config = &client->manifest->model;
    size_t window = skep_model_config_window(config);
    uint8_t *records = skep_alloc(client->figure->batch * window, 1);
    struct skep_rng rng = skep_rng_of(4);
    for (size_t i = 0; i < client->figure->batch * window; i++) {
        records[i] = (uint8_t)skep_rng_below(
            &rng, i % window == window - 1 ? config->classes : 256); /* the class comes last */
    }
    struct skep_model_options options = {.batch = client->figure->batch, .calls = calls};
    struct skep_model *model = NULL;
    client->failed = skep_model_new(config, &options, &model, NULL) != SKEP_OK;
    if (!client->failed) {
        set_trunk(client, model);
        (void)(!client->failed && train_once(client, model, records));
    }
    pthread_barrier_wait(client->start);
    double start = now_s();
    while (!client->failed && now_s() - start < client->seconds &&
           train_once(client, model, records)) {
        note_call(client->journal);
    }
    skep_model_free(model);
    free(records);
}

static void *run_client(void *user)
{
    struct client *client = user;
    struct skep_caller_line *line = skep_caller_line_new(client->caller);
    const struct skep_expert_calls calls = skep_caller_line_calls(line);
    if (client->figure->side > 1) {
        run_layer(client, &calls);
    } else {
        run_expert(client, &calls);
    }
    skep_caller_line_free(line);
    return NULL;
}

/* ---- figures ---- */

static struct skep_manifest manifest_of(const struct figure *figure)
{
    struct skep_manifest manifest = {0};
    skep_manifest_defaults(&manifest);
    manifest.trust.stamp_bits = 0;
    manifest.model = (struct skep_model_config){.kind = SKEP_MODEL_CLASSIFIER,
                                                .inputs = 784,
                                                .classes = 10,
                                                .dim = figure->dim,
                                                .hidden = figure->hidden,
                                                .layers = 1,
                                                .rows = figure->side,
                                                .columns = figure->side,
                                                .experts_per_token = figure->experts_per_token};
    skep_model_config_imply(&manifest.model);
    manifest.training.donor_rows = 1;
    manifest.chunk_bytes = 64 * (uint32_t)skep_model_config_window(&manifest.model);
    return manifest;
}

static bool run_clients(const struct figure *figure, struct skep_caller *caller,
                        const struct skep_manifest *manifest, double seconds,
                        struct journal *journal, uint64_t *ret_samples)
{
    struct client clients[CLIENTS_MOST];
    pthread_barrier_t start;
    bool good = true;
    pthread_barrier_init(&start, NULL, figure->clients);
    for (unsigned i = 0; i < figure->clients; i++) {
        clients[i] = (struct client){.figure = figure,
                                     .caller = caller,
                                     .manifest = manifest,
                                     .seconds = seconds,
                                     .journal = journal,
                                     .start = &start};
        pthread_create(&clients[i].thread, NULL, run_client, &clients[i]);
    }
    for (unsigned i = 0; i < figure->clients; i++) {
        pthread_join(clients[i].thread, NULL);
        good = good && !clients[i].failed;
        *ret_samples += clients[i].samples;
    }
    pthread_barrier_destroy(&start);
    return good;
}

/* Processor time so far: of this program or of its keepers that have ended. */
static double cpu_s(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void print_figure(const struct figure *figure, const struct journal *journal,
                         double keepers_us, double own_us)
{
    double rate = best_rate(journal, figure->clients) * figure->batch;
    fprintf(stderr,
            "%s: mean %.1f %s; processor time per sample: keeper %.1f us, callers %.1f us\n",
            figure->name, mean_rate(journal) * figure->batch, figure->unit, keepers_us, own_us);
    printf("%s\t%.1f\t%s\t%.0f\t%.2f\n", figure->name, rate, figure->unit, figure->reference,
           rate / figure->reference);
    fflush(stdout);
}

static bool measure(const struct figure *figure, double seconds)
{
    double own_s = cpu_s(RUSAGE_SELF);
    double keepers_s = cpu_s(RUSAGE_CHILDREN);
    const char *const options[] = {"--remote-threads", figure->threads, "--remote-memory", "2048",
                                   NULL};
    struct real_keepers keepers;
    struct skep_manifest manifest = manifest_of(figure);
    struct journal journal = {.ends_s = skep_alloc(CALLS_MOST, sizeof(double))};
    uint64_t samples = 0;
    pthread_mutex_init(&journal.lock, NULL);
    real_keepers_start(&keepers, 1, options);
    real_keepers_publish(&keepers, &manifest);
    struct skep_key *key = skep_key_new();
    const struct skep_caller_options caller_options = {.manifest = &keepers.manifest,
                                                       .records = keepers.records,
                                                       .record_count = 1,
                                                       .key = key,
                                                       .timeout_ms = 60000};
    struct skep_caller *caller = skep_caller_new(&caller_options);
    bool good = run_clients(figure, caller, &keepers.manifest, seconds, &journal, &samples);
    skep_caller_free(caller);
    skep_key_free(key);
    real_keepers_stop(&keepers);
    if (good) {
        print_figure(figure, &journal, 1e6 * (cpu_s(RUSAGE_CHILDREN) - keepers_s) / (double)samples,
                     1e6 * (cpu_s(RUSAGE_SELF) - own_s) / (double)samples);
    }
    free(journal.ends_s);
    pthread_mutex_destroy(&journal.lock);
    return good;
}

static bool is_wanted(const char *name, int argc, char **argv)
{
    bool named = false;
    for (int i = 1; i < argc; i++) {
        named = named || argv[i][0] != '-';
        if (strcmp(argv[i], name) == 0) {
            return true;
        }
    }
    return !named;
}

int main(int argc, char **argv)
{
    bool good = true;
    double seconds = RUN_S;
    for (int i = 1; i < argc; i++) {
        seconds = strcmp(argv[i], "--quick") == 0 ? QUICK_S : seconds;
    }
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        if (is_wanted(figures[i].name, argc, argv)) {
            good = measure(&figures[i], seconds) && good;
        }
    }
    return good ? 0 : 1;
}
