/* Seeded worlds of the round machine, each with other faults. `test-round SEED` replays one and tells what happens in it; `test-round FROM COUNT`
 * runs others. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/cmocka.h"
#include "tests/sim/sim-round.h"

#define SEEDS 300 /* some ten seconds; 3,900 more passed when this was written */

static struct sim_result sum;

static bool run_seeds(uint64_t from, uint64_t count)
{
    for (uint64_t seed = from; seed < from + count; seed++) {
        struct sim_result one = sim_round_run(seed, false);
        if (one.failed) {
            print_error("seed %llu: %s\n", (unsigned long long)seed, one.reason);
            return false;
        }
        sum.versions += one.versions;
        sum.calm += one.calm;
        sum.crashes += one.crashes;
        sum.messages += one.messages;
        sum.later += one.later;
        sum.twice += one.twice;
        sum.catch_ups += one.catch_ups;
        sum.left_out += one.left_out;
        sum.wronged += one.wronged;
        sum.verdicts += one.verdicts;
        sum.bans += one.bans;
        sum.bans_despite += one.bans_despite;
    }
    return true;
}

static void print_sum(FILE *to)
{
    fprintf(to,
            "# versions %llu, in the calm %llu, in a later attempt %llu, in two attempts %llu, "
            "crashes %llu, messages %llu, caught up %llu, left out %llu, wronged %llu, "
            "verdicts %llu, bans %llu, despite a liar %llu\n",
            (unsigned long long)sum.versions, (unsigned long long)sum.calm,
            (unsigned long long)sum.later, (unsigned long long)sum.twice,
            (unsigned long long)sum.crashes, (unsigned long long)sum.messages,
            (unsigned long long)sum.catch_ups, (unsigned long long)sum.left_out,
            (unsigned long long)sum.wronged, (unsigned long long)sum.verdicts,
            (unsigned long long)sum.bans, (unsigned long long)sum.bans_despite);
}

static void no_seed_seals_a_version_twice_or_stands_still(void **state)
{
    (void)state;
    assert_true(run_seeds(1, SEEDS));
}

/* The worlds are only worth something if what they are meant to provoke happens in them. */
static void the_worlds_were_hard_enough(void **state)
{
    (void)state;
    print_sum(stderr);
    assert_true(sum.later > SEEDS / 2);
    assert_true(sum.crashes > SEEDS);
    assert_true(sum.catch_ups > 0);
    assert_true(sum.left_out > SEEDS / 10);
    assert_int_equal(sum.wronged, 0);
    assert_true(sum.verdicts > SEEDS);
    assert_true(sum.bans > SEEDS / 10);
    assert_true(sum.bans_despite > SEEDS / 50);
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        bool passed = run_seeds(strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10));
        print_sum(stdout);
        return passed ? 0 : 1;
    }
    if (argc == 2) {
        struct sim_result result = sim_round_run(strtoull(argv[1], NULL, 10), true);
        printf("%s\n", result.failed ? result.reason : "passed");
        return result.failed ? 1 : 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_seed_seals_a_version_twice_or_stands_still),
        cmocka_unit_test(the_worlds_were_hard_enough),
    };
    return cmocka_run_group_tests_name("sim round", tests, NULL, NULL);
}
