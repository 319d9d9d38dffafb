/* The rules of trust as a whole, on small versions of tests/bench/trust-sim; seeds are fixed. */
#include "tests/bench/trust-scenes.h"
#include "tests/lib/cmocka.h"

#define TRIALS 30u
#define BAN_ROUNDS 20u

static void assert_banned_soon(uint32_t sleep, unsigned at_least)
{
    struct scene scene;
    scene_init(&scene, SCENE_OURS, 1 + sleep);
    unsigned soon = 0;
    for (unsigned i = 0; i < TRIALS; i++) {
        uint32_t lies = 0;
        soon += scene_liar(&scene, sleep, 1000, 1000, &lies) <= BAN_ROUNDS;
        assert_true(sleep >= SKEP_PROBATION || lies == 0);
    }
    assert_in_range(soon, at_least, TRIALS);
    scene_done(&scene);
}

static void an_always_cheater_is_banned_before_anything_is_merged(void **state)
{
    (void)state;
    assert_banned_soon(0, TRIALS);
}

static void sleepers_are_banned_within_twenty_rounds_of_waking(void **state)
{
    (void)state;
    assert_banned_soon(10, TRIALS);
    assert_banned_soon(30, TRIALS);
    assert_banned_soon(100, TRIALS - 1);
}

static void a_donor_that_lies_now_and_then_is_banned_in_the_end(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene, SCENE_OURS, 8);
    for (unsigned i = 0; i < TRIALS; i++) {
        uint32_t lies = 0;
        assert_in_range(scene_liar(&scene, 100, 100, 2000, &lies), 1, 1999);
    }
    scene_done(&scene);
}

static void honest_donors_are_never_banned_and_audited_ever_less(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene, SCENE_OURS, 9);
    scene_honest(&scene, 5, 1000);
    assert_int_equal(scene.bans, 0);
    assert_int_equal(scene.merged, scene.jobs);
    assert_in_range(scene.audits, scene.jobs * 11 / 100, scene.jobs * 14 / 100);
    scene_done(&scene);
}

static void a_crowd_gains_nothing_worth_having_over_one_donor(void **state)
{
    (void)state;
    for (enum scene_crowd crowd = 0; crowd < CROWDS; crowd++) {
        struct scene scene;
        scene_init(&scene, SCENE_OURS, 3);
        bool short_one = crowd == CROWD_COPIES || crowd == CROWD_ROTATION;
        double influence = scene_influence(&scene, crowd, 50, short_one ? 200 : 20000);
        if (!(influence > 0.99 && influence <= 1.06)) { /* 1.048 and the noise of 400 turns */
            fail_msg("%s: %.4f updates merged a job", scene_crowd_name(crowd), influence);
        }
        scene_done(&scene);
    }
}

static void boincs_curve_would_double_a_liars_influence(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene, SCENE_BOINC, 3);
    assert_true(scene_influence(&scene, CROWD_TURN, 10, 20000) > 1.9);
    scene_done(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_always_cheater_is_banned_before_anything_is_merged),
        cmocka_unit_test(sleepers_are_banned_within_twenty_rounds_of_waking),
        cmocka_unit_test(a_donor_that_lies_now_and_then_is_banned_in_the_end),
        cmocka_unit_test(honest_donors_are_never_banned_and_audited_ever_less),
        cmocka_unit_test(a_crowd_gains_nothing_worth_having_over_one_donor),
        cmocka_unit_test(boincs_curve_would_double_a_liars_influence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
