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

static void a_frame_that_is_filled_in_is_the_same_file(void **state)
{
    (void)state;
    const struct skep_tensor_view tensors[2] = {
        {.name = "head.bias", .dims = {3}, .dim_count = 1, .count = 3},
        {.name = "head.weight", .dims = {2, 1}, .dim_count = 2, .count = 2},
    };
    struct skep_buffer file = {0};
    struct skep_buffer golden = {0};
    uint8_t *places[2];
    struct skep_error err = {0};
    assert_int_equal(skep_safetensors_frame(tensors, 2, &file, places, &err), SKEP_OK);
    skep_put_floats(places[0], (const float[]){1, -2, 0.5f}, 3);
    skep_put_floats(places[1], (const float[]){-0.0f, 1e-40f}, 2);
    skep_test_vector_read("state.safetensors.hex", &golden);
    assert_int_equal(file.size, golden.size);
    assert_memory_equal(file.data, golden.data, golden.size);
    skep_buffer_done(&file);
    skep_buffer_done(&golden);
    const struct skep_tensor_view huge = {
        .name = "x", .dims = {1 << 29}, .dim_count = 1, .count = (size_t)1 << 29};
    assert_int_equal(skep_safetensors_frame(&huge, 1, &file, places, &err), SKEP_ERR_TOO_LARGE);
    assert_non_null(strstr(err.text, "from x on hold more than 268435456 values"));
    const struct skep_tensor_view full = {
        .name = "x", .dims = {1 << 28}, .dim_count = 1, .count = (size_t)1 << 28};
    assert_int_equal(skep_safetensors_frame(&full, 1, &file, places, &err), SKEP_ERR_TOO_LARGE);
    assert_non_null(strstr(err.text, "the file would have 10737419"));
    assert_null(file.data);
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

static void the_reader_reads_what_the_reference_implementation_writes(void **state)
{
    (void)state;
    /* These bytes stand in its own tests, for the values 0 to 5: no metadata, compact JSON, padded with spaces. */
    struct skep_buffer golden = {0};
    skep_test_vector_read("foreign.safetensors.hex", &golden);
    struct skep_tensor_view *views = NULL;
    size_t count = 0;
    struct skep_error err = {0};
    skep_safetensors_read(golden.data, golden.size, &views, &count, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(count, 1);
    assert_string_equal(views[0].name, "attn0");
    const uint32_t dims[4] = {1, 1, 2, 3};
    assert_memory_equal(views[0].dims, dims, sizeof dims);
    float values[6] = {0};
    skep_tensor_view_copy(&views[0], values);
    for (int i = 0; i < 6; i++) {
        assert_true(values[i] == (float)i);
    }
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
    refuse("{} \t\n ,", 0, "safetensors header");
    refuse("{\"__metadata__\":{\"a\":7}}", 0, "\"a\" in __metadata__ is no text");
    refuse("{\"__metadata__\":{\"a\":{}}}", 0, "\"a\" in __metadata__ is no text");
    refuse("{\"__metadata__\":7}", 0, "field __metadata__ is 7; allowed: an object");
    refuse("{\"__metadata__\":[]}", 0, "field __metadata__ is an array of 0 items");
    refuse("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate object key");
    refuse("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "duplicate object key");
    refuse("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
           "duplicate object key");
    refuse("{\"__metadata__\":{\"a\":\"\xc3(\"}}", 0, "safetensors header is not JSON");
    refuse("{\"a\":[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]}", 0, "nested deeper than 16 levels");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4,
           "more");
}

static void other_kinds_of_numbers_are_refused(void **state)
{
    (void)state;
    refuse("{\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
           "tensor a: dtype is BF16; allowed: F32");
    refuse("{\"a\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype is f32");
    refuse("{\"a\":{\"dtype\":\"\\u001b[31m\\u20ac\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
           "tensor a: dtype is ?[31m???; allowed: F32");
    refuse("{\"a\":{\"dtype\":\"0123456789012345678901234567890123456789\",\"shape\":[1],"
           "\"data_offsets\":[0,4]}}",
           4, "tensor a: dtype is 012345678901234567890123456789012345...; allowed: F32");
    refuse("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor a: field dtype is missing");
    refuse("{\"a\":{\"dtype\":32,\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "dtype");
}

static void names_that_repeat_or_deceive_are_refused(void **state)
{
    (void)state;
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
           "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
           8, "safetensors header");
    refuse("{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "name");
    refuse("{\"\\u001b[0m\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
           "the tensor name \"?[0m\" has 4 bytes");
    refuse("{\"caf\xc3\xa9\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
           "the tensor name \"caf??\" has 5 bytes");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"\\u001b\":1}}", 4,
           "tensor a: unknown field \"\\u001B\" with value 1; allowed: dtype");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":\"\x7f\",\"data_offsets\":[0,4]}}", 4,
           "tensor a: field shape is \"?\"; allowed: an array");
    refuse("{\"a b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "name");
    refuse("{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
           "safetensors header");
    char header[400] = "{\"";
    memset(header + 2, 'x', 128);
    strcpy(header + 130, "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}");
    refuse(header, 4, "has 128 bytes; expected 1 to 127 ASCII letters");
}

static void shapes_that_overflow_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        const char *part;
    } wrong[] = {
        {"[0]", "tensor a: axis 0 of its shape is 0; expected 1 or more"},
        {"[2,0]", "tensor a: axis 1 of its shape is 0; expected 1 or more"},
        {"[-1]", "tensor a: axis 0 of its shape is -1; expected 1 or more"},
        {"[1.5]", "tensor a: axis 0 of its shape is no integer"},
        {"[1,\"1\"]", "tensor a: axis 1 of its shape is no integer"},
        {"[null]", "tensor a: axis 0 of its shape is no integer"},
        {"[4294967297]",
         "axis 0 of its shape is 4294967297; expected 1 or more, and up to 268435456"},
        {"[65536,65536,65536,65536]", "axis 1 of its shape is 65536"},
        {"[268435456,268435456]", "axis 1 of its shape is 268435456"},
        {"[9223372036854775807]", "axis 0 of its shape is 9223372036854775807"},
        {"[9223372036854775808]", "safetensors header is not JSON"},
        {"[268435456]", "tensor a: data_offsets span 4 bytes; its shape needs 1073741824"},
        {"[1,1,1,1,1]",
         "tensor a: field shape is an array of 5 items; allowed: an array of at most 4"},
        {"1", "tensor a: field shape is 1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char header[200];
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[0,4]}}", wrong[i].shape);
        refuse(header, 4, wrong[i].part);
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
    refuse_offsets(
        "[1,5]", "[5,13]",
        "tensor b: data_offsets are 5 and 13; expected two rising integers from 0 to 12");
    refuse_offsets("[4,0]", "[4,12]", "tensor a: data_offsets are 4 and 0; expected two rising");
    refuse_offsets("[0,4,8]", "[4,12]", "tensor a: field data_offsets is an array of 3 items");
    refuse_offsets("[0]", "[4,12]", "tensor a: data_offsets are not two integers");
    refuse_offsets("[]", "[4,12]", "tensor a: data_offsets are not two integers");
    refuse_offsets("[0,\"4\"]", "[4,12]", "tensor a: data_offsets are not two integers");
    refuse_offsets("[-4,0]", "[4,12]", "tensor a: data_offsets are -4 and 0; expected two rising");
    refuse_offsets("[-9223372036854775808,9223372036854775807]", "[4,12]",
                   "tensor a: data_offsets are -9223372036854775808 and 9223372036854775807");
    refuse_offsets("[9223372036854775803,9223372036854775807]", "[4,12]", "expected two rising");
    refuse_offsets("[0,4]", "[0,4]", "tensor b: data_offsets span 4 bytes; its shape needs 8");

    refuse_offsets("[0,8]", "[4,12]", "tensor a: data_offsets span 8 bytes; its shape needs 4");
    refuse_offsets("[0,1e0]", "[4,12]", "data_offsets");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8,
           "tensor a: its data begins at byte 4, not at the end of the data before it at 0");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8,
           "the tensors fill 4 bytes of data; the file has 8");
}

/* A file of `size` bytes whose first eight say a header of `header_size`; the rest is spaces after a {. */
static void refuse_sizes(size_t size, uint64_t header_size, int expected, const char *part)
{
    uint8_t *file = skep_alloc(size, 1);
    memset(file, ' ', size);
    if (size > 8) {
        skep_put_u64(file, header_size);
        file[8] = '{';
    }
    struct skep_error err = {0};
    struct skep_tensor_view *views = NULL;
    size_t count = 77;
    assert_int_equal(skep_safetensors_read(file, size, &views, &count, &err), expected);
    if (strstr(err.text, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    }
    assert_true(views == NULL && count == 77 && err.code == (enum skep_err)expected);
    free(file);
}

static void header_sizes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    refuse_sizes(1, 0, SKEP_ERR_FORMAT, "the file has 1 bytes; expected 8");
    refuse_sizes(7, 0, SKEP_ERR_FORMAT, "the file has 7 bytes; expected 8");
    refuse_sizes(10, 0, SKEP_ERR_FORMAT, "the header of 0 bytes does not begin with {");
    refuse_sizes(10, 3, SKEP_ERR_FORMAT, "the header has 3 bytes; the file has 2 after");
    refuse_sizes(10, UINT64_MAX, SKEP_ERR_FORMAT, "the header has 18446744073709551615 bytes");
    refuse_sizes(10, UINT64_MAX - 7, SKEP_ERR_FORMAT, "the header has 18446744073709551608 bytes");
    refuse_sizes(10, (uint64_t)1 << 63, SKEP_ERR_FORMAT,
                 "the header has 9223372036854775808 bytes");
    refuse_sizes(10, 100000000, SKEP_ERR_FORMAT, "the header has 100000000 bytes; the file has 2");
    refuse_sizes((1u << 20) + 5000, (1u << 20) + 4097, SKEP_ERR_TOO_LARGE,
                 "the header has 1052673 bytes; allowed: up to 1052672");
    struct skep_error err = {0};
    struct skep_tensor_view *views = NULL;
    size_t count = 0;
    assert_int_equal(skep_safetensors_read(NULL, 0, &views, &count, &err), SKEP_ERR_FORMAT);
    /* Refused by its size alone: the bytes are not there. */
    assert_int_equal(skep_safetensors_read("", SKEP_LIMIT_STATE_BYTES + 1u, &views, &count, &err),
                     SKEP_ERR_TOO_LARGE);
    assert_non_null(strstr(err.text, "the file has 1073741825 bytes; allowed: up to 1073741824"));
}

/* `count` tensors of one value each in reversed order, read; their header has to fit its limit. */
static int read_many(uint32_t count, struct skep_error *err, size_t *ret_count)
{
    struct skep_buffer header = {0};
    for (uint32_t i = 0; i < count; i++) {
        char text[100];
        uint32_t begin = 4 * (count - 1 - i);
        snprintf(text, sizeof text,
                 "%s\"t%u\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[%u,%u]}",
                 i == 0 ? "{" : ",", i, begin, begin + 4);
        skep_buffer_append_text(&header, text);
    }
    skep_buffer_append(&header, "}", 2);
    int rc = read_text((const char *)header.data, 4 * (size_t)count, err, ret_count);
    skep_buffer_done(&header);
    return rc;
}

static void as_many_tensors_as_allowed_are_read_and_no_more(void **state)
{
    (void)state;
    size_t count = 0;
    struct skep_error err = {0};
    assert_int_equal(read_many(SKEP_LIMIT_TENSORS, &err, &count), SKEP_OK);
    assert_int_equal(count, SKEP_LIMIT_TENSORS);
    assert_int_equal(read_many(SKEP_LIMIT_TENSORS + 1, &err, &count), SKEP_ERR_TOO_LARGE);
    assert_non_null(strstr(err.text, "the file has 4097 tensors; allowed: up to 4096"));
}

static void views_are_found_by_name_and_copied_from_any_address(void **state)
{
    (void)state;
    static const char header[] =
        "{\"b\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[4,12]},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}";
    const float values[3] = {1.5f, -0.0f, 3e38f};
    for (size_t shift = 0; shift < 4; shift++) {
        uint8_t *memory = skep_alloc(shift + 8 + sizeof header - 1 + 12, 1);
        uint8_t *file = memory + shift;
        skep_put_u64(file, sizeof header - 1);
        memcpy(file + 8, header, sizeof header - 1);
        for (size_t i = 0; i < 3; i++) {
            skep_put_f32(file + 8 + sizeof header - 1 + 4 * i, values[i]);
        }
        struct skep_tensor_view *views = NULL;
        size_t count = 0;
        assert_int_equal(
            skep_safetensors_read(file, 8 + sizeof header - 1 + 12, &views, &count, NULL), SKEP_OK);
        assert_string_equal(views[0].name, "a");
        const struct skep_tensor_view *b = skep_tensor_view_find(views, count, "b");
        assert_ptr_equal(b, &views[1]);
        assert_true(b->dim_count == 2 && b->dims[0] == 1 && b->dims[1] == 2 && b->dims[2] == 0);
        float copy[2];
        skep_tensor_view_copy(b, copy);
        assert_memory_equal(copy, values + 1, sizeof copy);
        assert_null(skep_tensor_view_find(views, count, "c"));
        free(views);
        free(memory);
    }
}

static void a_reader_of_few_tensors_refuses_more(void **state)
{
    (void)state;
    struct skep_buffer golden = {0};
    skep_test_vector_read("state.safetensors.hex", &golden);
    struct skep_tensor_view *views = NULL;
    size_t count = 77;
    struct skep_error err = {0};
    assert_int_equal(skep_safetensors_read_few(golden.data, golden.size, 1, &views, &count, &err),
                     SKEP_ERR_TOO_LARGE);
    assert_string_equal(err.text, "safetensors: the file has 2 tensors; allowed: up to 1");
    assert_true(views == NULL && count == 77);
    assert_int_equal(skep_safetensors_read_few(golden.data, golden.size, 2, &views, &count, &err),
                     SKEP_OK);
    assert_int_equal(count, 2);
    free(views);
    skep_buffer_done(&golden);
    /* The header's limit is looked at before the header. */
    uint8_t *file = skep_alloc(5000, 1);
    skep_put_u64(file, 4096 + 256 + 1);
    assert_int_equal(skep_safetensors_read_few(file, 5000, 1, &views, &count, &err),
                     SKEP_ERR_TOO_LARGE);
    assert_string_equal(err.text, "safetensors: the header has 4353 bytes; allowed: up to 4352");
    free(file);
}

static size_t allocations_until_failure;

/* NOLINTBEGIN(bugprone-reserved-identifier): the names that the linker's --wrap gives */
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    if (allocations_until_failure > 0 && --allocations_until_failure == 0) {
        return NULL;
    }
    return __real_calloc(count, size);
}
/* NOLINTEND(bugprone-reserved-identifier) */

static void every_allocation_that_fails_is_told(void **state)
{
    (void)state;
    struct skep_buffer golden = {0};
    skep_test_vector_read("state.safetensors.hex", &golden);
    struct skep_tensor_view *views = NULL;
    size_t count = 77;
    size_t failures = 0;
    for (int rc = SKEP_ERR_MEMORY; rc != SKEP_OK;) {
        struct skep_error err = {0};
        allocations_until_failure = failures + 1;
        rc = skep_safetensors_read(golden.data, golden.size, &views, &count, &err);
        if (rc != SKEP_OK) {
            failures++;
            assert_int_equal(rc, SKEP_ERR_MEMORY);
            assert_true(views == NULL && count == 77 && strstr(err.text, "no memory") != NULL);
        }
    }
    allocations_until_failure = 0;
    assert_int_equal(failures, 1); /* the views, and nothing for their data */
    struct skep_buffer file = {0};
    uint8_t *places[2] = {NULL, NULL};
    struct skep_error err = {0};
    allocations_until_failure = 1;
    assert_int_equal(skep_safetensors_frame(views, count, &file, places, &err), SKEP_ERR_MEMORY);
    assert_true(file.data == NULL && places[0] == NULL && strstr(err.text, "no memory") != NULL);
    free(views);
    skep_buffer_done(&golden);
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
        cmocka_unit_test(a_frame_that_is_filled_in_is_the_same_file),
        cmocka_unit_test(the_reader_reads_the_golden_bytes),
        cmocka_unit_test(the_reader_reads_what_the_reference_implementation_writes),
        cmocka_unit_test(any_size_of_tensor_comes_back),
        cmocka_unit_test(headers_of_other_programs_are_read),
        cmocka_unit_test(headers_that_are_none_are_refused),
        cmocka_unit_test(other_kinds_of_numbers_are_refused),
        cmocka_unit_test(names_that_repeat_or_deceive_are_refused),
        cmocka_unit_test(shapes_that_overflow_are_refused),
        cmocka_unit_test(offsets_that_overlap_or_leave_gaps_are_refused),
        cmocka_unit_test(header_sizes_that_cannot_be_are_refused),
        cmocka_unit_test(as_many_tensors_as_allowed_are_read_and_no_more),
        cmocka_unit_test(views_are_found_by_name_and_copied_from_any_address),
        cmocka_unit_test(a_reader_of_few_tensors_refuses_more),
        cmocka_unit_test(every_allocation_that_fails_is_told),
        cmocka_unit_test(every_truncation_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
