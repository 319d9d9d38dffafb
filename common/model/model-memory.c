/* Making and freeing a model, and its shards coming and going. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/model/experts.h"
#include "common/model/model-state.h"
#include "common/tensor/memory.h"

/* Hands out pieces of one block, each on its own cache line. Run twice: without memory it only counts. */
struct arena {
    char *memory;
    size_t used;
    double asked; /* the same in floating point, which cannot wrap around */
};

#define ARENA_ALIGN ((size_t)64) /* skep_memory_new() begins on such a line */
#define ARENA_LIMIT 1e12

static void *place(struct arena *arena, size_t count, size_t size)
{
    void *piece = arena->memory == NULL ? NULL : arena->memory + arena->used;
    arena->asked += (double)count * (double)size + ARENA_ALIGN;
    arena->used += (count * size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    return piece;
}

static skep_real *place_reals(struct arena *arena, size_t count)
{
    return place(arena, count, sizeof(skep_real));
}

/* The sizes that activations are made of, at the limit of batch and length. */
struct sizes {
    size_t tokens;
    size_t pairs;
    size_t d;
    size_t h;
    size_t rows;
    size_t columns;
    size_t square; /* attention probabilities of one layer */
    size_t length;
};

static struct sizes sizes_of(const struct skep_model_config *config, uint32_t batch)
{
    struct sizes sizes = {.d = config->dim,
                          .h = config->hidden,
                          .rows = config->rows,
                          .columns = config->columns,
                          .length = config->context};
    sizes.tokens = (size_t)batch * config->context;
    sizes.pairs = sizes.tokens * config->experts_per_token;
    sizes.square = sizes.tokens * config->context * config->heads;
    return sizes;
}

static void place_kept(struct arena *arena, const struct sizes *s, struct skep_model_kept *kept)
{
    kept->in_hat = place_reals(arena, s->tokens * s->d);
    kept->in_scale = place_reals(arena, s->tokens);
    kept->in_norm = place_reals(arena, s->tokens * s->d);
    kept->qkv = place_reals(arena, s->tokens * 3 * s->d);
    kept->probability = place_reals(arena, s->square);
    kept->attended = place_reals(arena, s->tokens * s->d);
    kept->mid_hat = place_reals(arena, s->tokens * s->d);
    kept->mid_scale = place_reals(arena, s->tokens);
    kept->mid_norm = place_reals(arena, s->tokens * s->d);
    kept->row_scores = place_reals(arena, s->tokens * s->rows);
    kept->column_scores = place_reals(arena, s->tokens * s->columns);
    kept->chosen = place(arena, s->pairs, sizeof *kept->chosen);
    kept->weight = place_reals(arena, s->pairs);
    kept->first = place(arena, s->rows * s->columns + 1, sizeof *kept->first);
    kept->pair_token = place(arena, s->pairs, sizeof *kept->pair_token);
    kept->pair_place = place(arena, s->pairs, sizeof *kept->pair_place);
    kept->pair_weight = place_reals(arena, s->pairs);
    kept->expert_in = place_reals(arena, s->pairs * s->d);
    kept->slope = place_reals(arena, s->pairs * s->h);
    kept->active = place_reals(arena, s->pairs * s->h);
    kept->expert_out = place_reals(arena, s->pairs * s->d);
}

static void place_ends(struct arena *arena, const struct sizes *s, struct skep_model *model)
{
    model->inputs = place(arena, s->tokens, 1);
    model->targets = place(arena, s->tokens, 1);
    model->nats = place(arena, s->tokens, sizeof *model->nats);
    model->x = place_reals(arena, s->tokens * s->d);
    model->prefix_mean = place_reals(arena, (size_t)model->batch_limit * s->d);
    model->final_hat = place_reals(arena, s->tokens * s->d);
    model->final_scale = place_reals(arena, s->tokens);
    model->final_norm = place_reals(arena, s->tokens * s->d);
    model->logits = place_reals(arena, s->tokens * model->config.vocabulary);
    model->logsumexp = place_reals(arena, s->tokens);
}

static void place_scratch(struct arena *arena, const struct sizes *s, struct skep_model *model)
{
    size_t most =
        s->rows > model->config.experts_per_token ? s->rows : model->config.experts_per_token;
    model->dx = place_reals(arena, s->tokens * s->d);
    model->dprefix = place_reals(arena, (size_t)model->batch_limit * s->d);
    model->dhat = place_reals(arena, s->tokens * s->d);
    model->dwide = place_reals(arena, s->tokens * 3 * s->d);
    model->dnarrow = place_reals(arena, s->tokens * s->d);
    model->dscores = place_reals(arena, SKEP_ATTENTION_BLOCK * s->length);
    model->drow = place_reals(arena, s->tokens * s->rows);
    model->dcolumn = place_reals(arena, s->tokens * s->columns);
    model->dweight = place_reals(arena, s->pairs);
    model->dpair = place_reals(arena, s->tokens * s->d);
    model->dpair_in = place_reals(arena, s->tokens * s->d);
    model->dactive = place_reals(arena, s->tokens * s->h);
    model->dpair_weight = place_reals(arena, s->tokens);
    model->row_present = place(arena, (size_t)model->config.layers * s->rows, 1);
    model->choice_scores = place_reals(arena, most);
    model->choice_rows = place(arena, most, sizeof *model->choice_rows);
}

static void place_all(struct arena *arena, struct skep_model *model)
{
    struct sizes sizes = sizes_of(&model->config, model->batch_limit);
    for (uint32_t l = 0; l < model->config.layers; l++) {
        place_kept(arena, &sizes, &model->kept[l]);
    }
    place_ends(arena, &sizes, model);
    place_scratch(arena, &sizes, model);
}

static skep_real *take_piece(skep_real **at, size_t count)
{
    skep_real *piece = *at;
    *at += count;
    return piece;
}

/* Finds the trunk's tensors in `values`, in layout order; returns how many values they are. trunk->layers is the
 * caller's. */
static size_t bind_trunk(const struct skep_model_config *config, skep_real *values,
                         struct skep_model_trunk *trunk)
{
    size_t d = config->dim;
    skep_real *at = values;
    trunk->values = values;
    trunk->token = take_piece(&at, config->vocabulary * d);
    trunk->position = take_piece(&at, config->context * d);
    for (uint32_t l = 0; l < config->layers; l++) {
        struct skep_model_layer *layer = &trunk->layers[l];
        layer->norm.gain = take_piece(&at, d);
        layer->norm.bias = take_piece(&at, d);
        layer->qkv = take_piece(&at, 3 * d * d);
        layer->out = take_piece(&at, d * d);
        layer->gate_row = take_piece(&at, config->rows * d);
        layer->gate_column = take_piece(&at, config->columns * d);
        layer->balance_row = take_piece(&at, config->rows);
        layer->balance_column = take_piece(&at, config->columns);
    }
    trunk->final.gain = take_piece(&at, d);
    trunk->final.bias = take_piece(&at, d);
    return (size_t)(at - values);
}

static size_t trunk_parameters(const struct skep_model_config *config)
{
    size_t d = config->dim;
    size_t grid_edge = (size_t)config->rows + config->columns;
    size_t layer = 2 * d + 4 * d * d + grid_edge * (d + 1);
    return ((size_t)config->vocabulary + config->context) * d + config->layers * layer + 2 * d;
}

/* All allocations of a model; false when memory is gone, with what was had left for skep_model_free(). */
static bool allocate(struct skep_model *model)
{
    const struct skep_model_config *config = &model->config;
    model->kept = calloc(config->layers, sizeof *model->kept);
    model->experts = calloc(config->layers * skep_model_grid(model), sizeof *model->experts);
    model->trunk.layers = calloc(config->layers, sizeof *model->trunk.layers);
    model->trunk_gradient.layers = calloc(config->layers, sizeof *model->trunk_gradient.layers);
    model->trunk.values = calloc(model->trunk_parameters, sizeof *model->trunk.values);
    model->trunk_gradient.values =
        calloc(model->trunk_parameters, sizeof *model->trunk_gradient.values);
    if (model->kept == NULL || model->experts == NULL || model->trunk.layers == NULL ||
        model->trunk_gradient.layers == NULL || model->trunk.values == NULL ||
        model->trunk_gradient.values == NULL) {
        return false;
    }
    struct arena arena = {0};
    place_all(&arena, model);
    if (arena.asked > ARENA_LIMIT) {
        return false;
    }
    model->memory = skep_memory_new(arena.used);
    if (model->memory == NULL) {
        return false;
    }
    arena = (struct arena){.memory = model->memory};
    place_all(&arena, model);
    return true;
}

int skep_model_new(const struct skep_model_config *config, uint32_t batch,
                   struct skep_model **ret_lm, struct skep_error *err)
{
    assert(batch > 0 && config->prefix > 0 && config->prefix < config->context);
    assert(config->vocabulary <= 256 && config->experts_per_token > 0);
    struct skep_model *model = skep_alloc(1, sizeof *model);
    model->config = *config;
    model->batch_limit = batch;
    model->trunk_parameters = trunk_parameters(config);
    model->expert_parameters = skep_model_expert_parameters(config);
    if (!allocate(model)) {
        skep_model_free(model);
        return skep_error_set(err, SKEP_ERR_MEMORY,
                              "a model of width %u, %u layers and batches of %u x %u tokens does "
                              "not fit into memory",
                              config->dim, config->layers, batch, config->context);
    }
    size_t bound = bind_trunk(config, model->trunk.values, &model->trunk);
    bind_trunk(config, model->trunk_gradient.values, &model->trunk_gradient);
    assert(bound == model->trunk_parameters);
    *ret_lm = model;
    return SKEP_OK;
}

static void free_expert(struct skep_model_expert *expert)
{
    free(expert->values);
    free(expert->gradients);
    *expert = (struct skep_model_expert){0};
}

void skep_model_free(struct skep_model *model)
{
    if (model == NULL) {
        return;
    }
    for (size_t i = 0; model->experts != NULL && i < model->config.layers * skep_model_grid(model);
         i++) {
        free_expert(&model->experts[i]);
    }
    free(model->experts);
    free(model->kept);
    free(model->trunk.values);
    free(model->trunk.layers);
    free(model->trunk_gradient.values);
    free(model->trunk_gradient.layers);
    skep_memory_free(model->memory);
    free(model);
}

const struct skep_model_config *skep_model_config(const struct skep_model *model)
{
    return &model->config;
}

static struct skep_model_expert *find_expert(const struct skep_model *model,
                                             const struct skep_shard *shard)
{
    assert(shard->kind == SKEP_SHARD_FFN && shard->layer < model->config.layers);
    assert(shard->row < model->config.rows && shard->column < model->config.columns);
    return skep_model_expert_at(model, shard->layer,
                                (size_t)shard->row * model->config.columns + shard->column);
}

static void copy_in(const float *from, size_t count, skep_real *to)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = from[i];
    }
}

void skep_model_set(struct skep_model *model, const struct skep_shard *shard,
                    const float *parameters)
{
    model->complete = false;
    if (shard->kind == SKEP_SHARD_TRUNK) {
        copy_in(parameters, model->trunk_parameters, model->trunk.values);
        return;
    }
    struct skep_model_expert *expert = find_expert(model, shard);
    if (expert->values == NULL) {
        expert->values = skep_alloc(model->expert_parameters, sizeof *expert->values);
        expert->gradients = skep_alloc(model->expert_parameters, sizeof *expert->gradients);
        expert->gradient_zero = true;
    }
    copy_in(parameters, model->expert_parameters, expert->values);
}

void skep_model_drop(struct skep_model *model, const struct skep_shard *shard)
{
    model->complete = false;
    free_expert(find_expert(model, shard));
}

bool skep_model_has(const struct skep_model *model, const struct skep_shard *shard)
{
    return skep_model_parameters((struct skep_model *)model, shard) != NULL;
}

skep_real *skep_model_parameters(struct skep_model *model, const struct skep_shard *shard)
{
    return shard->kind == SKEP_SHARD_TRUNK ? model->trunk.values
                                           : find_expert(model, shard)->values;
}

skep_real *skep_model_gradients(struct skep_model *model, const struct skep_shard *shard)
{
    return shard->kind == SKEP_SHARD_TRUNK ? model->trunk_gradient.values
                                           : find_expert(model, shard)->gradients;
}
