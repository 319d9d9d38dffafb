/* GELU, softmax and cross-entropy: the operations made of exponentials. */
#include <math.h>

#include "common/tensor/exp.h"
#include "common/tensor/kernels.h"

struct gelu {
    struct skep_rows rows;
    skep_real *pre;
    const skep_real *bias;
    skep_real *out;
};

/* `count` values. 0.5 a (1 + tanh(u)) = a / (1 + e^(-2u)) with u = sqrt(2/pi) (a + 0.044715 a^3): one exponential for value and
 * slope. In two loops: in one, compilers follow the exponential's limits into all that comes after, which takes three times as long. */
static inline void gelu_values(const skep_real *restrict bias, size_t count, skep_real *restrict in,
                               skep_real *restrict to)
{
    const skep_real two_root = (skep_real)1.5957691216057308;
    const skep_real cubic = (skep_real)0.044715;
    SKEP_SIMD
    for (size_t j = 0; j < count; j++) {
        skep_real a = in[j] + bias[j];
        to[j] = skep_exp(-two_root * a * (1 + cubic * a * a));
    }
    SKEP_SIMD
    for (size_t j = 0; j < count; j++) {
        skep_real a = in[j] + bias[j];
        skep_real s = 1 / (1 + to[j]);
        skep_real out = a * s;
        to[j] = out;
        in[j] = s + out * (1 - s) * two_root * (1 + 3 * cubic * a * a);
    }
}

#define GELU_VALUES ((size_t)1024) /* so that the second loop finds them in the first cache */

static void gelu_part(const void *raw, size_t begin, size_t end)
{
    const struct gelu *call = raw;
    size_t dim = call->rows.dim;
    for (size_t i = begin; i < end; i++) {
        for (size_t j = 0; j < dim; j += GELU_VALUES) {
            size_t count = dim - j < GELU_VALUES ? dim - j : GELU_VALUES;
            gelu_values(call->bias + j, count, call->pre + i * dim + j, call->out + i * dim + j);
        }
    }
}

static void gelu(struct skep_rows rows, skep_real *pre, const skep_real *bias, skep_real *out)
{
    skep_split_rows(gelu_part, &(struct gelu){rows, pre, bias, out}, rows);
}

struct gelu_backward {
    struct skep_rows rows;
    const skep_real *slope;
    skep_real *dpre;
    skep_real *dbias;
};

static void gelu_backward_part(const void *raw, size_t begin, size_t end)
{
    const struct gelu_backward *call = raw;
    size_t dim = call->rows.dim;
    skep_real *restrict dbias = call->dbias;
    for (size_t i = 0; i < call->rows.count; i++) {
        const skep_real *restrict slope = call->slope + i * dim;
        skep_real *restrict d = call->dpre + i * dim;
        SKEP_SIMD
        for (size_t j = begin; j < end; j++) {
            skep_real value = d[j] * slope[j];
            d[j] = value;
            dbias[j] += value;
        }
    }
}

static void gelu_backward(struct skep_rows rows, const skep_real *slope, skep_real *dpre,
                          skep_real *dbias)
{
    skep_split_columns(gelu_backward_part, &(struct gelu_backward){rows, slope, dpre, dbias}, rows);
}

struct softmax {
    struct skep_rows rows;
    struct skep_causal causal;
    const skep_real *probability;
    skep_real *scores;
};

/* How many of its columns row i sees. */
static inline size_t seen(const struct softmax *call, size_t i)
{
    size_t count = call->causal.first + i + 1;
    return count < call->rows.dim ? count : call->rows.dim;
}

static void softmax_part(const void *raw, size_t begin, size_t end)
{
    const struct softmax *call = raw;
    const skep_real scale = call->causal.scale;
    const skep_real slope = call->causal.slope;
    for (size_t i = begin; i < end; i++) {
        skep_real *restrict row = call->scores + i * call->causal.stride;
        int here = (int)(call->causal.first + i); /* 32 bits: vectors convert no wider integers */
        int kept = (int)seen(call, i);
        skep_real most = -INFINITY;
        SKEP_SIMD_MAX(most)
        for (int j = 0; j < kept; j++) {
            skep_real value = row[j] * scale - slope * (skep_real)(here - j);
            row[j] = value;
            most = value > most ? value : most;
        }
        skep_real sum = 0;
        SKEP_SIMD_SUM(sum)
        for (int j = 0; j < kept; j++) {
            skep_real value = skep_exp(row[j] - most);
            row[j] = value;
            sum += value;
        }
        skep_real inverse = 1 / sum;
        SKEP_SIMD
        for (int j = 0; j < kept; j++) {
            row[j] *= inverse;
        }
        for (size_t j = (size_t)kept; j < call->rows.dim; j++) {
            row[j] = 0;
        }
    }
}

static void softmax_causal(struct skep_rows rows, struct skep_causal causal, skep_real *scores)
{
    skep_split_rows(softmax_part, &(struct softmax){rows, causal, NULL, scores}, rows);
}

static void softmax_backward_part(const void *raw, size_t begin, size_t end)
{
    const struct softmax *call = raw;
    const skep_real scale = call->causal.scale;
    for (size_t i = begin; i < end; i++) {
        const skep_real *restrict p = call->probability + i * call->causal.stride;
        skep_real *restrict d = call->scores + i * call->causal.stride;
        size_t kept = seen(call, i);
        skep_real dot = 0;
        SKEP_SIMD_SUM(dot)
        for (size_t j = 0; j < kept; j++) {
            dot += p[j] * d[j];
        }
        SKEP_SIMD
        for (size_t j = 0; j < kept; j++) {
            d[j] = p[j] * (d[j] - dot) * scale;
        }
        for (size_t j = kept; j < call->rows.dim; j++) {
            d[j] = 0;
        }
    }
}

static void softmax_causal_backward(struct skep_rows rows, struct skep_causal causal,
                                    const skep_real *probability, skep_real *dscores)
{
    skep_split_rows(softmax_backward_part, &(struct softmax){rows, causal, probability, dscores},
                    rows);
}

struct cross_entropy {
    struct skep_rows rows;
    const skep_real *logits;
    const uint32_t *target;
    skep_real *logsumexp;
    skep_real *nats;
};

static double log_sum_exp(const skep_real *restrict values, size_t count)
{
    skep_real most = -INFINITY;
    SKEP_SIMD_MAX(most)
    for (size_t j = 0; j < count; j++) {
        most = values[j] > most ? values[j] : most;
    }
    double total = 0;
    for (size_t start = 0; start < count;) {
        size_t stop = skep_block_end(start, count);
        skep_real sum = 0;
        SKEP_SIMD_SUM(sum)
        for (size_t j = start; j < stop; j++) {
            sum += skep_exp(values[j] - most);
        }
        total += (double)sum;
        start = stop;
    }
    return (double)most + log(total);
}

static void cross_entropy_part(const void *raw, size_t begin, size_t end)
{
    const struct cross_entropy *call = raw;
    for (size_t i = begin; i < end; i++) {
        const skep_real *row = call->logits + i * call->rows.dim;
        double total = log_sum_exp(row, call->rows.dim);
        call->logsumexp[i] = (skep_real)total;
        call->nats[i] = (skep_real)(total - (double)row[call->target[i]]);
    }
}

static void cross_entropy(struct skep_rows rows, const skep_real *logits, const uint32_t *target,
                          skep_real *logsumexp, skep_real *nats)
{
    struct cross_entropy call = {rows, logits, target, logsumexp, nats};
    skep_split_rows(cross_entropy_part, &call, rows);
}

struct cross_entropy_backward {
    struct skep_rows rows;
    const uint32_t *target;
    const skep_real *logsumexp;
    skep_real weight;
    skep_real *logits;
};

static void cross_entropy_backward_part(const void *raw, size_t begin, size_t end)
{
    const struct cross_entropy_backward *call = raw;
    const skep_real weight = call->weight;
    for (size_t i = begin; i < end; i++) {
        skep_real *restrict row = call->logits + i * call->rows.dim;
        skep_real total = call->logsumexp[i];
        SKEP_SIMD
        for (size_t j = 0; j < call->rows.dim; j++) {
            row[j] = skep_exp(row[j] - total) * weight;
        }
        row[call->target[i]] -= weight;
    }
}

static void cross_entropy_backward(struct skep_rows rows, const uint32_t *target,
                                   const skep_real *logsumexp, skep_real weight, skep_real *logits)
{
    struct cross_entropy_backward call = {rows, target, logsumexp, weight, logits};
    skep_split_rows(cross_entropy_backward_part, &call, rows);
}

void SKEP_KERNELS(activation)(struct skep_ops *ops)
{
    ops->gelu = gelu;
    ops->gelu_backward = gelu_backward;
    ops->softmax_causal = softmax_causal;
    ops->softmax_causal_backward = softmax_causal_backward;
    ops->cross_entropy = cross_entropy;
    ops->cross_entropy_backward = cross_entropy_backward;
}
