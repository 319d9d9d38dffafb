/*
 * Was this job done? An auditor repeats it from its ticket (same base states, slice, moments and residual) and compares what it would
 * have published with what was. Floating-point sums differ between machines (other instruction sets, other libraries), training
 * amplifies the last bits, and the compression turns small differences into steps: a value next to the edge of the top k goes in or
 * out, one next to the edge of a bin takes the next code. So honest bodies differ a little, and the question is how much.
 *
 * Two figures, over all tensors of the shard:
 *   distance = |a - b| / max(|a|, |b|), Euclidean norms of the sparse vectors, absent coordinates being 0. A swap at the edge of
 *              the top k costs the two smallest values of a block, a changed code the step between two codebook entries; both
 *              are small against the norm, and a true disagreement is about sqrt(2).
 *   overlap  = sum over shared coordinates of min(|a|, |b|) / sum over all coordinates of max(|a|, |b|): Jaccard's index weighted by
 *              size, so that ties among values that hardly count (rows of an embedding that the slice never touched) do not
 *              count, nor do zeros.
 * Over the whole shard, not per tensor: small tensors with few values have wide tails.
 *
 * Cost: one pass over both bodies.
 */
#ifndef SKEP_SWARM_AUDIT_H
#define SKEP_SWARM_AUDIT_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/wire/update.h"

/*
 * Measured with tests/bench/audit-replay: 400 honest repetitions of 22 jobs of the default lm and classifier (20 steps, up to 24 rounds of
 * history), by the baseline and AVX2 tables with 1 to 4 threads, by the plain reference, and with 5 kernels of OpenBLAS; 72,000 pairs of
 * shards. Most pairs differ in the last bits of the codebook (1e-8 .. 1e-7), 4 % have the same bytes, and a few hold events:
 *
 *                        worst honest     least of the cheats (trunk)
 *   distance             0.028            0.19  one step of 20 fewer      0.32  5 % poison      0.53  half the steps
 *                                         0.63  batches in another order  0.67  other data      0.80  flipped labels
 *   1 - overlap          0.0008           0.047 and more
 *
 * The worst are jobs of new donors: without moments AdamW's first steps are signs of gradients, and the smallest turn. The thresholds
 * stand 4.5 and 24 times above them and below every cheat: each of the 132 cheats was found. The chance of a false alarm, extrapolated
 * from the 1514 of 33,600 pairs with events in 184 repetitions (--rounds 12), is 6e-19 by an exponential tail and 8e-7 by a power law.
 * NOT measured: GPUs, AVX-512, AArch64, jobs of hundreds of steps
 * (differences grow with the steps); a project with such donors should run it there.
 */
#define SKEP_AUDIT_MOST_DISTANCE 0.125
#define SKEP_AUDIT_LEAST_OVERLAP 0.98

struct skep_audit_likeness {
    double distance; /* 0: the same; 0 too if both are all zeros */
    double overlap;  /* 1: the same */
};

/* Bodies of one shard as the decoder leaves them. SKEP_ERR_FORMAT if they are of different shapes. */
int skep_audit_compare(const struct skep_update_body *published,
                       const struct skep_update_body *recomputed,
                       struct skep_audit_likeness *ret_likeness, struct skep_error *err);

/* Within both thresholds. */
bool skep_audit_valid(const struct skep_audit_likeness *likeness);

#endif
