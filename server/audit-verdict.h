/*
 * What became of a job that was repeated: the published update of one shard beside the repeated one. Pure.
 *
 * The bodies are compared by swarm/audit.h. The history that the donor says it ended with has to be looked at too: whoever could make it up
 * could put a lie into its residual and have the next job, honestly repeated, publish it. Its moments are compared as vectors. Its
 * residual is what the compression did not take, so it jumps with every value that is taken in one of the two and not in the other; what
 * was there before compression does not: residual + body, again compared as vectors.
 *
 * AdamW's step is a whole number, so both must have the same one. And neither may have made more than a job for each version up to the update's
 * base: a shard takes one update of a donor for each, so a larger one was made up in an earlier job that nobody repeated.
 *
 *   distance of a and b = |a - b| / max(|a|, |b|)
 */
#ifndef SKEP_SERVER_AUDIT_VERDICT_H
#define SKEP_SERVER_AUDIT_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/swarm/audit.h"
#include "common/swarm/history.h"
#include "server/shape.h"

/* That of the bodies (swarm/audit.h, with what was measured). Jobs of 60 steps on other kernels (SKEP_CPU, OPENBLAS_CORETYPE) gave 1e-5 at most. */
#define SKEP_AUDIT_MOST_DRIFT SKEP_AUDIT_MOST_DISTANCE

struct skep_audit_look {
    struct skep_audit_likeness body;
    bool has_history;
    double first; /* distances of the moments, */
    double second;
    double carried;   /* and of residual + body */
    bool steps_agree; /* of AdamW, and can have been made */
};

/* One side: an update's body, and the history after the job; NULL if it is not known. */
struct skep_audit_side {
    const uint8_t *body;
    size_t body_size;
    const struct skep_history *history;
    uint64_t most_step; /* that it can have */
};

/* SKEP_ERR_FORMAT if a body is none of this shard, SKEP_ERR_MEMORY. */
int skep_audit_look_at(const struct skep_shape *shape, uint64_t base_version,
                       const struct skep_audit_side *published,
                       const struct skep_audit_side *repeated, struct skep_audit_look *ret_look,
                       struct skep_error *err);
/* Everything within its threshold. */
bool skep_audit_look_valid(const struct skep_audit_look *look);

#endif
