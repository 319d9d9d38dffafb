/* safetensors: the golden file, and headers that lie. */
#include "common/wire/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "tests/lib/cmocka.h"
#include "tests/lib/vectors.h"

static void the_writer_writes_the_golden_bytes(void **state)
{
    (void)state;
    const struct skep_tensor_view tensors[2] = {
        {.name = "head.bias", .dims = {3}, .dim_count = 1, .count = 3},
        {.name = "head.weight", .dims = {2, 1}, .dim_count = 2, .count = 2},
    };
    const float bias[3] = {1, -2, 0.5f};
    const float weight[2] = {-0.0f, 1e-40f};
    const float *const values[2] = {bias, weight};
    struct skep_buffer file = {0};
    struct skep_buffer golden = {0};
    skep_safetensors_write(tensors, values, 2, &file);
    skep_test_vector_read("state.safetensors.hex", &golden);
    assert_int_equal(file.size, golden.size);
    assert_memory_equal(file.data, golden.data, golden.size);
    assert_int_equal(skep_get_u64(file.data) % 8, 0);
    skep_buffer_done(&file);
    skep_buffer_done(&golden);
}

static void the_reader_reads_the_golden_bytes(void **state)
{
    (void)state;
    struct skep_buffer golden = {0};
    skep_test_vector_read("state.safetensors.hex", &golden);
    struct skep_tensor_view *views = NULL;
    size_t count = 0;
    struct skep_error err = {0};
    int rc = skep_safetensors_read(golden.data, golden.size, &views, &count, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, SKEP_OK);
    assert_int_equal(count, 2);
    assert_string_equal(views[0].name, "head.bias");
    assert_int_equal(views[1].dim_count, 2);
    assert_int_equal(views[1].dims[0], 2);
    assert_int_equal(views[1].count, 2);
    assert_true(skep_get_f32(views[0].data + 4) == -2);
    assert_true(skep_get_f32(views[1].data + 4) == 1e-40f);
    free(views);
    skep_buffer_done(&golden);
}

static void any_size_of_tensor_comes_back(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    static float values[COUNT];
    struct skep_rng rng = skep_rng_of(1);
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = (float)skep_rng_unit(&rng);
    }
    for (uint32_t size = 1; size < COUNT; size += 511) {
        const struct skep_tensor_view tensor = {
            .name = "x", .dims = {1, size, 1, 1}, .dim_count = 4, .count = size};
        const float *const all[1] = {values};
        struct skep_buffer file = {0};
        skep_safetensors_write(&tensor, all, 1, &file);
        struct skep_tensor_view *views = NULL;
        size_t count = 0;
        assert_int_equal(skep_safetensors_read(file.data, file.size, &views, &count, NULL),
                         SKEP_OK);
        for (uint32_t i = 0; i < size; i++) {
            assert_true(skep_get_f32(views[0].data + 4 * (size_t)i) == values[i]);
        }
        free(views);
        skep_buffer_done(&file);
    }
}

/* Reads a file of this header and `data_size` zeros; the block has the exact size, so that a sanitizer sees what lies beyond. */
static int read_text(const char *header, size_t data_size, struct skep_error *err,
                     size_t *ret_count)
{
    size_t size = 8 + strlen(header) + data_size;
    uint8_t *file = skep_alloc(size, 1);
    skep_put_u64(file, strlen(header));
    memcpy(file + 8, header, strlen(header));
    struct skep_tensor_view *views = NULL;
    int rc = skep_safetensors_read(file, size, &views, ret_count, err);
    free(views);
    free(file);
    return rc;
}

static void headers_of_other_programs_are_read(void **state)
{
    (void)state;
    size_t count = 9;
    assert_int_equal(read_text("{}", 0, NULL, &count), SKEP_OK);
    assert_int_equal(count, 0);
    /* No metadata, padding, tensors not in order of their data, other order of fields, a single number. */
    assert_int_equal(read_text("{\"b\":{\"data_offsets\":[4,12],\"dtype\":\"F32\",\"shape\":[2]},"
                               "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}   ",
                               12, NULL, &count),
                     SKEP_OK);
    assert_int_equal(count, 2);
    assert_int_equal(read_text("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                               "\"__metadata__\":{\"any\":\"thing\"}}",
                               4, NULL, &count),
                     SKEP_OK);
    assert_int_equal(count, 1);
}

static void refuse(const char *header, size_t data_size, const char *part)
{
    struct skep_error err = {0};
    size_t count = 77;
    int rc = read_text(header, data_size, &err, &count);
    assert_true(rc == SKEP_ERR_FORMAT || rc == SKEP_ERR_TOO_LARGE);
    if (strstr(err.text, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    }
    assert_int_equal(count, 77);
}

static void headers_that_are_none_are_refused(void **state)
{
    (void)state;
    refuse("", 0, "does not begin with {");
    refuse("   {}", 0, "does not begin with {");
    refuse("[]", 0, "does not begin with {");
    refuse("{\"a\"", 0, "safetensors header");
    refuse("{} {}", 0, "safetensors header");
    refuse("{\"a\":7}", 0, "tensor a");
    refuse("{\"a\":{}}", 0, "tensor a");
    refuse("{\"__metadata__\":{\"a\":7}}", 0, "__metadata__ has a value that is no text");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4,
           "more");
}

static void other_kinds_of_numbers_are_refused(void **state)
{
    (void)state;
    refuse("{\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
           "tensor a: dtype is BF16; allowed: F32");
    refuse("{\"a\":{\"dtype\":32,\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "dtype");
}

static void names_that_repeat_or_deceive_are_refused(void **state)
{
    (void)state;
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
           "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
           8, "safetensors header");
    refuse("{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "name");
    refuse("{\"a b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "name");
    refuse("{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
           "safetensors header");
    char header[400] = "{\"";
    memset(header + 2, 'x', 128);
    strcpy(header + 130, "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}");
    refuse(header, 4, "a tensor's name has 128 characters");
}

static void shapes_that_overflow_are_refused(void **state)
{
    (void)state;
    const char *const wrong[] = {"[0]",
                                 "[-1]",
                                 "[1.5]",
                                 "[\"1\"]",
                                 "[4294967296]",
                                 "[65536,65536,65536,65536]",
                                 "[268435456,268435456]",
                                 "[9223372036854775807]",
                                 "[1,1,1,1,1]",
                                 "1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char header[200];
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[0,4]}}", wrong[i]);
        refuse(header, 4, "shape");
    }
}

static void refuse_offsets(const char *first, const char *second, const char *part)
{
    char header[300];
    snprintf(header, sizeof header,
             "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":%s},"
             "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":%s}}",
             first, second);
    refuse(header, 12, part);
}

static void offsets_that_overlap_or_leave_gaps_are_refused(void **state)
{
    (void)state;
    refuse_offsets("[0,4]", "[0,8]",
                   "its data begins at byte 0, before the end of the data before it at");
    refuse_offsets(
        "[0,4]", "[3,11]",
        "tensor b: its data begins at byte 3, before the end of the data before it at 4");
    refuse_offsets("[1,5]", "[5,13]", "data_offsets are not two rising integers from 0 to 12");
    refuse_offsets("[4,0]", "[4,12]", "tensor a: data_offsets are not two rising integers");
    refuse_offsets("[0,4,8]", "[4,12]", "data_offsets");
    refuse_offsets("[0]", "[4,12]", "data_offsets");
    refuse_offsets("[-4,0]", "[4,12]", "data_offsets");
    refuse_offsets("[0,8]", "[4,12]", "tensor a: data_offsets span 8 bytes; its shape needs 4");
    refuse_offsets("[0,1e0]", "[4,12]", "data_offsets");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8,
           "tensor a: its data begins at byte 4, not at the end of the data before it at 0");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8,
           "the tensors fill 4 bytes of data; the file has 8");
}

static void sizes_beyond_the_file_are_refused(void **state)
{
    (void)state;
    const uint64_t sizes[] = {3, 1u << 21, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t file[10] = "........{}";
        skep_put_u64(file, sizes[i]);
        struct skep_error err = {0};
        struct skep_tensor_view *views = NULL;
        size_t count = 0;
        assert_int_equal(skep_safetensors_read(file, sizeof file, &views, &count, &err),
                         SKEP_ERR_FORMAT);
        assert_non_null(strstr(err.text, "a file of 10 bytes has a header of"));
        assert_int_equal(skep_safetensors_read(file, 7, &views, &count, NULL), SKEP_ERR_FORMAT);
    }
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    struct skep_buffer golden = {0};
    skep_test_vector_read("state.safetensors.hex", &golden);
    for (size_t size = 0; size < golden.size; size++) {
        uint8_t *cut = skep_alloc(size + 1, 1);
        memcpy(cut, golden.data, size);
        struct skep_tensor_view *views = NULL;
        size_t count = 0;
        assert_int_equal(skep_safetensors_read(cut, size, &views, &count, NULL), SKEP_ERR_FORMAT);
        free(cut);
    }
    skep_buffer_done(&golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_writer_writes_the_golden_bytes),
        cmocka_unit_test(the_reader_reads_the_golden_bytes),
        cmocka_unit_test(any_size_of_tensor_comes_back),
        cmocka_unit_test(headers_of_other_programs_are_read),
        cmocka_unit_test(headers_that_are_none_are_refused),
        cmocka_unit_test(other_kinds_of_numbers_are_refused),
        cmocka_unit_test(names_that_repeat_or_deceive_are_refused),
        cmocka_unit_test(shapes_that_overflow_are_refused),
        cmocka_unit_test(offsets_that_overlap_or_leave_gaps_are_refused),
        cmocka_unit_test(sizes_beyond_the_file_are_refused),
        cmocka_unit_test(every_truncation_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
