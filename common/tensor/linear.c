/* Linear maps as products, on any table. */
#include "common/tensor/ops.h"

void skep_linear_forward(const struct skep_ops *ops, struct skep_linear shape, const skep_real *x,
                         const skep_real *w, skep_real beta, skep_real *y)
{
    ops->gemm((struct skep_gemm_size){shape.rows, shape.outputs, shape.inputs},
              (struct skep_matrix){x, shape.inputs, false},
              (struct skep_matrix){w, shape.inputs, true}, beta, y, shape.outputs);
}

void skep_linear_inputs(const struct skep_ops *ops, struct skep_linear shape, const skep_real *dy,
                        const skep_real *w, skep_real beta, skep_real *dx)
{
    ops->gemm((struct skep_gemm_size){shape.rows, shape.inputs, shape.outputs},
              (struct skep_matrix){dy, shape.outputs, false},
              (struct skep_matrix){w, shape.inputs, false}, beta, dx, shape.inputs);
}

void skep_linear_weights(const struct skep_ops *ops, struct skep_linear shape, const skep_real *dy,
                         const skep_real *x, skep_real beta, skep_real *dw)
{
    ops->gemm((struct skep_gemm_size){shape.outputs, shape.inputs, shape.rows},
              (struct skep_matrix){dy, shape.outputs, true},
              (struct skep_matrix){x, shape.inputs, false}, beta, dw, shape.inputs);
}
