#include "common/base/bytes.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/error.h"

static void put(uint8_t *to, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        to[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t get(const uint8_t *from, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        value |= (uint64_t)from[i] << (8 * i);
    }
    return value;
}

void skep_put_u16(uint8_t *to, uint16_t value)
{
    put(to, value, 2);
}

void skep_put_u32(uint8_t *to, uint32_t value)
{
    put(to, value, 4);
}

void skep_put_u64(uint8_t *to, uint64_t value)
{
    put(to, value, 8);
}

uint16_t skep_get_u16(const uint8_t *from)
{
    return (uint16_t)get(from, 2);
}

uint32_t skep_get_u32(const uint8_t *from)
{
    return (uint32_t)get(from, 4);
}

uint64_t skep_get_u64(const uint8_t *from)
{
    return get(from, 8);
}

void skep_put_f32(uint8_t *to, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    skep_put_u32(to, bits);
}

float skep_get_f32(const uint8_t *from)
{
    uint32_t bits = skep_get_u32(from);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FLOATS_LIE_AS_ON_THE_WIRE 1
#else
#define FLOATS_LIE_AS_ON_THE_WIRE 0
#endif

void skep_put_floats(uint8_t *to, const float *values, size_t count)
{
    if (FLOATS_LIE_AS_ON_THE_WIRE) {
        memcpy(to, values, count * sizeof *values);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        skep_put_f32(to + 4 * i, values[i]);
    }
}

void skep_get_floats(const uint8_t *from, size_t count, float *ret_values)
{
    if (FLOATS_LIE_AS_ON_THE_WIRE) {
        memcpy(ret_values, from, count * sizeof *ret_values);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        ret_values[i] = skep_get_f32(from + 4 * i);
    }
}

void skep_buffer_done(struct skep_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct skep_buffer){.limit = buffer->limit};
}

int skep_buffer_append(struct skep_buffer *buffer, const void *data, size_t size)
{
    if (size > SIZE_MAX - buffer->size ||
        (buffer->limit != 0 && buffer->size + size > buffer->limit)) {
        return SKEP_ERR_TOO_LARGE;
    }
    size_t need = buffer->size + size;
    if (need > buffer->capacity) {
        size_t capacity = buffer->capacity < 256 ? 256 : buffer->capacity * 2;
        buffer->capacity = capacity < need ? need : capacity;
        buffer->data = skep_realloc(buffer->data, buffer->capacity, 1);
    }
    if (size != 0) {
        memcpy(buffer->data + buffer->size, data, size);
    }
    buffer->size = need;
    return SKEP_OK;
}

int skep_buffer_append_text(struct skep_buffer *buffer, const char *text)
{
    return skep_buffer_append(buffer, text, strlen(text));
}

static int append_integer(struct skep_buffer *buffer, uint64_t value, size_t size)
{
    uint8_t bytes[8];
    put(bytes, value, size);
    return skep_buffer_append(buffer, bytes, size);
}

int skep_buffer_append_u8(struct skep_buffer *buffer, uint8_t value)
{
    return append_integer(buffer, value, 1);
}

int skep_buffer_append_u16(struct skep_buffer *buffer, uint16_t value)
{
    return append_integer(buffer, value, 2);
}

int skep_buffer_append_u32(struct skep_buffer *buffer, uint32_t value)
{
    return append_integer(buffer, value, 4);
}

int skep_buffer_append_u64(struct skep_buffer *buffer, uint64_t value)
{
    return append_integer(buffer, value, 8);
}

struct skep_reader skep_reader_of(const void *data, size_t size)
{
    return (struct skep_reader){.data = data, .size = size};
}

size_t skep_reader_left(const struct skep_reader *reader)
{
    return reader->size - reader->at;
}

const uint8_t *skep_read_bytes(struct skep_reader *reader, size_t size)
{
    if (reader->failed || size > skep_reader_left(reader)) {
        reader->failed = true;
        return NULL;
    }
    const uint8_t *bytes = reader->data + reader->at;
    reader->at += size;
    return bytes;
}

static uint64_t read_integer(struct skep_reader *reader, size_t size)
{
    const uint8_t *bytes = skep_read_bytes(reader, size);
    return bytes == NULL ? 0 : get(bytes, size);
}

uint8_t skep_read_u8(struct skep_reader *reader)
{
    return (uint8_t)read_integer(reader, 1);
}

uint16_t skep_read_u16(struct skep_reader *reader)
{
    return (uint16_t)read_integer(reader, 2);
}

uint32_t skep_read_u32(struct skep_reader *reader)
{
    return (uint32_t)read_integer(reader, 4);
}

uint64_t skep_read_u64(struct skep_reader *reader)
{
    return read_integer(reader, 8);
}

void skep_hex_encode(const void *data, size_t size, char *to)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        to[2 * i] = digits[bytes[i] >> 4];
        to[2 * i + 1] = digits[bytes[i] & 15];
    }
    to[2 * size] = '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool skep_hex_decode(const char *text, void *to, size_t size)
{
    if (text == NULL || strlen(text) != 2 * size) {
        return false;
    }
    for (size_t i = 0; i < 2 * size; i++) {
        if (hex_digit(text[i]) < 0) {
            return false;
        }
    }
    uint8_t *bytes = to;
    for (size_t i = 0; i < size; i++) {
        bytes[i] =
            (uint8_t)((unsigned)hex_digit(text[2 * i]) << 4 | (unsigned)hex_digit(text[2 * i + 1]));
    }
    return true;
}

bool skep_bytes_equal_constant_time(const void *a, const void *b, size_t size)
{
    const volatile uint8_t *left = a;
    const volatile uint8_t *right = b;
    uint8_t difference = 0;
    for (size_t i = 0; i < size; i++) {
        difference |= left[i] ^ right[i];
    }
    return difference == 0;
}
