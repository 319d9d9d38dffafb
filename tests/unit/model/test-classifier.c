/* What a classifier has of its own: its layout, its records, its answers; and that it learns. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/model/model-state.h"
#include "common/model/train.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/model/model-fixture.h"

#define INPUTS 5
#define RECORD (INPUTS + 1)
#define CLASSES 4
#define RECORDS 400
#define SHARDS 19

static const struct skep_hash SEED = {{7}};
static const struct skep_hash TICKET = {{42}};

/* The class is the place of the largest of the first four bytes. */
static void make_records(uint64_t seed, uint8_t *records, size_t count)
{
    struct skep_rng rng = skep_rng_of(seed);
    for (size_t n = 0; n < count; n++) {
        uint8_t *record = records + n * RECORD;
        uint8_t best = 0;
        for (uint8_t i = 0; i < INPUTS; i++) {
            record[i] = (uint8_t)skep_rng_below(&rng, 256);
            best = i < CLASSES && record[i] > record[best] ? i : best;
        }
        record[INPUTS] = best;
    }
}

struct learner {
    struct skep_model *model;
    struct skep_shard shards[SHARDS];
    struct skep_moments moments[SHARDS];
};

static void learner_init(struct learner *learner, const struct skep_model_config *config,
                         uint32_t batch)
{
    struct skep_model_options options = {.batch = batch};
    assert_int_equal(skep_model_new(config, &options, &learner->model, NULL), SKEP_OK);
    for (size_t i = 0; i < SHARDS; i++) {
        uint32_t e = (uint32_t)i - 1;
        learner->shards[i] = i == 0 ? FIXTURE_TRUNK : fixture_expert(e / 9, e / 3 % 3, e % 3);
        struct skep_layout layout;
        skep_layout_of(config, &learner->shards[i], &layout);
        float *values = skep_alloc(layout.parameters, sizeof *values);
        skep_layout_seed(&layout, config, &SEED, values);
        assert_int_equal(skep_model_set(learner->model, &learner->shards[i], values), SKEP_OK);
        assert_int_equal(skep_moments_init(&learner->moments[i], NULL, layout.parameters, NULL),
                         SKEP_OK);
        free(values);
        skep_layout_done(&layout);
    }
}

static void learner_done(struct learner *learner)
{
    for (size_t i = 0; i < SHARDS; i++) {
        skep_moments_done(&learner->moments[i]);
    }
    skep_model_free(learner->model);
}

static void check_learning(enum skep_expert_kind expert)
{
    struct skep_model_config config = fixture_classifier(expert, 3);
    struct skep_training_config training = {.steps = 150,
                                            .batch = 32,
                                            .beta1 = 0.9,
                                            .beta2 = 0.95,
                                            .epsilon = 1e-8,
                                            .clip = 1,
                                            .z_loss = 0.001,
                                            .balance_step = 0.001};
    uint8_t *records = skep_alloc(2 * RECORDS, RECORD);
    make_records(1, records, RECORDS);
    make_records(2, records + RECORDS * RECORD, RECORDS);
    struct skep_slice_chunk chunks[] = {{records, 100 * RECORD},
                                        {records + 100 * RECORD, (RECORDS - 100) * RECORD}};
    struct learner learner;
    learner_init(&learner, &config, training.batch);
    struct skep_train_job job = {.training = &training,
                                 .learning_rate = 1e-2,
                                 .shards = learner.shards,
                                 .moments = learner.moments,
                                 .shard_count = SHARDS,
                                 .chunks = chunks,
                                 .chunk_count = 2,
                                 .ticket = &TICKET};
    struct skep_train_position position = {0};
    assert_int_equal(skep_train_run(learner.model, &job, &position, NULL), SKEP_OK);
    assert_int_equal(position.tokens, 150 * 32);
    assert_true(position.loss_last < 0.5 * position.loss_first);
    struct skep_eval eval = {0};
    assert_int_equal(
        skep_eval_text(learner.model, records + RECORDS * RECORD, RECORDS * RECORD, &eval, NULL),
        SKEP_OK);
    assert_int_equal(eval.tokens, RECORDS);
    /* guessing is right once in four; unseen records */
    assert_true(eval.accuracy > 0.8 && eval.nats < 0.7);
    learner_done(&learner);
    free(records);
}

static void it_learns_with_experts_of_both_kinds(void **state)
{
    (void)state;
    check_learning(SKEP_EXPERT_FFN);
    check_learning(SKEP_EXPERT_PAPER_FFN);
}

static void its_trunk_has_no_attention_and_a_head_of_its_own(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_classifier(SKEP_EXPERT_PAPER_FFN, 3);
    static const char *const NAMES[] = {"embed.weight",        "embed.bias",
                                        "layer.0.norm.gain",   "layer.0.norm.bias",
                                        "layer.0.gate.row",    "layer.0.gate.column",
                                        "layer.0.balance.row", "layer.0.balance.column",
                                        "layer.1.norm.gain",   "layer.1.norm.bias",
                                        "layer.1.gate.row",    "layer.1.gate.column",
                                        "layer.1.balance.row", "layer.1.balance.column",
                                        "final.norm.gain",     "final.norm.bias",
                                        "head.weight",         "head.bias"};
    struct skep_layout layout;
    skep_layout_of(&config, &FIXTURE_TRUNK, &layout);
    assert_int_equal(layout.tensor_count, 18);
    for (size_t i = 0; i < 18; i++) {
        assert_string_equal(layout.tensors[i].name, NAMES[i]);
    }
    assert_int_equal(layout.tensors[0].dims[0], 8);
    assert_int_equal(layout.tensors[0].dims[1], INPUTS);
    assert_int_equal(layout.tensors[16].dims[0], CLASSES);
    assert_int_equal(skep_layout_flops_per_token(&layout, &config), 6 * layout.parameters);
    skep_layout_done(&layout);
}

static void the_papers_expert_has_three_matrices_and_two_norms(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_classifier(SKEP_EXPERT_PAPER_FFN, 3);
    static const char *const NAMES[] = {"first.weight",  "first.bias",  "norm1.gain", "norm1.bias",
                                        "second.weight", "second.bias", "norm2.gain", "norm2.bias",
                                        "third.weight",  "third.bias"};
    struct skep_layout layout;
    struct skep_shard shard = fixture_expert(1, 2, 0);
    skep_layout_of(&config, &shard, &layout);
    assert_int_equal(layout.tensor_count, 10);
    for (size_t i = 0; i < 10; i++) {
        assert_string_equal(layout.tensors[i].name, NAMES[i]);
    }
    assert_int_equal(layout.parameters, skep_expert_parameters(skep_expert_shape_of(&config)));
    float *values = skep_alloc(layout.parameters, sizeof *values);
    skep_layout_seed(&layout, &config, &SEED, values);
    assert_true(values[layout.tensors[2].offset] == 1.0f);
    assert_true(values[layout.tensors[6].offset] == 1.0f);
    assert_true(values[layout.tensors[9].offset] == 0.0f);
    /* uniform with variance 1/12, by 1/sqrt(2 layers): at most sqrt(3/12)/2 */
    for (size_t i = 0; i < layout.tensors[8].count; i++) {
        assert_true(fabsf(values[layout.tensors[8].offset + i]) <= 0.25f);
    }
    free(values);
    skep_layout_done(&layout);
}

static void a_batch_is_whole_records(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_classifier(SKEP_EXPERT_FFN, 3);
    uint8_t records[7 * RECORD];
    for (size_t i = 0; i < sizeof records; i++) {
        records[i] = i % RECORD == INPUTS ? 1 : (uint8_t)(i / RECORD);
    }
    struct skep_slice_chunk chunks[] = {{records, 3 * RECORD}, {records + 3 * RECORD, 4 * RECORD}};
    uint8_t batch[64 * RECORD];
    bool seen[7] = {false};
    assert_int_equal(skep_slice_batch(&config, chunks, 2, &TICKET, 0, 64, batch, NULL), SKEP_OK);
    for (size_t n = 0; n < 64; n++) {
        assert_memory_equal(batch + n * RECORD, records + batch[n * RECORD] * RECORD, RECORD);
        seen[batch[n * RECORD]] = true;
    }
    for (size_t i = 0; i < 7; i++) {
        assert_true(seen[i]);
    }
}

static void records_that_are_cut_or_of_no_class_are_refused(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_classifier(SKEP_EXPERT_FFN, 3);
    uint8_t records[2 * RECORD] = {0};
    uint8_t batch[8 * RECORD];
    struct skep_error err = {0};
    struct skep_slice_chunk chunk = {records, sizeof records - 1};
    assert_int_equal(skep_slice_batch(&config, &chunk, 1, &TICKET, 0, 8, batch, &err),
                     SKEP_ERR_FORMAT);
    assert_non_null(strstr(err.text, "11 bytes, expected whole records of 6"));
    chunk.size = 0;
    assert_int_equal(skep_slice_batch(&config, &chunk, 1, &TICKET, 0, 8, batch, &err),
                     SKEP_ERR_FORMAT);
    chunk.size = sizeof records;
    records[INPUTS] = records[RECORD + INPUTS] = CLASSES;
    assert_int_equal(skep_slice_batch(&config, &chunk, 1, &TICKET, 0, 8, batch, &err),
                     SKEP_ERR_FORMAT);
    assert_non_null(strstr(err.text, "class 4, expected one below 4"));
    struct skep_model *model = fixture_lm(&config, 2, 1);
    struct skep_model_loss loss;
    struct skep_eval eval;
    assert_int_equal(skep_model_forward(model, records, 2, &loss, &err), SKEP_ERR_FORMAT);
    assert_int_equal(skep_model_backward(model, 0, &err), SKEP_ERR_STATE);
    assert_int_equal(skep_eval_text(model, records, sizeof records - 1, &eval, &err),
                     SKEP_ERR_FORMAT);
    assert_int_equal(skep_eval_text(model, records, RECORD - 1, &eval, &err), SKEP_ERR_ARGUMENT);
    skep_model_free(model);
}

static void its_answer_has_the_largest_logit_and_correct_counts_them(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_classifier(SKEP_EXPERT_PAPER_FFN, 3);
    struct skep_model *model = fixture_lm(&config, 4, 3);
    uint8_t records[4 * RECORD];
    fixture_tokens(&config, 4, records, sizeof records);
    for (size_t n = 0; n < 4; n++) {
        float logits[CLASSES];
        assert_int_equal(skep_model_next(model, records + n * RECORD, INPUTS, logits, NULL),
                         SKEP_OK);
        uint8_t best = 0;
        for (uint8_t i = 1; i < CLASSES; i++) {
            best = logits[i] > logits[best] ? i : best;
        }
        records[n * RECORD + INPUTS] = best;
    }
    struct skep_model_loss loss = {0};
    assert_int_equal(skep_model_forward(model, records, 4, &loss, NULL), SKEP_OK);
    assert_int_equal(loss.tokens, 4);
    assert_int_equal(loss.correct, 4);
    for (size_t n = 0; n < 4; n++) {
        records[n * RECORD + INPUTS] = (uint8_t)((records[n * RECORD + INPUTS] + 1) % CLASSES);
    }
    assert_int_equal(skep_model_forward(model, records, 4, &loss, NULL), SKEP_OK);
    assert_int_equal(loss.correct, 0);
    skep_model_free(model);
}

static void it_writes_no_text_and_wants_all_its_inputs(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_classifier(SKEP_EXPERT_FFN, 3);
    struct skep_model *model = fixture_lm(&config, 1, 3);
    uint8_t inputs[INPUTS] = {0};
    float logits[CLASSES];
    struct skep_error err = {0};
    assert_int_equal(skep_model_next(model, inputs, INPUTS - 1, logits, &err), SKEP_ERR_ARGUMENT);
    assert_int_equal(skep_generate(model, inputs, 1, 1, 1, 1, 1, NULL, NULL, &err),
                     SKEP_ERR_ARGUMENT);
    assert_non_null(strstr(err.text, "classifier"));
    skep_model_free(model);
}

static void rows_are_scored_by_the_mean_over_records(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_classifier(SKEP_EXPERT_FFN, 3);
    struct skep_model *model = fixture_lm(&config, 8, 5);
    uint8_t records[8 * RECORD];
    float scores[2 * 3];
    fixture_tokens(&config, 4, records, sizeof records);
    assert_int_equal(skep_model_score_rows(model, records, 8, scores, NULL), SKEP_OK);
    struct skep_model_loss loss;
    assert_int_equal(skep_model_forward(model, records, 8, &loss, NULL), SKEP_OK);
    for (size_t r = 0; r < 3; r++) {
        float expected = model->trunk.layers[0].balance_row[r];
        for (size_t n = 0; n < 8; n++) {
            expected += model->kept[0].row_scores[n * 3 + r] / 8;
        }
        assert_true(fabsf(scores[r] - expected) < 1e-5f);
    }
    skep_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_learns_with_experts_of_both_kinds),
        cmocka_unit_test(its_trunk_has_no_attention_and_a_head_of_its_own),
        cmocka_unit_test(the_papers_expert_has_three_matrices_and_two_norms),
        cmocka_unit_test(a_batch_is_whole_records),
        cmocka_unit_test(records_that_are_cut_or_of_no_class_are_refused),
        cmocka_unit_test(its_answer_has_the_largest_logit_and_correct_counts_them),
        cmocka_unit_test(it_writes_no_text_and_wants_all_its_inputs),
        cmocka_unit_test(rows_are_scored_by_the_mean_over_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
