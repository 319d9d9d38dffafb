/*
 * Standings: what the last seals of one shard say to its next merge: which donors are left out of it (standing.h), and how large an update
 * may be (skep_merge_norm_limit()). A pure fold over the seals of a fixed window, the SKEP_STANDINGS_SEALS newest: so it depends on the head
 * alone, and two keepers with the same head judge alike, whether one of them was there all the time, has restarted, or has jumped
 * over versions. Anyone who holds the seals can repeat it.
 *
 *   seals v-63 .. v, oldest first   --- receipts: (donor, agreement) --->   standing of each donor   --- those of the list --->  left out
 *                                   --- norms of the 16 newest ---------->  norm limit
 *
 * A window and not the whole chain, so that a keeper needs few seals to begin, and what a donor was like long ago is forgiven: a donor
 * without an update in the window has no past. Of an average over some ten rounds 64 hold all but a thousandth.
 *
 * Three kinds of receipts say nothing of their donor and are passed over: near-copies (otherwise who has a bad standing would copy his way
 * back, without work), updates of rounds in which no other one was merged (there is nothing to agree with), and those that were not
 * merged and agree to exactly 0, which is what updates of zeros alone do (an expert that saw no token).
 *
 * Cost: window * updates per round for each donor judged; memory 40 bytes for each receipt of the window.
 */
#ifndef SKEP_MERGE_STANDINGS_H
#define SKEP_MERGE_STANDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/merge/standing.h"
#include "common/wire/statements.h"

#define SKEP_STANDINGS_SEALS 64u

struct skep_standings;

/* As of version 0: nobody has a past. */
struct skep_standings *skep_standings_new(void);
void skep_standings_free(struct skep_standings *standings);

/* The next seal. Seals come in order of version without a gap: one that does not follow begins a new window. */
void skep_standings_push(struct skep_standings *standings, const struct skep_seal *seal);

/* The version up to which the seals came; 0 at first. */
uint64_t skep_standings_version(const struct skep_standings *standings);
/* Does it hold all seals of the window below its version? Only then it may be asked. */
bool skep_standings_whole(const struct skep_standings *standings);

/* One donor's, over the window. */
struct skep_standing skep_standings_of(const struct skep_standings *standings,
                                       const struct skep_peer_id *donor);
/* Which of a list's donors (count of them, at most SKEP_LIMIT_UPDATES_PER_ROUND) are left out of the merge onto this version. */
void skep_standings_judge(const struct skep_standings *standings, const struct skep_peer_id *donors,
                          size_t count, bool *ret_left_out);
/* For the merge onto this version: see skep_merge_norm_limit(). */
uint64_t skep_standings_norm_limit(const struct skep_standings *standings);

#endif
