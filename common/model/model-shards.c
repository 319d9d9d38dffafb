/* A model's shards coming and going, and the way of values between the host and the table's memory. */
#include <string.h>

#include "common/model/model-state.h"

#define BLOCK 1024

void skep_model_copy_in(const struct skep_ops *ops, const float *from, size_t count, skep_real *to)
{
#ifdef SKEP_REAL_DOUBLE
    skep_real block[BLOCK];
    for (size_t start = 0; start < count; start += BLOCK) {
        size_t size = count - start < BLOCK ? count - start : BLOCK;
        for (size_t i = 0; i < size; i++) {
            block[i] = (skep_real)from[start + i];
        }
        ops->copy_in(to + start, block, size * sizeof *block);
    }
#else
    ops->copy_in(to, from, count * sizeof *from);
#endif
}

void skep_model_copy_out(const struct skep_ops *ops, const skep_real *from, size_t count, float *to)
{
#ifdef SKEP_REAL_DOUBLE
    skep_real block[BLOCK];
    for (size_t start = 0; start < count; start += BLOCK) {
        size_t size = count - start < BLOCK ? count - start : BLOCK;
        ops->copy_out(block, from + start, size * sizeof *block);
        for (size_t i = 0; i < size; i++) {
            to[start + i] = (float)block[i];
        }
    }
#else
    ops->copy_out(to, from, count * sizeof *from);
#endif
}

/* By copying, which unlike `fill` happens also after a stop was asked for. */
void skep_model_clear(const struct skep_ops *ops, size_t size, void *memory)
{
    static const char zeros[1 << 16];
    if (ops->on_host) {
        memset(memory, 0, size);
        return;
    }
    for (size_t start = 0; start < size; start += sizeof zeros) {
        size_t left = size - start;
        ops->copy_in((char *)memory + start, zeros, left < sizeof zeros ? left : sizeof zeros);
    }
}

const struct skep_model_config *skep_model_config(const struct skep_model *model)
{
    return &model->config;
}

const struct skep_ops *skep_model_ops(const struct skep_model *model)
{
    return model->ops;
}

/* NULL for a shard that the model does not have. */
static struct skep_model_expert *find_expert(const struct skep_model *model,
                                             const struct skep_shard *shard)
{
    const struct skep_model_config *config = &model->config;
    if (shard->kind != SKEP_SHARD_FFN || shard->layer >= config->layers ||
        shard->row >= config->rows || shard->column >= config->columns) {
        return NULL;
    }
    return skep_model_expert_at(model, shard->layer,
                                (size_t)shard->row * config->columns + shard->column);
}

static int allocate_expert(const struct skep_model *model, struct skep_model_expert *expert)
{
    size_t size = model->expert_parameters * sizeof *expert->values;
    expert->values = model->ops->memory_new(size);
    if (!model->options.forward_only) {
        expert->gradients = model->ops->memory_new(size);
    }
    if (expert->values == NULL || (expert->gradients == NULL && !model->options.forward_only)) {
        skep_model_free_expert(model, expert);
        return SKEP_ERR_MEMORY;
    }
    if (expert->gradients != NULL) {
        skep_model_clear(model->ops, size, expert->gradients);
        expert->gradient_zero = true;
    }
    return SKEP_OK;
}

int skep_model_set(struct skep_model *model, const struct skep_shard *shard,
                   const float *parameters)
{
    model->complete = false;
    if (shard->kind == SKEP_SHARD_TRUNK) {
        skep_model_copy_in(model->ops, parameters, model->trunk_parameters, model->trunk.values);
        return SKEP_OK;
    }
    struct skep_model_expert *expert = find_expert(model, shard);
    if (expert == NULL) {
        return SKEP_ERR_ARGUMENT;
    }
    int rc = expert->values == NULL ? allocate_expert(model, expert) : SKEP_OK;
    if (rc == SKEP_OK) {
        skep_model_copy_in(model->ops, parameters, model->expert_parameters, expert->values);
    }
    return rc;
}

void skep_model_free_expert(const struct skep_model *model, struct skep_model_expert *expert)
{
    if (expert->values != NULL) {
        model->ops->memory_free(expert->values);
    }
    if (expert->gradients != NULL) {
        model->ops->memory_free(expert->gradients);
    }
    *expert = (struct skep_model_expert){0};
}

void skep_model_drop(struct skep_model *model, const struct skep_shard *shard)
{
    struct skep_model_expert *expert = find_expert(model, shard);
    model->complete = false;
    if (expert != NULL) {
        skep_model_free_expert(model, expert);
    }
}

skep_real *skep_model_parameters(const struct skep_model *model, const struct skep_shard *shard)
{
    if (shard->kind == SKEP_SHARD_TRUNK) {
        return model->trunk.values;
    }
    struct skep_model_expert *expert = find_expert(model, shard);
    return expert == NULL ? NULL : expert->values;
}

skep_real *skep_model_gradients(const struct skep_model *model, const struct skep_shard *shard)
{
    if (shard->kind == SKEP_SHARD_TRUNK) {
        return model->trunk_gradient.values;
    }
    struct skep_model_expert *expert = find_expert(model, shard);
    return expert == NULL ? NULL : expert->gradients;
}

bool skep_model_has(const struct skep_model *model, const struct skep_shard *shard)
{
    return skep_model_parameters(model, shard) != NULL;
}

static size_t parameters_of(const struct skep_model *model, const struct skep_shard *shard)
{
    return shard->kind == SKEP_SHARD_TRUNK ? model->trunk_parameters : model->expert_parameters;
}

void skep_model_get(const struct skep_model *model, const struct skep_shard *shard,
                    float *ret_parameters)
{
    skep_model_copy_out(model->ops, skep_model_parameters(model, shard),
                        parameters_of(model, shard), ret_parameters);
}

void skep_model_get_gradients(const struct skep_model *model, const struct skep_shard *shard,
                              float *ret_gradients)
{
    skep_model_copy_out(model->ops, skep_model_gradients(model, shard), parameters_of(model, shard),
                        ret_gradients);
}

void skep_model_set_gradients(struct skep_model *model, const struct skep_shard *shard,
                              const float *gradients)
{
    struct skep_model_expert *expert = find_expert(model, shard);
    size_t count = parameters_of(model, shard);
    double squares = 0; /* here and not by the table, which may have been told to stop */
    for (size_t i = 0; i < count; i++) {
        squares += (double)gradients[i] * (double)gradients[i];
    }
    skep_model_copy_in(model->ops, gradients, count, skep_model_gradients(model, shard));
    if (expert != NULL) {
        expert->gradient_squares = squares;
        expert->gradient_zero = false;
    } else {
        model->trunk_gradient_squares = squares;
    }
}
