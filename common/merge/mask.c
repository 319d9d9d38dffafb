#include "common/merge/mask.h"

#include <assert.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/rng.h"
#include "common/crypto/hash.h"

struct skep_hash skep_mask_seed(const struct skep_project_id *project,
                                const struct skep_shard *shard, uint64_t base_version)
{
    static const char label[9] = {'s', 'k', 'e', 'p', '-', 'm', 'a', 's', 'k'};
    uint8_t bytes[sizeof label + SKEP_ID_SIZE + SKEP_SHARD_TEXT_SIZE + 8];
    char text[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(shard, text);
    size_t length = strlen(text);
    uint8_t *at = bytes;
    memcpy(at, label, sizeof label);
    at += sizeof label;
    memcpy(at, project->bytes, SKEP_ID_SIZE);
    at += SKEP_ID_SIZE;
    memcpy(at, text, length);
    at += length;
    skep_put_u64(at, base_version);
    return skep_hash_of(bytes, (size_t)(at - bytes) + 8);
}

void skep_mask_of(const struct skep_hash *seed, uint32_t tensor, uint32_t block,
                  const struct skep_tiling *tiling, uint16_t *ret_indices)
{
    uint8_t bytes[SKEP_ID_SIZE + 8];
    memcpy(bytes, seed->bytes, SKEP_ID_SIZE);
    skep_put_u32(bytes + SKEP_ID_SIZE, tensor);
    skep_put_u32(bytes + SKEP_ID_SIZE + 4, block);
    struct skep_rng rng = skep_rng_of_bytes(bytes, sizeof bytes);
    uint32_t size = tiling->tile_rows * tiling->tile_columns;
    uint32_t taken = 0;
    /* Each place is taken with probability wanted / left: the rest is taken for certain once they are equal. */
    for (uint32_t i = 0; i < size && taken < tiling->kept; i++) {
        if (skep_rng_below(&rng, size - i) < tiling->kept - taken) {
            ret_indices[taken++] = (uint16_t)i;
        }
    }
    assert(taken == tiling->kept);
}

static int check_block(const uint16_t *mask, const struct skep_update_tensor *tensor, size_t t,
                       uint32_t block, struct skep_error *err)
{
    uint32_t kept = tensor->tiling.kept;
    const uint16_t *sent = tensor->indices + (size_t)block * kept;
    for (uint32_t i = 0; i < kept; i++) {
        if (sent[i] != mask[i]) {
            return skep_refuse(err, SKEP_REFUSAL_MASK,
                               "update body, tensor %zu: value %u of block %u is of place %u, the "
                               "common mask has place %u there",
                               t, i, block, sent[i], mask[i]);
        }
    }
    return SKEP_OK;
}

int skep_mask_check(const struct skep_hash *seed, const struct skep_update_body *body,
                    struct skep_error *err)
{
    uint16_t mask[SKEP_BLOCK_SIZE];
    for (size_t t = 0; t < body->tensor_count; t++) {
        const struct skep_update_tensor *tensor = &body->tensors[t];
        for (uint32_t block = 0; block < tensor->tiling.blocks; block++) {
            skep_mask_of(seed, (uint32_t)t, block, &tensor->tiling, mask);
            int rc = check_block(mask, tensor, t, block, err);
            if (rc != SKEP_OK) {
                return rc;
            }
        }
    }
    return SKEP_OK;
}
