#include "common/merge/places.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/merge/share.h"

/* How often each code stands in `codes`: from the sums of their bits, without a memory cell that the next value waits for. */
static void count_codes(const uint8_t *codes, size_t count, uint32_t ret_counts[4])
{
    uint32_t low = 0;
    uint32_t high = 0;
    uint32_t both = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t code = codes[i];
        low += code & 1;
        high += code >> 1 & 1;
        both += code >> 1 & code & 1;
    }
    ret_counts[0] = (uint32_t)count - low - high + both;
    ret_counts[1] = low - both;
    ret_counts[2] = high - both;
    ret_counts[3] = both;
}

/* Counts who sent each place of a block, then puts every value where its place begins, update after update. */
static void sort_block(const struct skep_places *places, size_t t, size_t block)
{
    const struct skep_places_tensor *tensor = &places->tensors[t];
    uint32_t kept = tensor->tiling.kept;
    size_t first = block * kept;
    uint8_t *counts = places->counts + tensor->first_place + block * tensor->tile_size;
    uint8_t *tags = places->tags + tensor->first_value + first * places->n;
    for (size_t i = 0; i < places->n; i++) {
        const uint16_t *indices = places->bodies[i]->tensors[t].indices + first;
        for (uint32_t k = 0; k < kept; k++) {
            counts[indices[k]]++;
        }
    }
    uint32_t starts[SKEP_BLOCK_SIZE];
    uint32_t sum = 0;
    for (uint32_t place = 0; place < tensor->tile_size; place++) {
        starts[place] = sum;
        sum += counts[place];
    }
    for (size_t i = 0; i < places->n; i++) {
        const struct skep_update_tensor *from = &places->bodies[i]->tensors[t];
        const uint16_t *indices = from->indices + first;
        const uint8_t *codes = from->codes + first;
        for (uint32_t k = 0; k < kept; k++) {
            tags[starts[indices[k]]++] = (uint8_t)(i << 2 | (codes[k] & 3));
        }
    }
}

/* Blocks are cut by block, counts of codes by update. */
static void sort_part(void *context, size_t part, size_t parts)
{
    const struct skep_places *places = context;
    size_t n = places->n;
    for (size_t t = 0; t < places->tensor_count; t++) {
        const struct skep_tiling *tiling = &places->tensors[t].tiling;
        size_t end = skep_share_first(tiling->blocks, part + 1, parts);
        for (size_t b = skep_share_first(tiling->blocks, part, parts); b < end; b++) {
            sort_block(places, t, b);
        }
        for (size_t i = part; i < n; i += parts) {
            count_codes(places->bodies[i]->tensors[t].codes, (size_t)tiling->blocks * tiling->kept,
                        places->code_counts + (t * n + i) * 4);
        }
    }
}

static void measure(struct skep_places *places)
{
    for (size_t t = 0; t < places->tensor_count; t++) {
        struct skep_places_tensor *tensor = &places->tensors[t];
        const struct skep_tiling *tiling = &places->bodies[0]->tensors[t].tiling;
        tensor->tiling = *tiling;
        tensor->tile_size = tiling->tile_rows * tiling->tile_columns;
        tensor->first_place = places->place_count;
        tensor->first_value = places->value_count;
        places->place_count += (size_t)tiling->blocks * tensor->tile_size;
        places->value_count += (size_t)tiling->blocks * tiling->kept * places->n;
    }
}

int skep_places_init(struct skep_places *places, const struct skep_update_body *const *bodies,
                     size_t n, size_t threads, struct skep_error *err)
{
    size_t tensor_count = bodies[0]->tensor_count;
    *places = (struct skep_places){.n = n, .bodies = bodies, .tensor_count = tensor_count};
    places->tensors = skep_alloc(tensor_count + 1, sizeof *places->tensors);
    measure(places);
    places->counts = calloc(places->place_count + 1, 1);
    places->tags = malloc(places->value_count + 1);
    places->code_counts = calloc(tensor_count * n * 4 + 1, sizeof *places->code_counts);
    if (places->counts == NULL || places->tags == NULL || places->code_counts == NULL) {
        int rc = skep_error_set(err, SKEP_ERR_MEMORY,
                                "no memory to sort the %zu values of %zu "
                                "updates",
                                places->value_count, n);
        skep_places_done(places);
        return rc;
    }
    skep_share(threads, sort_part, places);
    return SKEP_OK;
}

void skep_places_done(struct skep_places *places)
{
    free(places->tensors);
    free(places->counts);
    free(places->tags);
    free(places->code_counts);
    *places = (struct skep_places){0};
}
