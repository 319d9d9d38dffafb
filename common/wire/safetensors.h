/*
 * safetensors (huggingface/safetensors, format of 2023): u64 header size, JSON header, then raw little-endian data. The form in
 * which every shard's state rests and travels, so that PyTorch tools open it unchanged. Only F32 is written and read here.
 *
 * Written canonically: tensors in the order given, offsets without gaps, header padded with spaces to a multiple of 8, metadata
 * {"format": "skep"} first if any. The reader is for hostile bytes: sizes, overlaps, gaps, overflow, dtype, duplicate names.
 */
#ifndef SKEP_WIRE_SAFETENSORS_H
#define SKEP_WIRE_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/limits.h"

struct skep_tensor_view {
    char name[SKEP_LIMIT_TENSOR_NAME];
    uint32_t dims[SKEP_LIMIT_TENSOR_DIMS];
    uint32_t dim_count;
    size_t count;        /* product of dims */
    const uint8_t *data; /* 4 * count bytes, little-endian float32, borrowed */
};

/* `values[i]` are the float32 of tensor i in this machine's memory. `*ret_file` gets the whole file. */
void skep_safetensors_write(const struct skep_tensor_view *tensors, const float *const *values,
                            size_t count, struct skep_buffer *ret_file);
/* Views into `data`, in file order; *ret_views is freed by the caller. */
int skep_safetensors_read(const void *data, size_t size, struct skep_tensor_view **ret_views,
                          size_t *ret_count, struct skep_error *err);

#endif
