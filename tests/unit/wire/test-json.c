/* JSON: what is refused, in which words, and what writing gives; base64's one form. */
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/wire/base64.h"
#include "common/wire/json.h"
#include "tests/lib/cmocka.h"

static int parse(const char *text, struct skep_json **ret_root, struct skep_error *err)
{
    return skep_json_parse(text, strlen(text), "thing", ret_root, err);
}

static void assert_refused(const char *text, const char *reason)
{
    struct skep_json *root = NULL;
    struct skep_error err = {0};
    assert_int_not_equal(parse(text, &root, &err), SKEP_OK);
    assert_null(root);
    if (strstr(err.text, reason) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, reason);
    }
}

static void texts_that_are_not_one_json_object_are_refused(void **state)
{
    (void)state;
    assert_refused("", "empty");
    assert_refused("{", "thing is not JSON: line 1");
    assert_refused("{} {}", "end of file expected");
    assert_refused("{\"a\":1,\"a\":2}", "duplicate");
    assert_refused("7", "'[' or '{' expected");
    assert_refused("{\"a\":\"\\u0000\"}", "\\u0000");
    assert_refused("{\"a\":\"\xff\"}", "unable to decode byte 0xff");
    assert_refused("{\"a\":NaN}", "not JSON");
    assert_refused("{\"a\":1e999}", "overflow");
    assert_refused("{\"a\":99999999999999999999}", "too big");
}

static char *nested(size_t depth)
{
    char *text = skep_alloc(2 * depth + 1, 1);
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    return text;
}

static void nesting_has_a_limit(void **state)
{
    (void)state;
    struct skep_json *root = NULL;
    char *fine = nested(SKEP_LIMIT_JSON_DEPTH);
    assert_int_equal(parse(fine, &root, NULL), SKEP_OK);
    skep_json_free(root);
    char *deep = nested(SKEP_LIMIT_JSON_DEPTH + 1);
    assert_refused(deep, "deeper than 16 levels");
    char *very_deep = nested(1000000);
    assert_refused(very_deep, "deeper than 16 levels");
    /* Brackets in texts nest nothing, also behind escaped quotes. */
    assert_int_equal(parse("[\"[[[[[[[[[[[[[[[[[[[[[\\\"[[[[[[[[[[[[\"]", &root, NULL), SKEP_OK);
    skep_json_free(root);
    free(fine);
    free(deep);
    free(very_deep);
}

static void a_nul_byte_is_refused_wherever_it_stands(void **state)
{
    (void)state;
    /* The library reads "[1" NUL "]" as [1]; others do not, and would disagree about what was signed. */
    for (size_t at = 0; at <= 4; at++) {
        char text[5] = "[10]";
        memmove(text + at + (at < 4), text + at, 4 - at);
        text[at] = '\0';
        struct skep_json *root = NULL;
        struct skep_error err = {0};
        assert_int_equal(skep_json_parse(text, 5, "thing", &root, &err), SKEP_ERR_FORMAT);
        char sentence[60];
        snprintf(sentence, sizeof sentence, "thing is not JSON: byte %zu is a NUL", at);
        assert_string_equal(err.text, sentence);
    }
}

static void the_number_of_values_and_the_size_have_limits(void **state)
{
    (void)state;
    size_t size = 2 * (size_t)SKEP_LIMIT_JSON_VALUES + 8;
    char *text = skep_alloc(size, 1);
    for (size_t i = 0; i + 1 < size; i += 2) {
        text[i] = '0';
        text[i + 1] = ',';
    }
    text[0] = '[';
    text[size - 1] = '\0';
    assert_refused(text, "more than 131072 JSON values");
    free(text);
    struct skep_json *root = NULL;
    struct skep_error err = {0};
    assert_int_equal(skep_json_parse("{}", (size_t)SKEP_LIMIT_JSON_BYTES + 1, "thing", &root, &err),
                     SKEP_ERR_TOO_LARGE);
}

static void getters_name_field_value_and_range(void **state)
{
    (void)state;
    struct skep_json *root = NULL;
    struct skep_error err = {0};
    assert_int_equal(parse("{\"n\":12,\"r\":0.1,\"t\":\"x\",\"a\":[1,2],\"o\":{}}", &root, &err),
                     SKEP_OK);
    int64_t n = 5;
    assert_int_equal(skep_json_get_integer(root, "thing", "n", 0, 11, &n, &err), SKEP_ERR_FORMAT);
    assert_string_equal(err.text, "thing: field n is 12; allowed: an integer from 0 to 11");
    skep_json_get_integer(root, "thing", "r", 0, 11, &n, &err);
    assert_string_equal(err.text, "thing: field r is 0.1; allowed: an integer from 0 to 11");
    skep_json_get_integer(root, "thing", "m", 0, 11, &n, &err);
    assert_string_equal(err.text, "thing: field m is missing; allowed: an integer from 0 to 11");
    assert_int_equal(n, 5);
    double r = 5;
    skep_json_get_real(root, "thing", "r", 1, 2, &r, &err);
    assert_string_equal(err.text, "thing: field r is 0.1; allowed: a number from 1 to 2");
    const struct skep_json *array = NULL;
    skep_json_get_array(root, "thing", "a", 1, &array, &err);
    assert_string_equal(
        err.text, "thing: field a is an array of 2 items; allowed: an array of at most 1 items");
    uint8_t bytes[2];
    skep_json_get_hex(root, "thing", "t", bytes, 2, &err);
    assert_string_equal(err.text,
                        "thing: field t is \"x\"; allowed: 4 lower-case hexadecimal digits");
    bool flag = false;
    skep_json_get_bool(root, "thing", "o", &flag, &err);
    assert_string_equal(err.text, "thing: field o is an object; allowed: true or false");
    static const char *const keys[] = {"n", "r", "t", "a", NULL};
    skep_json_allow(root, "thing", keys, &err);
    assert_string_equal(err.text,
                        "thing: unknown field \"o\" with value an object; allowed: n, r, t, a");
    skep_json_free(root);
}

static void a_long_value_is_cut_in_the_message(void **state)
{
    (void)state;
    char text[5000] = "{\"n\":\"";
    memset(text + 6, 'z', 4000);
    strcpy(text + 4006, "\"}");
    struct skep_json *root = NULL;
    struct skep_error err = {0};
    assert_int_equal(parse(text, &root, &err), SKEP_OK);
    int64_t n;
    skep_json_get_integer(root, "thing", "n", 0, 1, &n, &err);
    assert_non_null(strstr(err.text, "zzz...; allowed: an integer from 0 to 1"));
    assert_true(strlen(err.text) < 150);
    skep_json_free(root);
}

static void written_text_keeps_order_and_reads_back(void **state)
{
    (void)state;
    struct skep_json *root = skep_json_object_new();
    skep_json_set_integer(root, "z", SKEP_JSON_INTEGER_MOST);
    skep_json_set_real(root, "a", 0.1);
    skep_json_set_bool(root, "b", true);
    skep_json_set_null(root, "c");
    skep_json_set_hex(root, "d", "\x01\xff", 2);
    struct skep_json *array = skep_json_array_new();
    skep_json_push_text(array, "t");
    skep_json_push_hex(array, "\xab", 1);
    skep_json_set_take(root, "e", array);
    struct skep_json *copy = skep_json_copy(root);
    skep_json_free(root);
    char *text = skep_json_write(copy, false);
    assert_string_equal(text,
                        "{\"z\":9007199254740991,\"a\":0.1,\"b\":true,\"c\":null,\"d\":\"01ff\","
                        "\"e\":[\"t\",\"ab\"]}");
    const struct skep_json *value = NULL;
    assert_string_equal(skep_json_next(copy, NULL, &value), "z");
    assert_string_equal(skep_json_next(copy, "c", &value), "d");
    assert_null(skep_json_next(copy, "e", &value));
    skep_json_free(copy);
    free(text);
}

static void every_real_survives_writing(void **state)
{
    (void)state;
    static const double values[] = {0.1, 1.0 / 3, 1e-8, 5e-324, 1.7976931348623157e308, 0.0, 2.5};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct skep_json *root = skep_json_object_new();
        skep_json_set_real(root, "r", values[i]);
        char *text = skep_json_write(root, false);
        skep_json_free(root);
        assert_int_equal(parse(text, &root, NULL), SKEP_OK);
        double again = -1;
        assert_int_equal(skep_json_get_real(root, "thing", "r", 0, DBL_MAX, &again, NULL), SKEP_OK);
        assert_true(again == values[i]);
        skep_json_free(root);
        free(text);
    }
}

static void a_text_that_is_not_utf8_is_written_with_question_marks(void **state)
{
    (void)state;
    struct skep_json *root = skep_json_object_new();
    skep_json_set_text(root, "a", "cut \xc3");
    char *text = skep_json_write(root, false);
    assert_string_equal(text, "{\"a\":\"cut ?\"}");
    skep_json_free(root);
    free(text);
}

static void truncated_and_damaged_texts_never_crash(void **state)
{
    (void)state;
    static const char good[] = "{\"a\":[1,2.5e3,\"\\u00e9\\\"\",{\"b\":null}],\"c\":true}";
    for (size_t cut = 0; cut + 1 < sizeof good; cut++) {
        struct skep_json *root = NULL;
        assert_int_not_equal(skep_json_parse(good, cut, "thing", &root, NULL), SKEP_OK);
    }
    for (size_t at = 0; at + 1 < sizeof good; at++) {
        for (int bit = 0; bit < 8; bit++) {
            char text[sizeof good];
            memcpy(text, good, sizeof good);
            text[at] = (char)(text[at] ^ (1 << bit));
            struct skep_json *root = NULL;
            skep_json_parse(text, sizeof good - 1, "thing", &root, NULL);
            skep_json_free(root);
        }
    }
}

/* RFC 4648 section 10. */
static void base64_gives_the_published_texts(void **state)
{
    (void)state;
    static const char *const vectors[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        char *text = skep_base64_encode(vectors[i][0], strlen(vectors[i][0]));
        assert_string_equal(text, vectors[i][1]);
        struct skep_buffer bytes = {0};
        assert_true(skep_base64_decode(text, strlen(text), &bytes));
        assert_int_equal(bytes.size, strlen(vectors[i][0]));
        assert_true(bytes.size == 0 || memcmp(bytes.data, vectors[i][0], bytes.size) == 0);
        skep_buffer_done(&bytes);
        free(text);
    }
}

static void base64_accepts_one_form_only(void **state)
{
    (void)state;
    static const char *const wrong[] = {"Zg",    "Zg=",  "Zh==", "Zm9=", "Z===", "====", "Zg==Zg==",
                                        "Zm9\n", "Zm9-", "Zm9_", "=m9v", "Z=9v", " m9v", "Zm9vZ"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct skep_buffer bytes = {0};
        if (skep_base64_decode(wrong[i], strlen(wrong[i]), &bytes)) {
            fail_msg("\"%s\" was accepted", wrong[i]);
        }
        assert_int_equal(bytes.size, 0);
        skep_buffer_done(&bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_that_are_not_one_json_object_are_refused),
        cmocka_unit_test(nesting_has_a_limit),
        cmocka_unit_test(a_nul_byte_is_refused_wherever_it_stands),
        cmocka_unit_test(the_number_of_values_and_the_size_have_limits),
        cmocka_unit_test(getters_name_field_value_and_range),
        cmocka_unit_test(a_long_value_is_cut_in_the_message),
        cmocka_unit_test(written_text_keeps_order_and_reads_back),
        cmocka_unit_test(every_real_survives_writing),
        cmocka_unit_test(a_text_that_is_not_utf8_is_written_with_question_marks),
        cmocka_unit_test(truncated_and_damaged_texts_never_crash),
        cmocka_unit_test(base64_gives_the_published_texts),
        cmocka_unit_test(base64_accepts_one_form_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
