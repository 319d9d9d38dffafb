#include "common/tensor/reference.h"

#include <math.h>

static size_t row_of(struct skep_rows rows, size_t i)
{
    return rows.index == NULL ? i : rows.index[i];
}

static double at(struct skep_matrix matrix, size_t row, size_t column)
{
    return (double)(matrix.transposed ? matrix.data[column * matrix.stride + row]
                                      : matrix.data[row * matrix.stride + column]);
}

void skep_gemm_reference(struct skep_gemm_size size, struct skep_matrix a, struct skep_matrix b,
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

void skep_normalise_reference(struct skep_rows rows, const skep_real *x, skep_real *hat,
                              skep_real *scale)
{
    for (size_t i = 0; i < rows.count; i++) {
        const skep_real *row = x + i * rows.dim;
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

void skep_normalise_backward_reference(struct skep_rows rows, const skep_real *dhat,
                                       const skep_real *hat, const skep_real *scale, skep_real *dx)
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
            dx[i * rows.dim + j] += (skep_real)gradient;
        }
    }
}

void skep_affine_forward_reference(struct skep_rows rows, const skep_real *hat,
                                   struct skep_affine affine, skep_real *y)
{
    for (size_t i = 0; i < rows.count; i++) {
        for (size_t j = 0; j < rows.dim; j++) {
            y[i * rows.dim + j] =
                hat[row_of(rows, i) * rows.dim + j] * affine.gain[j] + affine.bias[j];
        }
    }
}

void skep_affine_backward_reference(struct skep_rows rows, const skep_real *dy,
                                    const skep_real *hat, struct skep_affine affine,
                                    skep_real *dhat, struct skep_affine gradient)
{
    for (size_t i = 0; i < rows.count; i++) {
        for (size_t j = 0; j < rows.dim; j++) {
            size_t token = row_of(rows, i) * rows.dim + j;
            gradient.gain[j] += dy[i * rows.dim + j] * hat[token];
            gradient.bias[j] += dy[i * rows.dim + j];
            dhat[token] += dy[i * rows.dim + j] * affine.gain[j];
        }
    }
}

void skep_rows_combine_reference(struct skep_rows rows, skep_real *y, const skep_real *bias,
                                 const skep_real *weight, skep_real *x)
{
    for (size_t i = 0; i < rows.count; i++) {
        for (size_t j = 0; j < rows.dim; j++) {
            y[i * rows.dim + j] += bias[j];
            x[row_of(rows, i) * rows.dim + j] += weight[i] * y[i * rows.dim + j];
        }
    }
}

void skep_rows_combine_backward_reference(struct skep_rows rows, const skep_real *dx,
                                          const skep_real *y, const skep_real *weight,
                                          skep_real *dy, skep_real *dweight)
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

void skep_rows_sum_reference(struct skep_rows rows, const skep_real *x, skep_real *sum)
{
    for (size_t j = 0; j < rows.dim; j++) {
        double total = 0;
        for (size_t i = 0; i < rows.count; i++) {
            total += (double)x[i * rows.dim + j];
        }
        sum[j] += (skep_real)total;
    }
}

void skep_gelu_reference(struct skep_rows rows, skep_real *pre, const skep_real *bias,
                         skep_real *out)
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

void skep_softmax_causal_reference(struct skep_rows rows, size_t first, size_t stride,
                                   skep_real scale, skep_real slope, skep_real *scores)
{
    for (size_t i = 0; i < rows.count; i++) {
        skep_real *row = scores + i * stride;
        size_t here = first + i;
        double most = -INFINITY;
        double sum = 0;
        for (size_t j = 0; j <= here; j++) {
            row[j] = row[j] * scale - slope * (skep_real)(here - j);
            most = fmax(most, (double)row[j]);
        }
        for (size_t j = 0; j <= here; j++) {
            sum += exp((double)row[j] - most);
        }
        for (size_t j = 0; j < rows.dim; j++) {
            row[j] = (skep_real)(j <= here ? exp((double)row[j] - most) / sum : 0);
        }
    }
}

void skep_softmax_causal_backward_reference(struct skep_rows rows, size_t stride, skep_real scale,
                                            const skep_real *probability, skep_real *dscores)
{
    for (size_t i = 0; i < rows.count; i++) {
        double dot = 0;
        for (size_t j = 0; j < rows.dim; j++) {
            dot += (double)probability[i * stride + j] * (double)dscores[i * stride + j];
        }
        for (size_t j = 0; j < rows.dim; j++) {
            skep_real *to = &dscores[i * stride + j];
            *to = (skep_real)((double)probability[i * stride + j] * ((double)*to - dot) *
                              (double)scale);
        }
    }
}

skep_real skep_logsumexp_reference(const skep_real *values, size_t count)
{
    double most = -INFINITY;
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        most = fmax(most, (double)values[i]);
    }
    for (size_t i = 0; i < count; i++) {
        sum += exp((double)values[i] - most);
    }
    return (skep_real)(most + log(sum));
}

void skep_cross_entropy_backward_reference(skep_real *logits, size_t count, uint32_t target,
                                           skep_real total, skep_real weight)
{
    for (size_t i = 0; i < count; i++) {
        double probability = exp((double)(logits[i] - total));
        logits[i] = (skep_real)((probability - (i == target)) * (double)weight);
    }
}

double skep_sum_squares_reference(const skep_real *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    return sum;
}

void skep_adamw_update_reference(const struct skep_adamw *adamw, size_t count,
                                 const skep_real *gradient, float *first, float *second,
                                 skep_real *values)
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
