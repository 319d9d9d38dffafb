/* The router: patterns, parts, and the difference between no path and no method. */
#include <string.h>

#include "server/api/router.h"
#include "tests/lib/cmocka.h"

static int nothing(void *user, const struct skep_http_exchange *exchange,
                   const struct skep_route_parts *parts, struct skep_http_reply *reply,
                   struct skep_error *err)
{
    (void)user;
    (void)exchange;
    (void)parts;
    (void)reply;
    (void)err;
    return SKEP_OK;
}

static const struct skep_route_entry entries[] = {
    {"GET", "/v1/health", nothing},         {"GET", "/v1/things", nothing},
    {"POST", "/v1/things", nothing},        {"GET", "/v1/things/{thing}/parts/{part}", nothing},
    {"GET", "/v1/things/{thing}", nothing},
};

static enum skep_route_match find(const char *method, const char *path, size_t *ret_place,
                                  struct skep_route_parts *parts, struct skep_error *err)
{
    const struct skep_route_entry *entry = NULL;
    enum skep_route_match match = skep_route_find(entries, sizeof entries / sizeof entries[0],
                                                  method, path, &entry, parts, err);
    if (entry != NULL) {
        *ret_place = (size_t)(entry - entries);
    }
    return match;
}

static void a_path_without_parts_is_found_by_method(void **state)
{
    (void)state;
    struct skep_route_parts parts;
    size_t place = 99;
    assert_int_equal(find("GET", "/v1/health", &place, &parts, NULL), SKEP_ROUTE_FOUND);
    assert_int_equal(place, 0);
    assert_int_equal(parts.count, 0);
    assert_int_equal(find("POST", "/v1/things", &place, &parts, NULL), SKEP_ROUTE_FOUND);
    assert_int_equal(place, 2);
}

static void parts_are_handed_on_in_order(void **state)
{
    (void)state;
    struct skep_route_parts parts;
    size_t place = 99;
    assert_int_equal(find("GET", "/v1/things/a.b/parts/17", &place, &parts, NULL),
                     SKEP_ROUTE_FOUND);
    assert_int_equal(place, 3);
    assert_int_equal(parts.count, 2);
    assert_string_equal(parts.text[0], "a.b");
    assert_string_equal(parts.text[1], "17");
    assert_int_equal(find("GET", "/v1/things/parts", &place, &parts, NULL), SKEP_ROUTE_FOUND);
    assert_int_equal(place, 4);
}

static void what_is_not_in_the_table_is_no_path(void **state)
{
    (void)state;
    static const char *const paths[] = {"",
                                        "/",
                                        "/v1",
                                        "/v1/",
                                        "/v1/healthy",
                                        "/v1/health/",
                                        "/v1/things/",
                                        "/v1/things/a/parts",
                                        "/v1/things/a/parts/",
                                        "/v1/things//parts/b",
                                        "/v1/things/a/parts/b/c",
                                        "v1/health"};
    struct skep_route_parts parts;
    size_t place = 0;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct skep_error err = {0};
        assert_int_equal(find("GET", paths[i], &place, &parts, &err), SKEP_ROUTE_NO_PATH);
        assert_int_equal(err.code, SKEP_ERR_NOT_FOUND);
    }
}

static void a_part_longer_than_any_name_is_no_path(void **state)
{
    (void)state;
    char path[300] = "/v1/things/";
    memset(path + strlen(path), 'a', 200);
    struct skep_route_parts parts;
    size_t place = 0;
    assert_int_equal(find("GET", path, &place, &parts, NULL), SKEP_ROUTE_NO_PATH);
}

static void a_wrong_method_is_told_which_are_right(void **state)
{
    (void)state;
    struct skep_route_parts parts;
    struct skep_error err = {0};
    size_t place = 0;
    assert_int_equal(find("DELETE", "/v1/things", &place, &parts, &err), SKEP_ROUTE_NO_METHOD);
    assert_non_null(strstr(err.text, "DELETE"));
    assert_non_null(strstr(err.text, "GET or POST"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_without_parts_is_found_by_method),
        cmocka_unit_test(parts_are_handed_on_in_order),
        cmocka_unit_test(what_is_not_in_the_table_is_no_path),
        cmocka_unit_test(a_part_longer_than_any_name_is_no_path),
        cmocka_unit_test(a_wrong_method_is_told_which_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
