/* Which rows a donor fetches. */
#include <string.h>

#include "client/agent/rows.h"
#include "tests/lib/cmocka.h"

static void each_window_counts_for_the_rows_it_would_use(void **state)
{
    (void)state;
    const float scores[2 * 4] = {0.1f, 0.9f, 0.5f, 0.2f, 3, 1, 2, 0};
    uint64_t counts[2 * 4] = {0};
    skep_rows_count(scores, 2, 4, 2, counts);
    const uint64_t expected[2 * 4] = {0, 1, 1, 0, 1, 0, 1, 0};
    assert_memory_equal(counts, expected, sizeof expected);
}

static void equal_scores_go_to_the_lower_row(void **state)
{
    (void)state;
    const float scores[3] = {1, 1, 1};
    uint64_t counts[3] = {0};
    skep_rows_count(scores, 1, 3, 1, counts);
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1] + counts[2], 0);
}

static void the_rows_with_the_most_windows_are_taken(void **state)
{
    (void)state;
    const uint64_t counts[5] = {3, 9, 3, 0, 8};
    bool chosen[5];
    skep_rows_best(counts, 5, 3, chosen);
    assert_true(chosen[1] && chosen[4] && chosen[0]);
    assert_false(chosen[2] || chosen[3]);
}

static void more_rows_than_there_are_means_all(void **state)
{
    (void)state;
    const uint64_t counts[2] = {0, 0};
    bool chosen[2];
    skep_rows_best(counts, 2, 7, chosen);
    assert_true(chosen[0] && chosen[1]);
}

static void rows_drawn_from_a_ticket_are_the_same_each_time_and_all_occur(void **state)
{
    (void)state;
    unsigned seen[6] = {0};
    for (unsigned i = 0; i < 200; i++) {
        struct skep_hash ticket = {{(uint8_t)i, 7}};
        bool chosen[6];
        bool again[6];
        skep_rows_draw(&ticket, 1, 6, 2, chosen);
        skep_rows_draw(&ticket, 1, 6, 2, again);
        assert_memory_equal(chosen, again, sizeof chosen);
        unsigned count = 0;
        for (unsigned row = 0; row < 6; row++) {
            count += chosen[row];
            seen[row] += chosen[row];
        }
        assert_int_equal(count, 2);
    }
    for (unsigned row = 0; row < 6; row++) {
        assert_in_range(seen[row], 30, 110); /* 66.7 expected, standard deviation 6.7 */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_window_counts_for_the_rows_it_would_use),
        cmocka_unit_test(equal_scores_go_to_the_lower_row),
        cmocka_unit_test(the_rows_with_the_most_windows_are_taken),
        cmocka_unit_test(more_rows_than_there_are_means_all),
        cmocka_unit_test(rows_drawn_from_a_ticket_are_the_same_each_time_and_all_occur),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
