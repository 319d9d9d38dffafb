/*
 * The CPU's table with things going wrong: it counts what is asked of it, and at a chosen call asks for a stop, breaks, or has no
 * memory. One at a time.
 */
#ifndef SKEP_TESTS_SPOILED_OPS_H
#define SKEP_TESTS_SPOILED_OPS_H

#include <stdatomic.h>

#include "common/tensor/ops.h"

struct spoiled {
    size_t calls;        /* products, AdamW pieces and combinations so far */
    size_t stop_at;      /* the flag is set before this call, counted from 1; 0: never */
    size_t break_at;     /* from this call on status says SKEP_ERR_IO; 0: never */
    size_t memory_asked; /* bytes of all memory_new() */
    size_t memory_calls;
    size_t memory_fails_at; /* counted from 1; 0: never */
    size_t memory_held;     /* pieces not freed */
};

extern struct spoiled spoiled;
/* The flag, to be given to skep_ops_set_stop(). */
extern atomic_bool spoiled_stop;

/* With everything above at 0 and the flag off. */
const struct skep_ops *spoiled_ops(void);

#endif
