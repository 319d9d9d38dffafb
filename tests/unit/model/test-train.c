/* Steps, slices, jobs, evaluation and drawn text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/model/model-state.h"
#include "common/model/train.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/model/model-fixture.h"

#define T 9
#define PREFIX 3
#define BATCH 4
#define SHARDS 19

static const struct skep_hash TICKET = {{42}};

static struct skep_training_config training_config(void)
{
    return (struct skep_training_config){.steps = 40,
                                         .batch = BATCH,
                                         .warmup_rounds = 4,
                                         .learning_rate = 1e-2,
                                         .beta1 = 0.9,
                                         .beta2 = 0.95,
                                         .epsilon = 1e-8,
                                         .weight_decay = 0.1,
                                         .clip = 1,
                                         .z_loss = 0.001,
                                         .balance_step = 0.001};
}

struct trainee {
    struct skep_model_config config;
    struct skep_training_config training;
    struct skep_model *lm;
    struct skep_shard shards[SHARDS];
    struct skep_moments moments[SHARDS];
    uint8_t text[400];
    struct skep_slice_chunk chunk;
};

static int setup(void **state)
{
    struct trainee *trainee = skep_alloc(1, sizeof *trainee);
    trainee->config = fixture_config(SKEP_ROUTE_DOCUMENT, 2);
    trainee->training = training_config();
    trainee->lm = fixture_lm(&trainee->config, BATCH, 31);
    trainee->shards[0] = FIXTURE_TRUNK;
    for (uint32_t e = 0; e < SHARDS - 1; e++) {
        trainee->shards[e + 1] = fixture_expert(e / 9, e / 3 % 3, e % 3);
    }
    for (size_t i = 0; i < SHARDS; i++) {
        struct skep_layout layout;
        skep_layout_of(&trainee->config, &trainee->shards[i], &layout);
        assert_int_equal(skep_moments_init(&trainee->moments[i], NULL, layout.parameters, NULL),
                         SKEP_OK);
        skep_layout_done(&layout);
    }
    for (size_t i = 0; i < sizeof trainee->text; i++) {
        trainee->text[i] = (uint8_t)(i * i % 11);
    }
    trainee->chunk = (struct skep_slice_chunk){trainee->text, sizeof trainee->text};
    *state = trainee;
    return 0;
}

static int teardown(void **state)
{
    struct trainee *trainee = *state;
    for (size_t i = 0; i < SHARDS; i++) {
        skep_moments_done(&trainee->moments[i]);
    }
    skep_model_free(trainee->lm);
    free(trainee);
    return 0;
}

static struct skep_train_job job_of(struct trainee *trainee)
{
    return (struct skep_train_job){.training = &trainee->training,
                                   .learning_rate = 1e-2,
                                   .shards = trainee->shards,
                                   .moments = trainee->moments,
                                   .shard_count = SHARDS,
                                   .chunks = &trainee->chunk,
                                   .chunk_count = 1,
                                   .ticket = &TICKET};
}

static int run_job(struct trainee *trainee, skep_train_poll poll, void *user,
                   struct skep_train_position *position, struct skep_error *err)
{
    struct skep_train_job job = job_of(trainee);
    job.poll = poll;
    job.user = user;
    return skep_train_run(trainee->lm, &job, position, err);
}

static void a_job_lowers_the_loss(void **state)
{
    struct trainee *trainee = *state;
    struct skep_train_position result = {0};
    assert_int_equal(run_job(trainee, NULL, NULL, &result, NULL), SKEP_OK);
    assert_int_equal(result.tokens, 40 * BATCH * (T - PREFIX));
    assert_true(result.loss_last < 0.8 * result.loss_first);
}

static void the_same_ticket_gives_the_same_result(void **state)
{
    struct trainee *trainee = *state;
    struct skep_train_position result = {0};
    struct skep_train_position again = {0};
    trainee->training.steps = 5;
    assert_int_equal(run_job(trainee, NULL, NULL, &result, NULL), SKEP_OK);
    void *other = NULL;
    setup(&other);
    ((struct trainee *)other)->training.steps = 5;
    assert_int_equal(run_job(other, NULL, NULL, &again, NULL), SKEP_OK);
    assert_true(result.loss_first == again.loss_first && result.loss_last == again.loss_last);
    teardown(&other);
}

static bool stop_at_three(void *user, uint32_t step, double loss_nats, uint64_t tokens)
{
    uint32_t *polls = user;
    (*polls)++;
    assert_true(loss_nats > 0);
    assert_int_equal(tokens, BATCH * (T - PREFIX));
    return step == 3;
}

static void a_job_stops_when_asked(void **state)
{
    struct trainee *trainee = *state;
    struct skep_train_position result = {0};
    struct skep_error err = {0};
    uint32_t polls = 0;
    assert_int_equal(run_job(trainee, stop_at_three, &polls, &result, &err), SKEP_ERR_CANCELLED);
    assert_int_equal(polls, 4);
    assert_non_null(strstr(err.text, "4 of 40"));
}

static void a_job_for_larger_batches_than_the_model_is_refused(void **state)
{
    struct trainee *trainee = *state;
    struct skep_train_position result = {0};
    struct skep_error err = {0};
    trainee->training.batch = BATCH + 1;
    assert_int_equal(run_job(trainee, NULL, NULL, &result, &err), SKEP_ERR_ARGUMENT);
}

/* Forward, backward and one step. */
static void one_step(struct trainee *trainee, double rate)
{
    uint8_t tokens[BATCH * T];
    struct skep_model_loss loss;
    assert_int_equal(
        skep_slice_batch(&trainee->config, &trainee->chunk, 1, &TICKET, 0, BATCH, tokens, NULL),
        SKEP_OK);
    assert_int_equal(skep_model_forward(trainee->lm, tokens, BATCH, &loss, NULL), SKEP_OK);
    assert_int_equal(skep_model_backward(trainee->lm, 0.001, NULL), SKEP_OK);
    skep_train_step(trainee->lm, &trainee->training, rate, trainee->shards, trainee->moments,
                    SHARDS);
}

static void balancing_biases_move_against_the_load_and_by_nothing_else(void **state)
{
    struct trainee *trainee = *state;
    struct skep_model_layer *layer = &trainee->lm->trunk.layers[0];
    float before[3];
    memcpy(before, layer->balance_column, sizeof before);
    trainee->training.weight_decay = 10;
    one_step(trainee, 1e-2);
    uint64_t rows[3];
    uint64_t loads[3];
    skep_model_loads(trainee->lm, 0, rows, loads);
    double mean = (double)(loads[0] + loads[1] + loads[2]) / 3;
    bool moved = false;
    for (size_t i = 0; i < 3; i++) {
        double sign = (mean > (double)loads[i]) - (mean < (double)loads[i]);
        double by = (double)(layer->balance_column[i] - before[i]);
        assert_true(fabs(by - 0.001 * sign) < 1e-6);
        moved |= by != 0;
    }
    assert_true(moved);
}

static void a_row_without_experts_keeps_its_bias(void **state)
{
    struct trainee *trainee = *state;
    for (uint32_t c = 0; c < 3; c++) {
        struct skep_shard shard = fixture_expert(0, 1, c);
        skep_model_drop(trainee->lm, &shard);
    }
    float before = trainee->lm->trunk.layers[0].balance_row[1];
    uint8_t tokens[BATCH * T];
    struct skep_model_loss loss;
    skep_slice_batch(&trainee->config, &trainee->chunk, 1, &TICKET, 0, BATCH, tokens, NULL);
    assert_int_equal(skep_model_forward(trainee->lm, tokens, BATCH, &loss, NULL), SKEP_OK);
    assert_int_equal(skep_model_backward(trainee->lm, 0, NULL), SKEP_OK);
    skep_train_step(trainee->lm, &trainee->training, 1e-2, trainee->shards, trainee->moments, 1);
    assert_true(trainee->lm->trunk.layers[0].balance_row[1] == before);
}

static void a_step_without_the_trunk_leaves_it_alone(void **state)
{
    struct trainee *trainee = *state;
    size_t size = trainee->lm->trunk_parameters * sizeof(float);
    float *before = skep_alloc(1, size);
    memcpy(before, trainee->lm->trunk.values, size);
    uint8_t tokens[BATCH * T];
    struct skep_model_loss loss;
    skep_slice_batch(&trainee->config, &trainee->chunk, 1, &TICKET, 0, BATCH, tokens, NULL);
    assert_int_equal(skep_model_forward(trainee->lm, tokens, BATCH, &loss, NULL), SKEP_OK);
    assert_int_equal(skep_model_backward(trainee->lm, 0, NULL), SKEP_OK);
    skep_train_step(trainee->lm, &trainee->training, 1e-2, trainee->shards + 1,
                    trainee->moments + 1, SHARDS - 1);
    assert_memory_equal(before, trainee->lm->trunk.values, size);
    free(before);
}

static void large_gradients_are_clipped_to_the_norm(void **state)
{
    struct trainee *trainee = *state;
    trainee->training.clip = 1e-3;
    one_step(trainee, 1e-2);
    double squares = 0;
    for (size_t i = 0; i < SHARDS; i++) {
        for (size_t j = 0; j < trainee->moments[i].parameters; j++) {
            /* After one step the first moment is (1 - beta1) times the clipped gradient. */
            squares += pow((double)trainee->moments[i].first[j] / 0.1, 2);
        }
    }
    assert_true(fabs(sqrt(squares) - 1e-3) < 1e-6);
}

static void gradients_put_in_are_clipped_by_their_own_norm(void **state)
{
    struct trainee *trainee = *state;
    size_t count = trainee->moments[0].parameters;
    float *threes = skep_alloc(count, sizeof *threes); /* zeros until then */
    one_step(trainee, 1e-3);                           /* of which another norm is left */
    for (size_t i = 1; i < SHARDS; i++) {
        assert_true(trainee->moments[i].parameters <= count);
        skep_model_set_gradients(trainee->lm, &trainee->shards[i], threes);
    }
    for (size_t i = 0; i < count; i++) {
        threes[i] = 3;
    }
    skep_model_set_gradients(trainee->lm, &trainee->shards[0], threes);
    memset(trainee->moments[0].first, 0, count * sizeof(float));
    skep_train_step(trainee->lm, &trainee->training, 1e-3, trainee->shards, trainee->moments, 1);
    double expected = (1 - trainee->training.beta1) / sqrt((double)count);
    assert_true(fabs((double)trainee->moments[0].first[0] / expected - 1) < 1e-5);
    free(threes);
}

static void the_rate_warms_up_over_rounds(void **state)
{
    struct trainee *trainee = *state;
    assert_true(fabs(skep_train_rate(&trainee->training, 0) - 0.002) < 1e-12);
    assert_true(fabs(skep_train_rate(&trainee->training, 3) - 0.008) < 1e-12);
    assert_true(skep_train_rate(&trainee->training, 4) == 0.01);
    assert_true(skep_train_rate(&trainee->training, 1000) == 0.01);
}

static void windows_come_from_one_chunk_each_and_from_all_places(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 1);
    uint8_t first[12];
    uint8_t second[10];
    memset(first, 1, sizeof first);
    memset(second, 2, sizeof second);
    first[0] = 3;
    struct skep_slice_chunk chunks[] = {{first, 12}, {second, 4}, {second, 10}};
    uint8_t tokens[8 * T];
    bool seen[4] = {false};
    for (uint32_t step = 0; step < 10; step++) {
        assert_int_equal(skep_slice_batch(&config, chunks, 3, &TICKET, step, 8, tokens, NULL),
                         SKEP_OK);
        for (size_t b = 0; b < 8; b++) {
            const uint8_t *window = tokens + b * T;
            seen[window[0]] = true;
            for (size_t i = 2; i < T; i++) {
                assert_int_equal(window[i], window[1]);
            }
        }
    }
    assert_true(seen[1] && seen[2] && seen[3]);
}

static void a_slice_without_room_for_a_window_is_refused(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 1);
    uint8_t bytes[T - 1] = {0};
    struct skep_slice_chunk chunk = {bytes, sizeof bytes};
    uint8_t tokens[T];
    struct skep_error err = {0};
    assert_int_equal(skep_slice_batch(&config, &chunk, 1, &TICKET, 0, 1, tokens, &err),
                     SKEP_ERR_FORMAT);
    assert_non_null(strstr(err.text, "9 bytes"));
}

/* Window by window, by hand. */
static double bits_by_hand(struct trainee *trainee, size_t size)
{
    double nats = 0;
    size_t counted = PREFIX;
    while (counted < size) {
        size_t start = counted - PREFIX + T <= size ? counted - PREFIX : size - T;
        struct skep_model_loss loss;
        assert_int_equal(skep_model_forward(trainee->lm, trainee->text + start, 1, &loss, NULL),
                         SKEP_OK);
        for (size_t i = counted - start; i < T; i++) {
            nats += (double)trainee->lm->nats[i - PREFIX];
        }
        counted = start + T;
    }
    return nats / log(2) / (double)(size - PREFIX);
}

static void evaluation_predicts_each_byte_once(void **state)
{
    struct trainee *trainee = *state;
    for (size_t size = T; size < 40; size++) {
        struct skep_eval eval = {0};
        assert_int_equal(skep_eval_text(trainee->lm, trainee->text, size, &eval, NULL), SKEP_OK);
        assert_int_equal(eval.tokens, size - PREFIX);
        assert_true(fabs(eval.nats / log(2) - bits_by_hand(trainee, size)) < 1e-4);
    }
    struct skep_eval eval;
    assert_int_equal(skep_eval_text(trainee->lm, trainee->text, T - 1, &eval, NULL),
                     SKEP_ERR_ARGUMENT);
}

struct drawn {
    size_t size;
    uint8_t bytes[64];
};

static bool keep_byte(void *user, uint8_t byte)
{
    struct drawn *drawn = user;
    drawn->bytes[drawn->size++] = byte;
    return drawn->size < 40;
}

static void a_seed_draws_one_text_and_another_seed_another(void **state)
{
    struct trainee *trainee = *state;
    struct drawn one = {0};
    struct drawn same = {0};
    struct drawn other = {0};
    const uint8_t prompt[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1};
    assert_int_equal(skep_generate(trainee->lm, prompt, 12, 50, 1, 1, 5, keep_byte, &one, NULL), 0);
    assert_int_equal(skep_generate(trainee->lm, prompt, 12, 50, 1, 1, 5, keep_byte, &same, NULL),
                     0);
    assert_int_equal(skep_generate(trainee->lm, prompt, 12, 50, 1, 1, 6, keep_byte, &other, NULL),
                     0);
    assert_int_equal(one.size, 40);
    assert_memory_equal(&one, &same, sizeof one);
    assert_memory_not_equal(&one, &other, sizeof one);
}

static void a_tiny_top_p_draws_the_most_probable_byte(void **state)
{
    struct trainee *trainee = *state;
    struct drawn drawn = {.size = 39};
    const uint8_t prompt[2] = {1, 2};
    float logits[11];
    assert_int_equal(skep_model_next(trainee->lm, prompt, 2, logits, NULL), SKEP_OK);
    assert_int_equal(skep_generate(trainee->lm, prompt, 2, 1, 1, 1e-9, 5, keep_byte, &drawn, NULL),
                     SKEP_OK);
    for (size_t i = 0; i < 11; i++) {
        assert_true(logits[drawn.bytes[39]] >= logits[i]);
    }
}

static void nonsense_asked_of_generate_is_refused(void **state)
{
    struct trainee *trainee = *state;
    struct drawn drawn = {0};
    const uint8_t prompt[1] = {1};
    struct skep_model *lm = trainee->lm;
    assert_int_equal(skep_generate(lm, prompt, 0, 1, 1, 1, 5, keep_byte, &drawn, NULL),
                     SKEP_ERR_ARGUMENT);
    assert_int_equal(skep_generate(lm, prompt, 1, 1, 0, 1, 5, keep_byte, &drawn, NULL),
                     SKEP_ERR_ARGUMENT);
    assert_int_equal(skep_generate(lm, prompt, 1, 1, 1, NAN, 5, keep_byte, &drawn, NULL),
                     SKEP_ERR_ARGUMENT);
    assert_int_equal(drawn.size, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_job_lowers_the_loss),
        CASE(the_same_ticket_gives_the_same_result),
        CASE(a_job_stops_when_asked),
        CASE(a_job_for_larger_batches_than_the_model_is_refused),
        CASE(balancing_biases_move_against_the_load_and_by_nothing_else),
        CASE(a_row_without_experts_keeps_its_bias),
        CASE(a_step_without_the_trunk_leaves_it_alone),
        CASE(large_gradients_are_clipped_to_the_norm),
        CASE(gradients_put_in_are_clipped_by_their_own_norm),
        CASE(the_rate_warms_up_over_rounds),
        cmocka_unit_test(windows_come_from_one_chunk_each_and_from_all_places),
        cmocka_unit_test(a_slice_without_room_for_a_window_is_refused),
        CASE(evaluation_predicts_each_byte_once),
        CASE(a_seed_draws_one_text_and_another_seed_another),
        CASE(a_tiny_top_p_draws_the_most_probable_byte),
        CASE(nonsense_asked_of_generate_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
