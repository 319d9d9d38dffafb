#include "client/remote/gathering.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/merge/compress.h"
#include "common/merge/mask.h"
#include "common/model/layout.h"
#include "common/model/train.h"
#include "common/wire/update.h"

static const struct skep_shard trunk_shard = {.kind = SKEP_SHARD_TRUNK};

struct skep_gathering {
    const struct skep_manifest *manifest;
    struct skep_layout layout;
    struct skep_tiling *tilings;
    pthread_mutex_t lock; /* of all below */
    float *sum;
    float *incoming; /* one pass's, then a step's difference */
    float *residual;
    struct skep_moments moments;
    struct skep_gathered gathered;
    bool has_loss;
    double newest_loss;
    double loss_before; /* and the one before it */
    bool has_base;
    uint64_t base;
};

int skep_gathering_new(const struct skep_manifest *manifest, struct skep_gathering **ret_gathering,
                       struct skep_error *err)
{
    struct skep_gathering *gathering = skep_alloc(1, sizeof *gathering);
    gathering->manifest = manifest;
    pthread_mutex_init(&gathering->lock, NULL);
    skep_layout_of(&manifest->model, &trunk_shard, &gathering->layout);
    size_t count = gathering->layout.parameters;
    gathering->tilings = skep_alloc(gathering->layout.tensor_count, sizeof(struct skep_tiling));
    for (size_t t = 0; t < gathering->layout.tensor_count; t++) {
        const struct skep_tensor_spec *spec = &gathering->layout.tensors[t];
        gathering->tilings[t] = skep_tiling_of(spec->dims, spec->dim_count, manifest->update.keep);
    }
    gathering->sum = calloc(count, sizeof(float));
    gathering->incoming = calloc(count, sizeof(float));
    gathering->residual = calloc(count, sizeof(float));
    int rc = SKEP_OK;
    if (gathering->sum == NULL || gathering->incoming == NULL || gathering->residual == NULL) {
        rc = skep_error_set(err, SKEP_ERR_MEMORY, "no memory for the gradients of %zu parameters",
                            count);
    } else {
        rc = skep_moments_init(&gathering->moments, NULL, count, err);
    }
    if (rc != SKEP_OK) {
        skep_gathering_free(gathering);
        return rc;
    }
    *ret_gathering = gathering;
    return SKEP_OK;
}

void skep_gathering_free(struct skep_gathering *gathering)
{
    if (gathering == NULL) {
        return;
    }
    if (gathering->moments.first != NULL) {
        skep_moments_done(&gathering->moments);
    }
    free(gathering->sum);
    free(gathering->incoming);
    free(gathering->residual);
    free(gathering->tilings);
    skep_layout_done(&gathering->layout);
    pthread_mutex_destroy(&gathering->lock);
    free(gathering);
}

void skep_gathering_add(struct skep_gathering *gathering, const struct skep_model *model,
                        const struct skep_model_loss *loss)
{
    double nats = loss->tokens > 0 ? loss->sum_nats / (double)loss->tokens : 0;
    pthread_mutex_lock(&gathering->lock);
    skep_model_get_gradients(model, &trunk_shard, gathering->incoming);
    for (size_t i = 0; i < gathering->layout.parameters; i++) {
        gathering->sum[i] += gathering->incoming[i];
    }
    if (gathering->gathered.passes == 0) {
        gathering->gathered.loss_first = nats;
    }
    gathering->gathered.loss_last = nats;
    gathering->gathered.passes++;
    gathering->gathered.tokens += loss->tokens;
    gathering->loss_before = gathering->has_loss ? gathering->newest_loss : nats;
    gathering->newest_loss = nats;
    gathering->has_loss = true;
    pthread_mutex_unlock(&gathering->lock);
}

/* With the lock. */
static bool ready(const struct skep_gathering *gathering, uint64_t version)
{
    return gathering->gathered.passes > 0 && (!gathering->has_base || version > gathering->base);
}

bool skep_gathering_ready(struct skep_gathering *gathering, uint64_t version)
{
    pthread_mutex_lock(&gathering->lock);
    bool is_ready = ready(gathering, version);
    pthread_mutex_unlock(&gathering->lock);
    return is_ready;
}

/* The sum becomes the mean; false if it is not finite. */
static bool average(struct skep_gathering *gathering)
{
    float share = 1.0f / (float)gathering->gathered.passes;
    bool finite = true;
    for (size_t i = 0; i < gathering->layout.parameters; i++) {
        gathering->sum[i] *= share;
        finite &= isfinite(gathering->sum[i]) != 0;
    }
    return finite;
}

static void clear(struct skep_gathering *gathering)
{
    memset(gathering->sum, 0, gathering->layout.parameters * sizeof *gathering->sum);
    gathering->gathered = (struct skep_gathered){0};
}

/* theta_start - theta_end of one step, into `incoming`. */
static void move(struct skep_gathering *gathering, struct skep_model *model, const float *trunk,
                 uint64_t version)
{
    const struct skep_training_config *training = &gathering->manifest->training;
    float *difference = gathering->incoming;
    skep_model_set(model, &trunk_shard, trunk);
    skep_model_set_gradients(model, &trunk_shard, gathering->sum);
    skep_train_step(model, training, skep_train_rate(training, version), &trunk_shard,
                    &gathering->moments, 1);
    skep_model_get(model, &trunk_shard, difference);
    for (size_t i = 0; i < gathering->layout.parameters; i++) {
        difference[i] = trunk[i] - difference[i];
    }
}

/* With the lock. */
static int take_step(struct skep_gathering *gathering, struct skep_model *model, const float *trunk,
                     uint64_t version, struct skep_buffer *ret_body, struct skep_error *err)
{
    const struct skep_update_config *config = &gathering->manifest->update;
    struct skep_update_body body = {0};
    if (!average(gathering)) {
        return skep_error_set(err, SKEP_ERR_NUMERIC,
                              "the trunk's gradients are not finite; they were dropped");
    }
    move(gathering, model, trunk, version);
    struct skep_hash mask = skep_mask_seed(&gathering->manifest->project, &trunk_shard, version);
    const struct skep_compress_options options = {
        .decay = (float)config->error_decay_permille / 1000.0f,
        .mask = config->mask == SKEP_MASK_COMMON ? &mask : NULL};
    int rc = skep_compress_shard_with(&options, gathering->tilings, gathering->layout.tensor_count,
                                      gathering->incoming, gathering->residual, &body, err);
    if (rc == SKEP_OK) {
        skep_update_body_encode(&body, ret_body);
        gathering->has_base = true;
        gathering->base = version;
    }
    skep_update_body_done(&body);
    return rc;
}

int skep_gathering_step(struct skep_gathering *gathering, struct skep_model *model,
                        const float *trunk, uint64_t version, struct skep_gathered *ret_gathered,
                        struct skep_buffer *ret_body, struct skep_error *err)
{
    pthread_mutex_lock(&gathering->lock);
    int rc = ready(gathering, version)
                 ? SKEP_OK
                 : skep_error_set(err, SKEP_ERR_STATE,
                                  "there is no gradient of the trunk, or an update from version "
                                  "%llu already",
                                  (unsigned long long)version);
    if (rc == SKEP_OK) {
        struct skep_gathered gathered = gathering->gathered;
        rc = take_step(gathering, model, trunk, version, ret_body, err);
        clear(gathering);
        if (rc == SKEP_OK) {
            *ret_gathered = gathered;
        }
    }
    pthread_mutex_unlock(&gathering->lock);
    return rc;
}

bool skep_gathering_losses(struct skep_gathering *gathering, double *ret_first, double *ret_last)
{
    pthread_mutex_lock(&gathering->lock);
    bool known = gathering->has_loss;
    if (known) {
        *ret_first = gathering->loss_before;
        *ret_last = gathering->newest_loss;
    }
    pthread_mutex_unlock(&gathering->lock);
    return known;
}
