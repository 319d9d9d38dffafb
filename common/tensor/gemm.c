#include "common/tensor/gemm.h"

#include <cblas.h>
#include <math.h>
#include <pthread.h>

#include "common/tensor/memory.h"
#include "common/tensor/split.h"

#ifdef SKEP_REAL_DOUBLE
#define GEMM cblas_dgemm
#else
#define GEMM cblas_sgemm
#endif

/* Floating-point operations between two looks at the stop flag, on each thread: 8 ms for a slow CPU of its kind. Larger blocks cost
 * less: with these a product of 2048^3 loses about 6 % on AVX2, with half of it 11 % (tests/bench/engine-stop). */
#define BLOCK_S 8e-3
#define SLOW_RATE 20e9
#define SLOW_AVX2_RATE 40e9

/* OpenBLAS has it, another CBLAS may not: a weak reference is then NULL. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));

/* How many threads OpenBLAS was told to use; 0: not told yet. Left to itself OpenBLAS takes one per core, and on a machine that
 * others use they wait for each other by spinning: an evaluation of seconds then takes minutes. */
static atomic_uint told_threads;
/* Held for reading by products, so that the number changes between them only. */
static pthread_rwlock_t products = PTHREAD_RWLOCK_INITIALIZER;

/* Tells OpenBLAS when no product is running; otherwise the next product tries again. */
static void tell_threads(void)
{
    unsigned wanted = skep_split_threads();
    if (openblas_set_num_threads == NULL || atomic_load(&told_threads) == wanted ||
        pthread_rwlock_trywrlock(&products) != 0) {
        return;
    }
    openblas_set_num_threads((int)wanted);
    atomic_store(&told_threads, wanted);
    pthread_rwlock_unlock(&products);
}

static void product(struct skep_gemm_size size, struct skep_matrix a, struct skep_matrix b,
                    skep_real beta, skep_real *c, size_t c_stride)
{
    tell_threads();
    pthread_rwlock_rdlock(&products);
    GEMM(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
         b.transposed ? CblasTrans : CblasNoTrans, (int)size.rows, (int)size.columns,
         (int)size.inner, 1, a.data, (int)a.stride, b.data, (int)b.stride, beta, c, (int)c_stride);
    pthread_rwlock_unlock(&products);
}

static void scale(struct skep_gemm_size size, skep_real beta, skep_real *c, size_t c_stride)
{
    for (size_t i = 0; i < size.rows; i++) {
        for (size_t j = 0; j < size.columns; j++) {
            c[i * c_stride + j] = beta == 0 ? 0 : beta * c[i * c_stride + j];
        }
    }
}

/* Sums are cut first: OpenBLAS cuts them itself, at 384 for these kernels, so that costs nothing, while every cut through rows or
 * columns lets B or A be packed once more. Those are cut into blocks about as high as wide, at multiples of 48, which the tiles
 * of OpenBLAS's kernels divide (4, 6, 8, 12, 16, 24). */
#define CUT 48
#define INNER_CUT ((size_t)384)

static double block_flops(void)
{
    double rate = SLOW_RATE;
#ifdef __x86_64__
    rate = __builtin_cpu_supports("avx2") ? SLOW_AVX2_RATE : SLOW_RATE;
#endif
    return BLOCK_S * rate * skep_split_threads();
}

static size_t cut(double most)
{
    size_t cuts = (size_t)(most / CUT);
    return cuts > 0 ? cuts * CUT : CUT;
}

static struct skep_gemm_size block_of(struct skep_gemm_size size)
{
    struct skep_gemm_size block = size;
    block.inner = size.inner < 2 * INNER_CUT ? size.inner : INNER_CUT;
    double area = block_flops() / (2.0 * (double)block.inner);
    size_t side = cut(sqrt(area));
    if (size.rows <= side) {
        block.columns = cut(area / (double)size.rows);
    } else if (size.columns <= side) {
        block.rows = cut(area / (double)size.columns);
    } else {
        block.rows = side;
        block.columns = side;
    }
    return block;
}

static struct skep_matrix part_of(struct skep_matrix matrix, size_t row, size_t column)
{
    size_t first = matrix.transposed ? column * matrix.stride + row : row * matrix.stride + column;
    return (struct skep_matrix){matrix.data + first, matrix.stride, matrix.transposed};
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void blocks(struct skep_gemm_size size, struct skep_matrix a, struct skep_matrix b,
                   skep_real beta, skep_real *c, size_t c_stride)
{
    struct skep_gemm_size most = block_of(size);
    for (size_t i = 0; i < size.rows; i += most.rows) {
        for (size_t j = 0; j < size.columns; j += most.columns) {
            for (size_t k = 0; k < size.inner && !skep_ops_stopped(); k += most.inner) {
                struct skep_gemm_size block = {least(most.rows, size.rows - i),
                                               least(most.columns, size.columns - j),
                                               least(most.inner, size.inner - k)};
                product(block, part_of(a, i, k), part_of(b, k, j), k == 0 ? beta : 1,
                        c + i * c_stride + j, c_stride);
            }
        }
    }
}

void skep_gemm(struct skep_gemm_size size, struct skep_matrix a, struct skep_matrix b,
               skep_real beta, skep_real *c, size_t c_stride)
{
    if (size.rows == 0 || size.columns == 0 || skep_ops_stopped()) {
        return;
    }
    if (size.inner == 0) {
        scale(size, beta, c, c_stride);
        return;
    }
    double flops = 2.0 * (double)size.rows * (double)size.columns * (double)size.inner;
    if (skep_split_can_stop() && flops > block_flops()) {
        blocks(size, a, b, beta, c, c_stride);
    } else {
        product(size, a, b, beta, c, c_stride);
    }
}

static pthread_key_t room_key;
static bool room_key_made;
static pthread_once_t room_once = PTHREAD_ONCE_INIT;

static void make_room_key(void)
{
    room_key_made = pthread_key_create(&room_key, skep_memory_free) == 0;
}

skep_real *skep_gemm_room(void)
{
    pthread_once(&room_once, make_room_key);
    if (!room_key_made) {
        return NULL;
    }
    skep_real *room = pthread_getspecific(room_key);
    if (room == NULL) {
        room = skep_memory_new(SKEP_GEMM_ROOM * sizeof *room);
        if (room != NULL && pthread_setspecific(room_key, room) != 0) {
            skep_memory_free(room);
            room = NULL;
        }
    }
    return room;
}
