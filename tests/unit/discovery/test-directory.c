/* Keys and addresses of the directory, and its form in memory. */
#include <string.h>

#include "common/base/bytes.h"
#include "common/discovery/directory.h"
#include "tests/lib/cmocka.h"

static const struct skep_project_id PROJECT = {{1, 2, 3}};

static void keys_are_sha_1_over_skep_project_and_part(void **state)
{
    (void)state;
    /* printf 'skep\0010203...' (64 digits), then '\0trunk', through sha1sum */
    char text[41];
    struct skep_directory_key key = skep_directory_key_of(&PROJECT, NULL);
    skep_hex_encode(key.bytes, sizeof key.bytes, text);
    assert_string_equal(text, "74a1e700afccac43d536617835f315ea356bc869");
    key = skep_directory_key_of(&PROJECT, "trunk");
    skep_hex_encode(key.bytes, sizeof key.bytes, text);
    assert_string_equal(text, "fca7fa2aefdbb51957e47cb2547665f652abfd67");
}

static void addresses_are_numeric_with_a_port(void **state)
{
    (void)state;
    struct skep_address address;
    assert_true(skep_address_parse("127.0.0.1:7420", &address));
    assert_string_equal(address.host, "127.0.0.1");
    assert_int_equal(address.port, 7420);
    assert_true(skep_address_parse("[::1]:65535", &address));
    assert_string_equal(address.host, "::1");
    assert_true(skep_address_parse("[0:0::0:1]:1", &address));
    assert_string_equal(address.host, "::1"); /* one spelling of each */
    static const char *const wrong[] = {
        "",        "127.0.0.1",       "127.0.0.1:",    "127.0.0.1:0",
        "host:1",  "127.0.0.1:65536", "127.0.0.1:1x",  "::1:80",
        "[::1]80", "[::1:80",         "127.0.0.256:1", "127.0.0.1:01"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(skep_address_parse(wrong[i], &address));
    }
    assert_string_equal(address.host, "::1");
}

struct answer {
    size_t count;
    struct skep_address addresses[4];
    bool finished;
};

static void remember(void *user, const struct skep_address *addresses, size_t count, bool finished)
{
    struct answer *answer = user;
    for (size_t i = 0; i < count; i++) {
        answer->addresses[answer->count++] = addresses[i];
    }
    answer->finished = finished;
}

static void what_is_announced_in_memory_is_found_until_its_announcer_leaves(void **state)
{
    (void)state;
    struct skep_directory_table *table = skep_directory_table_new();
    struct skep_directory *first = skep_directory_memory(table, "127.0.0.1");
    struct skep_directory *second = skep_directory_memory(table, "127.0.0.2");
    struct skep_directory_key key = skep_directory_key_of(&PROJECT, NULL);
    struct skep_directory_key other = skep_directory_key_of(&PROJECT, "trunk");
    skep_directory_announce(first, &key, 1);
    skep_directory_announce(first, &key, 2); /* again, with another port */
    skep_directory_announce(second, &key, 3);
    assert_int_equal(skep_directory_nodes(first), 1);
    struct answer answer = {0};
    skep_directory_look_up(second, &key, remember, &answer);
    assert_true(answer.finished);
    assert_int_equal(answer.count, 2);
    assert_int_equal(answer.addresses[0].port, 2);
    answer = (struct answer){0};
    skep_directory_look_up(second, &other, remember, &answer);
    assert_true(answer.finished && answer.count == 0);
    skep_directory_close(first);
    answer = (struct answer){0};
    skep_directory_look_up(second, &key, remember, &answer);
    assert_int_equal(answer.count, 1);
    assert_string_equal(answer.addresses[0].host, "127.0.0.2");
    skep_directory_close(second);
    skep_directory_table_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_sha_1_over_skep_project_and_part),
        cmocka_unit_test(addresses_are_numeric_with_a_port),
        cmocka_unit_test(what_is_announced_in_memory_is_found_until_its_announcer_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
