/*
 * Whole models, and their parts by leaving the others out, against recorded PyTorch results: loss, gradients of every shard, and all
 * parameters after five AdamW steps (tests/data/torch/make.py has the list of models).
 *
 * Compiled twice. In float64 the recording's rounding to float32 (6e-8 of a value) is what remains, and that of the moments, which
 * are float32 always; float32 adds that of sums of up to some hundred products through up to a dozen operations, a few times 1e-6 of
 * a tensor's largest value. Training amplifies: AdamW divides a gradient by its own size, so that an error in a small gradient
 * becomes the same share of a whole step of the learning rate 0.01, here next to parameters of size 0.7. The tolerances
 * are four times and more what is measured; one wrong sign anywhere is a thousand times above them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/model/layout.h"
#include "common/model/model.h"
#include "common/model/train.h"
#include "tests/lib/cmocka.h"
#include "tests/lib/model-numbers.h"
#include "tests/unit/model/torch-results.h"

#ifdef SKEP_REAL_DOUBLE
#define TOLERANCE 2e-7
#define TRAINED_TOLERANCE 5e-7
#else
#define TOLERANCE 5e-6
#define TRAINED_TOLERANCE 2e-5
#endif

struct scene {
    struct torch_results torch;
    struct skep_model_config config;
    struct skep_training_config training;
    size_t window;
    uint8_t *records;
    struct skep_model *model;
    size_t shard_count;
    struct skep_shard *shards;
    struct skep_moments *moments;
};

static size_t parameters_of(const struct scene *scene, const struct skep_shard *shard)
{
    struct skep_layout layout;
    skep_layout_of(&scene->config, shard, &layout);
    size_t parameters = layout.parameters;
    skep_layout_done(&layout);
    return parameters;
}

/* Adds the shard if PyTorch's model had it. */
static void add_shard(struct scene *scene, struct skep_shard shard)
{
    char name[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(&shard, name);
    if (torch_find(&scene->torch, "start", name) == NULL) {
        return;
    }
    size_t parameters = parameters_of(scene, &shard);
    assert_int_equal(torch_find(&scene->torch, "start", name)->count, parameters);
    float *values = torch_values(&scene->torch, "start", name);
    skep_model_set(scene->model, &shard, values);
    free(values);
    assert_int_equal(
        skep_moments_init(&scene->moments[scene->shard_count], skep_ops_cpu(), parameters, NULL),
        SKEP_OK);
    scene->shards[scene->shard_count++] = shard;
}

static void add_shards(struct scene *scene)
{
    const struct skep_model_config *config = &scene->config;
    size_t most = 1 + (size_t)config->layers * config->rows * config->columns;
    scene->shards = skep_alloc(most, sizeof *scene->shards);
    scene->moments = skep_alloc(most, sizeof *scene->moments);
    add_shard(scene, (struct skep_shard){.kind = SKEP_SHARD_TRUNK});
    for (uint16_t l = 0; l < config->layers; l++) {
        for (uint16_t r = 0; r < config->rows; r++) {
            for (uint16_t c = 0; c < config->columns; c++) {
                add_shard(scene, (struct skep_shard){SKEP_SHARD_FFN, l, r, c});
            }
        }
    }
}

static void read_records(struct scene *scene)
{
    size_t count = torch_find(&scene->torch, NULL, "records")->count;
    float *values = torch_values(&scene->torch, NULL, "records");
    scene->window = skep_model_config_window(&scene->config);
    assert_int_equal(count, scene->training.steps * scene->training.batch * scene->window);
    scene->records = skep_alloc(count, 1);
    for (size_t i = 0; i < count; i++) {
        scene->records[i] = (uint8_t)values[i];
    }
    free(values);
}

static void open_scene(struct scene *scene, const char *name)
{
    *scene = (struct scene){0};
    torch_open(&scene->torch, name);
    float *config = torch_values(&scene->torch, NULL, "config");
    float *training = torch_values(&scene->torch, NULL, "training");
    scene->config = skep_test_config(config);
    scene->training = skep_test_training(training);
    free(config);
    free(training);
    read_records(scene);
    struct skep_model_options options = {.batch = scene->training.batch};
    struct skep_error err = {0};
    int rc = skep_model_new(&scene->config, &options, &scene->model, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, SKEP_OK);
    add_shards(scene);
}

static void close_scene(struct scene *scene)
{
    for (size_t i = 0; i < scene->shard_count; i++) {
        skep_moments_done(&scene->moments[i]);
    }
    free(scene->moments);
    free(scene->shards);
    free(scene->records);
    skep_model_free(scene->model);
    torch_close(&scene->torch);
}

/* The batch of step i, forward and backward; the loss is compared. */
static struct skep_model_loss pass(struct scene *scene, uint32_t i, double tolerance)
{
    struct skep_model_loss loss;
    struct skep_error err = {0};
    const uint8_t *batch = scene->records + i * scene->training.batch * scene->window;
    int rc = skep_model_forward(scene->model, batch, scene->training.batch, &loss, &err);
    if (rc == SKEP_OK) {
        rc = skep_model_backward(scene->model, scene->training.z_loss, &err);
    }
    assert_string_equal(err.text, "");
    assert_int_equal(rc, SKEP_OK);
    float *nats = torch_values(&scene->torch, NULL, "loss");
    float *z = torch_values(&scene->torch, NULL, "z");
    float *correct = torch_values(&scene->torch, NULL, "correct");
    float found[2] = {(float)(loss.sum_nats / (double)loss.tokens), (float)loss.z};
    if (!(torch_difference(&found[0], &nats[i], 1) <= tolerance &&
          torch_difference(&found[1], &z[i], 1) <= tolerance)) {
        fail_msg("step %u: loss %.8g and z %.8g, PyTorch has %.8g and %.8g", i, (double)found[0],
                 (double)found[1], (double)nats[i], (double)z[i]);
    }
    if (scene->config.kind == SKEP_MODEL_CLASSIFIER) {
        assert_int_equal(loss.correct, (uint64_t)correct[i]);
    }
    free(nats);
    free(z);
    free(correct);
    return loss;
}

/* Gradients, or parameters, of every shard against those of `group`. */
static void compare(struct scene *scene, const char *group, bool gradients, double tolerance)
{
    for (size_t i = 0; i < scene->shard_count; i++) {
        const struct skep_shard *shard = &scene->shards[i];
        float *found = skep_alloc(parameters_of(scene, shard), sizeof *found);
        if (gradients) {
            skep_model_get_gradients(scene->model, shard, found);
        } else {
            skep_model_get(scene->model, shard, found);
        }
        char name[SKEP_SHARD_TEXT_SIZE];
        skep_shard_format(shard, name);
        torch_assert_near(&scene->torch, group, name, found, tolerance);
        free(found);
    }
}

static void compare_next(struct scene *scene)
{
    float *logits = skep_alloc(scene->config.vocabulary, sizeof *logits);
    struct skep_error err = {0};
    int rc = skep_model_next(scene->model, scene->records, scene->config.context - 1, logits, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, SKEP_OK);
    torch_assert_near(&scene->torch, NULL, "logits", logits, TOLERANCE);
    free(logits);
}

struct recorded_model {
    const char *title;
    const char *name;
};

static void loss_gradients_and_five_steps_are_pytorchs(void **state)
{
    const struct recorded_model *recorded = *state;
    struct scene scene;
    open_scene(&scene, recorded->name);
    pass(&scene, 0, TOLERANCE);
    compare(&scene, "gradient", true, TOLERANCE);
    if (scene.config.kind == SKEP_MODEL_LM) {
        compare_next(&scene);
    }
    for (uint32_t i = 0; i < scene.training.steps; i++) {
        pass(&scene, i, TRAINED_TOLERANCE);
        skep_train_step(scene.model, &scene.training, scene.training.learning_rate, scene.shards,
                        scene.moments, scene.shard_count);
    }
    compare(&scene, "after", false, TRAINED_TOLERANCE);
    close_scene(&scene);
}

static struct recorded_model models[] = {
    {"both ends of an lm are PyTorch's", "lm-ends"},
    {"attention is PyTorch's", "lm-attention"},
    {"a layer routed by document is PyTorch's, experts missing", "lm-dmoe-document"},
    {"a layer routed by token is PyTorch's, experts missing", "lm-dmoe-token"},
    {"an lm routed by document is PyTorch's", "lm-document"},
    {"an lm routed by token is PyTorch's, experts missing", "lm-token"},
    {"an lm of paper_ffn experts is PyTorch's", "lm-paper-ffn"},
    {"both ends of a classifier are PyTorch's", "classifier-ends"},
    {"a classifier is PyTorch's, experts missing", "classifier-ffn"},
    {"a classifier of paper_ffn experts is PyTorch's", "classifier-paper-ffn"},
};
#define MODEL_COUNT (sizeof models / sizeof models[0])

int main(void)
{
    struct CMUnitTest tests[MODEL_COUNT];
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        tests[i] = (struct CMUnitTest){.name = models[i].title,
                                       .test_func = loss_gradients_and_five_steps_are_pytorchs,
                                       .initial_state = &models[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
