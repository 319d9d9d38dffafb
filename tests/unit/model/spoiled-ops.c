#include "tests/unit/model/spoiled-ops.h"

#include <stddef.h>

struct spoiled spoiled;
atomic_bool spoiled_stop;

static const struct skep_ops *inner;
static struct skep_ops table;

static void count_call(void)
{
    spoiled.calls++;
    if (spoiled.calls == spoiled.stop_at) {
        atomic_store(&spoiled_stop, true);
    }
}

static void *memory_new(size_t size)
{
    spoiled.memory_asked += size;
    if (++spoiled.memory_calls == spoiled.memory_fails_at) {
        return NULL;
    }
    spoiled.memory_held++;
    return inner->memory_new(size);
}

static void memory_free(void *memory)
{
    spoiled.memory_held--;
    inner->memory_free(memory);
}

static int status(struct skep_error *err)
{
    if (spoiled.break_at != 0 && spoiled.calls >= spoiled.break_at) {
        return skep_error_set(err, SKEP_ERR_IO, "the device is gone");
    }
    return inner->status(err);
}

static void gemm(struct skep_gemm_size size, struct skep_matrix a, struct skep_matrix b,
                 skep_real beta, skep_real *c, size_t c_stride)
{
    count_call();
    inner->gemm(size, a, b, beta, c, c_stride);
}

static void rows_combine(struct skep_rows rows, const skep_real *y, const skep_real *weight,
                         skep_real *x)
{
    count_call();
    inner->rows_combine(rows, y, weight, x);
}

static void adamw(const struct skep_adamw *step, size_t count, const skep_real *gradient,
                  float *first, float *second, skep_real *values)
{
    count_call();
    inner->adamw(step, count, gradient, first, second, values);
}

const struct skep_ops *spoiled_ops(void)
{
    inner = skep_ops_cpu();
    spoiled = (struct spoiled){0};
    atomic_store(&spoiled_stop, false);
    table = *inner;
    table.memory_new = memory_new;
    table.memory_free = memory_free;
    table.status = status;
    table.gemm = gemm;
    table.rows_combine = rows_combine;
    table.adamw = adamw;
    return &table;
}
