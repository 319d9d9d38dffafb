/*
 * Chunk lists: how a file too large for one request is named, so that each part can be fetched from anyone and checked.
 * A chunk's name is its SHA-256; the file's root hash is SHA-256 over size (u64), chunk size (u32) and all chunk hashes.
 * This file only holds the list and its JSON; swarm/chunk-hash.h computes the hashes (skep_chunks_of, skep_chunks_root),
 * since hashing is crypto's and the two folders are neighbours.
 */
#ifndef SKEP_WIRE_CHUNKS_H
#define SKEP_WIRE_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/wire/json.h"

/* Zero-initialise; free with skep_chunks_done(). */
struct skep_chunks {
    uint64_t size_bytes;
    uint32_t chunk_bytes;
    size_t count;
    struct skep_hash *hashes;
};

void skep_chunks_done(struct skep_chunks *chunks);
/* How many chunks of `chunk_bytes` (> 0) a file of `size_bytes` has. */
uint64_t skep_chunks_count(uint64_t size_bytes, uint32_t chunk_bytes);
/* First byte and length of chunk i. */
uint64_t skep_chunk_offset(const struct skep_chunks *chunks, size_t i);
size_t skep_chunk_size(const struct skep_chunks *chunks, size_t i);
struct skep_json *skep_chunks_to_json(const struct skep_chunks *chunks);
/* Checks that count, size and chunk size fit together and are within limits. */
int skep_chunks_from_json(const struct skep_json *value, struct skep_chunks *ret_chunks,
                          struct skep_error *err);

#endif
