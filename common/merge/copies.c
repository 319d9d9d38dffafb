#include "common/merge/copies.h"

#include "common/merge/fixed.h"

bool skep_copies_informative(const struct skep_tiling *tiling)
{
    return tiling->kept * 8 <= tiling->tile_rows * tiling->tile_columns;
}

/* Counts are below 2^32, so products with 1000 are far from 2^64; norms are below 2^63. */
static bool nearly_equal(const struct skep_pairs *pairs, size_t i, size_t j,
                         uint32_t overlap_permille)
{
    size_t n = pairs->n;
    uint64_t shared = pairs->shared[i * n + j];
    uint64_t either = pairs->shared[i * n + i] + pairs->shared[j * n + j] - shared;
    if (either == 0 || shared * 1000 < either * overlap_permille) {
        return false;
    }
    unsigned __int128 norms =
        (unsigned __int128)skep_fixed_root((unsigned __int128)pairs->products[i * n + i]) *
        skep_fixed_root((unsigned __int128)pairs->products[j * n + j]);
    return pairs->products[i * n + j] >= (__int128)(norms / 2);
}

void skep_copies_find(const struct skep_pairs *pairs, const bool *left_out,
                      uint32_t overlap_permille, size_t *ret_copy_of)
{
    size_t n = pairs->n;
    for (size_t j = 0; j < n; j++) {
        ret_copy_of[j] = j;
    }
    for (int last = 0; last <= 1 && overlap_permille != 0; last++) {
        for (size_t j = 0; j < n; j++) {
            for (size_t i = 0; i < n && left_out[j] == (last != 0) && ret_copy_of[j] == j; i++) {
                bool earlier = left_out[i] == left_out[j] ? i < j : left_out[j];
                if (earlier && ret_copy_of[i] == i && nearly_equal(pairs, i, j, overlap_permille)) {
                    ret_copy_of[j] = i;
                }
            }
        }
    }
}
