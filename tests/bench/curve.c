#include "tests/bench/curve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/model/layout.h"
#include "common/model/model.h"
#include "common/model/train.h"

#define WORDS 32
#define LONGEST_WORD 8 /* with its space */
#define TEXT_BYTES 16384
#define PATTERN 64 /* inputs of a record that come from its class: about so many */

struct run {
    const struct curve *curve;
    struct skep_model *model;
    size_t shard_count;
    struct skep_shard *shards;
    struct skep_moments *moments;
};

static void draw_text(uint64_t seed, uint8_t text[TEXT_BYTES])
{
    char words[WORDS][LONGEST_WORD + 1] = {{0}};
    struct skep_rng rng = skep_rng_of(seed);
    for (size_t i = 0; i < WORDS; i++) {
        size_t length = 2 + (size_t)skep_rng_below(&rng, 6);
        for (size_t j = 0; j < length; j++) {
            words[i][j] = (char)('a' + skep_rng_below(&rng, 26));
        }
        words[i][length] = ' ';
    }
    for (size_t at = 0; at < TEXT_BYTES;) {
        uint64_t a = skep_rng_below(&rng, WORDS);
        uint64_t b = skep_rng_below(&rng, WORDS);
        const char *word = words[a < b ? a : b];
        for (size_t j = 0; word[j] != '\0' && at < TEXT_BYTES; j++) {
            text[at++] = (uint8_t)word[j];
        }
    }
}

static void draw_windows(const struct curve *curve, uint8_t *records, size_t count)
{
    uint8_t *text = skep_alloc(TEXT_BYTES, 1);
    draw_text(curve->seed, text);
    uint32_t context = curve->config.context;
    struct skep_rng rng = skep_rng_of(curve->seed + UINT64_C(1));
    for (size_t i = 0; i < count; i++) {
        memcpy(records + i * context, text + skep_rng_below(&rng, TEXT_BYTES - context + 1),
               context);
    }
    free(text);
}

static void draw_examples(const struct curve *curve, uint8_t *records, size_t count)
{
    size_t inputs = curve->config.inputs;
    uint8_t *patterns = skep_alloc(curve->config.classes * inputs, 1);
    struct skep_rng pattern = skep_rng_of(curve->seed);
    struct skep_rng class = skep_rng_of(curve->seed + UINT64_C(1));
    struct skep_rng noise = skep_rng_of(curve->seed + UINT64_C(2));
    struct skep_rng kept = skep_rng_of(curve->seed + UINT64_C(3));
    for (size_t i = 0; i < curve->config.classes * inputs; i++) {
        patterns[i] = (uint8_t)skep_rng_below(&pattern, 256);
    }
    for (size_t i = 0; i < count; i++) {
        uint8_t *record = records + i * (inputs + 1);
        record[inputs] = (uint8_t)skep_rng_below(&class, curve->config.classes);
        for (size_t j = 0; j < inputs; j++) {
            uint8_t other = (uint8_t)skep_rng_below(&noise, 256);
            bool keep = skep_rng_below(&kept, 1 + inputs / PATTERN) == 0;
            record[j] = keep ? patterns[record[inputs] * inputs + j] : other;
        }
    }
    free(patterns);
}

static int add_shard(struct run *run, struct skep_shard shard, struct skep_error *err)
{
    struct skep_hash seed = {{run->curve->seed}};
    struct skep_layout layout;
    skep_layout_of(&run->curve->config, &shard, &layout);
    size_t parameters = layout.parameters;
    float *values = skep_alloc(parameters, sizeof *values);
    skep_layout_seed(&layout, &run->curve->config, &seed, values);
    skep_layout_done(&layout);
    skep_model_set(run->model, &shard, values);
    free(values);
    int rc = skep_moments_init(&run->moments[run->shard_count], skep_ops_cpu(), parameters, err);
    if (rc == SKEP_OK) {
        run->shards[run->shard_count++] = shard;
    }
    return rc;
}

static int open_run(struct run *run, const struct curve *curve, struct skep_error *err)
{
    const struct skep_model_config *config = &curve->config;
    size_t most = 1 + (size_t)config->layers * config->rows * config->columns;
    *run = (struct run){.curve = curve};
    run->shards = skep_alloc(most, sizeof *run->shards);
    run->moments = skep_alloc(most, sizeof *run->moments);
    struct skep_model_options options = {.batch = curve->training.batch};
    int rc = skep_model_new(config, &options, &run->model, err);
    if (rc == SKEP_OK) {
        rc = add_shard(run, (struct skep_shard){.kind = SKEP_SHARD_TRUNK}, err);
    }
    for (size_t i = 0; rc == SKEP_OK && i + 1 < most; i++) {
        size_t row = i / config->columns;
        rc = add_shard(run,
                       (struct skep_shard){SKEP_SHARD_FFN, (uint16_t)(row / config->rows),
                                           (uint16_t)(row % config->rows),
                                           (uint16_t)(i % config->columns)},
                       err);
    }
    return rc;
}

static void close_run(struct run *run)
{
    for (size_t i = 0; i < run->shard_count; i++) {
        skep_moments_done(&run->moments[i]);
    }
    free(run->moments);
    free(run->shards);
    skep_model_free(run->model);
}

static int step(struct run *run, const uint8_t *records, float *ret_loss, struct skep_error *err)
{
    const struct skep_training_config *training = &run->curve->training;
    struct skep_model_loss loss;
    int rc = skep_model_forward(run->model, records, training->batch, &loss, err);
    if (rc == SKEP_OK) {
        rc = skep_model_backward(run->model, training->z_loss, err);
    }
    if (rc == SKEP_OK) {
        skep_train_step(run->model, training, training->learning_rate, run->shards, run->moments,
                        run->shard_count);
        *ret_loss = (float)(loss.sum_nats / (double)loss.tokens);
    }
    return rc;
}

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int curve_run(const struct curve *curve, float *ret_losses, double *ret_seconds,
              struct skep_error *err)
{
    size_t window = skep_model_config_window(&curve->config);
    size_t batch = curve->training.batch;
    size_t count = curve->training.steps * batch;
    uint8_t *records = skep_alloc(count * window, 1);
    if (curve->config.kind == SKEP_MODEL_LM) {
        draw_windows(curve, records, count);
    } else {
        draw_examples(curve, records, count);
    }
    struct run run;
    int rc = open_run(&run, curve, err);
    for (size_t i = 0; rc == SKEP_OK && i < curve->training.steps; i++) {
        double start = now_s();
        rc = step(&run, records + i * batch * window, &ret_losses[i], err);
        if (ret_seconds != NULL) {
            ret_seconds[i] = now_s() - start;
        }
    }
    close_run(&run);
    free(records);
    return rc;
}

double curve_difference(const float *a, const float *b, size_t steps)
{
    double most = 0;
    for (size_t i = 0; i < steps; i++) {
        double difference = fabs((double)a[i] - (double)b[i]) / (double)b[i];
        most = difference > most || isnan(difference) ? difference : most;
    }
    return most;
}
