/* Drawing text from the model: temperature and top-p (Holtzman et al., arXiv 1904.09751). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/model/model-state.h"
#include "common/model/train.h"

#define BYTES 256

struct choice {
    double probability;
    uint8_t byte;
};

/* Most probable first; equal ones by byte, so that a seed gives one text. */
static int by_probability(const void *a, const void *b)
{
    const struct choice *first = a;
    const struct choice *second = b;
    if (first->probability != second->probability) {
        return first->probability > second->probability ? -1 : 1;
    }
    return (int)first->byte - (int)second->byte;
}

static uint8_t draw(const float *logits, uint32_t count, double temperature, double top_p,
                    struct skep_rng *rng)
{
    struct choice choices[BYTES];
    float most = logits[0];
    for (uint32_t i = 1; i < count; i++) {
        most = logits[i] > most ? logits[i] : most;
    }
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        choices[i].byte = (uint8_t)i;
        choices[i].probability = exp((double)(logits[i] - most) / temperature);
        sum += choices[i].probability;
    }
    qsort(choices, count, sizeof choices[0], by_probability);
    uint32_t kept = 0;
    double mass = 0;
    while (kept < count && mass < top_p * sum) {
        mass += choices[kept++].probability;
    }
    double left = skep_rng_unit(rng) * mass;
    uint32_t i = 0;
    while (i + 1 < kept && left >= choices[i].probability) {
        left -= choices[i++].probability;
    }
    return choices[i].byte;
}

static int check(const struct skep_model *model, size_t prompt_size, double temperature,
                 double top_p, struct skep_error *err)
{
    if (!skep_model_is_lm(model)) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "this model is a classifier, expected an lm to draw text from");
    }
    if (prompt_size == 0) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "the prompt is empty, expected at least one byte");
    }
    if (!(temperature > 0) || !isfinite(temperature)) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "a temperature of %g, expected a number above 0", temperature);
    }
    if (!(top_p > 0 && top_p <= 1)) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "a top-p of %g, expected a number above 0 and at most 1", top_p);
    }
    return SKEP_OK;
}

int skep_generate(struct skep_model *model, const uint8_t *prompt, size_t prompt_size,
                  size_t length, double temperature, double top_p, uint64_t seed,
                  bool (*emit)(void *user, uint8_t byte), void *user, struct skep_error *err)
{
    int rc = check(model, prompt_size, temperature, top_p, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    /* Training never asks place T - 1 for a prediction, so the window holds one byte less than the context. */
    uint32_t window = model->config.context - 1;
    uint8_t *text = skep_alloc(window, 1);
    uint32_t held = prompt_size < window ? (uint32_t)prompt_size : window;
    memcpy(text, prompt + prompt_size - held, held);
    struct skep_rng rng = skep_rng_of(seed);
    for (size_t i = 0; i < length; i++) {
        float logits[BYTES];
        rc = skep_model_next(model, text, held, logits, err);
        if (rc != SKEP_OK) {
            break;
        }
        uint8_t byte = draw(logits, model->config.vocabulary, temperature, top_p, &rng);
        if (!emit(user, byte)) {
            break;
        }
        if (held == window) {
            memmove(text, text + 1, --held);
        }
        text[held++] = byte;
    }
    free(text);
    return rc;
}
