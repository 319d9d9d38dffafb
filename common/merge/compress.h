/*
 * Compression of a pseudo-gradient, SparseLoCo (arXiv 2508.15706), per tensor:
 *   e <- decay * e + (theta_start - theta_end)
 *   tiles of 64x64; of each the k largest |e|; values coded by a 4-entry codebook (2 bits)
 *   e <- e - what was sent
 * Ties in |e| go to the lower index. The codebook comes from the sent values of the tensor: bins of width 1.5 sigma around their
 * mean, each entry the mean of its bin (an empty bin gets its centre, within the values sent), sorted ascending.
 */
#ifndef SKEP_MERGE_COMPRESS_H
#define SKEP_MERGE_COMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/wire/update.h"

/* Compresses one tensor: `residual` is e (in/out, count floats), `delta` is theta_start - theta_end. Fills *ret_tensor, whose
 * arrays the caller owns. SKEP_ERR_NUMERIC if anything is not finite; then e is untouched. */
int skep_compress_tensor(const struct skep_tiling *tiling, float decay, const float *delta,
                         float *residual, struct skep_update_tensor *ret_tensor,
                         struct skep_error *err);

/* The same for all tensors of a shard, which lie one after the other in `delta` and `residual` (layout order): what an update's body
 * carries. The caller frees *ret_body with skep_update_body_done(). After an error the residual is spoiled: tensors before the one
 * that the sentence names have been compressed. */
int skep_compress_shard(const struct skep_tiling *tilings, size_t tensor_count, float decay,
                        const float *delta, float *residual, struct skep_update_body *ret_body,
                        struct skep_error *err);

struct skep_compress_options {
    float decay;
    const struct skep_hash *
        mask; /* seed of the common mask (merge/mask.h), which then chooses the places; NULL: the k largest */
    bool (*stopped)(
        void); /* asked after each block of 4096 values; true: given up soon, with SKEP_ERR_CANCELLED; NULL: never */
};

/* The same with options. */
int skep_compress_shard_with(const struct skep_compress_options *options,
                             const struct skep_tiling *tilings, size_t tensor_count,
                             const float *delta, float *residual, struct skep_update_body *ret_body,
                             struct skep_error *err);

/* Adds scale * the update's values of one tensor to `to` (rows * columns floats): for error feedback, evaluation and tests. */
void skep_decompress_add(const struct skep_update_tensor *tensor, float scale, float *to);

#endif
