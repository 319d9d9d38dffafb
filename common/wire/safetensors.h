/*
 * safetensors (the format of github.com/huggingface/safetensors): u64 header size, JSON header, then raw little-endian data. The
 * form in which every shard's state rests and travels, and activations are posted, so that PyTorch tools open it unchanged.
 *
 * Written canonically: metadata {"format": "skep"} first, tensors in the order given, compact JSON, offsets without gaps, header
 * padded with spaces to a multiple of 8, so that data is aligned where the file is.
 *
 * The reader takes files of strangers. It works in place: views point into the caller's bytes, which stay untouched; a foreign
 * file's data may lie at any address, so take it out with skep_tensor_view_copy(). The header is parsed once and its n tensors are
 * sorted, O(n log n). Parsed, it takes up to fifty times its size, freed before the call returns: say with
 * skep_safetensors_read_few() how many tensors you want of a stranger. Whitespace, other metadata, any order of members and
 * tensors are read as the format says. Refused, each with one sentence:
 *  - a header of no bytes, beyond the file's end or above 256 bytes for each tensor wanted and 4 KiB, not beginning with {, no
 *    JSON in UTF-8, or with a key twice;
 *  - metadata that are not texts, members other than dtype, shape and data_offsets;
 *  - data that overlap, leave a hole, end before or beyond the file's end, or are not 4 x the product of the shape;
 *  - what the format allows and Skep has no use for: dtypes other than F32, empty tensors (an axis of 0), more than
 *    SKEP_LIMIT_TENSOR_DIMS axes or SKEP_LIMIT_TENSORS tensors, names with blanks, quotes, backslashes, anything not ASCII.
 * Values are not looked at: NaN and infinity are the caller's to refuse.
 */
#ifndef SKEP_WIRE_SAFETENSORS_H
#define SKEP_WIRE_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/limits.h"

/* dims: outermost first, each at least 1, zeros from dim_count on; no dims is a single number. */
struct skep_tensor_view {
    char name[SKEP_LIMIT_TENSOR_NAME];
    uint32_t dims[SKEP_LIMIT_TENSOR_DIMS];
    uint32_t dim_count;
    size_t count;        /* product of dims */
    const uint8_t *data; /* 4 * count bytes, little-endian float32, borrowed, at any address */
};

/*
 * Appends a whole file to *ret_file, which has no limit. `values[i]` are the float32 of tensor i in this machine's memory; `data` is not
 * looked at. Names differ, and names, shapes and counts are such as the reader takes.
 */
void skep_safetensors_write(const struct skep_tensor_view *tensors, const float *const *values,
                            size_t count, struct skep_buffer *ret_file);
/*
 * The file with zeros for values, to be filled in with skep_put_floats(): those of tensor i belong at ret_places[i], in `*ret_file`. For
 * sizes that come from outside: SKEP_ERR_MEMORY, and SKEP_ERR_TOO_LARGE beyond SKEP_LIMIT_STATE_BYTES.
 */
int skep_safetensors_frame(const struct skep_tensor_view *tensors, size_t count,
                           struct skep_buffer *ret_file, uint8_t **ret_places,
                           struct skep_error *err);
/* Views into `data`, in the order of their data; *ret_views is freed by the caller, before or after `data`. */
int skep_safetensors_read(const void *data, size_t size, struct skep_tensor_view **ret_views,
                          size_t *ret_count, struct skep_error *err);

/* The same, for a file of at most `most` tensors, itself at most SKEP_LIMIT_TENSORS; the header's limit shrinks with it. */
int skep_safetensors_read_few(const void *data, size_t size, size_t most,
                              struct skep_tensor_view **ret_views, size_t *ret_count,
                              struct skep_error *err);

/* The view of that name, or NULL. */
const struct skep_tensor_view *skep_tensor_view_find(const struct skep_tensor_view *views,
                                                     size_t count, const char *name);
/* The view's `count` values as this machine has them. */
void skep_tensor_view_copy(const struct skep_tensor_view *view, float *ret_values);

#endif
