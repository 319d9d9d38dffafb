/* When the agreement gets an update that is held back. */
#include "server/audit-asked.h"
#include "tests/lib/cmocka.h"

#define EVERY_MS 700u /* as the agreement asks */

static const struct skep_hash UPDATE = {{1}};
static const struct skep_hash OTHER = {{2}};

/* Asks until the moment that is `for_ms` after `from_ms`, which is the last time; is it given then, and not sooner? */
static bool given_after(struct skep_audit_asked *asked, enum skep_audit_standing standing,
                        uint64_t from_ms, uint64_t for_ms)
{
    for (uint64_t ms = 0; ms < for_ms; ms += EVERY_MS) {
        if (skep_audit_asked_gives(asked, &UPDATE, standing, from_ms + ms)) {
            return false;
        }
    }
    return skep_audit_asked_gives(asked, &UPDATE, standing, from_ms + for_ms);
}

static void what_nobody_will_look_at_is_given_at_once(void **state)
{
    (void)state;
    struct skep_audit_asked asked = {0};
    assert_true(given_after(&asked, SKEP_AUDIT_NOT_LOOKED_AT, 5000, 0));
    skep_audit_asked_done(&asked);
}

static void what_is_looked_at_is_given_after_ten_seconds(void **state)
{
    (void)state;
    struct skep_audit_asked asked = {0};
    assert_false(given_after(&asked, SKEP_AUDIT_LOOKED_AT, 5000, 9999));
    assert_true(skep_audit_asked_gives(&asked, &UPDATE, SKEP_AUDIT_LOOKED_AT, 15000));
    assert_false(skep_audit_asked_gives(&asked, &OTHER, SKEP_AUDIT_LOOKED_AT, 15000));
    skep_audit_asked_done(&asked);
    assert_true(given_after(&asked, SKEP_AUDIT_LOOKED_AT, 5000, 10000));
    skep_audit_asked_done(&asked);
}

/* A shard must not halt for one liar. */
static void what_was_found_to_be_false_is_given_after_ten_minutes_and_not_sooner(void **state)
{
    (void)state;
    struct skep_audit_asked asked = {0};
    assert_false(given_after(&asked, SKEP_AUDIT_CAUGHT, 5000, 599000)); /* 9:59 */
    assert_false(skep_audit_asked_gives(&asked, &UPDATE, SKEP_AUDIT_CAUGHT, 604999));
    assert_true(skep_audit_asked_gives(&asked, &UPDATE, SKEP_AUDIT_CAUGHT, 605000)); /* 10:00 */
    assert_true(skep_audit_asked_gives(&asked, &UPDATE, SKEP_AUDIT_CAUGHT, 606000));
    skep_audit_asked_done(&asked);
    assert_true(given_after(&asked, SKEP_AUDIT_CAUGHT, 5000, 600000));
    skep_audit_asked_done(&asked);
}

/* The others agree on something else meanwhile. */
static void a_pause_begins_anew_unless_it_is_short(void **state)
{
    (void)state;
    struct skep_audit_asked asked = {0};
    assert_false(given_after(&asked, SKEP_AUDIT_CAUGHT, 0, 590000));
    assert_false(given_after(&asked, SKEP_AUDIT_CAUGHT, 650000, 599000));
    assert_true(skep_audit_asked_gives(&asked, &UPDATE, SKEP_AUDIT_CAUGHT, 1250000));
    skep_audit_asked_done(&asked);
    assert_false(given_after(&asked, SKEP_AUDIT_CAUGHT, 0, 590000));
    assert_true(skep_audit_asked_gives(&asked, &UPDATE, SKEP_AUDIT_CAUGHT, 649999));
    /* what another is asked for does not count */
    assert_false(skep_audit_asked_gives(&asked, &OTHER, SKEP_AUDIT_CAUGHT, 700000));
    assert_int_equal(asked.count, 2);
    assert_false(skep_audit_asked_gives(&asked, &OTHER, SKEP_AUDIT_CAUGHT, 709999));
    assert_int_equal(asked.count, 1);
    skep_audit_asked_done(&asked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_will_look_at_is_given_at_once),
        cmocka_unit_test(what_is_looked_at_is_given_after_ten_seconds),
        cmocka_unit_test(what_was_found_to_be_false_is_given_after_ten_minutes_and_not_sooner),
        cmocka_unit_test(a_pause_begins_anew_unless_it_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
