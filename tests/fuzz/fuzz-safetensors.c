/* safetensors files: every view lies inside the file, and what is read is written and read again the same. */
#include "common/wire/safetensors.h"
#include "tests/fuzz/fuzz.h"

const char *const fuzz_sentence =
    "safetensors files from strangers are refused or come back the same";

static void check_views(const struct skep_tensor_view *views, size_t count, const uint8_t *data,
                        size_t size)
{
    for (size_t t = 0; t < count; t++) {
        const struct skep_tensor_view *view = &views[t];
        size_t values = 1;
        FUZZ_CHECK(view->dim_count <= SKEP_LIMIT_TENSOR_DIMS);
        for (uint32_t i = 0; i < view->dim_count; i++) {
            values *= view->dims[i];
        }
        FUZZ_CHECK(view->count == values);
        FUZZ_CHECK(memchr(view->name, '\0', sizeof view->name) != NULL);
        FUZZ_CHECK(view->data >= data && 4 * view->count <= (size_t)(data + size - view->data));
    }
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
        memcpy(at, views[t].data, 4 * views[t].count);
        at += views[t].count;
    }
    return values;
}

static void check_again(const struct skep_tensor_view *views, size_t count)
{
    const float **starts = calloc(count + 1, sizeof *starts);
    FUZZ_CHECK(starts != NULL);
    float *values = copy_values(views, count, starts);
    struct skep_buffer file = {0};
    skep_safetensors_write(views, starts, count, &file);
    struct skep_tensor_view *again = NULL;
    size_t again_count = 0;
    FUZZ_CHECK(skep_safetensors_read(file.data, file.size, &again, &again_count, NULL) == SKEP_OK);
    FUZZ_CHECK(again_count == count);
    for (size_t t = 0; t < count; t++) {
        FUZZ_CHECK(again[t].dim_count == views[t].dim_count && again[t].count == views[t].count);
        FUZZ_CHECK(memcmp(again[t].data, views[t].data, 4 * views[t].count) == 0);
    }
    free(again);
    skep_buffer_done(&file);
    free(values);
    free(starts);
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
    check_again(views, count);
    free(views);
    return 0;
}
