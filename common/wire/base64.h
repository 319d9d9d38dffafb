/*
 * Base64 (RFC 4648 section 4): the standard alphabet with padding, nothing else. Decoding accepts only what encoding would have
 * written, so that the same bytes have one text: no line breaks, no missing padding, no stray bits before it.
 */
#ifndef SKEP_WIRE_BASE64_H
#define SKEP_WIRE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/bytes.h"

/* Text the caller frees. */
char *skep_base64_encode(const void *data, size_t size);
/* Appends the bytes to *ret_bytes; false (and nothing appended) if the text is not canonical or the buffer's limit is met. */
bool skep_base64_decode(const char *text, size_t size, struct skep_buffer *ret_bytes);

#endif
