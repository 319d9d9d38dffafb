/*
 * The loss gate: the last look at a step before it is sealed. Filters judge updates by how they lie among each other; when liars are the
 * majority of a round, or all honest updates are wrong together, only the loss shows it. So the loss on public batches is measured before
 * the step and after it, and where it clearly rises the step is tried halved, then quartered, then skipped (FLTrust, arXiv 2012.13995,
 * and Zeno, arXiv 1805.10032, judge single updates that way, which costs n evaluations and not one).
 *
 *           not harmful          not harmful          not harmful
 *   full ---------------> FULL half ----------> HALF quarter ----> QUARTER
 *     \--- harmful ---------^   \--- harmful -----^     \--- harmful ---> SKIP
 *
 * Harmful: the loss rises by more than 3 sigma of the changes of recent rounds, where sigma = 1.4826 * median absolute deviation from
 * their median: what liars do in less than half of the rounds does not move it far. The rise counts from 0, not from the median, so that
 * a fall which is only smaller than usual is no harm and a slow rise does not become the usual. sigma is at least
 * SKEP_LOSS_GATE_FLOOR_MICRONATS and 1/2000 of the loss, above what float engines differ by at rest. With fewer than SKEP_LOSS_GATE_LEAST_HISTORY
 * rounds to compare with, only a gross rise is harmful: 1/8 of the loss and 0.1 nats more.
 *
 * Who drives it: the attack laboratory (tests/bench/attack/cell-gate.c), and no keeper. Measured there it costs honest rounds a little, for
 * the loss on few records is noisy, and gives nothing back against 40 % of liars: what stands before it leaves no single step to be seen
 * (ARCHITECTURE.md, "Liars"). Keepers of a project in which it did better would drive it so: the one that proposes a version measures,
 * decides and states the losses; the others measure them too, hold them against their own (skep_loss_gate_within) and repeat the decision
 * from the *stated* numbers, in integers, so that they agree on it to the bit.
 *
 * What an attacker can do with it. Donors: raise the loss by less than 3 sigma a round, for as long as they like; swing it up and down in
 * more than half of the remembered rounds, which widens sigma; neither is this module's to stop (audits and the filters are). Provoke skips: rounds lost,
 * nothing broken. Overfit the public batches: they must be redrawn from the beacon. A keeper: state losses off by up to the tolerance,
 * which tips decisions that stood on the edge. Nobody can make the gate enlarge or redirect a step.
 *
 * Pure and in integers. Losses are micro-nats per token (per record for a classifier); a loss that is not finite is SKEP_LOSS_GATE_NOT_FINITE.
 */
#ifndef SKEP_MERGE_LOSS_GATE_H
#define SKEP_MERGE_LOSS_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SKEP_LOSS_GATE_HISTORY 32u
#define SKEP_LOSS_GATE_LEAST_HISTORY 8u
#define SKEP_LOSS_GATE_FLOOR_MICRONATS 1000
#define SKEP_LOSS_GATE_TOLERANCE_PERMILLE 1    /* between two float engines */
#define SKEP_LOSS_GATE_TOLERANCE_MICRONATS 100 /* or this, for losses near 0 */
#define SKEP_LOSS_GATE_NOT_FINITE INT64_MAX    /* worse than any loss */

/* The changes of the loss by the steps taken in the last rounds; zero-initialise. */
struct skep_loss_gate_history {
    uint32_t count; /* used, up to SKEP_LOSS_GATE_HISTORY */
    uint32_t next;  /* where the next one goes */
    int64_t changes[SKEP_LOSS_GATE_HISTORY];
};

/* The first three are also the halvings of the step. */
enum skep_loss_gate_decision {
    SKEP_LOSS_GATE_FULL,
    SKEP_LOSS_GATE_HALF,
    SKEP_LOSS_GATE_QUARTER,
    SKEP_LOSS_GATE_SKIP,
    SKEP_LOSS_GATE_MEASURE, /* not decided: measure the loss with one more halving */
};

#define SKEP_LOSS_GATE_TRIES 3u

/* Remembers what the step that was taken (halved or not) did to the loss, and forgets the oldest. Nothing is pushed for a skipped round. A change
 * from or to a loss that is not finite is left out. */
void skep_loss_gate_push(struct skep_loss_gate_history *history, int64_t loss_before,
                         int64_t loss_after);

/* A rise of the loss by more than this is harmful, at a loss of `loss_before`. */
int64_t skep_loss_gate_limit(const struct skep_loss_gate_history *history, int64_t loss_before);

/* `losses_after[h]` is the loss with the step halved h times, for h < tried <= SKEP_LOSS_GATE_TRIES: the first that is not harmful decides. */
enum skep_loss_gate_decision skep_loss_gate_decide(const struct skep_loss_gate_history *history,
                                                   int64_t loss_before, const int64_t *losses_after,
                                                   size_t tried);

/* Whether two engines may have measured the same thing: the loss that another keeper states differs from ours by at most
 * SKEP_LOSS_GATE_TOLERANCE_PERMILLE of the larger one, or SKEP_LOSS_GATE_TOLERANCE_MICRONATS. Both not finite is the same. */
bool skep_loss_gate_within(int64_t mine, int64_t theirs);

#endif
