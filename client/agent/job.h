/*
 * One job of the donor: the ticket, what it fetches, the worker that trains it and the updates that come of it. agent.c calls these in
 * the order of its states; each works on what the one before left here.
 *
 * From skep_job_start() on the job lives in a folder of its own, with job.json, links to the states, moments and residuals that it
 * begins with (so that nothing else can change or remove them), and what the worker leaves there. It is *kept* until it is published
 * or dropped: a worker that was stopped, or ended any other way but by an error, is started again and goes on from its checkpoint, also
 * by the next skepd (skep_job_load()).
 */
#ifndef SKEP_CLIENT_AGENT_JOB_H
#define SKEP_CLIENT_AGENT_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/agent/outbox.h"
#include "client/network/session.h"
#include "common/base/error.h"
#include "common/crypto/key.h"
#include "common/swarm/job-file.h"
#include "common/sys/process.h"

/* Zero-initialise; free with skep_job_done(). */
struct skep_job {
    uint64_t trunk_version;
    struct skep_hash ticket;
    size_t place_count;
    size_t *places; /* of data chunks */
    size_t shard_count;
    size_t *shards; /* places in the manifest's order; the trunk first */
    struct skep_sealed *bases;
    char *folder;
    struct skep_process *worker;
    uint64_t started_ms;
    uint64_t started_tokens;    /* trained before this worker was started */
    bool counting;              /* started_tokens is known */
    bool kept;                  /* in its folder, to be gone on with */
    unsigned crashes;           /* workers that ended without a word */
    struct skep_job_event last; /* newest progress, or done */
    bool stopped;               /* the worker's last word was that its checkpoint is written */
    bool damaged;               /* the worker found that a state is not what its root says: */
    struct skep_shard damaged_shard;
    size_t published;  /* shards whose updates are in the outbox */
    char failure[256]; /* what the worker said when it failed */
};

/* How the worker is to compute. */
struct skep_job_means {
    uint32_t threads;
    bool recompute;
    const char *device;
};

/* Also ends a worker that still runs. */
void skep_job_done(struct skep_job *job);
/* From the fetched trunk: version, ticket and data chunks. */
void skep_job_draw(struct skep_job *job, const struct skep_session *session,
                   const struct skep_peer_id *donor);
/* From trunk and chunks: the shards of the job. */
int skep_job_route(struct skep_job *job, struct skep_session *session, struct skep_error *err);
/* Leaves out shards that could not be fetched (`have` is in the order of shards); SKEP_ERR_NETWORK if the trunk or all experts
 * are missing. */
int skep_job_keep(struct skep_job *job, const bool *have, struct skep_error *err);

typedef void (*skep_job_exit)(void *user, int status);
typedef void (*skep_job_progress)(void *user);
struct skep_job_watch {
    struct skep_job *job;
    skep_job_progress on_progress; /* job->last is new */
    skep_job_exit on_exit;         /* the worker has ended */
    void *user;
};
/* Makes the job's folder unless the job is kept, writes the job file and starts the worker. `watch` is copied into the process's
 * callbacks by pointer: keep it alive. */
int skep_job_start(struct skep_job *job, struct skep_session *session,
                   const struct skep_outbox *outbox, const struct skep_job_means *means,
                   const struct skep_job_watch *watch, struct skep_error *err);
/* Takes up the job that an earlier run left in its folder; false if there is none (one that cannot be read is removed, with a line in
 * the log). Needs the manifest. */
bool skep_job_load(struct skep_job *job, struct skep_session *session);
/* Removes the fetched state that the worker found damaged, if it found one: it will be fetched again. */
void skep_job_forget_damaged(const struct skep_job *job, const struct skep_session *session);
/* Removes the job with its folder, and ends a worker that still runs. */
void skep_job_drop(struct skep_job *job);
/* Takes one line of the worker's output. */
void skep_job_line(struct skep_job *job, const char *line);
/* Signs the updates, which name the donor's stamp, and puts them into the outbox; the job is kept no longer. */
int skep_job_publish(struct skep_job *job, struct skep_session *session, struct skep_outbox *outbox,
                     const struct skep_key *key, uint64_t stamp, struct skep_error *err);

#endif
