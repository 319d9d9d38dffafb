#include "common/merge/compress.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/merge/mask.h"

/* ---- the k largest of a tile ---- */

/* |value| as an integer that orders as the number does: the bits of a float without its sign. */
static uint32_t magnitude_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x7fffffffu;
}

/* Magnitudes that are compared at once: as many as any machine's registers hold. */
#define LANES 4u
typedef int32_t lanes __attribute__((vector_size(4 * LANES)));

/* How many magnitudes are above `floor`. Past `count` there are zeros up to a multiple of LANES. */
static uint32_t count_above(const uint32_t *magnitudes, uint32_t count, uint32_t floor)
{
    lanes above = {0};
    for (uint32_t i = 0; i < count; i += LANES) {
        lanes values;
        memcpy(&values, magnitudes + i, sizeof values);
        above -= values > (int32_t)floor; /* true is -1 */
    }
    uint32_t sum = 0;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        sum += (uint32_t)above[lane];
    }
    return sum;
}

/*
 * The k-th largest of `count` magnitudes, found bit by bit from the top: the largest threshold that at least k reach. Each
 * step is one pass without branches, so its time does not depend on the values, and ties need no rule here.
 */
static uint32_t kth_largest(const uint32_t *magnitudes, uint32_t count, uint32_t k)
{
    uint32_t threshold = 0;
    for (uint32_t bit = 1u << 30; bit != 0; bit >>= 1) {
        uint32_t trial = threshold | bit;
        if (count_above(magnitudes, count, trial - 1) >= k) {
            threshold = trial;
        }
    }
    return threshold;
}

/* Writes the k chosen indices in rising order: all above the k-th magnitude, and of those equal to it the first. */
static void choose_largest(const uint32_t *magnitudes, uint32_t count, uint32_t k,
                           uint16_t *ret_indices)
{
    uint32_t threshold = kth_largest(magnitudes, count, k);
    uint32_t equal_left = k - count_above(magnitudes, count, threshold);
    uint32_t written = 0;
    for (uint32_t i = 0; i < count && written < k; i++) {
        bool equal = magnitudes[i] == threshold && equal_left > 0;
        if (magnitudes[i] > threshold || equal) {
            ret_indices[written++] = (uint16_t)i;
            equal_left -= equal;
        }
    }
    assert(written == k);
}

static void choose_in_block(const struct skep_tiling *tiling, uint32_t block, const float *residual,
                            uint16_t *ret_indices)
{
    uint32_t magnitudes[SKEP_BLOCK_SIZE] = {0};
    size_t corner = skep_tiling_place(tiling, block, 0);
    for (uint32_t row = 0; row < tiling->tile_rows; row++) {
        const float *line = residual + corner + (size_t)row * tiling->columns;
        for (uint32_t column = 0; column < tiling->tile_columns; column++) {
            magnitudes[row * tiling->tile_columns + column] = magnitude_of(line[column]);
        }
    }
    choose_largest(magnitudes, tiling->tile_rows * tiling->tile_columns, tiling->kept, ret_indices);
}

/* The places of tensor number `t`; false if it was stopped. */
static bool choose_in_blocks(const struct skep_compress_options *options, size_t t,
                             const struct skep_tiling *tiling, const float *residual,
                             uint16_t *ret_indices)
{
    for (uint32_t block = 0; block < tiling->blocks; block++) {
        uint16_t *chosen = ret_indices + (size_t)block * tiling->kept;
        if (options->stopped != NULL && options->stopped()) {
            return false;
        }
        if (options->mask != NULL) {
            skep_mask_of(options->mask, (uint32_t)t, block, tiling, chosen);
        } else {
            choose_in_block(tiling, block, residual, chosen);
        }
    }
    return true;
}

/* ---- the codebook ---- */

/* What the chosen values of a tensor look like. */
struct spread {
    double mean;
    double bin_width; /* 1.5 standard deviations */
    double least;
    double most;
};

static struct spread spread_of(const float *values, size_t count)
{
    struct spread spread = {.least = INFINITY, .most = -INFINITY};
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)values[i];
        spread.least = fmin(spread.least, (double)values[i]);
        spread.most = fmax(spread.most, (double)values[i]);
    }
    spread.mean = sum / (double)count;
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        double off = (double)values[i] - spread.mean;
        squares += off * off;
    }
    spread.bin_width = 1.5 * sqrt(squares / (double)count);
    return spread;
}

/* Bins 0 .. 3 meet at mean - width, mean and mean + width; the outer two are open. */
static uint8_t bin_of(const struct spread *spread, float value)
{
    double off = (double)value - spread->mean;
    if (off < 0) {
        return off < -spread->bin_width ? 0 : 1;
    }
    return off < spread->bin_width ? 2 : 3;
}

/* An empty bin's centre, but nothing beyond what is sent: an unused entry must not breach the scale ceiling. */
static double centre_of(const struct spread *spread, int bin)
{
    double centre = spread->mean + (bin - 1.5) * spread->bin_width;
    return fmin(fmax(centre, spread->least), spread->most);
}

static void code_values(const float *values, size_t count, struct skep_update_tensor *tensor)
{
    if (count == 0) {
        return;
    }
    struct spread spread = spread_of(values, count);
    double sums[4] = {0};
    size_t counts[4] = {0};
    for (size_t i = 0; i < count; i++) {
        uint8_t bin = bin_of(&spread, values[i]);
        tensor->codes[i] = bin;
        sums[bin] += (double)values[i];
        counts[bin]++;
    }
    for (int bin = 0; bin < 4; bin++) {
        double entry = counts[bin] != 0 ? sums[bin] / (double)counts[bin] : centre_of(&spread, bin);
        /* Rounding may put the mean of near-equal values a hair outside them; 0 + turns -0 into 0, as the format wants. */
        tensor->codebook[bin] = 0.0f + (float)entry;
        if (bin > 0 && tensor->codebook[bin] < tensor->codebook[bin - 1]) {
            tensor->codebook[bin] = tensor->codebook[bin - 1];
        }
    }
}

/* ---- the whole tensor ---- */

static int check_finite(const struct skep_tiling *tiling, float decay, const float *delta,
                        const float *residual, struct skep_error *err)
{
    size_t count = (size_t)tiling->rows * tiling->columns;
    for (size_t i = 0; i < count; i++) {
        float next = decay * residual[i] + delta[i];
        if (!isfinite(next)) {
            return skep_error_set(err, SKEP_ERR_NUMERIC,
                                  "place %zu of the pseudo-gradient is %g (residual %g, difference "
                                  "%g); it must be finite",
                                  i, (double)next, (double)residual[i], (double)delta[i]);
        }
    }
    return SKEP_OK;
}

static void gather(const struct skep_update_tensor *tensor, const float *from, float *ret_values)
{
    const struct skep_tiling *tiling = &tensor->tiling;
    for (uint32_t block = 0; block < tiling->blocks; block++) {
        for (uint32_t i = 0; i < tiling->kept; i++) {
            size_t at = (size_t)block * tiling->kept + i;
            ret_values[at] = from[skep_tiling_place(tiling, block, tensor->indices[at])];
        }
    }
}

/* Tensor number `t` of its shard. */
static int compress_tensor(const struct skep_compress_options *options, size_t t,
                           const struct skep_tiling *tiling, const float *delta, float *residual,
                           struct skep_update_tensor *ret_tensor, struct skep_error *err)
{
    float decay = options->decay;
    int rc = check_finite(tiling, decay, delta, residual, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    size_t sent = (size_t)tiling->blocks * tiling->kept;
    struct skep_update_tensor tensor = {.tiling = *tiling};
    tensor.indices = calloc(sent + 1, sizeof *tensor.indices);
    tensor.codes = calloc(sent + 1, sizeof *tensor.codes);
    float *values = calloc(sent + 1, sizeof *values);
    if (tensor.indices == NULL || tensor.codes == NULL || values == NULL) {
        rc = skep_error_set(err, SKEP_ERR_MEMORY, "no memory to compress %zu values", sent);
        goto out;
    }
    size_t count = (size_t)tiling->rows * tiling->columns;
    for (size_t i = 0; i < count; i++) {
        residual[i] = decay * residual[i] + delta[i];
    }
    if (!choose_in_blocks(options, t, tiling, residual, tensor.indices)) {
        rc = skep_error_set(err, SKEP_ERR_CANCELLED, "the compression was stopped");
        goto out;
    }
    gather(&tensor, residual, values);
    code_values(values, sent, &tensor);
    skep_decompress_add(&tensor, -1.0f, residual);
    *ret_tensor = tensor;
    tensor = (struct skep_update_tensor){0};
out:
    free(tensor.indices);
    free(tensor.codes);
    free(values);
    return rc;
}

int skep_compress_tensor(const struct skep_tiling *tiling, float decay, const float *delta,
                         float *residual, struct skep_update_tensor *ret_tensor,
                         struct skep_error *err)
{
    const struct skep_compress_options options = {.decay = decay};
    return compress_tensor(&options, 0, tiling, delta, residual, ret_tensor, err);
}

int skep_compress_shard(const struct skep_tiling *tilings, size_t tensor_count, float decay,
                        const float *delta, float *residual, struct skep_update_body *ret_body,
                        struct skep_error *err)
{
    const struct skep_compress_options options = {.decay = decay};
    return skep_compress_shard_with(&options, tilings, tensor_count, delta, residual, ret_body,
                                    err);
}

int skep_compress_shard_with(const struct skep_compress_options *options,
                             const struct skep_tiling *tilings, size_t tensor_count,
                             const float *delta, float *residual, struct skep_update_body *ret_body,
                             struct skep_error *err)
{
    struct skep_update_body body = {0};
    body.tensors = skep_alloc(tensor_count, sizeof *body.tensors);
    size_t offset = 0;
    for (size_t i = 0; i < tensor_count; i++) {
        int rc = compress_tensor(options, i, &tilings[i], delta + offset, residual + offset,
                                 &body.tensors[i], err);
        if (rc != SKEP_OK) {
            skep_update_body_done(&body);
            return err != NULL ? skep_error_prefix(err, "tensor %zu", i) : rc;
        }
        body.tensor_count = i + 1;
        offset += (size_t)tilings[i].rows * tilings[i].columns;
    }
    *ret_body = body;
    return SKEP_OK;
}

void skep_decompress_add(const struct skep_update_tensor *tensor, float scale, float *to)
{
    const struct skep_tiling *tiling = &tensor->tiling;
    float scaled[4];
    for (size_t code = 0; code < 4; code++) {
        scaled[code] = scale * tensor->codebook[code];
    }
    for (uint32_t block = 0; block < tiling->blocks; block++) {
        for (uint32_t i = 0; i < tiling->kept; i++) {
            size_t at = (size_t)block * tiling->kept + i;
            to[skep_tiling_place(tiling, block, tensor->indices[at])] += scaled[tensor->codes[at]];
        }
    }
}
