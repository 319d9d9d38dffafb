/* The files of kernels, each of which puts its operations into the table. Private to the plug-in. */
#ifndef SKEP_GPU_KERNELS_CUH
#define SKEP_GPU_KERNELS_CUH

#include "common/tensor/ops.h"

/* values.cu: fill, add, multiply, scale, adamw (sum_squares needs the host: device.cu) */
void skep_cuda_values(struct skep_ops *ops);
/* rows.cu: rows_*, and the part of gemm that is none */
void skep_cuda_rows(struct skep_ops *ops);
/* norm.cu: normalise, affine, affine_relu and their ways back */
void skep_cuda_norms(struct skep_ops *ops);
/* activation.cu: gelu, softmax_causal, cross_entropy and their ways back */
void skep_cuda_activations(struct skep_ops *ops);

/* C <- beta C for a product over nothing; with beta 0 C need not be initialised. */
void skep_cuda_matrix_scale(size_t rows, size_t columns, float beta, float *c, size_t c_stride);

/* Sums of squares of SKEP_CUDA_PARTS parts of x, into device memory. Part and order depend on count alone. */
#define SKEP_CUDA_PARTS 1024u
void skep_cuda_sum_squares(const float *x, size_t count, double *parts);

#endif
