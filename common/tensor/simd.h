/*
 * How the element-wise kernels are made fast: their loops carry SKEP_SIMD (OpenMP's simd pragma, which needs no run-time library
 * and allows sums to be reordered in that one loop only), and where the compiler and the C library can do it, SKEP_CLONES
 * builds the function twice and picks the AVX2 (and FMA) build at load time on machines that have it. Sanitizers instrument the picking
 * code before they are ready for it, so they get one build. Private to common/tensor.
 */
#ifndef SKEP_TENSOR_SIMD_H
#define SKEP_TENSOR_SIMD_H

#include <features.h>

#define SKEP_PRAGMA(text) _Pragma(#text)
#define SKEP_SIMD SKEP_PRAGMA(omp simd)
#define SKEP_SIMD_SUM(...) SKEP_PRAGMA(omp simd reduction(+ : __VA_ARGS__))
/* NOLINTNEXTLINE(bugprone-macro-parentheses): the pragma takes none */
#define SKEP_SIMD_MAX(value) SKEP_PRAGMA(omp simd reduction(max : value))

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&       \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if __GNUC__ >= 12
#define SKEP_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define SKEP_CLONES __attribute__((target_clones("avx2", "default")))
#endif
#else
#define SKEP_CLONES
#endif

#endif
