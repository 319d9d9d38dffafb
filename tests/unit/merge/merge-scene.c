#include "tests/unit/merge/merge-scene.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/merge/fixed.h"
#include "tests/lib/cmocka.h"

static const uint32_t dims[SCENE_TENSORS][2] = {{64, 128}, {12, 10}, {96, 0}, {1, 0}};

struct skep_hash scene_hash(uint64_t seed)
{
    struct skep_hash hash;
    struct skep_rng rng = skep_rng_of(seed);
    for (size_t i = 0; i < sizeof hash.bytes; i++) {
        hash.bytes[i] = (uint8_t)skep_rng_next(&rng);
    }
    return hash;
}

static void draw_block(struct skep_rng *rng, enum scene_places places, uint32_t size, uint32_t kept,
                       uint16_t *ret_indices)
{
    bool taken[SKEP_BLOCK_SIZE] = {false};
    uint32_t crowd = size / 8 > kept ? size / 8 : size;
    for (uint32_t k = 0; k < kept;) {
        uint32_t place = (uint32_t)skep_rng_below(rng, size);
        if (places == SCENE_SAME) {
            place = k * (size / kept);
        } else if (places == SCENE_CROWDED && skep_rng_below(rng, 2) == 0) {
            place = (uint32_t)skep_rng_below(rng, crowd);
        }
        k += !taken[place];
        taken[place] = true;
    }
    uint32_t written = 0;
    for (uint32_t place = 0; place < size; place++) {
        if (taken[place]) {
            ret_indices[written++] = (uint16_t)place;
        }
    }
}

static void draw_tensor(struct skep_rng *rng, size_t t, uint32_t keep, enum scene_places places,
                        struct skep_update_tensor *tensor)
{
    tensor->tiling = skep_tiling_of(dims[t], dims[t][1] == 0 ? 1 : 2, keep);
    uint32_t size = tensor->tiling.tile_rows * tensor->tiling.tile_columns;
    uint32_t kept = tensor->tiling.kept;
    size_t sent = (size_t)tensor->tiling.blocks * kept;
    tensor->indices = skep_alloc(sent, sizeof *tensor->indices);
    tensor->codes = skep_alloc(sent, sizeof *tensor->codes);
    for (uint32_t block = 0; block < tensor->tiling.blocks; block++) {
        draw_block(rng, places, size, kept, tensor->indices + (size_t)block * kept);
    }
    for (size_t i = 0; i < sent; i++) {
        tensor->codes[i] = (uint8_t)skep_rng_below(rng, 4);
    }
    for (int code = 0; code < 4; code++) {
        int64_t middle = (code < 2 ? code - 2 : code - 1) * 40000 + 5000;
        tensor->codebook[code] = (float)(middle + (int64_t)skep_rng_below(rng, 20000)) * 0x1p-24f;
    }
}

void scene_init(struct scene *scene, uint64_t seed, size_t n, uint32_t keep,
                enum scene_places places, bool stale)
{
    *scene = (struct scene){.n = n};
    for (size_t t = 0; t < SCENE_TENSORS; t++) {
        scene->offsets[t + 1] = scene->offsets[t] + dims[t][0] * (dims[t][1] == 0 ? 1 : dims[t][1]);
    }
    assert_int_equal(scene->offsets[SCENE_TENSORS], SCENE_TOTAL);
    struct skep_rng rng = skep_rng_of(seed);
    for (size_t i = 0; i < SCENE_TOTAL; i++) {
        scene->state[i] = (float)((int64_t)skep_rng_below(&rng, 1u << 24) - (1 << 23)) * 0x1p-27f;
    }
    for (size_t i = 0; i < n; i++) {
        struct skep_update_body *body = &scene->bodies[i];
        body->tensor_count = SCENE_TENSORS;
        body->tensors = skep_alloc(SCENE_TENSORS, sizeof *body->tensors);
        for (size_t t = 0; t < SCENE_TENSORS; t++) {
            draw_tensor(&rng, t, keep, places, &body->tensors[t]);
        }
        scene->inputs[i] = (struct skep_merge_input){
            .body = body, .staleness = stale ? (uint32_t)i % 3 : 0, .hash = scene_hash(seed + i)};
    }
}

void scene_done(struct scene *scene)
{
    for (size_t i = 0; i < scene->n; i++) {
        skep_update_body_done(&scene->bodies[i]);
    }
}

struct skep_merge_config scene_config(enum skep_merge_rule rule)
{
    return (struct skep_merge_config){
        .rule = rule, .liars_permille = 250, .clip_permille = 1000, .step_permille = 1000};
}

void scene_merge(const struct scene *scene, const struct skep_merge_options *options,
                 float *ret_state, struct skep_merge_report *ret_report)
{
    memcpy(ret_state, scene->state, sizeof scene->state);
    const struct skep_merge_shard shard = {ret_state, scene->offsets, SCENE_TENSORS};
    struct skep_error err = {0};
    if (skep_merge(&shard, scene->inputs, scene->n, options, ret_report, &err) != SKEP_OK) {
        fail_msg("%s", err.text);
    }
}

void scene_dense(const struct scene *scene, size_t i, int64_t *ret_values)
{
    memset(ret_values, 0, SCENE_TOTAL * sizeof *ret_values);
    for (size_t t = 0; t < SCENE_TENSORS; t++) {
        const struct skep_update_tensor *tensor = &scene->bodies[i].tensors[t];
        for (uint32_t k = 0; k < tensor->tiling.blocks * tensor->tiling.kept; k++) {
            size_t place =
                skep_tiling_place(&tensor->tiling, k / tensor->tiling.kept, tensor->indices[k]);
            int64_t entry = skep_fixed_from_float(tensor->codebook[tensor->codes[k]]);
            entry = entry > SKEP_FIXED_ENTRY_LIMIT ? SKEP_FIXED_ENTRY_LIMIT : entry;
            entry = entry < -SKEP_FIXED_ENTRY_LIMIT ? -SKEP_FIXED_ENTRY_LIMIT : entry;
            ret_values[scene->offsets[t] + place] = entry;
        }
    }
}

void scene_scale(struct scene *scene, size_t i, float factor)
{
    for (size_t t = 0; t < SCENE_TENSORS; t++) {
        for (int code = 0; code < 4; code++) {
            scene->bodies[i].tensors[t].codebook[code] *= factor;
        }
    }
}

void scene_copy(struct scene *scene, size_t i, size_t j)
{
    for (size_t t = 0; t < SCENE_TENSORS; t++) {
        struct skep_update_tensor *to = &scene->bodies[i].tensors[t];
        const struct skep_update_tensor *from = &scene->bodies[j].tensors[t];
        size_t sent = (size_t)to->tiling.blocks * to->tiling.kept;
        memcpy(to->indices, from->indices, sent * sizeof *to->indices);
        memcpy(to->codes, from->codes, sent);
        memcpy(to->codebook, from->codebook, sizeof to->codebook);
    }
}
