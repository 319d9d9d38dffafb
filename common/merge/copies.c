#include "common/merge/copies.h"

#include "common/merge/fixed.h"

#define SAME_WAY 500 /* thousandths: 60 degrees */
#define ALIKE 250    /* and twice the usual cosine */

bool skep_copies_informative(const struct skep_tiling *tiling)
{
    return tiling->kept * 8 <= tiling->tile_rows * tiling->tile_columns;
}

/* Of x_i and x_j, in thousandths. Norms are below 2^63; products that skep_fixed_permille() has no room for lose 10 bits first. */
static int32_t cosine_of(const struct skep_pairs *pairs, size_t i, size_t j)
{
    size_t n = pairs->n;
    __int128 product = pairs->products[i * n + j];
    unsigned __int128 norms =
        (unsigned __int128)skep_fixed_root((unsigned __int128)pairs->products[i * n + i]) *
        skep_fixed_root((unsigned __int128)pairs->products[j * n + j]);
    if (norms >> 117 != 0) {
        norms >>= 10;
        product /= 1 << 10;
    }
    return skep_fixed_permille(product, norms);
}

/* The lower median over all pairs of updates that are not left out and send more than zeros; 0 if there is none. */
static int32_t usual_cosine(const struct skep_pairs *pairs, const bool *left_out)
{
    uint32_t counts[2001] = {0}; /* of cosine -1000 .. 1000 */
    size_t n = pairs->n;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + 1; j < n; j++) {
            bool both = !left_out[i] && !left_out[j] && pairs->products[i * n + i] != 0 &&
                        pairs->products[j * n + j] != 0;
            if (both) {
                counts[1000 + cosine_of(pairs, i, j)]++;
                count++;
            }
        }
    }
    size_t passed = 0;
    int32_t median = -1001;
    while (count > 0 && passed < (count + 1) / 2) {
        median++;
        passed += counts[1000 + median];
    }
    return count > 0 ? median : 0;
}

/* Counts are below 2^32, so products with 1000 are far from 2^64. */
static bool share_places(const struct skep_pairs *pairs, size_t i, size_t j,
                         uint32_t overlap_permille)
{
    size_t n = pairs->n;
    uint64_t shared = pairs->shared[i * n + j];
    uint64_t either = pairs->shared[i * n + i] + pairs->shared[j * n + j] - shared;
    return either != 0 && shared * 1000 >= either * overlap_permille;
}

/* What all pairs of a round are held to. */
struct measure {
    uint32_t overlap_permille;
    int32_t alike; /* a cosine that no two honest updates reach, in thousandths */
};

static bool nearly_equal(const struct skep_pairs *pairs, size_t i, size_t j,
                         const struct measure *measure)
{
    int32_t cosine = cosine_of(pairs, i, j);
    return cosine >= measure->alike ||
           (cosine >= SAME_WAY && share_places(pairs, i, j, measure->overlap_permille));
}

/* The first update before `j` that is near enough and no copy itself, `j` if there is none. Those that are left out come last. */
static size_t original_of(const struct skep_pairs *pairs, const bool *left_out,
                          const struct measure *measure, const size_t *copy_of, size_t j)
{
    for (size_t i = 0; i < pairs->n; i++) {
        bool earlier = left_out[i] == left_out[j] ? i < j : left_out[j];
        if (earlier && copy_of[i] == i && nearly_equal(pairs, i, j, measure)) {
            return i;
        }
    }
    return j;
}

void skep_copies_find(const struct skep_pairs *pairs, const bool *left_out,
                      uint32_t overlap_permille, size_t *ret_copy_of)
{
    size_t n = pairs->n;
    int32_t usual = usual_cosine(pairs, left_out);
    const struct measure measure = {overlap_permille, ALIKE + 2 * (usual > 0 ? usual : 0)};
    for (size_t j = 0; j < n; j++) {
        ret_copy_of[j] = j;
    }
    for (int last = 0; last <= 1 && overlap_permille != 0; last++) {
        for (size_t j = 0; j < n; j++) {
            if (left_out[j] == (last != 0)) {
                ret_copy_of[j] = original_of(pairs, left_out, &measure, ret_copy_of, j);
            }
        }
    }
}
