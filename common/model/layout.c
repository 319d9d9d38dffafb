#include "common/model/layout.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"

/* The most of any kind. */
#define TRUNK_TENSORS_OUTSIDE_LAYERS 6
#define TRUNK_TENSORS_PER_LAYER 8
#define EXPERT_TENSORS 10

/* Appends [rows, columns], or [rows] if columns is 0. */
static struct skep_tensor_spec *add(struct skep_layout *layout, uint32_t rows, uint32_t columns)
{
    struct skep_tensor_spec *spec = &layout->tensors[layout->tensor_count++];
    spec->dims[0] = rows;
    spec->dims[1] = columns;
    spec->dim_count = columns == 0 ? 1 : 2;
    spec->count = (size_t)rows * (columns == 0 ? 1 : columns);
    spec->offset = layout->parameters;
    spec->decayed = columns != 0;
    layout->parameters += spec->count;
    return spec;
}

static void add_named(struct skep_layout *layout, const char *name, uint32_t rows, uint32_t columns)
{
    struct skep_tensor_spec *spec = add(layout, rows, columns);
    snprintf(spec->name, sizeof spec->name, "%s", name);
}

static void add_of_layer(struct skep_layout *layout, uint32_t layer, const char *name,
                         uint32_t rows, uint32_t columns)
{
    struct skep_tensor_spec *spec = add(layout, rows, columns);
    snprintf(spec->name, sizeof spec->name, "layer.%u.%s", layer, name);
    spec->balance = strncmp(name, "balance.", 8) == 0;
}

static void lay_trunk(struct skep_layout *layout, const struct skep_model_config *config)
{
    uint32_t d = config->dim;
    bool lm = config->kind == SKEP_MODEL_LM;
    if (lm) {
        add_named(layout, "embed.token", config->vocabulary, d);
        add_named(layout, "embed.position", config->context, d);
    } else {
        add_named(layout, "embed.weight", d, config->inputs);
        add_named(layout, "embed.bias", d, 0);
    }
    for (uint32_t l = 0; l < config->layers; l++) {
        add_of_layer(layout, l, "norm.gain", d, 0);
        add_of_layer(layout, l, "norm.bias", d, 0);
        if (lm) {
            add_of_layer(layout, l, "attention.qkv", 3 * d, d);
            add_of_layer(layout, l, "attention.out", d, d);
        }
        add_of_layer(layout, l, "gate.row", config->rows, d);
        add_of_layer(layout, l, "gate.column", config->columns, d);
        add_of_layer(layout, l, "balance.row", config->rows, 0);
        add_of_layer(layout, l, "balance.column", config->columns, 0);
    }
    add_named(layout, "final.norm.gain", d, 0);
    add_named(layout, "final.norm.bias", d, 0);
    if (!lm) {
        add_named(layout, "head.weight", config->classes, d);
        add_named(layout, "head.bias", config->classes, 0);
    }
}

static void lay_paper_expert(struct skep_layout *layout, uint32_t d, uint32_t h)
{
    add_named(layout, "first.weight", h, d);
    add_named(layout, "first.bias", h, 0);
    add_named(layout, "norm1.gain", h, 0);
    add_named(layout, "norm1.bias", h, 0);
    add_named(layout, "second.weight", h, h);
    add_named(layout, "second.bias", h, 0);
    add_named(layout, "norm2.gain", h, 0);
    add_named(layout, "norm2.bias", h, 0);
    add_named(layout, "third.weight", d, h);
    add_named(layout, "third.bias", d, 0);
}

static void lay_expert(struct skep_layout *layout, const struct skep_model_config *config)
{
    if (config->expert == SKEP_EXPERT_PAPER_FFN) {
        lay_paper_expert(layout, config->dim, config->hidden);
        return;
    }
    add_named(layout, "norm.gain", config->dim, 0);
    add_named(layout, "norm.bias", config->dim, 0);
    add_named(layout, "up.weight", config->hidden, config->dim);
    add_named(layout, "up.bias", config->hidden, 0);
    add_named(layout, "down.weight", config->dim, config->hidden);
    add_named(layout, "down.bias", config->dim, 0);
}

void skep_layout_of(const struct skep_model_config *config, const struct skep_shard *shard,
                    struct skep_layout *ret_layout)
{
    struct skep_layout layout = {.shard = *shard};
    if (shard->kind == SKEP_SHARD_TRUNK) {
        size_t count =
            TRUNK_TENSORS_OUTSIDE_LAYERS + (size_t)TRUNK_TENSORS_PER_LAYER * config->layers;
        layout.tensors = skep_alloc(count, sizeof *layout.tensors);
        lay_trunk(&layout, config);
        assert(layout.tensor_count <= count);
    } else {
        layout.tensors = skep_alloc(EXPERT_TENSORS, sizeof *layout.tensors);
        lay_expert(&layout, config);
        assert(layout.tensor_count <= EXPERT_TENSORS);
    }
    *ret_layout = layout;
}

void skep_layout_done(struct skep_layout *layout)
{
    free(layout->tensors);
    *layout = (struct skep_layout){0};
}

/* The largest r with r * r <= value, bit by bit. */
static uint64_t integer_root(uint64_t value)
{
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 31; bit != 0; bit >>= 1) {
        uint64_t tried = root | bit;
        if (tried * tried <= value) {
            root = tried;
        }
    }
    return root;
}

/* Uniform in [-a, a] with variance 1 / n, that is a = sqrt(3 / n), counted in 2^-32. The root is taken of 3/4 of 2^64 / n, so that
 * it fits 64 bits, and doubled. Converting an integer below 2^33 to float rounds to nearest everywhere; dividing by 2^32 is exact. */
static void fill_uniform(struct skep_rng *rng, uint64_t n, float *values, size_t count)
{
    uint64_t a = 2 * integer_root(3 * (UINT64_MAX / n / 4));
    for (size_t i = 0; i < count; i++) {
        int64_t drawn = (int64_t)skep_rng_below(rng, 2 * a + 1) - (int64_t)a;
        values[i] = (float)drawn * 0x1p-32f;
    }
}

static void fill_constant(float *values, size_t count, float value)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = value;
    }
}

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text);
    size_t end_size = strlen(end);
    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

/* 1 / n is the variance of the tensor's first values. */
static uint64_t variance_divisor(const struct skep_tensor_spec *spec,
                                 const struct skep_model_config *config)
{
    if (config->kind == SKEP_MODEL_LM && strncmp(spec->name, "embed.", 6) == 0) {
        return 2500; /* 0.02^2 */
    }
    bool residual = ends_with(spec->name, "attention.out") ||
                    ends_with(spec->name, "down.weight") || ends_with(spec->name, "third.weight");
    return (uint64_t)spec->dims[1] * (residual ? 2 * config->layers : 1);
}

void skep_layout_seed(const struct skep_layout *layout, const struct skep_model_config *config,
                      const struct skep_hash *seed, float *parameters)
{
    char shard[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(&layout->shard, shard);
    for (size_t i = 0; i < layout->tensor_count; i++) {
        const struct skep_tensor_spec *spec = &layout->tensors[i];
        float *values = parameters + spec->offset;
        if (spec->dim_count == 1) {
            fill_constant(values, spec->count, ends_with(spec->name, "gain") ? 1.0f : 0.0f);
            continue;
        }
        char source[SKEP_ID_SIZE + SKEP_SHARD_TEXT_SIZE + SKEP_LIMIT_TENSOR_NAME + 2];
        memcpy(source, seed->bytes, SKEP_ID_SIZE);
        int size = snprintf(source + SKEP_ID_SIZE, sizeof source - SKEP_ID_SIZE, "%s/%s", shard,
                            spec->name);
        struct skep_rng rng = skep_rng_of_bytes(source, SKEP_ID_SIZE + (size_t)size);
        fill_uniform(&rng, variance_divisor(spec, config), values, spec->count);
    }
}

uint64_t skep_layout_flops_per_token(const struct skep_layout *layout,
                                     const struct skep_model_config *config)
{
    if (layout->shard.kind != SKEP_SHARD_TRUNK || config->kind == SKEP_MODEL_CLASSIFIER) {
        return 6 * (uint64_t)layout->parameters;
    }
    /* A token reads one row of embed.position; embed.token counts whole, being the head. On average it attends to half the
     * context: 2 products of context / 2 * dim multiply-adds a layer, and twice that backward. */
    uint64_t touched = layout->parameters - (uint64_t)(config->context - 1) * config->dim;
    uint64_t attention = (uint64_t)config->layers * config->context * config->dim;
    return 6 * (touched + attention);
}
