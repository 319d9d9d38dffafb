/*
 * How our kernels run, in one picture:
 *
 *   grid of blocks > block of warps > warp of 32 lanes
 *   one warp works on one row, its lanes side by side along the row: lane j takes columns j, j + 32, j + 64...
 *   a warp that is done with its row takes the row `all warps` further on, so any grid and any block (of whole warps) is right
 *
 * Neighbouring lanes read neighbouring values, and sums along a row are shuffles within the warp and need no shared memory. No result depends
 * on how many warps there are, sums over rows (columns.cuh, values.cu) included, and floats are never added by atomics: a job gives the
 * same bits on every run.
 *
 * With SKEP_GPU_EMULATED the same kernels are C++ for the CPU, and tests/gpu/emulator.h, included before, stands for CUDA: so
 * indexing, barriers and formulas are tested where no device is.
 */
#ifndef SKEP_GPU_LAUNCH_CUH
#define SKEP_GPU_LAUNCH_CUH

#include <stddef.h>
#include <stdint.h>

#include "common/tensor/ops.h"

#ifndef SKEP_GPU_EMULATED
#include <cuda_runtime.h>
#define LANES 32u
#endif
#define ALL_LANES 0xffffffffu

/* ---- seen from a kernel ---- */

__device__ static inline size_t lane(void)
{
    return threadIdx.x % LANES;
}

/* This warp's number in the grid, and how many there are. */
__device__ static inline size_t warp(void)
{
    return (size_t)blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES;
}

__device__ static inline size_t warps(void)
{
    return (size_t)gridDim.x * (blockDim.x / LANES);
}

/* The row of the whole matrix that row i of a gathered one belongs to. */
__device__ static inline size_t row_of(struct skep_rows rows, size_t i)
{
    return rows.index == NULL ? i : rows.index[i];
}

/* Sum or maximum over the lanes of a warp, the same in each of them. All lanes must call. */
template <typename Number> __device__ static inline Number warp_sum(Number value)
{
    for (unsigned apart = LANES / 2; apart > 0; apart /= 2) {
        value += __shfl_xor_sync(ALL_LANES, value, apart);
    }
    return value;
}

__device__ static inline float warp_max(float value)
{
    for (unsigned apart = LANES / 2; apart > 0; apart /= 2) {
        value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, apart));
    }
    return value;
}

/* ---- seen from the host ---- */

/* Blocks and their threads for kernels in which each of `count` warps has something to do. */
struct skep_grid {
    unsigned blocks;
    unsigned threads; /* in each block: a multiple of LANES */
};

/* False once something failed or the stop flag is set: then nothing may be launched. */
bool skep_cuda_ready(void);
/* False once something failed: for what is done to its end, stopped or not. */
bool skep_cuda_works(void);
/* For `count` rows, one warp each; or as many as keep the device busy. */
struct skep_grid skep_cuda_grid(size_t count);
/* To be called after each launch: reads the launch's error, and holds the host back when it is too far ahead (device.cu). */
void skep_cuda_launched(const char *what, const char *file, int line);

#ifdef SKEP_GPU_EMULATED
#define LAUNCH_IF(may, grid, kernel, ...)                                                          \
    do {                                                                                           \
        if (may) {                                                                                 \
            (void)(grid);                                                                          \
            skep_emulate([&] { kernel(__VA_ARGS__); });                                            \
            skep_cuda_launched(#kernel, __FILE__, __LINE__);                                       \
        }                                                                                          \
    } while (0)
#else
cudaStream_t skep_cuda_stream(void);
#define LAUNCH_IF(may, grid, kernel, ...)                                                          \
    do {                                                                                           \
        if (may) {                                                                                 \
            struct skep_grid grid_ = (grid);                                                       \
            kernel<<<grid_.blocks, grid_.threads, 0, skep_cuda_stream()>>>(__VA_ARGS__);           \
            skep_cuda_launched(#kernel, __FILE__, __LINE__);                                       \
        }                                                                                          \
    } while (0)
#endif

#define LAUNCH_GRID(grid, kernel, ...) LAUNCH_IF(skep_cuda_ready(), grid, kernel, __VA_ARGS__)

/* kernel(arguments...) with a warp for each of `count` rows; nothing when there are none. */
#define LAUNCH_ROWS(count, kernel, ...)                                                            \
    LAUNCH_IF((count) > 0 && skep_cuda_ready(), skep_cuda_grid(count), kernel, __VA_ARGS__)

/* kernel(arguments...) with a lane for each of `count` values. */
#define LAUNCH_VALUES(count, kernel, ...)                                                          \
    LAUNCH_ROWS(((count) + LANES - 1) / LANES, kernel, __VA_ARGS__)

#endif
