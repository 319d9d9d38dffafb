#include "common/model/model.h"

#include <math.h>
#include <string.h>

#include "common/model/attention.h"
#include "common/model/ends.h"
#include "common/model/experts.h"
#include "common/model/gate.h"
#include "common/model/model-state.h"

int skep_model_stopped(const char *pass, struct skep_error *err)
{
    return skep_ops_stopped()
               ? skep_error_set(err, SKEP_ERR_CANCELLED, "%s pass: stopped on request", pass)
               : SKEP_OK;
}

int skep_model_check_bytes(const struct skep_model *model, const uint8_t *tokens, size_t count,
                           struct skep_error *err)
{
    for (size_t i = 0; skep_model_is_lm(model) && model->config.vocabulary < 256 && i < count;
         i++) {
        if (tokens[i] >= model->config.vocabulary) {
            return skep_error_set(err, SKEP_ERR_FORMAT,
                                  "byte %zu of the text is %u, expected one below the vocabulary "
                                  "of %u",
                                  i, tokens[i], model->config.vocabulary);
        }
    }
    return SKEP_OK;
}

static int check_pass(const struct skep_model *model, const struct skep_model_pass *pass,
                      struct skep_error *err)
{
    if (pass->batch == 0 || pass->batch > model->options.batch) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "a batch of %u, but the model was made for 1 to %u", pass->batch,
                              model->options.batch);
    }
    if (pass->length == 0 || pass->length > model->config.context ||
        pass->first_output >= pass->length) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "sequences of %u bytes with outputs from place %u, expected 1 to %u "
                              "bytes and an output",
                              pass->length, pass->first_output, model->config.context);
    }
    return SKEP_OK;
}

static void begin(struct skep_model *model, const struct skep_model_pass *pass)
{
    model->batch = pass->batch;
    model->length = pass->length;
    model->first_output = pass->first_output;
    model->prefix = pass->length < model->config.prefix ? pass->length : model->config.prefix;
    model->complete = false;
    model->inner_layer = SKEP_NO_LAYER;
}

/* y <- x; the table has no plain copy. */
static void copy_rows(struct skep_model *model, const skep_real *x, skep_real *y)
{
    struct skep_rows rows = {skep_model_tokens(model), model->config.dim, NULL};
    model->ops->rows_gather(rows, x, y);
}

static int run_layer(struct skep_model *model, uint32_t layer, double *z, struct skep_error *err)
{
    double layer_z = 0;
    if (model->options.recompute && !model->options.forward_only) {
        copy_rows(model, model->x, model->kept[layer].x);
    }
    if (skep_model_is_lm(model)) {
        skep_attention_forward(model, layer);
    }
    int rc = skep_gate_forward(model, layer, &layer_z, err);
    if (rc == SKEP_OK) {
        rc = skep_experts_forward(model, layer, err);
    }
    model->inner_layer = layer;
    *z += layer_z;
    return rc == SKEP_OK ? skep_model_stopped("forward", err) : rc;
}

/* The residual stream carries whatever went wrong before it, also where no loss would see it. */
static int check_stream(const struct skep_model *model, struct skep_error *err)
{
    size_t count = skep_model_tokens(model) * model->config.dim;
    double squares = model->ops->sum_squares(model->x, count);
    int rc = model->ops->status(err);
    rc = rc != SKEP_OK ? rc : skep_model_stopped("forward", err);
    if (rc == SKEP_OK && !isfinite(squares)) {
        rc = skep_error_set(err, SKEP_ERR_NUMERIC,
                            "forward pass: the activations are not finite (sum of squares %f)",
                            squares);
    }
    return rc;
}

int skep_model_run(struct skep_model *model, const struct skep_model_pass *pass, double *ret_z,
                   struct skep_error *err)
{
    double z = 0;
    int rc = check_pass(model, pass, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    begin(model, pass);
    skep_embed_bytes(model, pass, model->x);
    skep_gate_prefix(model);
    for (uint32_t l = 0; l < model->config.layers && rc == SKEP_OK; l++) {
        rc = run_layer(model, l, &z, err);
    }
    if (rc == SKEP_OK) {
        rc = check_stream(model, err);
    }
    if (rc == SKEP_OK) {
        skep_head_forward(model);
        *ret_z = z / model->config.layers;
    }
    return rc;
}

/* Which answers are right, into model->index: the bytes after the prefix, or the classes behind the inputs. */
static int note_targets(struct skep_model *model, const uint8_t *records, struct skep_error *err)
{
    const struct skep_model_config *config = &model->config;
    size_t window = skep_model_config_window(config);
    size_t skipped = skep_model_is_lm(model) ? config->prefix : config->inputs;
    size_t each = window - skipped;
    for (size_t i = 0; i < skep_model_outputs(model); i++) {
        model->index[i] = records[i / each * window + skipped + i % each];
        if (model->index[i] >= skep_model_answers(config)) {
            return skep_error_set(err, SKEP_ERR_FORMAT,
                                  "record %zu of the batch has class %u, expected one below %u",
                                  i / each, model->index[i], config->classes);
        }
    }
    skep_head_targets(model, model->index);
    return SKEP_OK;
}

static int take_loss(struct skep_model *model, double z, struct skep_model_loss *ret_loss,
                     struct skep_error *err)
{
    struct skep_model_loss loss = {.tokens = skep_model_outputs(model), .z = z};
    loss.sum_nats = skep_head_loss(model);
    if (!skep_model_is_lm(model)) {
        loss.correct = skep_head_correct(model, model->index);
    }
    int rc = model->ops->status(err);
    rc = rc != SKEP_OK ? rc : skep_model_stopped("forward", err);
    if (rc == SKEP_OK && (!isfinite(loss.sum_nats) || !isfinite(loss.z))) {
        rc = skep_error_set(err, SKEP_ERR_NUMERIC,
                            "forward pass: the loss of a batch is %f with z %f, expected finite "
                            "numbers",
                            loss.sum_nats, loss.z);
    }
    if (rc == SKEP_OK) {
        *ret_loss = loss;
    }
    return rc;
}

int skep_model_forward(struct skep_model *model, const uint8_t *records, uint32_t batch,
                       struct skep_model_loss *ret_loss, struct skep_error *err)
{
    bool lm = skep_model_is_lm(model);
    size_t window = skep_model_config_window(&model->config);
    /* The byte at place T - 1 is predicted but predicts nothing, so it is not run through the model. */
    struct skep_model_pass pass = {.records = records,
                                   .stride = window,
                                   .batch = batch,
                                   .length = lm ? model->config.context - 1 : 1,
                                   .first_output = lm ? model->config.prefix - 1 : 0};
    double z = 0;
    int rc = check_pass(model, &pass, err);
    rc = rc != SKEP_OK ? rc : skep_model_check_bytes(model, records, batch * window, err);
    rc = rc != SKEP_OK ? rc : skep_model_run(model, &pass, &z, err);
    rc = rc != SKEP_OK ? rc : note_targets(model, records, err);
    rc = rc != SKEP_OK ? rc : take_loss(model, z, ret_loss, err);
    model->complete = rc == SKEP_OK;
    return rc;
}

double skep_model_gradient_squares(const struct skep_model *model)
{
    double sum = model->trunk_gradient_squares;
    for (size_t i = 0; i < model->config.layers * skep_model_grid(model); i++) {
        if (model->experts[i].values != NULL) {
            sum += model->experts[i].gradient_squares;
        }
    }
    return sum;
}

/* What the layer's way back needs, from its input. */
static void run_layer_again(struct skep_model *model, uint32_t layer)
{
    copy_rows(model, model->kept[layer].x, model->x);
    if (skep_model_is_lm(model)) {
        skep_attention_forward(model, layer);
    }
    skep_gate_again(model, layer);
    skep_experts_again(model, layer);
    model->inner_layer = layer;
}

static int layer_backward(struct skep_model *model, uint32_t layer, double z_loss,
                          struct skep_error *err)
{
    if (model->options.recompute && model->inner_layer != layer) {
        run_layer_again(model, layer);
    }
    int rc = skep_experts_backward(model, layer, err);
    rc = rc != SKEP_OK ? rc : skep_model_stopped("backward", err);
    if (rc == SKEP_OK) {
        skep_gate_backward(model, layer, z_loss);
        if (skep_model_is_lm(model)) {
            skep_attention_backward(model, layer);
        }
        rc = skep_model_stopped("backward", err);
    }
    return rc;
}

static int check_gradients(struct skep_model *model, struct skep_error *err)
{
    model->trunk_gradient_squares =
        model->ops->sum_squares(model->trunk_gradient.values, model->trunk_parameters);
    int rc = model->ops->status(err);
    rc = rc != SKEP_OK ? rc : skep_model_stopped("backward", err);
    if (rc == SKEP_OK && !isfinite(skep_model_gradient_squares(model))) {
        rc = skep_error_set(err, SKEP_ERR_NUMERIC,
                            "backward pass: a gradient of the batch is not finite (sum of squares "
                            "%f)",
                            skep_model_gradient_squares(model));
    }
    return rc;
}

int skep_model_backward(struct skep_model *model, double z_loss, struct skep_error *err)
{
    if (!model->complete || model->options.forward_only) {
        return skep_error_set(err, SKEP_ERR_STATE, "a backward pass was asked for %s",
                              model->options.forward_only ? "of a model made for forward passes"
                                                          : "without a forward pass before it");
    }
    int rc = SKEP_OK;
    model->complete = false; /* the logits become their gradients */
    model->ops->fill(model->trunk_parameters, 0, model->trunk_gradient.values);
    model->ops->fill(model->batch * (size_t)model->config.dim, 0, model->dprefix);
    skep_head_backward(model);
    for (uint32_t l = model->config.layers; l-- > 0 && rc == SKEP_OK;) {
        rc = layer_backward(model, l, z_loss, err);
    }
    if (rc != SKEP_OK) {
        return rc;
    }
    skep_gate_prefix_backward(model);
    skep_embed_backward(model);
    return check_gradients(model, err);
}

void skep_model_loads(const struct skep_model *model, uint32_t layer, uint64_t *ret_rows,
                      uint64_t *ret_columns)
{
    uint32_t columns = model->config.columns;
    size_t k = model->config.experts_per_token;
    memset(ret_rows, 0, model->config.rows * sizeof *ret_rows);
    memset(ret_columns, 0, columns * sizeof *ret_columns);
    for (size_t n = 0; n < skep_model_tokens(model); n++) {
        const uint32_t *chosen = model->kept[layer].chosen + n * k;
        for (size_t i = 0; i < k && chosen[i] != SKEP_NO_EXPERT; i++) {
            bool row_seen = false;
            bool column_seen = false;
            for (size_t j = 0; j < i; j++) {
                row_seen |= chosen[j] / columns == chosen[i] / columns;
                column_seen |= chosen[j] % columns == chosen[i] % columns;
            }
            ret_rows[chosen[i] / columns] += !row_seen;
            ret_columns[chosen[i] % columns] += !column_seen;
        }
    }
}

static int check_count(const struct skep_model *model, uint32_t count, struct skep_error *err)
{
    if (skep_model_is_lm(model) && (count == 0 || count > model->config.context)) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "%u bytes to continue, expected 1 to %u (the model's context)", count,
                              model->config.context);
    }
    if (!skep_model_is_lm(model) && count != model->config.inputs) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "%u bytes to classify, expected %u (the model's inputs)", count,
                              model->config.inputs);
    }
    return SKEP_OK;
}

int skep_model_next(struct skep_model *model, const uint8_t *tokens, uint32_t count,
                    float *ret_logits, struct skep_error *err)
{
    uint32_t length = skep_model_is_lm(model) ? count : 1;
    struct skep_model_pass pass = {.records = tokens,
                                   .stride = count,
                                   .batch = 1,
                                   .length = length,
                                   .first_output = length - 1};
    double z = 0;
    int rc = check_count(model, count, err);
    rc = rc != SKEP_OK ? rc : skep_model_check_bytes(model, tokens, count, err);
    rc = rc != SKEP_OK ? rc : skep_model_run(model, &pass, &z, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    uint32_t answers = (uint32_t)skep_model_answers(&model->config);
    skep_model_copy_out(model->ops, model->logits, answers, ret_logits);
    rc = model->ops->status(err);
    rc = rc != SKEP_OK ? rc : skep_model_stopped("forward", err);
    for (uint32_t i = 0; i < answers && rc == SKEP_OK; i++) {
        if (!isfinite(ret_logits[i])) {
            rc = skep_error_set(err, SKEP_ERR_NUMERIC,
                                "forward pass: the logit of byte %u is %f, expected a finite "
                                "number",
                                i, (double)ret_logits[i]);
        }
    }
    return rc;
}
