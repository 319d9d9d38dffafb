/*
 * What a project knows of its donors: for each key how many of its updates were recomputed and found right, one after the other (n),
 * how many were merged, when it was last seen, and whether it was caught lying. A pure fold over the seals of the TRUNK in order of
 * version; all it needs stands in them, so anyone can recompute it and no keeper has to be believed.
 *
 *            valid audits                       n >= SKEP_PROBATION and seen lately
 *   new, n = 0 -----------> probation, n > 0 ---------------------------------------> trusted
 *                               ^                                                        |
 *                               +--------------- away for more than 2 versions ----------+
 *   any of them -- one invalid finding --> banned, for ever
 *
 * Why n counts audits and not merged updates. A sleeper would buy trust with work nobody looked at: it publishes anything, is merged
 * unseen, and is audited less and less for it. Counting audits only, trust costs real jobs: publishing is cheap, being found valid
 * is not, and the donor cannot know which update is looked at (audits are drawn with the seal that merged it).
 *
 * How often to look (skep_audit_permille). BOINC's adaptive replication looks at 1 job in n from n = 10 on. That is too little here: a
 * key with n = 10 has cost 10 jobs and then gets 10 updates merged for nothing before it is caught, and the next key does it again: twice
 * the influence of an honest donor per unit of compute, for one identity or a hundred (tests/bench/trust-sim measures 2.1). Let a(i) = 1 /
 * (chance of an audit at n = i), the jobs it takes to get from i to i + 1, and J(n) = a(0) + ... + a(n - 1) what n has cost. Whoever turns at
 * n gets a(n) updates merged unworked, the last of which is caught, and one more, SKEP_AUDIT_DELAY, while that audit runs. So what it
 * gains, as a share of what it has worked, is
 *
 *       (a(n) + 1) / J(n),    at its best n, whatever mix of honest and false rounds came before,
 *
 * because both branches are linear: a false round at n is worth 1 and risks all, an honest one is worth 1 and costs 1. Asking for a gain
 * of at most 1/21 at every n (the bar is 1.05 times an honest donor's influence) gives a(n) = max(1, J(n) / 21 - 1): 42 jobs that are all
 * looked at before they are merged, then rarer and rarer, down to 1 audit in 50 jobs from n = 123 on (reached after some 1100 jobs).
 * An honest donor pays for it with audits of 42 + 21 ln((J - 21) / 21) of its first J jobs: 12 % of the first 1000, 3 % of the first
 * 10,000 (BOINC's curve: 4.5 % and 2.3 %).
 *
 * Absence. Without it one machine could warm up a hundred keys, one after the other, and turn with all of them in one round. Two rules:
 *   - a key that no trunk version of the last 3 has merged is AWAY: its next update is audited before it is merged, whatever its n. A
 *     job may take as long as its update may be stale (SKEP_LIMIT_STALENESS), so a donor that computes steadily is never away. A key
 *     that strikes out of its sleep strikes into an audit; to be able to strike, it must have done a real job within 3 versions, so
 *     the compute of one machine keeps 3 keys ready, not 100. An honest donor pays one audit for each of its sittings.
 *   - for each version away n <- 0.998 n. Keys that take turns on one machine, each publishing every k-th version, stand at
 *     n* = d^m / (1 - d^m) with d = 0.998 and m = k - 3 before their audit and 1 / (1 - d^m) after it: 100 keys at 5.7, far inside
 *     probation; its limit of 42 is passed only by 15 of them or fewer, which are away all the time if they are more than 3. A night of
 *     100 versions costs an honest donor 18 % of its n. (0.95 would do as well and send everyone who sleeps back to n = 0.)
 *
 * What it cannot see: presence means being MERGED into the trunk. Where more donors than most_updates want to be merged every version,
 * those who are left out count as away; they are audited more, never banned.
 *
 * Integers only (n is fixed point, 16 bits below the point); exact on every machine.
 */
#ifndef SKEP_SWARM_REPUTATION_H
#define SKEP_SWARM_REPUTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/wire/statements.h"

/* Jobs that trust must have cost for each update it can steal. */
#define SKEP_TURN_COST 21u
/* Versions from the seal that draws an audit to the one that holds its finding. */
#define SKEP_AUDIT_DELAY 1u
/* Valid audits before a donor is trusted at all: where the curve leaves 1, SKEP_TURN_COST * (1 + SKEP_AUDIT_DELAY). */
#define SKEP_PROBATION 42u
/* The rarest audit. */
#define SKEP_AUDIT_FLOOR_PERMILLE 20u
/* n stops growing here. Audits get no rarer from 123 on, and beyond it n would only be the memory of good days. */
#define SKEP_REPUTATION_MOST 200u
/* Rows a table holds by default: some 5 MB. */
#define SKEP_REPUTATION_LIMIT 65536u

/* A row, and what is known of one donor. Plain value; all 0 is a donor never seen. */
struct skep_reputation {
    struct skep_peer_id donor;
    uint64_t earned; /* n at version `seen`, in units of 2^-16 */
    uint64_t seen;   /* last trunk version that merged (or audited) one of its updates */
    uint64_t merged; /* how many in all */
    bool banned;
    uint64_t banned_at; /* trunk version whose seal holds the finding */
    /* Not stored, worked out by skep_reputation_find() for the table's version: */
    uint32_t n; /* whole part of n after decay */
    bool away;  /* n does not help its next update */
};

struct skep_reputations;

/* An empty table before version 1, of at most `limit` (> 0) donors. */
struct skep_reputations *skep_reputations_new(size_t limit);
void skep_reputations_free(struct skep_reputations *table);

/*
 * The next trunk version. A version skipped or repeated is SKEP_ERR_STATE, another shard SKEP_ERR_ARGUMENT; then nothing changes. Receipts
 * count as presence if the update was merged or audited, audited ones and valid findings (of a donor that is known) as n + 1; an invalid
 * finding bans its donor, known or not. A full table forgets the smallest n, of equals the one seen longest ago; bans last, the oldest
 * first. (Forgetting one with n = 0 changes nothing for it but its count of merged updates.) That costs one pass over the table for each
 * donor it takes in, some milliseconds.
 */
int skep_reputation_apply(struct skep_reputations *table, const struct skep_seal *seal,
                          struct skep_error *err);

/* The newest version applied; 0 at the beginning. */
uint64_t skep_reputation_version(const struct skep_reputations *table);
/* What is known of the donor as of that version. */
struct skep_reputation skep_reputation_find(const struct skep_reputations *table,
                                            const struct skep_peer_id *donor);

/* Rows in order of donor, for storing and for lists. */
size_t skep_reputation_count(const struct skep_reputations *table);
struct skep_reputation skep_reputation_at(const struct skep_reputations *table, size_t i);
/* Rows that the last apply wrote, and donors that it forgot (borrowed until the next one): what a database has to change. */
const struct skep_peer_id *skep_reputation_written(const struct skep_reputations *table,
                                                   size_t *ret_count);
const struct skep_peer_id *skep_reputation_forgotten(const struct skep_reputations *table,
                                                     size_t *ret_count);
/* Fills an empty table with stored rows, rising by donor, as of `version`. SKEP_ERR_FORMAT if they are none that a table could hold. */
int skep_reputation_restore(struct skep_reputations *table, uint64_t version,
                            const struct skep_reputation *rows, size_t count,
                            struct skep_error *err);

/* n >= SKEP_PROBATION, not away, not banned. */
bool skep_reputation_trusted(const struct skep_reputation *reputation);
/* May an update of this donor be merged? The banned never, the trusted always, everybody else only after an audit. (So a round of fewer
 * than 5, which cannot outvote a liar (merge.h), holds audited and trusted ones only, too.) */
bool skep_reputation_may_merge(const struct skep_reputation *reputation, bool audited);
/* Whose update goes first when there are too many: trusted and higher n first, then the smaller hash. As memcmp; pure order. */
int skep_reputation_before(const struct skep_reputation *a, const struct skep_hash *update_a,
                           const struct skep_reputation *b, const struct skep_hash *update_b);

/* How often updates of this donor are audited: 1000 on probation or away, else the curve above, never below
 * SKEP_AUDIT_FLOOR_PERMILLE. On probation and away the audit comes before the merge, else after it. */
uint32_t skep_audit_permille(const struct skep_reputation *reputation);
/* The lot. `beacon` is skep_seal_hash() of the seal that merged the update: nobody knew it when the update was published. */
bool skep_audit_drawn(const struct skep_hash *beacon, const struct skep_hash *update,
                      uint32_t permille);

/*
 * Audits without a lot, from a seal's receipts (count of them): sets ret_audit[i] for near-copies, for the update (from 32 on two) that agreed
 * least with the others in rounds of 8 and more, and for all if `alarm` (the loss gate stopped the step; nothing drives it yet) or more
 * than a quarter of the round is suspect by itself: copies and agreements below 0. Returns how many are set. Ties: lower index. It costs one
 * audit in 8 to 32 updates, and whoever pulls the hardest against the others is looked at every time.
 */
size_t skep_audit_suspects(const struct skep_receipt *receipts, size_t count, bool alarm,
                           bool *ret_audit);

#endif
