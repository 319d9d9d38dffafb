/* A shard's state as a safetensors file, and back. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/model/layout.h"
#include "common/wire/safetensors.h"

void skep_state_write(const struct skep_layout *layout, const float *parameters,
                      struct skep_buffer *ret_file)
{
    struct skep_tensor_view *views = skep_alloc(layout->tensor_count, sizeof *views);
    const float **values = skep_alloc(layout->tensor_count, sizeof *values);
    for (size_t i = 0; i < layout->tensor_count; i++) {
        const struct skep_tensor_spec *spec = &layout->tensors[i];
        memcpy(views[i].name, spec->name, sizeof views[i].name);
        memcpy(views[i].dims, spec->dims, sizeof views[i].dims);
        views[i].dim_count = spec->dim_count;
        views[i].count = spec->count;
        values[i] = parameters + spec->offset;
    }
    skep_safetensors_write(views, values, layout->tensor_count, ret_file);
    free(values);
    free(views);
}

static int check_view(const struct skep_tensor_spec *spec, const struct skep_tensor_view *view,
                      struct skep_error *err)
{
    if (strcmp(view->name, spec->name) != 0) {
        return skep_error_set(err, SKEP_ERR_FORMAT, "the state has tensor %s where %s is expected",
                              view->name, spec->name);
    }
    bool same = view->dim_count == spec->dim_count;
    for (uint32_t i = 0; same && i < spec->dim_count; i++) {
        same = view->dims[i] == spec->dims[i];
    }
    if (!same) {
        return skep_error_set(
            err, SKEP_ERR_FORMAT,
            "tensor %s of the state has %u dimensions and %zu values, expected %u and %zu "
            "(first dimension %u)",
            spec->name, view->dim_count, view->count, spec->dim_count, spec->count, spec->dims[0]);
    }
    return SKEP_OK;
}

static int read_values(const struct skep_tensor_spec *spec, const struct skep_tensor_view *view,
                       float *values, struct skep_error *err)
{
    for (size_t i = 0; i < spec->count; i++) {
        values[i] = skep_get_f32(view->data + 4 * i);
        if (!isfinite(values[i])) {
            return skep_error_set(err, SKEP_ERR_NUMERIC,
                                  "value %zu of tensor %s is %f, expected a finite number", i,
                                  spec->name, (double)values[i]);
        }
    }
    return SKEP_OK;
}

static int read_views(const struct skep_layout *layout, const struct skep_tensor_view *views,
                      size_t count, float *parameters, struct skep_error *err)
{
    if (count != layout->tensor_count) {
        return skep_error_set(err, SKEP_ERR_FORMAT, "the state has %zu tensors, expected %zu",
                              count, layout->tensor_count);
    }
    for (size_t i = 0; i < count; i++) {
        int rc = check_view(&layout->tensors[i], &views[i], err);
        if (rc == SKEP_OK) {
            rc = read_values(&layout->tensors[i], &views[i], parameters + layout->tensors[i].offset,
                             err);
        }
        if (rc != SKEP_OK) {
            return rc;
        }
    }
    return SKEP_OK;
}

int skep_state_read(const struct skep_layout *layout, const void *file, size_t size,
                    float *parameters, struct skep_error *err)
{
    struct skep_tensor_view *views = NULL;
    size_t count = 0;
    int rc = skep_safetensors_read(file, size, &views, &count, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    /* Into a copy first: the caller's parameters stay as they were if the file is refused. */
    float *values = calloc(layout->parameters, sizeof *values);
    if (values == NULL) {
        rc = skep_error_set(err, SKEP_ERR_MEMORY, "no memory for a state of %zu parameters",
                            layout->parameters);
        goto out;
    }
    rc = read_views(layout, views, count, values, err);
    if (rc == SKEP_OK) {
        memcpy(parameters, values, layout->parameters * sizeof *values);
    }
out:
    free(values);
    free(views);
    return rc;
}
