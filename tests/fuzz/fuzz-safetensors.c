/*
 * safetensors files: the views cover the file's data once and in order, and what is read is written and read again the same; what was
 * canonical comes back to the byte.
 */
#include "common/wire/safetensors.h"
#include "tests/fuzz/fuzz.h"

const char *const fuzz_sentence =
    "safetensors files from strangers are refused or come back the same";

static void check_views(const struct skep_tensor_view *views, size_t count, const uint8_t *data,
                        size_t size)
{
    const uint8_t *at = data + 8 + skep_get_u64(data);
    for (size_t t = 0; t < count; t++) {
        const struct skep_tensor_view *view = &views[t];
        size_t values = 1;
        FUZZ_CHECK(view->dim_count <= SKEP_LIMIT_TENSOR_DIMS);
        for (uint32_t i = 0; i < view->dim_count; i++) {
            values *= view->dims[i];
        }
        FUZZ_CHECK(view->count == values && values > 0);
        FUZZ_CHECK(memchr(view->name, '\0', sizeof view->name) != NULL);
        FUZZ_CHECK(skep_tensor_view_find(views, count, view->name) == view);
        FUZZ_CHECK(view->data == at && 4 * view->count <= (size_t)(data + size - at));
        at += 4 * view->count;
    }
    FUZZ_CHECK(at == data + size);
}

/* The views' values in aligned memory, one array for all; `starts` point into it. */
static float *copy_values(const struct skep_tensor_view *views, size_t count, const float **starts)
{
    size_t total = 1;
    for (size_t t = 0; t < count; t++) {
        total += views[t].count;
    }
    float *values = calloc(total, sizeof *values);
    FUZZ_CHECK(values != NULL);
    float *at = values;
    for (size_t t = 0; t < count; t++) {
        starts[t] = at;
        skep_tensor_view_copy(&views[t], at);
        at += views[t].count;
    }
    return values;
}

static void write_views(const struct skep_tensor_view *views, size_t count,
                        struct skep_buffer *ret_file)
{
    const float **starts = calloc(count + 1, sizeof *starts);
    FUZZ_CHECK(starts != NULL);
    float *values = copy_values(views, count, starts);
    skep_safetensors_write(views, starts, count, ret_file);
    free(values);
    free(starts);
}

static void check_same(const struct skep_tensor_view *one, const struct skep_tensor_view *other)
{
    FUZZ_CHECK(strcmp(one->name, other->name) == 0);
    FUZZ_CHECK(one->dim_count == other->dim_count && one->count == other->count);
    FUZZ_CHECK(memcmp(one->dims, other->dims, sizeof one->dims) == 0);
    FUZZ_CHECK(memcmp(one->data, other->data, 4 * one->count) == 0);
}

static void check_again(const struct skep_tensor_view *views, size_t count, const uint8_t *data,
                        size_t size)
{
    struct skep_buffer file = {0};
    struct skep_buffer second = {0};
    write_views(views, count, &file);
    struct skep_tensor_view *again = NULL;
    size_t again_count = 0;
    FUZZ_CHECK(skep_safetensors_read(file.data, file.size, &again, &again_count, NULL) == SKEP_OK);
    FUZZ_CHECK(again_count == count);
    for (size_t t = 0; t < count; t++) {
        check_same(&views[t], &again[t]);
    }
    write_views(again, count, &second);
    FUZZ_CHECK(second.size == file.size && memcmp(second.data, file.data, file.size) == 0);
    /* Canonical: the header is the one that we write. */
    size_t header_size = 8 + skep_get_u64(file.data);
    if (size >= header_size && memcmp(data, file.data, header_size) == 0) {
        FUZZ_CHECK(size == file.size && memcmp(data, file.data, size) == 0);
    }
    free(again);
    skep_buffer_done(&second);
    skep_buffer_done(&file);
}

/* Who wants one tensor gets it, or a refusal for the file's size alone. */
static void check_few(const uint8_t *data, size_t size, size_t count)
{
    struct skep_tensor_view *few = NULL;
    size_t few_count = 0;
    int rc = skep_safetensors_read_few(data, size, 1, &few, &few_count, NULL);
    FUZZ_CHECK(rc == SKEP_ERR_TOO_LARGE || (rc == SKEP_OK && count <= 1 && few_count == count));
    free(few);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct skep_tensor_view *views = NULL;
    size_t count = 0;
    struct skep_error err = {0};
    if (skep_safetensors_read(data, size, &views, &count, &err) != SKEP_OK) {
        FUZZ_CHECK(err.text[0] != '\0' && views == NULL);
        return 0;
    }
    check_views(views, count, data, size);
    check_again(views, count, data, size);
    check_few(data, size, count);
    free(views);
    return 0;
}
