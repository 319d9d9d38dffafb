/*
 * The operations of ops.h and gemm.h written for reading: loops as in the formulas, sums in double, the C library's exp and tanh. Not for
 * training; the tests hold the fast versions against these, and another backend would be held against them too. Signatures and
 * meaning are those of the functions without `_reference`.
 */
#ifndef SKEP_TENSOR_REFERENCE_H
#define SKEP_TENSOR_REFERENCE_H

#include "common/tensor/gemm.h"
#include "common/tensor/ops.h"

void skep_gemm_reference(struct skep_gemm_size size, struct skep_matrix a, struct skep_matrix b,
                         skep_real beta, skep_real *c, size_t c_stride);

void skep_normalise_reference(struct skep_rows rows, const skep_real *x, skep_real *hat,
                              skep_real *scale);
void skep_normalise_backward_reference(struct skep_rows rows, const skep_real *dhat,
                                       const skep_real *hat, const skep_real *scale, skep_real *dx);
void skep_affine_forward_reference(struct skep_rows rows, const skep_real *hat,
                                   struct skep_affine affine, skep_real *y);
void skep_affine_backward_reference(struct skep_rows rows, const skep_real *dy,
                                    const skep_real *hat, struct skep_affine affine,
                                    skep_real *dhat, struct skep_affine gradient);
void skep_rows_combine_reference(struct skep_rows rows, skep_real *y, const skep_real *bias,
                                 const skep_real *weight, skep_real *x);
void skep_rows_combine_backward_reference(struct skep_rows rows, const skep_real *dx,
                                          const skep_real *y, const skep_real *weight,
                                          skep_real *dy, skep_real *dweight);
void skep_rows_sum_reference(struct skep_rows rows, const skep_real *x, skep_real *sum);
void skep_gelu_reference(struct skep_rows rows, skep_real *pre, const skep_real *bias,
                         skep_real *out);
void skep_softmax_causal_reference(struct skep_rows rows, size_t first, size_t stride,
                                   skep_real scale, skep_real slope, skep_real *scores);
void skep_softmax_causal_backward_reference(struct skep_rows rows, size_t stride, skep_real scale,
                                            const skep_real *probability, skep_real *dscores);
skep_real skep_logsumexp_reference(const skep_real *values, size_t count);
void skep_cross_entropy_backward_reference(skep_real *logits, size_t count, uint32_t target,
                                           skep_real total, skep_real weight);
double skep_sum_squares_reference(const skep_real *x, size_t count);
void skep_adamw_update_reference(const struct skep_adamw *adamw, size_t count,
                                 const skep_real *gradient, float *first, float *second,
                                 skep_real *values);

#endif
