#include "common/merge/fixed.h"

#include <string.h>

#include "common/base/limits.h"

int64_t skep_fixed_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    int64_t magnitude = bits & 0x7fffff;
    int32_t exponent = (int32_t)(bits >> 23 & 0xff);
    if (exponent == 0xff && magnitude != 0) {
        return 0; /* NaN */
    }
    magnitude |= exponent != 0 ? 0x800000 : 0;
    exponent += exponent == 0;
    /* The value is magnitude * 2^(exponent - 150). */
    int32_t shift = exponent - 150 + SKEP_FIXED_BITS;
    if (shift > 39 || magnitude > SKEP_FIXED_STATE_LIMIT >> (shift > 0 ? shift : 0)) {
        magnitude = SKEP_FIXED_STATE_LIMIT;
    } else if (shift >= 0) {
        magnitude <<= shift;
    } else if (shift < -24) {
        magnitude = 0;
    } else {
        int64_t half = (int64_t)1 << (-shift - 1);
        int64_t odd = magnitude >> -shift & 1;
        magnitude = (magnitude + half - 1 + odd) >> -shift;
    }
    return bits >> 31 != 0 ? -magnitude : magnitude;
}

float skep_fixed_to_float(int64_t value)
{
    if (value == 0) {
        return 0;
    }
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    int32_t spare = 63 - __builtin_clzll(magnitude) - 23; /* bits beyond the 24 of a float */
    if (spare > 0) {
        uint64_t half = (uint64_t)1 << (spare - 1);
        uint64_t odd = magnitude >> spare & 1;
        magnitude = (magnitude + half - 1 + odd) >> spare; /* may carry into a 25th bit: 2^24 */
    } else {
        magnitude <<= -spare;
    }
    /* Adding, not or-ing, the fraction lets that carry raise the exponent. */
    uint32_t bits = (uint32_t)(150 - SKEP_FIXED_BITS + spare - 1) << 23;
    bits += (uint32_t)magnitude;
    bits |= value < 0 ? 0x80000000u : 0;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

/* Bit by bit from the top. */
uint64_t skep_fixed_root(unsigned __int128 square)
{
    uint64_t root = 0;
    for (uint64_t bit = (uint64_t)1 << 62; bit != 0; bit >>= 1) {
        uint64_t trial = root | bit;
        if ((unsigned __int128)trial * trial <= square) {
            root = trial;
        }
    }
    return root;
}

int64_t skep_fixed_scale(int64_t value, uint64_t multiplier, uint32_t bits)
{
    __int128 product = (__int128)value * (__int128)multiplier;
    return (int64_t)(product < 0 ? -(-product >> bits) : product >> bits);
}

static void sort(int64_t *values, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        int64_t value = values[i];
        size_t at = i;
        for (; at > 0 && values[at - 1] > value; at--) {
            values[at] = values[at - 1];
        }
        values[at] = value;
    }
}

uint64_t skep_fixed_median(const uint64_t *norms, size_t count)
{
    int64_t sorted[SKEP_LIMIT_UPDATES_PER_ROUND];
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (norms[i] != 0) {
            sorted[used++] = (int64_t)norms[i];
        }
    }
    sort(sorted, used);
    return used == 0 ? 0 : (uint64_t)sorted[(used - 1) / 2];
}
