/*
 * What all updates of a round sent, in order of place. Updates come block by block, each with its own indices; rules want to know
 * of each place who sent something to it and what. This is a counting sort, once per merge:
 *
 *   counts   one byte for each place of the state: how many updates sent it
 *   tags     one byte for each value sent: update * 4 + code, place after place, updates rising within a place
 *
 * A tag is all there is to know of a value: a table of 4n entries per tensor turns it into its number, whatever clipping and
 * weights have made of it. Places follow each other block by block, row by row within a block, and not as in the state.
 *
 * Cost: three bytes read and one written for each value sent, and about two steps for each place. Memory: 1 byte for each value and each place.
 */
#ifndef SKEP_MERGE_PLACES_H
#define SKEP_MERGE_PLACES_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/limits.h"
#include "common/wire/update.h"

#define SKEP_PLACES_TAGS (4u * SKEP_LIMIT_UPDATES_PER_ROUND)

/* One tensor's part. */
struct skep_places_tensor {
    struct skep_tiling tiling;
    uint32_t tile_size;
    size_t first_place; /* in counts */
    size_t first_value; /* in tags */
};

struct skep_places {
    size_t n;
    const struct skep_update_body *const *bodies; /* n of them, borrowed */
    size_t tensor_count;
    size_t place_count;
    size_t value_count;
    struct skep_places_tensor *tensors;
    uint8_t *counts;
    uint8_t *tags;
    uint32_t *code_counts; /* [tensor * 4n + tag]: how often an update sends a code */
};

/* One block: counts of its places, and the tags of its values. */
struct skep_places_block {
    const uint8_t *counts;
    const uint8_t *tags;
};

/*
 * Sorts what `n` (1 .. SKEP_LIMIT_UPDATES_PER_ROUND) updates sent, in `threads` parts. All must cut their tensors alike, with
 * indices in range. SKEP_ERR_MEMORY leaves nothing to free.
 */
int skep_places_init(struct skep_places *places, const struct skep_update_body *const *bodies,
                     size_t n, size_t threads, struct skep_error *err);
void skep_places_done(struct skep_places *places);

static inline struct skep_places_block skep_places_block(const struct skep_places *places, size_t t,
                                                         size_t block)
{
    const struct skep_places_tensor *tensor = &places->tensors[t];
    return (struct skep_places_block){
        .counts = places->counts + tensor->first_place + block * tensor->tile_size,
        .tags = places->tags + tensor->first_value + block * tensor->tiling.kept * places->n,
    };
}

#endif
