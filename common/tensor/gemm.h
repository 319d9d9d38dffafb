/*
 * Matrix products over CBLAS, the only place that sees cblas.h. Matrices are row-major with a stride between rows, so a head's
 * queries inside the qkv matrix are a matrix too.
 */
#ifndef SKEP_TENSOR_GEMM_H
#define SKEP_TENSOR_GEMM_H

#include <stddef.h>

#include "common/tensor/ops.h"

/* C <- A B + beta C; with beta 0 C need not be initialised. Empty sizes are allowed. */
void skep_gemm(struct skep_gemm_size size, struct skep_matrix a, struct skep_matrix b,
               skep_real beta, skep_real *c, size_t c_stride);

/* Room of this many values for a product, one for each thread that asks, kept until the thread ends; NULL: no memory. */
#define SKEP_GEMM_ROOM ((size_t)64512)
skep_real *skep_gemm_room(void);

#endif
