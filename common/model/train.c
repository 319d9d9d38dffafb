#include "common/model/train.h"

#include <math.h>
#include <stdlib.h>

#include "common/model/layout.h"
#include "common/model/model-state.h"

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

/* Moves the biases of those rows or columns that could be chosen at all: a missing expert's load of 0 says nothing. */
static void balance(const struct skep_ops *ops, const uint64_t *loads, const bool *open,
                    size_t count, double step, skep_real *biases)
{
    skep_real values[SKEP_LIMIT_GRID];
    double total = 0;
    size_t open_count = 0;
    ops->copy_out(values, biases, count * sizeof *values);
    for (size_t i = 0; i < count; i++) {
        total += open[i] ? (double)loads[i] : 0;
        open_count += open[i];
    }
    for (size_t i = 0; i < count; i++) {
        if (open[i]) {
            double lack = total / (double)open_count - (double)loads[i];
            values[i] += (skep_real)(lack > 0 ? step : lack < 0 ? -step : 0);
        }
    }
    ops->copy_in(biases, values, count * sizeof *values);
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
        if (skep_model_present(model, layer, e)) {
            row_open[e / config->columns] = true;
            column_open[e % config->columns] = true;
        }
    }
    const struct skep_model_layer *trunk = &model->trunk.layers[layer];
    balance(model->ops, rows, row_open, config->rows, step, trunk->balance_row);
    balance(model->ops, columns, column_open, config->columns, step, trunk->balance_column);
}

/* The balancing biases move and the clip factor is found; then the parameters may. */
static void begin_update(struct skep_model *model, const struct skep_train_job *job,
                         struct skep_train_position *position)
{
    bool trunk = false;
    for (size_t i = 0; i < job->shard_count; i++) {
        trunk |= job->shards[i].kind == SKEP_SHARD_TRUNK;
    }
    for (uint32_t l = 0; trunk && l < model->config.layers; l++) {
        balance_layer(model, l, job->training->balance_step);
    }
    position->updating = true;
    position->clip = clip_factor(job->training->clip, skep_model_gradient_squares(model));
    position->shard = 0;
    position->offset = 0;
}

static struct skep_adamw adamw_of(const struct skep_train_job *job, double clip, uint64_t step)
{
    const struct skep_training_config *training = job->training;
    return (struct skep_adamw){.rate = job->learning_rate,
                               .beta1 = training->beta1,
                               .beta2 = training->beta2,
                               .epsilon = training->epsilon,
                               .gradient = clip,
                               .correction1 = 1 / (1 - pow(training->beta1, (double)step)),
                               .correction2 = 1 / (1 - pow(training->beta2, (double)step))};
}

/* Moves one shard from position->offset on, piece by piece (never across tensors, so that pieces are the same whether stopped or not).
 * The first piece always runs: it belongs to the step that moments->step counts. */
static void update_shard(struct skep_model *model, const struct skep_train_job *job,
                         struct skep_train_position *position, bool may_stop)
{
    const struct skep_shard *shard = &job->shards[position->shard];
    struct skep_moments *moments = &job->moments[position->shard];
    skep_real *values = skep_model_parameters(model, shard);
    const skep_real *gradients = skep_model_gradients(model, shard);
    struct skep_layout layout;
    skep_layout_of(&model->config, shard, &layout);
    moments->step += position->offset == 0;
    struct skep_adamw adamw = adamw_of(job, position->clip, moments->step);
    bool stop = false;
    for (size_t i = 0; i < layout.tensor_count && !stop; i++) {
        const struct skep_tensor_spec *spec = &layout.tensors[i];
        size_t end = spec->offset + spec->count;
        adamw.decay = spec->decayed ? job->training->weight_decay : 0;
        while (position->offset < end && !stop) {
            size_t at = (size_t)position->offset;
            size_t size = end - at < SKEP_TRAIN_PIECE ? end - at : SKEP_TRAIN_PIECE;
            if (!spec->balance) {
                model->ops->adamw(&adamw, size, gradients + at, moments->first + at,
                                  moments->second + at, values + at);
            }
            position->offset += size;
            stop = may_stop && skep_ops_stopped();
        }
    }
    if (position->offset == layout.parameters) {
        position->shard++;
        position->offset = 0;
    }
    skep_layout_done(&layout);
}

/* Goes on with the update where position says. False if it was stopped before its end. */
static bool update(struct skep_model *model, const struct skep_train_job *job,
                   struct skep_train_position *position, bool may_stop)
{
    while (position->shard < job->shard_count) {
        if (may_stop && skep_ops_stopped()) {
            return false;
        }
        update_shard(model, job, position, may_stop);
    }
    return true;
}

void skep_train_step(struct skep_model *model, const struct skep_training_config *training,
                     double learning_rate, const struct skep_shard *shards,
                     struct skep_moments *moments, size_t shard_count)
{
    struct skep_train_job job = {.training = training,
                                 .learning_rate = learning_rate,
                                 .shards = shards,
                                 .moments = moments,
                                 .shard_count = shard_count};
    struct skep_train_position position = {0};
    begin_update(model, &job, &position);
    update(model, &job, &position, false);
}

/* The update of a step is over: its loss joins the means of the quarters. */
static void end_step(const struct skep_train_job *job, struct skep_train_position *position)
{
    uint32_t steps = job->training->steps;
    uint32_t quarter = (steps + 3) / 4;
    position->tokens += position->step_tokens;
    if (position->step < quarter) {
        position->loss_first += position->step_loss / quarter;
    }
    if (position->step >= steps - quarter) {
        position->loss_last += position->step_loss / quarter;
    }
    position->step++;
    position->updating = false;
    position->clip = position->step_loss = 0;
    position->shard = 0;
    position->step_tokens = position->offset = 0;
}

/* Gradients of the next step; nothing that lasts changes before the last line. */
static int find_gradients(struct skep_model *model, const struct skep_train_job *job,
                          uint8_t *windows, struct skep_train_position *position,
                          struct skep_error *err)
{
    uint32_t batch = job->training->batch;
    struct skep_model_loss loss = {0};
    int rc = skep_slice_batch(&model->config, job->chunks, job->chunk_count, job->ticket,
                              position->step, batch, windows, err);
    rc = rc != SKEP_OK ? rc : skep_model_forward(model, windows, batch, &loss, err);
    rc = rc != SKEP_OK ? rc : skep_model_backward(model, job->training->z_loss, err);
    if (rc == SKEP_OK) {
        position->step_loss = loss.sum_nats / (double)loss.tokens;
        position->step_tokens = loss.tokens;
        begin_update(model, job, position);
    }
    return rc;
}

static int check_job(const struct skep_model *model, const struct skep_train_job *job,
                     struct skep_error *err)
{
    if (job->training->batch == 0 || job->training->batch > model->options.batch) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "a job with batches of %u sequences, but the model was made for %u",
                              job->training->batch, model->options.batch);
    }
    for (size_t i = 0; i < job->shard_count; i++) {
        struct skep_layout layout;
        char name[SKEP_SHARD_TEXT_SIZE];
        skep_shard_format(&job->shards[i], name);
        if (skep_model_gradients(model, &job->shards[i]) == NULL) {
            return skep_error_set(err, SKEP_ERR_ARGUMENT,
                                  "the job trains %s, but the model does not have it", name);
        }
        skep_layout_of(&model->config, &job->shards[i], &layout);
        size_t parameters = layout.parameters;
        skep_layout_done(&layout);
        if (job->moments[i].parameters != parameters) {
            return skep_error_set(err, SKEP_ERR_ARGUMENT, "%zu moments for %s, expected %zu",
                                  job->moments[i].parameters, name, parameters);
        }
    }
    return SKEP_OK;
}

static int check_position(const struct skep_train_job *job,
                          const struct skep_train_position *position, struct skep_error *err)
{
    uint32_t steps = job->training->steps;
    if (position->step > steps || (position->updating && position->step == steps)) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "the job stands at step %u%s, expected one of 0 to %u",
                              position->step, position->updating ? ", updating" : "", steps);
    }
    if (!position->updating) {
        return SKEP_OK;
    }
    if (position->shard >= job->shard_count ||
        position->offset >= job->moments[position->shard].parameters) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "the update stands at parameter %llu of shard %u, which the job does "
                              "not have",
                              (unsigned long long)position->offset, position->shard);
    }
    if (!(position->clip > 0 && position->clip <= 1) || !isfinite(position->step_loss)) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "the update clips by %g at a loss of %g, expected a factor above 0 "
                              "and at most 1 and a finite loss",
                              position->clip, position->step_loss);
    }
    return SKEP_OK;
}

static int run_step(struct skep_model *model, const struct skep_train_job *job, uint8_t *windows,
                    struct skep_train_position *position, struct skep_error *err)
{
    int rc = SKEP_OK;
    if (!position->updating) {
        rc = find_gradients(model, job, windows, position, err);
    }
    if (rc == SKEP_OK && !update(model, job, position, true)) {
        rc = skep_error_set(err, SKEP_ERR_CANCELLED, "the update of step %u was stopped on request",
                            position->step);
    }
    rc = rc == SKEP_OK ? model->ops->status(err) : rc;
    if (rc != SKEP_OK) {
        return rc;
    }
    double loss = position->step_loss;
    uint64_t tokens = position->step_tokens;
    end_step(job, position);
    if (job->poll != NULL && job->poll(job->user, position->step - 1, loss, tokens) &&
        position->step < job->training->steps) {
        rc = skep_error_set(err, SKEP_ERR_CANCELLED, "the job was stopped after %u of %u steps",
                            position->step, job->training->steps);
    }
    return rc;
}

int skep_train_run(struct skep_model *model, const struct skep_train_job *job,
                   struct skep_train_position *position, struct skep_error *err)
{
    int rc = check_job(model, job, err);
    rc = rc != SKEP_OK ? rc : check_position(job, position, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    uint8_t *windows = calloc(job->training->batch, skep_model_config_window(&model->config));
    if (windows == NULL) {
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory for a batch of %u",
                              job->training->batch);
    }
    while (rc == SKEP_OK && position->step < job->training->steps) {
        rc = run_step(model, job, windows, position, err);
    }
    free(windows);
    return rc;
}
