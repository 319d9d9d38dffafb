/* What the model promises: nothing leaks from the future, missing experts are dropped, ties and loads are counted as said. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/model/model-state.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/model/model-fixture.h"

#define V 11
#define T 9
#define PREFIX 3

/* A forward pass; returns a copy of the logits [T - PREFIX, V] of places PREFIX - 1 .. T - 2. */
static float *logits_of(struct skep_model *lm, const uint8_t *tokens)
{
    struct skep_model_loss loss;
    assert_int_equal(skep_model_forward(lm, tokens, 1, &loss, NULL), SKEP_OK);
    size_t count = (size_t)(T - PREFIX) * V;
    float *logits = skep_alloc(count, sizeof *logits);
    memcpy(logits, lm->logits, count * sizeof *logits);
    return logits;
}

static void assert_near(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!(fabsf(a[i] - b[i]) < 1e-4f)) {
            fail_msg("value %zu: %f and %f", i, (double)a[i], (double)b[i]);
        }
    }
}

static void check_causality(enum skep_route route)
{
    struct skep_model_config config = fixture_config(route, 1);
    struct skep_model *lm = fixture_lm(&config, 1, 11);
    uint8_t tokens[T];
    fixture_tokens(&config, 2, tokens, T);
    float *before = logits_of(lm, tokens);
    for (uint32_t place = PREFIX; place < T; place++) {
        tokens[place] = (uint8_t)((tokens[place] + 1) % V);
        float *after = logits_of(lm, tokens);
        tokens[place] = (uint8_t)((tokens[place] + V - 1) % V);
        size_t same = place - (PREFIX - 1); /* outputs before the changed place */
        assert_near(before, after, same * V);
        if (place < T - 1) {
            assert_memory_not_equal(before + same * V, after + same * V, V * sizeof *before);
        }
        free(after);
    }
    free(before);
    skep_model_free(lm);
}

static void a_later_byte_does_not_change_earlier_predictions(void **state)
{
    (void)state;
    check_causality(SKEP_ROUTE_DOCUMENT);
    check_causality(SKEP_ROUTE_TOKEN);
}

static void next_gives_the_logits_of_the_forward_pass(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 1);
    struct skep_model *lm = fixture_lm(&config, 1, 12);
    uint8_t tokens[T];
    fixture_tokens(&config, 5, tokens, T);
    float *logits = logits_of(lm, tokens);
    for (uint32_t count = PREFIX; count < T; count++) {
        float next[V];
        assert_int_equal(skep_model_next(lm, tokens, count, next, NULL), SKEP_OK);
        assert_near(next, logits + (count - PREFIX) * V, V);
    }
    free(logits);
    skep_model_free(lm);
}

static void next_refuses_too_few_and_too_many_bytes(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 1);
    struct skep_model *lm = fixture_lm(&config, 1, 12);
    uint8_t tokens[T + 1] = {0};
    float logits[V];
    struct skep_error err = {0};
    assert_int_equal(skep_model_next(lm, tokens, 0, logits, &err), SKEP_ERR_ARGUMENT);
    assert_int_equal(skep_model_next(lm, tokens, T + 1, logits, &err), SKEP_ERR_ARGUMENT);
    assert_non_null(strstr(err.text, "10 bytes"));
    tokens[1] = V;
    assert_int_equal(skep_model_next(lm, tokens, 2, logits, &err), SKEP_ERR_FORMAT);
    assert_int_equal(skep_model_next(lm, tokens, 1, logits, &err), SKEP_OK);
    skep_model_free(lm);
}

/* Every output of a single-sequence loss, recomputed from the logits. */
static void the_loss_is_the_cross_entropy_of_the_logits(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 1);
    struct skep_model *lm = fixture_lm(&config, 1, 13);
    uint8_t tokens[T];
    fixture_tokens(&config, 6, tokens, T);
    struct skep_model_loss loss;
    assert_int_equal(skep_model_forward(lm, tokens, 1, &loss, NULL), SKEP_OK);
    assert_int_equal(loss.tokens, T - PREFIX);
    double sum = 0;
    for (uint32_t i = 0; i < T - PREFIX; i++) {
        double total = 0;
        for (uint32_t j = 0; j < V; j++) {
            total += exp((double)lm->logits[i * V + j]);
        }
        sum += log(total) - (double)lm->logits[i * V + tokens[PREFIX + i]];
    }
    assert_true(fabs(sum - loss.sum_nats) < 1e-4);
    skep_model_free(lm);
}

static void drop_layer(struct skep_model *lm, uint32_t layer)
{
    for (uint32_t e = 0; e < 9; e++) {
        struct skep_shard shard = fixture_expert(layer, e / 3, e % 3);
        skep_model_drop(lm, &shard);
        assert_false(skep_model_has(lm, &shard));
        assert_null(skep_model_parameters(lm, &shard));
    }
}

static void a_layer_without_experts_passes_x_through(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 1);
    struct skep_model *lm = fixture_lm(&config, 1, 14);
    uint8_t tokens[T];
    fixture_tokens(&config, 7, tokens, T);
    drop_layer(lm, 0);
    drop_layer(lm, 1);
    float *missing = logits_of(lm, tokens);
    assert_int_equal(skep_model_backward(lm, 0.1, NULL), SKEP_OK);
    /* Experts whose outputs are all 0 do the same as no experts. */
    size_t parameters = 2 * 8 + 12 * 8 + 12 + 8 * 12 + 8;
    float *zeros = skep_alloc(parameters, sizeof *zeros);
    for (uint32_t e = 0; e < 18; e++) {
        struct skep_shard shard = fixture_expert(e / 9, e / 3 % 3, e % 3);
        skep_model_set(lm, &shard, zeros);
    }
    float *silent = logits_of(lm, tokens);
    assert_near(missing, silent, (size_t)(T - PREFIX) * V);
    free(zeros);
    free(missing);
    free(silent);
    skep_model_free(lm);
}

static void a_missing_expert_is_not_chosen_and_weights_still_sum_to_one(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_TOKEN, 1);
    struct skep_model *lm = fixture_lm(&config, 1, 15);
    uint8_t tokens[T];
    fixture_tokens(&config, 8, tokens, T);
    free(logits_of(lm, tokens));
    uint32_t gone = lm->kept[0].chosen[0];
    struct skep_shard shard = fixture_expert(0, gone / 3, gone % 3);
    skep_model_drop(lm, &shard);
    free(logits_of(lm, tokens));
    for (size_t n = 0; n < T - 1; n++) {
        float sum = 0;
        for (size_t i = 0; i < 2; i++) {
            assert_true(lm->kept[0].chosen[n * 2 + i] != gone);
            sum += lm->kept[0].weight[n * 2 + i];
        }
        assert_true(fabsf(sum - 1) < 1e-5f);
    }
    skep_model_free(lm);
}

static void with_one_expert_left_it_gets_the_whole_weight(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 2);
    struct skep_model *lm = fixture_lm(&config, 1, 16);
    for (uint32_t e = 0; e < 9; e++) {
        struct skep_shard shard = fixture_expert(1, e / 3, e % 3);
        if (e != 5) {
            skep_model_drop(lm, &shard);
        }
    }
    uint8_t tokens[T];
    fixture_tokens(&config, 9, tokens, T);
    free(logits_of(lm, tokens));
    for (size_t n = 0; n < T - 1; n++) {
        assert_int_equal(lm->kept[1].chosen[n * 2], 5);
        assert_true(lm->kept[1].weight[n * 2] == 1.0f);
        assert_int_equal(lm->kept[1].chosen[n * 2 + 1], SKEP_NO_EXPERT);
    }
    uint64_t rows[3];
    uint64_t columns[3];
    skep_model_loads(lm, 1, rows, columns);
    assert_int_equal(rows[1], T - 1);
    assert_int_equal(columns[2], T - 1);
    assert_int_equal(rows[0] + rows[2] + columns[0] + columns[1], 0);
    skep_model_free(lm);
}

/* All gates zero: every score ties. */
static void clear_gates(struct skep_model *lm)
{
    for (uint32_t l = 0; l < 2; l++) {
        struct skep_model_layer *layer = &lm->trunk.layers[l];
        memset(layer->gate_row, 0, 3 * 8 * sizeof *layer->gate_row);
        memset(layer->gate_column, 0, 3 * 8 * sizeof *layer->gate_column);
        memset(layer->balance_row, 0, 3 * sizeof *layer->balance_row);
        memset(layer->balance_column, 0, 3 * sizeof *layer->balance_column);
    }
}

static void ties_go_to_the_lower_index_and_biases_only_choose(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 2);
    struct skep_model *lm = fixture_lm(&config, 1, 17);
    clear_gates(lm);
    uint8_t tokens[T];
    fixture_tokens(&config, 10, tokens, T);
    free(logits_of(lm, tokens));
    assert_int_equal(lm->kept[0].chosen[0], 0);
    assert_int_equal(lm->kept[0].chosen[1], 1);
    lm->trunk.layers[0].balance_row[2] = 0.5f;
    lm->trunk.layers[0].balance_column[1] = 0.25f;
    free(logits_of(lm, tokens));
    assert_int_equal(lm->kept[0].chosen[0], 2 * 3 + 1);
    assert_int_equal(lm->kept[0].chosen[1], 2 * 3 + 0);
    assert_true(lm->kept[0].weight[0] == 0.5f);
    skep_model_free(lm);
}

static void rows_scored_from_the_trunk_are_those_of_the_gate(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 1);
    struct skep_model *lm = fixture_lm(&config, 1, 18);
    uint8_t tokens[T];
    fixture_tokens(&config, 11, tokens, T);
    float scores[2 * 3];
    assert_int_equal(skep_model_score_rows(lm, tokens, 1, scores, NULL), SKEP_OK);
    free(logits_of(lm, tokens));
    for (uint32_t i = 0; i < 6; i++) {
        float expected =
            lm->kept[i / 3].row_scores[i % 3] + lm->trunk.layers[i / 3].balance_row[i % 3];
        assert_near(&scores[i], &expected, 1);
    }
    skep_model_free(lm);
}

static void a_backward_pass_needs_a_forward_pass_before_it(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 1);
    struct skep_model *lm = fixture_lm(&config, 1, 19);
    uint8_t tokens[T];
    fixture_tokens(&config, 12, tokens, T);
    assert_int_equal(skep_model_backward(lm, 0, NULL), SKEP_ERR_STATE);
    free(logits_of(lm, tokens));
    assert_int_equal(skep_model_backward(lm, 0, NULL), SKEP_OK);
    assert_int_equal(skep_model_backward(lm, 0, NULL), SKEP_ERR_STATE);
    skep_model_free(lm);
}

static void a_number_that_is_not_finite_is_an_error(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 1);
    struct skep_model *lm = fixture_lm(&config, 1, 20);
    uint8_t tokens[T];
    fixture_tokens(&config, 13, tokens, T);
    lm->trunk.final.gain[0] = NAN;
    struct skep_model_loss loss;
    struct skep_error err = {0};
    assert_int_equal(skep_model_forward(lm, tokens, 1, &loss, &err), SKEP_ERR_NUMERIC);
    assert_true(strlen(err.text) > 0);
    skep_model_free(lm);
}

static void a_model_that_cannot_fit_is_an_error(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 1);
    config.context = 65536;
    struct skep_model *lm = NULL;
    struct skep_error err = {0};
    struct skep_model_options options = {.batch = 1000};
    assert_int_equal(skep_model_new(&config, &options, &lm, &err), SKEP_ERR_MEMORY);
    assert_null(lm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_later_byte_does_not_change_earlier_predictions),
        cmocka_unit_test(next_gives_the_logits_of_the_forward_pass),
        cmocka_unit_test(next_refuses_too_few_and_too_many_bytes),
        cmocka_unit_test(the_loss_is_the_cross_entropy_of_the_logits),
        cmocka_unit_test(a_layer_without_experts_passes_x_through),
        cmocka_unit_test(a_missing_expert_is_not_chosen_and_weights_still_sum_to_one),
        cmocka_unit_test(with_one_expert_left_it_gets_the_whole_weight),
        cmocka_unit_test(ties_go_to_the_lower_index_and_biases_only_choose),
        cmocka_unit_test(rows_scored_from_the_trunk_are_those_of_the_gate),
        cmocka_unit_test(a_backward_pass_needs_a_forward_pass_before_it),
        cmocka_unit_test(a_number_that_is_not_finite_is_an_error),
        cmocka_unit_test(a_model_that_cannot_fit_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
