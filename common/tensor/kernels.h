/*
 * How the CPU tables are made. The files map.c, rows.c, norm.c, activation.c and product.c are compiled once for each instruction set, with
 * SKEP_ISA naming it and the flags that allow it (local.mk); each of their objects enters its kernels into a table through one external
 * function, whose name carries the instruction set. cpu.c asks the CPU what it can do and picks a table: a plain run-time choice,
 * which works with every compiler, C library and sanitizer, where ifuncs do not. Nothing else may be compiled with such flags.
 *
 * A kernel is a loop over part of its rows, columns or values; split.h runs the parts, in threads or one after another. Loops carry
 * SKEP_SIMD (OpenMP's simd pragma, which needs no run-time library and allows sums to be reordered in that one loop only).
 * Private to common/tensor.
 */
#ifndef SKEP_TENSOR_KERNELS_H
#define SKEP_TENSOR_KERNELS_H

#include "common/tensor/ops.h"
#include "common/tensor/split.h"

#ifndef SKEP_ISA
#define SKEP_ISA baseline
#endif
#define SKEP_PASTE_(name, isa) skep_cpu_##name##_##isa
#define SKEP_PASTE(name, isa) SKEP_PASTE_(name, isa)
#define SKEP_KERNELS(name) SKEP_PASTE(name, SKEP_ISA)

#define SKEP_PRAGMA(text) _Pragma(#text)
#define SKEP_SIMD SKEP_PRAGMA(omp simd)
#define SKEP_SIMD_SUM(...) SKEP_PRAGMA(omp simd reduction(+ : __VA_ARGS__))
/* NOLINTNEXTLINE(bugprone-macro-parentheses): the pragma takes none */
#define SKEP_SIMD_MAX(value) SKEP_PRAGMA(omp simd reduction(max : value))

/* Float sums run over at most so many values; beyond that they go on in double. */
#define SKEP_SUM_VALUES ((size_t)4096)

/* Each enters the kernels of one file. */
void SKEP_KERNELS(map)(struct skep_ops *ops);
void SKEP_KERNELS(rows)(struct skep_ops *ops);
void SKEP_KERNELS(norm)(struct skep_ops *ops);
void SKEP_KERNELS(activation)(struct skep_ops *ops);
void SKEP_KERNELS(product)(struct skep_ops *ops);

static inline size_t skep_row_of(struct skep_rows rows, size_t i)
{
    return rows.index == NULL ? i : rows.index[i];
}

/* Where the block of a long sum that begins at `start` ends. */
static inline size_t skep_block_end(size_t start, size_t count)
{
    return count - start < SKEP_SUM_VALUES ? count : start + SKEP_SUM_VALUES;
}

#endif
