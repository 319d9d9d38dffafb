#include "common/merge/weights.h"

#include <assert.h>

#include "common/merge/fixed.h"

_Static_assert(SKEP_GRAM_MOST <= 64, "sets of updates are the bits of 64");

/*
 * Why nothing overflows. Products come with up to 126 bits and n <= 64 = 2^6. Multiplied by a power of two they have at most
 * TABLE_BITS = 62, and then
 *   a squared distance of two updates     4 * 2^62                       = 2^64   below it, since entries are below 2^62: uint64
 *   a sum of such                         2^6 * 2^64                     = 2^70   fits 128 bits
 *   G w                                   2^62 * 2^30 (sum of weights)   = 2^92   fits 128 bits
 *   w^T G w, with the weights' units      2^62 * 2^60                    = 2^122
 *   a squared distance to a centre        4 * 2^122                      = 2^124  fits 128 bits
 *   a distance to a centre                its root                       = 2^62   fits uint64
 *   1 / distance                          2^100 / LEAST_DISTANCE 2^31    = 2^69, their sum 2^75, times 2^30 for a weight 2^105
 *   a sum of products in mix()            2^12 * 2^114 (MIX_BITS)        = 2^126
 * Squared distances to a centre are exact for the rounded matrix, so their only error is its rounding: less than 4 units of 2^62, and
 * a distance is off by less than 2 units of 2^31.
 */
#define TABLE_BITS 62
#define MIX_BITS 114
#define WEIGHT_ONE ((int64_t)1 << SKEP_WEIGHT_BITS)
#define INVERSE_BITS 100
/* Distances to a centre are in units of 2^-30 of the table's root: this is 2 of those, the error above. */
#define LEAST_DISTANCE ((uint64_t)2 << SKEP_WEIGHT_BITS)
#define SMOOTHING_BITS 16 /* nu = median norm / 2^16 */
#define WEISZFELD_STEPS 8
/* Measured with 1000 values, noise of twice the signal, 19 to 31 % sign flips or ALIE, n = 16 to 64: after one step the centre points within
 * 0.002 (cosine to the honest mean) of where eight take it, after three within 0.001. Its length is the rescaling's to mend. */
#define CLIP_STEPS 3

/* The matrix in canonical scale: its largest magnitude has TABLE_BITS bits, or all is 0. */
struct table {
    size_t n;
    int64_t at[SKEP_GRAM_MOST * SKEP_GRAM_MOST];
};

/* ---- integer helpers ---- */

static unsigned __int128 magnitude_of(__int128 value)
{
    return value < 0 ? -(unsigned __int128)value : (unsigned __int128)value;
}

static int32_t bits_of(unsigned __int128 value)
{
    uint64_t high = (uint64_t)(value >> 64);
    uint64_t low = (uint64_t)value;
    if (high != 0) {
        return 128 - __builtin_clzll(high);
    }
    return low == 0 ? 0 : 64 - __builtin_clzll(low);
}

static int32_t bits_of_gram(const struct skep_gram *gram)
{
    unsigned __int128 all = 0;
    for (size_t i = 0; i < gram->n * gram->n; i++) {
        all |= magnitude_of(gram->products[i]); /* as many bits as the largest */
    }
    return bits_of(all);
}

/* value / 2^shift toward zero; a negative shift multiplies. */
static __int128 shifted(__int128 value, int32_t shift)
{
    unsigned __int128 magnitude = magnitude_of(value);
    magnitude = shift >= 0 ? magnitude >> shift : magnitude << -shift;
    return value < 0 ? -(__int128)magnitude : (__int128)magnitude;
}

/* Indices of the keys from the least to the greatest, equal ones by index. */
static void sort_by(const unsigned __int128 *keys, size_t count, size_t *ret_order)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        for (; at > 0 && keys[ret_order[at - 1]] > keys[i]; at--) {
            ret_order[at] = ret_order[at - 1];
        }
        ret_order[at] = i;
    }
}

/* The lower median of distances, which are at most 2^62. */
static uint64_t median_of(const uint64_t *values, size_t count)
{
    int64_t sorted[SKEP_GRAM_MOST];
    for (size_t i = 0; i < count; i++) {
        sorted[i] = (int64_t)values[i];
    }
    return (uint64_t)skep_fixed_lower_median(sorted, count);
}

/* ---- distances ---- */

static void table_init(struct table *table, const struct skep_gram *gram)
{
    assert(gram->n >= 1 && gram->n <= SKEP_GRAM_MOST && "a round has 1 to 64 updates");
    size_t n = gram->n;
    table->n = n;
    int32_t shift = bits_of_gram(gram) - TABLE_BITS;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            table->at[i * n + j] = (int64_t)shifted(gram->products[i * n + j], shift);
        }
    }
}

static unsigned __int128 square_between(const struct table *table, size_t i, size_t j)
{
    size_t n = table->n;
    __int128 square =
        (__int128)table->at[i * n + i] - 2 * (__int128)table->at[i * n + j] + table->at[j * n + j];
    return square < 0 ? 0 : (unsigned __int128)square;
}

/* |x_i - v| for v = sum of w_j x_j, in units of 2^-30 of the table's root. With all weights 0: the norms. */
static void distances_to(const struct table *table, const int64_t *weights, uint64_t *ret_distances)
{
    size_t n = table->n;
    __int128 to_centre[SKEP_GRAM_MOST]; /* G w */
    __int128 square_of_centre = 0;
    for (size_t i = 0; i < n; i++) {
        to_centre[i] = 0;
        for (size_t j = 0; j < n; j++) {
            to_centre[i] += (__int128)table->at[i * n + j] * weights[j];
        }
        square_of_centre += to_centre[i] * weights[i];
    }
    for (size_t i = 0; i < n; i++) {
        __int128 square = (__int128)table->at[i * n + i] * WEIGHT_ONE * WEIGHT_ONE -
                          2 * (__int128)WEIGHT_ONE * to_centre[i] + square_of_centre;
        ret_distances[i] = square < 0 ? 0 : skep_fixed_root((unsigned __int128)square);
    }
}

static void set_all(int64_t *weights, size_t count, int64_t value)
{
    for (size_t i = 0; i < count; i++) {
        weights[i] = value;
    }
}

/* Weights in proportion to the shares, summing to exactly 1: the heaviest, the first of them, takes what rounding leaves over. */
static void weigh_by(const unsigned __int128 *shares, size_t count, int64_t *ret_weights)
{
    unsigned __int128 sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += shares[i];
    }
    int64_t left = WEIGHT_ONE;
    size_t heaviest = 0;
    for (size_t i = 0; i < count; i++) {
        ret_weights[i] = (int64_t)(shares[i] * (unsigned __int128)WEIGHT_ONE / sum);
        left -= ret_weights[i];
        heaviest = shares[i] > shares[heaviest] ? i : heaviest;
    }
    ret_weights[heaviest] += left;
}

/* ---- rules ---- */

/* The updates from the best score to the worst. */
static void rank_by_score(const struct table *table, size_t f, size_t *ret_order)
{
    size_t n = table->n;
    size_t near = n > f + 3 ? n - f - 2 : 1;
    unsigned __int128 scores[SKEP_GRAM_MOST];
    for (size_t i = 0; i < n; i++) {
        unsigned __int128 squares[SKEP_GRAM_MOST];
        size_t order[SKEP_GRAM_MOST] = {0};
        size_t others = 0;
        for (size_t j = 0; j < n; j++) {
            if (j != i) {
                squares[others++] = square_between(table, i, j);
            }
        }
        sort_by(squares, others, order);
        scores[i] = 0;
        for (size_t k = 0; k < near && k < others; k++) {
            scores[i] += squares[order[k]];
        }
    }
    sort_by(scores, n, ret_order);
}

static void weigh_best(const struct skep_gram *gram, size_t f, size_t chosen, int64_t *ret_weights)
{
    struct table table;
    size_t order[SKEP_GRAM_MOST] = {0};
    table_init(&table, gram);
    rank_by_score(&table, f, order);
    set_all(ret_weights, gram->n, 0);
    int64_t share = WEIGHT_ONE / (int64_t)chosen;
    for (size_t i = 0; i < chosen; i++) {
        ret_weights[order[i]] = share;
    }
    ret_weights[order[0]] += WEIGHT_ONE - share * (int64_t)chosen;
}

void skep_weights_krum(const struct skep_gram *gram, size_t f, int64_t *ret_weights)
{
    weigh_best(gram, f, 1, ret_weights);
}

void skep_weights_multi_krum(const struct skep_gram *gram, size_t f, int64_t *ret_weights)
{
    weigh_best(gram, f, gram->n > f ? gram->n - f : 1, ret_weights);
}

void skep_weights_geometric_median(const struct skep_gram *gram, size_t f, int64_t *ret_weights)
{
    (void)f;
    struct table table;
    uint64_t distances[SKEP_GRAM_MOST];
    unsigned __int128 shares[SKEP_GRAM_MOST];
    table_init(&table, gram);
    size_t n = table.n;
    set_all(ret_weights, n, 0);
    distances_to(&table, ret_weights, distances);
    uint64_t smallest = median_of(distances, n) >> SMOOTHING_BITS;
    smallest = smallest < LEAST_DISTANCE ? LEAST_DISTANCE : smallest;

    for (size_t i = 0; i < n; i++) {
        shares[i] = 1;
    }
    weigh_by(shares, n, ret_weights);
    for (int step = 0; step < WEISZFELD_STEPS; step++) {
        distances_to(&table, ret_weights, distances);
        for (size_t i = 0; i < n; i++) {
            uint64_t distance = distances[i] < smallest ? smallest : distances[i];
            shares[i] = ((unsigned __int128)1 << INVERSE_BITS) / distance;
        }
        weigh_by(shares, n, ret_weights);
    }
}

/* One step in weights: w <- w (1 - mean c) + c / n, where c_i = min(1, radius / distance_i). If the weights sum to at most 1, so
 * do the new ones. */
static void clip_step(const uint64_t *distances, size_t n, int64_t *weights)
{
    uint64_t radius = median_of(distances, n);
    int64_t clips[SKEP_GRAM_MOST];
    int64_t rest = (int64_t)n * WEIGHT_ONE;
    for (size_t i = 0; i < n; i++) {
        clips[i] = distances[i] <= radius
                       ? WEIGHT_ONE
                       : (int64_t)(((unsigned __int128)radius << SKEP_WEIGHT_BITS) / distances[i]);
        rest -= clips[i];
    }
    for (size_t i = 0; i < n; i++) {
        __int128 sum = (__int128)weights[i] * rest + (__int128)clips[i] * WEIGHT_ONE;
        weights[i] = (int64_t)(sum / ((__int128)n * WEIGHT_ONE));
    }
}

void skep_weights_centered_clip(const struct skep_gram *gram, size_t f, int64_t *ret_weights)
{
    (void)f;
    struct table table;
    uint64_t distances[SKEP_GRAM_MOST];
    table_init(&table, gram);
    set_all(ret_weights, table.n, 0);
    for (int step = 0; step < CLIP_STEPS; step++) {
        distances_to(&table, ret_weights, distances);
        clip_step(distances, table.n, ret_weights);
    }
}

/* ---- nearest-neighbour mixing ---- */

void skep_gram_nearest(const struct skep_gram *gram, size_t count, uint64_t *ret_sets)
{
    struct table table;
    table_init(&table, gram);
    for (size_t i = 0; i < gram->n; i++) {
        unsigned __int128 keys[SKEP_GRAM_MOST];
        size_t order[SKEP_GRAM_MOST] = {0};
        for (size_t j = 0; j < gram->n; j++) {
            keys[j] = j == i ? 0 : square_between(&table, i, j) + 1; /* itself before its copies */
        }
        sort_by(keys, gram->n, order);
        ret_sets[i] = 0;
        for (size_t k = 0; k < count && k < gram->n; k++) {
            ret_sets[i] |= (uint64_t)1 << order[k];
        }
    }
}

/* row[k] = <sum of the updates in `set`, x_k>, divided by 2^shift. */
static void sum_rows(const struct skep_gram *gram, uint64_t set, int32_t shift, __int128 *row)
{
    for (size_t k = 0; k < gram->n; k++) {
        row[k] = 0;
    }
    for (; set != 0; set &= set - 1) {
        const __int128 *products = gram->products + (size_t)__builtin_ctzll(set) * gram->n;
        for (size_t k = 0; k < gram->n; k++) {
            row[k] += shift == 0 ? products[k] : shifted(products[k], shift);
        }
    }
}

static __int128 sum_of(const __int128 *row, uint64_t set)
{
    __int128 sum = 0;
    for (; set != 0; set &= set - 1) {
        sum += row[__builtin_ctzll(set)];
    }
    return sum;
}

void skep_gram_mix(const struct skep_gram *gram, const uint64_t *sets, struct skep_gram *ret)
{
    assert(gram != ret && gram->n >= 1 && gram->n <= SKEP_GRAM_MOST);
    size_t n = gram->n;
    int32_t shift = bits_of_gram(gram) - MIX_BITS;
    shift = shift < 0 ? 0 : shift; /* what merge computes of ordinary updates is mixed exactly */
    ret->n = n;
    for (size_t a = 0; a < n; a++) {
        __int128 row[SKEP_GRAM_MOST];
        sum_rows(gram, sets[a], shift, row);
        for (size_t b = 0; b < n; b++) {
            int32_t pairs = __builtin_popcountll(sets[a]) * __builtin_popcountll(sets[b]);
            assert(pairs > 0 && "an update is always in its own set");
            ret->products[a * n + b] = shifted(sum_of(row, sets[b]) / pairs, -shift);
        }
    }
}

/* ---- agreement ---- */

/* 1000 * along / sqrt(own * others). Roots are taken of values times 2^40, so own < 2^62 and others < 2^74 keep 2^20 times their
 * roots: together below 2^51 * 2^57, and |along| < 2^68 leaves room for the thousand. */
static int32_t cosine_permille(__int128 along, int64_t own, __int128 others)
{
    if (own <= 0 || others <= 0) {
        return 0;
    }
    unsigned __int128 roots = (unsigned __int128)skep_fixed_root((unsigned __int128)own << 40) *
                              skep_fixed_root((unsigned __int128)others << 40);
    return skep_fixed_permille(along * ((__int128)1 << 40), roots);
}

void skep_gram_agreement(const struct skep_gram *gram, const bool *merged, int32_t *ret_permille)
{
    struct table table;
    table_init(&table, gram);
    size_t n = table.n;
    __int128 with_all[SKEP_GRAM_MOST]; /* <x_i, sum of the merged> */
    __int128 square = 0;               /* |sum of the merged|^2 */
    for (size_t i = 0; i < n; i++) {
        with_all[i] = 0;
        for (size_t j = 0; j < n; j++) {
            with_all[i] += merged[j] ? table.at[i * n + j] : 0;
        }
        square += merged[i] ? with_all[i] : 0;
    }
    for (size_t i = 0; i < n; i++) {
        int64_t own = table.at[i * n + i];
        __int128 along = merged[i] ? with_all[i] - own : with_all[i];
        __int128 others = merged[i] ? square - 2 * with_all[i] + own : square;
        ret_permille[i] = cosine_permille(along, own, others);
    }
}
