#include "client/worker/flat.h"

#include <math.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/limits.h"
#include "common/sys/file.h"

#define HEADER_BYTES 24u

int skep_flat_write(const char *path, uint64_t step, const float *const *values, uint32_t arrays,
                    size_t count, struct skep_error *err)
{
    struct skep_buffer file = {0};
    skep_buffer_append(&file, "SKFL", 4);
    skep_buffer_append_u32(&file, arrays);
    skep_buffer_append_u64(&file, step);
    skep_buffer_append_u64(&file, count);
    for (uint32_t a = 0; a < arrays; a++) {
        for (size_t i = 0; i < count; i++) {
            uint8_t bytes[4];
            skep_put_f32(bytes, values[a][i]);
            skep_buffer_append(&file, bytes, sizeof bytes);
        }
    }
    int rc = skep_file_write_quick(path, 0600, file.data, file.size, err);
    skep_buffer_done(&file);
    return rc;
}

int skep_flat_read(const char *path, uint64_t *ret_step, float *const *values, uint32_t arrays,
                   size_t count, struct skep_error *err)
{
    if (!skep_file_exists(path)) {
        return 0;
    }
    struct skep_buffer file = {0};
    size_t expected = HEADER_BYTES + (size_t)arrays * count * 4;
    int rc = skep_file_read(path, SKEP_LIMIT_STATE_BYTES * (size_t)2 + HEADER_BYTES, &file, err);
    if (rc == 0 &&
        (file.size != expected || memcmp(file.data, "SKFL", 4) != 0 ||
         skep_get_u32(file.data + 4) != arrays || skep_get_u64(file.data + 16) != count)) {
        rc = skep_error_set(err, SKEP_ERR_FORMAT,
                            "%s has %zu bytes and is not the %zu bytes of %u arrays of %zu floats",
                            path, file.size, expected, arrays, count);
    }
    for (size_t i = 0; rc == 0 && i < (size_t)arrays * count; i++) {
        float value = skep_get_f32(file.data + HEADER_BYTES + 4 * i);
        if (!isfinite(value)) {
            rc = skep_error_set(err, SKEP_ERR_FORMAT, "%s: number %zu is not finite", path, i);
        } else {
            values[i / count][i % count] = value;
        }
    }
    if (rc == 0) {
        *ret_step = skep_get_u64(file.data + 8);
    }
    skep_buffer_done(&file);
    return rc;
}
