#include "server/shape.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/crypto/hash.h"
#include "common/merge/compress.h"
#include "common/merge/mask.h"
#include "common/merge/merge.h"
#include "common/swarm/chunk-hash.h"
#include "common/swarm/update-open.h"

void skep_shape_init(struct skep_shape *shape, const struct skep_manifest *manifest,
                     const struct skep_shard *shard)
{
    *shape = (struct skep_shape){.manifest = manifest};
    skep_layout_of(&manifest->model, shard, &shape->layout);
    size_t count = shape->layout.tensor_count;
    shape->tilings = skep_alloc(count, sizeof *shape->tilings);
    shape->offsets = skep_alloc(count + 1, sizeof *shape->offsets);
    for (size_t i = 0; i < count; i++) {
        const struct skep_tensor_spec *tensor = &shape->layout.tensors[i];
        shape->tilings[i] = skep_tiling_of(tensor->dims, tensor->dim_count, manifest->update.keep);
        shape->offsets[i] = tensor->offset;
    }
    shape->offsets[count] = shape->layout.parameters;
}

void skep_shape_done(struct skep_shape *shape)
{
    free(shape->tilings);
    free(shape->offsets);
    skep_layout_done(&shape->layout);
    *shape = (struct skep_shape){0};
}

/* The shard's floats; their number comes from a manifest, so there may be too many. */
static int new_parameters(const struct skep_shape *shape, float **ret_parameters,
                          struct skep_error *err)
{
    float *parameters = calloc(shape->layout.parameters, sizeof *parameters);
    if (parameters == NULL) {
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory for a shard of %zu parameters",
                              shape->layout.parameters);
    }
    *ret_parameters = parameters;
    return SKEP_OK;
}

int skep_shape_seed(const struct skep_shape *shape, struct skep_buffer *ret_file,
                    struct skep_error *err)
{
    float *parameters = NULL;
    int result = new_parameters(shape, &parameters, err);
    if (result != SKEP_OK) {
        return result;
    }
    skep_layout_seed(&shape->layout, &shape->manifest->model, &shape->manifest->seed, parameters);
    skep_state_write(&shape->layout, parameters, ret_file);
    free(parameters);
    return SKEP_OK;
}

int skep_shape_check_state(const struct skep_shape *shape, const void *file, size_t size,
                           struct skep_error *err)
{
    float *parameters = NULL;
    int result = new_parameters(shape, &parameters, err);
    if (result == SKEP_OK) {
        result = skep_state_read(&shape->layout, file, size, parameters, err);
    }
    free(parameters);
    return result;
}

/* The seed of the common mask of updates from version `base`. */
static struct skep_hash mask_of(const struct skep_shape *shape, uint64_t base)
{
    return skep_mask_seed(&shape->manifest->project, &shape->layout.shard, base);
}

static int decode_body(const struct skep_shape *shape, uint64_t base, const void *body, size_t size,
                       struct skep_update_body *ret_body, struct skep_error *err)
{
    const struct skep_update_config *config = &shape->manifest->update;
    struct skep_update_body decoded = {0};
    int result = skep_update_body_decode(body, size, shape->tilings, shape->layout.tensor_count,
                                         config->scale_ceiling, &decoded, err);
    if (result == SKEP_OK && config->mask == SKEP_MASK_COMMON) {
        struct skep_hash mask = mask_of(shape, base);
        result = skep_mask_check(&mask, &decoded, err);
    }
    if (result == SKEP_OK) {
        *ret_body = decoded;
    } else {
        skep_update_body_done(&decoded);
    }
    return result;
}

int skep_shape_check_body(const struct skep_shape *shape, uint64_t base, const void *body,
                          size_t size, struct skep_error *err)
{
    struct skep_update_body decoded = {0};
    int result = decode_body(shape, base, body, size, &decoded, err);
    skep_update_body_done(&decoded);
    return result;
}

int skep_shape_open_body(const struct skep_shape *shape, uint64_t base, const void *body,
                         size_t size, struct skep_update_body *ret_body, struct skep_error *err)
{
    return decode_body(shape, base, body, size, ret_body, err);
}

int skep_shape_compress(const struct skep_shape *shape, uint64_t base, const float *delta,
                        float *residual, struct skep_update_body *ret_body, struct skep_error *err)
{
    const struct skep_update_config *config = &shape->manifest->update;
    struct skep_hash mask = mask_of(shape, base);
    const struct skep_compress_options options = {
        .decay = (float)config->error_decay_permille / 1000.0f,
        .mask = config->mask == SKEP_MASK_COMMON ? &mask : NULL};
    return skep_compress_shard_with(&options, shape->tilings, shape->layout.tensor_count, delta,
                                    residual, ret_body, err);
}

/* What a merge takes of one round, opened. */
struct opened {
    struct skep_update_body bodies[SKEP_LIMIT_UPDATES_PER_ROUND];
    struct skep_merge_input inputs[SKEP_LIMIT_UPDATES_PER_ROUND];
    struct skep_peer_id donors[SKEP_LIMIT_UPDATES_PER_ROUND];
    struct skep_merge_report report;
};

/* Where this donor's update stands in the round (merge.h): a lot that no one can draw again by changing his file. */
static struct skep_hash place_of(const struct skep_hash *head, const struct skep_peer_id *donor)
{
    uint8_t bytes[2 * SKEP_ID_SIZE];
    memcpy(bytes, head->bytes, SKEP_ID_SIZE);
    memcpy(bytes + SKEP_ID_SIZE, donor->bytes, SKEP_ID_SIZE);
    return skep_hash_of(bytes, sizeof bytes);
}

/* File i of the round. */
static int open_input(const struct skep_shape *shape, const struct skep_shape_round *round,
                      size_t i, struct opened *opened, struct skep_error *err)
{
    struct skep_update_statement statement;
    struct skep_hash hash;
    const struct skep_buffer *file = &round->files[i];
    const uint8_t *bytes = NULL;
    size_t size = 0;
    int result = skep_update_open(file->data, file->size, &statement, &hash, &bytes, &size, err);
    if (result != SKEP_OK) {
        return result;
    }
    uint64_t base = statement.base_version;
    if (base > round->version || round->version - base > SKEP_LIMIT_STALENESS) {
        return skep_error_set(err, SKEP_ERR_STALE,
                              "update %.12s starts from version %llu and cannot be merged onto "
                              "version %llu",
                              skep_id_text(hash.bytes), (unsigned long long)base,
                              (unsigned long long)round->version);
    }
    opened->donors[i] = statement.donor;
    opened->inputs[i] = (struct skep_merge_input){.body = &opened->bodies[i],
                                                  .staleness = (uint32_t)(round->version - base),
                                                  .hash = place_of(&round->head, &statement.donor)};
    return decode_body(shape, base, bytes, size, &opened->bodies[i], err);
}

static int open_round(const struct skep_shape *shape, const struct skep_shape_round *round,
                      struct opened *opened, struct skep_error *err)
{
    bool left_out[SKEP_LIMIT_UPDATES_PER_ROUND];
    int result = SKEP_OK;
    for (size_t i = 0; i < round->count && result == SKEP_OK; i++) {
        result = open_input(shape, round, i, opened, err);
    }
    if (result == SKEP_OK) {
        skep_standings_judge(round->standings, opened->donors, round->count, left_out);
        for (size_t i = 0; i < round->count; i++) {
            opened->inputs[i].left_out = left_out[i];
        }
    }
    return result;
}

/* The state as floats, merged. */
static int merge_state(const struct skep_shape *shape, const struct skep_shape_round *round,
                       struct opened *opened, float *parameters, struct skep_error *err)
{
    int result = skep_state_read(&shape->layout, round->state_file->data, round->state_file->size,
                                 parameters, err);
    if (result != SKEP_OK) {
        return result;
    }
    const struct skep_merge_shard shard = {
        .parameters = parameters,
        .offsets = shape->offsets,
        .tensor_count = shape->layout.tensor_count,
    };
    const struct skep_merge_options options = {
        .config = &shape->manifest->merge,
        .norm_limit = skep_standings_norm_limit(round->standings),
        .threads = 1,
    };
    return skep_merge(&shard, opened->inputs, round->count, &options, &opened->report, err);
}

static struct skep_hash root_of(const struct skep_shape *shape, const struct skep_buffer *file)
{
    struct skep_chunks chunks = {0};
    skep_chunks_of(file->data, file->size, shape->manifest->chunk_bytes, &chunks);
    struct skep_hash root = skep_chunks_root(&chunks);
    skep_chunks_done(&chunks);
    return root;
}

static void write_outcome(const struct skep_merge_report *report, size_t count,
                          struct skep_round_outcome *ret_outcome)
{
    ret_outcome->norm = report->median_norm;
    for (size_t i = 0; i < count; i++) {
        const struct skep_merge_verdict *verdict = &report->inputs[i];
        ret_outcome->updates[i] =
            (struct skep_round_fate){.merged = verdict->merged,
                                     .copy = verdict->copy_of != SKEP_MERGE_NO_COPY,
                                     .agreement_permille = verdict->agreement_permille};
    }
}

int skep_shape_merge(const struct skep_shape *shape, const struct skep_shape_round *round,
                     struct skep_buffer *ret_file, struct skep_round_outcome *ret_outcome,
                     struct skep_error *err)
{
    if (round->count > SKEP_LIMIT_UPDATES_PER_ROUND) {
        return skep_error_set(err, SKEP_ERR_TOO_LARGE,
                              "%zu updates in one merge; allowed: up to %u", round->count,
                              SKEP_LIMIT_UPDATES_PER_ROUND);
    }
    struct opened *opened = skep_alloc(1, sizeof *opened);
    float *parameters = NULL;
    int result = open_round(shape, round, opened, err);
    if (result == SKEP_OK) {
        result = new_parameters(shape, &parameters, err);
    }
    if (result == SKEP_OK) {
        result = merge_state(shape, round, opened, parameters, err);
    }
    if (result == SKEP_OK) {
        skep_state_write(&shape->layout, parameters, ret_file);
        ret_outcome->root = root_of(shape, ret_file);
        write_outcome(&opened->report, round->count, ret_outcome);
    }
    for (size_t i = 0; i < round->count; i++) {
        skep_update_body_done(&opened->bodies[i]);
    }
    free(opened);
    free(parameters);
    return result;
}
