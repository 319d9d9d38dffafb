/*
 * Calling experts where they are kept: the caller's side of the paper's remote mode (arXiv 2002.04013, section 3). A trainer that
 * holds only the trunk sends each chosen expert the rows that chose it and goes on with what comes back.
 *
 *   forward   rows of all groups of a layer, one request to each keeper concerned, all at once -> outputs
 *   backward  the same with the outputs' gradients -> the inputs' gradients; the keeper adds up the parameters' gradients
 *   update    asks for the step that the gradients give, checks that it says what was asked for, signs it, hands it in like any update
 *
 * Each expert is asked of one keeper of its replica set, always the same one while it answers, because the gradients gather there.
 * A keeper that fails or has not answered in time is silent for this call: its groups did not answer (the layer drops them and takes
 * the softmax over the others; in backward their gradient is zero), and for SKEP_CALLER_ASIDE_MS (twice as long
 * each time that it goes on, up to 16 times) the next of the replica set is asked.
 *
 * A skep_caller is what all trainers of one process share: who the keepers are, the key, the sessions. Each thread has a line of its
 * own, with its connections; a line is used by one thread at a time. Requests are spread over lines, so that one thread's wait is
 * nobody else's.
 */
#ifndef SKEP_CLIENT_NETWORK_EXPERTS_H
#define SKEP_CLIENT_NETWORK_EXPERTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/crypto/key.h"
#include "common/wire/manifest.h"
#include "common/wire/statements.h"

#define SKEP_CALLER_TIMEOUT_MS 10000u
#define SKEP_CALLER_ASIDE_MS 5000u

struct skep_caller;
struct skep_caller_line;
struct skep_expert_calls;

struct skep_caller_options {
    const struct skep_manifest *manifest; /* borrowed for the life of the caller */
    const struct skep_record *records; /* live keepers of the project (network/peers.h); copied */
    size_t record_count;
    const struct skep_key *key; /* the donor's, borrowed; NULL: forward only */
    uint64_t timeout_ms; /* a keeper is given so long for one call; 0: SKEP_CALLER_TIMEOUT_MS */
    uint64_t
        grace_ms; /* once one keeper has answered, the others are given so long; 0: what is left of timeout_ms */
};

struct skep_caller *skep_caller_new(const struct skep_caller_options *options);
/* The donor's stamp (swarm/stamp.h), which updates name from now on; 0 until then. From any thread. */
void skep_caller_set_stamp(struct skep_caller *caller, uint64_t nonce);
/* After all its lines. */
void skep_caller_free(struct skep_caller *caller);

struct skep_caller_line *skep_caller_line_new(struct skep_caller *caller);
void skep_caller_line_free(struct skep_caller_line *line);
/* What a model is made with (common/model/model.h): the line must outlive the model. Both calls fail only for reasons of our own
 * (no memory, no key for a backward pass); silence is no error. */
struct skep_expert_calls skep_caller_line_calls(struct skep_caller_line *line);

/* What became of a shard's gradients. */
enum skep_caller_outcome {
    SKEP_CALLER_EMPTY, /* the keeper holds none of ours */
    SKEP_CALLER_EARLY, /* there is an update of ours from the newest version already: ask again after the next */
    SKEP_CALLER_PUBLISHED, /* signed, and accepted by at least one keeper of the replica set */
    SKEP_CALLER_FAILED,    /* the keeper did not answer, lied, or nobody took the update */
};

/* Turns the gradients gathered for these shards into signed updates and hands each to the keepers of its replica set. The losses
 * (nats per token) go into the statements. The result is that of the first shard that failed, with its sentence. */
int skep_caller_line_update(struct skep_caller_line *line, const struct skep_shard *shards,
                            size_t count, double loss_first, double loss_last,
                            enum skep_caller_outcome *ret_outcomes, struct skep_error *err);

#endif
