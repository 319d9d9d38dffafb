/*
 * The merge's numbers: fixed point in units of 2^-32, and why nothing overflows.
 *
 * Unit. State values and codebook entries are integers in units of 2^-32: 2.3e-10. float32 weights around 0.02 are spaced
 * 1.9e-9, so they convert exactly; pseudo-gradient entries around 1e-4 keep 19 bits, far more than 2-bit codes carry.
 *
 * Range. A state value is at most 2^30, thus 2^62 in units, and a sum with one step stays below 2^63. A codebook entry is
 * held to +-2^17 (2^49 in units): no training has such steps, manifests allow far less, and then
 *   a place's sum        64 updates * 2^49                     = 2^55   fits int64
 *   the same after NNM   64 mixes of 64 updates * 2^49         = 2^61   fits int64
 *   an aggregate         a mean of entries                    <= 2^49
 *   a weighted entry     2^49 * 2^30 weight                    = 2^79   fits 128 bits before it is shifted back by 30
 *   a squared norm       2^28 values (1 GiB of state) * 2^98   = 2^126  fits 128 bits; inner products are no larger
 *   a norm               its root                              < 2^63   fits uint64
 *   a clipped entry      2^49 * (2^30 clip * 2^16 weight)      = 2^95   fits 128 bits before it is shifted back by 46
 *   a step               2^49 * (2^31 rescale * 2^32 alpha)    = 2^112  fits 128 bits before the shift by 30
 *
 * Ratios (clip, rescale) are 30-bit fractions rounded down: at most 1e-9 short, and exactly 1 when both norms are equal, so
 * that a lone fresh update is applied as it is. Everything else that is rounded is rounded toward zero, which treats an
 * update and its negative alike.
 */
#ifndef SKEP_MERGE_FIXED_H
#define SKEP_MERGE_FIXED_H

#include <stddef.h>
#include <stdint.h>

#define SKEP_FIXED_BITS 32
#define SKEP_FIXED_RATIO_BITS 30
#define SKEP_FIXED_RATIO_ONE ((uint64_t)1 << SKEP_FIXED_RATIO_BITS)
#define SKEP_FIXED_ENTRY_LIMIT ((int64_t)1 << 49) /* magnitude of a codebook entry */
#define SKEP_FIXED_STATE_LIMIT ((int64_t)1 << 62) /* magnitude of a state value */

/* float32 <-> units of 2^-32, by their bits: to nearest, ties to even. Beyond +-2^30 the first saturates; NaN gives 0. */
int64_t skep_fixed_from_float(float value);
float skep_fixed_to_float(int64_t value);

/* The largest root with root * root <= square; square < 2^126, so root < 2^63. */
uint64_t skep_fixed_root(unsigned __int128 square);

/* value - step, where the value keeps its bits, also those that the fixed point cannot hold, if the step is 0. */
float skep_fixed_subtract(float value, int64_t step);

/* value * multiplier / 2^bits toward zero; the product must fit 127 bits. */
static inline int64_t skep_fixed_scale(int64_t value, uint64_t multiplier, uint32_t bits)
{
    unsigned __int128 magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    int64_t scaled = (int64_t)(magnitude * multiplier >> bits);
    return value < 0 ? -scaled : scaled;
}

/* Sorts rising, by insertion: rounds have at most 64 updates. */
void skep_fixed_sort(int64_t *values, size_t count);

/* Sorts the values; the lower median of them, which are one at least. */
int64_t skep_fixed_lower_median(int64_t *values, size_t count);

/* 1000 * part / whole toward zero, held to -1000 .. 1000; 0 if the whole is 0. |part| < 2^118. */
int32_t skep_fixed_permille(__int128 part, unsigned __int128 whole);

/* The lower median of the norms that are not 0; 0 if all are. At most 64 of them. Lower, so that one liar beside one honest update
 * cannot raise it. An update of zeros says nothing about the size of a step (an expert that saw no token), so it does not lower it. */
uint64_t skep_fixed_median(const uint64_t *norms, size_t count);

#endif
