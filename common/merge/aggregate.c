#include "common/merge/aggregate.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/merge/fixed.h"
#include "common/merge/share.h"

/* What one thread found. */
struct partial {
    struct skep_combine_table table;
    unsigned __int128 square;
    uint64_t largest;
    __int128 along[SKEP_LIMIT_UPDATES_PER_ROUND];
    __int128
        sums[SKEP_PLACES_TAGS]; /* of the aggregate over the places with a tag, in one tensor */
};

struct combining {
    const struct skep_aggregate_source *source;
    struct skep_aggregate *aggregate;
    struct partial *partials[SKEP_SHARE_PARTS_MOST];
};

/* The places of a block that were sent, in order, and by how many. Without branches, since nothing could predict them. */
static uint32_t list_places(const uint8_t *counts, uint32_t size, uint16_t *ret_places,
                            uint8_t *ret_sent)
{
    uint32_t length = 0;
    for (uint32_t place = 0; place < size; place++) {
        ret_places[length] = (uint16_t)place;
        ret_sent[length] = counts[place];
        length += counts[place] != 0;
    }
    return length;
}

/* Room in `values` for a block. */
static size_t stride_of(const struct skep_places *places, size_t t)
{
    const struct skep_places_tensor *tensor = &places->tensors[t];
    size_t sent = tensor->tiling.kept * places->n;
    return sent < tensor->tile_size ? sent : tensor->tile_size;
}

static void measure(const int64_t *values, uint32_t count, struct partial *partial)
{
    unsigned __int128 square = 0;
    uint64_t largest = partial->largest;
    for (uint32_t k = 0; k < count; k++) {
        uint64_t magnitude = (uint64_t)(values[k] < 0 ? -values[k] : values[k]);
        largest = magnitude > largest ? magnitude : largest;
        square += (unsigned __int128)magnitude * magnitude;
    }
    partial->square += square;
    partial->largest = largest;
}

static void combine_block(const struct combining *combining, size_t t, size_t block,
                          struct partial *partial)
{
    const struct skep_places *places = combining->source->places;
    struct skep_places_block sorted = skep_places_block(places, t, block);
    int64_t *values = combining->aggregate->values + combining->aggregate->firsts[t] +
                      block * stride_of(places, t);
    uint16_t list[SKEP_BLOCK_SIZE + 1];
    uint8_t sent[SKEP_BLOCK_SIZE + 1] = {0};
    uint32_t length = list_places(sorted.counts, places->tensors[t].tile_size, list, sent);
    skep_combine_block(&partial->table, sorted.tags, sent, length, values);
    measure(values, length, partial);
    if (combining->source->with_along) {
        const uint8_t *tags = sorted.tags;
        for (uint32_t k = 0; k < length; k++) {
            for (uint32_t c = 0; c < sent[k]; c++) {
                partial->sums[*tags++] += values[k];
            }
        }
    }
}

/* An inner product with the aggregate, from the sums of the aggregate over the places of each tag: at most 2^77 times 2^49. */
static void add_along(const int64_t *entries, size_t n, struct partial *partial)
{
    for (size_t tag = 0; tag < 4 * n; tag++) {
        partial->along[tag / 4] += partial->sums[tag] * entries[tag];
        partial->sums[tag] = 0;
    }
}

static void combine_part(void *context, size_t part, size_t parts)
{
    const struct combining *combining = context;
    const struct skep_aggregate_source *source = combining->source;
    const struct skep_places *places = source->places;
    struct partial *partial = combining->partials[part];
    size_t n = places->n;
    for (size_t t = 0; t < places->tensor_count; t++) {
        const struct skep_places_tensor *tensor = &places->tensors[t];
        size_t first = skep_share_first(tensor->tiling.blocks, part, parts);
        size_t end = skep_share_first(tensor->tiling.blocks, part + 1, parts);
        if (first == end) {
            continue;
        }
        const int64_t *entries = source->entries + t * 4 * n;
        skep_combine_table_fill(&partial->table, source->rule, entries,
                                (end - first) * tensor->tile_size);
        for (size_t b = first; b < end; b++) {
            combine_block(combining, t, b, partial);
        }
        add_along(entries, n, partial);
    }
}

static void add_up(const struct combining *combining, size_t threads)
{
    struct skep_aggregate *aggregate = combining->aggregate;
    for (size_t part = 0; part < threads; part++) {
        const struct partial *partial = combining->partials[part];
        aggregate->square += partial->square;
        aggregate->largest =
            partial->largest > aggregate->largest ? partial->largest : aggregate->largest;
        for (size_t i = 0; i < combining->source->places->n; i++) {
            aggregate->along[i] += partial->along[i];
        }
    }
}

/* Where each tensor begins in `values`; returns how many there are. */
static size_t lay_out(const struct skep_places *places, size_t *ret_firsts)
{
    size_t total = 0;
    for (size_t t = 0; t < places->tensor_count; t++) {
        ret_firsts[t] = total;
        total += places->tensors[t].tiling.blocks * stride_of(places, t);
    }
    return total;
}

static bool allocate_partials(struct combining *combining)
{
    const struct skep_aggregate_source *source = combining->source;
    size_t pairs = skep_combine_pairs_size(source->rule);
    bool fine = true;
    for (size_t part = 0; part < source->threads; part++) {
        struct partial *partial = skep_alloc(1, sizeof *partial);
        partial->table.pairs_memory =
            pairs == 0 ? NULL : malloc(pairs * sizeof *partial->table.pairs_memory);
        fine = fine && (pairs == 0 || partial->table.pairs_memory != NULL);
        combining->partials[part] = partial;
    }
    return fine;
}

int skep_aggregate_init(struct skep_aggregate *aggregate,
                        const struct skep_aggregate_source *source, struct skep_error *err)
{
    const struct skep_places *places = source->places;
    struct combining combining = {.source = source, .aggregate = aggregate};
    *aggregate = (struct skep_aggregate){.places = places};
    aggregate->firsts = skep_alloc(places->tensor_count + 1, sizeof *aggregate->firsts);
    size_t total = lay_out(places, aggregate->firsts);
    aggregate->values = malloc((total + 1) * sizeof *aggregate->values);
    int rc = SKEP_OK;
    if (!allocate_partials(&combining) || aggregate->values == NULL) {
        rc = skep_error_set(err, SKEP_ERR_MEMORY, "no memory for the aggregate of %zu values",
                            total);
        skep_aggregate_done(aggregate);
    } else {
        skep_share(source->threads, combine_part, &combining);
        add_up(&combining, source->threads);
    }
    for (size_t part = 0; part < source->threads; part++) {
        free(combining.partials[part]->table.pairs_memory);
        free(combining.partials[part]);
    }
    return rc;
}

void skep_aggregate_done(struct skep_aggregate *aggregate)
{
    free(aggregate->firsts);
    free(aggregate->values);
    *aggregate = (struct skep_aggregate){0};
}

/* ---- the step ---- */

struct stepping {
    const struct skep_aggregate *aggregate;
    uint64_t ratio;
    const size_t *offsets;
    float *parameters;
};

static void step_block(const struct stepping *stepping, size_t t, size_t block)
{
    const struct skep_places *places = stepping->aggregate->places;
    const struct skep_places_tensor *tensor = &places->tensors[t];
    struct skep_places_block sorted = skep_places_block(places, t, block);
    const int64_t *values =
        stepping->aggregate->values + stepping->aggregate->firsts[t] + block * stride_of(places, t);
    float *corner = stepping->parameters + stepping->offsets[t] +
                    skep_tiling_place(&tensor->tiling, (uint32_t)block, 0);
    uint32_t tile_columns = tensor->tiling.tile_columns;
    /* place / tile_columns by multiplication: exact for place < 2^12 and at most 2^6 columns. */
    uint64_t inverse = ((1u << 24) + tile_columns - 1) / tile_columns;
    uint16_t list[SKEP_BLOCK_SIZE + 1] = {0};
    uint8_t sent[SKEP_BLOCK_SIZE + 1];
    uint32_t length = list_places(sorted.counts, tensor->tile_size, list, sent);
    for (uint32_t k = 0; k < length; k++) {
        int64_t step = skep_fixed_scale(values[k], stepping->ratio, SKEP_FIXED_RATIO_BITS);
        uint32_t row = (uint32_t)(list[k] * inverse >> 24);
        float *line = corner + (size_t)row * tensor->tiling.columns;
        uint32_t column = list[k] - row * tile_columns;
        line[column] = skep_fixed_subtract(line[column], step);
    }
}

static void step_part(void *context, size_t part, size_t parts)
{
    const struct stepping *stepping = context;
    const struct skep_places *places = stepping->aggregate->places;
    for (size_t t = 0; t < places->tensor_count; t++) {
        size_t blocks = places->tensors[t].tiling.blocks;
        size_t end = skep_share_first(blocks, part + 1, parts);
        for (size_t b = skep_share_first(blocks, part, parts); b < end; b++) {
            step_block(stepping, t, b);
        }
    }
}

void skep_aggregate_step(const struct skep_aggregate *aggregate, uint64_t ratio,
                         const size_t *offsets, size_t threads, float *parameters)
{
    struct stepping stepping = {
        .aggregate = aggregate, .ratio = ratio, .offsets = offsets, .parameters = parameters};
    skep_share(threads, step_part, &stepping);
}
