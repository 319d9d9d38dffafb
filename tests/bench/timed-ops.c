#include "tests/bench/timed-ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST 64

struct line {
    char name[64];
    double seconds;
    double flops;
    unsigned long calls;
};

static struct {
    const struct skep_ops *under;
    struct skep_ops table;
    struct line lines[MOST];
    size_t count;
    bool rounded;
} timed;

static size_t shown(size_t size)
{
    size_t power = 1;
    while (timed.rounded && power < size) {
        power *= 2;
    }
    return timed.rounded ? power : size;
}

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void book(const char *name, double seconds, double flops)
{
    size_t i = 0;
    while (i < timed.count && strcmp(timed.lines[i].name, name) != 0) {
        i++;
    }
    if (i >= MOST - 1) {
        i = MOST - 1;
        name = "all others";
    }
    if (i >= timed.count) {
        timed.count = i + 1;
        snprintf(timed.lines[i].name, sizeof timed.lines[i].name, "%s", name);
    }
    timed.lines[i].seconds += seconds;
    timed.lines[i].flops += flops;
    timed.lines[i].calls++;
}

static void gemm(struct skep_gemm_size size, struct skep_matrix a, struct skep_matrix b,
                 skep_real beta, skep_real *c, size_t c_stride)
{
    char name[64];
    snprintf(name, sizeof name, "product %zu x %zu x %zu %c%c", shown(size.rows),
             shown(size.columns), shown(size.inner), a.transposed ? 'T' : 'N',
             b.transposed ? 'T' : 'N');
    double start = now_s();
    timed.under->gemm(size, a, b, beta, c, c_stride);
    book(name, now_s() - start,
         2.0 * (double)size.rows * (double)size.columns * (double)size.inner);
}

static double sum_squares(const skep_real *x, size_t count)
{
    double start = now_s();
    double sum = timed.under->sum_squares(x, count);
    book("sum_squares", now_s() - start, 0);
    return sum;
}

/* The name, its parameters and the same as arguments. */
#define TIMED(name, parameters, arguments)                                                         \
    static void name parameters                                                                    \
    {                                                                                              \
        double start = now_s();                                                                    \
        timed.under->name arguments;                                                               \
        book(#name, now_s() - start, 0);                                                           \
    }

TIMED(fill, (size_t count, skep_real value, skep_real *values), (count, value, values))
TIMED(add, (const skep_real *x, size_t count, skep_real *y), (x, count, y))
TIMED(multiply, (const skep_real *x, size_t count, skep_real *y), (x, count, y))
TIMED(scale, (size_t count, skep_real factor, skep_real *y), (count, factor, y))
TIMED(rows_set, (struct skep_rows rows, const skep_real *bias, skep_real *y), (rows, bias, y))
TIMED(rows_add, (struct skep_rows rows, const skep_real *bias, skep_real *y), (rows, bias, y))
TIMED(rows_sum, (struct skep_rows rows, const skep_real *x, skep_real *sum), (rows, x, sum))
TIMED(rows_gather, (struct skep_rows rows, const skep_real *x, skep_real *y), (rows, x, y))
TIMED(rows_gather_add, (struct skep_rows rows, const skep_real *x, skep_real *y), (rows, x, y))
TIMED(rows_scatter_add, (struct skep_rows rows, const skep_real *x, skep_real *y), (rows, x, y))
TIMED(rows_combine,
      (struct skep_rows rows, const skep_real *y, const skep_real *weight, skep_real *x),
      (rows, y, weight, x))
TIMED(rows_combine_backward,
      (struct skep_rows rows, const skep_real *dx, const skep_real *y, const skep_real *weight,
       skep_real *dy, skep_real *dweight),
      (rows, dx, y, weight, dy, dweight))
TIMED(normalise, (struct skep_rows rows, const skep_real *x, skep_real *hat, skep_real *scale),
      (rows, x, hat, scale))
TIMED(normalise_backward,
      (struct skep_rows rows, const skep_real *dhat, const skep_real *hat, const skep_real *scale,
       skep_real *dx),
      (rows, dhat, hat, scale, dx))
TIMED(affine,
      (struct skep_rows rows, const skep_real *hat, struct skep_affine affine_, skep_real *y),
      (rows, hat, affine_, y))
TIMED(affine_backward,
      (struct skep_rows rows, const skep_real *dy, const skep_real *hat, struct skep_affine affine_,
       skep_real *dhat, struct skep_affine gradient),
      (rows, dy, hat, affine_, dhat, gradient))
TIMED(affine_relu,
      (struct skep_rows rows, const skep_real *hat, struct skep_affine affine_, skep_real *y),
      (rows, hat, affine_, y))
TIMED(affine_relu_backward,
      (struct skep_rows rows, const skep_real *dy, const skep_real *y, const skep_real *hat,
       struct skep_affine affine_, skep_real *dhat, struct skep_affine gradient),
      (rows, dy, y, hat, affine_, dhat, gradient))
TIMED(gelu, (struct skep_rows rows, skep_real *pre, const skep_real *bias, skep_real *out),
      (rows, pre, bias, out))
TIMED(gelu_backward,
      (struct skep_rows rows, const skep_real *slope, skep_real *dpre, skep_real *dbias),
      (rows, slope, dpre, dbias))
TIMED(softmax_causal, (struct skep_rows rows, struct skep_causal causal, skep_real *scores),
      (rows, causal, scores))
TIMED(softmax_causal_backward,
      (struct skep_rows rows, struct skep_causal causal, const skep_real *probability,
       skep_real *dscores),
      (rows, causal, probability, dscores))
TIMED(cross_entropy,
      (struct skep_rows rows, const skep_real *logits, const uint32_t *target, skep_real *logsumexp,
       skep_real *nats),
      (rows, logits, target, logsumexp, nats))
TIMED(cross_entropy_backward,
      (struct skep_rows rows, const uint32_t *target, const skep_real *logsumexp, skep_real weight,
       skep_real *logits),
      (rows, target, logsumexp, weight, logits))
TIMED(adamw,
      (const struct skep_adamw *step, size_t count, const skep_real *gradient, float *first,
       float *second, skep_real *values),
      (step, count, gradient, first, second, values))

const struct skep_ops *timed_ops(const struct skep_ops *ops)
{
    timed.under = ops;
    timed.count = 0;
    memset(timed.lines, 0, sizeof timed.lines);
    timed.table = *ops; /* memory, copies and status as they are */
    timed.table.gemm = gemm;
    timed.table.fill = fill;
    timed.table.add = add;
    timed.table.multiply = multiply;
    timed.table.scale = scale;
    timed.table.sum_squares = sum_squares;
    timed.table.rows_set = rows_set;
    timed.table.rows_add = rows_add;
    timed.table.rows_sum = rows_sum;
    timed.table.rows_gather = rows_gather;
    timed.table.rows_gather_add = rows_gather_add;
    timed.table.rows_scatter_add = rows_scatter_add;
    timed.table.rows_combine = rows_combine;
    timed.table.rows_combine_backward = rows_combine_backward;
    timed.table.normalise = normalise;
    timed.table.normalise_backward = normalise_backward;
    timed.table.affine = affine;
    timed.table.affine_backward = affine_backward;
    timed.table.affine_relu = affine_relu;
    timed.table.affine_relu_backward = affine_relu_backward;
    timed.table.gelu = gelu;
    timed.table.gelu_backward = gelu_backward;
    timed.table.softmax_causal = softmax_causal;
    timed.table.softmax_causal_backward = softmax_causal_backward;
    timed.table.cross_entropy = cross_entropy;
    timed.table.cross_entropy_backward = cross_entropy_backward;
    timed.table.adamw = adamw;
    return &timed.table;
}

static int slower_first(const void *left, const void *right)
{
    double a = ((const struct line *)left)->seconds;
    double b = ((const struct line *)right)->seconds;
    return (a < b) - (a > b);
}

void timed_ops_round(bool rounded)
{
    timed.rounded = rounded;
}

void timed_ops_print(const char *title, unsigned passes)
{
    double total = 0;
    for (size_t i = 0; i < timed.count; i++) {
        total += timed.lines[i].seconds;
    }
    qsort(timed.lines, timed.count, sizeof timed.lines[0], slower_first);
    fprintf(stderr, "%s: %.3f ms a pass in operations\n", title, 1e3 * total / passes);
    for (size_t i = 0; i < timed.count; i++) {
        const struct line *line = &timed.lines[i];
        fprintf(stderr, "  %-36s %9.3f ms %5.1f %% %8.1f calls", line->name,
                1e3 * line->seconds / passes, 100 * line->seconds / total,
                (double)line->calls / passes);
        if (line->flops > 0) {
            fprintf(stderr, " %6.1f GFLOP/s", line->flops / line->seconds / 1e9);
        }
        fputc('\n', stderr);
    }
}
