/*
 * e^x for the element-wise kernels: a form that compilers turn into vector code. Private to common/tensor.
 *
 * float32: x = n ln 2 + r with |r| <= ln 2 / 2, e^r by its Taylor polynomial of degree 6 (remainder below 2^-23 / 4 at the ends), 2^n
 * by writing the exponent's bits. Arguments are held to [-87, 88], so the result never overflows or becomes denormal; NaN stays
 * NaN. float64 uses the C library: it only serves the gradient tests.
 */
#ifndef SKEP_TENSOR_EXP_H
#define SKEP_TENSOR_EXP_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/tensor/real.h"

__attribute__((always_inline)) static inline skep_real skep_exp(skep_real x)
{
#ifdef SKEP_REAL_DOUBLE
    return exp(x);
#else
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    /* Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the sum. */
    float shifted = x * 1.44269504f + 12582912.0f;
    float n = shifted - 12582912.0f;
    /* ln 2 in two parts, the first with few bits so that n times it is exact. */
    float r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    /* The bits of `shifted` are those of 1.5 * 2^23 plus n; 127 + n is the exponent field of 2^n. Unsigned, so NaN does no harm. */
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits - 0x4b400000u + 127u) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
#endif
}

#endif
