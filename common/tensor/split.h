/*
 * Work cut into parts: the threads of the CPU tables, and the places where they look whether they shall stop.
 *
 * A kernel says how many items it has (rows, columns, values), what one costs and by which multiples they may be cut. Where the cuts
 * fall never changes a result: an item is computed by one thread, in one order. So results do not depend on the number of threads.
 *
 * The threads are our own and few lines: GNU's OpenMP cannot be had with every compiler and waits by spinning, and pthreadpool
 * (the one behind PyTorch) fixes its number of threads at its birth and looks at no flag. They sleep when there is nothing to do, and none
 * exists while one thread is asked for. One caller at a time has them; another caller meanwhile works by itself. Private to
 * common/tensor.
 */
#ifndef SKEP_TENSOR_SPLIT_H
#define SKEP_TENSOR_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/tensor/ops.h"

/* Computes items begin to end of a call. */
typedef void (*skep_split_part)(const void *call, size_t begin, size_t end);

struct skep_split {
    size_t count; /* items */
    size_t cost;  /* values touched by one item */
    size_t step;  /* cuts fall on multiples of it */
    bool whole;   /* never stopped: half of it would be neither the old values nor the new */
};

/* Returns when all parts are done, or, if it is not `whole`, soon after the stop flag was set. */
void skep_split(skep_split_part part, const void *call, struct skep_split split);

static inline void skep_split_rows(skep_split_part part, const void *call, struct skep_rows rows)
{
    skep_split(part, call, (struct skep_split){rows.count, rows.dim, 1, false});
}

/* For sums over rows: each column is one thread's. 64 values are some cache lines, and whole vectors of any width. */
static inline void skep_split_columns(skep_split_part part, const void *call, struct skep_rows rows)
{
    skep_split(part, call, (struct skep_split){rows.dim, rows.count, 64, false});
}

static inline void skep_split_values(skep_split_part part, const void *call, size_t count)
{
    skep_split(part, call, (struct skep_split){count, 1, 4096, false});
}

/* A stop flag is registered. */
bool skep_split_can_stop(void);

/* The number last given to skep_ops_set_threads(). */
unsigned skep_split_threads(void);
/* Threads that exist beside the callers. For tests. */
unsigned skep_split_living(void);

#endif
