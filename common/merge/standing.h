/*
 * Standing: what a donor's updates of one shard were like, over rounds. In a single round of unlike data honest updates lie as far
 * from each other as from a liar's, and no rule that sees only that round can tell them apart. Over rounds it is plain: honest noise
 * averages out, and what a liar wants does not. So each round's merge measures every update's agreement with the others that were
 * merged (weights.h: a cosine, itself left out, exact integers, the same at all keepers), seals say it, and a donor whose agreement has
 * been far below the usual for some rounds is left out of the next merges. It is still measured, and comes back when it agrees again.
 *
 *   mean <- mean + (agreement - mean) / 10 (the first one is taken as it is)       an average over some ten rounds
 *   left out   if seen >= 5, at least half of the round's donors have been seen so often, and mean < 1/4 of the median of their means,
 *              which is above 0 (else there is nothing usual to be far below, as with two donors who disagree)
 *
 * The idea of judging by agreement over time is Gauntlet's and RoDiLoCo's; they weigh, this leaves out, since a weight between is worth
 * bargaining for. At most half of a round can be left out, for the median is one of them. What it does not do: stop those who have no
 * past (probation does), those who agree with everybody for long and then strike (the rule's to bear, for some rounds), and a
 * majority of colluders (audits).
 */
#ifndef SKEP_MERGE_STANDING_H
#define SKEP_MERGE_STANDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SKEP_STANDING_LEAST_SEEN 5u

/* Zero-initialise: a donor never seen. */
struct skep_standing {
    int32_t mean; /* of agreement, in 2^-16 of a thousandth */
    uint32_t seen;
};

/* Another update of this donor was measured. */
void skep_standing_push(struct skep_standing *standing, int32_t agreement_permille);

/* Which donors of a round (count of them, at most SKEP_LIMIT_UPDATES_PER_ROUND) are left out. */
void skep_standing_judge(const struct skep_standing *standings, size_t count, bool *ret_left_out);

#endif
