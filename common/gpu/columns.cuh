/*
 * Sums down the columns of a matrix, for the gradients of biases and gains. A block takes COLUMNS neighbouring columns (the 32 bytes that the
 * memory delivers at once). LINES lines of threads stand below them; line l sums the rows l, l + LINES, l + 2 LINES..., then the
 * first line adds up what all lines have. The order of the sum is the same for any block: one of fewer lines takes them in turn. Each value
 * of the matrix is visited once, so a kernel may write that value's result on the way, even over what it reads. Private to the plug-in.
 */
#ifndef SKEP_GPU_COLUMNS_CUH
#define SKEP_GPU_COLUMNS_CUH

#include "common/gpu/launch.cuh"

#define COLUMNS 8u
#define LINES 64u

/* Two sums at once: of gain and bias, or one that nobody needs. */
struct sums {
    float gain;
    float bias;
};

static inline struct skep_grid column_grid(size_t dim)
{
    const size_t blocks_most = 65535;
    size_t blocks = (dim + COLUMNS - 1) / COLUMNS;
    struct skep_grid grid = {(unsigned)(blocks < blocks_most ? blocks : blocks_most),
                             COLUMNS * LINES};
    return grid;
}

/*
 * visit(i, j, &sums) is called for each row i < count and column j < dim and adds to the sums; done(j, sums) once for each column.
 * All threads of the grid must call; a block has a multiple of COLUMNS.
 */
template <typename Visit, typename Done>
__device__ static inline void column_sums(size_t count, size_t dim, Visit visit, Done done)
{
    __shared__ struct sums lines[LINES][COLUMNS];
    size_t column = threadIdx.x % COLUMNS;
    /* The bound is the block's, not the thread's: every thread has to come to the barriers. */
    for (size_t left = (size_t)blockIdx.x * COLUMNS; left < dim;
         left += (size_t)gridDim.x * COLUMNS) {
        size_t j = left + column;
        for (size_t line = threadIdx.x / COLUMNS; line < LINES; line += blockDim.x / COLUMNS) {
            struct sums mine = {0, 0};
            for (size_t i = line; i < count && j < dim; i += LINES) {
                visit(i, j, &mine);
            }
            lines[line][column] = mine;
        }
        __syncthreads();
        if (threadIdx.x < COLUMNS && j < dim) {
            struct sums all = {0, 0};
            for (size_t line = 0; line < LINES; line++) {
                all.gain += lines[line][column].gain;
                all.bias += lines[line][column].bias;
            }
            done(j, all);
        }
        __syncthreads();
    }
}

#endif
