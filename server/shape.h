/*
 * The shape of one shard and what follows from it alone: version 0 from the manifest's seed, and the merge of update files
 * onto a state file. Pure: bytes in, bytes out; the same bytes on every keeper, and the same words about each update.
 *
 *   state file of version v  +  update files  +  standings of v  ->  state file of version v + 1  +  outcome (swarm/round.h)
 */
#ifndef SKEP_SERVER_SHAPE_H
#define SKEP_SERVER_SHAPE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/merge/standings.h"
#include "common/model/layout.h"
#include "common/swarm/round.h"
#include "common/wire/manifest.h"
#include "common/wire/update.h"

/* Tensors of the shard, how updates cut them, and where each starts in the flat array. */
struct skep_shape {
    const struct skep_manifest *manifest; /* borrowed */
    struct skep_layout layout;
    struct skep_tiling *tilings;
    size_t *offsets; /* tensor_count + 1 of them */
};

/* `manifest` must outlive the shape. */
void skep_shape_init(struct skep_shape *shape, const struct skep_manifest *manifest,
                     const struct skep_shard *shard);
void skep_shape_done(struct skep_shape *shape);

/* The state file of version 0. */
int skep_shape_seed(const struct skep_shape *shape, struct skep_buffer *ret_file,
                    struct skep_error *err);
/* Is this a state file of the shard: names, order, shapes, finite values? */
int skep_shape_check_state(const struct skep_shape *shape, const void *file, size_t size,
                           struct skep_error *err);
/* What an update from version `base` makes of a difference (theta_start - theta_end of all parameters): merge/compress.h. */
int skep_shape_compress(const struct skep_shape *shape, uint64_t base, const float *delta,
                        float *residual, struct skep_update_body *ret_body, struct skep_error *err);
/* Is this the body of an update of the shard from version `base`? */
int skep_shape_check_body(const struct skep_shape *shape, uint64_t base, const void *body,
                          size_t size, struct skep_error *err);
/* The same, and the body as the decoder leaves it; the caller frees. */
int skep_shape_open_body(const struct skep_shape *shape, uint64_t base, const void *body,
                         size_t size, struct skep_update_body *ret_body, struct skep_error *err);
/* A merge: all borrowed. */
struct skep_shape_round {
    uint64_t version; /* merged onto, */
    struct skep_hash
        head; /* and its seal's hash, which orders the updates: nobody knew it when he made his key */
    const struct skep_buffer *state_file;
    const struct skep_buffer
        *files; /* updates, in the list's order; at most SKEP_LIMIT_UPDATES_PER_ROUND */
    size_t count;
    const struct skep_standings *standings; /* as of `version` */
};

/* Merges the files onto the state. They are checked again; one that is broken or whose base version is newer than `version` or more than
 * SKEP_LIMIT_STALENESS older makes the whole merge fail. *ret_outcome says what became of each, and the root of ret_file in chunks. */
int skep_shape_merge(const struct skep_shape *shape, const struct skep_shape_round *round,
                     struct skep_buffer *ret_file, struct skep_round_outcome *ret_outcome,
                     struct skep_error *err);

#endif
