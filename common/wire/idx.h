/*
 * IDX: arrays as MNIST and its kin are handed out, and the records that a classifier trains on, made of two of them.
 *
 *   0 0 TYPE DIMS | DIMS sizes, 4 bytes each, big-endian, outermost first | values
 *
 * Only unsigned bytes (type 8) are read: an input's bytes are its values. The file must hold exactly what its sizes promise.
 */
#ifndef SKEP_WIRE_IDX_H
#define SKEP_WIRE_IDX_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

#define SKEP_IDX_DIMS 4u

struct skep_idx {
    const char *name;      /* of the file, for messages; borrowed */
    const uint8_t *values; /* borrowed from the file's bytes */
    uint64_t count;        /* items: the first size */
    uint64_t item_bytes;   /* the product of the others; 1 if there are none */
    uint32_t dim_count;
};

/* `data` is the unpacked file. SKEP_ERR_FORMAT names the file, the value found and the one expected. */
int skep_idx_parse(const char *name, const void *data, size_t size, struct skep_idx *ret_idx,
                   struct skep_error *err);

/* Appends a record for each item: its `inputs` bytes and the byte of its class, below `classes`. SKEP_ERR_FORMAT says which file
 * and item does not fit. */
int skep_idx_records(const struct skep_idx *images, const struct skep_idx *labels, uint32_t inputs,
                     uint32_t classes, struct skep_buffer *ret_records, struct skep_error *err);

#endif
