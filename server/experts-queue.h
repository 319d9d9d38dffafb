/*
 * What waits to be computed in remote mode, and in which order: tasks, each the rows that one request brings for one expert.
 *
 * A runner takes the task that has waited longest and with it the others of the same expert and pass, in the order in which they
 * came, as long as their rows fit into one batch; the first that does not fit ends the batch, so that nobody is overtaken for
 * being large. (arXiv 2002.04013's code took the newest first; hivemind mended that in 2022.) Rows that are concatenated cost one
 * pass over the expert's weights instead of many.
 *
 * Pure: no clock, no threads, no locks; whoever drives it (experts.h) has the lock.
 */
#ifndef SKEP_SERVER_EXPERTS_QUEUE_H
#define SKEP_SERVER_EXPERTS_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

enum skep_remote_pass {
    SKEP_REMOTE_FORWARD,
    SKEP_REMOTE_BACKWARD,
    SKEP_REMOTE_UPDATE, /* always alone: its work is one account's */
};

struct skep_remote_parameters;
struct skep_remote_account;
struct skep_remote_request;

/* What became of a caller's gradients. */
enum skep_remote_outcome {
    SKEP_REMOTE_EMPTY, /* there are none */
    SKEP_REMOTE_EARLY, /* he has had an update from this version; they stay */
    SKEP_REMOTE_MADE,
};

struct skep_remote_step {
    enum skep_remote_outcome outcome;
    struct skep_buffer body; /* of the update */
    uint64_t rows;           /* that the gradients came from */
};

/* Belongs to its request, which outlives it in queue and runner. */
struct skep_remote_task {
    struct skep_remote_task *next; /* in the queue, then in the batch */
    enum skep_remote_pass pass;
    struct skep_remote_parameters
        *parameters;                     /* of one version of one expert: what tasks must share */
    struct skep_remote_account *account; /* of the caller; NULL in forward passes */
    struct skep_remote_request *request;
    size_t rows;       /* 0 for updates */
    const uint8_t *x;  /* [rows, d] little-endian float32, in the request's body */
    const uint8_t *dy; /* likewise; backward only */
    uint8_t *answer;   /* [rows, d], in the request's answer: y or dx */
    /* set by the runner */
    int result;
    struct skep_error err;
    struct skep_remote_step step; /* of an update */
};

/* Zero-initialise and set the limit. */
struct skep_remote_queue {
    struct skep_remote_task *first;
    struct skep_remote_task *last;
    size_t count;
    size_t limit; /* tasks */
};

/* Appends `count` tasks or none: false if they do not fit. */
bool skep_remote_queue_push(struct skep_remote_queue *queue, struct skep_remote_task *tasks,
                            size_t count);
/* The next batch, at most `rows` rows (but never less than one task), linked by `next`; NULL if nothing waits. */
struct skep_remote_task *skep_remote_queue_take(struct skep_remote_queue *queue, size_t rows);

#endif
