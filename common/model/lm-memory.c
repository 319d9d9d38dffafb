/* Making and freeing a model, and its shards coming and going. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/model/expert.h"
#include "common/model/lm-state.h"
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

static void place_kept(struct arena *arena, const struct sizes *s, struct skep_lm_kept *kept)
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

static void place_ends(struct arena *arena, const struct sizes *s, struct skep_lm *lm)
{
    lm->inputs = place(arena, s->tokens, 1);
    lm->targets = place(arena, s->tokens, 1);
    lm->nats = place(arena, s->tokens, sizeof *lm->nats);
    lm->x = place_reals(arena, s->tokens * s->d);
    lm->prefix_mean = place_reals(arena, (size_t)lm->batch_limit * s->d);
    lm->final_hat = place_reals(arena, s->tokens * s->d);
    lm->final_scale = place_reals(arena, s->tokens);
    lm->final_norm = place_reals(arena, s->tokens * s->d);
    lm->logits = place_reals(arena, s->tokens * lm->config.vocabulary);
    lm->logsumexp = place_reals(arena, s->tokens);
}

static void place_scratch(struct arena *arena, const struct sizes *s, struct skep_lm *lm)
{
    size_t most = s->rows > lm->config.experts_per_token ? s->rows : lm->config.experts_per_token;
    lm->dx = place_reals(arena, s->tokens * s->d);
    lm->dprefix = place_reals(arena, (size_t)lm->batch_limit * s->d);
    lm->dhat = place_reals(arena, s->tokens * s->d);
    lm->dwide = place_reals(arena, s->tokens * 3 * s->d);
    lm->dnarrow = place_reals(arena, s->tokens * s->d);
    lm->dscores = place_reals(arena, SKEP_ATTENTION_BLOCK * s->length);
    lm->drow = place_reals(arena, s->tokens * s->rows);
    lm->dcolumn = place_reals(arena, s->tokens * s->columns);
    lm->dweight = place_reals(arena, s->pairs);
    lm->dpair = place_reals(arena, s->tokens * s->d);
    lm->dpair_in = place_reals(arena, s->tokens * s->d);
    lm->dactive = place_reals(arena, s->tokens * s->h);
    lm->dpair_weight = place_reals(arena, s->tokens);
    lm->row_present = place(arena, (size_t)lm->config.layers * s->rows, 1);
    lm->choice_scores = place_reals(arena, most);
    lm->choice_rows = place(arena, most, sizeof *lm->choice_rows);
}

static void place_all(struct arena *arena, struct skep_lm *lm)
{
    struct sizes sizes = sizes_of(&lm->config, lm->batch_limit);
    for (uint32_t l = 0; l < lm->config.layers; l++) {
        place_kept(arena, &sizes, &lm->kept[l]);
    }
    place_ends(arena, &sizes, lm);
    place_scratch(arena, &sizes, lm);
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
                         struct skep_lm_trunk *trunk)
{
    size_t d = config->dim;
    skep_real *at = values;
    trunk->values = values;
    trunk->token = take_piece(&at, config->vocabulary * d);
    trunk->position = take_piece(&at, config->context * d);
    for (uint32_t l = 0; l < config->layers; l++) {
        struct skep_lm_layer *layer = &trunk->layers[l];
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

/* All allocations of a model; false when memory is gone, with what was had left for skep_lm_free(). */
static bool allocate(struct skep_lm *lm)
{
    const struct skep_model_config *config = &lm->config;
    lm->kept = calloc(config->layers, sizeof *lm->kept);
    lm->experts = calloc(config->layers * skep_lm_grid(lm), sizeof *lm->experts);
    lm->trunk.layers = calloc(config->layers, sizeof *lm->trunk.layers);
    lm->trunk_gradient.layers = calloc(config->layers, sizeof *lm->trunk_gradient.layers);
    lm->trunk.values = calloc(lm->trunk_parameters, sizeof *lm->trunk.values);
    lm->trunk_gradient.values = calloc(lm->trunk_parameters, sizeof *lm->trunk_gradient.values);
    if (lm->kept == NULL || lm->experts == NULL || lm->trunk.layers == NULL ||
        lm->trunk_gradient.layers == NULL || lm->trunk.values == NULL ||
        lm->trunk_gradient.values == NULL) {
        return false;
    }
    struct arena arena = {0};
    place_all(&arena, lm);
    if (arena.asked > ARENA_LIMIT) {
        return false;
    }
    lm->memory = skep_memory_new(arena.used);
    if (lm->memory == NULL) {
        return false;
    }
    arena = (struct arena){.memory = lm->memory};
    place_all(&arena, lm);
    return true;
}

int skep_lm_new(const struct skep_model_config *config, uint32_t batch, struct skep_lm **ret_lm,
                struct skep_error *err)
{
    assert(batch > 0 && config->prefix > 0 && config->prefix < config->context);
    assert(config->vocabulary <= 256 && config->experts_per_token > 0);
    struct skep_lm *lm = skep_alloc(1, sizeof *lm);
    lm->config = *config;
    lm->batch_limit = batch;
    lm->trunk_parameters = trunk_parameters(config);
    lm->expert_parameters = skep_expert_parameters(config);
    if (!allocate(lm)) {
        skep_lm_free(lm);
        return skep_error_set(err, SKEP_ERR_MEMORY,
                              "a model of width %u, %u layers and batches of %u x %u tokens does "
                              "not fit into memory",
                              config->dim, config->layers, batch, config->context);
    }
    size_t bound = bind_trunk(config, lm->trunk.values, &lm->trunk);
    bind_trunk(config, lm->trunk_gradient.values, &lm->trunk_gradient);
    assert(bound == lm->trunk_parameters);
    *ret_lm = lm;
    return SKEP_OK;
}

static void free_expert(struct skep_lm_expert *expert)
{
    free(expert->values);
    free(expert->gradients);
    *expert = (struct skep_lm_expert){0};
}

void skep_lm_free(struct skep_lm *lm)
{
    if (lm == NULL) {
        return;
    }
    for (size_t i = 0; lm->experts != NULL && i < lm->config.layers * skep_lm_grid(lm); i++) {
        free_expert(&lm->experts[i]);
    }
    free(lm->experts);
    free(lm->kept);
    free(lm->trunk.values);
    free(lm->trunk.layers);
    free(lm->trunk_gradient.values);
    free(lm->trunk_gradient.layers);
    skep_memory_free(lm->memory);
    free(lm);
}

const struct skep_model_config *skep_lm_config(const struct skep_lm *lm)
{
    return &lm->config;
}

static struct skep_lm_expert *find_expert(const struct skep_lm *lm, const struct skep_shard *shard)
{
    assert(shard->kind == SKEP_SHARD_FFN && shard->layer < lm->config.layers);
    assert(shard->row < lm->config.rows && shard->column < lm->config.columns);
    return skep_lm_expert_at(lm, shard->layer,
                             (size_t)shard->row * lm->config.columns + shard->column);
}

static void copy_in(const float *from, size_t count, skep_real *to)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = from[i];
    }
}

void skep_lm_set(struct skep_lm *lm, const struct skep_shard *shard, const float *parameters)
{
    lm->complete = false;
    if (shard->kind == SKEP_SHARD_TRUNK) {
        copy_in(parameters, lm->trunk_parameters, lm->trunk.values);
        return;
    }
    struct skep_lm_expert *expert = find_expert(lm, shard);
    if (expert->values == NULL) {
        expert->values = skep_alloc(lm->expert_parameters, sizeof *expert->values);
        expert->gradients = skep_alloc(lm->expert_parameters, sizeof *expert->gradients);
        expert->gradient_zero = true;
    }
    copy_in(parameters, lm->expert_parameters, expert->values);
}

void skep_lm_drop(struct skep_lm *lm, const struct skep_shard *shard)
{
    lm->complete = false;
    free_expert(find_expert(lm, shard));
}

bool skep_lm_has(const struct skep_lm *lm, const struct skep_shard *shard)
{
    return skep_lm_parameters((struct skep_lm *)lm, shard) != NULL;
}

skep_real *skep_lm_parameters(struct skep_lm *lm, const struct skep_shard *shard)
{
    return shard->kind == SKEP_SHARD_TRUNK ? lm->trunk.values : find_expert(lm, shard)->values;
}

skep_real *skep_lm_gradients(struct skep_lm *lm, const struct skep_shard *shard)
{
    return shard->kind == SKEP_SHARD_TRUNK ? lm->trunk_gradient.values
                                           : find_expert(lm, shard)->gradients;
}
