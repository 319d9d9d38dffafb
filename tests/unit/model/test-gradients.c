/*
 * Every gradient against central finite differences, in float64 (libskep-model64.a).
 *
 * With a step of 1e-5 the difference quotient is wrong by about step^2 = 1e-10 times the third derivative and by 1e-16 / 1e-5 = 1e-11 of
 * rounding: far below the tolerance of 1e-6 of the value plus 1e-9. A nudge that changes which expert is chosen would make
 * the quotient meaningless, so the choices are compared too.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/model/model-state.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/model/model-fixture.h"

#define STEP 1e-5
#define RELATIVE 1e-6
#define ABSOLUTE 1e-9
#define Z_LOSS 0.1
#define BATCH 2
#define RECORDS 16 /* of a classifier, in place of sequences */
#define CHECKED 10 /* values of each tensor, mostly */

struct trial {
    struct skep_model *lm;
    struct skep_model_config config;
    uint8_t *tokens;
    uint32_t *chosen; /* of all layers, when nothing is nudged */
    size_t each;      /* values of each tensor to check */
    size_t nonzero;   /* values checked whose gradient is not 0 */
    size_t checked;
};

static size_t choices(const struct trial *trial)
{
    return skep_model_tokens(trial->lm) * trial->config.experts_per_token;
}

static uint32_t batch_of(const struct trial *trial)
{
    return trial->config.kind == SKEP_MODEL_LM ? BATCH : RECORDS;
}

static double loss_of(struct trial *trial)
{
    struct skep_model_loss loss;
    assert_int_equal(skep_model_forward(trial->lm, trial->tokens, batch_of(trial), &loss, NULL),
                     SKEP_OK);
    return loss.sum_nats / (double)loss.tokens + Z_LOSS * loss.z;
}

static double nudged_loss(struct trial *trial, double *value, double by)
{
    double before = *value;
    *value = before + by;
    double loss = loss_of(trial);
    *value = before;
    size_t size = choices(trial);
    for (uint32_t l = 0; l < trial->config.layers; l++) {
        assert_memory_equal(trial->lm->kept[l].chosen, trial->chosen + l * size,
                            size * sizeof *trial->chosen);
    }
    return loss;
}

static void check_value(struct trial *trial, const char *shard, const struct skep_tensor_spec *spec,
                        size_t i, double *value, double gradient)
{
    double numeric =
        (nudged_loss(trial, value, STEP) - nudged_loss(trial, value, -STEP)) / (2 * STEP);
    trial->checked++;
    trial->nonzero += gradient != 0;
    double most = fmax(fabs(numeric), fabs(gradient));
    if (!(fabs(numeric - gradient) <= RELATIVE * most + ABSOLUTE)) {
        fail_msg("%s %s[%zu]: gradient %.12g, finite difference %.12g", shard, spec->name, i,
                 gradient, numeric);
    }
}

static void check_shard(struct trial *trial, const struct skep_shard *shard, struct skep_rng *rng)
{
    double *values = skep_model_parameters(trial->lm, shard);
    if (values == NULL) {
        return;
    }
    char name[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(shard, name);
    struct skep_layout layout;
    skep_layout_of(&trial->config, shard, &layout);
    /* The forward passes of the nudges leave the gradients alone, backward passes are not run meanwhile. */
    const double *gradients = skep_model_gradients(trial->lm, shard);
    for (size_t i = 0; i < layout.tensor_count; i++) {
        const struct skep_tensor_spec *spec = &layout.tensors[i];
        size_t count = spec->count < trial->each ? spec->count : trial->each;
        for (size_t j = 0; j < count; j++) {
            size_t at = spec->count <= trial->each ? j : skep_rng_below(rng, spec->count);
            check_value(trial, name, spec, at, values + spec->offset + at,
                        gradients[spec->offset + at]);
        }
    }
    skep_layout_done(&layout);
}

static void drop_some(struct skep_model *lm)
{
    for (uint32_t i = 0; i < 5; i++) {
        struct skep_shard shard = fixture_expert(i % 2, i % 3, (i * 2) % 3);
        skep_model_drop(lm, &shard);
    }
}

static void note_choices(struct trial *trial)
{
    size_t size = choices(trial);
    trial->chosen = skep_alloc(trial->config.layers * size, sizeof *trial->chosen);
    for (uint32_t l = 0; l < trial->config.layers; l++) {
        memcpy(trial->chosen + l * size, trial->lm->kept[l].chosen, size * sizeof *trial->chosen);
    }
}

/* trial->config is set, and trial->lm or else it is made. */
static void run_trial_of(struct trial *trial, uint64_t seed, size_t checked)
{
    if (trial->lm == NULL) {
        trial->lm = fixture_lm(&trial->config, batch_of(trial), seed);
    }
    trial->each = checked;
    size_t size = batch_of(trial) * skep_model_config_window(&trial->config);
    trial->tokens = skep_alloc(size, 1);
    fixture_tokens(&trial->config, 3, trial->tokens, size);
    loss_of(trial);
    note_choices(trial);
    assert_int_equal(skep_model_backward(trial->lm, Z_LOSS, NULL), SKEP_OK);
    struct skep_rng rng = skep_rng_of(1);
    check_shard(trial, &FIXTURE_TRUNK, &rng);
    for (uint32_t e = 0; e < trial->config.layers * 9; e++) {
        struct skep_shard shard = fixture_expert(e / 9, e / 3 % 3, e % 3);
        check_shard(trial, &shard, &rng);
    }
    /* Experts that no token chose have gradient 0, the others must not. */
    assert_true(trial->nonzero > trial->checked / 5);
    free(trial->tokens);
    free(trial->chosen);
    skep_model_free(trial->lm);
}

static void run_trial(enum skep_route route, uint32_t rows_per_token, bool missing)
{
    struct trial trial = {.config = fixture_config(route, rows_per_token)};
    trial.lm = fixture_lm(&trial.config, BATCH, 7 + rows_per_token);
    if (missing) {
        drop_some(trial.lm);
    }
    run_trial_of(&trial, 0, CHECKED);
}

static void gradients_hold_with_one_row_by_document(void **state)
{
    (void)state;
    run_trial(SKEP_ROUTE_DOCUMENT, 1, false);
}

static void gradients_hold_with_two_rows_by_document(void **state)
{
    (void)state;
    run_trial(SKEP_ROUTE_DOCUMENT, 2, false);
}

static void gradients_hold_with_one_row_by_token(void **state)
{
    (void)state;
    run_trial(SKEP_ROUTE_TOKEN, 1, false);
}

static void gradients_hold_with_two_rows_by_token(void **state)
{
    (void)state;
    run_trial(SKEP_ROUTE_TOKEN, 2, false);
}

static void gradients_hold_by_document_with_experts_missing(void **state)
{
    (void)state;
    run_trial(SKEP_ROUTE_DOCUMENT, 1, true);
    run_trial(SKEP_ROUTE_DOCUMENT, 2, true);
}

static void gradients_hold_by_token_with_experts_missing(void **state)
{
    (void)state;
    run_trial(SKEP_ROUTE_TOKEN, 1, true);
    run_trial(SKEP_ROUTE_TOKEN, 2, true);
}

/* Longer than one block of attention rows, with a block left over at the end. */
static void gradients_hold_across_blocks_of_attention(void **state)
{
    (void)state;
    struct trial trial = {.config = fixture_config(SKEP_ROUTE_DOCUMENT, 1)};
    trial.config.context = 2 * SKEP_ATTENTION_BLOCK + 12;
    run_trial_of(&trial, 23, 2);
}

static void run_paper_trial(enum skep_route route, bool missing)
{
    struct trial trial = {.config = fixture_config(route, 2)};
    trial.config.expert = SKEP_EXPERT_PAPER_FFN;
    trial.lm = fixture_lm(&trial.config, BATCH, 41);
    if (missing) {
        drop_some(trial.lm);
    }
    run_trial_of(&trial, 0, CHECKED);
}

static void gradients_hold_with_the_papers_experts(void **state)
{
    (void)state;
    run_paper_trial(SKEP_ROUTE_DOCUMENT, false);
    run_paper_trial(SKEP_ROUTE_TOKEN, true);
}

static void run_classifier_trial(enum skep_expert_kind expert, uint32_t rows_per_token)
{
    struct trial trial = {.config = fixture_classifier(expert, rows_per_token)};
    run_trial_of(&trial, 51, CHECKED);
}

static void gradients_hold_in_a_classifier(void **state)
{
    (void)state;
    run_classifier_trial(SKEP_EXPERT_FFN, 3);
    run_classifier_trial(SKEP_EXPERT_PAPER_FFN, 1);
    run_classifier_trial(SKEP_EXPERT_PAPER_FFN, 3);
}

static void the_row_gate_learns_when_several_rows_are_used(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 2);
    struct skep_model *lm = fixture_lm(&config, BATCH, 5);
    uint8_t tokens[BATCH * 9];
    fixture_tokens(&config, 3, tokens, sizeof tokens);
    struct skep_model_loss loss;
    assert_int_equal(skep_model_forward(lm, tokens, BATCH, &loss, NULL), SKEP_OK);
    assert_int_equal(skep_model_backward(lm, 0, NULL), SKEP_OK);
    double squares = 0;
    for (size_t i = 0; i < (size_t)config.rows * config.dim; i++) {
        squares += pow(lm->trunk_gradient.layers[0].gate_row[i], 2);
    }
    assert_true(squares > 0);
    skep_model_free(lm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_hold_with_one_row_by_document),
        cmocka_unit_test(gradients_hold_with_two_rows_by_document),
        cmocka_unit_test(gradients_hold_with_one_row_by_token),
        cmocka_unit_test(gradients_hold_with_two_rows_by_token),
        cmocka_unit_test(gradients_hold_by_document_with_experts_missing),
        cmocka_unit_test(gradients_hold_by_token_with_experts_missing),
        cmocka_unit_test(gradients_hold_across_blocks_of_attention),
        cmocka_unit_test(gradients_hold_with_the_papers_experts),
        cmocka_unit_test(gradients_hold_in_a_classifier),
        cmocka_unit_test(the_row_gate_learns_when_several_rows_are_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
