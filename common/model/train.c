#include "common/model/train.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/model/layout.h"
#include "common/model/model-state.h"

void skep_moments_init(struct skep_moments *moments, size_t parameters)
{
    *moments = (struct skep_moments){.parameters = parameters};
    moments->first = skep_alloc(parameters, sizeof *moments->first);
    moments->second = skep_alloc(parameters, sizeof *moments->second);
}

void skep_moments_done(struct skep_moments *moments)
{
    free(moments->first);
    free(moments->second);
    *moments = (struct skep_moments){0};
}

double skep_train_rate(const struct skep_training_config *training, uint64_t trunk_version)
{
    if (trunk_version >= training->warmup_rounds) {
        return training->learning_rate;
    }
    return training->learning_rate * (double)(trunk_version + 1) /
           ((double)training->warmup_rounds + 1);
}

/* The factor that brings the gradient's norm down to clip; 0 means no limit. */
static double clip_factor(double clip, double squares)
{
    double norm = sqrt(squares);
    return clip > 0 && norm > clip ? clip / norm : 1;
}

static void update_shard(struct skep_model *model, const struct skep_training_config *training,
                         struct skep_adamw adamw, const struct skep_shard *shard,
                         struct skep_moments *moments)
{
    struct skep_layout layout;
    skep_layout_of(skep_model_config(model), shard, &layout);
    skep_real *values = skep_model_parameters(model, shard);
    const skep_real *gradients = skep_model_gradients(model, shard);
    assert(values != NULL && moments->parameters == layout.parameters);
    moments->step++;
    adamw.correction1 = 1 / (1 - pow(training->beta1, (double)moments->step));
    adamw.correction2 = 1 / (1 - pow(training->beta2, (double)moments->step));
    for (size_t i = 0; i < layout.tensor_count; i++) {
        const struct skep_tensor_spec *spec = &layout.tensors[i];
        if (spec->balance) {
            continue;
        }
        adamw.decay = spec->decayed ? training->weight_decay : 0;
        skep_adamw_update(&adamw, spec->count, gradients + spec->offset,
                          moments->first + spec->offset, moments->second + spec->offset,
                          values + spec->offset);
    }
    skep_layout_done(&layout);
}

/* Moves the biases of those rows or columns that could be chosen at all: a missing expert's load of 0 says nothing. */
static void balance(const uint64_t *loads, const bool *open, size_t count, double step,
                    skep_real *biases)
{
    double total = 0;
    size_t open_count = 0;
    for (size_t i = 0; i < count; i++) {
        total += open[i] ? (double)loads[i] : 0;
        open_count += open[i];
    }
    for (size_t i = 0; i < count; i++) {
        if (open[i]) {
            double lack = total / (double)open_count - (double)loads[i];
            biases[i] += (skep_real)(lack > 0 ? step : lack < 0 ? -step : 0);
        }
    }
}

static void balance_layer(struct skep_model *model, uint32_t layer, double step)
{
    const struct skep_model_config *config = &model->config;
    uint64_t rows[SKEP_LIMIT_GRID] = {0};
    uint64_t columns[SKEP_LIMIT_GRID] = {0};
    bool row_open[SKEP_LIMIT_GRID] = {false};
    bool column_open[SKEP_LIMIT_GRID] = {false};
    skep_model_loads(model, layer, rows, columns);
    for (size_t e = 0; e < skep_model_grid(model); e++) {
        if (skep_model_expert_at(model, layer, e)->values != NULL) {
            row_open[e / config->columns] = true;
            column_open[e % config->columns] = true;
        }
    }
    struct skep_model_layer *trunk = &model->trunk.layers[layer];
    balance(rows, row_open, config->rows, step, trunk->balance_row);
    balance(columns, column_open, config->columns, step, trunk->balance_column);
}

void skep_train_step(struct skep_model *model, const struct skep_training_config *training,
                     double learning_rate, const struct skep_shard *shards,
                     struct skep_moments *moments, size_t shard_count)
{
    assert(model->config.rows <= SKEP_LIMIT_GRID && model->config.columns <= SKEP_LIMIT_GRID);
    struct skep_adamw adamw = {.rate = learning_rate,
                               .beta1 = training->beta1,
                               .beta2 = training->beta2,
                               .epsilon = training->epsilon};
    adamw.gradient = clip_factor(training->clip, skep_model_gradient_squares(model));
    bool trunk = false;
    for (size_t i = 0; i < shard_count; i++) {
        update_shard(model, training, adamw, &shards[i], &moments[i]);
        trunk |= shards[i].kind == SKEP_SHARD_TRUNK;
    }
    for (uint32_t l = 0; trunk && l < model->config.layers; l++) {
        balance_layer(model, l, training->balance_step);
    }
}

/* Means of the first and last quarter of a job's losses, without keeping them all. */
struct quarters {
    uint32_t steps;
    uint32_t quarter;
    double first;
    double last;
};

static void quarters_add(struct quarters *quarters, uint32_t step, double loss)
{
    if (step < quarters->quarter) {
        quarters->first += loss / quarters->quarter;
    }
    if (step >= quarters->steps - quarters->quarter) {
        quarters->last += loss / quarters->quarter;
    }
}

int skep_train_job(struct skep_model *model, const struct skep_training_config *training,
                   double learning_rate, const struct skep_shard *shards,
                   struct skep_moments *moments, size_t shard_count,
                   const struct skep_slice_chunk *chunks, size_t chunk_count,
                   const struct skep_hash *ticket, skep_train_poll poll, void *user,
                   struct skep_job_result *ret_result, struct skep_error *err)
{
    if (training->batch > model->batch_limit) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "a job with batches of %u sequences, but the model was made for %u",
                              training->batch, model->batch_limit);
    }
    uint32_t context = model->config.context;
    uint8_t *tokens = skep_alloc((size_t)training->batch * context, 1);
    struct quarters quarters = {.steps = training->steps, .quarter = (training->steps + 3) / 4};
    uint64_t total = 0;
    int rc = SKEP_OK;
    for (uint32_t step = 0; step < training->steps && rc == SKEP_OK; step++) {
        struct skep_model_loss loss;
        rc = skep_slice_batch(chunks, chunk_count, ticket, step, training->batch, context, tokens,
                              err);
        rc = rc != SKEP_OK ? rc : skep_model_forward(model, tokens, training->batch, &loss, err);
        rc = rc != SKEP_OK ? rc : skep_model_backward(model, training->z_loss, err);
        if (rc != SKEP_OK) {
            break;
        }
        skep_train_step(model, training, learning_rate, shards, moments, shard_count);
        double mean = loss.sum_nats / (double)loss.tokens;
        total += loss.tokens;
        quarters_add(&quarters, step, mean);
        if (poll != NULL && poll(user, step, mean, loss.tokens)) {
            rc = skep_error_set(err, SKEP_ERR_CANCELLED, "the job was stopped after %u of %u steps",
                                step + 1, training->steps);
        }
    }
    free(tokens);
    if (rc == SKEP_OK) {
        *ret_result = (struct skep_job_result){total, quarters.first, quarters.last};
    }
    return rc;
}
