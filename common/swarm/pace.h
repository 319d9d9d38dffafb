/*
 * Pace: updates that come faster than work can be done. Local to a keeper, from its own clock (which comes in with each call), so
 * keepers may differ in what they refuse; whoever is refused by a few is still accepted by the others.
 *
 *   too-fast   the update of a job comes sooner after its base version was sealed here than the job's operations take at
 *              SKEP_LIMIT_DONOR_FLOPS: nobody computes that fast, so it was not computed. Versions that were here when the keeper
 *              started have no time and are not looked at.
 *              A donor has one ticket for each trunk version (a hash of both) and one of them in work: the first update with the
 *              ticket of a newer trunk version may not come sooner after that of the ticket before it either.
 *   rate       a token bucket for each donor, over all shards: it fills with twice the project's shards in a window (the manifest's
 *              merge.window_ms, at most SKEP_PACE_WINDOW_MS, since enough updates close a window early) and holds SKEP_PACE_WINDOWS
 *              windows' shards: a machine that slept has much to send at once. Updates that are refused later are counted too.
 *
 * Bounds: SKEP_PACE_DONORS donors are remembered, the one seen longest ago is forgotten; forgetting makes a donor's bucket full again,
 * which a liar with so many stamped keys may have.
 */
#ifndef SKEP_SWARM_PACE_H
#define SKEP_SWARM_PACE_H

#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/wire/manifest.h"
#include "common/wire/statements.h"

#define SKEP_PACE_DONORS 4096u
#define SKEP_PACE_WINDOWS 8u
#define SKEP_PACE_WINDOW_MS 1000u

struct skep_pace;

/* `seed`: a random number (swarm/donors.h). */
struct skep_pace *skep_pace_new(const struct skep_manifest *manifest, uint64_t seed);
void skep_pace_free(struct skep_pace *pace);

/* May this update come now? `sealed_ms`: when its base version came to be here, UINT64_MAX if that is not known. Counts the update.
 * SKEP_ERR_STATE: reason "too-fast" or "rate", to be tried again later. */
int skep_pace_admit(struct skep_pace *pace, const struct skep_update_statement *statement,
                    uint64_t sealed_ms, uint64_t now_ms, struct skep_error *err);

#endif
