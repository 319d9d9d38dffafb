/*
 * Matrix products with short sums (inner <= 96), such as gradients of weights over a small batch and the heads of attention: our
 * own, because a general sgemm goes three times over C there (it scales C by beta, then reads and adds). Written as by Goto and van
 * de Geijn (Anatomy of High-Performance Matrix Multiplication, 2008) and BLIS: both sides are packed into panels as wide as a tile of
 * C, and the tile is held in registers while the sum runs. Vectors are the compiler's, so one text serves all instruction sets.
 * Longer sums go to the CBLAS, whose kernels are tuned to each CPU: there ours reach nine tenths of it.
 */
#include <string.h>

#include "common/tensor/gemm.h"
#include "common/tensor/kernels.h"

/* Bytes of a vector; rows of a tile and vectors of a tile's row, so that the tile and what it needs fill the registers. */
#if defined(__AVX512F__)
#define VECTOR 64
#define TILE_ROWS 12
#define TILE_VECTORS 2
#elif defined(__AVX__)
#define VECTOR 32
#define TILE_ROWS 6
#define TILE_VECTORS 2
#elif defined(__aarch64__)
#define VECTOR 16
#define TILE_ROWS 8
#define TILE_VECTORS 3
#else
#define VECTOR 16
#define TILE_ROWS 4
#define TILE_VECTORS 2
#endif
#define LANES (VECTOR / sizeof(skep_real))
#define TILE_COLUMNS (TILE_VECTORS * LANES)

/* Packed at a time: a block of A stays in the second cache (36 KiB in float32), and a panel of B as well (216 KiB). */
#define MOST_INNER ((size_t)96)
#define BLOCK_ROWS 96
#define PANEL_COLUMNS 576
_Static_assert((BLOCK_ROWS + PANEL_COLUMNS) * MOST_INNER == SKEP_GEMM_ROOM, "room for both");

/* Multiplications below which threads would not pay. */
#define ALONE ((size_t)2 << 20)

typedef skep_real vector __attribute__((vector_size(VECTOR)));
typedef skep_real loose_vector __attribute__((vector_size(VECTOR), aligned(4), may_alias));

#define UNROLL SKEP_PRAGMA(GCC unroll 16)

/* C tile [TILE_ROWS, TILE_COLUMNS] <- A panel B panel + beta C tile */
static inline void tile(size_t inner, const skep_real *restrict a, const skep_real *restrict b,
                        skep_real beta, skep_real *restrict c, size_t c_stride)
{
    vector sum[TILE_ROWS][TILE_VECTORS];
    UNROLL
    for (size_t i = 0; i < TILE_ROWS; i++) {
        __builtin_prefetch(c + i * c_stride, 1);
        UNROLL
        for (size_t v = 0; v < TILE_VECTORS; v++) {
            sum[i][v] = (vector){0};
        }
    }
    for (size_t k = 0; k < inner; k++) {
        vector column[TILE_VECTORS];
        UNROLL
        for (size_t v = 0; v < TILE_VECTORS; v++) {
            column[v] = *(const loose_vector *)(b + k * TILE_COLUMNS + v * LANES);
        }
        UNROLL
        for (size_t i = 0; i < TILE_ROWS; i++) {
            UNROLL
            for (size_t v = 0; v < TILE_VECTORS; v++) {
                sum[i][v] += a[k * TILE_ROWS + i] * column[v];
            }
        }
    }
    UNROLL
    for (size_t i = 0; i < TILE_ROWS; i++) {
        UNROLL
        for (size_t v = 0; v < TILE_VECTORS; v++) {
            loose_vector *to = (loose_vector *)(c + i * c_stride + v * LANES);
            *to = beta == 0 ? sum[i][v] : sum[i][v] + beta * *to;
        }
    }
}

/* A tile of which only rows x columns are there. */
static void edge_tile(size_t inner, const skep_real *a, const skep_real *b, skep_real beta,
                      skep_real *c, size_t c_stride, struct skep_gemm_size there)
{
    skep_real whole[TILE_ROWS * TILE_COLUMNS];
    tile(inner, a, b, 0, whole, TILE_COLUMNS);
    for (size_t i = 0; i < there.rows; i++) {
        for (size_t j = 0; j < there.columns; j++) {
            skep_real *to = &c[i * c_stride + j];
            skep_real sum = whole[i * TILE_COLUMNS + j];
            *to = beta == 0 ? sum : sum + beta * *to;
        }
    }
}

/* One side of the product: `count` lines (rows of A, columns of B) of `inner` values; value k of line i lies at i * line + k * step. */
struct side {
    const skep_real *data;
    size_t line;
    size_t step;
};

#if !defined(SKEP_REAL_DOUBLE) && __has_builtin(__builtin_shufflevector)
typedef float four __attribute__((vector_size(16)));
typedef float loose_four __attribute__((vector_size(16), aligned(4), may_alias));

/* Values 0 to 3 of four lines, turned in registers: a line's values become neighbours of the other lines'. */
static inline void turn_square(const skep_real *from, size_t line, size_t width, skep_real *to)
{
    four l0 = *(const loose_four *)from;
    four l1 = *(const loose_four *)(from + line);
    four l2 = *(const loose_four *)(from + 2 * line);
    four l3 = *(const loose_four *)(from + 3 * line);
    four low01 = __builtin_shufflevector(l0, l1, 0, 4, 1, 5);
    four low23 = __builtin_shufflevector(l2, l3, 0, 4, 1, 5);
    four high01 = __builtin_shufflevector(l0, l1, 2, 6, 3, 7);
    four high23 = __builtin_shufflevector(l2, l3, 2, 6, 3, 7);
    *(loose_four *)to = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
    *(loose_four *)(to + width) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
    *(loose_four *)(to + 2 * width) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
    *(loose_four *)(to + 3 * width) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}
#else
static inline void turn_square(const skep_real *from, size_t line, size_t width, skep_real *to)
{
    for (size_t k = 0; k < 4; k++) {
        for (size_t i = 0; i < 4; i++) {
            to[k * width + i] = from[i * line + k];
        }
    }
}
#endif

/* Four lines that each lie in one piece, into a panel of `width` lines. */
static inline void turn_four(const skep_real *restrict from, size_t line, size_t inner,
                             size_t width, skep_real *restrict to)
{
    size_t k = 0;
    for (; k + 4 <= inner; k += 4) {
        turn_square(from + k, line, width, to + k * width);
    }
    for (; k < inner; k++) {
        for (size_t i = 0; i < 4; i++) {
            to[k * width + i] = from[i * line + k];
        }
    }
}

/* Panels of `width` lines, value by value; missing lines are zero. */
static inline void pack(struct side side, size_t count, size_t inner, size_t width,
                        skep_real *restrict to)
{
    for (size_t first = 0; first < count; first += width, to += width * inner) {
        const skep_real *restrict from = side.data + first * side.line;
        size_t lines = count - first < width ? count - first : width;
        size_t i = 0;
        if (lines < width) {
            memset(to, 0, width * inner * sizeof *to);
        } else if (side.line == 1) {
            for (size_t k = 0; k < inner; k++) {
                memcpy(to + k * width, from + k * side.step, width * sizeof *to);
            }
            continue;
        }
        for (; side.step == 1 && i + 4 <= lines; i += 4) {
            turn_four(from + i * side.line, side.line, inner, width, to + i);
        }
        for (; i < lines; i++) {
            for (size_t k = 0; k < inner; k++) {
                to[k * width + i] = from[i * side.line + k * side.step];
            }
        }
    }
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* C block of packed A and B: `size` is that of the block. B's panels outside, for they stay in the first cache. */
static void tiles(struct skep_gemm_size size, const skep_real *a, const skep_real *b,
                  skep_real beta, skep_real *c, size_t c_stride)
{
    for (size_t j = 0; j < size.columns; j += TILE_COLUMNS) {
        for (size_t i = 0; i < size.rows; i += TILE_ROWS) {
            struct skep_gemm_size there = {least(TILE_ROWS, size.rows - i),
                                           least(TILE_COLUMNS, size.columns - j), size.inner};
            const skep_real *panel_a = a + i * size.inner;
            const skep_real *panel_b = b + j * size.inner;
            skep_real *to = c + i * c_stride + j;
            if (there.rows == TILE_ROWS && there.columns == TILE_COLUMNS) {
                tile(size.inner, panel_a, panel_b, beta, to, c_stride);
            } else {
                edge_tile(size.inner, panel_a, panel_b, beta, to, c_stride, there);
            }
        }
    }
}

static void short_product(struct skep_gemm_size size, struct side a, struct side b, skep_real beta,
                          skep_real *c, size_t c_stride, skep_real *room)
{
    skep_real *packed_b = room + BLOCK_ROWS * MOST_INNER;
    for (size_t j = 0; j < size.columns; j += PANEL_COLUMNS) {
        size_t columns = least(PANEL_COLUMNS, size.columns - j);
        struct side part_b = {b.data + j * b.line, b.line, b.step};
        pack(part_b, columns, size.inner, TILE_COLUMNS, packed_b);
        for (size_t i = 0; i < size.rows && !skep_ops_stopped(); i += BLOCK_ROWS) {
            size_t rows = least(BLOCK_ROWS, size.rows - i);
            struct side part_a = {a.data + i * a.line, a.line, a.step};
            pack(part_a, rows, size.inner, TILE_ROWS, room);
            tiles((struct skep_gemm_size){rows, columns, size.inner}, room, packed_b, beta,
                  c + i * c_stride + j, c_stride);
        }
    }
}

static struct side side_of(struct skep_matrix matrix, bool lines_are_rows)
{
    if (matrix.transposed == lines_are_rows) {
        return (struct side){matrix.data, 1, matrix.stride};
    }
    return (struct side){matrix.data, matrix.stride, 1};
}

/* Thin products would be mostly padding, and with several threads large ones are the CBLAS's, which has threads. */
static bool is_ours(struct skep_gemm_size size)
{
    return size.inner > 0 && size.inner <= MOST_INNER && size.rows >= TILE_ROWS &&
           size.columns >= TILE_COLUMNS &&
           (skep_split_threads() == 1 || size.rows * size.columns * size.inner < ALONE);
}

static void gemm(struct skep_gemm_size size, struct skep_matrix a, struct skep_matrix b,
                 skep_real beta, skep_real *c, size_t c_stride)
{
    skep_real *room = is_ours(size) ? skep_gemm_room() : NULL;
    if (room != NULL) {
        short_product(size, side_of(a, true), side_of(b, false), beta, c, c_stride, room);
    } else {
        skep_gemm(size, a, b, beta, c, c_stride);
    }
}

void SKEP_KERNELS(product)(struct skep_ops *ops)
{
    ops->gemm = gemm;
}
