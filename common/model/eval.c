/* Bits per byte of a text. */
#include <math.h>
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
        total->sum_nats += model->nats[b * windows->stride + j];
        total->tokens++;
    }
}

int skep_eval_text(struct skep_model *model, const uint8_t *text, size_t size,
                   double *ret_bits_per_byte, uint64_t *ret_tokens, struct skep_error *err)
{
    uint32_t context = model->config.context;
    if (size < context) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "a text of %zu bytes to evaluate, expected at least %u (the model's "
                              "context)",
                              size, context);
    }
    struct windows windows = windows_of(&model->config, size);
    struct skep_model_loss total = {0};
    uint8_t *tokens = skep_alloc((size_t)model->batch_limit * context, 1);
    int rc = SKEP_OK;
    for (size_t first = 0; first < windows.count && rc == SKEP_OK;) {
        size_t left = windows.count - first;
        uint32_t batch = left < model->batch_limit ? (uint32_t)left : model->batch_limit;
        for (uint32_t b = 0; b < batch; b++) {
            memcpy(tokens + (size_t)b * context, text + window_start(&windows, first + b), context);
        }
        struct skep_model_loss loss;
        rc = skep_model_forward(model, tokens, batch, &loss, err);
        for (uint32_t b = 0; b < batch && rc == SKEP_OK; b++) {
            count_window(model, &windows, first + b, b, &total);
        }
        first += batch;
    }
    free(tokens);
    if (rc == SKEP_OK) {
        *ret_bits_per_byte = total.sum_nats / log(2) / (double)total.tokens;
        *ret_tokens = total.tokens;
    }
    return rc;
}
