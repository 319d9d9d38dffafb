/*
 * Sums down the columns of a matrix, for the gradients of biases and gains. A block takes COLUMNS neighbouring columns (the 32 bytes that the
 * memory delivers at once); its threads stand in lines below them and take the rows in turn; then one line adds up what all
 * lines have. Each value of the matrix is visited by exactly one thread, so a kernel may write that value's result on the way, even
 * over what it reads. The sum's order depends on the block alone. Private to the plug-in.
 */
#ifndef SKEP_GPU_COLUMNS_CUH
#define SKEP_GPU_COLUMNS_CUH

#include "common/gpu/launch.cuh"

#define COLUMNS 8u
#define COLUMN_THREADS 512u /* at most, in a block */

/* Two sums at once: of gain and bias, or one that nobody needs. */
struct sums {
    float gain;
    float bias;
};

static inline struct skep_grid column_grid(size_t dim)
{
    struct skep_grid grid = skep_cuda_grid((dim + COLUMNS - 1) / COLUMNS);
    size_t blocks = (dim + COLUMNS - 1) / COLUMNS;
    grid.blocks = blocks < 65535 ? (unsigned)blocks : 65535;
    grid.threads = grid.threads < COLUMN_THREADS ? grid.threads : COLUMN_THREADS;
    return grid;
}

/*
 * visit(i, j, &sums) is called for each row i < count and column j < dim and adds to the sums; done(j, sums) once for each column.
 * All threads of the grid must call.
 */
template <typename Visit, typename Done>
__device__ static inline void column_sums(size_t count, size_t dim, Visit visit, Done done)
{
    __shared__ struct sums lines[COLUMN_THREADS];
    size_t column = threadIdx.x % COLUMNS;
    size_t line = threadIdx.x / COLUMNS;
    size_t line_count = blockDim.x / COLUMNS;
    /* The bound is the block's, not the thread's: every thread has to come to the barriers. */
    for (size_t left = (size_t)blockIdx.x * COLUMNS; left < dim;
         left += (size_t)gridDim.x * COLUMNS) {
        size_t j = left + column;
        struct sums mine = {0, 0};
        for (size_t i = line; i < count && j < dim; i += line_count) {
            visit(i, j, &mine);
        }
        lines[threadIdx.x] = mine;
        __syncthreads();
        if (line == 0 && j < dim) {
            struct sums all = {0, 0};
            for (size_t other = 0; other < line_count; other++) {
                all.gain += lines[other * COLUMNS + column].gain;
                all.bias += lines[other * COLUMNS + column].bias;
            }
            done(j, all);
        }
        __syncthreads();
    }
}

#endif
