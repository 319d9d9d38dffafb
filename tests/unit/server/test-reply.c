/* Errors as HTTP replies. */
#include <string.h>

#include "server/api/reply.h"
#include "tests/lib/cmocka.h"

static void every_error_has_its_status(void **state)
{
    (void)state;
    static const struct {
        enum skep_err code;
        int status;
    } expected[] = {
        {SKEP_ERR_ARGUMENT, 400},  {SKEP_ERR_FORMAT, 400},    {SKEP_ERR_SIGNATURE, 400},
        {SKEP_ERR_HASH, 400},      {SKEP_ERR_NUMERIC, 400},   {SKEP_ERR_REFUSED, 403},
        {SKEP_ERR_NOT_FOUND, 404}, {SKEP_ERR_DUPLICATE, 409}, {SKEP_ERR_STALE, 409},
        {SKEP_ERR_STATE, 409},     {SKEP_ERR_TOO_LARGE, 413}, {SKEP_ERR_IO, 500},
        {SKEP_ERR_MEMORY, 500},    {SKEP_ERR_FULL, 507},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_int_equal(skep_reply_status_of(expected[i].code), expected[i].status);
    }
}

static void an_error_is_json_with_its_name_and_sentence(void **state)
{
    (void)state;
    struct skep_error err = {0};
    skep_error_set(&err, SKEP_ERR_STALE, "version %d \"is\" old", 3);
    struct skep_http_reply reply = {0};
    skep_reply_error(&reply, 409, &err);
    assert_int_equal(reply.status, 409);
    static const char expected[] =
        "{\"error\":{\"code\":\"stale\",\"message\":\"version 3 \\\"is\\\" old\"}}";
    assert_int_equal(reply.body.size, strlen(expected));
    assert_memory_equal(reply.body.data, expected, strlen(expected));
    skep_buffer_done(&reply.body);
}

static void a_refused_update_is_told_the_reason(void **state)
{
    (void)state;
    struct skep_error err = {0};
    assert_int_equal(skep_refuse(&err, SKEP_REFUSAL_BASE_STALE, "too old"), SKEP_ERR_STALE);
    struct skep_http_reply reply = {0};
    skep_reply_error(&reply, 409, &err);
    static const char expected[] =
        "{\"error\":{\"code\":\"stale\",\"message\":\"too old\",\"reason\":\"base-stale\"}}";
    assert_int_equal(reply.body.size, strlen(expected));
    assert_memory_equal(reply.body.data, expected, strlen(expected));
    skep_buffer_done(&reply.body);
}

static void an_error_replaces_what_a_handler_had_begun(void **state)
{
    (void)state;
    struct skep_error err = {0};
    skep_error_set(&err, SKEP_ERR_IO, "no");
    struct skep_http_reply reply = {.content_type = "application/octet-stream"};
    skep_buffer_append_text(&reply.body, "half of a file");
    skep_reply_error(&reply, 500, &err);
    assert_null(reply.content_type);
    assert_int_equal(reply.body.data[0], '{');
    skep_buffer_done(&reply.body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_has_its_status),
        cmocka_unit_test(an_error_is_json_with_its_name_and_sentence),
        cmocka_unit_test(a_refused_update_is_told_the_reason),
        cmocka_unit_test(an_error_replaces_what_a_handler_had_begun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
