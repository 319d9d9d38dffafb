/*
 * Data for the attack grid: records of a classifier or a text, in an order that makes donors' slices alike or unlike.
 */
#ifndef SKEP_TESTS_BENCH_ATTACK_DATA_H
#define SKEP_TESTS_BENCH_ATTACK_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/wire/model-config.h"

struct attack_data_options {
    const char
        *path; /* a folder with MNIST's files, or a text; NULL: drawn from a seed, or the GPL */
    const struct skep_model_config *model;
    bool sorted;
    uint64_t seed;
};

struct attack_data {
    uint8_t *train;
    uint8_t *flipped; /* the same with class C - 1 - y; of a text, with bytes 255 - b */
    size_t train_size;
    uint8_t *test;
    size_t test_size;
};

int attack_data_open(const struct attack_data_options *options, struct attack_data *ret_data,
                     struct skep_error *err);
void attack_data_close(struct attack_data *data);

#endif
