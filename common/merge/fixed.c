#include "common/merge/fixed.h"

#include <string.h>

#include "common/base/limits.h"

/* What the fast way below leaves: NaN and infinity, numbers near the limits and beyond, and denormals. */
static int64_t magnitude_of_odd_one(int64_t mantissa, int32_t exponent)
{
    if (exponent == 0xff && mantissa != 0) {
        return 0; /* NaN */
    }
    mantissa |= exponent != 0 ? 0x800000 : 0;
    int32_t shift = exponent - 150 + SKEP_FIXED_BITS;
    if (shift < 0) {
        return 0; /* below half a unit */
    }
    return shift > 38 ? SKEP_FIXED_STATE_LIMIT : mantissa << shift;
}

/*
 * The value is mantissa * 2^(exponent - 150), so mantissa * 2^(exponent - 118) units. The mantissa is moved up by 38 bits, as far as it
 * goes, and then down again by `drop`, rounding what falls off; weights are on both sides of the point where nothing does, and
 * this way nothing has to be guessed.
 */
int64_t skep_fixed_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    int64_t mantissa = bits & 0x7fffff;
    int32_t exponent = (int32_t)(bits >> 23 & 0xff);
    int32_t drop = 38 - (exponent - 150 + SKEP_FIXED_BITS);
    int64_t magnitude;
    if (drop >= 1 && drop <= 62) {
        uint64_t raised = (uint64_t)(mantissa | 0x800000) << 38;
        uint64_t half = (uint64_t)1 << (drop - 1);
        uint64_t odd = raised >> drop & 1;
        magnitude = (int64_t)((raised + half - 1 + odd) >> drop);
    } else {
        magnitude = magnitude_of_odd_one(mantissa, exponent);
    }
    return bits >> 31 != 0 ? -magnitude : magnitude;
}

/* The highest bit is moved to bit 62, and 24 bits are kept from there. Adding, not or-ing, the mantissa lets a carry into its
 * 25th bit raise the exponent. */
float skep_fixed_to_float(int64_t value)
{
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    uint32_t bits = 0x4f000000u; /* 2^31: -2^63 units, which have no bit 62 to start from */
    if (magnitude >> 63 == 0) {
        uint32_t zeros = (uint32_t)__builtin_clzll(magnitude | 1);
        uint64_t raised = magnitude << (zeros - 1);
        uint64_t odd = raised >> 39 & 1;
        bits = (157 - zeros) << 23;
        bits += (uint32_t)((raised + ((uint64_t)1 << 38) - 1 + odd) >> 39);
        bits = magnitude == 0 ? 0 : bits;
    }
    bits |= value < 0 ? 0x80000000u : 0;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

float skep_fixed_subtract(float value, int64_t step)
{
    return step == 0 ? value : skep_fixed_to_float(skep_fixed_from_float(value) - step);
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

void skep_fixed_sort(int64_t *values, size_t count)
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

int64_t skep_fixed_lower_median(int64_t *values, size_t count)
{
    skep_fixed_sort(values, count);
    return values[(count - 1) / 2];
}

int32_t skep_fixed_permille(__int128 part, unsigned __int128 whole)
{
    if (whole == 0) {
        return 0;
    }
    unsigned __int128 size = (unsigned __int128)(part < 0 ? -part : part) * 1000 / whole;
    int32_t held = size > 1000 ? 1000 : (int32_t)size;
    return part < 0 ? -held : held;
}

uint64_t skep_fixed_median(const uint64_t *norms, size_t count)
{
    int64_t values[SKEP_LIMIT_UPDATES_PER_ROUND];
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (norms[i] != 0) {
            values[used++] = (int64_t)norms[i];
        }
    }
    return used == 0 ? 0 : (uint64_t)skep_fixed_lower_median(values, used);
}
