#include "common/merge/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "common/merge/copies.h"
#include "common/merge/share.h"

/* One thread's sums. */
struct tally {
    uint32_t *meetings; /* [tag * 4n + other tag], of one tensor: at most 2^28 places */
    struct skep_pairs *pairs;
};

struct work {
    const struct skep_places *places;
    const int64_t *entries;
    struct tally tallies[SKEP_SHARE_PARTS_MOST];
};

/* The inner loop: tags rise, so that only the upper half of `meetings` is used. */
static void count_block(const struct skep_places *places, size_t t, size_t block,
                        uint32_t *meetings)
{
    struct skep_places_block sorted = skep_places_block(places, t, block);
    const uint8_t *tags = sorted.tags;
    uint32_t size = places->tensors[t].tile_size;
    size_t stride = 4 * places->n;
    for (uint32_t place = 0; place < size; place++) {
        uint32_t count = sorted.counts[place];
        for (uint32_t a = 0; a + 1 < count; a++) {
            uint32_t *row = meetings + tags[a] * stride;
            for (uint32_t b = a + 1; b < count; b++) {
                row[tags[b]]++;
            }
        }
        tags += count;
    }
}

/* Adds what one tensor says of the pair i < j. */
static void add_pair(const struct work *work, size_t t, size_t i, size_t j, struct tally *tally)
{
    size_t n = work->places->n;
    const int64_t *entries = work->entries + t * 4 * n;
    bool informative = skep_copies_informative(&work->places->tensors[t].tiling);
    __int128 product = 0;
    uint64_t shared = 0;
    for (size_t a = 4 * i; a < 4 * i + 4; a++) {
        const uint32_t *row = tally->meetings + a * 4 * n;
        for (size_t b = 4 * j; b < 4 * j + 4; b++) {
            product += (__int128)entries[a] * entries[b] * row[b];
            shared += entries[a] != 0 && entries[b] != 0 ? row[b] : 0;
        }
    }
    tally->pairs->products[i * n + j] += product;
    tally->pairs->shared[i * n + j] += informative ? shared : 0;
}

static void count_part(void *context, size_t part, size_t parts)
{
    struct work *work = context;
    const struct skep_places *places = work->places;
    struct tally *tally = &work->tallies[part];
    size_t n = places->n;
    for (size_t t = 0; t < places->tensor_count; t++) {
        size_t blocks = places->tensors[t].tiling.blocks;
        size_t first = skep_share_first(blocks, part, parts);
        size_t end = skep_share_first(blocks, part + 1, parts);
        if (first == end) {
            continue;
        }
        memset(tally->meetings, 0, 16 * n * n * sizeof *tally->meetings);
        for (size_t b = first; b < end; b++) {
            count_block(places, t, b, tally->meetings);
        }
        for (size_t i = 0; i < n; i++) {
            for (size_t j = i + 1; j < n; j++) {
                add_pair(work, t, i, j, tally);
            }
        }
    }
}

/* An update with itself: its codes have been counted already. */
static void add_diagonal(const struct work *work, struct skep_pairs *pairs)
{
    const struct skep_places *places = work->places;
    size_t n = places->n;
    for (size_t t = 0; t < places->tensor_count; t++) {
        bool informative = skep_copies_informative(&places->tensors[t].tiling);
        for (size_t tag = 0; tag < 4 * n; tag++) {
            int64_t entry = work->entries[t * 4 * n + tag];
            uint32_t count = places->code_counts[t * 4 * n + tag];
            size_t i = tag / 4;
            pairs->products[i * n + i] += (__int128)entry * entry * count;
            pairs->shared[i * n + i] += informative && entry != 0 ? count : 0;
        }
    }
}

static void add_up(const struct work *work, size_t threads, struct skep_pairs *ret_pairs)
{
    size_t n = work->places->n;
    memset(ret_pairs, 0, sizeof *ret_pairs);
    ret_pairs->n = n;
    add_diagonal(work, ret_pairs);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + 1; j < n; j++) {
            for (size_t part = 0; part < threads; part++) {
                ret_pairs->products[i * n + j] += work->tallies[part].pairs->products[i * n + j];
                ret_pairs->shared[i * n + j] += work->tallies[part].pairs->shared[i * n + j];
            }
            ret_pairs->products[j * n + i] = ret_pairs->products[i * n + j];
            ret_pairs->shared[j * n + i] = ret_pairs->shared[i * n + j];
        }
    }
}

int skep_pairs_count(const struct skep_places *places, const int64_t *entries, size_t threads,
                     struct skep_pairs *ret_pairs, struct skep_error *err)
{
    struct work work = {.places = places, .entries = entries};
    int rc = SKEP_OK;
    for (size_t part = 0; part < threads; part++) {
        struct tally *tally = &work.tallies[part];
        tally->meetings = malloc(16 * places->n * places->n * sizeof *tally->meetings);
        tally->pairs = calloc(1, sizeof *tally->pairs);
        if (tally->meetings == NULL || tally->pairs == NULL) {
            rc = skep_error_set(err, SKEP_ERR_MEMORY,
                                "no memory to compare %zu updates in %zu "
                                "threads",
                                places->n, threads);
        }
    }
    if (rc == SKEP_OK) {
        skep_share(threads, count_part, &work);
        add_up(&work, threads, ret_pairs);
    }
    for (size_t part = 0; part < threads; part++) {
        free(work.tallies[part].meetings);
        free(work.tallies[part].pairs);
    }
    return rc;
}

/* product * multiplier / 2^bits toward zero, for a multiplier of at most 2^bits < 2^63 and a product of at most 2^126: its two halves of
 * 64 bits are multiplied each for itself, below 2^(64 + bits). */
static __int128 scale_product(__int128 product, uint64_t multiplier, uint32_t bits)
{
    unsigned __int128 magnitude = (unsigned __int128)(product < 0 ? -product : product);
    unsigned __int128 high = (magnitude >> 64) * multiplier;
    unsigned __int128 low = (magnitude & UINT64_MAX) * multiplier;
    /* high * 2^64 + low, shifted: the bits of `high` that fall below 2^64 join `low`. */
    low += (high & (((unsigned __int128)1 << bits) - 1)) << 64;
    __int128 scaled = (__int128)((high >> bits << 64) + (low >> bits));
    return product < 0 ? -scaled : scaled;
}

void skep_pairs_gram(const struct skep_pairs *pairs, const size_t *chosen, size_t n,
                     const uint64_t *multipliers, uint32_t bits, struct skep_gram *ret_gram)
{
    ret_gram->n = n;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            __int128 product = pairs->products[chosen[i] * pairs->n + chosen[j]];
            uint64_t more = multipliers[i] > multipliers[j] ? multipliers[i] : multipliers[j];
            uint64_t less = multipliers[i] > multipliers[j] ? multipliers[j] : multipliers[i];
            product = scale_product(product, more, bits);
            ret_gram->products[i * n + j] = scale_product(product, less, bits);
        }
    }
}
