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

/* Provisional until tests/bench/audit-replay has measured them. */
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
