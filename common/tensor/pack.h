/*
 * Packing for products: lines of a matrix, rows of A or columns of B, into panels in which the values that meet in a step of the sum are
 * neighbours. Compiled for each instruction set, as the kernels are. Private to common/tensor.
 */
#ifndef SKEP_TENSOR_PACK_H
#define SKEP_TENSOR_PACK_H

#include <stddef.h>
#include <string.h>

#include "common/tensor/real.h"

/* For functions that are good only with the constants of their callers. */
#define SKEP_ALWAYS_INLINE inline __attribute__((always_inline))

/* One side of a product: value k of line i lies at i * line + k * step. */
struct skep_side {
    const skep_real *data;
    size_t line;
    size_t step;
};

static inline struct skep_side skep_side_part(struct skep_side side, size_t line, size_t k)
{
    return (struct skep_side){side.data + line * side.line + k * side.step, side.line, side.step};
}

/* Eight, four or two lines are turned in registers, four values at a time: a line's values become neighbours of the other lines'. */
#if !defined(SKEP_REAL_DOUBLE) && __has_builtin(__builtin_shufflevector)
#define SKEP_TURNED
typedef float skep_four __attribute__((vector_size(16)));
typedef float skep_two __attribute__((vector_size(8)));
typedef float skep_loose_four __attribute__((vector_size(16), aligned(4), may_alias));
typedef float skep_loose_two __attribute__((vector_size(8), aligned(4), may_alias));

static SKEP_ALWAYS_INLINE skep_four skep_four_at(const skep_real *from)
{
    return *(const skep_loose_four *)from;
}

static inline void skep_turn_four(const skep_real *from, size_t line, size_t width, skep_real *to)
{
    skep_four l0 = skep_four_at(from);
    skep_four l1 = skep_four_at(from + line);
    skep_four l2 = skep_four_at(from + 2 * line);
    skep_four l3 = skep_four_at(from + 3 * line);
    skep_four low01 = __builtin_shufflevector(l0, l1, 0, 4, 1, 5);
    skep_four low23 = __builtin_shufflevector(l2, l3, 0, 4, 1, 5);
    skep_four high01 = __builtin_shufflevector(l0, l1, 2, 6, 3, 7);
    skep_four high23 = __builtin_shufflevector(l2, l3, 2, 6, 3, 7);
    *(skep_loose_four *)to = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
    *(skep_loose_four *)(to + width) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
    *(skep_loose_four *)(to + 2 * width) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
    *(skep_loose_four *)(to + 3 * width) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

#ifdef __AVX__
typedef float skep_eight __attribute__((vector_size(32)));
typedef float skep_loose_eight __attribute__((vector_size(32), aligned(4), may_alias));

/* The halves of a vector are four lines each: nothing crosses between them. */
static SKEP_ALWAYS_INLINE skep_eight skep_pair_at(const skep_real *from, size_t line)
{
    return __builtin_shufflevector(skep_four_at(from), skep_four_at(from + 4 * line), 0, 1, 2, 3, 4,
                                   5, 6, 7);
}

static inline void skep_turn_eight(const skep_real *from, size_t line, size_t width, skep_real *to)
{
    skep_eight l0 = skep_pair_at(from, line);
    skep_eight l1 = skep_pair_at(from + line, line);
    skep_eight l2 = skep_pair_at(from + 2 * line, line);
    skep_eight l3 = skep_pair_at(from + 3 * line, line);
    skep_eight low01 = __builtin_shufflevector(l0, l1, 0, 8, 1, 9, 4, 12, 5, 13);
    skep_eight low23 = __builtin_shufflevector(l2, l3, 0, 8, 1, 9, 4, 12, 5, 13);
    skep_eight high01 = __builtin_shufflevector(l0, l1, 2, 10, 3, 11, 6, 14, 7, 15);
    skep_eight high23 = __builtin_shufflevector(l2, l3, 2, 10, 3, 11, 6, 14, 7, 15);
    *(skep_loose_eight *)to = __builtin_shufflevector(low01, low23, 0, 1, 8, 9, 4, 5, 12, 13);
    *(skep_loose_eight *)(to + width) =
        __builtin_shufflevector(low01, low23, 2, 3, 10, 11, 6, 7, 14, 15);
    *(skep_loose_eight *)(to + 2 * width) =
        __builtin_shufflevector(high01, high23, 0, 1, 8, 9, 4, 5, 12, 13);
    *(skep_loose_eight *)(to + 3 * width) =
        __builtin_shufflevector(high01, high23, 2, 3, 10, 11, 6, 7, 14, 15);
}
#else
static inline void skep_turn_eight(const skep_real *from, size_t line, size_t width, skep_real *to)
{
    skep_turn_four(from, line, width, to);
    skep_turn_four(from + 4 * line, line, width, to + 4);
}
#endif

static inline void skep_turn_two(const skep_real *from, size_t line, size_t width, skep_real *to)
{
    skep_four l0 = skep_four_at(from);
    skep_four l1 = skep_four_at(from + line);
    *(skep_loose_two *)to = __builtin_shufflevector(l0, l1, 0, 4);
    *(skep_loose_two *)(to + width) = __builtin_shufflevector(l0, l1, 1, 5);
    *(skep_loose_two *)(to + 2 * width) = __builtin_shufflevector(l0, l1, 2, 6);
    *(skep_loose_two *)(to + 3 * width) = __builtin_shufflevector(l0, l1, 3, 7);
}
#endif

/* Values 0 to 3 of `lines` lines. */
static SKEP_ALWAYS_INLINE void skep_turn_square(size_t lines, const skep_real *from, size_t line,
                                                size_t width, skep_real *to)
{
#ifdef SKEP_TURNED
    (lines == 8   ? skep_turn_eight
     : lines == 4 ? skep_turn_four
                  : skep_turn_two)(from, line, width, to);
#else
    for (size_t k = 0; k < 4; k++) {
        for (size_t i = 0; i < lines; i++) {
            to[k * width + i] = from[i * line + k];
        }
    }
#endif
}

/* `lines` lines (8, 4 or 2: a constant) that each lie in one piece, into a panel of `width` lines. */
static SKEP_ALWAYS_INLINE void skep_turn(size_t lines, const skep_real *restrict from, size_t line,
                                         size_t inner, size_t width, skep_real *restrict to)
{
    size_t k = 0;
    for (; k + 4 <= inner; k += 4) {
        skep_turn_square(lines, from + k, line, width, to + k * width);
    }
    for (; k < inner; k++) {
        for (size_t i = 0; i < lines; i++) {
            to[k * width + i] = from[i * line + k];
        }
    }
}

/* A panel of `width` lines (a constant), value by value: to[k * width + i]. Lines beyond `lines` are zeros. */
static SKEP_ALWAYS_INLINE void skep_pack(struct skep_side side, size_t lines, size_t inner,
                                         size_t width, skep_real *restrict to)
{
    size_t i = 0;
    if (lines < width) {
        memset(to, 0, width * inner * sizeof *to);
    } else if (side.line == 1) {
        for (size_t k = 0; k < inner; k++) {
            memcpy(to + k * width, side.data + k * side.step, width * sizeof *to);
        }
        return;
    }
    if (side.step == 1) {
        for (; i + 8 <= lines; i += 8) {
            skep_turn(8, side.data + i * side.line, side.line, inner, width, to + i);
        }
        for (; i + 4 <= lines; i += 4) {
            skep_turn(4, side.data + i * side.line, side.line, inner, width, to + i);
        }
        for (; i + 2 <= lines; i += 2) {
            skep_turn(2, side.data + i * side.line, side.line, inner, width, to + i);
        }
    }
    for (; i < lines; i++) {
        for (size_t k = 0; k < inner; k++) {
            to[k * width + i] = side.data[i * side.line + k * side.step];
        }
    }
}

#endif
