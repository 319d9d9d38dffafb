/*
 * Matrix products over CBLAS, the only place that sees cblas.h. Matrices are row-major with a stride between rows, so a head's
 * queries inside the qkv matrix are a matrix too.
 */
#ifndef SKEP_TENSOR_GEMM_H
#define SKEP_TENSOR_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "common/tensor/ops.h"

/* C <- A B + beta C; with beta 0 C need not be initialised. Empty sizes are allowed. */
void skep_gemm(struct skep_gemm_size size, struct skep_matrix a, struct skep_matrix b,
               skep_real beta, skep_real *c, size_t c_stride);

/* y <- x w^T + beta y */
void skep_cblas_linear_forward(struct skep_linear shape, const skep_real *x, const skep_real *w,
                               skep_real beta, skep_real *y);
/* dx <- dy w + beta dx */
void skep_cblas_linear_inputs(struct skep_linear shape, const skep_real *dy, const skep_real *w,
                              skep_real beta, skep_real *dx);
/* dw <- dy^T x + beta dw */
void skep_cblas_linear_weights(struct skep_linear shape, const skep_real *dy, const skep_real *x,
                               skep_real beta, skep_real *dw);

/* Threads that matrix products may use from now on; one until it is called. Returns false where the CBLAS in use cannot be told. */
bool skep_gemm_set_threads(unsigned threads);

#endif
