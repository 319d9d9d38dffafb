/*
 * A table of operations that measures another: each call is passed on and its processor time (of the calling thread) added to its
 * operation; products are kept apart by their sizes. One measured table exists at a time, for one thread. For benchmarks that
 * print where time goes.
 */
#ifndef SKEP_TESTS_BENCH_TIMED_OPS_H
#define SKEP_TESTS_BENCH_TIMED_OPS_H

#include "common/tensor/ops.h"

/* Starts counting from zero. `ops` stays borrowed. */
const struct skep_ops *timed_ops(const struct skep_ops *ops);
/* From now on products are kept apart by their sizes rounded up to powers of two: for sizes that vary from call to call. */
void timed_ops_round(bool rounded);
/* A table on stderr, the largest first: milliseconds and calls for one of `passes`, share, and GFLOP/s of products. */
void timed_ops_print(const char *title, unsigned passes);

#endif
