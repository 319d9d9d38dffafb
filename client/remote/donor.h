/*
 * A donor in remote mode (arXiv 2002.04013): it holds the trunk alone, and its trainers have experts computed where they are kept
 * (network/experts.h). So a machine that could never hold the model's experts trains it, and a slow network costs it only time.
 *
 *   loop's thread   follows the trunk: each new version is fetched, and its ticket draws the next slice of data (swarm/ticket.h);
 *                   sends the trunk's updates (agent/outbox.h)
 *   trainers        each takes the newest trunk and slice, runs forward and backward passes through the experts' keepers with a
 *                   line of its own, and leaves the trunk's gradients in the common gathering (gathering.h)
 *   steward         finds the donor's stamp (swarm/stamp.h); then asks keepers for the updates that the experts' gradients give, signs them and hands them in
 *
 * Trainers wait for nothing but their own calls: no rounds, no barrier. What they compute is stale by as many versions as are sealed
 * while one batch is on its way.
 */
#ifndef SKEP_CLIENT_REMOTE_DONOR_H
#define SKEP_CLIENT_REMOTE_DONOR_H

#include <stdbool.h>
#include <stdint.h>

#include "client/network/session.h"
#include "common/base/error.h"
#include "common/crypto/key.h"
#include "common/sys/loop.h"

#define SKEP_REMOTE_TRAINERS 64u

struct skep_remote_donor;

struct skep_remote_donor_options {
    struct skep_session
        *session; /* with its manifest (skep_session_find() has succeeded); borrowed */
    const struct skep_key *key; /* borrowed */
    uint32_t trainers;          /* 1 .. SKEP_REMOTE_TRAINERS */
    uint32_t batch;             /* records of one pass; 0: the manifest's training.batch */
    uint32_t
        period_ms; /* the trunk's and each expert's gradients become an update this often, if the network lets them */
    /* Called by trainer `trainer`, in its thread, before each call of a layer's experts; may wait. NULL: nothing. */
    void (*before_call)(void *user, uint32_t trainer);
    void *user;
};

/* Counts since the start. */
struct skep_remote_progress {
    uint64_t batches;        /* forward and backward passes that were finished */
    uint64_t tokens;         /* of them: tokens or records with a loss */
    uint64_t correct;        /* classifiers: records whose class got the largest logit */
    double nats;             /* summed loss */
    uint64_t failed;         /* batches that were given up */
    uint64_t trunk_updates;  /* made */
    uint64_t expert_updates; /* handed in */
    uint64_t expert_early;   /* had to wait for the next version */
    uint64_t expert_failed;
    uint64_t trunk_version; /* that trainers work on */
};

/* Starts everything; `loop` is the session's and has to be run. */
int skep_remote_donor_open(const struct skep_remote_donor_options *options,
                           struct skep_remote_donor **ret_donor, struct skep_error *err);
/* Ends trainers and steward and waits for them: a batch under way is given up before its next call, a call is waited for. */
void skep_remote_donor_stop(struct skep_remote_donor *donor);
/* After stop and after the session was closed, whose last callbacks come here. */
void skep_remote_donor_free(struct skep_remote_donor *donor);
void skep_remote_donor_progress(struct skep_remote_donor *donor,
                                struct skep_remote_progress *ret_progress);

#endif
