/*
 * How fast the model trains on one thread: tokens a second and the share of the machine's sgemm rate, measured in the same run, and on
 * stderr where the time goes, by operation (timed-ops.h).
 *
 * A token here is one that runs through the model (also those of the prefix, which carry no loss). Its work is the 6 x parameters it
 * touches that credit counts too (skep_layout_flops_per_token): the trunk and experts_per_token experts. The sgemm rate is
 * that of 1024 x 1024 matrices. Bits per byte do not matter here: the text is random bytes. `lm_sgemm` is the quickstart's model, which
 * is a manifest's default one. `again` is the same with layers computed again on the way back, and the bytes of a whole job then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/model/layout.h"
#include "common/model/train.h"
#include "common/tensor/ops.h"
#include "common/wire/manifest.h"
#include "tests/bench/timed-ops.h"

#define TEXT_BYTES 65536
#define SGEMM_SIZE 1024

/* Processor time of this process, which has one thread: other processes on the machine do not count. */
static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* GFLOP/s of the best of some matrix products: the best, because other processes can only slow one down. */
static double sgemm_rate(int runs)
{
    size_t count = (size_t)SGEMM_SIZE * SGEMM_SIZE;
    float *a = skep_alloc(3 * count, sizeof *a);
    struct skep_rng rng = skep_rng_of(1);
    for (size_t i = 0; i < 2 * count; i++) {
        a[i] = (float)skep_rng_unit(&rng);
    }
    struct skep_linear shape = {SGEMM_SIZE, SGEMM_SIZE, SGEMM_SIZE};
    double best = 0;
    for (int i = 0; i < runs; i++) {
        double start = now_s();
        skep_linear_forward(skep_ops_cpu(), shape, a, a + count, 0, a + 2 * count);
        double rate = 2.0 * SGEMM_SIZE * SGEMM_SIZE * SGEMM_SIZE / (now_s() - start) / 1e9;
        best = rate > best ? rate : best;
    }
    free(a);
    return best;
}

struct job {
    struct skep_model_config config;
    struct skep_training_config training;
    struct skep_model *lm;
    size_t shard_count;
    struct skep_shard *shards;
    struct skep_moments *moments;
    double flops_per_token;
};

struct setting {
    struct skep_model_config config;
    uint32_t batch;
    uint32_t steps;
    bool recompute;
    const struct skep_ops *ops;
};

static void die(const struct skep_error *err)
{
    fprintf(stderr, "lm-step: %s\n", err->text);
    exit(1);
}

static void add_shard(struct job *job, struct skep_shard shard)
{
    static const struct skep_hash SEED = {{1}};
    struct skep_error err = {0};
    struct skep_layout layout;
    skep_layout_of(&job->config, &shard, &layout);
    float *values = skep_alloc(layout.parameters, sizeof *values);
    skep_layout_seed(&layout, &job->config, &SEED, values);
    skep_model_set(job->lm, &shard, values);
    if (skep_moments_init(&job->moments[job->shard_count], NULL, layout.parameters, &err) !=
        SKEP_OK) {
        die(&err);
    }
    job->shards[job->shard_count++] = shard;
    /* The trunk comes first, then every expert adds its share of a token: k of those in its layer. */
    double share = shard.kind == SKEP_SHARD_TRUNK ? 1
                                                  : (double)job->config.experts_per_token /
                                                        (job->config.rows * job->config.columns);
    job->flops_per_token += share * (double)skep_layout_flops_per_token(&layout, &job->config);
    free(values);
    skep_layout_done(&layout);
}

static struct skep_model_config config_of(uint32_t dim, uint32_t context)
{
    return (struct skep_model_config){.vocabulary = 256,
                                      .dim = dim,
                                      .hidden = 4 * dim,
                                      .heads = dim / 32,
                                      .layers = 2,
                                      .context = context,
                                      .prefix = context / 8,
                                      .rows = 2,
                                      .columns = 4,
                                      .experts_per_token = 2,
                                      .rows_per_token = 1,
                                      .route = SKEP_ROUTE_DOCUMENT};
}

static void job_init(struct job *job, const struct setting *setting)
{
    *job = (struct job){.config = setting->config};
    job->training = (struct skep_training_config){.steps = setting->steps,
                                                  .batch = setting->batch,
                                                  .beta1 = 0.9,
                                                  .beta2 = 0.95,
                                                  .epsilon = 1e-8,
                                                  .weight_decay = 0.1,
                                                  .clip = 1,
                                                  .z_loss = 0.001,
                                                  .balance_step = 0.001};
    struct skep_error err = {0};
    struct skep_model_options options = {
        .batch = setting->batch, .recompute = setting->recompute, .ops = setting->ops};
    if (skep_model_new(&job->config, &options, &job->lm, &err) != SKEP_OK) {
        die(&err);
    }
    size_t most = 1 + (size_t)job->config.layers * job->config.rows * job->config.columns;
    job->shards = skep_alloc(most, sizeof *job->shards);
    job->moments = skep_alloc(most, sizeof *job->moments);
    add_shard(job, (struct skep_shard){.kind = SKEP_SHARD_TRUNK});
    for (uint16_t l = 0; l < job->config.layers; l++) {
        for (uint16_t r = 0; r < job->config.rows; r++) {
            for (uint16_t c = 0; c < job->config.columns; c++) {
                add_shard(job, (struct skep_shard){SKEP_SHARD_FFN, l, r, c});
            }
        }
    }
}

static void job_done(struct job *job)
{
    for (size_t i = 0; i < job->shard_count; i++) {
        skep_moments_done(&job->moments[i]);
    }
    free(job->shards);
    free(job->moments);
    skep_model_free(job->lm);
}

/* Tokens a second of one job; the fastest of a few, as with sgemm. */
static double job_rate(struct job *job, int runs)
{
    uint8_t *text = skep_alloc(TEXT_BYTES, 1);
    struct skep_rng rng = skep_rng_of(2);
    for (size_t i = 0; i < TEXT_BYTES; i++) {
        text[i] = (uint8_t)skep_rng_next(&rng);
    }
    struct skep_slice_chunk chunk = {text, TEXT_BYTES};
    struct skep_error err = {0};
    double tokens = (double)job->training.steps * job->training.batch * (job->config.context - 1);
    double best = 0;
    for (int i = 0; i < runs; i++) {
        struct skep_hash ticket = {{(uint8_t)i}};
        double start = now_s();
        struct skep_train_position position = {0};
        struct skep_train_job work = {.training = &job->training,
                                      .learning_rate = 1e-3,
                                      .shards = job->shards,
                                      .moments = job->moments,
                                      .shard_count = job->shard_count,
                                      .chunks = &chunk,
                                      .chunk_count = 1,
                                      .ticket = &ticket};
        if (skep_train_run(job->lm, &work, &position, &err) != SKEP_OK) {
            die(&err);
        }
        double rate = tokens / (now_s() - start);
        best = rate > best ? rate : best;
    }
    free(text);
    return best;
}

/* Bytes that a donor's job takes: what the model predicts of itself, all experts being there. */
static double job_bytes(const struct setting *setting, size_t experts)
{
    struct skep_model_options options = {.batch = setting->batch, .recompute = setting->recompute};
    struct skep_model_memory memory;
    skep_model_memory_of(&setting->config, &options, experts, &memory);
    return (double)(memory.parameters + memory.gradients + memory.activations + memory.moments);
}

/* sgemm is measured before and after: a machine's clock rate drifts. */
static void measure(const char *name, const struct setting *setting, bool quick)
{
    struct job job;
    double before = sgemm_rate(quick ? 10 : 50);
    job_init(&job, setting);
    fprintf(stderr, "lm-step: %s\n", name);
    double rate = job_rate(&job, quick ? 4 : 8);
    double gflops = rate * job.flops_per_token / 1e9;
    double after = sgemm_rate(quick ? 10 : 50);
    double sgemm = before > after ? before : after;
    printf("%s_tokens\t%.0f\ttokens/s\t-\t-\n", name, rate);
    printf("%s_bytes\t%.0f\tbytes\t-\t-\n", name, job_bytes(setting, job.shard_count - 1));
    printf("%s_sgemm\t%.1f\tGFLOP/s\t%.1f\t%.3f\n", name, gflops, sgemm, gflops / sgemm);
    job_done(&job);
}

/* A slower run, for each call is timed: only the shares count. */
static void break_down(const char *name, const struct setting *setting)
{
    struct job job;
    struct setting timed = *setting;
    timed.ops = timed_ops(skep_ops_cpu());
    job_init(&job, &timed);
    timed_ops_round(true); /* experts get as many rows as chose them */
    job_rate(&job, 1);
    timed_ops_print(name, setting->steps);
    job_done(&job);
}

int main(int argc, char **argv)
{
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    struct skep_manifest defaults = {0};
    skep_manifest_defaults(&defaults);
    struct setting quickstart = {
        .config = defaults.model, .batch = defaults.training.batch, .steps = quick ? 8 : 40};
    struct setting narrow = {.config = config_of(128, 256), .batch = 8, .steps = quick ? 4 : 20};
    struct setting wide = {.config = config_of(256, 256), .batch = 8, .steps = quick ? 4 : 20};
    skep_ops_set_threads(1);
    measure("lm", &quickstart, quick);
    measure("lm_d128", &narrow, quick);
    measure("lm_d256", &wide, quick);
    wide.recompute = true;
    measure("lm_d256_again", &wide, quick);
    break_down("the quickstart's lm", &quickstart);
    break_down("d = 128, 8 x 256 tokens", &narrow);
    return 0;
}
