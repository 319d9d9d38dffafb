/*
 * What a donor is told: the first byte says which. h: a keeper's heads; v: a keeper's answer about a version; e: a line of the
 * sandboxed worker; j: a job file, which the worker reads.
 */
#include "client/network/heads.h"
#include "client/network/session.h"
#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/swarm/job-file.h"
#include "tests/fuzz/fuzz.h"

const char *const fuzz_sentence = "answers of keepers and of the worker are refused or make sense";

/* A project of one layer with two by two experts and one keeper, all names zeros. */
static void manifest_init(struct skep_manifest *manifest)
{
    skep_manifest_defaults(manifest);
    manifest->model.layers = 1;
    manifest->model.rows = 2;
    manifest->model.columns = 2;
    manifest->keeper_count = 1;
    manifest->keepers = skep_alloc(1, sizeof manifest->keepers[0]);
}

static void try_heads(const struct skep_manifest *manifest, const struct skep_json *answer)
{
    struct skep_heads heads = {0};
    FUZZ_CHECK(skep_heads_init(&heads, manifest, NULL) == SKEP_OK);
    int rc = skep_heads_read(&heads, manifest, &manifest->keepers[0], answer, NULL);
    for (size_t i = 0; i < heads.count; i++) {
        FUZZ_CHECK(heads.heads[i].holders <= 1);
        FUZZ_CHECK(rc == SKEP_OK || !heads.heads[i].known || heads.heads[i].holders == 1);
    }
    skep_heads_done(&heads);
}

static void try_version(const struct skep_manifest *manifest, const struct skep_json *answer)
{
    struct skep_hash manifest_hash = {{0}};
    struct skep_shard shard = {.kind = SKEP_SHARD_TRUNK};
    struct skep_sealed sealed = {0};
    struct skep_chunks chunks = {0};
    if (skep_version_read(manifest, &manifest_hash, &shard, answer, &sealed, &chunks, NULL) ==
        SKEP_OK) {
        FUZZ_CHECK(sealed.known && chunks.count <= SKEP_LIMIT_CHUNKS);
    }
    skep_chunks_done(&chunks);
}

static void try_answer(char kind, const uint8_t *data, size_t size)
{
    struct skep_manifest manifest = {0};
    struct skep_json *answer = NULL;
    if (skep_json_parse(data, size, "answer", &answer, NULL) == SKEP_OK) {
        manifest_init(&manifest);
        if (kind == 'h') {
            try_heads(&manifest, answer);
        } else {
            try_version(&manifest, answer);
        }
    }
    skep_json_free(answer);
    skep_manifest_done(&manifest);
}

static void try_event(const uint8_t *data, size_t size)
{
    char *line = fuzz_text(data, size);
    struct skep_job_event event = {0};
    struct skep_job_event again = {0};
    if (skep_job_event_decode(line, &event, NULL) == SKEP_OK) {
        FUZZ_CHECK(memchr(event.message, '\0', sizeof event.message) != NULL);
        char *text = skep_job_event_encode(&event);
        FUZZ_CHECK(skep_job_event_decode(text, &again, NULL) == SKEP_OK);
        fuzz_same_texts(text, skep_job_event_encode(&again));
    }
    free(line);
}

static void try_job(const uint8_t *data, size_t size)
{
    struct skep_job_file job = {0};
    struct skep_job_file again = {0};
    if (skep_job_file_decode(data, size, &job, NULL) == SKEP_OK) {
        FUZZ_CHECK(job.shard_count > 0 && job.chunk_count > 0);
        char *text = skep_job_file_encode(&job);
        FUZZ_CHECK(skep_job_file_decode(text, strlen(text), &again, NULL) == SKEP_OK);
        fuzz_same_texts(text, skep_job_file_encode(&again));
    }
    skep_job_file_done(&again);
    skep_job_file_done(&job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    switch (data[0]) {
    case 'e':
        try_event(data + 1, size - 1);
        break;
    case 'j':
        try_job(data + 1, size - 1);
        break;
    default:
        try_answer((char)data[0], data + 1, size - 1);
        break;
    }
    return 0;
}
