/*
 * Matrix products with short sums (inner <= 96), such as gradients of weights over a small batch and the heads of attention: our
 * own, because a general sgemm goes three times over C there (it scales C by beta, then reads and adds). And flat ones, of few rows
 * and longer sums, such as a small batch times weights: a general sgemm packs the weights as if many rows were to come. Written as by
 * Goto and van de Geijn (Anatomy of High-Performance Matrix Multiplication, 2008) and BLIS: both sides are packed into panels as wide
 * as a tile of C, and the tile is held in registers while the sum runs. Vectors are the compiler's, so one text serves all
 * instruction sets. All others go to the CBLAS, whose kernels are tuned to each CPU.
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
#define FEW_ROWS 96
#elif defined(__aarch64__)
#define VECTOR 16
#define TILE_ROWS 8
#define TILE_VECTORS 3
#else
#define VECTOR 16
#define TILE_ROWS 4
#define TILE_VECTORS 2
#endif
/* Half-empty tiles at the lower edge: 64 rows are ten tiles of 6 and one of 4. */
#define LOW_ROWS 4
#define LANES (VECTOR / sizeof(skep_real))
#define TILE_COLUMNS (TILE_VECTORS * LANES)

/* Packed at a time: a block of A stays in the second cache (36 KiB in float32), and a panel of B as well (216 KiB). */
#define MOST_INNER ((size_t)96)
#define BLOCK_ROWS 96
#define PANEL_COLUMNS 576
_Static_assert((BLOCK_ROWS + PANEL_COLUMNS) * MOST_INNER == SKEP_GEMM_ROOM, "room for both");

/* Few rows and a long sum: all rows of A for a part of the sum stay in the second cache (96 KiB in float32), a panel of B, used
 * once only, in the first (16 KiB on AVX2). */
#ifndef FEW_ROWS
#define FEW_ROWS 0 /* Not measured there: the CBLAS's. */
#endif
#define PART_INNER ((size_t)256)
_Static_assert(FEW_ROWS % TILE_ROWS == 0, "whole tiles");
_Static_assert((FEW_ROWS + TILE_COLUMNS) * PART_INNER <= SKEP_GEMM_ROOM, "room for both");

/* Steps of a sum for each cache line that is asked for; fewer where rows are few, for the next panel is wanted sooner. */
#define FETCH_EVERY ((size_t)8)
#define CACHE_LINE ((size_t)64)

/* Multiplications below which threads would not pay. */
#define ALONE ((size_t)2 << 20)

typedef skep_real vector __attribute__((vector_size(VECTOR)));
typedef skep_real loose_vector __attribute__((vector_size(VECTOR), aligned(4), may_alias));

/* For functions that are good only with the constants of their callers. */
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define UNROLL SKEP_PRAGMA(GCC unroll 16)

/* Where a product goes: C <- A B + beta C */
struct target {
    skep_real *c;
    size_t stride;
    skep_real beta;
};

static inline struct target target_at(struct target target, size_t i, size_t j)
{
    return (struct target){target.c + i * target.stride + j, target.stride, target.beta};
}

/* Memory that will be wanted soon: `runs` pieces of `lines` cache lines, `stride` bytes apart; `line` of the first are asked for.
 * One line is asked for at every so many steps of a sum. */
struct fetch {
    const char *run;
    size_t stride;
    size_t lines;
    size_t line;
    size_t runs;
    size_t every;
};

/* Asks for one cache line, into the second cache. */
static ALWAYS_INLINE void fetch_line(struct fetch *fetch)
{
    if (fetch->runs == 0) {
        return;
    }
    __builtin_prefetch(fetch->run + CACHE_LINE * fetch->line, 0, 2);
    if (++fetch->line == fetch->lines) {
        fetch->line = 0;
        fetch->run += fetch->stride;
        fetch->runs--;
    }
}

/* Not unrolled: the registers are full. */
static ALWAYS_INLINE void add_to(vector sum[TILE_ROWS][TILE_VECTORS], size_t rows, size_t inner,
                                 const skep_real *a, const skep_real *b)
{
    SKEP_PRAGMA(GCC unroll 1)
    for (size_t k = 0; k < inner; k++) {
        vector column[TILE_VECTORS];
        UNROLL
        for (size_t v = 0; v < TILE_VECTORS; v++) {
            column[v] = *(const loose_vector *)(b + k * TILE_COLUMNS + v * LANES);
        }
        UNROLL
        for (size_t i = 0; i < rows; i++) {
            UNROLL
            for (size_t v = 0; v < TILE_VECTORS; v++) {
                sum[i][v] += a[k * TILE_ROWS + i] * column[v];
            }
        }
    }
}

/* The first `rows` rows of a tile of C [TILE_ROWS, TILE_COLUMNS]; `rows` is a constant. */
static ALWAYS_INLINE void tile_of(size_t rows, size_t inner, const skep_real *a, const skep_real *b,
                                  struct target to, struct fetch *fetch)
{
    vector sum[TILE_ROWS][TILE_VECTORS];
    UNROLL
    for (size_t i = 0; i < rows; i++) {
        __builtin_prefetch(to.c + i * to.stride, 1);
        UNROLL
        for (size_t v = 0; v < TILE_VECTORS; v++) {
            sum[i][v] = (vector){0};
        }
    }
    size_t k = 0;
    struct fetch wanted = *fetch;
    for (; wanted.runs > 0 && k + wanted.every <= inner; k += wanted.every) {
        fetch_line(&wanted);
        add_to(sum, rows, wanted.every, a + k * TILE_ROWS, b + k * TILE_COLUMNS);
    }
    *fetch = wanted;
    add_to(sum, rows, inner - k, a + k * TILE_ROWS, b + k * TILE_COLUMNS);
    UNROLL
    for (size_t i = 0; i < rows; i++) {
        UNROLL
        for (size_t v = 0; v < TILE_VECTORS; v++) {
            loose_vector *c = (loose_vector *)(to.c + i * to.stride + v * LANES);
            *c = to.beta == 0 ? sum[i][v] : sum[i][v] + to.beta * *c;
        }
    }
}

static void tile(size_t inner, const skep_real *a, const skep_real *b, struct target to,
                 struct fetch *fetch)
{
    tile_of(TILE_ROWS, inner, a, b, to, fetch);
}

static void low_tile(size_t inner, const skep_real *a, const skep_real *b, struct target to,
                     struct fetch *fetch)
{
    tile_of(LOW_ROWS, inner, a, b, to, fetch);
}

/* A tile of which only rows x columns are there. */
static void edge_tile(struct skep_gemm_size there, const skep_real *a, const skep_real *b,
                      struct target to, struct fetch *fetch)
{
    skep_real whole[TILE_ROWS * TILE_COLUMNS];
    tile(there.inner, a, b, (struct target){whole, TILE_COLUMNS, 0}, fetch);
    for (size_t i = 0; i < there.rows; i++) {
        for (size_t j = 0; j < there.columns; j++) {
            skep_real *c = &to.c[i * to.stride + j];
            skep_real sum = whole[i * TILE_COLUMNS + j];
            *c = to.beta == 0 ? sum : sum + to.beta * *c;
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
static ALWAYS_INLINE void pack(struct side side, size_t count, size_t inner, size_t width,
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

static void pack_a(struct side side, size_t count, size_t inner, skep_real *to)
{
    pack(side, count, inner, TILE_ROWS, to);
}

static void pack_b(struct side side, size_t count, size_t inner, skep_real *to)
{
    pack(side, count, inner, TILE_COLUMNS, to);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* C block of packed A and B: `size` is that of the block. B's panels outside, for they stay in the first cache. */
static void tiles(struct skep_gemm_size size, const skep_real *a, const skep_real *b,
                  struct target target, struct fetch fetch)
{
    for (size_t j = 0; j < size.columns; j += TILE_COLUMNS) {
        for (size_t i = 0; i < size.rows; i += TILE_ROWS) {
            struct skep_gemm_size there = {least(TILE_ROWS, size.rows - i),
                                           least(TILE_COLUMNS, size.columns - j), size.inner};
            const skep_real *panel_a = a + i * size.inner;
            const skep_real *panel_b = b + j * size.inner;
            struct target to = target_at(target, i, j);
            if (there.rows == TILE_ROWS && there.columns == TILE_COLUMNS) {
                tile(size.inner, panel_a, panel_b, to, &fetch);
            } else if (there.rows == LOW_ROWS && there.columns == TILE_COLUMNS) {
                low_tile(size.inner, panel_a, panel_b, to, &fetch);
            } else {
                edge_tile(there, panel_a, panel_b, to, &fetch);
            }
        }
    }
}

static struct side part_of(struct side side, size_t line, size_t k)
{
    return (struct side){side.data + line * side.line + k * side.step, side.line, side.step};
}

static void short_product(struct skep_gemm_size size, struct side a, struct side b,
                          struct target target, skep_real *room)
{
    skep_real *packed_b = room + BLOCK_ROWS * MOST_INNER;
    for (size_t j = 0; j < size.columns; j += PANEL_COLUMNS) {
        size_t columns = least(PANEL_COLUMNS, size.columns - j);
        pack_b(part_of(b, j, 0), columns, size.inner, packed_b);
        for (size_t i = 0; i < size.rows && !skep_ops_stopped(); i += BLOCK_ROWS) {
            size_t rows = least(BLOCK_ROWS, size.rows - i);
            pack_a(part_of(a, i, 0), rows, size.inner, room);
            tiles((struct skep_gemm_size){rows, columns, size.inner}, room, packed_b,
                  target_at(target, i, j), (struct fetch){0});
        }
    }
}

/* What pack() will read, asked for during `steps` of sums. */
static struct fetch fetch_of(struct side side, size_t count, size_t inner, size_t steps)
{
    bool across = side.line == 1;
    size_t run = (across ? count : inner) * sizeof(skep_real);
    struct fetch fetch = {.run = (const char *)side.data,
                          .stride = (across ? side.step : side.line) * sizeof(skep_real),
                          .lines = (run + CACHE_LINE - 1) / CACHE_LINE,
                          .runs = across ? inner : count,
                          .every = 1};
    if (count == 0) {
        return (struct fetch){0};
    }
    size_t every = steps / (fetch.runs * fetch.lines);
    fetch.every = every > 1 ? least(every, FETCH_EVERY) : 1;
    return fetch;
}

/* One part of the sum, with A packed. */
static void flat_part(struct skep_gemm_size size, const skep_real *a, struct side b,
                      struct target target, skep_real *packed_b)
{
    for (size_t j = 0; j < size.columns && !skep_ops_stopped(); j += TILE_COLUMNS) {
        size_t columns = least(TILE_COLUMNS, size.columns - j);
        size_t after = j + columns;
        pack_b(part_of(b, j, 0), columns, size.inner, packed_b);
        tiles((struct skep_gemm_size){size.rows, columns, size.inner}, a, packed_b,
              target_at(target, 0, j),
              fetch_of(part_of(b, after, 0), least(TILE_COLUMNS, size.columns - after), size.inner,
                       (size.rows + TILE_ROWS - 1) / TILE_ROWS * size.inner));
    }
}

/*
 * Weights are used once by a batch of few rows, and getting and packing them was 15 % of the time of an expert of 256 to 1024 over 64
 * tokens by OpenBLAS on Zen 3. Here a panel of B is packed just before its use, and the next one is fetched while the tiles are
 * summed: 7 %. Such products then mostly take 0.8 to 0.95 of OpenBLAS's time at 48 to 96 rows; at 128, and where all lies in the caches, up to 1.05.
 */
static void flat_product(struct skep_gemm_size size, struct side a, struct side b,
                         struct target target, skep_real *room)
{
    size_t parts = (size.inner + PART_INNER - 1) / PART_INNER;
    size_t most = (size.inner + parts - 1) / parts;
    for (size_t k = 0; k < size.inner; k += most) {
        size_t inner = least(most, size.inner - k);
        pack_a(part_of(a, 0, k), size.rows, inner, room);
        flat_part((struct skep_gemm_size){size.rows, size.columns, inner}, room, part_of(b, 0, k),
                  target, room + FEW_ROWS * PART_INNER);
        target.beta = 1;
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
    bool is_short = size.inner <= MOST_INNER && size.rows >= TILE_ROWS;
    bool is_flat = size.rows <= FEW_ROWS && size.rows >= 2 * TILE_ROWS;
    return size.inner > 0 && (is_short || is_flat) && size.columns >= TILE_COLUMNS &&
           (skep_split_threads() == 1 || size.rows * size.columns * size.inner < ALONE);
}

static void gemm(struct skep_gemm_size size, struct skep_matrix a, struct skep_matrix b,
                 skep_real beta, skep_real *c, size_t c_stride)
{
    skep_real *room = is_ours(size) ? skep_gemm_room() : NULL;
    if (room == NULL) {
        skep_gemm(size, a, b, beta, c, c_stride);
        return;
    }
    (size.inner <= MOST_INNER ? short_product : flat_product)(
        size, side_of(a, true), side_of(b, false), (struct target){c, c_stride, beta}, room);
}

void SKEP_KERNELS(product)(struct skep_ops *ops)
{
    ops->gemm = gemm;
}
