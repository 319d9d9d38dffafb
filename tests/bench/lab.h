/*
 * A swarm in one process and without a network: donors that draw tickets, train on their slice and compress, and the keeper's merge. All
 * of it is the code that the programs run; only transport and agreement are left out, so a setting can be judged in seconds.
 *
 * Time goes in rounds. In each, every donor runs one job from the newest version of all shards (lab_job), its differences are
 * compressed with its own error feedback (lab_compress), and the caller merges what is published, which may be something else than what
 * was computed (attack/attacks.h), and counts the version up.
 */
#ifndef SKEP_TESTS_BENCH_LAB_H
#define SKEP_TESTS_BENCH_LAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/merge/merge.h"
#include "common/model/layout.h"
#include "common/model/train.h"
#include "common/wire/manifest.h"
#include "common/wire/update.h"

#define LAB_DONORS SKEP_LIMIT_UPDATES_PER_ROUND
#define LAB_CHUNKS 64u

/* A shard as keepers see it. */
struct lab_shard {
    struct skep_shard shard;
    struct skep_layout layout;
    struct skep_tiling *tilings;
    size_t *offsets; /* one more than tensors */
    float *parameters;
};

/* What a donor keeps from job to job: one of each a shard. */
struct lab_donor {
    struct skep_peer_id id;
    struct skep_moments *moments;
    float **residuals;
};

struct lab {
    const struct skep_manifest *manifest; /* borrowed */
    size_t shard_count;
    struct lab_shard *shards;
    size_t donor_count;
    struct lab_donor donors[LAB_DONORS];
    struct skep_model *model;
    uint64_t version;
    /* of the last job */
    size_t picked_count;
    size_t *picked; /* shards that took part, the trunk first */
    float **deltas; /* theta_start - theta_end, one a shard; of those that took part */
    uint64_t tokens;
};

int lab_open(struct lab *lab, const struct skep_manifest *manifest, size_t donor_count,
             struct skep_error *err);
void lab_close(struct lab *lab);

/* Makes donor `to` the double of donor `from`: same key, moments and residuals. */
void lab_double(struct lab *lab, size_t to, size_t from);
/* The ticket of the donor's next job, and its slice of `data` as chunks (at most LAB_CHUNKS), cut as the manifest says. */
struct skep_hash lab_ticket(const struct lab *lab, size_t donor);
size_t lab_slice(const struct lab *lab, const struct skep_hash *ticket, const uint8_t *data,
                 size_t size, struct skep_slice_chunk *ret_chunks);
/* From here on jobs run on `ops` (NULL: the CPU's best), which keeps its memory where the CPU's tables do. */
int lab_use(struct lab *lab, const struct skep_ops *ops, struct skep_error *err);

/* One job of a donor on its slice of `data`, with the experts of the rows that rows[layer * rows + row] names (NULL: all): fills
 * lab->picked, deltas and tokens. */
int lab_job(struct lab *lab, size_t donor, const bool *rows, const uint8_t *data, size_t size,
            struct skep_error *err);
/* The same of work that is described part by part, all borrowed. */
struct lab_work {
    const struct skep_training_config *training; /* NULL: the manifest's */
    const bool *rows;
    const struct skep_slice_chunk *chunks;
    size_t chunk_count;
    const struct skep_hash *ticket; /* which gives the order of batches */
};
int lab_do(struct lab *lab, size_t donor, const struct lab_work *work, struct skep_error *err);
/* The seed of the common mask onto the newest version, for a project that has one. */
struct skep_hash lab_mask(const struct lab *lab, size_t shard);
/* The body that the donor's client would publish of this shard's difference; its residual moves on. Freed by the caller. */
int lab_compress(struct lab *lab, size_t donor, size_t shard, const float *delta,
                 struct skep_update_body *ret_body, struct skep_error *err);
/* The same for a vector that has no history: nothing is kept back for later. */
int lab_compress_alone(const struct lab *lab, size_t shard, const float *vector,
                       struct skep_update_body *ret_body, struct skep_error *err);
/* The update's values as a flat vector of the shard's parameters. */
void lab_expand(const struct lab *lab, size_t shard, const struct skep_update_body *body,
                float *ret_vector);

/* A keeper's merge of one shard: its newest version steps. */
int lab_merge(struct lab *lab, size_t shard, const struct skep_merge_input *inputs, size_t count,
              struct skep_error *err);

/* Cross-entropy and accuracy of the newest version of all shards. */
int lab_measure(struct lab *lab, const uint8_t *data, size_t size, struct skep_eval *ret_eval,
                struct skep_error *err);

#endif
