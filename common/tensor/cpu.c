/* The CPU tables: filled once from the kernels of each instruction set, and chosen by what the CPU can do. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tensor/kernels.h"
#include "common/tensor/memory.h"

#define DECLARE(isa)                                                                               \
    void skep_cpu_map_##isa(struct skep_ops *ops);                                                 \
    void skep_cpu_rows_##isa(struct skep_ops *ops);                                                \
    void skep_cpu_norm_##isa(struct skep_ops *ops);                                                \
    void skep_cpu_activation_##isa(struct skep_ops *ops);                                          \
    void skep_cpu_product_##isa(struct skep_ops *ops);                                             \
    static void enter_##isa(struct skep_ops *ops)                                                  \
    {                                                                                              \
        skep_cpu_map_##isa(ops);                                                                   \
        skep_cpu_rows_##isa(ops);                                                                  \
        skep_cpu_norm_##isa(ops);                                                                  \
        skep_cpu_activation_##isa(ops);                                                            \
        skep_cpu_product_##isa(ops);                                                               \
    }

static bool can_baseline(void)
{
    return true;
}

DECLARE(baseline)
/* float64 only serves tests: one table does. */
#if defined(__x86_64__) && !defined(SKEP_REAL_DOUBLE)
DECLARE(avx2)
DECLARE(avx512)

/* The compiler's run-time library also asks whether the system saves the wide registers. */
static bool can_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool can_avx512(void)
{
    return can_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

static const struct {
    const char *name; /* "cpu " and what SKEP_CPU says */
    bool (*can)(void);
    void (*enter)(struct skep_ops *ops);
} KINDS[] = {
    {"cpu baseline", can_baseline, enter_baseline},
#if defined(__x86_64__) && !defined(SKEP_REAL_DOUBLE)
    {"cpu avx2", can_avx2, enter_avx2},
    {"cpu avx512", can_avx512, enter_avx512},
#endif
};
#define KIND_COUNT (sizeof KINDS / sizeof KINDS[0])

static struct skep_ops tables[KIND_COUNT];
static size_t table_count;
static const struct skep_ops *best;
static pthread_once_t filled = PTHREAD_ONCE_INIT;
static pthread_once_t chosen = PTHREAD_ONCE_INIT;

static void copy(void *to, const void *from, size_t size)
{
    if (size > 0) {
        memcpy(to, from, size);
    }
}

static int status(struct skep_error *err)
{
    (void)err;
    return SKEP_OK;
}

static void fill_table(struct skep_ops *ops, size_t kind)
{
    *ops = (struct skep_ops){.name = KINDS[kind].name,
                             .on_host = true,
                             .memory_new = skep_memory_new,
                             .memory_free = skep_memory_free,
                             .copy_in = copy,
                             .copy_out = copy,
                             .status = status};
    KINDS[kind].enter(ops);
}

static const char *short_name(const struct skep_ops *ops)
{
    return ops->name + strlen("cpu ");
}

static void fill_tables(void)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (KINDS[i].can()) {
            fill_table(&tables[table_count++], i);
        }
    }
}

static void choose(void)
{
    pthread_once(&filled, fill_tables);
    best = &tables[table_count - 1];
    const char *wanted = getenv("SKEP_CPU");
    if (wanted == NULL || *wanted == '\0') {
        return;
    }
    for (size_t i = 0; i < table_count; i++) {
        if (strcmp(short_name(&tables[i]), wanted) == 0) {
            best = &tables[i];
            return;
        }
    }
    fprintf(stderr, "SKEP_CPU is \"%s\", but this machine has", wanted);
    for (size_t i = 0; i < table_count; i++) {
        fprintf(stderr, "%s \"%s\"", i > 0 ? "," : "", short_name(&tables[i]));
    }
    fprintf(stderr, ": using \"%s\".\n", short_name(best));
}

const struct skep_ops *skep_ops_cpu(void)
{
    pthread_once(&chosen, choose);
    return best;
}

size_t skep_ops_cpu_tables(const struct skep_ops **ret_tables, size_t limit)
{
    pthread_once(&filled, fill_tables);
    size_t count = table_count < limit ? table_count : limit;
    for (size_t i = 0; i < count; i++) {
        ret_tables[i] = &tables[i];
    }
    return count;
}
