/* Reasons of refusals: their names are part of the API. */
#include <string.h>

#include "common/base/error.h"
#include "tests/lib/cmocka.h"

static void every_reason_has_a_name_of_its_own(void **state)
{
    (void)state;
    assert_string_equal(skep_refusal_name(SKEP_REFUSAL_NONE), "");
    for (int i = 1; i < SKEP_REFUSALS; i++) {
        const char *name = skep_refusal_name((enum skep_refusal)i);
        assert_true(strlen(name) > 2);
        assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz-"), strlen(name));
        for (int k = 1; k < i; k++) {
            assert_string_not_equal(name, skep_refusal_name((enum skep_refusal)k));
        }
    }
    assert_string_equal(skep_refusal_name(SKEP_REFUSALS), "");
}

static void a_refusal_has_its_reasons_code_and_a_sentence(void **state)
{
    (void)state;
    struct skep_error err = {0};
    assert_int_equal(skep_refuse(&err, SKEP_REFUSAL_BASE_STALE, "version %d is old", 3),
                     SKEP_ERR_STALE);
    assert_int_equal(err.code, SKEP_ERR_STALE);
    assert_int_equal(err.reason, SKEP_REFUSAL_BASE_STALE);
    assert_string_equal(err.text, "version 3 is old");
    assert_int_equal(skep_refuse(NULL, SKEP_REFUSAL_BASE_STALE, "x"), SKEP_ERR_STALE);
    /* what comes after is another error */
    skep_error_set(&err, SKEP_ERR_IO, "no");
    assert_int_equal(err.reason, SKEP_REFUSAL_NONE);
}

static void a_reason_is_given_to_an_error_that_has_none(void **state)
{
    (void)state;
    struct skep_error err = {0};
    assert_int_equal(skep_error_reason(&err, SKEP_OK, SKEP_REFUSAL_ENVELOPE), SKEP_OK);
    assert_int_equal(err.reason, SKEP_REFUSAL_NONE);
    int rc = skep_error_set(&err, SKEP_ERR_TOO_LARGE, "too deep");
    assert_int_equal(skep_error_reason(&err, rc, SKEP_REFUSAL_ENVELOPE), SKEP_ERR_FORMAT);
    assert_int_equal(err.code, SKEP_ERR_FORMAT);
    assert_int_equal(err.reason, SKEP_REFUSAL_ENVELOPE);
    assert_string_equal(err.text, "too deep");
    assert_int_equal(skep_error_reason(&err, err.code, SKEP_REFUSAL_STATEMENT), SKEP_ERR_FORMAT);
    assert_int_equal(err.reason, SKEP_REFUSAL_ENVELOPE);
    assert_int_equal(skep_error_reason(NULL, rc, SKEP_REFUSAL_ENVELOPE), SKEP_ERR_FORMAT);
    /* no memory is no fault of the update */
    rc = skep_error_set(&err, SKEP_ERR_MEMORY, "no memory");
    assert_int_equal(skep_error_reason(&err, rc, SKEP_REFUSAL_ENVELOPE), SKEP_ERR_MEMORY);
    assert_int_equal(err.reason, SKEP_REFUSAL_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reason_has_a_name_of_its_own),
        cmocka_unit_test(a_refusal_has_its_reasons_code_and_a_sentence),
        cmocka_unit_test(a_reason_is_given_to_an_error_that_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
