/*
 * May this update be merged? What can be said of its statement without the network, a clock or memory of others: it belongs to this
 * project, its shard exists, its base version is v, v-1 or v-2 and its base state the one sealed, its ticket is the one that the
 * donor's key and the trunk's seal give, and it trained on as much as a job does. Each refusal has its own reason (base/refusal.h).
 *
 * Before it come the file's own checks: signature and body hash (swarm/update-open.h). After it the donor's stamp (swarm/stamp.h), its pace
 * (swarm/pace.h) and the body (wire/update.h, merge/mask.h). That a donor has one update for each base version is the store's to see,
 * and round.h lets only one of them into a merge.
 *
 *   ticket, job      skep_ticket_of(beacon of the trunk's version trunk_version, donor, trunk_version); the trunk's own update names
 *                    its base version. The trunk's version may be SKEP_LIMIT_TICKET_AGE behind: an expert may be slower than the
 *                    trunk, and each older version is one more slice that a donor could choose.
 *   ticket, remote   skep_ticket_of(beacon of the shard's own base version, donor, base_version): such an update cannot be repeated, so
 *                    the ticket only says whose it is and from when
 */
#ifndef SKEP_SWARM_ADMISSION_H
#define SKEP_SWARM_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/limits.h"
#include "common/wire/manifest.h"
#include "common/wire/statements.h"

#define SKEP_LIMIT_TICKET_AGE 8u /* trunk versions */

/* The newest versions of the shard: roots[s] is the state root of version - s, beacons[s] its seal's hash (swarm/ticket.h), for
 * s <= SKEP_LIMIT_STALENESS and s <= version. */
struct skep_shard_head {
    uint64_t version;
    struct skep_hash roots[SKEP_LIMIT_STALENESS + 1];
    struct skep_hash beacons[SKEP_LIMIT_STALENESS + 1];
};

/* What is known of the trunk version that the statement names. */
struct skep_trunk_view {
    uint64_t newest;         /* sealed, as far as we know */
    bool known;              /* that very version is, */
    struct skep_hash beacon; /* and this is its seal's hash */
};

/* Tokens (predicted bytes of an lm, records of a classifier) of one job of this project. */
uint64_t skep_job_tokens(const struct skep_manifest *manifest);

/* Is it of this project and of a shard of its model? other-project, no-such-shard. */
int skep_admission_check_place(const struct skep_manifest *manifest,
                               const struct skep_update_statement *statement,
                               struct skep_error *err);

/*
 * The rest, given the shard: base-stale, base-state; base-ahead and trunk-ahead (SKEP_ERR_STATE: we are behind, the donor should
 * try again); trunk-stale, ticket, tokens; remote if this project does not merge updates of remote calls.
 */
int skep_admission_check(const struct skep_manifest *manifest, const struct skep_shard_head *head,
                         const struct skep_trunk_view *trunk,
                         const struct skep_update_statement *statement, struct skep_error *err);

#endif
