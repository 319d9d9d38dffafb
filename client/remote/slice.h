/*
 * What trainers work on: one version of the trunk, and the slice of data that its ticket gives this donor (swarm/ticket.h). Does not
 * change once made; held by whoever uses it and freed by the last of them.
 */
#ifndef SKEP_CLIENT_REMOTE_SLICE_H
#define SKEP_CLIENT_REMOTE_SLICE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "client/network/session.h"
#include "common/base/error.h"
#include "common/base/id.h"
#include "common/model/train.h"

struct skep_remote_slice {
    atomic_uint users;
    atomic_uint batches; /* drawn so far: the number of the next */
    uint64_t version;
    struct skep_hash root; /* of the trunk's state */
    struct skep_hash ticket;
    float *trunk;   /* its parameters */
    size_t count;   /* chunks */
    size_t *places; /* of the chunks, in the training set */
    struct skep_buffer *texts;
    struct skep_slice_chunk *chunks;
};

/* Draws the slice of the newest trunk that the session has fetched; one user. Its chunks may have to be fetched before fill(). */
struct skep_remote_slice *skep_remote_slice_draw(const struct skep_session *session,
                                                 const struct skep_peer_id *donor);
/* Reads the trunk and the chunks from the session's folder. */
int skep_remote_slice_fill(struct skep_remote_slice *slice, struct skep_session *session,
                           struct skep_error *err);
void skep_remote_slice_hold(struct skep_remote_slice *slice);
/* NULL is no slice. */
void skep_remote_slice_release(struct skep_remote_slice *slice);
/* Windows [batch, window] of the next batch: each is drawn once, whoever asks. */
int skep_remote_slice_batch(struct skep_remote_slice *slice, const struct skep_model_config *config,
                            uint32_t batch, uint8_t *ret_windows, struct skep_error *err);

#endif
