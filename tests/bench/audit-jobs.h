/*
 * Real jobs to be repeated, for audit-replay: a few donors and a keeper's merge in one process, until a donor has a history, and then one
 * of its jobs again and again on other instruction sets, thread counts and matrix products, honestly or not. A job is written to a
 * file so that another process (with another OpenBLAS kernel, which is chosen at its start) can repeat it.
 */
#ifndef TESTS_BENCH_AUDIT_JOBS_H
#define TESTS_BENCH_AUDIT_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/model/layout.h"
#include "common/model/train.h"
#include "common/wire/manifest.h"
#include "common/wire/update.h"

#define LAB_DONORS 3u
#define LAB_CHUNKS 64u /* of a slice, at most */

/* How a job is done. */
enum lab_way {
    LAB_HONEST,
    LAB_STEP_FEWER,  /* H - 1 steps */
    LAB_HALF,        /* H / 2 steps */
    LAB_OTHER_SEED,  /* batches in another order */
    LAB_OTHER_SLICE, /* other data */
    LAB_POISON_5,    /* 5 % of the records wrong, of a text 5 % replaced by one sentence */
    LAB_FLIP,        /* all labels 9 - c; of a text all letters mirrored */
    LAB_WAYS,
};
const char *lab_way_name(enum lab_way way);

struct lab_shard {
    struct skep_shard shard;
    struct skep_layout layout;
    struct skep_tiling *tilings;
    size_t *offsets;
    float *state;
};

/* What a donor has of one shard; NULL: zeros. */
struct lab_history {
    uint64_t step;
    float *first;
    float *second;
    float *residual;
};

struct lab {
    struct skep_manifest manifest;
    uint8_t *data;
    size_t data_size;
    size_t shard_count;
    struct lab_shard *shards;
    struct lab_history *histories[LAB_DONORS]; /* one a shard */
    uint64_t version;
};

/* Text of `path`, or, NULL, records of 28 x 28 pixels: a smooth pattern for each of ten classes, moved and with noise. */
void lab_init(struct lab *lab, const char *path);
void lab_done(struct lab *lab);
/* A round: a job of each donor, merged. */
void lab_round(struct lab *lab);

/* The job of donor 0 at the newest version, done on `ops` from its history, which stays as it was. ret_bodies has one for each shard of
 * the lab; those of shards that the job does not touch have no tensors. */
void lab_replay(const struct lab *lab, const struct skep_ops *ops, enum lab_way way,
                struct skep_update_body *ret_bodies);
void lab_bodies_free(const struct lab *lab, struct skep_update_body *bodies);

/* State, history of donor 0 and version, to a file and back into a lab of the same data. */
void lab_write(const struct lab *lab, FILE *file);
void lab_read(struct lab *lab, FILE *file);
/* Bodies likewise, through the encoding that travels. */
void lab_bodies_write(const struct lab *lab, const struct skep_update_body *bodies, FILE *file);
void lab_bodies_read(const struct lab *lab, FILE *file, struct skep_update_body *ret_bodies);

#endif
