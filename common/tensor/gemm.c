#include "common/tensor/gemm.h"

#include <cblas.h>

#ifdef SKEP_REAL_DOUBLE
#define GEMM cblas_dgemm
#else
#define GEMM cblas_sgemm
#endif

/* OpenBLAS has it, another CBLAS may not: a weak reference is then NULL. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));

/* Somebody has said how many threads. Left to itself OpenBLAS takes one per core, and on a machine that others use they wait for each
 * other by spinning: an evaluation of seconds then takes minutes. */
static bool told;

void skep_gemm(struct skep_gemm_size size, struct skep_matrix a, struct skep_matrix b,
               skep_real beta, skep_real *c, size_t c_stride)
{
    if (size.rows == 0 || size.columns == 0) {
        return;
    }
    if (!told) {
        skep_gemm_set_threads(1);
    }
    GEMM(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
         b.transposed ? CblasTrans : CblasNoTrans, (int)size.rows, (int)size.columns,
         (int)size.inner, 1, a.data, (int)a.stride, b.data, (int)b.stride, beta, c, (int)c_stride);
}

void skep_cblas_linear_forward(struct skep_linear shape, const skep_real *x, const skep_real *w,
                               skep_real beta, skep_real *y)
{
    skep_gemm((struct skep_gemm_size){shape.rows, shape.outputs, shape.inputs},
              (struct skep_matrix){x, shape.inputs, false},
              (struct skep_matrix){w, shape.inputs, true}, beta, y, shape.outputs);
}

void skep_cblas_linear_inputs(struct skep_linear shape, const skep_real *dy, const skep_real *w,
                              skep_real beta, skep_real *dx)
{
    skep_gemm((struct skep_gemm_size){shape.rows, shape.inputs, shape.outputs},
              (struct skep_matrix){dy, shape.outputs, false},
              (struct skep_matrix){w, shape.inputs, false}, beta, dx, shape.inputs);
}

void skep_cblas_linear_weights(struct skep_linear shape, const skep_real *dy, const skep_real *x,
                               skep_real beta, skep_real *dw)
{
    skep_gemm((struct skep_gemm_size){shape.outputs, shape.inputs, shape.rows},
              (struct skep_matrix){dy, shape.outputs, true},
              (struct skep_matrix){x, shape.inputs, false}, beta, dw, shape.inputs);
}

bool skep_gemm_set_threads(unsigned threads)
{
    told = true;
    if (openblas_set_num_threads == NULL) {
        return false;
    }
    openblas_set_num_threads((int)threads);
    return true;
}
