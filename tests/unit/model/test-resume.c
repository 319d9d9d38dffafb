/* A job stopped anywhere and taken up by another process (here: another model) ends with the same bits. */
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/model/model-state.h"
#include "common/model/train.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/model/model-fixture.h"
#include "tests/unit/model/spoiled-ops.h"

#define BATCH 2
#define STEPS 3
#define SHARDS 5 /* the trunk and some experts; the others are there but not trained */

static const struct skep_hash TICKET = {{42}};
static uint8_t text[300];
static const struct skep_slice_chunk CHUNK = {text, sizeof text};
static const struct skep_training_config TRAINING = {.steps = STEPS,
                                                     .batch = BATCH,
                                                     .beta1 = 0.9,
                                                     .beta2 = 0.95,
                                                     .epsilon = 1e-8,
                                                     .weight_decay = 0.1,
                                                     .clip = 0.5,
                                                     .z_loss = 0.001,
                                                     .balance_step = 0.001};

struct trainee {
    struct skep_model *model;
    struct skep_shard shards[SHARDS];
    struct skep_moments moments[SHARDS];
    struct skep_train_job job;
};

static void trainee_init(struct trainee *trainee, const struct skep_ops *ops)
{
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 2);
    struct skep_model_options options = {.batch = BATCH, .ops = ops};
    trainee->model = fixture_model(&config, &options, 31);
    trainee->shards[0] = FIXTURE_TRUNK;
    for (uint32_t i = 1; i < SHARDS; i++) {
        trainee->shards[i] = fixture_expert(i % 2, i % 3, i - 1 < 3 ? i - 1 : 0);
    }
    for (size_t i = 0; i < SHARDS; i++) {
        size_t parameters =
            i == 0 ? trainee->model->trunk_parameters : trainee->model->expert_parameters;
        assert_int_equal(skep_moments_init(&trainee->moments[i], ops, parameters, NULL), SKEP_OK);
    }
    trainee->job = (struct skep_train_job){.training = &TRAINING,
                                           .learning_rate = 1e-2,
                                           .shards = trainee->shards,
                                           .moments = trainee->moments,
                                           .shard_count = SHARDS,
                                           .chunks = &CHUNK,
                                           .chunk_count = 1,
                                           .ticket = &TICKET};
}

static void trainee_done(struct trainee *trainee)
{
    for (size_t i = 0; i < SHARDS; i++) {
        skep_moments_done(&trainee->moments[i]);
    }
    skep_model_free(trainee->model);
}

/* Everything that train.h says has to be kept, and nothing else. */
static void carry_over(const struct trainee *from, const struct skep_train_position *position,
                       struct trainee *to)
{
    for (size_t i = 0; i < SHARDS; i++) {
        size_t parameters = from->moments[i].parameters;
        float *first = skep_alloc(parameters, sizeof *first);
        float *second = skep_alloc(parameters, sizeof *second);
        skep_model_get(from->model, &from->shards[i], first);
        assert_int_equal(skep_model_set(to->model, &to->shards[i], first), SKEP_OK);
        if (position->updating && i >= position->shard) {
            skep_model_get_gradients(from->model, &from->shards[i], first);
            skep_model_set_gradients(to->model, &to->shards[i], first);
        }
        skep_moments_get(&from->moments[i], first, second);
        skep_moments_set(&to->moments[i], first, second);
        to->moments[i].step = from->moments[i].step;
        free(first);
        free(second);
    }
}

static void assert_same(const struct trainee *a, const struct trainee *b)
{
    for (size_t i = 0; i < SHARDS; i++) {
        size_t size = a->moments[i].parameters * sizeof(float);
        assert_memory_equal(skep_model_parameters(a->model, &a->shards[i]),
                            skep_model_parameters(b->model, &b->shards[i]), size);
        assert_memory_equal(a->moments[i].first, b->moments[i].first, size);
        assert_memory_equal(a->moments[i].second, b->moments[i].second, size);
        assert_int_equal(a->moments[i].step, b->moments[i].step);
    }
}

/* Returns whether the stop fell into an update. */
static bool stop_and_go_on(size_t at, const struct trainee *straight,
                           const struct skep_train_position *straight_end)
{
    const struct skep_ops *ops = spoiled_ops();
    struct trainee first;
    struct trainee second;
    struct skep_train_position position = {0};
    trainee_init(&first, ops);
    trainee_init(&second, ops);
    spoiled.calls = 0;
    spoiled.stop_at = at;
    struct skep_error err = {0};
    assert_int_equal(skep_train_run(first.model, &first.job, &position, &err), SKEP_ERR_CANCELLED);
    bool updating = position.updating;
    atomic_store(&spoiled_stop, false);
    carry_over(&first, &position, &second);
    assert_int_equal(skep_train_run(second.model, &second.job, &position, &err), SKEP_OK);
    assert_memory_equal(&position, straight_end, sizeof position);
    assert_same(straight, &second);
    trainee_done(&first);
    trainee_done(&second);
    return updating;
}

static void a_job_stopped_anywhere_ends_with_the_same_bits(void **state)
{
    (void)state;
    struct trainee straight;
    struct skep_train_position end;
    memset(&end, 0, sizeof end);
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (uint8_t)(i * i % 11);
    }
    trainee_init(&straight, spoiled_ops());
    skep_ops_set_stop(&spoiled_stop);
    assert_int_equal(skep_train_run(straight.model, &straight.job, &end, NULL), SKEP_OK);
    size_t calls = spoiled.calls;
    size_t inside = 0;
    size_t outside = 0;
    /* the last piece's stop comes too late to matter */
    for (size_t at = 1; at < calls; at += 11) {
        bool updating = stop_and_go_on(at, &straight, &end);
        inside += updating;
        outside += !updating;
    }
    assert_true(inside > 3 && outside > 3);
    skep_ops_set_stop(NULL);
    trainee_done(&straight);
}

static void a_position_that_the_job_cannot_have_is_refused(void **state)
{
    (void)state;
    struct trainee trainee;
    trainee_init(&trainee, skep_ops_cpu());
    struct skep_train_position good = {
        .step = 1, .updating = true, .clip = 0.5, .shard = 1, .offset = 8};
    struct skep_train_position bad[6];
    for (size_t i = 0; i < 6; i++) {
        bad[i] = good;
    }
    bad[0].step = STEPS;
    bad[1].shard = SHARDS;
    bad[2].offset = 1u << 20;
    bad[3].clip = 0;
    bad[4].clip = 2;
    bad[5] = (struct skep_train_position){.step = STEPS + 1};
    for (size_t i = 0; i < 6; i++) {
        struct skep_error err = {0};
        assert_int_equal(skep_train_run(trainee.model, &trainee.job, &bad[i], &err),
                         SKEP_ERR_FORMAT);
        assert_true(strlen(err.text) > 0);
    }
    trainee_done(&trainee);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_stopped_anywhere_ends_with_the_same_bits),
        cmocka_unit_test(a_position_that_the_job_cannot_have_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
