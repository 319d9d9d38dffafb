/*
 * The job file: what skepd, or a keeper that audits, tells skep-worker, as JSON, and the names of what the worker leaves beside it.
 *
 *   {"manifest": path of the signed manifest, "ticket": hex, "trunk_version": n, "chunks": [paths],
 *    "shards": [{"shard": name, "base_version": n, "root": hex, "state": path, "moments": path, "residual": path}...],      the trunk first
 *    "threads": n, "recompute": bool, "device": "cpu", "cuda" or "auto", "checkpoint_s": n}
 *
 * `root` is the sealed hash that the state must have. moments and residual may name files that do not exist yet (zeros then); where
 * one of the two is damaged the worker removes both and begins with zeros. It writes <shard>.body, <shard>.moments, <shard>.residual and
 * `checkpoint` (client/worker/checkpoint.h) into the job file's folder and changes nothing else; the agent moves them into place once the
 * update is accepted, so a job that is killed changes nothing. Started again with the same job file, the worker goes on from the checkpoint.
 *
 * On stdin, a line "threads N" changes their number from the next step on. On SIGTERM or SIGINT it stops computing, says "halted",
 * writes the checkpoint unless the one on the disk is as good, says "stopped" and ends with status 0. On stdout, a line per event:
 *
 *   {"event":"progress","step":n,"loss":nats,"tokens":n}
 *   {"event":"halted","step":n,"tokens":n}     nothing is computed any more
 *   {"event":"stopped","step":n,"tokens":n}    and the checkpoint is on the disk
 *   {"event":"done","tokens":n,"loss_first":nats,"loss_last":nats,"peak_bytes":n}     most memory it ever had
 *   {"event":"error","reason":name,"message":text,"damaged":shard}     reason: skep_err_name(); damaged: only if that shard's state is not
 *                                                                      what its root says
 */
#ifndef SKEP_SWARM_JOB_FILE_H
#define SKEP_SWARM_JOB_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"

struct skep_job_shard {
    struct skep_shard shard;
    uint64_t
        base_version; /* of which this is the state: it seeds the common mask, and the update says it */
    struct skep_hash root;
    char *state;
    char *moments;
    char *residual;
};

/* Zero-initialise; free with skep_job_file_done(). */
struct skep_job_file {
    char *manifest;
    struct skep_hash ticket;
    uint64_t trunk_version;
    size_t chunk_count;
    char **chunks;
    size_t shard_count;
    struct skep_job_shard *shards;
    /* How it is computed, which is not part of what the job is. */
    uint32_t threads;
    bool recompute;
    char *device;
    uint32_t checkpoint_s; /* at least so far apart; 0: none but when stopped */
};

#define SKEP_JOB_THREADS 1024u /* at most */

void skep_job_file_done(struct skep_job_file *job);
char *skep_job_file_encode(const struct skep_job_file *job);
/* What the job is, for a checkpoint to name: a hash over all that decides its result but threads and device. Paths do not count, since
 * a donor's folder may move; the states' roots do. */
struct skep_hash skep_job_file_identity(const struct skep_job_file *job);
/* SKEP_ERR_FORMAT for unknown or missing fields, no chunk, no shard, a shard twice, or a first shard that is not the trunk. */
int skep_job_file_decode(const void *text, size_t size, struct skep_job_file *ret_job,
                         struct skep_error *err);

enum skep_job_event_kind {
    SKEP_JOB_PROGRESS,
    SKEP_JOB_HALTED,
    SKEP_JOB_STOPPED,
    SKEP_JOB_DONE,
    SKEP_JOB_ERROR,
};

struct skep_job_event {
    enum skep_job_event_kind kind;
    uint64_t step;
    uint64_t tokens;
    double loss; /* nats per token; of the last quarter for done */
    double loss_first;
    uint64_t peak_bytes;
    enum skep_err code; /* of an error; SKEP_OK where it does not say */
    char message[512];
    bool damaged; /* the state of this shard */
    struct skep_shard shard;
};

int skep_job_event_decode(const char *line, struct skep_job_event *ret_event,
                          struct skep_error *err);
char *skep_job_event_encode(const struct skep_job_event *event);

#endif
