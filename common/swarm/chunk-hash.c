#include "common/swarm/chunk-hash.h"

#include <assert.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/crypto/hash.h"

void skep_chunks_of(const void *data, size_t size, uint32_t chunk_bytes,
                    struct skep_chunks *ret_chunks)
{
    assert(chunk_bytes > 0);
    struct skep_chunks chunks = {.size_bytes = size, .chunk_bytes = chunk_bytes};
    chunks.count = size / chunk_bytes + (size % chunk_bytes != 0);
    chunks.hashes = skep_alloc(chunks.count, sizeof *chunks.hashes);
    for (size_t i = 0; i < chunks.count; i++) {
        const uint8_t *chunk = (const uint8_t *)data + i * chunk_bytes;
        chunks.hashes[i] = skep_hash_of(chunk, skep_chunk_size(&chunks, i));
    }
    *ret_chunks = chunks;
}

struct skep_hash skep_chunks_root(const struct skep_chunks *chunks)
{
    uint8_t head[12];
    skep_put_u64(head, chunks->size_bytes);
    skep_put_u32(head + 8, chunks->chunk_bytes);
    struct skep_hasher *hasher = skep_hasher_new();
    skep_hasher_add(hasher, head, sizeof head);
    if (chunks->count != 0) {
        skep_hasher_add(hasher, chunks->hashes, chunks->count * sizeof *chunks->hashes);
    }
    struct skep_hash root = skep_hasher_finish(hasher);
    skep_hasher_free(hasher);
    return root;
}
