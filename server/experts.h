/*
 * The remote mode of this keeper (arXiv 2002.04013, section 3.2): computing the experts it keeps for callers who hold only the trunk.
 *
 *   loop's thread                              runners (--remote-threads of them)
 *   handler: request -> tasks -> [queue] ----> batch: oldest first, same expert and pass (experts-queue.h)
 *            the exchange is held              experts-pass.h
 *   reply <- all tasks of the request done <-- [done], and a wake-up
 *
 * The loop never computes; runners touch only the queue and the list of done tasks (under one lock), the numbers of accounts (under
 * theirs), and what tasks point to, which stays as it is while a task is under way: bodies and answers (the request's), floats of one
 * version of an expert (a cache here), shapes (the project's).
 *
 * Bounds: SKEP_REMOTE_TASKS tasks and SKEP_REMOTE_BYTES of bodies and answers wait at most (then SKEP_ERR_STATE, which the API answers
 * with 503 and Retry-After); floats of experts and accounts of callers take --remote-memory each; a runner's own memory is what a batch of
 * --remote-batch rows needs.
 */
#ifndef SKEP_SERVER_EXPERTS_H
#define SKEP_SERVER_EXPERTS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/sys/http-server.h"
#include "server/experts-pass.h"
#include "server/experts-queue.h"
#include "server/experts-sessions.h"

#define SKEP_REMOTE_TASKS 4096u
#define SKEP_REMOTE_BYTES ((size_t)256 << 20)
#define SKEP_REMOTE_RETRY_S 1u

struct skep_host;
struct skep_kept_shard;
struct skep_remote;

/* One HTTP exchange. Made by a handler, which fills in its tasks; once submitted it belongs to the remote mode. */
struct skep_remote_request {
    struct skep_remote_request *next;
    struct skep_remote *remote;
    struct skep_http_held *held;
    struct skep_peer_id caller; /* of updates */
    size_t bytes; /* of body and answer, counted when submitted: finish() takes the answer away */
    struct skep_buffer answer; /* where the tasks' answers lie */
    size_t left;               /* tasks not done yet */
    size_t count;
    struct skep_remote_task *tasks;
    /* Called on the loop when all tasks are done, to make the reply of their results. */
    void (*finish)(struct skep_remote_request *request, struct skep_http_reply *reply);
};

/* With the runners started; NULL in *ret_remote if the options turn remote mode off. */
int skep_remote_open(struct skep_host *host, struct skep_remote **ret_remote,
                     struct skep_error *err);
/* Stops the runners in the middle of what they do and answers all that waits with 503. Before the server and the projects. */
void skep_remote_close(struct skep_remote *remote);

struct skep_remote_sessions *skep_remote_sessions_of(struct skep_remote *remote);
uint64_t skep_remote_now_ms(const struct skep_remote *remote);
/* Rows in one batch, and so in one tensor, at most. */
size_t skep_remote_rows_limit(const struct skep_remote *remote);

/* Room for `count` tasks; the caller may lower request->count. */
int skep_remote_request_new(struct skep_remote *remote, size_t count,
                            struct skep_remote_request **ret_request, struct skep_error *err);
/* Of a request that was not submitted. */
void skep_remote_request_free(struct skep_remote_request *request);
/* Makes task i one of this expert, in its newest version: held for the request's life. */
int skep_remote_request_expert(struct skep_remote_request *request, size_t i,
                               struct skep_kept_shard *shard, struct skep_error *err);
/* And of this account. */
void skep_remote_request_account(struct skep_remote_request *request, size_t i,
                                 struct skep_remote_account *account);
/* Queues all tasks and holds the exchange; SKEP_ERR_STATE if there is no room, and then the request is the caller's still. */
int skep_remote_submit(struct skep_remote_request *request,
                       const struct skep_http_exchange *exchange, struct skep_error *err);

#endif
