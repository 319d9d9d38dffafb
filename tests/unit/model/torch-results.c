#include "tests/unit/model/torch-results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "tests/lib/cmocka.h"

void torch_open(struct torch_results *results, const char *name)
{
    char path[512];
    const char *source = getenv("SKEP_SOURCE");
    snprintf(path, sizeof path, "%s/tests/data/torch/%s.safetensors", source == NULL ? "." : source,
             name);
    *results = (struct torch_results){0};
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("%s does not open; run from the source tree or set SKEP_SOURCE", path);
        return;
    }
    uint8_t block[4096];
    for (size_t size = 1; size > 0;) {
        size = fread(block, 1, sizeof block, file);
        skep_buffer_append(&results->file, block, size);
    }
    fclose(file);
    struct skep_error err = {0};
    int rc = skep_safetensors_read(results->file.data, results->file.size, &results->views,
                                   &results->count, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, SKEP_OK);
}

void torch_close(struct torch_results *results)
{
    free(results->views);
    skep_buffer_done(&results->file);
}

const struct skep_tensor_view *torch_find(const struct torch_results *results, const char *group,
                                          const char *name)
{
    char whole[SKEP_LIMIT_TENSOR_NAME];
    snprintf(whole, sizeof whole, "%s%s%s", group == NULL ? "" : group, group == NULL ? "" : ".",
             name);
    for (size_t i = 0; i < results->count; i++) {
        if (strcmp(results->views[i].name, whole) == 0) {
            return &results->views[i];
        }
    }
    return NULL;
}

float *torch_values(const struct torch_results *results, const char *group, const char *name)
{
    const struct skep_tensor_view *view = torch_find(results, group, name);
    if (view == NULL) {
        fail_msg("no tensor %s of %s is recorded", name, group == NULL ? "the file" : group);
        return NULL;
    }
    float *values = skep_alloc(view->count, sizeof *values);
    for (size_t i = 0; i < view->count; i++) {
        values[i] = skep_get_f32(view->data + 4 * i);
    }
    return values;
}

double torch_difference(const float *found, const float *expected, size_t count)
{
    double most = 0;
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        double difference = fabs((double)found[i] - (double)expected[i]);
        if (!isfinite(difference)) {
            return INFINITY;
        }
        most = fmax(most, difference);
        largest = fmax(largest, fabs((double)expected[i]));
    }
    return largest > 0 ? most / largest : most;
}

void torch_assert_near(const struct torch_results *results, const char *group, const char *name,
                       const float *found, double tolerance)
{
    float *expected = torch_values(results, group, name);
    double difference = torch_difference(found, expected, torch_find(results, group, name)->count);
    free(expected);
    if (!(difference <= tolerance)) {
        fail_msg("%s.%s differs from PyTorch's by %.3g of its largest value, allowed %.3g",
                 group == NULL ? "" : group, name, difference, tolerance);
    }
}
