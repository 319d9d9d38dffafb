#include "common/wire/base64.h"

#include <stdint.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/error.h"

static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *skep_base64_encode(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    char *text = skep_alloc(size / 3 + 2, 4);
    char *to = text;
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i < 3 ? size - i : 3;
        uint32_t group = (uint32_t)bytes[i] << 16;
        group |= left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
        group |= left > 2 ? (uint32_t)bytes[i + 2] : 0;
        for (size_t k = 0; k < 4; k++) {
            *to = '=';
            if (k <= left) {
                *to = ALPHABET[group >> (18 - 6 * k) & 63];
            }
            to++;
        }
    }
    return text;
}

/* 0 .. 63, or -1. */
static int digit_value(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* One group of four letters, `letters` of them not padding, into letters - 1 bytes. */
static bool decode_group(const char *text, size_t letters, uint8_t to[3])
{
    uint32_t group = 0;
    for (size_t k = 0; k < letters; k++) {
        int value = digit_value(text[k]);
        if (value < 0) {
            return false;
        }
        group |= (uint32_t)value << (18 - 6 * k);
    }
    for (size_t k = 0; k < 3; k++) {
        to[k] = (uint8_t)(group >> (16 - 8 * k));
    }
    /* Bits beyond the last byte must be zero. */
    return (letters != 2 || to[1] == 0) && (letters != 3 || to[2] == 0);
}

bool skep_base64_decode(const char *text, size_t size, struct skep_buffer *ret_bytes)
{
    if (size % 4 != 0) {
        return false;
    }
    size_t before = ret_bytes->size;
    for (size_t i = 0; i < size; i += 4) {
        size_t letters = 4;
        if (i + 4 == size && text[i + 3] == '=') {
            letters = text[i + 2] == '=' ? 2 : 3;
        }
        uint8_t bytes[3];
        if (!decode_group(text + i, letters, bytes) ||
            skep_buffer_append(ret_bytes, bytes, letters - 1) != SKEP_OK) {
            ret_bytes->size = before;
            return false;
        }
    }
    return true;
}
