#include "tests/lib/job-maker.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/dataset.h"
#include "common/base/alloc.h"
#include "common/crypto/hash.h"
#include "common/crypto/key.h"
#include "common/model/layout.h"
#include "common/swarm/chunk-hash.h"
#include "common/swarm/job-file.h"
#include "common/swarm/statement.h"
#include "common/sys/file.h"
#include "common/wire/task.h"

static const uint8_t SEED[32] = {7};

struct making {
    const char *folder;
    struct skep_task task;
    struct skep_buffer train;
    struct skep_buffer heldout;
    struct skep_job_file job;
};

static int write_manifest(struct making *making, struct skep_error *err)
{
    struct skep_manifest *manifest = &making->task.manifest;
    struct skep_key *key = skep_key_from_seed(SEED);
    struct skep_peer_id id = skep_key_id(key);
    memcpy(manifest->project.bytes, id.bytes, SKEP_ID_SIZE);
    memcpy(manifest->seed.bytes, SEED, sizeof SEED);
    manifest->created_s = 1;
    manifest->keeper_count = 1;
    manifest->keepers = skep_alloc(1, sizeof *manifest->keepers);
    manifest->keepers[0] = id;
    int rc = skep_manifest_check(manifest, err);
    if (rc == 0) {
        char *payload = skep_manifest_encode(manifest);
        char *text = skep_statement_sign_text(key, SKEP_TYPE_MANIFEST, payload);
        making->job.manifest = skep_format("%s/manifest", making->folder);
        rc = skep_file_write_quick(making->job.manifest, 0600, text, strlen(text), err);
        free(payload);
        free(text);
    }
    skep_key_free(key);
    return rc;
}

/* The first chunks, as many as a slice has. */
static int write_chunks(struct making *making, struct skep_error *err)
{
    const struct skep_manifest *manifest = &making->task.manifest;
    struct skep_job_file *job = &making->job;
    size_t count = manifest->training.slice_chunks < manifest->train.chunk_count
                       ? manifest->training.slice_chunks
                       : manifest->train.chunk_count;
    int rc = 0;
    job->chunks = skep_alloc(count, sizeof *job->chunks);
    for (size_t i = 0; i < count && rc == 0; i++) {
        size_t at = i * manifest->chunk_bytes;
        size_t left = making->train.size - at;
        size_t size = left < manifest->chunk_bytes ? left : manifest->chunk_bytes;
        job->chunks[i] = skep_format("%s/chunk-%zu", making->folder, i);
        job->chunk_count = i + 1;
        rc = skep_file_write_quick(job->chunks[i], 0600, making->train.data + at, size, err);
    }
    return rc;
}

/* The trunk and the experts of the first donor_rows rows of each layer. */
static bool is_of_job(const struct skep_manifest *manifest, size_t i)
{
    struct skep_shard shard = skep_manifest_shard(manifest, i);
    return shard.kind == SKEP_SHARD_TRUNK || shard.row < manifest->training.donor_rows;
}

static int write_shard(struct making *making, size_t i, struct skep_error *err)
{
    const struct skep_manifest *manifest = &making->task.manifest;
    struct skep_job_shard *named = &making->job.shards[making->job.shard_count++];
    struct skep_layout layout;
    struct skep_buffer file = {0};
    struct skep_chunks chunks = {0};
    char name[SKEP_SHARD_TEXT_SIZE];
    named->shard = skep_manifest_shard(manifest, i);
    skep_shard_format(&named->shard, name);
    named->state = skep_format("%s/%s.state", making->folder, name);
    named->moments = skep_format("%s/%s.moments", making->folder, name);
    named->residual = skep_format("%s/%s.residual", making->folder, name);
    skep_layout_of(&manifest->model, &named->shard, &layout);
    float *values = skep_alloc(layout.parameters, sizeof *values);
    skep_layout_seed(&layout, &manifest->model, &manifest->seed, values);
    skep_state_write(&layout, values, &file);
    skep_chunks_of(file.data, file.size, manifest->chunk_bytes, &chunks);
    named->root = skep_chunks_root(&chunks);
    int rc = skep_file_write_quick(named->state, 0600, file.data, file.size, err);
    skep_chunks_done(&chunks);
    skep_buffer_done(&file);
    skep_layout_done(&layout);
    free(values);
    return rc;
}

static int write_job(struct making *making, struct skep_error *err)
{
    struct skep_job_file *job = &making->job;
    job->ticket = skep_hash_of("ticket", 6);
    size_t count = skep_manifest_shard_count(&making->task.manifest);
    job->shards = skep_alloc(count, sizeof *job->shards);
    job->threads = 1;
    job->device = skep_strdup("cpu");
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = is_of_job(&making->task.manifest, i) ? write_shard(making, i, err) : 0;
    }
    char *path = skep_format("%s/job/job.json", making->folder);
    char *folder = skep_format("%s/job", making->folder);
    char *text = rc == 0 ? skep_job_file_encode(job) : NULL;
    if (rc == 0) {
        rc = skep_folder_make(folder, err);
    }
    if (rc == 0) {
        rc = skep_file_write_quick(path, 0600, text, strlen(text), err);
    }
    free(text);
    free(folder);
    free(path);
    return rc;
}

int skep_make_job(const char *folder, const char *task_path, struct skep_error *err)
{
    struct making making = {.folder = folder};
    int rc = skep_folder_make(making.folder, err);
    if (rc == 0) {
        rc = skep_task_load(task_path, &making.task, err);
    }
    if (rc == 0) {
        rc = skep_dataset_read(task_path, &making.task, &making.train, &making.heldout, err);
    }
    if (rc == 0) {
        rc = write_manifest(&making, err);
    }
    if (rc == 0) {
        rc = write_chunks(&making, err);
    }
    if (rc == 0) {
        rc = write_job(&making, err);
    }
    skep_buffer_done(&making.train);
    skep_buffer_done(&making.heldout);
    skep_job_file_done(&making.job);
    skep_task_done(&making.task);
    return rc;
}
