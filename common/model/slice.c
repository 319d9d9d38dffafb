/* Which windows of a slice a step trains on: a function of the ticket. */
#include <string.h>

#include "common/base/rng.h"
#include "common/model/train.h"

/* Places where a window may begin. */
static uint64_t starts_in(const struct skep_slice_chunk *chunk, uint32_t context)
{
    return chunk->size < context ? 0 : chunk->size - context + 1;
}

int skep_slice_batch(const struct skep_slice_chunk *chunks, size_t chunk_count,
                     const struct skep_hash *ticket, uint32_t step, uint32_t batch,
                     uint32_t context, uint8_t *ret_tokens, struct skep_error *err)
{
    uint64_t starts = 0;
    for (size_t i = 0; i < chunk_count; i++) {
        starts += starts_in(&chunks[i], context);
    }
    if (starts == 0) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "none of the slice's %zu chunks holds one window of %u bytes",
                              chunk_count, context);
    }
    uint8_t source[SKEP_ID_SIZE + 4];
    memcpy(source, ticket->bytes, SKEP_ID_SIZE);
    skep_put_u32(source + SKEP_ID_SIZE, step);
    struct skep_rng rng = skep_rng_of_bytes(source, sizeof source);
    for (uint32_t b = 0; b < batch; b++) {
        uint64_t start = skep_rng_below(&rng, starts);
        size_t i = 0;
        while (start >= starts_in(&chunks[i], context)) {
            start -= starts_in(&chunks[i++], context);
        }
        memcpy(ret_tokens + (size_t)b * context, chunks[i].data + start, context);
    }
    return SKEP_OK;
}
