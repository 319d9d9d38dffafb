/*
 * One job while it is in memory: read from its files, trained, kept when it is stopped, written when it is done. main.c calls these in
 * the order of a job's life:
 *
 *   read (work.c) -> begin, or take up a checkpoint (checkpoint.h) -> skep_train_run() -> parts (parts.h)
 *
 * Memory, in floats for P parameters of all shards and E of the largest: P parameters, P gradients and 2 P moments in the back end, the
 * activations of one batch, and E on the host (`scratch`); while parts are written another E. Files pass through in pieces, but for
 * one state at a time.
 */
#ifndef SKEP_CLIENT_WORKER_WORK_H
#define SKEP_CLIENT_WORKER_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/model/layout.h"
#include "common/model/model.h"
#include "common/model/train.h"
#include "common/swarm/job-file.h"
#include "common/wire/manifest.h"

/* Zero-initialise; free with skep_work_done(). */
struct skep_work {
    char *folder; /* of the job file: all that is written goes there */
    int lock;     /* one worker at a time has it */
    struct skep_job_file job;
    struct skep_manifest manifest;
    const struct skep_ops *ops;
    struct skep_model *model;
    struct skep_shard *shards; /* in the order of the job file, as the following */
    struct skep_layout *layouts;
    struct skep_moments *moments;
    struct skep_buffer *texts;
    struct skep_slice_chunk *chunks;
    float *scratch; /* as long as the largest shard */
    struct skep_train_position position;
    uint32_t parts; /* shards of which all is written that a job leaves (parts.h) */
    const struct skep_shard
        *damaged; /* after an error: the shard whose state is not what its root says */
};

/* Reads job file, manifest and data chunks, and makes the model without its shards. */
int skep_work_open(struct skep_work *work, const char *path, struct skep_error *err);
/* Reads the states, moments and residuals that the job begins with. Moments that are damaged are the donor's own: they begin anew from zero,
 * with a line in the log. */
int skep_work_begin(struct skep_work *work, struct skep_error *err);
void skep_work_done(struct skep_work *work);

/* The state file of shard i, whole and with the right root; the caller frees. */
int skep_work_read_state(struct skep_work *work, size_t i, struct skep_buffer *ret_file,
                         struct skep_error *err);
/* SKEP_ERR_CANCELLED once the flag of skep_ops_set_stop() is set. */
int skep_work_stopped(struct skep_error *err);
/* FOLDER/<shard>.<what>; the caller frees. */
char *skep_work_path(const struct skep_work *work, size_t i, const char *what);

#endif
