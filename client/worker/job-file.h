/*
 * The job file: what skepd tells skep-worker, as JSON, and the names of what the worker leaves beside it.
 *
 *   {"manifest": path of the signed manifest, "ticket": hex, "trunk_version": n, "chunks": [paths],
 *    "shards": [{"shard": name, "state": path, "moments": path, "residual": path}...]}      the trunk first
 *
 * moments and residual may name files that do not exist yet (zeros then). The worker writes <shard>.body, <shard>.moments and
 * <shard>.residual into the job file's folder and changes nothing else; the agent moves them into place once the update is accepted,
 * so a job that is killed changes nothing.
 *
 * On stdout, a line per event: {"event":"progress","step":n,"loss":nats,"tokens":n},
 * {"event":"done","tokens":n,"loss_first":nats,"loss_last":nats} or {"event":"error","message":text}.
 */
#ifndef SKEP_CLIENT_WORKER_JOB_FILE_H
#define SKEP_CLIENT_WORKER_JOB_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"

#define SKEP_JOB_SHARDS 4096u /* at most in one job */

struct skep_job_shard {
    struct skep_shard shard;
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
};

void skep_job_file_done(struct skep_job_file *job);
char *skep_job_file_encode(const struct skep_job_file *job);
/* SKEP_ERR_FORMAT for unknown or missing fields, no chunk, no shard, a shard twice, or a first shard that is not the trunk. */
int skep_job_file_decode(const void *text, size_t size, struct skep_job_file *ret_job,
                         struct skep_error *err);

enum skep_job_event_kind {
    SKEP_JOB_PROGRESS,
    SKEP_JOB_DONE,
    SKEP_JOB_ERROR,
};

struct skep_job_event {
    enum skep_job_event_kind kind;
    uint64_t step;
    uint64_t tokens;
    double loss; /* nats per token; of the last quarter for done */
    double loss_first;
    char message[512];
};

int skep_job_event_decode(const char *line, struct skep_job_event *ret_event,
                          struct skep_error *err);
char *skep_job_event_encode(const struct skep_job_event *event);

#endif
