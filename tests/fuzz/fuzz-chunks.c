/* Chunk lists: what is read covers its file exactly, and is written and read again the same. */
#include "common/base/limits.h"
#include "common/swarm/chunk-hash.h"
#include "common/wire/chunks.h"
#include "tests/fuzz/fuzz.h"

const char *const fuzz_sentence = "chunk lists from strangers are refused or cover their file";

static void check_cover(const struct skep_chunks *chunks)
{
    uint64_t at = 0;
    for (size_t i = 0; i < chunks->count; i++) {
        FUZZ_CHECK(skep_chunk_offset(chunks, i) == at);
        FUZZ_CHECK(skep_chunk_size(chunks, i) > 0 &&
                   skep_chunk_size(chunks, i) <= chunks->chunk_bytes);
        at += skep_chunk_size(chunks, i);
    }
    FUZZ_CHECK(at == chunks->size_bytes);
}

static char *write_list(const struct skep_chunks *chunks)
{
    struct skep_json *value = skep_chunks_to_json(chunks);
    char *text = skep_json_write(value, false);
    skep_json_free(value);
    return text;
}

static int read_list(const void *text, size_t size, struct skep_chunks *ret_chunks)
{
    struct skep_json *value = NULL;
    int rc = skep_json_parse(text, size, "chunk list", &value, NULL);
    if (rc == SKEP_OK) {
        rc = skep_chunks_from_json(value, ret_chunks, NULL);
    }
    skep_json_free(value);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct skep_chunks chunks = {0};
    struct skep_chunks again = {0};
    if (read_list(data, size, &chunks) == SKEP_OK) {
        FUZZ_CHECK(chunks.count <= SKEP_LIMIT_CHUNKS);
        check_cover(&chunks);
        char *text = write_list(&chunks);
        FUZZ_CHECK(read_list(text, strlen(text), &again) == SKEP_OK);
        fuzz_same_texts(text, write_list(&again));
        struct skep_hash one = skep_chunks_root(&chunks);
        struct skep_hash other = skep_chunks_root(&again);
        FUZZ_CHECK(skep_hash_equal(&one, &other));
    }
    skep_chunks_done(&again);
    skep_chunks_done(&chunks);
    return 0;
}
