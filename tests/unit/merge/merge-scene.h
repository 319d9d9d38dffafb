/*
 * Rounds for the tests of the merge: a small shard and updates made of integers alone, so that what is merged is the same everywhere.
 */
#ifndef TESTS_UNIT_MERGE_MERGE_SCENE_H
#define TESTS_UNIT_MERGE_MERGE_SCENE_H

#include <stdbool.h>

#include "common/merge/merge.h"

/* A matrix of two blocks, a matrix of one small block, a vector of two tiles, one value. */
enum {
    SCENE_TENSORS = 4,
    SCENE_TOTAL = 64 * 128 + 12 * 10 + 96 + 1,
    SCENE_MOST = 64,
};

struct scene {
    size_t n;
    size_t offsets[SCENE_TENSORS + 1];
    float state[SCENE_TOTAL];
    struct skep_update_body bodies[SCENE_MOST];
    struct skep_merge_input inputs[SCENE_MOST];
};

/* Where the updates' places come from. */
enum scene_places {
    SCENE_APART,   /* anywhere: most places are sent by one */
    SCENE_CROWDED, /* half of them from an eighth of the block */
    SCENE_SAME,    /* all send the same places */
};

/* n updates that keep `keep` of 4096, of ages 0, 1, 2, 0, ... if `stale`. Hashes are in no order. Free with scene_done(). */
void scene_init(struct scene *scene, uint64_t seed, size_t n, uint32_t keep,
                enum scene_places places, bool stale);
void scene_done(struct scene *scene);

/* Default settings with this rule, without a search for copies. */
struct skep_merge_config scene_config(enum skep_merge_rule rule);

/* Merges onto a copy of the state; must not fail. */
void scene_merge(const struct scene *scene, const struct skep_merge_options *options,
                 float *ret_state, struct skep_merge_report *ret_report);

/* Writes all that update i sends into `ret_values`, by place in the state. */
void scene_dense(const struct scene *scene, size_t i, int64_t *ret_values);

/* Multiplies an update's codebooks. */
void scene_scale(struct scene *scene, size_t i, float factor);

/* Replaces update i by a copy of update j (its hash stays). */
void scene_copy(struct scene *scene, size_t i, size_t j);

/* 256 pseudo-random bits of `seed`. */
struct skep_hash scene_hash(uint64_t seed);

#endif
