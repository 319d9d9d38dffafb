/*
 * The element-wise and row-wise operations of the model, each one pass over memory. reference.h has the same operations written for
 * reading; tests hold these against it. Shapes are outermost first; arrays do not overlap unless it is said.
 *
 * Layer normalisation comes in two pieces, because an MoE layer normalises a token once and scales it for each expert:
 *   hat = (x - mean) / sqrt(variance + 1e-5)          (Ba, Kiros, Hinton, arXiv 1607.06450)
 *   y   = hat * gain + bias
 */
#ifndef SKEP_TENSOR_OPS_H
#define SKEP_TENSOR_OPS_H

#include <stddef.h>
#include <stdint.h>

#include "common/tensor/real.h"

#define SKEP_NORM_EPSILON 1e-5

/* `count` rows of `dim` values. Row i of a gathered matrix belongs to row index[i] of the matrix it is gathered from; an index of
 * NULL means row i. */
struct skep_rows {
    size_t count;
    size_t dim;
    const uint32_t *index;
};

/* Gain and bias of a normalisation, or their gradients. */
struct skep_affine {
    skep_real *gain;
    skep_real *bias;
};

/* hat[i] = normalised x[i]; scale[i] = 1 / sqrt(variance + epsilon). No index. */
void skep_normalise(struct skep_rows rows, const skep_real *x, skep_real *hat, skep_real *scale);
/* dx[i] += gradient through skep_normalise of dhat[i]. No index. */
void skep_normalise_backward(struct skep_rows rows, const skep_real *dhat, const skep_real *hat,
                             const skep_real *scale, skep_real *dx);
/* y[i] = hat[index[i]] * gain + bias */
void skep_affine_forward(struct skep_rows rows, const skep_real *hat, struct skep_affine affine,
                         skep_real *y);
/* dhat[index[i]] += dy[i] * gain; gradients of gain and bias are added to. */
void skep_affine_backward(struct skep_rows rows, const skep_real *dy, const skep_real *hat,
                          struct skep_affine affine, skep_real *dhat, struct skep_affine gradient);

/* y[i] += bias, then x[index[i]] += weight[i] * y[i] */
void skep_rows_combine(struct skep_rows rows, skep_real *y, const skep_real *bias,
                       const skep_real *weight, skep_real *x);
/* dy[i] = weight[i] * dx[index[i]];  dweight[i] = dx[index[i]] . y[i] */
void skep_rows_combine_backward(struct skep_rows rows, const skep_real *dx, const skep_real *y,
                                const skep_real *weight, skep_real *dy, skep_real *dweight);
/* sum[j] += sum over i of x[i][j]. No index. */
void skep_rows_sum(struct skep_rows rows, const skep_real *x, skep_real *sum);

/* GELU, tanh form (Hendrycks and Gimpel, arXiv 1606.08415): with a = pre[i] + bias, out[i] = gelu(a) and pre[i] becomes gelu'(a), all that
 * the way back needs. No index. */
void skep_gelu(struct skep_rows rows, skep_real *pre, const skep_real *bias, skep_real *out);

/* Causal softmax in place: row i keeps its first first + i + 1 columns, softmax over those of score * scale - slope * distance, where
 * column j is first + i - j away (Press, Smith, Lewis, arXiv 2108.12409), and 0 behind them up to rows.dim. `stride` from row to row. */
void skep_softmax_causal(struct skep_rows rows, size_t first, size_t stride, skep_real scale,
                         skep_real slope, skep_real *scores);
/* dscores: on entry the gradient of the probabilities, on return that of the scores. Both with `stride`. */
void skep_softmax_causal_backward(struct skep_rows rows, size_t stride, skep_real scale,
                                  const skep_real *probability, skep_real *dscores);

/* log(sum(exp(values))) */
skep_real skep_logsumexp(const skep_real *values, size_t count);
/* logits <- (exp(logits - total) - [j == target]) * weight: the gradient of weight * cross-entropy, total = logsumexp. */
void skep_cross_entropy_backward(skep_real *logits, size_t count, uint32_t target, skep_real total,
                                 skep_real weight);

/* y += x */
void skep_add(const skep_real *x, size_t count, skep_real *y);
/* y *= x */
void skep_multiply(const skep_real *x, size_t count, skep_real *y);
/* Sum of squares, in double over blocks. */
double skep_sum_squares(const skep_real *x, size_t count);

/* One AdamW step (arXiv 1711.05101) of `count` values; `rate` and the bias corrections are worked out by the caller. */
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

void skep_adamw_update(const struct skep_adamw *adamw, size_t count, const skep_real *gradient,
                       float *first, float *second, skep_real *values);

#endif
