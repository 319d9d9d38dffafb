/* SHA-256 (FIPS 180-4) of bytes, at once or as they come. */
#ifndef SKEP_CRYPTO_HASH_H
#define SKEP_CRYPTO_HASH_H

#include <stddef.h>

#include "common/base/id.h"

struct skep_hash skep_hash_of(const void *data, size_t size);

/* A hash over several pieces; opaque. */
struct skep_hasher;
struct skep_hasher *skep_hasher_new(void);
void skep_hasher_free(struct skep_hasher *hasher);
void skep_hasher_add(struct skep_hasher *hasher, const void *data, size_t size);
/* The hash of all that was added; the hasher then starts anew. */
struct skep_hash skep_hasher_finish(struct skep_hasher *hasher);

/* First 20 bytes are what BEP 5 wants of an info-hash: SHA-1 of the bytes. */
void skep_sha1_of(const void *data, size_t size, unsigned char to[20]);

#endif
