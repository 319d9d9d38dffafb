#include "tests/gpu/model-checks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/model/layout.h"
#include "common/model/train.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/model/model-fixture.h"

/* Both sides sum some hundred float32 products in another order, which loses sqrt(n) * 2^-24 of the sum; a pass chains about ten such
 * sums and divides by standard deviations; seen on the emulated device: 5e-6. */
#define TOLERANCE 1e-4
#define BATCH 4u
#define STEPS 3u
#define MOST_SHARDS 16u
#define TEXT 2048u

static const struct skep_hash TICKET = {{42}};

struct scene {
    struct skep_model_config config;
    struct skep_model_options options;
    struct skep_shard shards[MOST_SHARDS];
    size_t shard_count;
    uint8_t text[TEXT];
    size_t text_size; /* whole windows */
};

/* 2 layers of a 2 x 2 grid; widths that are no multiple of a warp. */
static void lm_scene(struct scene *scene, enum skep_route route, bool recompute)
{
    scene->config = (struct skep_model_config){.vocabulary = 53,
                                               .dim = 40,
                                               .hidden = 72,
                                               .heads = 2,
                                               .layers = 2,
                                               .context = 37,
                                               .prefix = 5,
                                               .rows = 2,
                                               .columns = 2,
                                               .experts_per_token = 2,
                                               .rows_per_token = 1,
                                               .route = route};
    scene->options = (struct skep_model_options){.batch = BATCH, .recompute = recompute};
}

static void classifier_scene(struct scene *scene)
{
    scene->config = (struct skep_model_config){.kind = SKEP_MODEL_CLASSIFIER,
                                               .expert = SKEP_EXPERT_PAPER_FFN,
                                               .inputs = 49,
                                               .classes = 10,
                                               .dim = 40,
                                               .hidden = 72,
                                               .layers = 2,
                                               .rows = 2,
                                               .columns = 2,
                                               .experts_per_token = 2};
    skep_model_config_imply(&scene->config);
    scene->options = (struct skep_model_options){.batch = BATCH};
}

static void fill_scene(struct scene *scene)
{
    const struct skep_model_config *config = &scene->config;
    bool classifier = config->kind == SKEP_MODEL_CLASSIFIER;
    size_t window = skep_model_config_window(config);
    scene->shards[scene->shard_count++] = FIXTURE_TRUNK;
    for (uint32_t e = 0; e < config->layers * 4; e++) {
        scene->shards[scene->shard_count++] = fixture_expert(e / 4, e / 2 % 2, e % 2);
    }
    scene->text_size = TEXT / window * window;
    for (size_t i = 0; i < scene->text_size; i++) {
        bool class = classifier && i % window == window - 1;
        scene->text[i] = (uint8_t)((i * i + i / 7) % (class ? config->classes : 53));
    }
}

static size_t parameters_of(const struct scene *scene, size_t shard)
{
    struct skep_layout layout;
    skep_layout_of(&scene->config, &scene->shards[shard], &layout);
    size_t parameters = layout.parameters;
    skep_layout_done(&layout);
    return parameters;
}

static struct skep_model *model_on(const struct scene *scene, const struct skep_ops *ops)
{
    struct skep_model_options options = scene->options;
    options.ops = ops;
    return fixture_model(&scene->config, &options, 5);
}

/* The largest difference relative to the largest value. */
static void assert_close(const float *found, const float *expected, size_t count, double tolerance)
{
    double most = 0;
    double difference = 0;
    for (size_t i = 0; i < count; i++) {
        assert_true(isfinite(found[i]));
        most = fmax(most, fabs((double)expected[i]));
        difference = fmax(difference, fabs((double)found[i] - (double)expected[i]));
    }
    if (difference > tolerance * most + 1e-7) {
        fail_msg("values differ by %g, the largest is %g", difference, most);
    }
}

static void check_gradients(const struct scene *scene, struct skep_model *const models[2])
{
    for (size_t i = 0; i < scene->shard_count; i++) {
        size_t count = parameters_of(scene, i);
        float *found = skep_alloc(count, sizeof *found);
        float *expected = skep_alloc(count, sizeof *expected);
        skep_model_get_gradients(models[0], &scene->shards[i], found);
        skep_model_get_gradients(models[1], &scene->shards[i], expected);
        assert_close(found, expected, count, TOLERANCE);
        free(found);
        free(expected);
    }
}

/* One pass each way on `ops` and on the CPU. */
static void check_pass(const struct scene *scene, const struct skep_ops *ops)
{
    struct skep_model *models[2] = {model_on(scene, ops), model_on(scene, skep_ops_cpu())};
    struct skep_model_loss losses[2];
    struct skep_error err = {0};
    for (int side = 0; side < 2; side++) {
        assert_int_equal(skep_model_forward(models[side], scene->text, BATCH, &losses[side], &err),
                         SKEP_OK);
        assert_int_equal(skep_model_backward(models[side], 0.01, &err), SKEP_OK);
    }
    assert_int_equal(losses[0].tokens, losses[1].tokens);
    assert_int_equal(losses[0].correct, losses[1].correct);
    assert_true(fabs(losses[0].sum_nats / losses[1].sum_nats - 1) < TOLERANCE);
    assert_true(fabs(losses[0].z - losses[1].z) < TOLERANCE * fmax(1, losses[1].z));
    check_gradients(scene, models);
    skep_model_free(models[0]);
    skep_model_free(models[1]);
}

struct trained {
    struct skep_train_position position;
    struct skep_eval eval;
    float *trunk;
};

static struct trained train_on(const struct scene *scene, const struct skep_ops *ops)
{
    const struct skep_training_config training = {.steps = STEPS,
                                                  .batch = BATCH,
                                                  .learning_rate = 1e-3,
                                                  .beta1 = 0.9,
                                                  .beta2 = 0.95,
                                                  .epsilon = 1e-8,
                                                  .weight_decay = 0.1,
                                                  .clip = 1,
                                                  .z_loss = 0.001,
                                                  .balance_step = 0.001};
    const struct skep_slice_chunk chunk = {scene->text, scene->text_size};
    struct skep_model *model = model_on(scene, ops);
    struct skep_moments moments[MOST_SHARDS];
    struct trained trained = {0};
    struct skep_error err = {0};
    for (size_t i = 0; i < scene->shard_count; i++) {
        assert_int_equal(skep_moments_init(&moments[i], ops, parameters_of(scene, i), &err), 0);
    }
    const struct skep_train_job job = {.training = &training,
                                       .learning_rate = training.learning_rate,
                                       .shards = scene->shards,
                                       .moments = moments,
                                       .shard_count = scene->shard_count,
                                       .chunks = &chunk,
                                       .chunk_count = 1,
                                       .ticket = &TICKET};
    assert_int_equal(skep_train_run(model, &job, &trained.position, &err), SKEP_OK);
    size_t window = skep_model_config_window(&scene->config);
    assert_int_equal(skep_eval_text(model, scene->text, 2 * BATCH * window, &trained.eval, &err),
                     SKEP_OK);
    trained.trunk = skep_alloc(parameters_of(scene, 0), sizeof *trained.trunk);
    skep_model_get(model, &scene->shards[0], trained.trunk);
    for (size_t i = 0; i < scene->shard_count; i++) {
        skep_moments_done(&moments[i]);
    }
    skep_model_free(model);
    return trained;
}

/*
 * AdamW divides by the gradient's own size: where a gradient is nothing but rounding, its sign and with it a whole step may differ. So
 * single parameters may part by twice the steps' length; the losses may not.
 */
static void check_training(const struct scene *scene, const struct skep_ops *ops)
{
    struct trained found = train_on(scene, ops);
    struct trained again = train_on(scene, ops);
    struct trained expected = train_on(scene, skep_ops_cpu());
    size_t count = parameters_of(scene, 0);
    assert_int_equal(found.position.tokens, expected.position.tokens);
    assert_true(fabs(found.position.loss_last / expected.position.loss_last - 1) < TOLERANCE);
    assert_true(fabs(found.eval.nats / expected.eval.nats - 1) < TOLERANCE);
    for (size_t i = 0; i < count; i++) {
        assert_true(fabs((double)found.trunk[i] - (double)expected.trunk[i]) < 2e-3 * STEPS);
    }
    assert_memory_equal(found.trunk, again.trunk, count * sizeof *found.trunk);
    assert_true(found.eval.nats == again.eval.nats);
    free(found.trunk);
    free(again.trunk);
    free(expected.trunk);
}

static const struct skep_ops *ops_of(void **state)
{
    const struct skep_ops *const *ops = *state;
    return *ops;
}

static void an_lm_routed_by_documents_agrees_with_the_cpu(void **state)
{
    struct scene scene = {0};
    lm_scene(&scene, SKEP_ROUTE_DOCUMENT, false);
    fill_scene(&scene);
    check_pass(&scene, ops_of(state));
    check_training(&scene, ops_of(state));
}

static void an_lm_routed_by_tokens_that_recomputes_agrees_with_the_cpu(void **state)
{
    struct scene scene = {0};
    lm_scene(&scene, SKEP_ROUTE_TOKEN, true);
    fill_scene(&scene);
    check_pass(&scene, ops_of(state));
}

static void a_classifier_of_the_papers_experts_agrees_with_the_cpu(void **state)
{
    struct scene scene = {0};
    classifier_scene(&scene);
    fill_scene(&scene);
    check_pass(&scene, ops_of(state));
    check_training(&scene, ops_of(state));
}

static void text_is_drawn_and_rows_are_scored(void **state)
{
    struct scene scene = {0};
    lm_scene(&scene, SKEP_ROUTE_DOCUMENT, false);
    fill_scene(&scene);
    struct skep_model *models[2] = {model_on(&scene, ops_of(state)),
                                    model_on(&scene, skep_ops_cpu())};
    float logits[2][53];
    float scores[2][4];
    for (int side = 0; side < 2; side++) {
        assert_int_equal(skep_model_next(models[side], scene.text, 20, logits[side], NULL), 0);
        assert_int_equal(skep_model_score_rows(models[side], scene.text, 2, scores[side], NULL), 0);
        skep_model_free(models[side]);
    }
    assert_close(logits[0], logits[1], 53, TOLERANCE);
    assert_close(scores[0], scores[1], 4, TOLERANCE);
}

int skep_test_models(const struct skep_ops *ops)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(an_lm_routed_by_documents_agrees_with_the_cpu, &ops),
        cmocka_unit_test_prestate(an_lm_routed_by_tokens_that_recomputes_agrees_with_the_cpu, &ops),
        cmocka_unit_test_prestate(a_classifier_of_the_papers_experts_agrees_with_the_cpu, &ops),
        cmocka_unit_test_prestate(text_is_drawn_and_rows_are_scored, &ops),
    };
    return cmocka_run_group_tests_name("models", tests, NULL, NULL);
}
