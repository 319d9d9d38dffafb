/* gzip files (RFC 1952) as data sets come in, unpacked in memory: a face for zlib. */
#ifndef SKEP_WIRE_GZIP_H
#define SKEP_WIRE_GZIP_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

/* It begins as gzip files do. */
bool skep_gzip_is(const void *data, size_t size);

/* Appends what all members hold. `name` is for messages. SKEP_ERR_FORMAT for a broken, cut or trailing member, SKEP_ERR_TOO_LARGE
 * above `most` bytes; *ret_text is then empty. */
int skep_gzip_unpack(const char *name, const void *data, size_t size, size_t most,
                     struct skep_buffer *ret_text, struct skep_error *err);

#endif
