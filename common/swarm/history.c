#include "common/swarm/history.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/crypto/hash.h"

#define TAG "skep-history"

uint64_t skep_flat_bytes(uint32_t arrays, uint64_t count)
{
    return SKEP_FLAT_FRAME_BYTES + (uint64_t)arrays * count * 4;
}

uint64_t skep_history_bytes(uint64_t parameters)
{
    return skep_flat_bytes(SKEP_MOMENT_ARRAYS, parameters) +
           skep_flat_bytes(SKEP_RESIDUAL_ARRAYS, parameters);
}

bool skep_history_is_new(const struct skep_hash *history)
{
    static const struct skep_hash zero;
    return skep_hash_equal(history, &zero);
}

struct skep_hash skep_history_of(const struct skep_hash *moments, const struct skep_hash *residual)
{
    static const struct skep_hash zero;
    const struct skep_hash *first = moments != NULL ? moments : &zero;
    const struct skep_hash *second = residual != NULL ? residual : &zero;
    if (skep_hash_equal(first, &zero) && skep_hash_equal(second, &zero)) {
        return zero;
    }
    uint8_t bytes[sizeof TAG - 1 + (size_t)2 * SKEP_ID_SIZE];
    memcpy(bytes, TAG, sizeof TAG - 1);
    memcpy(bytes + sizeof TAG - 1, first->bytes, SKEP_ID_SIZE);
    memcpy(bytes + sizeof TAG - 1 + SKEP_ID_SIZE, second->bytes, SKEP_ID_SIZE);
    return skep_hash_of(bytes, sizeof bytes);
}

static int check_finite(const uint8_t *floats, size_t count, const char *what,
                        struct skep_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(skep_get_f32(floats + (size_t)4 * i))) {
            return skep_error_set(err, SKEP_ERR_FORMAT,
                                  "history: number %zu of the %s is not finite", i, what);
        }
    }
    return 0;
}

/* One flat file of the right size. */
static int open_flat(const uint8_t *data, size_t size, uint32_t arrays, size_t count,
                     const char *what, struct skep_hash *ret_hash, struct skep_error *err)
{
    uint32_t found_arrays = skep_get_u32(data + 4);
    uint64_t found_count = skep_get_u64(data + 16);
    if (memcmp(data, SKEP_FLAT_MARK, 4) != 0 || found_arrays != arrays || found_count != count) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "history: the %s have %u arrays of %" PRIu64
                              " floats, expected %u of %zu",
                              what, found_arrays, found_count, arrays, count);
    }
    struct skep_hash found = skep_hash_of(data, size - SKEP_ID_SIZE);
    memcpy(ret_hash->bytes, data + size - SKEP_ID_SIZE, SKEP_ID_SIZE);
    if (!skep_hash_equal(&found, ret_hash)) {
        return skep_error_set(err, SKEP_ERR_HASH, "history: the %s have hash %.16s and say %.16s",
                              what, skep_id_text(found.bytes), skep_id_text(ret_hash->bytes));
    }
    return check_finite(data + SKEP_FLAT_HEADER_BYTES, (size_t)arrays * count, what, err);
}

int skep_history_open(const void *data, size_t size, size_t parameters,
                      struct skep_history *ret_history, struct skep_error *err)
{
    const uint8_t *bytes = data;
    struct skep_hash moments = {{0}};
    struct skep_hash residual = {{0}};
    size_t first_bytes = (size_t)skep_flat_bytes(SKEP_MOMENT_ARRAYS, parameters);
    if (size != skep_history_bytes(parameters)) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "history: it has %zu bytes, expected %" PRIu64 " for %zu parameters",
                              size, skep_history_bytes(parameters), parameters);
    }
    int rc =
        open_flat(bytes, first_bytes, SKEP_MOMENT_ARRAYS, parameters, "moments", &moments, err);
    if (rc == 0) {
        rc = open_flat(bytes + first_bytes, size - first_bytes, SKEP_RESIDUAL_ARRAYS, parameters,
                       "residual's numbers", &residual, err);
    }
    if (rc == 0) {
        *ret_history =
            (struct skep_history){.hash = skep_history_of(&moments, &residual),
                                  .step = skep_get_u64(bytes + 8),
                                  .first = bytes + SKEP_FLAT_HEADER_BYTES,
                                  .second = bytes + SKEP_FLAT_HEADER_BYTES + 4 * parameters,
                                  .residual = bytes + first_bytes + SKEP_FLAT_HEADER_BYTES,
                                  .moments_bytes = first_bytes};
    }
    return rc;
}
