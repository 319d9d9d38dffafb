#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/merge/gram.h"
#include "common/merge/standing.h"
#include "common/merge/weights.h"
#include "tests/lib/cmocka.h"

#define DONORS 16

static void push_times(struct skep_standing *standing, int32_t agreement, int times)
{
    for (int i = 0; i < times; i++) {
        skep_standing_push(standing, agreement);
    }
}

static void a_donor_never_seen_is_not_left_out(void **state)
{
    (void)state;
    struct skep_standing standings[DONORS] = {{0}};
    bool left_out[DONORS];
    skep_standing_judge(standings, DONORS, left_out);
    for (int i = 1; i < DONORS; i++) {
        push_times(&standings[i], 200, 9);
    }
    skep_standing_judge(standings, DONORS, left_out);
    assert_false(left_out[0]);
    push_times(&standings[0], -500, SKEP_STANDING_LEAST_SEEN - 1);
    skep_standing_judge(standings, DONORS, left_out);
    assert_false(left_out[0]);
    push_times(&standings[0], -500, 1);
    skep_standing_judge(standings, DONORS, left_out);
    assert_true(left_out[0]);
}

static void whoever_pulls_against_the_others_is_left_out_and_comes_back(void **state)
{
    (void)state;
    struct skep_standing standings[DONORS] = {{0}};
    bool left_out[DONORS];
    for (int i = 0; i < DONORS; i++) {
        push_times(&standings[i], i < 3 ? -100 : 150 + 10 * i, 20);
    }
    skep_standing_judge(standings, DONORS, left_out);
    for (int i = 0; i < DONORS; i++) {
        assert_int_equal(left_out[i], i < 3);
    }
    push_times(&standings[0], 250, 10);
    skep_standing_judge(standings, DONORS, left_out);
    assert_false(left_out[0]);
}

static void honest_donors_of_unlike_agreement_all_stay(void **state)
{
    (void)state;
    struct skep_standing standings[DONORS] = {{0}};
    bool left_out[DONORS];
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < DONORS; i++) { /* 60 .. 210 in the mean, with noise of 150 */
            skep_standing_push(&standings[i], 60 + 10 * i + (round * 7 + i * 5) % 11 * 30 - 150);
        }
    }
    skep_standing_judge(standings, DONORS, left_out);
    for (int i = 0; i < DONORS; i++) {
        assert_false(left_out[i]);
    }
}

static void nobody_is_left_out_where_few_have_a_past(void **state)
{
    (void)state;
    struct skep_standing standings[DONORS] = {{0}};
    bool left_out[DONORS];
    push_times(&standings[0], -900, 20);
    for (int i = 1; i < 7; i++) {
        push_times(&standings[i], 300, 20);
    }
    skep_standing_judge(standings, DONORS, left_out);
    assert_false(left_out[0]); /* 7 of 16 are known */
    push_times(&standings[7], 300, 20);
    skep_standing_judge(standings, DONORS, left_out);
    assert_true(left_out[0]);
}

static void nobody_is_left_out_where_the_median_is_not_above_0(void **state)
{
    (void)state;
    struct skep_standing standings[DONORS] = {{0}};
    bool left_out[DONORS];
    for (int i = 0; i < DONORS; i++) { /* the lower median is the 8th: -40 */
        push_times(&standings[i], i < 8 ? -900 : 200, 20);
    }
    push_times(&standings[7], -40, 200);
    skep_standing_judge(standings, DONORS, left_out);
    for (int i = 0; i < DONORS; i++) {
        assert_false(left_out[i]);
    }
    push_times(&standings[7], 200, 200); /* now it is 200, and the seven are far below it */
    skep_standing_judge(standings, DONORS, left_out);
    for (int i = 0; i < DONORS; i++) {
        assert_int_equal(left_out[i], i < 7);
    }
}

static void the_mean_forgets_in_about_ten_rounds(void **state)
{
    (void)state;
    struct skep_standing standing = {0};
    skep_standing_push(&standing, 1000);
    assert_int_equal(standing.mean, 1000 << 16);
    push_times(&standing, 0, 10);
    assert_in_range(standing.mean, 340 << 16, 355 << 16); /* 0.9^10 = 0.349 */
    push_times(&standing, -1000, 1000000);
    assert_int_equal(standing.seen, 1000);
}

/* x_0 = (3, 4), x_1 = (4, 3), x_2 = -x_0, x_3 = 0. */
static void fill_gram(struct skep_gram *gram, __int128 unit)
{
    const int x[4][2] = {{3, 4}, {4, 3}, {-3, -4}, {0, 0}};
    gram->n = 4;
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            gram->products[i * 4 + j] = unit * (x[i][0] * x[j][0] + x[i][1] * x[j][1]);
        }
    }
}

static void agreement_is_the_cosine_to_the_sum_of_the_other_merged(void **state)
{
    (void)state;
    struct skep_gram *gram = skep_alloc(1, sizeof *gram);
    int32_t agreement[4];
    const bool two[4] = {true, true, false, false};
    const __int128 units[] = {1, (__int128)1 << 60, (__int128)1 << 120};
    for (int u = 0; u < 3; u++) {
        fill_gram(gram, units[u]);
        skep_gram_agreement(gram, two, agreement);
        assert_int_equal(agreement[0], 960);      /* to x_1 alone: 24 / 25 */
        assert_int_equal(agreement[1], 960);      /* to x_0 alone */
        assert_in_range(-agreement[2], 989, 990); /* to (7, 7): -49 / (5 * 9.899) */
        assert_int_equal(agreement[3], 0);
    }
    const bool none[4] = {false, false, false, false};
    skep_gram_agreement(gram, none, agreement);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(agreement[i], 0);
    }
    free(gram);
}

static void updates_alone_agree_with_nobody(void **state)
{
    (void)state;
    struct skep_gram *gram = skep_alloc(1, sizeof *gram);
    const bool merged[1] = {true};
    int32_t agreement[1] = {7};
    gram->n = 1;
    gram->products[0] = 25;
    skep_gram_agreement(gram, merged, agreement);
    assert_int_equal(agreement[0], 0);
    free(gram);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_donor_never_seen_is_not_left_out),
        cmocka_unit_test(whoever_pulls_against_the_others_is_left_out_and_comes_back),
        cmocka_unit_test(honest_donors_of_unlike_agreement_all_stay),
        cmocka_unit_test(nobody_is_left_out_where_few_have_a_past),
        cmocka_unit_test(nobody_is_left_out_where_the_median_is_not_above_0),
        cmocka_unit_test(the_mean_forgets_in_about_ten_rounds),
        cmocka_unit_test(agreement_is_the_cosine_to_the_sum_of_the_other_merged),
        cmocka_unit_test(updates_alone_agree_with_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
