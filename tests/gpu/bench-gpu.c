/*
 * The GPU's figures, in real time from the first call to the end of the last kernel:
 *
 *   gpu_sgemm            products of 4096 x 4096 matrices through the table
 *   gpu_ffn_*_sgemm      an expert of kind ffn forward and backward, against the six products that it is made of
 *   gpu_lm_tokens        the quickstart's model, whole training steps; gpu_lm_sgemm: as a rate, against gpu_sgemm
 *   gpu_stop             from setting the stop flag to the device being at rest, the worst of some tries; against the 20 ms allowed
 *
 *   bench-gpu [--quick]     77 where there is no GPU; the name of the card on stderr
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/model/expert.h"
#include "common/model/layout.h"
#include "common/model/train.h"
#include "common/wire/manifest.h"
#include "tests/gpu/gpu-or-skip.h"

#define SGEMM_SIZE 4096u
#define TEXT_BYTES 65536u
#define STOP_ALLOWED_MS 20.0

static const struct skep_ops *gpu;
static atomic_bool stop_wanted;

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void at_rest(void)
{
    struct skep_error err = {0};
    if (gpu->status(&err) != 0) {
        fprintf(stderr, "bench-gpu: %s\n", err.text);
        exit(1);
    }
}

/* `count` values uniform in [-range, range], on the device. */
static float *values(size_t count, double range)
{
    struct skep_rng rng = skep_rng_of(count);
    float *host = skep_alloc(count, sizeof *host);
    float *memory = gpu->memory_new(count * sizeof *memory);
    if (memory == NULL) {
        fprintf(stderr, "bench-gpu: the GPU has no room for %zu values\n", count);
        exit(1);
    }
    for (size_t i = 0; i < count; i++) {
        host[i] = (float)((2 * skep_rng_unit(&rng) - 1) * range);
    }
    gpu->copy_in(memory, host, count * sizeof *host);
    free(host);
    return memory;
}

/* Seconds of one call: the first is not counted, of the others the mean. */
static double seconds(void (*run)(const void *), const void *with, unsigned runs)
{
    run(with);
    at_rest();
    double start = now_s();
    for (unsigned i = 0; i < runs; i++) {
        run(with);
    }
    at_rest();
    return (now_s() - start) / runs;
}

/* ---- products ---- */

struct product {
    struct skep_linear shape;
    float *x;
    float *w;
    float *y;
};

static struct product product_new(void)
{
    size_t count = (size_t)SGEMM_SIZE * SGEMM_SIZE;
    return (struct product){
        {SGEMM_SIZE, SGEMM_SIZE, SGEMM_SIZE}, values(count, 1), values(count, 1), values(count, 1)};
}

static void product_free(const struct product *product)
{
    gpu->memory_free(product->x);
    gpu->memory_free(product->w);
    gpu->memory_free(product->y);
}

static void run_product(const void *with)
{
    const struct product *product = with;
    skep_linear_forward(gpu, product->shape, product->x, product->w, 0, product->y);
}

static double measure_sgemm(unsigned runs)
{
    struct product product = product_new();
    double n = SGEMM_SIZE;
    double rate = 2 * n * n * n / seconds(run_product, &product, runs) / 1e9;
    printf("gpu_sgemm\t%.0f\tGFLOP/s\t-\t-\n", rate);
    product_free(&product);
    return rate;
}

/* ---- an expert ---- */

struct ffn {
    struct skep_expert_shape shape;
    struct skep_rows rows;
    float *parameters;
    float *x;
    float *y;
    float *dy;
    float *hidden;
    struct skep_expert_backward pass;
};

static void run_ffn(const void *with)
{
    const struct ffn *f = with;
    skep_expert_forward(gpu, f->shape, f->parameters, f->rows, f->x, f->pass.work, f->y);
    gpu->fill(f->rows.count * f->rows.dim, 0, f->pass.dx);
    skep_expert_backward(gpu, f->shape, f->parameters, f->rows, &f->pass);
}

static void run_ffn_products(const void *with)
{
    const struct ffn *f = with;
    struct skep_linear up = {f->rows.count, f->shape.dim, f->shape.hidden};
    struct skep_linear down = {f->rows.count, f->shape.hidden, f->shape.dim};
    skep_linear_forward(gpu, up, f->x, f->parameters, 0, f->hidden);
    skep_linear_forward(gpu, down, f->hidden, f->parameters, 0, f->y);
    skep_linear_weights(gpu, down, f->dy, f->hidden, 0, f->pass.dparameters);
    skep_linear_inputs(gpu, down, f->dy, f->parameters, 0, f->hidden);
    skep_linear_weights(gpu, up, f->hidden, f->x, 0, f->pass.dparameters);
    skep_linear_inputs(gpu, up, f->hidden, f->parameters, 0, f->pass.dx);
}

static void measure_ffn(size_t d, size_t batch, unsigned runs)
{
    struct skep_expert_shape shape = {SKEP_EXPERT_FFN, d, 4 * d};
    size_t count = skep_expert_parameters(shape);
    struct ffn f = {.shape = shape, .rows = {batch, d, NULL}};
    f.parameters = values(count, 0.1);
    f.x = values(batch * d, 1);
    f.y = values(batch * d, 1);
    f.dy = values(batch * d, 1);
    f.hidden = values(batch * shape.hidden, 1);
    f.pass = (struct skep_expert_backward){.x = f.x, .dy = f.dy};
    f.pass.work = values(skep_expert_work(shape, batch), 1);
    f.pass.scratch = values(skep_expert_scratch(shape, batch), 1);
    f.pass.dx = values(batch * d, 1);
    f.pass.dparameters = values(count, 1);
    double parts = seconds(run_ffn_products, &f, runs);
    double whole = seconds(run_ffn, &f, runs);
    double flops = 6 * 2.0 * (double)batch * (double)d * (double)shape.hidden;
    printf("gpu_ffn_%zu_%zu_sgemm\t%.1f\tGFLOP/s\t%.1f\t%.3f\n", d, batch, flops / whole / 1e9,
           flops / parts / 1e9, parts / whole);
    void *arrays[] = {f.parameters,   f.x,       f.y,
                      f.dy,           f.hidden,  f.pass.work,
                      f.pass.scratch, f.pass.dx, f.pass.dparameters};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        gpu->memory_free(arrays[i]);
    }
}

/* ---- a model ---- */

struct lm {
    struct skep_manifest manifest; /* its defaults: the quickstart's */
    struct skep_model *model;
    size_t shard_count;
    struct skep_shard shards[64];
    struct skep_moments moments[64];
    double flops_per_token;
    uint8_t text[TEXT_BYTES];
};

static void check(int rc, const struct skep_error *err)
{
    if (rc != 0) {
        fprintf(stderr, "bench-gpu: %s\n", err->text);
        exit(1);
    }
}

static void add_shard(struct lm *lm, struct skep_shard shard)
{
    static const struct skep_hash SEED = {{1}};
    const struct skep_model_config *config = &lm->manifest.model;
    struct skep_error err = {0};
    struct skep_layout layout;
    skep_layout_of(config, &shard, &layout);
    float *start = skep_alloc(layout.parameters, sizeof *start);
    skep_layout_seed(&layout, config, &SEED, start);
    check(skep_model_set(lm->model, &shard, start), &err);
    check(skep_moments_init(&lm->moments[lm->shard_count], gpu, layout.parameters, &err), &err);
    lm->shards[lm->shard_count++] = shard;
    double share = shard.kind == SKEP_SHARD_TRUNK
                       ? 1
                       : (double)config->experts_per_token / (config->rows * config->columns);
    lm->flops_per_token += share * (double)skep_layout_flops_per_token(&layout, config);
    free(start);
    skep_layout_done(&layout);
}

static void lm_init(struct lm *lm)
{
    const struct skep_model_config *config = &lm->manifest.model;
    struct skep_error err = {0};
    struct skep_rng rng = skep_rng_of(2);
    skep_manifest_defaults(&lm->manifest);
    struct skep_model_options options = {.batch = lm->manifest.training.batch, .ops = gpu};
    check(skep_model_new(config, &options, &lm->model, &err), &err);
    add_shard(lm, (struct skep_shard){.kind = SKEP_SHARD_TRUNK});
    uint32_t layer = config->rows * config->columns;
    for (uint32_t e = 0; e < config->layers * layer && lm->shard_count < 64; e++) {
        add_shard(lm, (struct skep_shard){SKEP_SHARD_FFN, (uint16_t)(e / layer),
                                          (uint16_t)(e % layer / config->columns),
                                          (uint16_t)(e % config->columns)});
    }
    for (size_t i = 0; i < TEXT_BYTES; i++) {
        lm->text[i] = (uint8_t)skep_rng_next(&rng);
    }
}

static void lm_done(struct lm *lm)
{
    for (size_t i = 0; i < lm->shard_count; i++) {
        skep_moments_done(&lm->moments[i]);
    }
    skep_model_free(lm->model);
    free(lm);
}

static void run_lm(const void *with)
{
    struct lm *const *lm_place = with;
    struct lm *lm = *lm_place;
    const struct skep_hash ticket = {{3}};
    const struct skep_slice_chunk chunk = {lm->text, TEXT_BYTES};
    const struct skep_train_job job = {.training = &lm->manifest.training,
                                       .learning_rate = 1e-3,
                                       .shards = lm->shards,
                                       .moments = lm->moments,
                                       .shard_count = lm->shard_count,
                                       .chunks = &chunk,
                                       .chunk_count = 1,
                                       .ticket = &ticket};
    struct skep_train_position position = {0};
    struct skep_error err = {0};
    check(skep_train_run(lm->model, &job, &position, &err), &err);
}

static void measure_lm(double sgemm, uint32_t steps)
{
    struct lm *lm = skep_alloc(1, sizeof *lm);
    lm_init(lm);
    lm->manifest.training.steps = steps;
    double tokens = (double)steps * lm->manifest.training.batch * lm->manifest.model.context;
    double rate = tokens / seconds(run_lm, &lm, 2);
    double gflops = rate * lm->flops_per_token / 1e9;
    printf("gpu_lm_tokens\t%.0f\ttokens/s\t-\t-\n", rate);
    printf("gpu_lm_sgemm\t%.1f\tGFLOP/s\t%.1f\t%.3f\n", gflops, sgemm, gflops / sgemm);
    lm_done(lm);
}

/* ---- stopping ---- */

/* Launches products until it is told to stop, then waits for the device; the time when it is at rest. */
static void *work_until_stopped(void *with)
{
    static double rested_s;
    while (!atomic_load(&stop_wanted)) {
        run_product(with);
    }
    at_rest();
    rested_s = now_s();
    return &rested_s;
}

static void measure_stop(unsigned tries)
{
    struct product product = product_new();
    double worst_ms = 0;
    skep_ops_set_stop(&stop_wanted);
    for (unsigned i = 0; i < tries; i++) {
        pthread_t thread;
        void *result = NULL;
        const struct timespec while_it_works = {.tv_nsec = 200000000};
        atomic_store(&stop_wanted, false);
        if (pthread_create(&thread, NULL, work_until_stopped, &product) != 0) {
            exit(1);
        }
        nanosleep(&while_it_works, NULL);
        double start = now_s();
        atomic_store(&stop_wanted, true);
        pthread_join(thread, &result);
        double took_ms = (*(const double *)result - start) * 1000;
        worst_ms = took_ms > worst_ms ? took_ms : worst_ms;
    }
    skep_ops_set_stop(NULL);
    printf("gpu_stop\t%.2f\tms\t%.0f\t%.3f\n", worst_ms, STOP_ALLOWED_MS,
           worst_ms / STOP_ALLOWED_MS);
    product_free(&product);
}

int main(int argc, char **argv)
{
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    int status = gpu_or_skip(&gpu);
    if (gpu == NULL) {
        return status;
    }
    fprintf(stderr, "bench-gpu: %s\n", gpu->name);
    double sgemm = measure_sgemm(quick ? 10 : 50);
    measure_ffn(1024, 512, quick ? 100 : 1000);
    measure_ffn(256, 64, quick ? 500 : 5000);
    measure_lm(sgemm, quick ? 8 : 40);
    measure_stop(quick ? 5 : 20);
    return 0;
}
