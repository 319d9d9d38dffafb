#include "tests/bench/lab.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/crypto/hash.h"
#include "common/merge/compress.h"
#include "common/merge/mask.h"
#include "common/swarm/ticket.h"

static void open_shard(const struct skep_manifest *manifest, size_t i, struct lab_shard *shard)
{
    shard->shard = skep_manifest_shard(manifest, i);
    skep_layout_of(&manifest->model, &shard->shard, &shard->layout);
    size_t count = shard->layout.tensor_count;
    shard->tilings = skep_alloc(count, sizeof *shard->tilings);
    shard->offsets = skep_alloc(count + 1, sizeof *shard->offsets);
    for (size_t t = 0; t < count; t++) {
        const struct skep_tensor_spec *spec = &shard->layout.tensors[t];
        shard->tilings[t] = skep_tiling_of(spec->dims, spec->dim_count, manifest->update.keep);
        shard->offsets[t] = spec->offset;
    }
    shard->offsets[count] = shard->layout.parameters;
    shard->parameters = skep_alloc(shard->layout.parameters, sizeof(float));
    skep_layout_seed(&shard->layout, &manifest->model, &manifest->seed, shard->parameters);
}

static int open_donor(struct lab *lab, size_t d, struct skep_error *err)
{
    struct lab_donor *donor = &lab->donors[d];
    memset(donor->id.bytes, (int)d + 1, SKEP_ID_SIZE);
    donor->moments = skep_alloc(lab->shard_count, sizeof *donor->moments);
    donor->residuals = skep_alloc(lab->shard_count, sizeof *donor->residuals);
    int rc = SKEP_OK;
    for (size_t i = 0; i < lab->shard_count && rc == SKEP_OK; i++) {
        size_t parameters = lab->shards[i].layout.parameters;
        donor->residuals[i] = skep_alloc(parameters, sizeof(float));
        rc = skep_moments_init(&donor->moments[i], NULL, parameters, err);
    }
    return rc;
}

int lab_open(struct lab *lab, const struct skep_manifest *manifest, size_t donor_count,
             struct skep_error *err)
{
    lab->manifest = manifest;
    lab->donor_count = donor_count;
    lab->shard_count = skep_manifest_shard_count(manifest);
    lab->shards = skep_alloc(lab->shard_count, sizeof *lab->shards);
    lab->picked = skep_alloc(lab->shard_count, sizeof *lab->picked);
    lab->deltas = skep_alloc(lab->shard_count, sizeof *lab->deltas);
    for (size_t i = 0; i < lab->shard_count; i++) {
        open_shard(manifest, i, &lab->shards[i]);
        lab->deltas[i] = skep_alloc(lab->shards[i].layout.parameters, sizeof(float));
    }
    int rc = SKEP_OK;
    for (size_t d = 0; d < donor_count && rc == SKEP_OK; d++) {
        rc = open_donor(lab, d, err);
    }
    return rc == SKEP_OK ? lab_use(lab, NULL, err) : rc;
}

void lab_close(struct lab *lab)
{
    for (size_t d = 0; d < lab->donor_count; d++) {
        for (size_t i = 0; i < lab->shard_count && lab->donors[d].moments != NULL; i++) {
            skep_moments_done(&lab->donors[d].moments[i]);
            free(lab->donors[d].residuals[i]);
        }
        free(lab->donors[d].moments);
        free(lab->donors[d].residuals);
    }
    for (size_t i = 0; i < lab->shard_count; i++) {
        skep_layout_done(&lab->shards[i].layout);
        free(lab->shards[i].tilings);
        free(lab->shards[i].offsets);
        free(lab->shards[i].parameters);
        free(lab->deltas[i]);
    }
    free(lab->shards);
    free(lab->picked);
    free(lab->deltas);
    skep_model_free(lab->model);
    *lab = (struct lab){0};
}

void lab_double(struct lab *lab, size_t to, size_t from)
{
    struct lab_donor *a = &lab->donors[to];
    const struct lab_donor *b = &lab->donors[from];
    a->id = b->id;
    for (size_t i = 0; i < lab->shard_count; i++) {
        size_t size = lab->shards[i].layout.parameters * sizeof(float);
        a->moments[i].step = b->moments[i].step;
        skep_moments_set(&a->moments[i], b->moments[i].first, b->moments[i].second);
        memcpy(a->residuals[i], b->residuals[i], size);
    }
}

/* Stands for the trunk's newest seal. */
static struct skep_hash beacon_of(const struct lab *lab)
{
    uint8_t bytes[SKEP_ID_SIZE + 8];
    memcpy(bytes, lab->manifest->seed.bytes, SKEP_ID_SIZE);
    skep_put_u64(bytes + SKEP_ID_SIZE, lab->version);
    return skep_hash_of(bytes, sizeof bytes);
}

struct skep_hash lab_ticket(const struct lab *lab, size_t d)
{
    struct skep_hash beacon = beacon_of(lab);
    return skep_ticket_of(&beacon, &lab->donors[d].id, lab->version);
}

size_t lab_slice(const struct lab *lab, const struct skep_hash *ticket, const uint8_t *data,
                 size_t size, struct skep_slice_chunk *ret_chunks)
{
    size_t chunk = lab->manifest->chunk_bytes;
    size_t places[LAB_CHUNKS];
    size_t wanted = lab->manifest->training.slice_chunks;
    size_t count = skep_ticket_slice(ticket, (size + chunk - 1) / chunk,
                                     wanted < LAB_CHUNKS ? wanted : LAB_CHUNKS, places);
    for (size_t i = 0; i < count; i++) {
        size_t start = places[i] * chunk;
        size_t left = size - start;
        ret_chunks[i] = (struct skep_slice_chunk){data + start, left < chunk ? left : chunk};
    }
    return count;
}

/* Brings the shards of the job into the model, and takes the others out. */
static int pick(struct lab *lab, const bool *rows)
{
    lab->picked_count = 0;
    int rc = SKEP_OK;
    for (size_t i = 0; i < lab->shard_count && rc == SKEP_OK; i++) {
        const struct lab_shard *shard = &lab->shards[i];
        size_t row = shard->shard.layer * lab->manifest->model.rows + shard->shard.row;
        if (shard->shard.kind == SKEP_SHARD_TRUNK || rows == NULL || rows[row]) {
            rc = skep_model_set(lab->model, &shard->shard, shard->parameters);
            lab->picked[lab->picked_count++] = i;
        } else {
            skep_model_drop(lab->model, &shard->shard);
        }
    }
    return rc;
}

static int train(struct lab *lab, size_t d, struct skep_train_job *job, struct skep_error *err)
{
    struct skep_moments *own = lab->donors[d].moments;
    struct skep_shard *shards = skep_alloc(lab->picked_count, sizeof *shards);
    struct skep_moments *moments = skep_alloc(lab->picked_count, sizeof *moments);
    for (size_t i = 0; i < lab->picked_count; i++) {
        shards[i] = lab->shards[lab->picked[i]].shard;
        moments[i] = own[lab->picked[i]];
    }
    job->shards = shards;
    job->shard_count = lab->picked_count;
    job->moments = moments;
    struct skep_train_position position = {0};
    int rc = skep_train_run(lab->model, job, &position, err);
    lab->tokens = position.tokens;
    for (size_t i = 0; i < lab->picked_count; i++) {
        own[lab->picked[i]] = moments[i];
    }
    free(shards);
    free(moments);
    return rc;
}

int lab_use(struct lab *lab, const struct skep_ops *ops, struct skep_error *err)
{
    struct skep_model_options options = {.batch = lab->manifest->training.batch, .ops = ops};
    skep_model_free(lab->model);
    lab->model = NULL;
    return skep_model_new(&lab->manifest->model, &options, &lab->model, err);
}

int lab_do(struct lab *lab, size_t d, const struct lab_work *work, struct skep_error *err)
{
    const struct skep_training_config *training =
        work->training != NULL ? work->training : &lab->manifest->training;
    struct skep_train_job job = {.training = training,
                                 .learning_rate = skep_train_rate(training, lab->version),
                                 .chunks = work->chunks,
                                 .chunk_count = work->chunk_count,
                                 .ticket = work->ticket};
    int rc = pick(lab, work->rows);
    if (rc == SKEP_OK) {
        rc = train(lab, d, &job, err);
    }
    for (size_t i = 0; i < lab->picked_count && rc == SKEP_OK; i++) {
        const struct lab_shard *shard = &lab->shards[lab->picked[i]];
        float *delta = lab->deltas[lab->picked[i]];
        skep_model_get(lab->model, &shard->shard, delta);
        for (size_t p = 0; p < shard->layout.parameters; p++) {
            delta[p] = shard->parameters[p] - delta[p];
        }
    }
    return rc;
}

int lab_job(struct lab *lab, size_t d, const bool *rows, const uint8_t *data, size_t size,
            struct skep_error *err)
{
    struct skep_hash ticket = lab_ticket(lab, d);
    struct skep_slice_chunk chunks[LAB_CHUNKS];
    const struct lab_work work = {.rows = rows,
                                  .chunks = chunks,
                                  .chunk_count = lab_slice(lab, &ticket, data, size, chunks),
                                  .ticket = &ticket};
    return lab_do(lab, d, &work, err);
}

struct skep_hash lab_mask(const struct lab *lab, size_t i)
{
    return skep_mask_seed(&lab->manifest->project, &lab->shards[i].shard, lab->version);
}

/* With the newest version's mask, if the project has one. */
static int compress(const struct lab *lab, size_t i, float decay, const float *delta,
                    float *residual, struct skep_update_body *ret_body, struct skep_error *err)
{
    const struct lab_shard *shard = &lab->shards[i];
    struct skep_hash mask = lab_mask(lab, i);
    const struct skep_compress_options options = {
        .decay = decay,
        .mask = lab->manifest->update.mask == SKEP_MASK_COMMON ? &mask : NULL,
    };
    return skep_compress_shard_with(&options, shard->tilings, shard->layout.tensor_count, delta,
                                    residual, ret_body, err);
}

int lab_compress(struct lab *lab, size_t d, size_t i, const float *delta,
                 struct skep_update_body *ret_body, struct skep_error *err)
{
    float decay = (float)lab->manifest->update.error_decay_permille / 1000;
    return compress(lab, i, decay, delta, lab->donors[d].residuals[i], ret_body, err);
}

int lab_compress_alone(const struct lab *lab, size_t i, const float *vector,
                       struct skep_update_body *ret_body, struct skep_error *err)
{
    const struct lab_shard *shard = &lab->shards[i];
    float *residual = skep_alloc(shard->layout.parameters, sizeof *residual);
    int rc = compress(lab, i, 0, vector, residual, ret_body, err);
    free(residual);
    return rc;
}

void lab_expand(const struct lab *lab, size_t i, const struct skep_update_body *body,
                float *ret_vector)
{
    const struct lab_shard *shard = &lab->shards[i];
    memset(ret_vector, 0, shard->layout.parameters * sizeof *ret_vector);
    for (size_t t = 0; t < body->tensor_count; t++) {
        skep_decompress_add(&body->tensors[t], 1, ret_vector + shard->offsets[t]);
    }
}

int lab_merge(struct lab *lab, size_t i, const struct skep_merge_input *inputs, size_t count,
              struct skep_error *err)
{
    const struct lab_shard *kept = &lab->shards[i];
    const struct skep_merge_shard shard = {.parameters = kept->parameters,
                                           .offsets = kept->offsets,
                                           .tensor_count = kept->layout.tensor_count};
    const struct skep_merge_options options = {.config = &lab->manifest->merge};
    return skep_merge(&shard, inputs, count, &options, NULL, err);
}

int lab_measure(struct lab *lab, const uint8_t *data, size_t size, struct skep_eval *ret_eval,
                struct skep_error *err)
{
    int rc = pick(lab, NULL);
    return rc == SKEP_OK ? skep_eval_text(lab->model, data, size, ret_eval, err) : rc;
}
