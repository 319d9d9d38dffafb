/* How passes may be run and how they end: computed again, forward only, within the memory foretold, stopped, broken. */
#ifdef __linux__
#include <malloc.h>
#endif
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/model/model-state.h"
#include "common/model/train.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/model/model-fixture.h"
#include "tests/unit/model/spoiled-ops.h"

#define BATCH 3
#define SHARDS 19

static struct skep_model_config configs(size_t i)
{
    struct skep_model_config config =
        i < 2 ? fixture_config(SKEP_ROUTE_DOCUMENT, 2) : fixture_classifier(SKEP_EXPERT_FFN, 2);
    config.layers = 3;
    config.expert = i % 2 == 0 ? SKEP_EXPERT_FFN : SKEP_EXPERT_PAPER_FFN;
    return config;
}

static uint8_t *records_of(const struct skep_model_config *config)
{
    size_t size = BATCH * skep_model_config_window(config);
    uint8_t *records = skep_alloc(size, 1);
    fixture_tokens(config, 9, records, size);
    return records;
}

static void assert_same_gradients(const struct skep_model *a, const struct skep_model *b)
{
    size_t size = a->expert_parameters * sizeof(skep_real);
    assert_memory_equal(a->trunk_gradient.values, b->trunk_gradient.values,
                        a->trunk_parameters * sizeof(skep_real));
    for (size_t e = 0; e < a->config.layers * skep_model_grid(a); e++) {
        assert_memory_equal(a->experts[e].gradients, b->experts[e].gradients, size);
    }
}

static void assert_same_loss(struct skep_model *a, struct skep_model *b, const uint8_t *records,
                             uint32_t batch)
{
    struct skep_model_loss one = {0};
    struct skep_model_loss other = {0};
    assert_int_equal(skep_model_forward(a, records, batch, &one, NULL), SKEP_OK);
    assert_int_equal(skep_model_forward(b, records, batch, &other, NULL), SKEP_OK);
    assert_true(one.sum_nats == other.sum_nats && one.z == other.z);
}

static void layers_computed_again_give_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct skep_model_config config = configs(i);
        struct skep_model_options options = {.batch = BATCH, .recompute = true};
        struct skep_model *kept = fixture_lm(&config, BATCH, 3);
        struct skep_model *again = fixture_model(&config, &options, 3);
        uint8_t *records = records_of(&config);
        assert_same_loss(kept, again, records, BATCH);
        assert_int_equal(skep_model_backward(kept, 0.1, NULL), SKEP_OK);
        assert_int_equal(skep_model_backward(again, 0.1, NULL), SKEP_OK);
        assert_same_gradients(kept, again);
        free(records);
        skep_model_free(kept);
        skep_model_free(again);
    }
}

static void a_model_for_forward_passes_gives_the_same_bits_and_no_gradients(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct skep_model_config config = configs(i);
        struct skep_model_options options = {.batch = BATCH, .forward_only = true};
        struct skep_model *whole = fixture_lm(&config, BATCH, 3);
        struct skep_model *forward = fixture_model(&config, &options, 3);
        uint8_t *records = records_of(&config);
        assert_same_loss(whole, forward, records, BATCH);
        struct skep_error err = {0};
        assert_int_equal(skep_model_backward(forward, 0.1, &err), SKEP_ERR_STATE);
        assert_non_null(strstr(err.text, "forward passes"));
        free(records);
        skep_model_free(whole);
        skep_model_free(forward);
    }
}

/* Each expert works on one row and no width is a multiple of a cache line, which rounds the experts' work up most. What a model for
 * forward passes does, with room for one expert at a time, says what is right. */
static void many_experts_of_one_row_each_find_room(void **state)
{
    (void)state;
    for (size_t i = 2; i < 4; i++) {
        struct skep_model_config config = configs(i);
        config.dim = 17;
        config.hidden = 12;
        config.rows_per_token = config.rows;
        config.experts_per_token = config.rows * config.columns;
        struct skep_model_options options = {.batch = 1, .forward_only = true};
        struct skep_model *whole = fixture_lm(&config, 1, 3);
        struct skep_model *forward = fixture_model(&config, &options, 3);
        uint8_t *records = records_of(&config);
        assert_same_loss(whole, forward, records, 1);
        free(records);
        skep_model_free(whole);
        skep_model_free(forward);
    }
}

/* The table's pieces are counted as they are asked for; the host's few blocks are as large as malloc made them, a few bytes more. */
#ifdef __linux__
static uint64_t sum_of(const struct skep_model_memory *memory)
{
    return memory->parameters + memory->gradients + memory->activations;
}

static void check_memory(const struct skep_model_config *config,
                         const struct skep_model_options *options)
{
    struct skep_model_memory memory = {0};
    size_t experts = options->calls != NULL ? 0 : config->layers * 9;
    skep_model_memory_of(config, options, experts, &memory);
    struct skep_model *model;
    if (options->calls != NULL) {
        assert_int_equal(skep_model_new(config, options, &model, NULL), SKEP_OK);
    } else {
        model = fixture_model(config, options, 3);
    }
    uint64_t told = sum_of(&memory);
    size_t host = malloc_usable_size(model->host_memory) + malloc_usable_size(model) +
                  malloc_usable_size(model->kept) + malloc_usable_size(model->experts) +
                  malloc_usable_size(model->trunk.layers) +
                  malloc_usable_size(model->trunk_gradient.layers);
    assert_true(told <= spoiled.memory_asked + host);
    assert_true(told + 6 * 32 >= spoiled.memory_asked + host || host > ((size_t)128 << 10));
    assert_true(told + 3 * 4096 >= spoiled.memory_asked + host); /* large blocks are whole pages */
    skep_model_free(model);
    assert_int_equal(spoiled.memory_held, 0);
}
#else
static void check_memory(const struct skep_model_config *config,
                         const struct skep_model_options *options)
{
    (void)config;
    (void)options;
    skip(); /* nobody says how large a block of malloc's is */
}
#endif

static void memory_is_foretold_to_the_byte(void **state)
{
    (void)state;
    struct skep_expert_calls calls = {0};
    for (size_t i = 0; i < 4; i++) {
        struct skep_model_config config = configs(i);
        config.dim = 32;
        config.hidden = 128;
        for (size_t way = 0; way < 5; way++) {
            struct skep_model_options options = {.batch = 16,
                                                 .recompute = way == 1,
                                                 .forward_only = way == 2,
                                                 .ops = spoiled_ops(),
                                                 .calls = way >= 3 ? &calls : NULL};
            options.forward_only |= way == 4;
            check_memory(&config, &options);
        }
    }
}

static void less_is_kept_when_it_is_computed_again_or_not_needed(void **state)
{
    (void)state;
    struct skep_model_config config = configs(0);
    config.layers = 4;
    config.context = 64;
    struct skep_model_options options = {.batch = 8};
    struct skep_model_memory whole;
    struct skep_model_memory again;
    struct skep_model_memory forward;
    skep_model_memory_of(&config, &options, 9, &whole);
    options.recompute = true;
    skep_model_memory_of(&config, &options, 9, &again);
    options.forward_only = true;
    skep_model_memory_of(&config, &options, 9, &forward);
    assert_true(2 * again.activations < whole.activations);
    assert_true(2 * forward.activations < again.activations);
    assert_int_equal(whole.gradients, whole.parameters);
    assert_int_equal(whole.moments, 2 * whole.parameters);
    assert_int_equal(forward.gradients + forward.moments, 0);
}

static void every_failed_allocation_is_an_error_and_leaves_nothing(void **state)
{
    (void)state;
    struct skep_model_config config = configs(0);
    struct skep_shard shard = fixture_expert(0, 0, 0);
    struct skep_layout layout;
    skep_layout_of(&config, &shard, &layout);
    float *zeros = skep_alloc(layout.parameters, sizeof *zeros);
    bool made = false;
    for (size_t i = 1; !made; i++) {
        struct skep_model_options options = {.batch = BATCH, .ops = spoiled_ops()};
        struct skep_model *model = NULL;
        struct skep_moments moments = {0};
        struct skep_error err = {0};
        spoiled.memory_fails_at = i;
        int rc = skep_model_new(&config, &options, &model, &err);
        rc = rc != SKEP_OK ? rc : skep_model_set(model, &shard, zeros);
        if (rc != SKEP_OK && model != NULL) {
            assert_false(skep_model_has(model, &shard));
        }
        rc = rc != SKEP_OK ? rc : skep_moments_init(&moments, options.ops, layout.parameters, &err);
        made = rc == SKEP_OK;
        assert_true(made || rc == SKEP_ERR_MEMORY);
        skep_moments_done(&moments);
        skep_model_free(model);
        assert_int_equal(spoiled.memory_held, 0);
        assert_true(i < 20);
    }
    free(zeros);
    skep_layout_done(&layout);
}

/* Forward and backward; SKEP_ERR_CANCELLED as soon as one was stopped. */
static int both_passes(struct skep_model *model, const uint8_t *records, struct skep_error *err)
{
    struct skep_model_loss loss;
    int rc = skep_model_forward(model, records, BATCH, &loss, err);
    return rc != SKEP_OK ? rc : skep_model_backward(model, 0.1, err);
}

static void a_pass_stopped_anywhere_can_be_done_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct skep_model_config config = configs(i);
        struct skep_model_options options = {
            .batch = BATCH, .recompute = i % 2 == 1, .ops = spoiled_ops()};
        struct skep_model *straight = fixture_model(&config, &options, 3);
        struct skep_model *stopped = fixture_model(&config, &options, 3);
        uint8_t *records = records_of(&config);
        skep_ops_set_stop(&spoiled_stop);
        assert_int_equal(both_passes(straight, records, NULL), SKEP_OK);
        size_t calls = spoiled.calls;
        for (size_t at = 1; at <= calls; at += 5) {
            struct skep_error err = {0};
            spoiled.calls = 0;
            spoiled.stop_at = at;
            assert_int_equal(both_passes(stopped, records, &err), SKEP_ERR_CANCELLED);
            assert_non_null(strstr(err.text, "stopped on request"));
            assert_true(spoiled.calls < at + 60); /* ends with the layer */
            atomic_store(&spoiled_stop, false);
        }
        spoiled.stop_at = 0;
        assert_int_equal(both_passes(stopped, records, NULL), SKEP_OK);
        assert_same_gradients(straight, stopped);
        skep_ops_set_stop(NULL);
        free(records);
        skep_model_free(straight);
        skep_model_free(stopped);
    }
}

static void a_device_that_disappears_ends_the_pass_with_its_error(void **state)
{
    (void)state;
    struct skep_model_config config = configs(0);
    struct skep_model_options options = {.batch = BATCH, .ops = spoiled_ops()};
    struct skep_model *model = fixture_model(&config, &options, 3);
    uint8_t *records = records_of(&config);
    struct skep_error err = {0};
    struct skep_model_loss loss;
    assert_int_equal(skep_model_forward(model, records, BATCH, &loss, &err), SKEP_OK);
    size_t forward = spoiled.calls;
    spoiled.break_at = forward + 3;
    assert_int_equal(skep_model_backward(model, 0.1, &err), SKEP_ERR_IO);
    assert_string_equal(err.text, "the device is gone");
    assert_int_equal(skep_model_forward(model, records, BATCH, &loss, &err), SKEP_ERR_IO);
    free(records);
    skep_model_free(model);
}

static void a_device_that_disappears_at_the_head_gives_no_logits(void **state)
{
    (void)state;
    struct skep_model_config config = configs(0);
    struct skep_model_options options = {.batch = 1, .ops = spoiled_ops()};
    struct skep_model *model = fixture_model(&config, &options, 3);
    uint8_t *records = records_of(&config);
    struct skep_error err = {0};
    float *logits = skep_alloc(config.vocabulary, sizeof *logits);
    assert_int_equal(skep_model_next(model, records, 4, logits, &err), SKEP_OK);
    spoiled.break_at = spoiled.calls; /* the last product is the head's */
    spoiled.calls = 0;
    assert_int_equal(skep_model_next(model, records, 4, logits, &err), SKEP_ERR_IO);
    assert_string_equal(err.text, "the device is gone");
    free(logits);
    free(records);
    skep_model_free(model);
}

static int ask_in_vain(void *user, uint32_t layer, const struct skep_expert_group *groups,
                       size_t group_count, const skep_real *x, skep_real *y, bool *answered,
                       struct skep_error *err)
{
    size_t *asked = user;
    (void)layer, (void)groups, (void)x, (void)y, (void)err;
    for (size_t g = 0; g < group_count; g++) {
        answered[g] = false;
    }
    ++*asked;
    return SKEP_OK;
}

static void experts_elsewhere_are_not_asked_with_what_a_broken_device_left(void **state)
{
    (void)state;
    size_t asked = 0;
    struct skep_expert_calls calls = {.user = &asked, .forward = ask_in_vain};
    struct skep_model_config config = configs(2);
    struct skep_model_options options = {.batch = BATCH, .ops = spoiled_ops(), .calls = &calls};
    struct skep_model *model = fixture_model(&config, &options, 3);
    uint8_t *records = records_of(&config);
    struct skep_model_loss loss;
    struct skep_error err = {0};
    assert_int_equal(skep_model_forward(model, records, BATCH, &loss, &err), SKEP_OK);
    assert_int_equal(asked, config.layers);
    spoiled.break_at = spoiled.calls + 1;
    assert_int_equal(skep_model_forward(model, records, BATCH, &loss, &err), SKEP_ERR_IO);
    assert_int_equal(asked, config.layers);
    free(records);
    skep_model_free(model);
}

static void numbers_that_are_not_finite_name_their_pass(void **state)
{
    (void)state;
    struct skep_model_config config = configs(0);
    struct skep_model *model = fixture_lm(&config, BATCH, 3);
    uint8_t *records = records_of(&config);
    struct skep_model_loss loss;
    struct skep_error err = {0};
    /* only a place of the prefix, in the last layer: no loss sees it */
    model->trunk.position[0] = INFINITY;
    assert_int_equal(skep_model_forward(model, records, BATCH, &loss, &err), SKEP_ERR_NUMERIC);
    assert_non_null(strstr(err.text, "forward pass"));
    model->trunk.position[0] = 0;
    assert_int_equal(skep_model_forward(model, records, BATCH, &loss, &err), SKEP_OK);
    model->kept[0].inner.mid_hat[0] = NAN;
    assert_int_equal(skep_model_backward(model, 0.1, &err), SKEP_ERR_NUMERIC);
    assert_non_null(strstr(err.text, "backward pass"));
    free(records);
    skep_model_free(model);
}

static void what_a_model_was_not_made_for_is_refused(void **state)
{
    (void)state;
    struct skep_model_config config = configs(0);
    struct skep_model *model = fixture_lm(&config, BATCH, 3);
    uint8_t *records = records_of(&config);
    struct skep_model_loss loss;
    struct skep_error err = {0};
    assert_int_equal(skep_model_forward(model, records, BATCH + 1, &loss, &err), SKEP_ERR_ARGUMENT);
    assert_non_null(strstr(err.text, "a batch of 4, but the model was made for 1 to 3"));
    assert_int_equal(skep_model_forward(model, records, 0, &loss, &err), SKEP_ERR_ARGUMENT);
    struct skep_shard nowhere = fixture_expert(0, 3, 0);
    float value = 0;
    assert_int_equal(skep_model_set(model, &nowhere, &value), SKEP_ERR_ARGUMENT);
    assert_false(skep_model_has(model, &nowhere));
    struct skep_model *none = NULL;
    struct skep_model_options options = {.batch = 0};
    assert_int_equal(skep_model_new(&config, &options, &none, &err), SKEP_ERR_ARGUMENT);
    options.batch = 1;
    config.heads = 3;
    assert_int_equal(skep_model_new(&config, &options, &none, &err), SKEP_ERR_ARGUMENT);
    assert_null(none);
    free(records);
    skep_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_computed_again_give_the_same_bits),
        cmocka_unit_test(a_model_for_forward_passes_gives_the_same_bits_and_no_gradients),
        cmocka_unit_test(many_experts_of_one_row_each_find_room),
        cmocka_unit_test(memory_is_foretold_to_the_byte),
        cmocka_unit_test(less_is_kept_when_it_is_computed_again_or_not_needed),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaves_nothing),
        cmocka_unit_test(a_pass_stopped_anywhere_can_be_done_again),
        cmocka_unit_test(a_device_that_disappears_ends_the_pass_with_its_error),
        cmocka_unit_test(a_device_that_disappears_at_the_head_gives_no_logits),
        cmocka_unit_test(experts_elsewhere_are_not_asked_with_what_a_broken_device_left),
        cmocka_unit_test(numbers_that_are_not_finite_name_their_pass),
        cmocka_unit_test(what_a_model_was_not_made_for_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
