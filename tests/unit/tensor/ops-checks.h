/*
 * Every operation of a table against another table: plain sizes and edge sizes, gathered and repeated rows, strides. Works on
 * tables whose arrays lie elsewhere (a GPU's), because it goes through memory_new, copy_in and copy_out for all of them.
 *
 * Each array of a check exists twice, once for each table, with the same values and some more behind its end. After the operation
 * all of them are compared, so one that an operation had no business writing is noticed, and so are values behind an end.
 */
#ifndef SKEP_TESTS_UNIT_TENSOR_OPS_CHECKS_H
#define SKEP_TESTS_UNIT_TENSOR_OPS_CHECKS_H

#include "common/tensor/ops.h"

struct skep_ops_pair {
    const struct skep_ops *ops;
    const struct skep_ops *against;
    /* Differences allowed, relative to max(1, |value|); 0: the same bits. */
    double tolerance;
    /* Threads to set before each of the two computes; 0: leave them. */
    unsigned threads;
    unsigned against_threads;
};

/*
 * The tolerance between a table and the reference: inputs are at most 1 in size unless a check says otherwise, a sum of n float32
 * products of such values rounds by sqrt(n) * 2^-24 * |partial sums| on average; n is at most 1000 here, so 1e-5, and the largest of some
 * ten thousand results is 4 times that.
 */
#define SKEP_OPS_TOLERANCE 4e-5

/* A cmocka group of all checks for all pairs, named by the tables; returns the number of failures. */
int skep_test_ops_pairs(const struct skep_ops_pair *pairs, size_t count);
/* The same for one table against the reference. */
int skep_test_ops(const struct skep_ops *ops);

#endif
