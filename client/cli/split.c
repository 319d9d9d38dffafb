#include "client/cli/split.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/crypto/hash.h"

void skep_split_lines(const void *text, size_t size, uint32_t holdout_every,
                      struct skep_buffer *ret_train, struct skep_buffer *ret_heldout)
{
    const uint8_t *at = text;
    const uint8_t *end = at + size;
    for (uint64_t line = 1; at < end; line++) {
        const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
        const uint8_t *next = newline != NULL ? newline + 1 : end;
        bool held = holdout_every > 0 && line % holdout_every == 0;
        skep_buffer_append(held ? ret_heldout : ret_train, at, (size_t)(next - at));
        at = next;
    }
}

void skep_split_records(const void *records, size_t size, size_t record, uint32_t holdout_every,
                        struct skep_buffer *ret_train, struct skep_buffer *ret_heldout)
{
    for (size_t i = 0; i < size / record; i++) {
        bool held = holdout_every > 0 && (i + 1) % holdout_every == 0;
        skep_buffer_append(held ? ret_heldout : ret_train, (const uint8_t *)records + i * record,
                           record);
    }
}

int skep_split_chunks(const struct skep_buffer *text, uint32_t chunk_bytes,
                      struct skep_data_set *ret_set, struct skep_error *err)
{
    size_t count = text->size / chunk_bytes + (text->size % chunk_bytes != 0);
    if (count > SKEP_LIMIT_CHUNKS) {
        return skep_error_set(err, SKEP_ERR_TOO_LARGE,
                              "the data has %zu chunks of %u bytes; allowed: %u; raise chunk_bytes",
                              count, chunk_bytes, SKEP_LIMIT_CHUNKS);
    }
    ret_set->size_bytes = text->size;
    ret_set->chunk_count = count;
    ret_set->chunks = skep_alloc(count + 1, sizeof *ret_set->chunks);
    for (size_t i = 0; i < count; i++) {
        size_t first = i * chunk_bytes;
        size_t left = text->size - first;
        ret_set->chunks[i] =
            skep_hash_of(text->data + first, left < chunk_bytes ? left : chunk_bytes);
    }
    return 0;
}
