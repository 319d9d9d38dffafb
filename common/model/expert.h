/*
 * Experts: sub-networks of one shape that map rows x [n, d] to rows y [n, d]. The layer adds the weighted sum of the chosen experts'
 * y to its residual stream, so the residual connection of both kinds belongs to the layer (weights sum to 1: it is the same sum).
 *
 *   ffn        y = gelu(norm(x) up^T + up_bias) down^T + down_bias                       pre-norm; d -> h -> d
 *   paper_ffn  a = relu(norm1(x first^T + first_bias));  b = relu(norm2(a second^T + second_bias));  y = b third^T + third_bias
 *              d -> h -> h -> d (arXiv 2002.04013, section 4.1)
 *
 * Parameters are one flat array in the order of the shard's tensors (layout.h). Rows may be gathered: row i of the expert is row
 * index[i] of x; NULL means row i. `ops` says on which back end all arrays lie (common/tensor/ops.h).
 *
 * What the way back needs is kept in `work`, skep_expert_work() values for n rows, written by forward and read by backward. A caller that
 * kept nothing calls forward again first: that is the recomputation of arXiv 2002.04013, section 3.2.
 */
#ifndef SKEP_MODEL_EXPERT_H
#define SKEP_MODEL_EXPERT_H

#include <stddef.h>
#include <stdint.h>

#include "common/tensor/ops.h"
#include "common/tensor/real.h"
#include "common/wire/model-config.h"

struct skep_expert_shape {
    enum skep_expert_kind kind;
    size_t dim;    /* d */
    size_t hidden; /* h */
};

struct skep_expert_shape skep_expert_shape_of(const struct skep_model_config *config);
/* Values in the flat array of parameters. */
size_t skep_expert_parameters(struct skep_expert_shape shape);
/* Values that forward keeps for the way back of n rows, and scratch of the way back. */
size_t skep_expert_work(struct skep_expert_shape shape, size_t rows);
size_t skep_expert_scratch(struct skep_expert_shape shape, size_t rows);
/* Floating-point operations of one row, forward only; backward takes twice that. */
uint64_t skep_expert_flops(struct skep_expert_shape shape);

/* y [rows.count, d] is written; rows.dim is d. y NULL: only `work` is wanted, for a way back (that saves the last product). */
void skep_expert_forward(const struct skep_ops *ops, struct skep_expert_shape shape,
                         const skep_real *parameters, struct skep_rows rows, const skep_real *x,
                         skep_real *work, skep_real *y);

/* The arrays of one backward pass. */
struct skep_expert_backward {
    const skep_real *x;     /* as in forward */
    const skep_real *dy;    /* [n, d] gradient of y */
    skep_real *work;        /* from forward; spoiled */
    skep_real *scratch;     /* skep_expert_scratch() values */
    skep_real *dx;          /* rows index[i] are added to; NULL: not wanted */
    skep_real *dparameters; /* flat, as the parameters */
    skep_real beta;         /* dparameters <- gradient + beta * dparameters: 0 writes, 1 adds */
};
void skep_expert_backward(const struct skep_ops *ops, struct skep_expert_shape shape,
                          const skep_real *parameters, struct skep_rows rows,
                          const struct skep_expert_backward *pass);

#endif
