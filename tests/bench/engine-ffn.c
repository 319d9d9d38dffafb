/*
 * How close an expert of kind ffn comes to the machine: forward and backward (gradients of all parameters and of x) against the six
 * matrix products that it is made of, by the same CBLAS, in the same layouts; one thread. The table of operations may choose
 * otherwise than the CBLAS (common/tensor/product.c), so the ratio can exceed 1.
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
#include "common/model/expert.h"
#include "common/tensor/gemm.h"
#include "common/tensor/ops.h"
#include "tests/bench/timed-ops.h"

struct ffn {
    struct skep_expert_shape shape;
    struct skep_rows rows;
    skep_real *parameters;
    skep_real *x;
    skep_real *y;
    skep_real *dy;
    skep_real *hidden; /* [batch, h] for the products alone */
    struct skep_expert_backward pass;
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
    if (memory == NULL) {
        fprintf(stderr, "engine-ffn: no memory for %zu values\n", count);
        exit(1);
    }
    for (size_t i = 0; i < count; i++) {
        memory[i] = (skep_real)((2 * skep_rng_unit(&rng) - 1) * range);
    }
    return memory;
}

static void ffn_init(struct ffn *f, size_t d, size_t batch)
{
    const struct skep_ops *ops = skep_ops_cpu();
    struct skep_expert_shape shape = {SKEP_EXPERT_FFN, d, 4 * d};
    size_t count = skep_expert_parameters(shape);
    *f = (struct ffn){.shape = shape, .rows = {batch, d, NULL}};
    f->parameters = values(ops, count, 0.1);
    f->x = values(ops, batch * d, 1);
    f->y = values(ops, batch * d, 1);
    f->dy = values(ops, batch * d, 1);
    f->hidden = values(ops, batch * shape.hidden, 1);
    f->pass = (struct skep_expert_backward){.x = f->x, .dy = f->dy};
    f->pass.work = values(ops, skep_expert_work(shape, batch), 1);
    f->pass.scratch = values(ops, skep_expert_scratch(shape, batch), 1);
    f->pass.dx = values(ops, batch * d, 1);
    f->pass.dparameters = values(ops, count, 1);
}

static void ffn_done(struct ffn *f)
{
    void *arrays[] = {f->parameters,   f->x,       f->y,
                      f->dy,           f->hidden,  f->pass.work,
                      f->pass.scratch, f->pass.dx, f->pass.dparameters};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        skep_ops_cpu()->memory_free(arrays[i]);
    }
}

static void pass(const struct ffn *f, const struct skep_ops *ops)
{
    skep_expert_forward(ops, f->shape, f->parameters, f->rows, f->x, f->pass.work, f->y);
    ops->fill(f->rows.count * f->rows.dim, 0, f->pass.dx);
    skep_expert_backward(ops, f->shape, f->parameters, f->rows, &f->pass);
}

/* The same products by the CBLAS alone. */
static void products(const struct ffn *f, const struct skep_ops *ops)
{
    size_t d = f->shape.dim;
    size_t h = f->shape.hidden;
    struct skep_linear up = {f->rows.count, d, h};
    struct skep_linear down = {f->rows.count, h, d};
    struct skep_ops cblas = *ops;
    cblas.gemm = skep_gemm;
    skep_linear_forward(&cblas, up, f->x, f->parameters, 0, f->hidden);
    skep_linear_forward(&cblas, down, f->hidden, f->parameters, 0, f->y);
    skep_linear_weights(&cblas, down, f->dy, f->hidden, 0, f->pass.dparameters);
    skep_linear_inputs(&cblas, down, f->dy, f->parameters, 0, f->hidden);
    skep_linear_weights(&cblas, up, f->hidden, f->x, 0, f->pass.dparameters);
    skep_linear_inputs(&cblas, up, f->hidden, f->parameters, 0, f->pass.dx);
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
    struct ffn f;
    ffn_init(&f, d, batch);
    double whole = 1e9;
    double parts = 1e9;
    for (unsigned i = 0; i < runs; i++) {
        parts = seconds(products, &f, parts);
        whole = seconds(pass, &f, whole);
    }
    double flops = 6 * 2.0 * (double)batch * (double)d * (double)f.shape.hidden;
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
    ffn_done(&f);
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
