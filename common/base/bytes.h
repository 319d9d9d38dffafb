/*
 * Bytes: little-endian integers written one byte at a time, a growable buffer, and a reader that cannot run past its
 * end. Everything Skep stores or sends in binary goes through here, so that files are the same on every machine.
 */
#ifndef SKEP_BASE_BYTES_H
#define SKEP_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void skep_put_u16(uint8_t *to, uint16_t value);
void skep_put_u32(uint8_t *to, uint32_t value);
void skep_put_u64(uint8_t *to, uint64_t value);
uint16_t skep_get_u16(const uint8_t *from);
uint32_t skep_get_u32(const uint8_t *from);
uint64_t skep_get_u64(const uint8_t *from);

/* float32 as its IEEE-754 bits, little-endian. */
void skep_put_f32(uint8_t *to, float value);
float skep_get_f32(const uint8_t *from);
/* The same for many at once, as fast as memory allows on little-endian machines. */
void skep_put_floats(uint8_t *to, const float *values, size_t count);
void skep_get_floats(const uint8_t *from, size_t count, float *ret_values);

/*
 * A growable byte buffer. Zero-initialise; free with skep_buffer_done(). `limit` of 0 means no limit; otherwise appending
 * beyond it returns SKEP_ERR_TOO_LARGE and changes nothing. Appending to a buffer without a limit cannot fail.
 */
struct skep_buffer {
    uint8_t *data;
    size_t size;
    size_t capacity;
    size_t limit;
};

void skep_buffer_done(struct skep_buffer *buffer);
int skep_buffer_append(struct skep_buffer *buffer, const void *data, size_t size);
int skep_buffer_append_text(struct skep_buffer *buffer, const char *text);
int skep_buffer_append_u8(struct skep_buffer *buffer, uint8_t value);
int skep_buffer_append_u16(struct skep_buffer *buffer, uint16_t value);
int skep_buffer_append_u32(struct skep_buffer *buffer, uint32_t value);
int skep_buffer_append_u64(struct skep_buffer *buffer, uint64_t value);

/*
 * A bounded reader over borrowed bytes. Reading past the end sets `failed`, returns zeros and stays failed, so a parser
 * may read on and check once.
 */
struct skep_reader {
    const uint8_t *data;
    size_t size;
    size_t at;
    bool failed;
};

struct skep_reader skep_reader_of(const void *data, size_t size);
uint8_t skep_read_u8(struct skep_reader *reader);
uint16_t skep_read_u16(struct skep_reader *reader);
uint32_t skep_read_u32(struct skep_reader *reader);
uint64_t skep_read_u64(struct skep_reader *reader);
/* `size` bytes inside the borrowed data, or NULL past the end. */
const uint8_t *skep_read_bytes(struct skep_reader *reader, size_t size);
size_t skep_reader_left(const struct skep_reader *reader);

/* Lower-case hexadecimal; `to` holds 2 * size + 1 characters. */
void skep_hex_encode(const void *data, size_t size, char *to);
/* Exactly 2 * size lower-case hexadecimal digits and nothing else; false otherwise, `to` untouched. */
bool skep_hex_decode(const char *text, void *to, size_t size);

/* Compares without an early exit, for secrets. */
bool skep_bytes_equal_constant_time(const void *a, const void *b, size_t size);

#endif
