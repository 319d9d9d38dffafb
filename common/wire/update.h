/*
 * Update files: a donor's signed, compressed pseudo-gradient for one shard. schemas/update.md describes every byte.
 *
 *   file  = "SKUP" u8 format(1) u8 0 u16 0  u32 envelope_size  envelope  body
 *   body  = u32 tensor_count, then per tensor in layout order:
 *           f32 codebook[4], u32 block_count, u32 bits_size, bits
 *   bits  = per block in row-major tile order: k times (Rice-coded index gap, r = 5; 2-bit code), least significant bit first;
 *           zero bits fill the last byte
 *
 * The decoder knows from the layout how many tensors, blocks and values per block there must be, allocates no more than that,
 * and refuses anything that an encoder would not have written (canonical encoding): order, padding, trailing bytes.
 */
#ifndef SKEP_WIRE_UPDATE_H
#define SKEP_WIRE_UPDATE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/id.h"
#include "common/wire/envelope.h"

#define SKEP_BLOCK_SIDE 64u
#define SKEP_BLOCK_SIZE 4096u

/* How one tensor is cut: 2-D tensors into tiles of `tile_rows` x `tile_columns` (largest divisors <= 64 of each axis), 1-D
 * tensors into tiles of 1 x n with n the largest divisor <= 64. */
struct skep_tiling {
    uint32_t rows; /* of the tensor seen as a matrix: first axis, product of the rest */
    uint32_t columns;
    uint32_t tile_rows;
    uint32_t tile_columns;
    uint32_t blocks;
    uint32_t
        kept; /* k: values sent of each block: max(1, tile size * keep / 4096), at most the tile's size */
};

struct skep_tiling skep_tiling_of(const uint32_t *dims, uint32_t dim_count, uint32_t keep);
/* Offset into the row-major tensor of place `index` (0 .. tile size - 1, row-major in the tile) of block `block`. */
size_t skep_tiling_place(const struct skep_tiling *tiling, uint32_t block, uint32_t index);

/* What an update sends of one tensor. Arrays of blocks * kept, block by block, indices strictly rising in a block. */
struct skep_update_tensor {
    struct skep_tiling tiling;
    float codebook[4];
    uint16_t *indices; /* within the block */
    uint8_t *codes;    /* 0 .. 3 */
};

/* Zero-initialise; free with skep_update_body_done(). */
struct skep_update_body {
    size_t tensor_count;
    struct skep_update_tensor *tensors;
};

void skep_update_body_done(struct skep_update_body *body);
void skep_update_body_encode(const struct skep_update_body *body, struct skep_buffer *ret_bytes);
/* `tilings` (tensor_count of them) say what must be there. Codebooks must be finite and within +-scale_ceiling. */
int skep_update_body_decode(const void *data, size_t size, const struct skep_tiling *tilings,
                            size_t tensor_count, double scale_ceiling,
                            struct skep_update_body *ret_body, struct skep_error *err);

/* Cuts a file into envelope and body (both borrowed from `data`). */
int skep_update_file_split(const void *data, size_t size, const uint8_t **ret_envelope,
                           size_t *ret_envelope_size, const uint8_t **ret_body,
                           size_t *ret_body_size, struct skep_error *err);
void skep_update_file_join(const char *envelope, const struct skep_buffer *body,
                           struct skep_buffer *ret_file);

#endif
