/* Making and freeing a model, and what that takes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/model/attention.h"
#include "common/model/experts.h"
#include "common/model/layout.h"
#include "common/model/model-state.h"

/* Hands out pieces of one block, each on its own cache line. Run twice: without memory it only counts. */
struct arena {
    char *memory;
    size_t used;
    double asked; /* the same in floating point, which cannot wrap around */
};

#define ARENA_ALIGN ((size_t)64)
#define ARENA_LIMIT 1e12

static void *place(struct arena *arena, size_t count, size_t size)
{
    void *piece = arena->memory == NULL || count == 0 ? NULL : arena->memory + arena->used;
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
    bool lm;
    bool back; /* there is a way back */
    size_t batch;
    size_t tokens;
    size_t pairs;
    size_t d;
    size_t rows;
    size_t columns;
    size_t grid;
    size_t length;
    size_t answers;
    size_t choosers; /* sequences or tokens: what has row scores of its own */
    size_t square;   /* attention probabilities of one layer */
};

static struct sizes sizes_of(const struct skep_model *model)
{
    const struct skep_model_config *config = &model->config;
    struct sizes sizes = {.lm = config->kind == SKEP_MODEL_LM,
                          .back = !model->options.forward_only,
                          .batch = model->options.batch,
                          .d = config->dim,
                          .rows = config->rows,
                          .columns = config->columns,
                          .grid = skep_model_grid(model),
                          .length = config->context,
                          .answers = skep_model_answers(config)};
    sizes.tokens = sizes.batch * sizes.length;
    sizes.pairs = sizes.tokens * config->experts_per_token;
    sizes.choosers = config->route == SKEP_ROUTE_TOKEN ? sizes.tokens : sizes.batch;
    sizes.square = sizes.back
                       ? sizes.batch * config->heads * skep_attention_probabilities(sizes.length)
                       : SKEP_ATTENTION_BLOCK * sizes.length;
    return sizes;
}

/* Of the host; always a layer's own. */
static void place_choice(struct arena *arena, const struct sizes *s, struct skep_model_kept *kept)
{
    kept->row_scores = place_reals(arena, s->choosers * s->rows);
    kept->column_scores = place_reals(arena, s->tokens * s->columns);
    kept->chosen = place(arena, s->pairs, sizeof *kept->chosen);
    kept->weight = place_reals(arena, s->pairs);
    kept->first = place(arena, s->grid + 1, sizeof *kept->first);
    kept->pair_place = place(arena, s->pairs, sizeof *kept->pair_place);
}

/* Of the table's memory; always a layer's own. */
static void place_pairs(struct arena *arena, const struct sizes *s, struct skep_model_kept *kept)
{
    kept->pair_token = place(arena, s->pairs, sizeof *kept->pair_token);
    kept->pair_weight = place_reals(arena, s->pairs);
}

static void place_inner(struct arena *arena, const struct sizes *s, const struct skep_model *model,
                        struct skep_model_inner *inner)
{
    if (s->lm) {
        inner->in_hat = place_reals(arena, s->tokens * s->d);
        inner->in_scale = place_reals(arena, s->tokens);
        inner->in_norm = place_reals(arena, s->tokens * s->d);
        inner->qkv = place_reals(arena, s->tokens * 3 * s->d);
        inner->probability = place_reals(arena, s->square);
        inner->attended = place_reals(arena, s->tokens * s->d);
    }
    inner->mid_hat = place_reals(arena, s->tokens * s->d);
    inner->mid_scale = place_reals(arena, s->tokens);
    inner->mid_norm = place_reals(arena, s->tokens * s->d);
    inner->work = place_reals(arena, skep_experts_work(&model->config, &model->options, s->tokens));
}

static void place_layers(struct arena *arena, const struct sizes *s, struct skep_model *model)
{
    bool shares = skep_model_shares(&model->options);
    bool shares_out = shares && (model->options.calls == NULL || !s->back);
    struct skep_model_kept shared = {0};
    if (shares) {
        place_inner(arena, s, model, &shared.inner);
    }
    if (shares_out) {
        shared.expert_out = place_reals(arena, s->pairs * s->d);
    }
    for (uint32_t l = 0; l < model->config.layers; l++) {
        struct skep_model_kept *kept = &model->kept[l];
        place_pairs(arena, s, kept);
        if (shares) {
            kept->inner = shared.inner;
        } else {
            place_inner(arena, s, model, &kept->inner);
        }
        kept->expert_out = shares_out ? shared.expert_out : place_reals(arena, s->pairs * s->d);
        if (model->options.recompute && s->back) {
            kept->x = place_reals(arena, s->tokens * s->d);
        }
    }
}

static void place_ends(struct arena *arena, const struct sizes *s, struct skep_model *model)
{
    if (s->lm) {
        model->token_index = place(arena, s->tokens, sizeof *model->token_index);
        model->position_index = place(arena, s->tokens, sizeof *model->position_index);
        model->prefix_mean = place_reals(arena, s->batch * s->d);
    } else {
        model->inputs = place_reals(arena, s->tokens * model->config.inputs);
    }
    model->output_index = place(arena, s->tokens, sizeof *model->output_index);
    model->targets = place(arena, s->tokens, sizeof *model->targets);
    model->x = place_reals(arena, s->tokens * s->d);
    model->row_scores = place_reals(arena, s->choosers * s->rows);
    model->column_scores = place_reals(arena, s->tokens * s->columns);
    model->final_hat = place_reals(arena, s->tokens * s->d);
    model->final_scale = place_reals(arena, s->tokens);
    model->final_norm = place_reals(arena, s->tokens * s->d);
    model->logits = place_reals(arena, s->tokens * s->answers);
    model->logsumexp = place_reals(arena, s->tokens);
    model->nats_there = place_reals(arena, s->tokens);
}

/* The experts' and the attention's scratch is the same memory: they take turns. */
static void place_back(struct arena *arena, const struct sizes *s, struct skep_model *model)
{
    model->dx = place_reals(arena, s->tokens * s->d);
    model->dprefix = place_reals(arena, s->batch * s->d);
    model->dnarrow = place_reals(arena, s->tokens * s->d);
    size_t start = arena->used;
    model->dpair = place_reals(arena, s->pairs * s->d);
    model->dpair_weight = place_reals(arena, s->pairs);
    if (model->options.calls == NULL) {
        model->dexpert = place_reals(arena, skep_expert_scratch(model->shape, s->tokens));
    }
    size_t end = arena->used;
    arena->used = start;
    if (s->lm) {
        model->dwide = place_reals(arena, s->tokens * 3 * s->d);
        model->dscores = place_reals(arena, SKEP_ATTENTION_BLOCK * s->length);
    }
    arena->used = arena->used > end ? arena->used : end;
}

static void place_host(struct arena *arena, const struct sizes *s, struct skep_model *model)
{
    size_t k = model->config.experts_per_token;
    size_t most = s->rows > k ? s->rows : k;
    size_t wide = model->config.inputs > s->answers ? model->config.inputs : s->answers;
    for (uint32_t l = 0; l < model->config.layers; l++) {
        place_choice(arena, s, &model->kept[l]);
        if (model->options.calls != NULL) {
            model->kept[l].called_x = place_reals(arena, s->pairs * s->d);
        }
    }
    model->nats = place_reals(arena, s->tokens);
    model->index = place(arena, s->pairs, sizeof *model->index);
    model->reals = place_reals(arena, s->lm ? 0 : s->tokens * wide);
    model->pair_reals = place_reals(arena, s->pairs);
    if (s->back) {
        model->drow = place_reals(arena, s->choosers * s->rows);
        model->dcolumn = place_reals(arena, s->tokens * s->columns);
        model->dweight = place_reals(arena, s->pairs);
    }
    if (model->options.calls != NULL) {
        model->called_y = place_reals(arena, s->pairs * s->d);
        model->called_dx = place_reals(arena, s->back ? s->pairs * s->d : 0);
    }
    model->groups = place(arena, s->grid, sizeof *model->groups);
    model->answered = place(arena, s->grid, sizeof *model->answered);
    model->balance_row = place_reals(arena, s->rows);
    model->balance_column = place_reals(arena, s->columns);
    model->row_present = place(arena, s->rows, 1);
    model->choice_scores = place_reals(arena, most);
    model->choice_rows = place(arena, most, sizeof *model->choice_rows);
}

static void place_there(struct arena *arena, const struct sizes *s, struct skep_model *model)
{
    place_layers(arena, s, model);
    place_ends(arena, s, model);
    if (s->back) {
        place_back(arena, s, model);
    }
}

static skep_real *take_piece(skep_real **at, size_t count)
{
    skep_real *piece = *at;
    *at += count;
    return piece;
}

static void bind_layer(const struct skep_model_config *config, skep_real **at,
                       struct skep_model_layer *layer)
{
    size_t d = config->dim;
    layer->norm.gain = take_piece(at, d);
    layer->norm.bias = take_piece(at, d);
    if (config->kind == SKEP_MODEL_LM) {
        layer->qkv = take_piece(at, 3 * d * d);
        layer->out = take_piece(at, d * d);
    }
    layer->gate_row = take_piece(at, config->rows * d);
    layer->gate_column = take_piece(at, config->columns * d);
    layer->balance_row = take_piece(at, config->rows);
    layer->balance_column = take_piece(at, config->columns);
}

/* Finds the trunk's tensors in `values`, in layout order; returns how many values they are. trunk->layers is the
 * caller's. */
static size_t bind_trunk(const struct skep_model_config *config, skep_real *values,
                         struct skep_model_trunk *trunk)
{
    size_t d = config->dim;
    bool lm = config->kind == SKEP_MODEL_LM;
    skep_real *at = values;
    trunk->values = values;
    if (lm) {
        trunk->token = take_piece(&at, config->vocabulary * d);
        trunk->position = take_piece(&at, config->context * d);
    } else {
        trunk->embed = take_piece(&at, config->inputs * d);
        trunk->embed_bias = take_piece(&at, d);
    }
    for (uint32_t l = 0; l < config->layers; l++) {
        bind_layer(config, &at, &trunk->layers[l]);
    }
    trunk->final.gain = take_piece(&at, d);
    trunk->final.bias = take_piece(&at, d);
    trunk->head = lm ? trunk->token : take_piece(&at, config->classes * d);
    trunk->head_bias = lm ? NULL : take_piece(&at, config->classes);
    return (size_t)(at - values);
}

static size_t trunk_parameters(const struct skep_model_config *config)
{
    struct skep_layout layout;
    skep_layout_of(config, &(struct skep_shard){.kind = SKEP_SHARD_TRUNK}, &layout);
    size_t parameters = layout.parameters;
    skep_layout_done(&layout);
    return parameters;
}

/* Bytes of the two blocks; kept has config.layers entries. False when they are beyond any machine, or pairs cannot be counted in the
 * 32 bits of an index and of a CBLAS's int. */
static bool count_memory(struct skep_model *model, size_t *ret_there, size_t *ret_host)
{
    struct sizes sizes = sizes_of(model);
    struct arena there = {0};
    struct arena host = {0};
    place_there(&there, &sizes, model);
    place_host(&host, &sizes, model);
    *ret_there = there.used;
    *ret_host = host.used;
    return there.asked + host.asked <= ARENA_LIMIT && sizes.pairs <= INT32_MAX;
}

static bool allocate_trunk(struct skep_model *model, struct skep_model_trunk *trunk)
{
    trunk->layers = calloc(model->config.layers, sizeof *trunk->layers);
    skep_real *values = model->ops->memory_new(model->trunk_parameters * sizeof *values);
    trunk->values = values;
    if (trunk->layers == NULL || values == NULL) {
        return false;
    }
    size_t bound = bind_trunk(&model->config, values, trunk);
    assert(bound == model->trunk_parameters);
    skep_model_clear(model->ops, model->trunk_parameters * sizeof *values, values);
    return true;
}

/* All allocations of a model; false when memory is gone, with what was had left for skep_model_free(). */
static bool allocate(struct skep_model *model)
{
    size_t there = 0;
    size_t host = 0;
    model->kept = calloc(model->config.layers, sizeof *model->kept);
    model->experts = calloc(model->config.layers * skep_model_grid(model), sizeof *model->experts);
    if (model->kept == NULL || model->experts == NULL || !count_memory(model, &there, &host) ||
        !allocate_trunk(model, &model->trunk) ||
        (!model->options.forward_only && !allocate_trunk(model, &model->trunk_gradient))) {
        return false;
    }
    model->memory = model->ops->memory_new(there);
    model->host_memory = calloc(host, 1);
    if (model->memory == NULL || model->host_memory == NULL) {
        return false;
    }
    struct sizes sizes = sizes_of(model);
    place_there(&(struct arena){.memory = model->memory}, &sizes, model);
    place_host(&(struct arena){.memory = model->host_memory}, &sizes, model);
    return true;
}

/* What skep_model_config_check() promises and this code stands on; tests make models that it would refuse for their size. */
static int check(const struct skep_model_config *config, const struct skep_model_options *options,
                 struct skep_error *err)
{
    bool lm = config->kind == SKEP_MODEL_LM;
    bool sound = config->dim > 0 && config->hidden > 0 && config->layers > 0 && config->rows > 0 &&
                 config->columns > 0 && config->experts_per_token > 0 &&
                 config->rows_per_token > 0 && config->rows_per_token <= config->rows &&
                 config->rows <= SKEP_LIMIT_GRID && config->columns <= SKEP_LIMIT_GRID;
    if (lm) {
        sound = sound && config->prefix > 0 && config->prefix < config->context &&
                config->vocabulary > 0 && config->vocabulary <= 256 && config->heads > 0 &&
                config->dim % config->heads == 0;
    } else {
        sound = sound && config->context == 1 && config->prefix == 0 && config->inputs > 0 &&
                config->classes >= 2 && config->classes <= 256 && config->route == SKEP_ROUTE_TOKEN;
    }
    if (!sound) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "a model's configuration was not checked before it was used");
    }
    if (options->batch == 0) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "a model for batches of 0, expected at least 1");
    }
    return SKEP_OK;
}

static void describe(struct skep_model *model, const struct skep_model_config *config,
                     const struct skep_model_options *options)
{
    model->config = *config;
    model->options = *options;
    model->ops = options->ops != NULL ? options->ops : skep_ops_cpu();
    model->shape = skep_expert_shape_of(config);
    model->trunk_parameters = trunk_parameters(config);
    model->expert_parameters = skep_expert_parameters(model->shape);
}

int skep_model_new(const struct skep_model_config *config, const struct skep_model_options *options,
                   struct skep_model **ret_model, struct skep_error *err)
{
    int rc = check(config, options, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    struct skep_model *model = skep_alloc(1, sizeof *model);
    describe(model, config, options);
    if (!allocate(model)) {
        skep_model_free(model);
        return skep_error_set(err, SKEP_ERR_MEMORY,
                              "a model of width %u, %u layers and batches of %u x %u tokens does "
                              "not fit into memory",
                              config->dim, config->layers, options->batch, config->context);
    }
    *ret_model = model;
    return SKEP_OK;
}

static void free_trunk(const struct skep_ops *ops, struct skep_model_trunk *trunk)
{
    if (trunk->values != NULL) {
        ops->memory_free(trunk->values);
    }
    free(trunk->layers);
}

void skep_model_free(struct skep_model *model)
{
    if (model == NULL) {
        return;
    }
    for (size_t i = 0; model->experts != NULL && i < model->config.layers * skep_model_grid(model);
         i++) {
        skep_model_free_expert(model, &model->experts[i]);
    }
    free(model->experts);
    free(model->kept);
    free_trunk(model->ops, &model->trunk);
    free_trunk(model->ops, &model->trunk_gradient);
    if (model->memory != NULL) {
        model->ops->memory_free(model->memory);
    }
    free(model->host_memory);
    free(model);
}

void skep_model_memory_of(const struct skep_model_config *config,
                          const struct skep_model_options *options, size_t experts,
                          struct skep_model_memory *ret_memory)
{
    struct skep_model *model = skep_alloc(1, sizeof *model);
    size_t there = 0;
    size_t host = 0;
    describe(model, config, options);
    model->kept = skep_alloc(config->layers, sizeof *model->kept);
    bool possible = count_memory(model, &there, &host);
    uint64_t tables =
        sizeof *model + config->layers * sizeof *model->kept +
        config->layers * skep_model_grid(model) * sizeof *model->experts +
        config->layers * sizeof *model->trunk.layers * (options->forward_only ? 1 : 2);
    uint64_t parameters = model->trunk_parameters + experts * model->expert_parameters;
    *ret_memory = (struct skep_model_memory){
        .parameters = parameters * sizeof(skep_real),
        .gradients = options->forward_only ? 0 : parameters * sizeof(skep_real),
        .activations = possible ? there + host + tables : UINT64_MAX / 4,
        .moments = options->forward_only ? 0 : parameters * 2 * sizeof(float)};
    free(model->kept);
    free(model);
}
