/* The life of a job as a table of moves. */
#include "client/agent/states.h"

#include <stdbool.h>

#include "tests/lib/cmocka.h"

static void a_job_walks_through_all_states_and_begins_again(void **state)
{
    (void)state;
    static const enum skep_agent_state expected[] = {
        SKEP_AGENT_LOOKING,          SKEP_AGENT_FETCHING_TRUNK, SKEP_AGENT_FETCHING_DATA,
        SKEP_AGENT_FETCHING_EXPERTS, SKEP_AGENT_TRAINING,       SKEP_AGENT_PUBLISHING,
        SKEP_AGENT_WAITING,          SKEP_AGENT_FINDING};
    enum skep_agent_state at = skep_agent_next(SKEP_AGENT_IDLE, SKEP_AGENT_ATTACHED);
    assert_int_equal(at, SKEP_AGENT_FINDING);
    for (unsigned i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        at = skep_agent_next(at, SKEP_AGENT_DONE);
        assert_int_equal(at, expected[i]);
    }
}

static void a_failure_anywhere_in_a_job_leads_to_backoff_and_back_to_the_start(void **state)
{
    (void)state;
    for (int at = SKEP_AGENT_FINDING; at <= SKEP_AGENT_WAITING; at++) {
        assert_int_equal(skep_agent_next((enum skep_agent_state)at, SKEP_AGENT_FAILED),
                         SKEP_AGENT_BACKOFF);
    }
    assert_int_equal(skep_agent_next(SKEP_AGENT_BACKOFF, SKEP_AGENT_TIME), SKEP_AGENT_FINDING);
}

static void pause_and_quit_work_everywhere_and_pause_keeps_its_word(void **state)
{
    (void)state;
    for (int at = SKEP_AGENT_IDLE; at < SKEP_AGENT_PAUSED; at++) {
        assert_int_equal(skep_agent_next((enum skep_agent_state)at, SKEP_AGENT_PAUSE),
                         SKEP_AGENT_PAUSED);
        assert_int_equal(skep_agent_next((enum skep_agent_state)at, SKEP_AGENT_QUIT),
                         SKEP_AGENT_STOPPING);
    }
    for (int event = 0; event < SKEP_AGENT_EVENTS; event++) {
        enum skep_agent_state next =
            skep_agent_next(SKEP_AGENT_PAUSED, (enum skep_agent_event)event);
        assert_int_equal(next, event == SKEP_AGENT_RESUME ? SKEP_AGENT_FINDING
                               : event == SKEP_AGENT_QUIT ? SKEP_AGENT_STOPPING
                                                          : SKEP_AGENT_PAUSED);
    }
}

static void nothing_leads_out_of_stopping(void **state)
{
    (void)state;
    for (int event = 0; event < SKEP_AGENT_EVENTS; event++) {
        assert_int_equal(skep_agent_next(SKEP_AGENT_STOPPING, (enum skep_agent_event)event),
                         SKEP_AGENT_STOPPING);
    }
}

static void a_donor_whose_update_is_in_waits_instead_of_training_again(void **state)
{
    (void)state;
    assert_int_equal(skep_agent_next(SKEP_AGENT_LOOKING, SKEP_AGENT_NOTHING_NEW),
                     SKEP_AGENT_WAITING);
    assert_int_equal(skep_agent_next(SKEP_AGENT_WAITING, SKEP_AGENT_TIME), SKEP_AGENT_FINDING);
}

static void a_kept_job_is_gone_on_with_before_anything_new_is_fetched(void **state)
{
    (void)state;
    for (int at = SKEP_AGENT_IDLE; at < SKEP_AGENT_STATES; at++) {
        bool early =
            at == SKEP_AGENT_FINDING || at == SKEP_AGENT_LOOKING || at == SKEP_AGENT_FETCHING_TRUNK;
        assert_int_equal(skep_agent_next((enum skep_agent_state)at, SKEP_AGENT_KEPT),
                         early ? SKEP_AGENT_TRAINING : (enum skep_agent_state)at);
    }
    enum skep_agent_state at = skep_agent_next(SKEP_AGENT_TRAINING, SKEP_AGENT_PAUSE);
    at = skep_agent_next(at, SKEP_AGENT_RESUME);
    at = skep_agent_next(at, SKEP_AGENT_DONE);
    assert_int_equal(at, SKEP_AGENT_LOOKING);
    assert_int_equal(skep_agent_next(at, SKEP_AGENT_KEPT), SKEP_AGENT_TRAINING);
}

static void
a_project_that_is_too_large_is_left_alone_until_something_else_is_asked_for(void **state)
{
    (void)state;
    assert_int_equal(skep_agent_next(SKEP_AGENT_FINDING, SKEP_AGENT_TOO_LARGE),
                     SKEP_AGENT_REFUSING);
    for (int event = 0; event < SKEP_AGENT_EVENTS; event++) {
        enum skep_agent_state next =
            skep_agent_next(SKEP_AGENT_REFUSING, (enum skep_agent_event)event);
        assert_true(next == SKEP_AGENT_REFUSING || event == SKEP_AGENT_DETACHED ||
                    event == SKEP_AGENT_PAUSE || event == SKEP_AGENT_QUIT);
    }
}

/* Whatever happens in whatever order: training follows only from a job that was fetched or kept, publishing only from training. */
static void only_a_job_that_is_there_is_trained(void **state)
{
    (void)state;
    for (int at = SKEP_AGENT_IDLE; at < SKEP_AGENT_STATES; at++) {
        for (int event = 0; event < SKEP_AGENT_EVENTS; event++) {
            enum skep_agent_state next =
                skep_agent_next((enum skep_agent_state)at, (enum skep_agent_event)event);
            assert_in_range(next, SKEP_AGENT_IDLE, SKEP_AGENT_STATES - 1);
            if (next == SKEP_AGENT_TRAINING && at != SKEP_AGENT_TRAINING) {
                assert_true(event == SKEP_AGENT_KEPT ||
                            (event == SKEP_AGENT_DONE && at == SKEP_AGENT_FETCHING_EXPERTS));
            }
            if (next == SKEP_AGENT_PUBLISHING && at != SKEP_AGENT_PUBLISHING) {
                assert_true(event == SKEP_AGENT_DONE && at == SKEP_AGENT_TRAINING);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_walks_through_all_states_and_begins_again),
        cmocka_unit_test(a_failure_anywhere_in_a_job_leads_to_backoff_and_back_to_the_start),
        cmocka_unit_test(pause_and_quit_work_everywhere_and_pause_keeps_its_word),
        cmocka_unit_test(nothing_leads_out_of_stopping),
        cmocka_unit_test(a_donor_whose_update_is_in_waits_instead_of_training_again),
        cmocka_unit_test(a_kept_job_is_gone_on_with_before_anything_new_is_fetched),
        cmocka_unit_test(
            a_project_that_is_too_large_is_left_alone_until_something_else_is_asked_for),
        cmocka_unit_test(only_a_job_that_is_there_is_trained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
