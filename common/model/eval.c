/* How well a model predicts a text, or classifies records. */
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/model/model-state.h"
#include "common/model/train.h"

/* Windows begin every context - prefix bytes; the last is moved back to end with the text. */
struct windows {
    size_t stride;
    size_t count;
    size_t last_start;
};

static struct windows windows_of(const struct skep_model_config *config, size_t size)
{
    struct windows windows = {.stride = config->context - config->prefix};
    windows.last_start = size - config->context;
    windows.count = 1 + (windows.last_start + windows.stride - 1) / windows.stride;
    return windows;
}

static size_t window_start(const struct windows *windows, size_t i)
{
    size_t start = i * windows->stride;
    return start < windows->last_start ? start : windows->last_start;
}

/* Adds what window i, sequence b of the last forward pass, predicted for bytes that no window before it did. */
static void count_window(const struct skep_model *model, const struct windows *windows, size_t i,
                         uint32_t b, struct skep_model_loss *total)
{
    size_t moved = i * windows->stride - window_start(windows, i);
    for (size_t j = moved; j < windows->stride; j++) {
        total->sum_nats += (double)model->nats[b * windows->stride + j];
        total->tokens++;
    }
}

static int eval_lm(struct skep_model *model, const uint8_t *text, size_t size, uint8_t *batch_text,
                   struct skep_model_loss *total, struct skep_error *err)
{
    uint32_t context = model->config.context;
    struct windows windows = windows_of(&model->config, size);
    int rc = SKEP_OK;
    for (size_t first = 0; first < windows.count && rc == SKEP_OK;) {
        size_t left = windows.count - first;
        uint32_t batch = left < model->options.batch ? (uint32_t)left : model->options.batch;
        for (uint32_t b = 0; b < batch; b++) {
            memcpy(batch_text + (size_t)b * context, text + window_start(&windows, first + b),
                   context);
        }
        struct skep_model_loss loss;
        rc = skep_model_forward(model, batch_text, batch, &loss, err);
        for (uint32_t b = 0; b < batch && rc == SKEP_OK; b++) {
            count_window(model, &windows, first + b, b, total);
        }
        first += batch;
    }
    return rc;
}

static int eval_classifier(struct skep_model *model, const uint8_t *text, size_t size,
                           struct skep_model_loss *total, struct skep_error *err)
{
    size_t window = skep_model_config_window(&model->config);
    size_t count = size / window;
    int rc = SKEP_OK;
    for (size_t first = 0; first < count && rc == SKEP_OK;) {
        size_t left = count - first;
        uint32_t batch = left < model->options.batch ? (uint32_t)left : model->options.batch;
        struct skep_model_loss loss = {0};
        rc = skep_model_forward(model, text + first * window, batch, &loss, err);
        total->sum_nats += loss.sum_nats;
        total->tokens += loss.tokens;
        total->correct += loss.correct;
        first += batch;
    }
    return rc;
}

static int check_size(const struct skep_model_config *config, size_t size, struct skep_error *err)
{
    size_t window = skep_model_config_window(config);
    if (size < window) {
        return skep_error_set(
            err, SKEP_ERR_ARGUMENT, "a text of %zu bytes to evaluate, expected at least %zu (%s)",
            size, window, config->kind == SKEP_MODEL_LM ? "the model's context" : "one record");
    }
    if (config->kind == SKEP_MODEL_CLASSIFIER && size % window != 0) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%zu bytes to evaluate, expected whole records of %zu", size, window);
    }
    return SKEP_OK;
}

int skep_eval_text(struct skep_model *model, const uint8_t *text, size_t size,
                   struct skep_eval *ret_eval, struct skep_error *err)
{
    struct skep_model_loss total = {0};
    int rc = check_size(&model->config, size, err);
    if (rc == SKEP_OK && skep_model_is_lm(model)) {
        uint8_t *batch_text = skep_alloc(model->options.batch, model->config.context);
        rc = eval_lm(model, text, size, batch_text, &total, err);
        free(batch_text);
    } else if (rc == SKEP_OK) {
        rc = eval_classifier(model, text, size, &total, err);
    }
    if (rc == SKEP_OK) {
        *ret_eval = (struct skep_eval){.tokens = total.tokens,
                                       .nats = total.sum_nats / (double)total.tokens,
                                       .accuracy = (double)total.correct / (double)total.tokens};
    }
    return rc;
}
