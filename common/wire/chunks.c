#include "common/wire/chunks.h"

#include <stdlib.h>

#include "common/base/limits.h"
#include "common/wire/fields.h"

#define WHAT "chunk list"
#define SIZE_MOST ((double)SKEP_LIMIT_CHUNKS * SKEP_LIMIT_CHUNK_BYTES)

static const struct skep_field FIELDS[] = {
    {"size_bytes", SKEP_FIELD_U64, offsetof(struct skep_chunks, size_bytes), 0, SIZE_MOST, NULL},
    {"chunk_bytes", SKEP_FIELD_U32, offsetof(struct skep_chunks, chunk_bytes), 1,
     SKEP_LIMIT_CHUNK_BYTES, NULL},
    {"chunks", SKEP_FIELD_OTHER, 0, 0, 0, NULL},
};
#define FIELD_COUNT (sizeof FIELDS / sizeof FIELDS[0])

void skep_chunks_done(struct skep_chunks *chunks)
{
    free(chunks->hashes);
    *chunks = (struct skep_chunks){0};
}

uint64_t skep_chunks_count(uint64_t size_bytes, uint32_t chunk_bytes)
{
    return size_bytes / chunk_bytes + (size_bytes % chunk_bytes != 0);
}

uint64_t skep_chunk_offset(const struct skep_chunks *chunks, size_t i)
{
    return (uint64_t)i * chunks->chunk_bytes;
}

size_t skep_chunk_size(const struct skep_chunks *chunks, size_t i)
{
    uint64_t left = chunks->size_bytes - skep_chunk_offset(chunks, i);
    return left < chunks->chunk_bytes ? (size_t)left : chunks->chunk_bytes;
}

struct skep_json *skep_chunks_to_json(const struct skep_chunks *chunks)
{
    struct skep_json *object = skep_json_object_new();
    skep_fields_write(FIELDS, FIELD_COUNT, chunks, object);
    skep_json_set_take(object, "chunks", skep_ids_write(chunks->hashes, chunks->count));
    return object;
}

int skep_chunks_from_json(const struct skep_json *value, struct skep_chunks *ret_chunks,
                          struct skep_error *err)
{
    struct skep_chunks chunks = {0};
    void *hashes = NULL;
    int rc = skep_fields_read(value, WHAT, FIELDS, FIELD_COUNT, &chunks, err);
    if (rc == SKEP_OK) {
        rc = skep_ids_read(value, WHAT, "chunks", SKEP_LIMIT_CHUNKS, &hashes, &chunks.count, err);
    }
    if (rc != SKEP_OK) {
        return rc;
    }
    uint64_t expected = skep_chunks_count(chunks.size_bytes, chunks.chunk_bytes);
    if (chunks.count != expected) {
        free(hashes);
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              WHAT ": %zu chunks are named; expected %llu for %llu bytes in chunks "
                                   "of %u",
                              chunks.count, (unsigned long long)expected,
                              (unsigned long long)chunks.size_bytes, chunks.chunk_bytes);
    }
    chunks.hashes = hashes;
    *ret_chunks = chunks;
    return SKEP_OK;
}
