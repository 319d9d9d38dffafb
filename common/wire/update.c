#include "common/wire/update.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"

#define RICE_BITS 5u
/* The shortest value: the unary part's closing zero, the low bits of the gap, the code. */
#define LEAST_BITS_PER_VALUE (1u + RICE_BITS + 2u)
#define FILE_HEAD_SIZE 12u
#define FILE_FORMAT 1u
#define TENSOR_HEAD_SIZE 24u

static const uint8_t file_magic[4] = {'S', 'K', 'U', 'P'};

/* ---- tiling ---- */

static uint32_t largest_divisor_up_to_side(uint32_t number)
{
    for (uint32_t divisor = SKEP_BLOCK_SIDE; divisor > 1; divisor--) {
        if (number % divisor == 0) {
            return divisor;
        }
    }
    return 1;
}

struct skep_tiling skep_tiling_of(const uint32_t *dims, uint32_t dim_count, uint32_t keep)
{
    struct skep_tiling tiling = {.rows = 1, .columns = 1};
    for (uint32_t i = 0; i < dim_count; i++) {
        if (i == 0 && dim_count > 1) {
            tiling.rows = dims[i];
        } else {
            tiling.columns *= dims[i];
        }
    }
    tiling.tile_rows = largest_divisor_up_to_side(tiling.rows);
    tiling.tile_columns = largest_divisor_up_to_side(tiling.columns);
    tiling.blocks = (tiling.rows / tiling.tile_rows) * (tiling.columns / tiling.tile_columns);
    uint32_t size = tiling.tile_rows * tiling.tile_columns;
    uint64_t kept = (uint64_t)size * keep / SKEP_BLOCK_SIZE;
    tiling.kept = kept < 1 ? 1 : kept > size ? size : (uint32_t)kept;
    return tiling;
}

size_t skep_tiling_place(const struct skep_tiling *tiling, uint32_t block, uint32_t index)
{
    uint32_t across = tiling->columns / tiling->tile_columns;
    size_t row = (size_t)(block / across) * tiling->tile_rows + index / tiling->tile_columns;
    size_t column = (size_t)(block % across) * tiling->tile_columns + index % tiling->tile_columns;
    return row * tiling->columns + column;
}

static uint32_t tile_size(const struct skep_tiling *tiling)
{
    return tiling->tile_rows * tiling->tile_columns;
}

static size_t value_count(const struct skep_tiling *tiling)
{
    return (size_t)tiling->blocks * tiling->kept;
}

/* ---- encoding ---- */

struct bit_writer {
    struct skep_buffer *to;
    uint64_t held; /* bits not yet written, lowest first */
    uint32_t held_count;
};

static void write_bits(struct bit_writer *writer, uint32_t bits, uint32_t count)
{
    writer->held |= (uint64_t)bits << writer->held_count;
    writer->held_count += count;
    while (writer->held_count >= 8) {
        skep_buffer_append_u8(writer->to, (uint8_t)writer->held);
        writer->held >>= 8;
        writer->held_count -= 8;
    }
}

static void write_rice(struct bit_writer *writer, uint32_t number)
{
    for (uint32_t ones = number >> RICE_BITS; ones > 0; ones--) {
        write_bits(writer, 1, 1);
    }
    write_bits(writer, 0, 1);
    write_bits(writer, number & ((1u << RICE_BITS) - 1), RICE_BITS);
}

static void write_blocks(const struct skep_update_tensor *tensor, struct bit_writer *writer)
{
    const struct skep_tiling *tiling = &tensor->tiling;
    for (size_t i = 0; i < value_count(tiling); i++) {
        bool first = i % tiling->kept == 0;
        uint32_t least = first ? 0 : tensor->indices[i - 1] + 1u;
        assert(tensor->indices[i] >= least && tensor->indices[i] < tile_size(tiling));
        assert(tensor->codes[i] < 4);
        write_rice(writer, tensor->indices[i] - least);
        write_bits(writer, tensor->codes[i], 2);
    }
    if (writer->held_count != 0) {
        write_bits(writer, 0, 8 - writer->held_count);
    }
}

static void encode_tensor(const struct skep_update_tensor *tensor, struct skep_buffer *to)
{
    uint8_t head[TENSOR_HEAD_SIZE] = {0};
    for (size_t i = 0; i < 4; i++) {
        skep_put_f32(head + 4 * i, tensor->codebook[i]);
    }
    skep_put_u32(head + 16, tensor->tiling.blocks);
    size_t head_at = to->size;
    skep_buffer_append(to, head, sizeof head);
    struct bit_writer writer = {.to = to};
    write_blocks(tensor, &writer);
    skep_put_u32(to->data + head_at + 20, (uint32_t)(to->size - head_at - TENSOR_HEAD_SIZE));
}

void skep_update_body_encode(const struct skep_update_body *body, struct skep_buffer *ret_bytes)
{
    skep_buffer_append_u32(ret_bytes, (uint32_t)body->tensor_count);
    for (size_t t = 0; t < body->tensor_count; t++) {
        encode_tensor(&body->tensors[t], ret_bytes);
    }
}

/* ---- decoding ---- */

/* Reads bits, lowest first; past the end come zeros, and `at` tells afterwards that it was passed. */
struct bit_reader {
    const uint8_t *data;
    size_t bit_count;
    size_t at;
};

/* The next bits, at least 57 of them, in the low end. */
static uint64_t peek_bits(const struct bit_reader *reader)
{
    size_t byte = reader->at / 8;
    size_t size = reader->bit_count / 8;
    if (byte + 8 <= size) {
        return skep_get_u64(reader->data + byte) >> (reader->at % 8);
    }
    uint8_t last[8] = {0};
    if (byte < size) {
        memcpy(last, reader->data + byte, size - byte);
    }
    return skep_get_u64(last) >> (reader->at % 8);
}

/* A Rice-coded number, or UINT32_MAX if it is above `most` (its unary part may be of any length in hostile bytes). */
static uint32_t read_rice(struct bit_reader *reader, uint32_t most)
{
    uint32_t high = 0;
    uint64_t bits = peek_bits(reader);
    while ((bits & 1) != 0) {
        if (++high > most >> RICE_BITS) {
            return UINT32_MAX;
        }
        reader->at++;
        bits = high % 32 == 0 ? peek_bits(reader) : bits >> 1;
    }
    reader->at++;
    uint32_t low = (uint32_t)peek_bits(reader) & ((1u << RICE_BITS) - 1);
    reader->at += RICE_BITS;
    uint32_t number = high << RICE_BITS | low;
    return number > most ? UINT32_MAX : number;
}

static int read_block(struct bit_reader *reader, uint32_t block, struct skep_update_tensor *tensor,
                      struct skep_error *err)
{
    uint32_t size = tile_size(&tensor->tiling);
    size_t first = (size_t)block * tensor->tiling.kept;
    uint32_t least = 0;
    for (uint32_t i = 0; i < tensor->tiling.kept; i++) {
        uint32_t gap = least < size ? read_rice(reader, size - 1 - least) : UINT32_MAX;
        if (gap == UINT32_MAX) {
            return skep_refuse(err, SKEP_REFUSAL_INDEX_RANGE,
                               "value %u of block %u lies beyond the block's %u places", i, block,
                               size);
        }
        tensor->indices[first + i] = (uint16_t)(least + gap);
        tensor->codes[first + i] = (uint8_t)(peek_bits(reader) & 3);
        reader->at += 2;
        least += gap + 1;
    }
    return SKEP_OK;
}

static int read_blocks(const uint8_t *bits, size_t bits_size, struct skep_update_tensor *tensor,
                       struct skep_error *err)
{
    struct bit_reader reader = {.data = bits, .bit_count = bits_size * 8};
    for (uint32_t block = 0; block < tensor->tiling.blocks; block++) {
        int rc = read_block(&reader, block, tensor, err);
        if (rc != SKEP_OK) {
            return rc;
        }
        if (reader.at > reader.bit_count) {
            return skep_refuse(err, SKEP_REFUSAL_TRUNCATED,
                               "the bits end inside block %u of %u after %zu bytes", block,
                               tensor->tiling.blocks, bits_size);
        }
    }
    if ((reader.at + 7) / 8 != bits_size) {
        return skep_refuse(err, SKEP_REFUSAL_NOT_CANONICAL, "bits take %zu bytes where %zu suffice",
                           bits_size, (reader.at + 7) / 8);
    }
    if (reader.at % 8 != 0 && bits[bits_size - 1] >> (reader.at % 8) != 0) {
        return skep_refuse(err, SKEP_REFUSAL_NOT_CANONICAL,
                           "the unused bits of the last byte are not zero");
    }
    return SKEP_OK;
}

static int check_codebook(const float codebook[4], double ceiling, struct skep_error *err)
{
    for (size_t i = 0; i < 4; i++) {
        bool finite = isfinite(codebook[i]);
        if (!finite || fabs((double)codebook[i]) > ceiling) {
            return skep_refuse(
                err, finite ? SKEP_REFUSAL_CODEBOOK_CEILING : SKEP_REFUSAL_CODEBOOK_NOT_FINITE,
                "codebook value %zu is %g; allowed: -%g .. %g", i, (double)codebook[i], ceiling,
                ceiling);
        }
        if (codebook[i] == 0 && signbit(codebook[i])) {
            return skep_refuse(err, SKEP_REFUSAL_NOT_CANONICAL,
                               "codebook value %zu is -0; zero is written without a sign", i);
        }
        if (i > 0 && codebook[i] < codebook[i - 1]) {
            return skep_refuse(err, SKEP_REFUSAL_CODEBOOK_ORDER,
                               "codebook value %zu is %g, less than %g before it", i,
                               (double)codebook[i], (double)codebook[i - 1]);
        }
    }
    return SKEP_OK;
}

static int decode_tensor(struct skep_reader *reader, double ceiling,
                         struct skep_update_tensor *tensor, struct skep_error *err)
{
    for (size_t i = 0; i < 4; i++) {
        const uint8_t *bytes = skep_read_bytes(reader, 4);
        tensor->codebook[i] = bytes == NULL ? 0 : skep_get_f32(bytes);
    }
    uint32_t blocks = skep_read_u32(reader);
    uint32_t bits_size = skep_read_u32(reader);
    const uint8_t *bits = skep_read_bytes(reader, bits_size);
    if (reader->failed) {
        return skep_refuse(err, SKEP_REFUSAL_TRUNCATED, "the body ends inside this tensor");
    }
    int rc = check_codebook(tensor->codebook, ceiling, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    if (blocks != tensor->tiling.blocks) {
        return skep_refuse(err, SKEP_REFUSAL_BLOCK_COUNT,
                           "it has %u blocks where the layout has %u", blocks,
                           tensor->tiling.blocks);
    }
    /* Before allocating: so many values need at least so many bytes, which the sender had to send. */
    size_t count = value_count(&tensor->tiling);
    if (bits_size < (count * LEAST_BITS_PER_VALUE + 7) / 8) {
        return skep_refuse(err, SKEP_REFUSAL_VALUE_COUNT, "%u bytes of bits cannot hold %zu values",
                           bits_size, count);
    }
    tensor->indices = calloc(count + 1, sizeof *tensor->indices);
    tensor->codes = calloc(count + 1, sizeof *tensor->codes);
    if (tensor->indices == NULL || tensor->codes == NULL) {
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory for %zu values", count);
    }
    return read_blocks(bits, bits_size, tensor, err);
}

static int decode_tensors(struct skep_reader *reader, const struct skep_tiling *tilings,
                          double ceiling, struct skep_update_body *body, struct skep_error *err)
{
    for (size_t t = 0; t < body->tensor_count; t++) {
        body->tensors[t].tiling = tilings[t];
        int rc = decode_tensor(reader, ceiling, &body->tensors[t], err);
        if (rc != SKEP_OK) {
            skep_error_prefix(err, "update body, tensor %zu", t);
            return rc;
        }
    }
    if (skep_reader_left(reader) != 0) {
        return skep_refuse(err, SKEP_REFUSAL_TRAILING_BYTES,
                           "update body: %zu bytes follow the last of its %zu tensors",
                           skep_reader_left(reader), body->tensor_count);
    }
    return SKEP_OK;
}

int skep_update_body_decode(const void *data, size_t size, const struct skep_tiling *tilings,
                            size_t tensor_count, double scale_ceiling,
                            struct skep_update_body *ret_body, struct skep_error *err)
{
    struct skep_reader reader = skep_reader_of(data, size);
    uint32_t count = skep_read_u32(&reader);
    if (reader.failed) {
        return skep_refuse(err, SKEP_REFUSAL_TRUNCATED,
                           "update body has %zu bytes; its number of tensors alone has 4", size);
    }
    if (count != tensor_count) {
        return skep_refuse(err, SKEP_REFUSAL_TENSOR_COUNT,
                           "update body of %zu bytes has %u tensors; the layout has %zu", size,
                           count, tensor_count);
    }
    struct skep_update_body body = {.tensor_count = tensor_count};
    body.tensors = calloc(tensor_count + 1, sizeof *body.tensors);
    if (body.tensors == NULL) {
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory for %zu tensors", tensor_count);
    }
    int rc = decode_tensors(&reader, tilings, scale_ceiling, &body, err);
    if (rc != SKEP_OK) {
        skep_update_body_done(&body);
        return rc;
    }
    *ret_body = body;
    return SKEP_OK;
}

void skep_update_body_done(struct skep_update_body *body)
{
    for (size_t t = 0; body->tensors != NULL && t < body->tensor_count; t++) {
        free(body->tensors[t].indices);
        free(body->tensors[t].codes);
    }
    free(body->tensors);
    *body = (struct skep_update_body){0};
}

/* ---- the file around envelope and body ---- */

static int check_file_head(const uint8_t *head, struct skep_error *err)
{
    if (memcmp(head, file_magic, sizeof file_magic) != 0) {
        return skep_refuse(err, SKEP_REFUSAL_MAGIC,
                           "update file begins with %02x%02x%02x%02x instead of SKUP", head[0],
                           head[1], head[2], head[3]);
    }
    if (head[4] != FILE_FORMAT) {
        return skep_refuse(err, SKEP_REFUSAL_FORMAT_VERSION, "update file has format %u; known: %u",
                           head[4], FILE_FORMAT);
    }
    if (head[5] != 0 || head[6] != 0 || head[7] != 0) {
        return skep_refuse(err, SKEP_REFUSAL_RESERVED,
                           "update file has %02x%02x%02x in bytes 5 to 7 instead of zeros", head[5],
                           head[6], head[7]);
    }
    return SKEP_OK;
}

int skep_update_file_split(const void *data, size_t size, const uint8_t **ret_envelope,
                           size_t *ret_envelope_size, const uint8_t **ret_body,
                           size_t *ret_body_size, struct skep_error *err)
{
    if (size > SKEP_LIMIT_UPDATE_BYTES) {
        return skep_refuse(err, SKEP_REFUSAL_FILE_SIZE,
                           "update file has %zu bytes; allowed: up to %u", size,
                           SKEP_LIMIT_UPDATE_BYTES);
    }
    struct skep_reader reader = skep_reader_of(data, size);
    const uint8_t *head = skep_read_bytes(&reader, FILE_HEAD_SIZE);
    if (head == NULL) {
        return skep_refuse(err, SKEP_REFUSAL_TRUNCATED,
                           "update file has %zu bytes; its head alone has %u", size,
                           FILE_HEAD_SIZE);
    }
    int rc = check_file_head(head, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    uint32_t envelope_size = skep_get_u32(head + 8);
    if (envelope_size == 0 || envelope_size > SKEP_LIMIT_STATEMENT_BYTES) {
        return skep_refuse(err, SKEP_REFUSAL_ENVELOPE_SIZE,
                           "update file says its envelope has %u bytes; allowed: 1 .. %u",
                           envelope_size, SKEP_LIMIT_STATEMENT_BYTES);
    }
    const uint8_t *envelope = skep_read_bytes(&reader, envelope_size);
    if (envelope == NULL) {
        return skep_refuse(err, SKEP_REFUSAL_TRUNCATED,
                           "update file of %zu bytes ends inside its envelope of %u bytes", size,
                           envelope_size);
    }
    *ret_envelope = envelope;
    *ret_envelope_size = envelope_size;
    *ret_body_size = skep_reader_left(&reader);
    *ret_body = envelope + envelope_size;
    return SKEP_OK;
}

void skep_update_file_join(const char *envelope, const struct skep_buffer *body,
                           struct skep_buffer *ret_file)
{
    uint8_t head[FILE_HEAD_SIZE] = {0};
    memcpy(head, file_magic, sizeof file_magic);
    head[4] = FILE_FORMAT;
    skep_put_u32(head + 8, (uint32_t)strlen(envelope));
    skep_buffer_append(ret_file, head, sizeof head);
    skep_buffer_append_text(ret_file, envelope);
    skep_buffer_append(ret_file, body->data, body->size);
}
