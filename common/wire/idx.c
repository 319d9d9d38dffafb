#include "common/wire/idx.h"

#include <stdbool.h>

#define TYPE_BYTES 8u

static uint32_t big_endian(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static int check_magic(const char *name, const uint8_t *at, size_t size, struct skep_error *err)
{
    if (size < 4 || at[0] != 0 || at[1] != 0) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s is no IDX file: it begins with %02x %02x in %zu bytes; expected: "
                              "00 00, a type and a number of dimensions",
                              name, size > 0 ? at[0] : 0, size > 1 ? at[1] : 0, size);
    }
    if (at[2] != TYPE_BYTES) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s has values of IDX type 0x%02x; allowed: 0x08, unsigned bytes",
                              name, at[2]);
    }
    if (at[3] < 1 || at[3] > SKEP_IDX_DIMS) {
        return skep_error_set(err, SKEP_ERR_FORMAT, "%s has %u dimensions; allowed: 1 to %u", name,
                              at[3], SKEP_IDX_DIMS);
    }
    if (size < 4 + 4 * (size_t)at[3]) {
        return skep_error_set(
            err, SKEP_ERR_FORMAT,
            "%s is cut off after %zu bytes, within the sizes of its %u dimensions", name, size,
            at[3]);
    }
    return SKEP_OK;
}

/* False if the product does not fit. */
static bool multiply(uint64_t *product, uint32_t factor)
{
    if (factor != 0 && *product > UINT64_MAX / factor) {
        return false;
    }
    *product *= factor;
    return true;
}

int skep_idx_parse(const char *name, const void *data, size_t size, struct skep_idx *ret_idx,
                   struct skep_error *err)
{
    const uint8_t *at = data;
    int rc = check_magic(name, at, size, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    struct skep_idx idx = {.name = name, .item_bytes = 1, .dim_count = at[3]};
    idx.count = big_endian(at + 4);
    bool fits = true;
    for (uint32_t i = 1; i < idx.dim_count; i++) {
        fits = fits && multiply(&idx.item_bytes, big_endian(at + 4 + 4 * (size_t)i));
    }
    uint64_t promised = idx.item_bytes;
    fits = fits && multiply(&promised, (uint32_t)idx.count);
    size_t header = 4 + 4 * (size_t)idx.dim_count;
    if (!fits) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s promises more values than 64 bits can count; it has %zu bytes",
                              name, size);
    }
    if (promised != size - header) {
        return skep_error_set(
            err, SKEP_ERR_FORMAT,
            "%s is %s: it holds %zu bytes of values; its sizes promise %llu (%llu "
            "items of %llu)",
            name, promised > size - header ? "cut off" : "too long", size - header,
            (unsigned long long)promised, (unsigned long long)idx.count,
            (unsigned long long)idx.item_bytes);
    }
    idx.values = at + header;
    *ret_idx = idx;
    return SKEP_OK;
}

static int check_pair(const struct skep_idx *images, const struct skep_idx *labels, uint32_t inputs,
                      struct skep_error *err)
{
    if (images->item_bytes != inputs) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s has items of %llu bytes; expected: model.inputs, %u",
                              images->name, (unsigned long long)images->item_bytes, inputs);
    }
    if (labels->dim_count != 1) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s has %u dimensions; expected: 1, a class for each input",
                              labels->name, labels->dim_count);
    }
    if (images->count == 0) {
        return skep_error_set(err, SKEP_ERR_FORMAT, "%s holds no items; expected: 1 or more",
                              images->name);
    }
    if (images->count != labels->count) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s has %llu items and %s %llu; expected: a "
                              "class for each input",
                              images->name, (unsigned long long)images->count, labels->name,
                              (unsigned long long)labels->count);
    }
    return SKEP_OK;
}

int skep_idx_records(const struct skep_idx *images, const struct skep_idx *labels, uint32_t inputs,
                     uint32_t classes, struct skep_buffer *ret_records, struct skep_error *err)
{
    int rc = check_pair(images, labels, inputs, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    for (uint64_t i = 0; i < labels->count; i++) {
        if (labels->values[i] >= classes) {
            return skep_error_set(err, SKEP_ERR_FORMAT,
                                  "%s: record %llu has class %u; allowed: 0 to %u, below "
                                  "model.classes",
                                  labels->name, (unsigned long long)i, labels->values[i],
                                  classes - 1);
        }
    }
    for (uint64_t i = 0; i < images->count; i++) {
        skep_buffer_append(ret_records, images->values + i * inputs, inputs);
        skep_buffer_append_u8(ret_records, labels->values[i]);
    }
    return SKEP_OK;
}
