/*
 * Real jobs to be repeated, for audit-replay: the donors of a lab (lab.h) work rounds until one has a history, and then one
 * of its jobs again and again on other instruction sets, thread counts and matrix products, honestly or not. A job is written to a
 * file so that another process (with another OpenBLAS kernel, which is chosen at its start) can repeat it.
 */
#ifndef TESTS_BENCH_AUDIT_JOBS_H
#define TESTS_BENCH_AUDIT_JOBS_H

#include <stdint.h>
#include <stdio.h>

#include "tests/bench/lab.h"

#define JOBS_DONORS 3u

/* How a job is done. */
enum jobs_way {
    JOBS_HONEST,
    JOBS_STEP_FEWER,  /* H - 1 steps */
    JOBS_HALF,        /* H / 2 steps */
    JOBS_OTHER_SEED,  /* batches in another order */
    JOBS_OTHER_SLICE, /* other data */
    JOBS_POISON_5,    /* 5 % of the records wrong, of a text 5 % replaced by one sentence */
    JOBS_FLIP,        /* all labels 9 - c; of a text all letters mirrored */
    JOBS_WAYS,
};
const char *jobs_way_name(enum jobs_way way);

/* Stays where it is: the lab points to the manifest. */
struct jobs {
    struct skep_manifest manifest;
    uint8_t *data;
    size_t data_size;
    struct lab lab; /* of JOBS_DONORS, and one who repeats */
};

/* Text of `path`, or, NULL, records of 28 x 28 pixels: a smooth pattern for each of ten classes, moved and with noise. */
void jobs_init(struct jobs *jobs, const char *path);
void jobs_done(struct jobs *jobs);
/* A round: a job of each donor, merged. */
void jobs_round(struct jobs *jobs);

/* The job of donor 0 at the newest version, done on `ops` from its history, which stays as it was. ret_bodies has one for each shard of
 * the lab; those of shards that the job does not touch have no tensors. */
void jobs_replay(struct jobs *jobs, const struct skep_ops *ops, enum jobs_way way,
                 struct skep_update_body *ret_bodies);
void jobs_bodies_free(const struct jobs *jobs, struct skep_update_body *bodies);

/* State, history of donor 0 and version, to a file and back into a lab of the same data. */
void jobs_write(const struct jobs *jobs, FILE *file);
void jobs_read(struct jobs *jobs, FILE *file);
/* Bodies likewise, through the encoding that travels. */
void jobs_bodies_write(const struct jobs *jobs, const struct skep_update_body *bodies, FILE *file);
void jobs_bodies_read(const struct jobs *jobs, FILE *file, struct skep_update_body *ret_bodies);

#endif
