/* Bytes, identities, errors and seeded numbers. */
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/rng.h"
#include "tests/lib/cmocka.h"

static void integers_are_little_endian(void **state)
{
    (void)state;
    uint8_t bytes[8];
    skep_put_u32(bytes, 0x01020304);
    assert_memory_equal(bytes, "\4\3\2\1", 4);
    skep_put_u64(bytes, 0x0102030405060708u);
    assert_int_equal(bytes[0], 8);
    assert_true(skep_get_u64(bytes) == 0x0102030405060708u);
    skep_put_f32(bytes, -1.5f);
    assert_true(skep_get_f32(bytes) == -1.5f);
}

static void many_floats_lie_as_one_does(void **state)
{
    (void)state;
    const float values[3] = {1.5f, -0.0f, 1e-40f};
    uint8_t bytes[12];
    uint8_t one[4];
    float again[3];
    skep_put_floats(bytes, values, 3);
    for (size_t i = 0; i < 3; i++) {
        skep_put_f32(one, values[i]);
        assert_memory_equal(bytes + 4 * i, one, 4);
    }
    skep_get_floats(bytes, 3, again);
    assert_memory_equal(again, values, sizeof values);
}

static void a_reader_stops_at_the_end_and_stays_failed(void **state)
{
    (void)state;
    struct skep_reader reader = skep_reader_of("\1\2\3", 3);
    assert_int_equal(skep_read_u16(&reader), 0x0201);
    assert_int_equal(skep_read_u32(&reader), 0);
    assert_true(reader.failed);
    assert_int_equal(skep_read_u8(&reader), 0);
}

static void a_buffer_refuses_what_is_beyond_its_limit(void **state)
{
    (void)state;
    struct skep_buffer buffer = {.limit = 4};
    assert_int_equal(skep_buffer_append(&buffer, "abc", 3), SKEP_OK);
    assert_int_equal(skep_buffer_append_u16(&buffer, 1), SKEP_ERR_TOO_LARGE);
    assert_int_equal(buffer.size, 3);
    skep_buffer_done(&buffer);
}

static void hexadecimal_has_one_form(void **state)
{
    (void)state;
    uint8_t bytes[2] = {9, 9};
    assert_false(skep_hex_decode("ABCD", bytes, 2));
    assert_false(skep_hex_decode("abc", bytes, 2));
    assert_false(skep_hex_decode("abcdef", bytes, 2));
    assert_int_equal(bytes[0], 9);
    assert_true(skep_hex_decode("00ff", bytes, 2));
    char text[5];
    skep_hex_encode(bytes, 2, text);
    assert_string_equal(text, "00ff");
}

static void shard_names_have_one_form(void **state)
{
    (void)state;
    struct skep_shard shard;
    assert_true(skep_shard_parse("ffn.3.0.65535", &shard));
    assert_int_equal(shard.layer, 3);
    char text[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(&shard, text);
    assert_string_equal(text, "ffn.3.0.65535");
    assert_true(skep_shard_parse("trunk", &shard));
    static const char *const wrong[] = {"",          "Trunk",         "ffn",
                                        "ffn.1.2",   "ffn.01.2.3",    "ffn.1.2.3.",
                                        "ffn.1.2.x", "ffn.1.2.65536", "ffn.-1.0.0"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(skep_shard_parse(wrong[i], &shard));
    }
}

static void seeded_numbers_are_the_published_ones(void **state)
{
    (void)state;
    /* SplitMix64 from seed 1234567, as its author's reference program prints it. */
    struct skep_rng rng = skep_rng_of(1234567);
    assert_true(skep_rng_next(&rng) == 6457827717110365317u);
    assert_true(skep_rng_next(&rng) == 3203168211198807973u);
    for (int i = 0; i < 1000; i++) {
        assert_true(skep_rng_below(&rng, 7) < 7);
        double unit = skep_rng_unit(&rng);
        assert_true(unit >= 0 && unit < 1);
    }
}

static void errors_gain_context_in_front(void **state)
{
    (void)state;
    struct skep_error err = {0};
    assert_int_equal(skep_error_set(&err, SKEP_ERR_STALE, "version %d", 3), SKEP_ERR_STALE);
    assert_int_equal(skep_error_prefix(&err, "trunk"), SKEP_ERR_STALE);
    assert_string_equal(err.text, "trunk: version 3");
    assert_string_equal(skep_err_name(SKEP_ERR_TOO_LARGE), "too-large");
    assert_int_equal(skep_error_set(NULL, SKEP_ERR_IO, "unheard"), SKEP_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_little_endian),
        cmocka_unit_test(many_floats_lie_as_one_does),
        cmocka_unit_test(a_reader_stops_at_the_end_and_stays_failed),
        cmocka_unit_test(a_buffer_refuses_what_is_beyond_its_limit),
        cmocka_unit_test(hexadecimal_has_one_form),
        cmocka_unit_test(shard_names_have_one_form),
        cmocka_unit_test(seeded_numbers_are_the_published_ones),
        cmocka_unit_test(errors_gain_context_in_front),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
