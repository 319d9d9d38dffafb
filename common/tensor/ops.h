/*
 * The table of operations that models are made of. Each back end is one `const struct skep_ops`: all of them mean the same, the same
 * tests hold them against the plain reference, and whoever runs a model picks one at run time.
 *
 *   skep_ops_reference()  loops as in the formulas, sums in double: for reading and for the tests
 *   skep_ops_cpu()        CBLAS products and our fused kernels, compiled for several instruction sets; the best that the CPU has
 *   a GPU's               from a plug-in (common/gpu), when a driver is there
 *
 * Arrays lie where the back end's memory_new() puts them: the CPU tables work on any host memory, a GPU's only on its own. So code
 * that runs models touches values through the table, and host data (text, choices of the gate) goes through copy_in and copy_out.
 * Row-major; shapes are outermost first; arrays do not overlap unless it is said.
 *
 * Operations report nothing one by one. A back end that breaks (a device that disappears, no memory left) keeps its first error, does
 * nothing from then on, and tells when `status` is asked, which is done once for each pass. The same goes for stopping: once the flag given
 * to skep_ops_set_stop() is set, every operation but copies and adamw returns at once and leaves its results undefined; long
 * products look at it between blocks.
 *
 * Layer normalisation comes in two pieces, because what is normalised once may be scaled by several gains:
 *   hat = (x - mean) / sqrt(variance + 1e-5)          (Ba, Kiros, Hinton, arXiv 1607.06450)
 *   y   = hat * gain + bias
 */
#ifndef SKEP_TENSOR_OPS_H
#define SKEP_TENSOR_OPS_H

#ifdef __cplusplus /* common/gpu is C++, which has the same type under its own header */
#include <atomic>
using std::atomic_bool;
#else
#include <stdatomic.h>
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/tensor/real.h"

#define SKEP_NORM_EPSILON 1e-5

/* `count` rows of `dim` values. Row i of a gathered matrix belongs to row index[i] of the matrix it is gathered from; an index of
 * NULL means row i. The index lies where the values lie. */
struct skep_rows {
    size_t count;
    size_t dim;
    const uint32_t *index;
};

/* Gain and bias of a normalisation, or their gradients; [dim] each. */
struct skep_affine {
    skep_real *gain;
    skep_real *bias;
};

struct skep_matrix {
    const skep_real *data;
    size_t stride;   /* values from one row to the next, as it lies in memory */
    bool transposed; /* read as its transpose */
};

/* C is [rows, columns], the sum runs over `inner`. */
struct skep_gemm_size {
    size_t rows;
    size_t columns;
    size_t inner;
};

/* A causal attention block of `rows.count` rows over `rows.dim` columns: row i sees its first first + i + 1 columns. */
struct skep_causal {
    size_t first;
    size_t stride;   /* from row to row, for scores and probabilities alike */
    skep_real scale; /* of the scores */
    skep_real
        slope; /* ALiBi: times the distance, subtracted (Press, Smith, Lewis, arXiv 2108.12409) */
};

/* One AdamW step (arXiv 1711.05101); `rate` and the bias corrections are worked out by the caller. */
struct skep_adamw {
    double rate;
    double beta1;
    double beta2;
    double epsilon;
    double decay;       /* weight decay, times rate */
    double gradient;    /* the gradient is multiplied by this first (clipping) */
    double correction1; /* 1 / (1 - beta1^step) */
    double correction2; /* 1 / (1 - beta2^step) */
};

struct skep_ops {
    const char *name; /* "reference", "cpu avx2", "cuda NVIDIA H200" */
    bool
        on_host; /* host memory is this back end's memory: host code may read and write its arrays */

    /* On a cache line, not cleared; NULL when there is no memory. */
    void *(*memory_new)(size_t size);
    void (*memory_free)(void *memory);
    /* From the host to the back end and back; both return when the bytes have arrived. */
    void (*copy_in)(void *to, const void *from, size_t size);
    void (*copy_out)(void *to, const void *from, size_t size);
    /* The first error since the table was made, or SKEP_OK; waits for what is still being computed. */
    int (*status)(struct skep_error *err);

    /* C <- A B + beta C; with beta 0 C need not be initialised. Empty sizes are allowed. */
    void (*gemm)(struct skep_gemm_size size, struct skep_matrix a, struct skep_matrix b,
                 skep_real beta, skep_real *c, size_t c_stride);

    /* values[i] = value */
    void (*fill)(size_t count, skep_real value, skep_real *values);
    /* y += x;  y *= x;  y *= factor */
    void (*add)(const skep_real *x, size_t count, skep_real *y);
    void (*multiply)(const skep_real *x, size_t count, skep_real *y);
    void (*scale)(size_t count, skep_real factor, skep_real *y);
    /* Sum of squares, in double over blocks; NaN or infinite if a value is. */
    double (*sum_squares)(const skep_real *x, size_t count);

    /* y[i] = bias;  y[i] += bias. No index. */
    void (*rows_set)(struct skep_rows rows, const skep_real *bias, skep_real *y);
    void (*rows_add)(struct skep_rows rows, const skep_real *bias, skep_real *y);
    /* sum[j] += sum over i of x[i][j]. No index. */
    void (*rows_sum)(struct skep_rows rows, const skep_real *x, skep_real *sum);
    /* y[i] = x[index[i]];  y[i] += x[index[i]] */
    void (*rows_gather)(struct skep_rows rows, const skep_real *x, skep_real *y);
    void (*rows_gather_add)(struct skep_rows rows, const skep_real *x, skep_real *y);
    /* y[index[i]] += x[i]; an index may repeat; the order of the sums is always the same. */
    void (*rows_scatter_add)(struct skep_rows rows, const skep_real *x, skep_real *y);
    /* x[index[i]] += weight[i] * y[i]; no index twice. */
    void (*rows_combine)(struct skep_rows rows, const skep_real *y, const skep_real *weight,
                         skep_real *x);
    /* dy[i] = weight[i] * dx[index[i]];  dweight[i] = dx[index[i]] . y[i] */
    void (*rows_combine_backward)(struct skep_rows rows, const skep_real *dx, const skep_real *y,
                                  const skep_real *weight, skep_real *dy, skep_real *dweight);

    /* hat[i] = normalised x[index[i]]; scale[i] = 1 / sqrt(variance + epsilon). */
    void (*normalise)(struct skep_rows rows, const skep_real *x, skep_real *hat, skep_real *scale);
    /* dx[index[i]] += gradient through normalise of dhat[i]; no index twice. */
    void (*normalise_backward)(struct skep_rows rows, const skep_real *dhat, const skep_real *hat,
                               const skep_real *scale, skep_real *dx);
    /* y[i] = hat[i] * gain + bias. No index. */
    void (*affine)(struct skep_rows rows, const skep_real *hat, struct skep_affine affine,
                   skep_real *y);
    /* dhat[i] = dy[i] * gain; gradients of gain and bias are added to. No index. dhat may be dy. */
    void (*affine_backward)(struct skep_rows rows, const skep_real *dy, const skep_real *hat,
                            struct skep_affine affine, skep_real *dhat,
                            struct skep_affine gradient);
    /* y[i] = max(0, hat[i] * gain + bias), and back: dy counts where y > 0. No index. dhat may be dy. */
    void (*affine_relu)(struct skep_rows rows, const skep_real *hat, struct skep_affine affine,
                        skep_real *y);
    void (*affine_relu_backward)(struct skep_rows rows, const skep_real *dy, const skep_real *y,
                                 const skep_real *hat, struct skep_affine affine, skep_real *dhat,
                                 struct skep_affine gradient);

    /* GELU, tanh form (Hendrycks and Gimpel, arXiv 1606.08415): with a = pre[i] + bias, out[i] = gelu(a) and pre[i] becomes
     * gelu'(a), all that the way back needs. No index. */
    void (*gelu)(struct skep_rows rows, skep_real *pre, const skep_real *bias, skep_real *out);
    /* dpre[i] *= slope[i], and dbias[j] += sum over i of the result: the way back through gelu. No index. */
    void (*gelu_backward)(struct skep_rows rows, const skep_real *slope, skep_real *dpre,
                          skep_real *dbias);

    /* In place: softmax over the columns a row sees of score * scale - slope * distance, and 0 behind them. */
    void (*softmax_causal)(struct skep_rows rows, struct skep_causal causal, skep_real *scores);
    /* dscores: on entry the gradient of the probabilities, on return that of the scores. */
    void (*softmax_causal_backward)(struct skep_rows rows, struct skep_causal causal,
                                    const skep_real *probability, skep_real *dscores);

    /* Cross-entropy in nats of logits [count, dim] against target[i] < dim: nats[i] = logsumexp[i] - logits[i][target[i]]. */
    void (*cross_entropy)(struct skep_rows rows, const skep_real *logits, const uint32_t *target,
                          skep_real *logsumexp, skep_real *nats);
    /* logits[i] <- (exp(logits[i] - logsumexp[i]) - [j == target[i]]) * weight: the gradient of weight * sum of nats. */
    void (*cross_entropy_backward)(struct skep_rows rows, const uint32_t *target,
                                   const skep_real *logsumexp, skep_real weight, skep_real *logits);

    /* Always done to its end, like copies: it changes what lasts. Callers who want to stop cut it into short calls. */
    void (*adamw)(const struct skep_adamw *adamw, size_t count, const skep_real *gradient,
                  float *first, float *second, skep_real *values);
};

#ifdef __cplusplus
extern "C" {
#endif

const struct skep_ops *skep_ops_reference(void);
/* The fastest table of this machine's CPU. The environment variable SKEP_CPU names a slower one ("baseline", "avx2"): for tests. */
const struct skep_ops *skep_ops_cpu(void);
/* The CPU tables that this machine can run, slowest first; returns how many. For tests and benchmarks. */
size_t skep_ops_cpu_tables(const struct skep_ops **ret_tables, size_t limit);

/* Threads that the CPU tables may use from now on, in products and in kernels; 1 until it is called. May be called while
 * another thread computes: what runs finishes as it began. */
void skep_ops_set_threads(unsigned threads);
/* From now on tables stop when *stop is set (see above); NULL: never. Borrowed. Once set it stays set until whatever is being computed has
 * returned: callers look at it after operations, to know whether those were done. */
void skep_ops_set_stop(const atomic_bool *stop);
bool skep_ops_stopped(void);

/* A linear map of `rows` inputs [rows, inputs] by weights [outputs, inputs] to [rows, outputs]; all without gaps. */
struct skep_linear {
    size_t rows;
    size_t inputs;
    size_t outputs;
};

/* y <- x w^T + beta y */
void skep_linear_forward(const struct skep_ops *ops, struct skep_linear shape, const skep_real *x,
                         const skep_real *w, skep_real beta, skep_real *y);
/* dx <- dy w + beta dx */
void skep_linear_inputs(const struct skep_ops *ops, struct skep_linear shape, const skep_real *dy,
                        const skep_real *w, skep_real beta, skep_real *dx);
/* dw <- dy^T x + beta dw */
void skep_linear_weights(const struct skep_ops *ops, struct skep_linear shape, const skep_real *dy,
                         const skep_real *x, skep_real beta, skep_real *dw);

#ifdef __cplusplus
}
#endif

#endif
