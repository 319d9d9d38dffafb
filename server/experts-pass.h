/*
 * The arithmetic of remote mode: one batch of tasks of one expert (experts-queue.h), on a runner's own memory.
 *
 *   forward    the rows of all tasks in one matrix, one pass, rows of the result to each task's answer
 *   backward   for each caller: his rows in one matrix, forward again (nothing was kept of it: arXiv 2002.04013, section 3.2), the way
 *              back, dx to the answers, the parameters' gradient to his account. Callers are not mixed, because each signs for his own
 *              gradient; they still share the batch, in which the weights are in the cache.
 *   update     one AdamW step (arXiv 1711.05101) of the newest version along the account's mean gradient per backward pass, with the
 *              manifest's training settings, moments and clipping; its difference compressed with the account's residual (merge/compress.h),
 *              exactly as a donor does with a whole job. The keeper itself changes nothing but the account: the step goes back to the
 *              caller, who signs it, and then through admission and merge like every other.
 *
 * The learning rate of a step is skep_train_rate() of the expert's own version: a keeper of the expert need not keep the trunk.
 *
 * A task whose result is not finite fails alone (SKEP_ERR_NUMERIC) and leaves nothing in the account. Only accounts are shared between
 * runners; each is locked while its numbers are read or changed.
 */
#ifndef SKEP_SERVER_EXPERTS_PASS_H
#define SKEP_SERVER_EXPERTS_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/tensor/ops.h"
#include "server/experts-queue.h"
#include "server/experts-sessions.h"
#include "server/shape.h"

/* One version of one expert as floats. `shape` and `values` do not change; the rest is the cache's (experts.h). */
struct skep_remote_parameters {
    struct skep_remote_parameters *next;
    const struct skep_shape *shape; /* borrowed from the kept shard */
    uint64_t version;
    struct skep_hash root;    /* of the state */
    struct skep_hash payload; /* of the seal */
    float *values;            /* shape->layout.parameters of them */
    size_t users;             /* tasks */
    uint64_t used_ms;
};

/* A runner's memory, which grows to what its largest batch needs. Zero-initialise, set ops, free with skep_remote_desk_done(). */
struct skep_remote_desk {
    const struct skep_ops *ops; /* a table whose memory is the host's */
    float *memory;
    size_t size; /* floats */
};

void skep_remote_desk_done(struct skep_remote_desk *desk);
/* Computes all tasks of a batch and sets their results. */
void skep_remote_desk_run(struct skep_remote_desk *desk, struct skep_remote_task *batch);

/* Are these little-endian float32 all finite? */
bool skep_remote_finite(const uint8_t *bytes, size_t count);

#endif
