/* The trunk's gradients of several trainers, and the update they become. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/remote/gathering.h"
#include "common/base/alloc.h"
#include "common/merge/compress.h"
#include "common/model/layout.h"
#include "common/model/train.h"
#include "common/wire/update.h"
#include "tests/lib/cmocka.h"

#define BATCH 3u

static const struct skep_shard trunk = {.kind = SKEP_SHARD_TRUNK};

/* A classifier whose experts are elsewhere: its layers pass everything through, and the ends still have gradients. */
struct fixture {
    struct skep_manifest manifest;
    struct skep_layout layout;
    struct skep_model *model;
    struct skep_gathering *gathering;
    float *parameters;
};

static int setup(void **state)
{
    struct fixture *fixture = skep_alloc(1, sizeof *fixture);
    struct skep_manifest *manifest = &fixture->manifest;
    struct skep_hash seed = {{7}};
    struct skep_model_options options = {.batch = BATCH};
    manifest->model.kind = SKEP_MODEL_CLASSIFIER;
    skep_manifest_defaults(manifest);
    manifest->model.inputs = 6;
    manifest->model.classes = 3;
    manifest->model.dim = 8;
    manifest->model.hidden = 8;
    manifest->model.layers = 1;
    manifest->model.rows = 2;
    manifest->model.columns = 2;
    manifest->model.experts_per_token = 2;
    skep_model_config_imply(&manifest->model);
    manifest->update.keep = 1024;
    skep_layout_of(&manifest->model, &trunk, &fixture->layout);
    fixture->parameters = skep_alloc(fixture->layout.parameters, sizeof(float));
    skep_layout_seed(&fixture->layout, &manifest->model, &seed, fixture->parameters);
    assert_int_equal(skep_model_new(&manifest->model, &options, &fixture->model, NULL), 0);
    assert_int_equal(skep_gathering_new(manifest, &fixture->gathering, NULL), 0);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    skep_gathering_free(fixture->gathering);
    skep_model_free(fixture->model);
    skep_layout_done(&fixture->layout);
    skep_manifest_done(&fixture->manifest);
    free(fixture->parameters);
    free(fixture);
    return 0;
}

/* One batch whose bytes follow from `first`, left in the gathering. */
static struct skep_model_loss pass(struct fixture *fixture, uint8_t first)
{
    uint8_t windows[BATCH * 7];
    struct skep_model_loss loss;
    for (size_t i = 0; i < sizeof windows; i++) {
        windows[i] = (uint8_t)(i % 7 == 6 ? (first + i / 7) % 3 : first * 31 + i * 17);
    }
    skep_model_set(fixture->model, &trunk, fixture->parameters);
    assert_int_equal(skep_model_forward(fixture->model, windows, BATCH, &loss, NULL), 0);
    assert_int_equal(skep_model_backward(fixture->model, 0.001, NULL), 0);
    skep_gathering_add(fixture->gathering, fixture->model, &loss);
    return loss;
}

static int step(struct fixture *fixture, uint64_t version, struct skep_gathered *ret_gathered,
                struct skep_buffer *ret_body)
{
    return skep_gathering_step(fixture->gathering, fixture->model, fixture->parameters, version,
                               ret_gathered, ret_body, NULL);
}

/* What the update's body should be if the gradient is `mean` and nothing was sent before. */
static void expected_body(struct fixture *fixture, const float *mean, uint64_t version,
                          struct skep_buffer *ret_body)
{
    const struct skep_layout *layout = &fixture->layout;
    const struct skep_training_config *training = &fixture->manifest.training;
    struct skep_moments moments = {0};
    struct skep_update_body body = {0};
    struct skep_tiling tilings[16];
    float *delta = skep_alloc(layout->parameters, sizeof *delta);
    float *residual = skep_alloc(layout->parameters, sizeof *residual);
    assert_true(layout->tensor_count <= 16);
    for (size_t t = 0; t < layout->tensor_count; t++) {
        tilings[t] = skep_tiling_of(layout->tensors[t].dims, layout->tensors[t].dim_count, 1024);
    }
    assert_int_equal(skep_moments_init(&moments, NULL, layout->parameters, NULL), 0);
    skep_model_set(fixture->model, &trunk, fixture->parameters);
    skep_model_set_gradients(fixture->model, &trunk, mean);
    skep_train_step(fixture->model, training, skep_train_rate(training, version), &trunk, &moments,
                    1);
    skep_model_get(fixture->model, &trunk, delta);
    for (size_t i = 0; i < layout->parameters; i++) {
        delta[i] = fixture->parameters[i] - delta[i];
    }
    assert_int_equal(
        skep_compress_shard(tilings, layout->tensor_count, 0.95f, delta, residual, &body, NULL), 0);
    skep_update_body_encode(&body, ret_body);
    skep_update_body_done(&body);
    skep_moments_done(&moments);
    free(delta);
    free(residual);
}

static void a_step_goes_along_the_mean_of_what_the_trainers_brought(void **state)
{
    struct fixture *fixture = *state;
    size_t count = fixture->layout.parameters;
    float *mean = skep_alloc(count, sizeof *mean);
    float *second = skep_alloc(count, sizeof *second);
    struct skep_gathered gathered;
    struct skep_buffer found = {0};
    struct skep_buffer wanted = {0};
    struct skep_model_loss first_loss = pass(fixture, 1);
    skep_model_get_gradients(fixture->model, &trunk, mean);
    struct skep_model_loss last_loss = pass(fixture, 2);
    skep_model_get_gradients(fixture->model, &trunk, second);
    for (size_t i = 0; i < count; i++) {
        mean[i] = (mean[i] + second[i]) * 0.5f;
    }
    assert_int_equal(step(fixture, 30, &gathered, &found), 0);
    expected_body(fixture, mean, 30, &wanted);
    assert_int_equal(found.size, wanted.size);
    assert_memory_equal(found.data, wanted.data, wanted.size);
    assert_int_equal(gathered.passes, 2);
    assert_int_equal(gathered.tokens, 2 * BATCH);
    assert_true(gathered.loss_first == first_loss.sum_nats / BATCH);
    assert_true(gathered.loss_last == last_loss.sum_nats / BATCH);
    skep_buffer_done(&found);
    skep_buffer_done(&wanted);
    free(mean);
    free(second);
}

static void gradients_are_used_once_and_a_version_gets_one_update(void **state)
{
    struct fixture *fixture = *state;
    struct skep_gathered gathered;
    struct skep_buffer body = {0};
    assert_false(skep_gathering_ready(fixture->gathering, 3));
    assert_int_equal(step(fixture, 3, &gathered, &body), SKEP_ERR_STATE);
    pass(fixture, 1);
    assert_true(skep_gathering_ready(fixture->gathering, 3));
    assert_int_equal(step(fixture, 3, &gathered, &body), 0);
    assert_false(skep_gathering_ready(fixture->gathering, 4));
    pass(fixture, 2);
    assert_false(skep_gathering_ready(fixture->gathering, 3));
    assert_int_equal(step(fixture, 3, &gathered, &body), SKEP_ERR_STATE);
    assert_true(skep_gathering_ready(fixture->gathering, 4));
    assert_int_equal(step(fixture, 4, &gathered, &body), 0);
    assert_int_equal(gathered.passes, 1);
    skep_buffer_done(&body);
}

static void gradients_that_are_not_finite_are_dropped_and_the_next_are_used(void **state)
{
    struct fixture *fixture = *state;
    struct skep_model_loss loss = {.sum_nats = 1, .tokens = 1};
    struct skep_gathered gathered;
    struct skep_buffer body = {0};
    float *bad = skep_alloc(fixture->layout.parameters, sizeof *bad);
    pass(fixture, 1);
    bad[5] = NAN;
    skep_model_set_gradients(fixture->model, &trunk, bad);
    skep_gathering_add(fixture->gathering, fixture->model, &loss);
    assert_int_equal(step(fixture, 3, &gathered, &body), SKEP_ERR_NUMERIC);
    assert_int_equal(body.size, 0);
    assert_false(skep_gathering_ready(fixture->gathering, 3));
    pass(fixture, 2);
    assert_int_equal(step(fixture, 3, &gathered, &body), 0);
    assert_true(body.size > 0);
    skep_buffer_done(&body);
    free(bad);
}

static void the_newest_losses_are_told_once_there_are_any(void **state)
{
    struct fixture *fixture = *state;
    double before = 0;
    double newest = 0;
    assert_false(skep_gathering_losses(fixture->gathering, &before, &newest));
    struct skep_model_loss first = pass(fixture, 1);
    assert_true(skep_gathering_losses(fixture->gathering, &before, &newest));
    assert_true(before == newest && newest == first.sum_nats / BATCH);
    struct skep_model_loss second = pass(fixture, 2);
    assert_true(skep_gathering_losses(fixture->gathering, &before, &newest));
    assert_true(before == first.sum_nats / BATCH && newest == second.sum_nats / BATCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_step_goes_along_the_mean_of_what_the_trainers_brought,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(gradients_are_used_once_and_a_version_gets_one_update,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            gradients_that_are_not_finite_are_dropped_and_the_next_are_used, setup, teardown),
        cmocka_unit_test_setup_teardown(the_newest_losses_are_told_once_there_are_any, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
