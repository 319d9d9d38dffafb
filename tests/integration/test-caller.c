/* The client's caller of experts (client/network/experts.h) with two real keepers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/network/experts-internal.h"
#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/model/layout.h"
#include "common/model/model.h"
#include "common/wire/json.h"
#include "tests/lib/cmocka.h"
#include "tests/lib/real-keepers.h"

#define BATCH 12u
#define EXPERTS 4u

struct scene {
    struct real_keepers keepers;
    struct skep_key *key;
    struct skep_caller *caller;
    struct skep_caller_line *line;
    struct skep_expert_calls calls;
    uint8_t *records;
};

static void open_caller(struct scene *scene, const struct skep_key *key)
{
    const struct skep_caller_options options = {.manifest = &scene->keepers.manifest,
                                                .records = scene->keepers.records,
                                                .record_count = 2,
                                                .key = key};
    scene->caller = skep_caller_new(&options);
    scene->line = skep_caller_line_new(scene->caller);
    scene->calls = skep_caller_line_calls(scene->line);
}

static void close_caller(struct scene *scene)
{
    skep_caller_line_free(scene->line);
    skep_caller_free(scene->caller);
}

/* A classifier of one layer, 2 x 2 experts, on two keepers. */
static int open_scene(void **state)
{
    struct scene *scene = skep_alloc(1, sizeof *scene);
    struct skep_manifest manifest = {0};
    *state = scene;
    skep_manifest_defaults(&manifest);
    manifest.trust.stamp_bits = 0;
    manifest.model = (struct skep_model_config){.kind = SKEP_MODEL_CLASSIFIER,
                                                .inputs = 9,
                                                .classes = 3,
                                                .dim = 16,
                                                .hidden = 32,
                                                .layers = 1,
                                                .rows = 2,
                                                .columns = 2,
                                                .experts_per_token = 3};
    skep_model_config_imply(&manifest.model);
    manifest.chunk_bytes = 4000;
    manifest.replicas = 2;
    manifest.merge.window_ms = 100;
    manifest.training.donor_rows = 2;
    real_keepers_start(&scene->keepers, 2, NULL);
    real_keepers_publish(&scene->keepers, &manifest);
    scene->key = skep_key_new();
    scene->records = skep_alloc(BATCH, 10);
    struct skep_rng rng = skep_rng_of(7);
    for (size_t i = 0; i < BATCH * 10; i++) {
        scene->records[i] = (uint8_t)skep_rng_below(&rng, i % 10 == 9 ? 3 : 256);
    }
    open_caller(scene, scene->key);
    return 0;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    close_caller(scene);
    skep_key_free(scene->key);
    real_keepers_stop(&scene->keepers);
    free(scene->records);
    free(scene);
    return 0;
}

static float *seed_of(const struct skep_manifest *manifest, size_t place, size_t *ret_count)
{
    struct skep_shard shard = skep_manifest_shard(manifest, place);
    struct skep_layout layout;
    skep_layout_of(&manifest->model, &shard, &layout);
    float *values = skep_alloc(layout.parameters, sizeof *values);
    skep_layout_seed(&layout, &manifest->model, &manifest->seed, values);
    *ret_count = layout.parameters;
    skep_layout_done(&layout);
    return values;
}

/* A model in its version 0, with experts of its own or called; one pass forward and back. */
static void pass(struct scene *scene, const struct skep_expert_calls *calls, double *ret_loss,
                 float **ret_gradients, size_t *ret_count)
{
    const struct skep_manifest *manifest = &scene->keepers.manifest;
    const struct skep_model_options options = {.batch = BATCH, .calls = calls};
    const struct skep_shard trunk = {.kind = SKEP_SHARD_TRUNK};
    struct skep_model *model = NULL;
    struct skep_model_loss loss;
    struct skep_error err = {0};
    assert_int_equal(skep_model_new(&manifest->model, &options, &model, &err), SKEP_OK);
    for (size_t place = 0; place < (calls == NULL ? 1 + EXPERTS : 1); place++) {
        size_t count = 0;
        float *values = seed_of(manifest, place, &count);
        struct skep_shard shard = skep_manifest_shard(manifest, place);
        assert_int_equal(skep_model_set(model, &shard, values), SKEP_OK);
        *ret_count = place == 0 ? count : *ret_count;
        free(values);
    }
    assert_int_equal(skep_model_forward(model, scene->records, BATCH, &loss, &err), SKEP_OK);
    assert_int_equal(skep_model_backward(model, 0, &err), SKEP_OK);
    *ret_loss = loss.sum_nats;
    *ret_gradients = skep_alloc(*ret_count, sizeof **ret_gradients);
    skep_model_get_gradients(model, &trunk, *ret_gradients);
    skep_model_free(model);
}

static void a_model_that_calls_its_experts_learns_what_one_that_has_them_does(void **state)
{
    struct scene *scene = *state;
    double loss[2];
    float *gradients[2];
    size_t count = 0;
    pass(scene, NULL, &loss[0], &gradients[0], &count);
    pass(scene, &scene->calls, &loss[1], &gradients[1], &count);
    assert_true(fabs(loss[0] - loss[1]) < 1e-4);
    double difference = 0;
    double size = 0;
    for (size_t i = 0; i < count; i++) {
        difference += fabsf(gradients[0][i] - gradients[1][i]);
        size += fabsf(gradients[0][i]);
    }
    assert_true(size > 0 && difference < 1e-4 * size); /* float32 sums in another order */
    free(gradients[0]);
    free(gradients[1]);
}

static uint64_t version_of(struct scene *scene, size_t keeper, size_t place)
{
    struct skep_shard shard = skep_manifest_shard(&scene->keepers.manifest, place);
    char name[SKEP_SHARD_TEXT_SIZE];
    char *path = skep_format("/v1/projects/%s/head", scene->caller->project);
    struct skep_http_answer answer = {0};
    struct skep_json *root = NULL;
    const struct skep_json *shards = NULL;
    const struct skep_json *head = NULL;
    int64_t version = 0;
    skep_shard_format(&shard, name);
    assert_int_equal(real_keepers_ask(&scene->keepers, keeper, "GET", path, NULL, &answer), 200);
    assert_int_equal(skep_json_parse(answer.body.data, answer.body.size, "head", &root, NULL), 0);
    assert_int_equal(skep_json_get_object(root, "head", "shards", &shards, NULL), 0);
    assert_int_equal(skep_json_get_object(shards, "head", name, &head, NULL), 0);
    assert_int_equal(
        skep_json_get_integer(head, "head", "version", 0, INT64_MAX >> 11, &version, NULL), 0);
    skep_json_free(root);
    skep_http_answer_done(&answer);
    free(path);
    return (uint64_t)version;
}

static void await_version(struct scene *scene, size_t place, uint64_t version)
{
    for (int i = 0; i < 2000 && version_of(scene, 0, place) < version; i++) {
        bool never = false;
        skep_loop_run_until(scene->keepers.loop, &never, 10);
    }
    assert_int_equal(version_of(scene, 0, place), version);
}

static void gradients_of_passes_are_published_and_merged(void **state)
{
    struct scene *scene = *state;
    struct skep_shard shards[EXPERTS];
    enum skep_caller_outcome outcomes[EXPERTS];
    struct skep_error err = {0};
    double loss;
    float *gradients;
    size_t count = 0;
    for (size_t i = 0; i < EXPERTS; i++) {
        shards[i] = skep_manifest_shard(&scene->keepers.manifest, 1 + i);
    }
    pass(scene, &scene->calls, &loss, &gradients, &count);
    free(gradients);
    int rc = skep_caller_line_update(scene->line, shards, EXPERTS, loss, loss, outcomes, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, SKEP_OK);
    for (size_t i = 0; i < EXPERTS; i++) {
        assert_int_equal(outcomes[i], SKEP_CALLER_PUBLISHED);
    }
    for (size_t i = 0; i < EXPERTS; i++) {
        await_version(scene, 1 + i, 1);
    }
    assert_int_equal(skep_caller_line_update(scene->line, shards, EXPERTS, 1, 1, outcomes, &err),
                     SKEP_OK);
    assert_int_equal(outcomes[0], SKEP_CALLER_EMPTY);
}

static void a_session_that_the_keeper_forgot_is_opened_again(void **state)
{
    struct scene *scene = *state;
    double loss;
    float *gradients;
    size_t count = 0;
    pass(scene, &scene->calls, &loss, &gradients, &count);
    free(gradients);
    for (size_t k = 0; k < 2; k++) {
        memset(scene->caller->keepers[k].token + 7, '0', 64);
    }
    pass(scene, &scene->calls, &loss, &gradients, &count);
    bool some =
        false; /* a backward pass that was silent has a trunk gradient too: look at the tokens */
    for (size_t k = 0; k < 2; k++) {
        some = some || strspn(scene->caller->keepers[k].token + 7, "0") < 64;
    }
    assert_true(some);
    free(gradients);
}

static void a_caller_without_a_key_only_goes_forward(void **state)
{
    struct scene *scene = *state;
    close_caller(scene);
    open_caller(scene, NULL);
    const struct skep_expert_group group = {.expert = 3, .count = 1};
    struct skep_error err = {0};
    float x[16] = {1, 2, 3};
    float y[16] = {0};
    bool answered = true;
    assert_int_equal(scene->calls.forward(scene->calls.user, 0, &group, 1, x, y, &answered, &err),
                     SKEP_OK);
    assert_true(answered);
    assert_int_equal(
        scene->calls.backward(scene->calls.user, 0, &group, 1, x, y, x, &answered, &err),
        SKEP_ERR_ARGUMENT);
    close_caller(scene);
    open_caller(scene, scene->key);
}

/* How many of all experts answer one row each. */
static size_t answers(struct scene *scene)
{
    struct skep_expert_group groups[EXPERTS];
    bool answered[EXPERTS];
    float x[EXPERTS * 16];
    float y[EXPERTS * 16];
    struct skep_error err = {0};
    size_t count = 0;
    for (uint32_t i = 0; i < EXPERTS; i++) {
        groups[i] = (struct skep_expert_group){.expert = i, .first = i, .count = 1};
        answered[i] = true;
        for (size_t j = 0; j < 16; j++) {
            x[i * 16 + j] = (float)(i + j);
        }
    }
    assert_int_equal(
        scene->calls.forward(scene->calls.user, 0, groups, EXPERTS, x, y, answered, &err), SKEP_OK);
    for (size_t i = 0; i < EXPERTS; i++) {
        count += answered[i];
    }
    return count;
}

/* How many experts are asked of another keeper than this one first. The keepers' keys are new in every run, so it may be any number. */
static size_t asked_of_others(const struct scene *scene, size_t keeper)
{
    size_t count = 0;
    for (size_t place = 1; place <= EXPERTS; place++) {
        count += scene->caller->routes[place].keepers[0] != keeper;
    }
    return count;
}

/* Last: it kills a keeper. */
static void a_dead_keeper_is_silent_once_and_then_the_other_is_asked(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(answers(scene), EXPERTS);
    real_keepers_kill(&scene->keepers, 1);
    assert_int_equal(answers(scene), asked_of_others(scene, 1));
    assert_int_equal(answers(scene), EXPERTS);
    real_keepers_kill(&scene->keepers, 0);
    assert_int_equal(answers(scene), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_that_calls_its_experts_learns_what_one_that_has_them_does),
        cmocka_unit_test(gradients_of_passes_are_published_and_merged),
        cmocka_unit_test(a_session_that_the_keeper_forgot_is_opened_again),
        cmocka_unit_test(a_caller_without_a_key_only_goes_forward),
        cmocka_unit_test(a_dead_keeper_is_silent_once_and_then_the_other_is_asked),
    };
    return cmocka_run_group_tests_name("caller", tests, open_scene, close_scene);
}
