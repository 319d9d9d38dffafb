/* The loss gate: what is taken, halved or skipped, and what history, floors and hostile numbers do to it. */
#include "common/merge/loss-gate.h"

#include <stdint.h>

#include "common/base/rng.h"
#include "tests/lib/cmocka.h"

#define LOSS 2000000 /* 2 nats */

/* Losses that fall by 5000 micro-nats a round, give or take 2000. */
static struct skep_loss_gate_history trained(uint64_t seed, size_t rounds)
{
    struct skep_loss_gate_history history = {0};
    struct skep_rng rng = skep_rng_of(seed);
    for (size_t i = 0; i < rounds; i++) {
        int64_t change = -7000 + (int64_t)skep_rng_below(&rng, 4001);
        skep_loss_gate_push(&history, LOSS, LOSS + change);
    }
    return history;
}

static enum skep_loss_gate_decision decide(const struct skep_loss_gate_history *history,
                                           int64_t full, int64_t half, int64_t quarter,
                                           size_t tried)
{
    const int64_t losses[3] = {LOSS + full, LOSS + half, LOSS + quarter};
    return skep_loss_gate_decide(history, LOSS, losses, tried);
}

static void a_step_that_lowers_the_loss_is_taken_in_full(void **state)
{
    (void)state;
    struct skep_loss_gate_history history = trained(1, 32);
    assert_int_equal(decide(&history, -5000, 0, 0, 1), SKEP_LOSS_GATE_FULL);
    assert_int_equal(decide(&history, -1, 0, 0, 1), SKEP_LOSS_GATE_FULL);
    assert_int_equal(decide(&history, -1000000, 0, 0, 1), SKEP_LOSS_GATE_FULL);
}

static void a_harmful_step_is_halved_then_quartered_then_skipped(void **state)
{
    (void)state;
    struct skep_loss_gate_history history = trained(2, 32);
    int64_t limit = skep_loss_gate_limit(&history, LOSS);
    assert_int_equal(decide(&history, 0, 0, 0, 0), SKEP_LOSS_GATE_MEASURE);
    assert_int_equal(decide(&history, limit + 1, 0, 0, 1), SKEP_LOSS_GATE_MEASURE);
    assert_int_equal(decide(&history, limit, 0, 0, 1), SKEP_LOSS_GATE_FULL);
    assert_int_equal(decide(&history, limit + 1, limit, 0, 2), SKEP_LOSS_GATE_HALF);
    assert_int_equal(decide(&history, limit + 1, limit + 1, 0, 2), SKEP_LOSS_GATE_MEASURE);
    assert_int_equal(decide(&history, limit + 1, limit + 1, limit, 3), SKEP_LOSS_GATE_QUARTER);
    assert_int_equal(decide(&history, limit + 1, limit + 1, limit + 1, 3), SKEP_LOSS_GATE_SKIP);
}

static void the_limit_is_three_sigma_of_recent_changes(void **state)
{
    (void)state;
    struct skep_loss_gate_history history = {0};
    for (int64_t i = 1; i <= 9; i++) {
        skep_loss_gate_push(&history, LOSS, LOSS - 10000 * i); /* median -50000, deviation 20000 */
    }
    assert_int_equal(skep_loss_gate_limit(&history, LOSS), 3 * (20000 * 14826 / 10000));
}

static void of_an_even_number_the_lower_median_counts(void **state)
{
    (void)state;
    struct skep_loss_gate_history history = {0};
    for (size_t i = 0; i < 8; i++) {
        skep_loss_gate_push(&history, LOSS, LOSS + (i < 4 ? 0 : 100000));
    }
    assert_int_equal(skep_loss_gate_limit(&history, LOSS), 3000);
}

static void noise_at_rest_does_not_trip_the_gate(void **state)
{
    (void)state;
    struct skep_loss_gate_history history = {0};
    for (size_t i = 0; i < 32; i++) {
        skep_loss_gate_push(&history, LOSS, LOSS); /* sigma is 0 */
    }
    assert_int_equal(skep_loss_gate_limit(&history, LOSS), 3000);
    assert_int_equal(skep_loss_gate_limit(&history, 5 * LOSS), 15000); /* 1/2000 of the loss */
    assert_int_equal(decide(&history, 3000, 0, 0, 1), SKEP_LOSS_GATE_FULL);
    assert_int_equal(decide(&history, 3001, 0, 0, 1), SKEP_LOSS_GATE_MEASURE);
}

static void without_history_only_a_gross_rise_trips_the_gate(void **state)
{
    (void)state;
    struct skep_loss_gate_history history = trained(3, SKEP_LOSS_GATE_LEAST_HISTORY - 1);
    assert_int_equal(decide(&history, 350000, 0, 0, 1), SKEP_LOSS_GATE_FULL);
    assert_int_equal(decide(&history, 350001, 0, 0, 1), SKEP_LOSS_GATE_MEASURE);
    skep_loss_gate_push(&history, LOSS, LOSS);
    assert_int_equal(decide(&history, 350000, 0, 0, 1), SKEP_LOSS_GATE_MEASURE);
}

/* Less than half of the rounds are the liars': their swings leave sigma within what honest rounds alone show. */
static void liars_in_a_minority_of_rounds_do_not_open_the_gate(void **state)
{
    (void)state;
    struct skep_loss_gate_history honest = trained(4, 32);
    struct skep_loss_gate_history history = trained(4, 32);
    for (size_t i = 0; i < 10; i++) {
        skep_loss_gate_push(&history, LOSS, LOSS + (i % 2 == 0 ? 500000 : -500000));
    }
    assert_true(skep_loss_gate_limit(&history, LOSS) < 3 * skep_loss_gate_limit(&honest, LOSS));
    for (size_t i = 0; i < 10; i++) {
        skep_loss_gate_push(&history, LOSS, LOSS + (i % 2 == 0 ? 500000 : -500000));
    }
    assert_true(skep_loss_gate_limit(&history, LOSS) >
                1000000); /* in a majority they do, as the header says */
}

static void a_rise_that_repeats_does_not_become_usual(void **state)
{
    (void)state;
    struct skep_loss_gate_history history = {0};
    for (size_t i = 0; i < 32; i++) {
        skep_loss_gate_push(&history, LOSS,
                            LOSS + 2900); /* just under the floor's limit, each round */
    }
    assert_int_equal(decide(&history, 5000, 0, 0, 1), SKEP_LOSS_GATE_MEASURE);
}

static void the_oldest_round_is_forgotten(void **state)
{
    (void)state;
    struct skep_loss_gate_history history = {0};
    for (size_t i = 0; i < 1000; i++) {
        skep_loss_gate_push(&history, LOSS, LOSS + 100000 * (int64_t)(i % 7));
    }
    assert_true(skep_loss_gate_limit(&history, LOSS) > 100000);
    for (size_t i = 0; i < SKEP_LOSS_GATE_HISTORY; i++) {
        assert_int_equal(history.count, SKEP_LOSS_GATE_HISTORY);
        skep_loss_gate_push(&history, LOSS, LOSS);
    }
    assert_int_equal(skep_loss_gate_limit(&history, LOSS), 3000);
}

static void a_loss_that_is_not_finite_is_harm(void **state)
{
    (void)state;
    struct skep_loss_gate_history history = trained(5, 32);
    const int64_t losses[3] = {SKEP_LOSS_GATE_NOT_FINITE, SKEP_LOSS_GATE_NOT_FINITE, LOSS};
    assert_int_equal(skep_loss_gate_decide(&history, LOSS, losses, 1), SKEP_LOSS_GATE_MEASURE);
    assert_int_equal(skep_loss_gate_decide(&history, LOSS, losses, 3), SKEP_LOSS_GATE_QUARTER);
    /* From a broken state any finite one is better. */
    assert_int_equal(skep_loss_gate_decide(&history, SKEP_LOSS_GATE_NOT_FINITE, losses, 3),
                     SKEP_LOSS_GATE_QUARTER);
    assert_int_equal(skep_loss_gate_decide(&history, SKEP_LOSS_GATE_NOT_FINITE, losses, 1),
                     SKEP_LOSS_GATE_MEASURE);
    skep_loss_gate_push(&history, LOSS, SKEP_LOSS_GATE_NOT_FINITE);
    assert_int_equal(history.next, 0); /* left out */
}

static void extreme_losses_do_not_overflow(void **state)
{
    (void)state;
    static const int64_t extremes[] = {INT64_MIN, INT64_MIN + 1, -1,       0,
                                       1,         INT64_MAX - 1, INT64_MAX};
    struct skep_loss_gate_history history = {0};
    for (size_t i = 0; i < 7; i++) {
        for (size_t j = 0; j < 7; j++) {
            skep_loss_gate_push(&history, extremes[i], extremes[j]);
            assert_true(skep_loss_gate_limit(&history, extremes[i]) > 0);
            (void)skep_loss_gate_decide(&history, extremes[i], &extremes[j], 1);
            assert_int_equal(skep_loss_gate_within(extremes[i], extremes[j]),
                             skep_loss_gate_within(extremes[j], extremes[i]));
        }
    }
    assert_false(skep_loss_gate_within(INT64_MIN, INT64_MAX - 1));
}

static void stated_losses_are_held_against_our_own(void **state)
{
    (void)state;
    assert_true(skep_loss_gate_within(2000000, 2000000));
    assert_true(skep_loss_gate_within(2000000, 2002000));
    assert_true(skep_loss_gate_within(2002000, 2000000));
    assert_false(skep_loss_gate_within(2000000, 2002003));
    assert_true(skep_loss_gate_within(0, 100));
    assert_false(skep_loss_gate_within(0, 101));
    assert_true(skep_loss_gate_within(SKEP_LOSS_GATE_NOT_FINITE, SKEP_LOSS_GATE_NOT_FINITE));
    assert_false(skep_loss_gate_within(SKEP_LOSS_GATE_NOT_FINITE, SKEP_LOSS_GATE_NOT_FINITE - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_that_lowers_the_loss_is_taken_in_full),
        cmocka_unit_test(a_harmful_step_is_halved_then_quartered_then_skipped),
        cmocka_unit_test(the_limit_is_three_sigma_of_recent_changes),
        cmocka_unit_test(of_an_even_number_the_lower_median_counts),
        cmocka_unit_test(noise_at_rest_does_not_trip_the_gate),
        cmocka_unit_test(without_history_only_a_gross_rise_trips_the_gate),
        cmocka_unit_test(liars_in_a_minority_of_rounds_do_not_open_the_gate),
        cmocka_unit_test(a_rise_that_repeats_does_not_become_usual),
        cmocka_unit_test(the_oldest_round_is_forgotten),
        cmocka_unit_test(a_loss_that_is_not_finite_is_harm),
        cmocka_unit_test(extreme_losses_do_not_overflow),
        cmocka_unit_test(stated_losses_are_held_against_our_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
