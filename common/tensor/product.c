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
#include "common/tensor/pack.h"

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
static SKEP_ALWAYS_INLINE void fetch_line(struct fetch *fetch)
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

/* Of B: value k of its columns lies at k * step; also written to `packed`, unless that is NULL. */
struct panel {
    const skep_real *data;
    size_t step;
    skep_real *packed;
};

static SKEP_ALWAYS_INLINE struct panel panel_at(struct panel panel, size_t k)
{
    panel.data += k * panel.step;
    panel.packed += panel.packed != NULL ? k * TILE_COLUMNS : 0;
    return panel;
}

/* Not unrolled: the registers are full. */
static SKEP_ALWAYS_INLINE void add_to(vector sum[TILE_ROWS][TILE_VECTORS], size_t rows,
                                      size_t inner, const skep_real *a, struct panel b)
{
    SKEP_PRAGMA(GCC unroll 1)
    for (size_t k = 0; k < inner; k++) {
        vector column[TILE_VECTORS];
        UNROLL
        for (size_t v = 0; v < TILE_VECTORS; v++) {
            column[v] = *(const loose_vector *)(b.data + k * b.step + v * LANES);
            if (b.packed != NULL) {
                *(loose_vector *)(b.packed + k * TILE_COLUMNS + v * LANES) = column[v];
            }
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
static SKEP_ALWAYS_INLINE void tile_of(size_t rows, size_t inner, const skep_real *a,
                                       struct panel b, struct target to, struct fetch *fetch)
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
        add_to(sum, rows, wanted.every, a + k * TILE_ROWS, panel_at(b, k));
    }
    *fetch = wanted;
    add_to(sum, rows, inner - k, a + k * TILE_ROWS, panel_at(b, k));
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
    tile_of(TILE_ROWS, inner, a, (struct panel){b, TILE_COLUMNS, NULL}, to, fetch);
}

/* A panel's first tile: B's values are used where they lie, and packed on the way. */
static void packing_tile(size_t inner, const skep_real *a, struct panel b, struct target to,
                         struct fetch *fetch)
{
    tile_of(TILE_ROWS, inner, a, b, to, fetch);
}

static void low_tile(size_t inner, const skep_real *a, const skep_real *b, struct target to,
                     struct fetch *fetch)
{
    tile_of(LOW_ROWS, inner, a, (struct panel){b, TILE_COLUMNS, NULL}, to, fetch);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* A tile of which only rows x columns are there. */
static void edge_tile(struct skep_gemm_size there, const skep_real *a, const skep_real *b,
                      struct target to, struct fetch *fetch)
{
    skep_real whole[TILE_ROWS * TILE_COLUMNS];
    tile(there.inner, a, b, (struct target){whole, TILE_COLUMNS, 0}, fetch);
    for (size_t i = 0; i < least(TILE_ROWS, there.rows); i++) {
        for (size_t j = 0; j < least(TILE_COLUMNS, there.columns); j++) {
            skep_real *c = &to.c[i * to.stride + j];
            skep_real sum = whole[i * TILE_COLUMNS + j];
            *c = to.beta == 0 ? sum : sum + to.beta * *c;
        }
    }
}

/* The panels of A. Whole ones together where their rows are neighbours, for then they share cache lines. */
static void pack_a(struct skep_side side, size_t rows, size_t inner, skep_real *restrict to)
{
    size_t whole = side.line == 1 ? rows / TILE_ROWS : 0;
    for (size_t k = 0; k < inner && whole > 0; k++) {
        const skep_real *restrict from = side.data + k * side.step;
        skep_real *restrict panel = to + k * TILE_ROWS;
        for (size_t p = 0; p < whole; p++, from += TILE_ROWS, panel += TILE_ROWS * inner) {
            memcpy(panel, from, TILE_ROWS * sizeof *to);
        }
    }
    for (size_t i = whole * TILE_ROWS; i < rows; i += TILE_ROWS) {
        skep_pack(skep_side_part(side, i, 0), least(TILE_ROWS, rows - i), inner, TILE_ROWS,
                  to + i * inner);
    }
}

static void pack_b(struct skep_side side, size_t columns, size_t inner, skep_real *to)
{
    skep_pack(side, columns, inner, TILE_COLUMNS, to);
}

/* As much of a tile as is `there`; more counts as a whole one. */
static inline void tile_there(struct skep_gemm_size there, const skep_real *a, const skep_real *b,
                              struct target to, struct fetch *fetch)
{
    if (there.rows >= TILE_ROWS && there.columns >= TILE_COLUMNS) {
        tile(there.inner, a, b, to, fetch);
    } else if (there.rows == LOW_ROWS && there.columns >= TILE_COLUMNS) {
        low_tile(there.inner, a, b, to, fetch);
    } else {
        edge_tile(there, a, b, to, fetch);
    }
}

/* The first tile of a panel of B that is not packed yet, and packs it. */
static void first_tile(struct skep_gemm_size there, const skep_real *a, struct skep_side side,
                       skep_real *b, struct target to, struct fetch *fetch)
{
    if (there.rows >= TILE_ROWS && there.columns >= TILE_COLUMNS && side.line == 1) {
        packing_tile(there.inner, a, (struct panel){side.data, side.step, b}, to, fetch);
    } else {
        pack_b(side, least(TILE_COLUMNS, there.columns), there.inner, b);
        tile_there(there, a, b, to, fetch);
    }
}

/* What packing the panel after the first of `there` will read, asked for during `steps` of sums. */
static struct fetch fetch_next(struct skep_side side, struct skep_gemm_size there, size_t steps)
{
    if (there.columns <= TILE_COLUMNS || there.inner == 0) {
        return (struct fetch){0};
    }
    struct skep_side next = skep_side_part(side, TILE_COLUMNS, 0);
    size_t count = least(TILE_COLUMNS, there.columns - TILE_COLUMNS);
    bool across = next.line == 1;
    size_t run = (across ? count : there.inner) * sizeof(skep_real);
    struct fetch fetch = {.run = (const char *)next.data,
                          .stride = (across ? next.step : next.line) * sizeof(skep_real),
                          .lines = (run + CACHE_LINE - 1) / CACHE_LINE,
                          .runs = across ? there.inner : count};
    size_t every = steps / (fetch.runs * fetch.lines);
    fetch.every = every > 1 ? least(every, FETCH_EVERY) : 1;
    return fetch;
}

/* B of a block of C: its columns where they lie, or NULL if all are packed already; panels lie `between` values apart. */
struct columns {
    struct skep_side fresh;
    skep_real *packed;
    size_t between;
};

/* C block of packed A and B: `size` is that of the block. B's panels outside, for they stay in the first cache; a fresh one is packed
 * by its first tile, and the next fetched while the tiles are summed. */
static void tiles(struct skep_gemm_size size, const skep_real *a, struct columns b,
                  struct target target)
{
    size_t steps = (size.rows + TILE_ROWS - 1) / TILE_ROWS * size.inner;
    skep_real *panel = b.packed;
    for (size_t j = 0; j < size.columns && !skep_ops_stopped(); j += TILE_COLUMNS) {
        struct skep_gemm_size there = {size.rows, size.columns - j, size.inner};
        struct fetch fetch = {0};
        size_t i = 0;
        if (b.fresh.data != NULL) {
            struct skep_side fresh = skep_side_part(b.fresh, j, 0);
            fetch = fetch_next(fresh, there, steps);
            first_tile(there, a, fresh, panel, target_at(target, 0, j), &fetch);
            i = TILE_ROWS;
        }
        for (; i < size.rows; i += TILE_ROWS) {
            there.rows = size.rows - i;
            tile_there(there, a + i * size.inner, panel, target_at(target, i, j), &fetch);
        }
        panel += b.between;
    }
}

static void short_product(struct skep_gemm_size size, struct skep_side a, struct skep_side b,
                          struct target target, skep_real *room)
{
    struct columns panels = {.packed = room + BLOCK_ROWS * MOST_INNER,
                             .between = TILE_COLUMNS * size.inner};
    for (size_t j = 0; j < size.columns; j += PANEL_COLUMNS) {
        panels.fresh = skep_side_part(b, j, 0);
        for (size_t i = 0; i < size.rows && !skep_ops_stopped(); i += BLOCK_ROWS) {
            struct skep_gemm_size block = {least(BLOCK_ROWS, size.rows - i),
                                           least(PANEL_COLUMNS, size.columns - j), size.inner};
            pack_a(skep_side_part(a, i, 0), block.rows, size.inner, room);
            tiles(block, room, panels, target_at(target, i, j));
            panels.fresh = (struct skep_side){0};
        }
    }
}

/*
 * Weights are used once by a batch of few rows, and getting and packing them was 15 % of the time of an expert of 256 to 1024 over 64
 * tokens by OpenBLAS on Zen 3. Here a panel of B is packed just before its use or by it, and the next one is fetched while the
 * tiles are summed: 3 %. Such products then mostly take 0.8 to 0.95 of OpenBLAS's time at 48 to 96 rows; at 128, and where all lies in the caches, up to 1.05.
 */
static void flat_product(struct skep_gemm_size size, struct skep_side a, struct skep_side b,
                         struct target target, skep_real *room)
{
    size_t parts = (size.inner + PART_INNER - 1) / PART_INNER;
    size_t most = (size.inner + parts - 1) / parts;
    for (size_t k = 0; k < size.inner; k += most) {
        struct skep_gemm_size part = {size.rows, size.columns, least(most, size.inner - k)};
        pack_a(skep_side_part(a, 0, k), part.rows, part.inner, room);
        tiles(part, room,
              (struct columns){skep_side_part(b, 0, k), room + FEW_ROWS * PART_INNER, 0}, target);
        target.beta = 1;
    }
}

static struct skep_side side_of(struct skep_matrix matrix, bool lines_are_rows)
{
    if (matrix.transposed == lines_are_rows) {
        return (struct skep_side){matrix.data, 1, matrix.stride};
    }
    return (struct skep_side){matrix.data, matrix.stride, 1};
}

/* Thin products would be mostly padding, and with several threads large ones are the CBLAS's, which has threads. */
static bool is_ours(struct skep_gemm_size size)
{
    bool is_short = size.inner <= MOST_INNER && size.rows >= TILE_ROWS;
    bool is_flat = size.rows <= FEW_ROWS && size.rows / 2 >= TILE_ROWS;
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
