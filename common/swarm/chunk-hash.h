/*
 * The hashes of a chunk list (wire/chunks.h): here because it joins bytes on the wire with crypto's SHA-256.
 *
 *   chunk name = SHA-256(bytes of the chunk)
 *   root hash  = SHA-256(size u64, chunk size u32, all chunk names in order), integers little-endian
 *
 * The root hash is what a seal signs, so whoever has a seal can check a chunk list, and with it each chunk, from anyone.
 */
#ifndef SKEP_SWARM_CHUNK_HASH_H
#define SKEP_SWARM_CHUNK_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/wire/chunks.h"

/* Cuts `data` into chunks of `chunk_bytes` (> 0; the last may be shorter); *ret_chunks is freed with skep_chunks_done(). */
void skep_chunks_of(const void *data, size_t size, uint32_t chunk_bytes,
                    struct skep_chunks *ret_chunks);
struct skep_hash skep_chunks_root(const struct skep_chunks *chunks);

#endif
