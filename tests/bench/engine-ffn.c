/*
 * How close an expert of kind ffn comes to the machine: forward and backward (gradients of all parameters and of x) against the six
 * matrix products that it is made of, through the same CBLAS, one thread. The six come in the layouts that the expert uses.
 *
 *   engine-ffn [--quick] [--breakdown]     --breakdown prints where the time goes, by operation, on stderr
 *
 * Passes and products take turns, and the fastest of each counts: other processes on the machine can only slow one down.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/rng.h"
#include "common/tensor/ops.h"
#include "tests/bench/timed-ops.h"

struct ffn {
    size_t d;
    size_t h;
    size_t batch;
    skep_real *gain, *bias, *up, *up_bias, *down, *down_bias;
    skep_real *dgain, *dbias, *dup, *dup_bias, *ddown, *ddown_bias;
    skep_real *x, *hat, *scale, *in, *slope, *active, *y, *dy, *dactive, *din, *dx;
};

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static skep_real *values(const struct skep_ops *ops, size_t count, double range)
{
    static uint64_t seed = 1;
    struct skep_rng rng = skep_rng_of(seed++);
    skep_real *memory = ops->memory_new(count * sizeof *memory);
    for (size_t i = 0; i < count; i++) {
        memory[i] = (skep_real)((2 * skep_rng_unit(&rng) - 1) * range);
    }
    return memory;
}

static void ffn_init(struct ffn *f, const struct skep_ops *ops)
{
    size_t d = f->d, h = f->h, n = f->batch;
    f->gain = values(ops, d, 1);
    f->bias = values(ops, d, 1);
    f->up = values(ops, d * h, 0.05);
    f->up_bias = values(ops, h, 0.1);
    f->down = values(ops, d * h, 0.05);
    f->down_bias = values(ops, d, 0.1);
    f->dgain = values(ops, d, 1);
    f->dbias = values(ops, d, 1);
    f->dup = values(ops, d * h, 1);
    f->dup_bias = values(ops, h, 1);
    f->ddown = values(ops, d * h, 1);
    f->ddown_bias = values(ops, d, 1);
    f->x = values(ops, n * d, 1);
    f->hat = values(ops, n * d, 1);
    f->scale = values(ops, n, 1);
    f->in = values(ops, n * d, 1);
    f->slope = values(ops, n * h, 1);
    f->active = values(ops, n * h, 1);
    f->y = values(ops, n * d, 1);
    f->dy = values(ops, n * d, 1);
    f->dactive = values(ops, n * h, 1);
    f->din = values(ops, n * d, 1);
    f->dx = values(ops, n * d, 1);
}

static void pass(const struct ffn *f, const struct skep_ops *ops)
{
    size_t d = f->d, h = f->h, n = f->batch;
    struct skep_rows rows = {n, d, NULL}, hidden = {n, h, NULL};
    struct skep_linear up = {n, d, h}, down = {n, h, d};
    ops->normalise(rows, f->x, f->hat, f->scale);
    ops->affine(rows, f->hat, (struct skep_affine){f->gain, f->bias}, f->in);
    skep_linear_forward(ops, up, f->in, f->up, 0, f->slope);
    ops->gelu(hidden, f->slope, f->up_bias, f->active);
    ops->rows_set(rows, f->down_bias, f->y);
    skep_linear_forward(ops, down, f->active, f->down, 1, f->y);

    ops->fill(d, 0, f->dgain);
    ops->fill(d, 0, f->dbias);
    ops->fill(h, 0, f->dup_bias);
    ops->fill(d, 0, f->ddown_bias);
    ops->fill(n * d, 0, f->dx);
    ops->rows_sum(rows, f->dy, f->ddown_bias);
    skep_linear_weights(ops, down, f->dy, f->active, 0, f->ddown);
    skep_linear_inputs(ops, down, f->dy, f->down, 0, f->dactive);
    ops->gelu_backward(hidden, f->slope, f->dactive, f->dup_bias);
    skep_linear_weights(ops, up, f->dactive, f->in, 0, f->dup);
    skep_linear_inputs(ops, up, f->dactive, f->up, 0, f->din);
    ops->affine_backward(rows, f->din, f->hat, (struct skep_affine){f->gain, f->bias}, f->din,
                         (struct skep_affine){f->dgain, f->dbias});
    ops->normalise_backward(rows, f->din, f->hat, f->scale, f->dx);
}

static void products(const struct ffn *f, const struct skep_ops *ops)
{
    size_t d = f->d, h = f->h, n = f->batch;
    struct skep_linear up = {n, d, h}, down = {n, h, d};
    skep_linear_forward(ops, up, f->in, f->up, 0, f->slope);
    skep_linear_forward(ops, down, f->active, f->down, 0, f->y);
    skep_linear_weights(ops, down, f->dy, f->active, 0, f->ddown);
    skep_linear_inputs(ops, down, f->dy, f->down, 0, f->dactive);
    skep_linear_weights(ops, up, f->dactive, f->in, 0, f->dup);
    skep_linear_inputs(ops, up, f->dactive, f->up, 0, f->din);
}

static double seconds(void (*run)(const struct ffn *, const struct skep_ops *), const struct ffn *f,
                      double best)
{
    double start = now_s();
    run(f, skep_ops_cpu());
    double took = now_s() - start;
    return took < best ? took : best;
}

static void measure(size_t d, size_t batch, unsigned runs, bool breakdown)
{
    struct ffn f = {.d = d, .h = 4 * d, .batch = batch};
    ffn_init(&f, skep_ops_cpu());
    double whole = 1e9;
    double parts = 1e9;
    for (unsigned i = 0; i < runs; i++) {
        parts = seconds(products, &f, parts);
        whole = seconds(pass, &f, whole);
    }
    double flops = 6 * 2.0 * (double)batch * (double)d * (double)f.h;
    printf("ffn_%zu_%zu\t%.1f\tsamples/s\t-\t-\n", d, batch, (double)batch / whole);
    printf("ffn_%zu_%zu_sgemm\t%.2f\tGFLOP/s\t%.2f\t%.3f\n", d, batch, flops / whole / 1e9,
           flops / parts / 1e9, parts / whole);
    if (breakdown) {
        const struct skep_ops *timed = timed_ops(skep_ops_cpu());
        for (unsigned i = 0; i < runs; i++) {
            pass(&f, timed);
        }
        timed_ops_print("ffn", runs);
    }
}

int main(int argc, char **argv)
{
    bool quick = false;
    bool breakdown = false;
    for (int i = 1; i < argc; i++) {
        quick |= strcmp(argv[i], "--quick") == 0;
        breakdown |= strcmp(argv[i], "--breakdown") == 0;
    }
    measure(1024, 512, quick ? 8 : 30, breakdown);
    measure(256, 64, quick ? 500 : 2000, breakdown);
    return 0;
}
