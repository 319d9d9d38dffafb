#include "client/worker/flat.h"

#include <string.h>

#include "client/worker/stream.h"
#include "common/swarm/history.h"
#include "common/sys/file.h"
#include "common/tensor/ops.h"

#define PIECE ((size_t)1 << 18) /* floats between two looks at whether to stop */

int skep_flat_write(const char *path, uint64_t step, const float *const *values, uint32_t arrays,
                    size_t count, struct skep_error *err)
{
    struct skep_stream_out *out = NULL;
    int rc = skep_stream_create(path, &out, err);
    if (rc != 0) {
        return rc;
    }
    skep_stream_put(out, SKEP_FLAT_MARK, 4);
    skep_stream_put_u32(out, arrays);
    skep_stream_put_u64(out, step);
    skep_stream_put_u64(out, count);
    for (uint32_t a = 0; a < arrays; a++) {
        for (size_t i = 0; i < count; i += PIECE) {
            if (skep_ops_stopped()) {
                skep_stream_abandon(out);
                return skep_error_set(err, SKEP_ERR_CANCELLED, "%s was not written to its end",
                                      path);
            }
            skep_stream_put_floats(out, values[a] + i, count - i < PIECE ? count - i : PIECE);
        }
    }
    skep_stream_put_hash(out);
    return skep_stream_commit(out, false, err);
}

static int read_arrays(const char *path, struct skep_stream_in *in, uint64_t *ret_step,
                       float *const *values, uint32_t arrays, size_t count, struct skep_error *err)
{
    uint8_t mark[4];
    uint32_t found_arrays = 0;
    uint64_t found_count = 0;
    uint64_t step = 0;
    int rc = skep_stream_get(in, mark, sizeof mark, err);
    if (rc == 0) {
        rc = skep_stream_get_u32(in, &found_arrays, err);
    }
    if (rc == 0) {
        rc = skep_stream_get_u64(in, &step, err);
    }
    if (rc == 0) {
        rc = skep_stream_get_u64(in, &found_count, err);
    }
    if (rc == 0 &&
        (memcmp(mark, SKEP_FLAT_MARK, 4) != 0 || found_arrays != arrays || found_count != count)) {
        rc = skep_error_set(err, SKEP_ERR_FORMAT,
                            "%s has %u arrays of %llu floats, expected %u of %zu", path,
                            found_arrays, (unsigned long long)found_count, arrays, count);
    }
    for (uint32_t a = 0; a < arrays && rc == 0; a++) {
        rc = skep_stream_get_floats(in, values[a], count, err);
    }
    if (rc == 0) {
        *ret_step = step;
    }
    return rc;
}

/* Opens the file and sees that it has the right size and hash. */
static int open_whole(const char *path, uint32_t arrays, size_t count,
                      struct skep_stream_in **ret_in, struct skep_error *err)
{
    struct skep_stream_in *in = NULL;
    int rc = skep_stream_open(path, &in, err);
    if (rc != 0) {
        return rc;
    }
    uint64_t expected = skep_flat_bytes(arrays, count);
    if (skep_stream_size(in) != expected) {
        rc = skep_error_set(
            err, SKEP_ERR_FORMAT,
            "%s has %llu bytes and is not the %llu bytes of %u arrays of %zu floats", path,
            (unsigned long long)skep_stream_size(in), (unsigned long long)expected, arrays, count);
    } else {
        rc = skep_stream_check(in, err);
    }
    if (rc != 0) {
        skep_stream_close(in);
        return rc;
    }
    *ret_in = in;
    return 0;
}

int skep_flat_check(const char *path, uint32_t arrays, size_t count, struct skep_error *err)
{
    struct skep_stream_in *in = NULL;
    if (!skep_file_exists(path)) {
        return 0;
    }
    int rc = open_whole(path, arrays, count, &in, err);
    if (rc == 0) {
        skep_stream_close(in);
    }
    return rc;
}

int skep_flat_read(const char *path, uint64_t *ret_step, float *const *values, uint32_t arrays,
                   size_t count, struct skep_error *err)
{
    struct skep_stream_in *in = NULL;
    if (!skep_file_exists(path)) {
        return 0;
    }
    int rc = open_whole(path, arrays, count, &in, err);
    if (rc == 0) {
        rc = read_arrays(path, in, ret_step, values, arrays, count, err);
        skep_stream_close(in);
    }
    return rc;
}
