#include "client/worker/work.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "client/worker/flat.h"
#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/crypto/hash.h"
#include "common/gpu/gpu.h"
#include "common/swarm/chunk-hash.h"
#include "common/swarm/history.h"
#include "common/swarm/statement.h"
#include "common/sys/file.h"

int skep_work_stopped(struct skep_error *err)
{
    return skep_ops_stopped() ? skep_error_set(err, SKEP_ERR_CANCELLED, "the job was stopped") : 0;
}

static int read_job(struct skep_work *work, const char *path, struct skep_error *err)
{
    struct skep_buffer text = {0};
    const char *slash = strrchr(path, '/');
    work->folder =
        slash != NULL ? skep_format("%.*s", (int)(slash - path), path) : skep_strdup(".");
    int rc = skep_file_read(path, SKEP_LIMIT_STATEMENT_BYTES * (size_t)8, &text, err);
    if (rc == 0) {
        rc = skep_job_file_decode(text.data, text.size, &work->job, err);
    }
    skep_buffer_done(&text);
    return rc;
}

static int read_manifest(struct skep_work *work, struct skep_error *err)
{
    struct skep_buffer text = {0};
    int rc = skep_file_read(work->job.manifest, SKEP_LIMIT_STATEMENT_BYTES, &text, err);
    if (rc == 0) {
        rc = skep_manifest_open(text.data, text.size, NULL, &work->manifest, NULL, err);
    }
    skep_buffer_done(&text);
    return rc;
}

static int read_chunks(struct skep_work *work, struct skep_error *err)
{
    size_t count = work->job.chunk_count;
    work->texts = skep_alloc(count, sizeof *work->texts);
    work->chunks = skep_alloc(count, sizeof *work->chunks);
    for (size_t i = 0; i < count; i++) {
        int rc = skep_file_read(work->job.chunks[i], SKEP_LIMIT_CHUNK_BYTES, &work->texts[i], err);
        if (rc != 0) {
            return rc;
        }
        work->chunks[i] = (struct skep_slice_chunk){work->texts[i].data, work->texts[i].size};
    }
    return 0;
}

static int lay_out(struct skep_work *work, struct skep_error *err)
{
    size_t count = work->job.shard_count;
    size_t most = 0;
    work->shards = skep_alloc(count, sizeof *work->shards);
    work->layouts = skep_alloc(count, sizeof *work->layouts);
    work->moments = skep_alloc(count, sizeof *work->moments);
    for (size_t i = 0; i < count; i++) {
        const struct skep_shard *shard = &work->job.shards[i].shard;
        if (skep_manifest_shard_index(&work->manifest, shard) == SIZE_MAX) {
            return skep_error_set(err, SKEP_ERR_NOT_FOUND, "job: shard %zu is not in this model",
                                  i);
        }
        work->shards[i] = *shard;
        skep_layout_of(&work->manifest.model, shard, &work->layouts[i]);
        most = work->layouts[i].parameters > most ? work->layouts[i].parameters : most;
    }
    assert(most > 0); /* a job file names the trunk */
    work->scratch = calloc(most, sizeof *work->scratch);
    if (work->scratch == NULL) {
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory for a shard of %zu parameters",
                              most);
    }
    return 0;
}

static int make_model(struct skep_work *work, struct skep_error *err)
{
    enum skep_device device = SKEP_DEVICE_CPU;
    int rc = skep_device_parse(work->job.device, &device, err);
    if (rc == 0) {
        rc = skep_device_open(device, &work->ops, err);
    }
    if (rc != 0) {
        return rc;
    }
    skep_ops_set_threads(work->job.threads);
    struct skep_model_options options = {
        .batch = work->manifest.training.batch, .recompute = work->job.recompute, .ops = work->ops};
    rc = skep_model_new(&work->manifest.model, &options, &work->model, err);
    for (size_t i = 0; i < work->job.shard_count && rc == 0; i++) {
        rc = skep_moments_init(&work->moments[i], work->ops, work->layouts[i].parameters, err);
    }
    return rc;
}

/* A worker whose daemon was killed may still be writing its checkpoint when the next daemon starts the next worker: that waits. */
static int wait_for_folder(struct skep_work *work, struct skep_error *err)
{
    char *path = skep_format("%s/lock", work->folder);
    work->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int rc = 0;
    while (work->lock >= 0 && rc == 0 && flock(work->lock, LOCK_EX) != 0 && errno == EINTR) {
        rc = skep_work_stopped(err);
    }
    if (work->lock < 0) {
        rc = skep_error_set(err, SKEP_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    }
    free(path);
    return rc;
}

int skep_work_open(struct skep_work *work, const char *path, struct skep_error *err)
{
    work->lock = -1;
    int rc = read_job(work, path, err);
    if (rc == 0) {
        rc = wait_for_folder(work, err);
    }
    if (rc == 0) {
        rc = read_manifest(work, err);
    }
    if (rc == 0) {
        rc = read_chunks(work, err);
    }
    if (rc == 0) {
        rc = lay_out(work, err);
    }
    if (rc == 0) {
        rc = make_model(work, err);
    }
    return rc;
}

/* As skep_chunks_of(), but it can be stopped: a large state takes longer than a stop may. */
static int root_of(const struct skep_buffer *file, uint32_t chunk_bytes, struct skep_hash *ret_root,
                   struct skep_error *err)
{
    struct skep_chunks chunks = {.size_bytes = file->size, .chunk_bytes = chunk_bytes};
    chunks.count = (size_t)skep_chunks_count(file->size, chunk_bytes);
    chunks.hashes = skep_alloc(chunks.count + 1, sizeof *chunks.hashes);
    int rc = 0;
    for (size_t i = 0; i < chunks.count && rc == 0; i++) {
        rc = skep_work_stopped(err);
        chunks.hashes[i] =
            skep_hash_of(file->data + skep_chunk_offset(&chunks, i), skep_chunk_size(&chunks, i));
    }
    *ret_root = skep_chunks_root(&chunks);
    skep_chunks_done(&chunks);
    return rc;
}

int skep_work_read_state(struct skep_work *work, size_t i, struct skep_buffer *ret_file,
                         struct skep_error *err)
{
    const struct skep_job_shard *named = &work->job.shards[i];
    struct skep_buffer file = {0};
    int rc = skep_file_read(named->state, SKEP_LIMIT_STATE_BYTES, &file, err);
    if (rc != 0) {
        return rc;
    }
    struct skep_hash root;
    rc = root_of(&file, work->manifest.chunk_bytes, &root, err);
    if (rc != 0) {
        skep_buffer_done(&file);
        return rc;
    }
    if (!skep_hash_equal(&root, &named->root)) {
        skep_buffer_done(&file);
        work->damaged = &named->shard;
        return skep_error_set(err, SKEP_ERR_HASH, "%s has root %.16s, the seal says %.16s",
                              named->state, skep_id_text(root.bytes),
                              skep_id_text(named->root.bytes));
    }
    *ret_file = file;
    return 0;
}

static int begin_state(struct skep_work *work, size_t i, struct skep_error *err)
{
    struct skep_buffer file = {0};
    int rc = skep_work_read_state(work, i, &file, err);
    if (rc != 0) {
        return rc;
    }
    rc = skep_state_read(&work->layouts[i], file.data, file.size, work->scratch, err);
    skep_buffer_done(&file);
    if (rc != 0) {
        char name[SKEP_SHARD_TEXT_SIZE];
        skep_shard_format(&work->shards[i], name);
        return skep_error_prefix(err, "%s", name);
    }
    return skep_model_set(work->model, &work->shards[i], work->scratch);
}

/* Both files of the donor's history or none (swarm/history.h): the update says what it began with. */
static void begin_anew(struct skep_work *work, size_t i, float *second,
                       const struct skep_error *why)
{
    const struct skep_job_shard *shard = &work->job.shards[i];
    size_t count = work->layouts[i].parameters;
    skep_log(SKEP_LOG_WARNING, "moments and residual begin anew from zero: %s", why->text);
    (void)unlink(shard->moments);
    (void)unlink(shard->residual);
    work->moments[i].step = 0;
    memset(work->scratch, 0, count * sizeof *work->scratch);
    memset(second, 0, count * sizeof *second);
}

/* Zeros if they are missing or not what they should be: the donor loses a little of its own progress, and not this job and all later
 * ones. The residual, which is needed last, is looked at too. */
static int begin_moments(struct skep_work *work, size_t i, struct skep_error *err)
{
    const struct skep_job_shard *shard = &work->job.shards[i];
    size_t count = work->layouts[i].parameters;
    struct skep_moments *moments = &work->moments[i];
    struct skep_error why = {0};
    float *second = calloc(count, sizeof *second);
    if (second == NULL) {
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory for %zu moments", count);
    }
    moments->step = 0;
    memset(work->scratch, 0, count * sizeof *work->scratch);
    int rc = skep_flat_read(shard->moments, &moments->step, (float *const[]){work->scratch, second},
                            SKEP_MOMENT_ARRAYS, count, &why);
    if (rc == 0) {
        rc = skep_flat_check(shard->residual, SKEP_RESIDUAL_ARRAYS, count, &why);
    }
    if (rc == SKEP_ERR_CANCELLED) {
        free(second);
        return skep_work_stopped(err);
    }
    if (rc != 0) {
        begin_anew(work, i, second, &why);
    }
    skep_moments_set(moments, work->scratch, second);
    free(second);
    return 0;
}

int skep_work_begin(struct skep_work *work, struct skep_error *err)
{
    for (size_t i = 0; i < work->job.shard_count; i++) {
        int rc = skep_work_stopped(err);
        if (rc == 0) {
            rc = begin_state(work, i, err);
        }
        if (rc == 0) {
            rc = begin_moments(work, i, err);
        }
        if (rc != 0) {
            return rc;
        }
    }
    work->position = (struct skep_train_position){0};
    work->parts = 0;
    return 0;
}

char *skep_work_path(const struct skep_work *work, size_t i, const char *what)
{
    char name[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(&work->shards[i], name);
    return skep_format("%s/%s.%s", work->folder, name, what);
}

void skep_work_done(struct skep_work *work)
{
    for (size_t i = 0; work->moments != NULL && i < work->job.shard_count; i++) {
        skep_layout_done(&work->layouts[i]);
        skep_moments_done(&work->moments[i]);
    }
    for (size_t i = 0; work->texts != NULL && i < work->job.chunk_count; i++) {
        skep_buffer_done(&work->texts[i]);
    }
    skep_model_free(work->model);
    free(work->shards);
    free(work->layouts);
    free(work->moments);
    free(work->texts);
    free(work->chunks);
    free(work->scratch);
    free(work->folder);
    if (work->lock > 0) {
        close(work->lock);
    }
    skep_manifest_done(&work->manifest);
    skep_job_file_done(&work->job);
    *work = (struct skep_work){0};
}
