/* GELU, softmax and cross-entropy: the operations made of exponentials. One warp, one row. */
#include "common/gpu/columns.cuh"
#include "common/gpu/kernels.cuh"
#include "common/gpu/launch.cuh"

/* 0.5 a (1 + tanh(u)) = a / (1 + e^(-2u)) with u = sqrt(2/pi) (a + 0.044715 a^3): one exponential for value and slope. */
__global__ static void gelu_kernel(struct skep_rows rows, float *pre, const float *bias, float *out)
{
    const float two_root = 1.5957691216057308f;
    const float cubic = 0.044715f;
    for (size_t i = warp(); i < rows.count; i += warps()) {
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            size_t at = i * rows.dim + j;
            float a = pre[at] + bias[j];
            float square = a * a;
            float s = 1 / (1 + expf(-two_root * a * (1 + cubic * square)));
            out[at] = a * s;
            pre[at] = s + a * s * (1 - s) * two_root * (1 + 3 * cubic * square);
        }
    }
}

static void gelu(struct skep_rows rows, float *pre, const float *bias, float *out)
{
    LAUNCH_ROWS(rows.count, gelu_kernel, rows, pre, bias, out);
}

__global__ static void gelu_backward_kernel(struct skep_rows rows, const float *slope, float *dpre,
                                            float *dbias)
{
    column_sums(
        rows.count, rows.dim,
        [=](size_t i, size_t j, struct sums *sums) {
            size_t at = i * rows.dim + j;
            float gradient = dpre[at] * slope[at];
            dpre[at] = gradient;
            sums->bias += gradient;
        },
        [=](size_t j, struct sums sums) { dbias[j] += sums.bias; });
}

static void gelu_backward(struct skep_rows rows, const float *slope, float *dpre, float *dbias)
{
    if (rows.count > 0 && rows.dim > 0) {
        LAUNCH_GRID(column_grid(rows.dim), gelu_backward_kernel, rows, slope, dpre, dbias);
    }
}

/* Columns that row i sees. */
__device__ static inline size_t seen(struct skep_rows rows, struct skep_causal causal, size_t i)
{
    size_t kept = causal.first + i + 1;
    return kept < rows.dim ? kept : rows.dim;
}

__global__ static void softmax_causal_kernel(struct skep_rows rows, struct skep_causal causal,
                                             float *scores)
{
    for (size_t i = warp(); i < rows.count; i += warps()) {
        float *row = scores + i * causal.stride;
        size_t kept = seen(rows, causal, i);
        float most = -INFINITY;
        for (size_t j = lane(); j < kept; j += LANES) {
            float value = row[j] * causal.scale - causal.slope * (float)(causal.first + i - j);
            row[j] = value;
            most = fmaxf(most, value);
        }
        most = warp_max(most);
        float sum = 0;
        for (size_t j = lane(); j < kept; j += LANES) {
            float value = expf(row[j] - most);
            row[j] = value;
            sum += value;
        }
        float inverse = 1 / warp_sum(sum);
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            row[j] = j < kept ? row[j] * inverse : 0;
        }
    }
}

static void softmax_causal(struct skep_rows rows, struct skep_causal causal, float *scores)
{
    LAUNCH_ROWS(rows.count, softmax_causal_kernel, rows, causal, scores);
}

__global__ static void softmax_causal_backward_kernel(struct skep_rows rows,
                                                      struct skep_causal causal,
                                                      const float *probability, float *dscores)
{
    for (size_t i = warp(); i < rows.count; i += warps()) {
        const float *p = probability + i * causal.stride;
        float *row = dscores + i * causal.stride;
        size_t kept = seen(rows, causal, i);
        float dot = 0;
        for (size_t j = lane(); j < kept; j += LANES) {
            dot += p[j] * row[j];
        }
        dot = warp_sum(dot);
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            row[j] = j < kept ? p[j] * (row[j] - dot) * causal.scale : 0;
        }
    }
}

static void softmax_causal_backward(struct skep_rows rows, struct skep_causal causal,
                                    const float *probability, float *dscores)
{
    LAUNCH_ROWS(rows.count, softmax_causal_backward_kernel, rows, causal, probability, dscores);
}

__global__ static void cross_entropy_kernel(struct skep_rows rows, const float *logits,
                                            const uint32_t *target, float *logsumexp, float *nats)
{
    for (size_t i = warp(); i < rows.count; i += warps()) {
        const float *row = logits + i * rows.dim;
        float most = -INFINITY;
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            most = fmaxf(most, row[j]);
        }
        most = warp_max(most);
        float sum = 0;
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            sum += expf(row[j] - most);
        }
        sum = warp_sum(sum);
        if (lane() == 0) {
            float total = most + logf(sum);
            logsumexp[i] = total;
            nats[i] = total - row[target[i]];
        }
    }
}

static void cross_entropy(struct skep_rows rows, const float *logits, const uint32_t *target,
                          float *logsumexp, float *nats)
{
    LAUNCH_ROWS(rows.count, cross_entropy_kernel, rows, logits, target, logsumexp, nats);
}

__global__ static void cross_entropy_backward_kernel(struct skep_rows rows, const uint32_t *target,
                                                     const float *logsumexp, float weight,
                                                     float *logits)
{
    for (size_t i = warp(); i < rows.count; i += warps()) {
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            float *value = &logits[i * rows.dim + j];
            *value = (expf(*value - logsumexp[i]) - (j == target[i] ? 1.0f : 0.0f)) * weight;
        }
    }
}

static void cross_entropy_backward(struct skep_rows rows, const uint32_t *target,
                                   const float *logsumexp, float weight, float *logits)
{
    LAUNCH_ROWS(rows.count, cross_entropy_backward_kernel, rows, target, logsumexp, weight, logits);
}

void skep_cuda_activations(struct skep_ops *ops)
{
    ops->gelu = gelu;
    ops->gelu_backward = gelu_backward;
    ops->softmax_causal = softmax_causal;
    ops->softmax_causal_backward = softmax_causal_backward;
    ops->cross_entropy = cross_entropy;
    ops->cross_entropy_backward = cross_entropy_backward;
}
