/*
 * A job that was stopped, in FOLDER/checkpoint: all that skep_train_run() (model/train.h) needs to go on to the same bits.
 *
 *   "SKCP" u32 format(1)  identity[32] (skep_job_file_identity)
 *   u32 step  u64 tokens  f64 loss_first  f64 loss_last
 *   u32 updating  f64 step_loss  u64 step_tokens  f64 clip  u32 shard  u64 offset         struct skep_train_position
 *   u32 parts     of the first so many shards all is written that a job leaves (parts.h)
 *   u32 shards, then for each: u64 parameters  u64 moments' step  parameters, first and second moments, float32 each,
 *                              and if updating and the shard is number `shard` or later its gradients
 *   SHA-256 of all before
 *
 * Written beside the one of before and renamed when it is on the disk, so that a crash at any moment leaves one that is whole. It
 * belongs to this machine and this job, and means nothing elsewhere.
 */
#ifndef SKEP_CLIENT_WORKER_CHECKPOINT_H
#define SKEP_CLIENT_WORKER_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "client/worker/work.h"
#include "common/base/error.h"

#define SKEP_CHECKPOINT_BYTES_PER_MS 2000u /* written at most on average while a job runs */

int skep_checkpoint_write(const struct skep_work *work, struct skep_error *err);
/* Puts everything back into an opened work. SKEP_ERR_NOT_FOUND if there is none, SKEP_ERR_HASH if it is damaged, SKEP_ERR_FORMAT if it is
 * of another job: then the work has to begin anew (skep_work_begin), which undoes what was put back. */
int skep_checkpoint_read(struct skep_work *work, struct skep_error *err);
/* How long after one checkpoint the next is due: so many seconds as the job file says, more where they are large, so that a donor's
 * disk is not worn out by them. */
uint64_t skep_checkpoint_pause_ms(uint64_t checkpoint_bytes, uint32_t checkpoint_s);
/* Of one that is written between two steps. */
uint64_t skep_checkpoint_bytes(const struct skep_work *work);

#endif
