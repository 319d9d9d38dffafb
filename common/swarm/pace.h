/*
 * Pace: updates that come faster than work can be done. Local to a keeper, from its own clock (which comes in with each call), so
 * keepers may differ in what they refuse; whoever is refused by a few is still accepted by the others.
 *
 *   too-fast   the update of a job comes sooner after its base version was sealed here than the job's operations take at
 *              SKEP_LIMIT_DONOR_FLOPS: nobody computes that fast, so it was not computed. Versions that were here when the keeper
 *              started have no time and are not looked at.
 *   ticket     a donor has one ticket for each trunk version, so one job: a second update of a donor for the same trunk version that
 *              names another ticket, or for the same shard, is a second job. (Tickets are hashes of the trunk version and the donor,
 *              so another ticket is refused before it comes here: swarm/admission.h.)
 *   rate       a token bucket for each donor: an honest donor sends each shard of a job once in a window of the manifest, and so no
 *              more than the shards of a job in a window. It may save up SKEP_PACE_WINDOWS windows of them (its machine slept, its
 *              outbox was full), and gains twice what it can use.
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

struct skep_pace;

/* `manifest` is borrowed and must outlive the pace. */
struct skep_pace *skep_pace_new(const struct skep_manifest *manifest);
void skep_pace_free(struct skep_pace *pace);

/* May this update come now? `sealed_ms`: when its base version came to be here, UINT64_MAX if that is not known. Counts the update.
 * SKEP_ERR_STATE: reason "too-fast" or "rate", to be tried again later. */
int skep_pace_admit(struct skep_pace *pace, const struct skep_update_statement *statement,
                    uint64_t sealed_ms, uint64_t now_ms, struct skep_error *err);

#endif
