/*
 * The operations of ops.h written for reading: loops as in the formulas, sums in double, the C library's exp and tanh. Not for
 * training; the tests hold every other table against this one.
 */
#include <math.h>
#include <string.h>

#include "common/tensor/memory.h"
#include "common/tensor/ops.h"

static size_t row_of(struct skep_rows rows, size_t i)
{
    return rows.index == NULL ? i : rows.index[i];
}

static double at(struct skep_matrix matrix, size_t row, size_t column)
{
    return (double)(matrix.transposed ? matrix.data[column * matrix.stride + row]
                                      : matrix.data[row * matrix.stride + column]);
}

static void copy(void *to, const void *from, size_t size)
{
    if (size > 0) {
        memcpy(to, from, size);
    }
}

static int status(struct skep_error *err)
{
    (void)err;
    return SKEP_OK;
}

static void gemm(struct skep_gemm_size size, struct skep_matrix a, struct skep_matrix b,
                 skep_real beta, skep_real *c, size_t c_stride)
{
    for (size_t i = 0; i < size.rows; i++) {
        for (size_t j = 0; j < size.columns; j++) {
            double sum = 0;
            for (size_t k = 0; k < size.inner; k++) {
                sum += at(a, i, k) * at(b, k, j);
            }
            skep_real *to = &c[i * c_stride + j];
            *to = (skep_real)(sum + (beta == 0 ? 0.0 : (double)(beta * *to)));
        }
    }
}

static void fill(size_t count, skep_real value, skep_real *values)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = value;
    }
}

static void add(const skep_real *x, size_t count, skep_real *y)
{
    for (size_t i = 0; i < count; i++) {
        y[i] += x[i];
    }
}

static void multiply(const skep_real *x, size_t count, skep_real *y)
{
    for (size_t i = 0; i < count; i++) {
        y[i] *= x[i];
    }
}

static void scale_values(size_t count, skep_real factor, skep_real *y)
{
    for (size_t i = 0; i < count; i++) {
        y[i] *= factor;
    }
}

static double sum_squares(const skep_real *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    return sum;
}

static void rows_set(struct skep_rows rows, const skep_real *bias, skep_real *y)
{
    for (size_t i = 0; i < rows.count; i++) {
        for (size_t j = 0; j < rows.dim; j++) {
            y[i * rows.dim + j] = bias[j];
        }
    }
}

static void rows_add(struct skep_rows rows, const skep_real *bias, skep_real *y)
{
    for (size_t i = 0; i < rows.count; i++) {
        for (size_t j = 0; j < rows.dim; j++) {
            y[i * rows.dim + j] += bias[j];
        }
    }
}

static void rows_sum(struct skep_rows rows, const skep_real *x, skep_real *sum)
{
    for (size_t j = 0; j < rows.dim; j++) {
        double total = 0;
        for (size_t i = 0; i < rows.count; i++) {
            total += (double)x[i * rows.dim + j];
        }
        sum[j] += (skep_real)total;
    }
}

static void rows_gather(struct skep_rows rows, const skep_real *x, skep_real *y)
{
    for (size_t i = 0; i < rows.count; i++) {
        for (size_t j = 0; j < rows.dim; j++) {
            y[i * rows.dim + j] = x[row_of(rows, i) * rows.dim + j];
        }
    }
}

static void rows_gather_add(struct skep_rows rows, const skep_real *x, skep_real *y)
{
    for (size_t i = 0; i < rows.count; i++) {
        for (size_t j = 0; j < rows.dim; j++) {
            y[i * rows.dim + j] += x[row_of(rows, i) * rows.dim + j];
        }
    }
}

static void rows_scatter_add(struct skep_rows rows, const skep_real *x, skep_real *y)
{
    for (size_t i = 0; i < rows.count; i++) {
        for (size_t j = 0; j < rows.dim; j++) {
            y[row_of(rows, i) * rows.dim + j] += x[i * rows.dim + j];
        }
    }
}

static void rows_combine(struct skep_rows rows, const skep_real *y, const skep_real *weight,
                         skep_real *x)
{
    for (size_t i = 0; i < rows.count; i++) {
        for (size_t j = 0; j < rows.dim; j++) {
            x[row_of(rows, i) * rows.dim + j] += weight[i] * y[i * rows.dim + j];
        }
    }
}

static void rows_combine_backward(struct skep_rows rows, const skep_real *dx, const skep_real *y,
                                  const skep_real *weight, skep_real *dy, skep_real *dweight)
{
    for (size_t i = 0; i < rows.count; i++) {
        double dot = 0;
        for (size_t j = 0; j < rows.dim; j++) {
            skep_real gradient = dx[row_of(rows, i) * rows.dim + j];
            dy[i * rows.dim + j] = weight[i] * gradient;
            dot += (double)gradient * (double)y[i * rows.dim + j];
        }
        dweight[i] = (skep_real)dot;
    }
}

static void normalise(struct skep_rows rows, const skep_real *x, skep_real *hat, skep_real *scale)
{
    for (size_t i = 0; i < rows.count; i++) {
        const skep_real *row = x + row_of(rows, i) * rows.dim;
        double mean = 0;
        for (size_t j = 0; j < rows.dim; j++) {
            mean += (double)row[j] / (double)rows.dim;
        }
        double variance = 0;
        for (size_t j = 0; j < rows.dim; j++) {
            variance += pow((double)row[j] - mean, 2) / (double)rows.dim;
        }
        double inverse = 1 / sqrt(variance + SKEP_NORM_EPSILON);
        for (size_t j = 0; j < rows.dim; j++) {
            hat[i * rows.dim + j] = (skep_real)(((double)row[j] - mean) * inverse);
        }
        scale[i] = (skep_real)inverse;
    }
}

static void normalise_backward(struct skep_rows rows, const skep_real *dhat, const skep_real *hat,
                               const skep_real *scale, skep_real *dx)
{
    for (size_t i = 0; i < rows.count; i++) {
        const skep_real *dh = dhat + i * rows.dim;
        const skep_real *h = hat + i * rows.dim;
        double mean = 0;
        double slope = 0;
        for (size_t j = 0; j < rows.dim; j++) {
            mean += (double)dh[j] / (double)rows.dim;
            slope += (double)dh[j] * (double)h[j] / (double)rows.dim;
        }
        for (size_t j = 0; j < rows.dim; j++) {
            double gradient = ((double)dh[j] - mean - (double)h[j] * slope) * (double)scale[i];
            dx[row_of(rows, i) * rows.dim + j] += (skep_real)gradient;
        }
    }
}

static void affine_forward(struct skep_rows rows, const skep_real *hat, struct skep_affine affine,
                           skep_real *y)
{
    for (size_t i = 0; i < rows.count; i++) {
        for (size_t j = 0; j < rows.dim; j++) {
            y[i * rows.dim + j] = hat[i * rows.dim + j] * affine.gain[j] + affine.bias[j];
        }
    }
}

static void affine_backward(struct skep_rows rows, const skep_real *dy, const skep_real *hat,
                            struct skep_affine affine, skep_real *dhat, struct skep_affine gradient)
{
    for (size_t j = 0; j < rows.dim; j++) {
        double gain = 0;
        double bias = 0;
        for (size_t i = 0; i < rows.count; i++) {
            size_t here = i * rows.dim + j;
            gain += (double)dy[here] * (double)hat[here];
            bias += (double)dy[here];
            dhat[here] = dy[here] * affine.gain[j];
        }
        gradient.gain[j] += (skep_real)gain;
        gradient.bias[j] += (skep_real)bias;
    }
}

static void affine_relu(struct skep_rows rows, const skep_real *hat, struct skep_affine affine,
                        skep_real *y)
{
    affine_forward(rows, hat, affine, y);
    for (size_t i = 0; i < rows.count * rows.dim; i++) {
        y[i] = y[i] < 0 ? 0 : y[i]; /* NaN stays NaN */
    }
}

static void affine_relu_backward(struct skep_rows rows, const skep_real *dy, const skep_real *y,
                                 const skep_real *hat, struct skep_affine affine, skep_real *dhat,
                                 struct skep_affine gradient)
{
    for (size_t i = 0; i < rows.count * rows.dim; i++) {
        dhat[i] = y[i] > 0 ? dy[i] : 0;
    }
    affine_backward(rows, dhat, hat, affine, dhat, gradient);
}

static void gelu(struct skep_rows rows, skep_real *pre, const skep_real *bias, skep_real *out)
{
    const double root = sqrt(2 / acos(-1));
    for (size_t i = 0; i < rows.count * rows.dim; i++) {
        double a = (double)(pre[i] + bias[i % rows.dim]);
        double t = tanh(root * (a + 0.044715 * a * a * a));
        out[i] = (skep_real)(0.5 * a * (1 + t));
        double slope = root * (1 + 3 * 0.044715 * a * a);
        pre[i] = (skep_real)(0.5 * (1 + t) + 0.5 * a * (1 - t * t) * slope);
    }
}

static void gelu_backward(struct skep_rows rows, const skep_real *slope, skep_real *dpre,
                          skep_real *dbias)
{
    multiply(slope, rows.count * rows.dim, dpre);
    rows_sum(rows, dpre, dbias);
}

/* How many of its columns row i sees. */
static size_t seen(struct skep_rows rows, struct skep_causal causal, size_t i)
{
    size_t count = causal.first + i + 1;
    return count < rows.dim ? count : rows.dim;
}

static void softmax_causal(struct skep_rows rows, struct skep_causal causal, skep_real *scores)
{
    for (size_t i = 0; i < rows.count; i++) {
        skep_real *row = scores + i * causal.stride;
        size_t here = causal.first + i;
        double most = -INFINITY;
        double sum = 0;
        for (size_t j = 0; j < seen(rows, causal, i); j++) {
            row[j] = row[j] * causal.scale - causal.slope * (skep_real)(here - j);
            most = fmax(most, (double)row[j]);
        }
        for (size_t j = 0; j < seen(rows, causal, i); j++) {
            sum += exp((double)row[j] - most);
        }
        for (size_t j = 0; j < rows.dim; j++) {
            row[j] = (skep_real)(j <= here ? exp((double)row[j] - most) / sum : 0);
        }
    }
}

static void softmax_causal_backward(struct skep_rows rows, struct skep_causal causal,
                                    const skep_real *probability, skep_real *dscores)
{
    for (size_t i = 0; i < rows.count; i++) {
        const skep_real *p = probability + i * causal.stride;
        skep_real *d = dscores + i * causal.stride;
        double dot = 0;
        for (size_t j = 0; j < seen(rows, causal, i); j++) {
            dot += (double)p[j] * (double)d[j];
        }
        for (size_t j = 0; j < rows.dim; j++) {
            double gradient = (double)p[j] * ((double)d[j] - dot) * (double)causal.scale;
            d[j] = (skep_real)(j < seen(rows, causal, i) ? gradient : 0);
        }
    }
}

static void cross_entropy(struct skep_rows rows, const skep_real *logits, const uint32_t *target,
                          skep_real *logsumexp, skep_real *nats)
{
    for (size_t i = 0; i < rows.count; i++) {
        const skep_real *row = logits + i * rows.dim;
        double most = -INFINITY;
        double sum = 0;
        for (size_t j = 0; j < rows.dim; j++) {
            most = fmax(most, (double)row[j]);
        }
        for (size_t j = 0; j < rows.dim; j++) {
            sum += exp((double)row[j] - most);
        }
        logsumexp[i] = (skep_real)(most + log(sum));
        nats[i] = (skep_real)(most + log(sum) - (double)row[target[i]]);
    }
}

static void cross_entropy_backward(struct skep_rows rows, const uint32_t *target,
                                   const skep_real *logsumexp, skep_real weight, skep_real *logits)
{
    for (size_t i = 0; i < rows.count; i++) {
        for (size_t j = 0; j < rows.dim; j++) {
            skep_real *to = &logits[i * rows.dim + j];
            double probability = exp((double)*to - (double)logsumexp[i]);
            *to = (skep_real)((probability - (j == target[i])) * (double)weight);
        }
    }
}

static void adamw_step(const struct skep_adamw *adamw, size_t count, const skep_real *gradient,
                       float *first, float *second, skep_real *values)
{
    for (size_t i = 0; i < count; i++) {
        double g = (double)gradient[i] * adamw->gradient;
        double m = adamw->beta1 * (double)first[i] + (1 - adamw->beta1) * g;
        double v = adamw->beta2 * (double)second[i] + (1 - adamw->beta2) * g * g;
        double step = m * adamw->correction1 / (sqrt(v * adamw->correction2) + adamw->epsilon);
        double decay = adamw->decay * (double)values[i];
        first[i] = (float)m;
        second[i] = (float)v;
        values[i] = (skep_real)((double)values[i] - adamw->rate * (step + decay));
    }
}

const struct skep_ops *skep_ops_reference(void)
{
    static const struct skep_ops OPS = {
        .name = "reference",
        .on_host = true,
        .memory_new = skep_memory_new,
        .memory_free = skep_memory_free,
        .copy_in = copy,
        .copy_out = copy,
        .status = status,
        .gemm = gemm,
        .fill = fill,
        .add = add,
        .multiply = multiply,
        .scale = scale_values,
        .sum_squares = sum_squares,
        .rows_set = rows_set,
        .rows_add = rows_add,
        .rows_sum = rows_sum,
        .rows_gather = rows_gather,
        .rows_gather_add = rows_gather_add,
        .rows_scatter_add = rows_scatter_add,
        .rows_combine = rows_combine,
        .rows_combine_backward = rows_combine_backward,
        .normalise = normalise,
        .normalise_backward = normalise_backward,
        .affine = affine_forward,
        .affine_backward = affine_backward,
        .affine_relu = affine_relu,
        .affine_relu_backward = affine_relu_backward,
        .gelu = gelu,
        .gelu_backward = gelu_backward,
        .softmax_causal = softmax_causal,
        .softmax_causal_backward = softmax_causal_backward,
        .cross_entropy = cross_entropy,
        .cross_entropy_backward = cross_entropy_backward,
        .adamw = adamw_step,
    };
    return &OPS;
}
