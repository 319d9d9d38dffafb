#include "common/wire/chunks.h"

#include <stdlib.h>

void skep_chunks_done(struct skep_chunks *chunks)
{
    free(chunks->hashes);
    *chunks = (struct skep_chunks){0};
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
