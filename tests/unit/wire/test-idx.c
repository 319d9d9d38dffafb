/* IDX files and gzip files: what is read, and what is said about each kind of damage. */
#include "common/wire/idx.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/wire/gzip.h"
#include "tests/lib/cmocka.h"

/* Two inputs of 1 x 3 bytes, and their classes. */
static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 9, 0};

/* The text "skep skep\n", by gzip -9n. */
static const uint8_t packed[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xff,
                                 0x2b, 0xce, 0x4e, 0x2d, 0x50, 0x28, 0x06, 0x12, 0x5c, 0x00,
                                 0x68, 0x41, 0xae, 0x80, 0x0a, 0x00, 0x00, 0x00};

static void refuse(const void *data, size_t size, const char *sentence)
{
    struct skep_idx idx = {.name = "untouched"};
    struct skep_error err = {0};
    uint8_t *exact = malloc(size + 1); /* where a reader of too much is caught */
    assert_non_null(exact);
    memcpy(exact, data, size);
    assert_int_equal(skep_idx_parse("f.idx", exact, size, &idx, &err), SKEP_ERR_FORMAT);
    assert_string_equal(err.text, sentence);
    assert_string_equal(idx.name, "untouched");
    free(exact);
}

static void two_files_make_records(void **state)
{
    (void)state;
    struct skep_idx inputs;
    struct skep_idx classes;
    struct skep_buffer records = {0};
    assert_int_equal(skep_idx_parse("i", images, sizeof images, &inputs, NULL), SKEP_OK);
    assert_int_equal(skep_idx_parse("l", labels, sizeof labels, &classes, NULL), SKEP_OK);
    assert_int_equal(inputs.count, 2);
    assert_int_equal(inputs.item_bytes, 3);
    assert_int_equal(inputs.dim_count, 3);
    assert_int_equal(classes.item_bytes, 1);
    assert_int_equal(skep_idx_records(&inputs, &classes, 3, 10, &records, NULL), SKEP_OK);
    static const uint8_t expected[] = {1, 2, 3, 9, 4, 5, 6, 0};
    assert_int_equal(records.size, sizeof expected);
    assert_memory_equal(records.data, expected, sizeof expected);
    skep_buffer_done(&records);
}

static void damaged_files_are_refused_with_what_was_found(void **state)
{
    (void)state;
    refuse("", 0,
           "f.idx is no IDX file: it begins with 00 00 in 0 bytes; expected: 00 00, a type "
           "and a number of dimensions");
    refuse("\x89PNG\r\n", 6,
           "f.idx is no IDX file: it begins with 89 50 in 6 bytes; expected: 00 "
           "00, a type and a number of dimensions");
    refuse("\0\0\x0d\1\0\0\0\0", 8,
           "f.idx has values of IDX type 0x0d; allowed: 0x08, unsigned bytes");
    refuse("\0\0\x08\0", 4, "f.idx has 0 dimensions; allowed: 1 to 4");
    refuse("\0\0\x08\5", 4, "f.idx has 5 dimensions; allowed: 1 to 4");
    refuse(images, 15, "f.idx is cut off after 15 bytes, within the sizes of its 3 dimensions");
    refuse(images, sizeof images - 1,
           "f.idx is cut off: it holds 5 bytes of values; its sizes promise 6 (2 items of 3)");
    uint8_t longer[sizeof images + 1] = {0};
    memcpy(longer, images, sizeof images);
    refuse(longer, sizeof longer,
           "f.idx is too long: it holds 7 bytes of values; its sizes promise 6 (2 items of 3)");
}

static void sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    uint8_t file[20] = {0, 0, 8, 4};
    memset(file + 4, 0xff, 16);
    refuse(file, sizeof file, "f.idx promises more values than 64 bits can count; it has 20 bytes");
    /* 2^16 items of 2^48 bytes: the product is 2^64, which would wrap to 0. */
    static const uint8_t wraps[20] = {0, 0, 8, 4, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
    refuse(wraps, sizeof wraps,
           "f.idx promises more values than 64 bits can count; it has 20 bytes");
    /* With no items the others' product does not matter, unless it overflows. */
    memset(file + 4, 0, 4);
    refuse(file, sizeof file, "f.idx promises more values than 64 bits can count; it has 20 bytes");
}

static void refuse_pair(const struct skep_idx *inputs, const struct skep_idx *classes,
                        uint32_t input_bytes, uint32_t class_count, const char *sentence)
{
    struct skep_buffer records = {0};
    struct skep_error err = {0};
    assert_int_equal(skep_idx_records(inputs, classes, input_bytes, class_count, &records, &err),
                     SKEP_ERR_FORMAT);
    assert_string_equal(err.text, sentence);
    assert_int_equal(records.size, 0);
}

static void files_that_do_not_fit_each_other_are_refused(void **state)
{
    (void)state;
    struct skep_idx inputs;
    struct skep_idx classes;
    assert_int_equal(skep_idx_parse("i", images, sizeof images, &inputs, NULL), SKEP_OK);
    assert_int_equal(skep_idx_parse("l", labels, sizeof labels, &classes, NULL), SKEP_OK);
    refuse_pair(&inputs, &classes, 784, 10, "i has items of 3 bytes; expected: model.inputs, 784");
    refuse_pair(&inputs, &inputs, 3, 10, "i has 3 dimensions; expected: 1, a class for each input");
    refuse_pair(&inputs, &classes, 3, 9,
                "l: record 0 has class 9; allowed: 0 to 8, below model.classes");
    classes.count = 1;
    refuse_pair(&inputs, &classes, 3, 10,
                "i has 2 items and l 1; expected: a class for each input");
    inputs.count = 0;
    refuse_pair(&inputs, &classes, 3, 10, "i holds no items; expected: 1 or more");
}

static void a_gzip_file_is_unpacked_member_by_member(void **state)
{
    (void)state;
    struct skep_buffer text = {0};
    struct skep_error err = {0};
    assert_true(skep_gzip_is(packed, sizeof packed));
    assert_false(skep_gzip_is(images, sizeof images));
    assert_false(skep_gzip_is(packed, 1));
    skep_gzip_unpack("f.gz", packed, sizeof packed, 10, &text, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(text.size, 10);
    assert_memory_equal(text.data, "skep skep\n", 10);
    skep_buffer_done(&text);
    uint8_t twice[2 * sizeof packed];
    memcpy(twice, packed, sizeof packed);
    memcpy(twice + sizeof packed, packed, sizeof packed);
    assert_int_equal(skep_gzip_unpack("f.gz", twice, sizeof twice, 20, &text, NULL), SKEP_OK);
    assert_int_equal(text.size, 20);
    skep_buffer_done(&text);
}

static void refuse_packed(const void *data, size_t size, size_t most, enum skep_err code,
                          const char *part)
{
    struct skep_buffer text = {0};
    struct skep_error err = {0};
    assert_int_equal(skep_gzip_unpack("f.gz", data, size, most, &text, &err), code);
    assert_null(text.data);
    if (strstr(err.text, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    }
}

static void a_broken_cut_or_too_large_gzip_file_is_refused(void **state)
{
    (void)state;
    uint8_t broken[sizeof packed + 2] = {0};
    for (size_t size = 2; size < sizeof packed; size++) {
        refuse_packed(packed, size, 100, SKEP_ERR_FORMAT, "f.gz is no whole gzip file: it is cut");
    }
    memcpy(broken, packed, sizeof packed);
    refuse_packed(broken, sizeof broken, 100, SKEP_ERR_FORMAT,
                  "f.gz is no whole gzip file: incorrect header check after 10 bytes");
    broken[sizeof packed - 5] ^= 1;
    refuse_packed(broken, sizeof packed, 100, SKEP_ERR_FORMAT, "incorrect data check");
    refuse_packed(packed, sizeof packed, 9, SKEP_ERR_TOO_LARGE,
                  "f.gz unpacks to more than 9 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_files_make_records),
        cmocka_unit_test(damaged_files_are_refused_with_what_was_found),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(files_that_do_not_fit_each_other_are_refused),
        cmocka_unit_test(a_gzip_file_is_unpacked_member_by_member),
        cmocka_unit_test(a_broken_cut_or_too_large_gzip_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
