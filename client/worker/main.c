/*
 * skep-worker JOBFILE: trains one job and writes the updates' bodies (job-file.h says what comes in and what goes out). It never
 * touches the network, and nothing but its job's folder is written.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/worker/flat.h"
#include "client/worker/job-file.h"
#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/merge/compress.h"
#include "common/model/layout.h"
#include "common/model/model.h"
#include "common/model/train.h"
#include "common/swarm/statement.h"
#include "common/sys/clock.h"
#include "common/sys/file.h"

#define PROGRESS_MS 250u

static volatile sig_atomic_t stop_wanted;

/* One shard while it is trained. */
struct part {
    struct skep_layout layout;
    float *start;
    float *residual;
};

struct work {
    struct skep_job_file job;
    char *folder;
    struct skep_manifest manifest;
    struct skep_model *lm;
    struct part *parts;
    struct skep_shard *shards;
    struct skep_moments *moments;
    struct skep_buffer *texts;
    struct skep_slice_chunk *chunks;
    uint64_t told_ms;
    pid_t parent; /* when it is gone nobody wants the result */
};

static void on_stop(int signal_number)
{
    (void)signal_number;
    stop_wanted = 1;
}

static void tell(const struct skep_job_event *event)
{
    char *line = skep_job_event_encode(event);
    puts(line);
    fflush(stdout);
    free(line);
}

static int load_manifest(struct work *work, struct skep_error *err)
{
    struct skep_buffer text = {0};
    int rc = skep_file_read(work->job.manifest, SKEP_LIMIT_STATEMENT_BYTES, &text, err);
    if (rc == 0) {
        rc = skep_manifest_open(text.data, text.size, NULL, &work->manifest, NULL, err);
    }
    skep_buffer_done(&text);
    return rc;
}

static int load_job(struct work *work, const char *path, struct skep_error *err)
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

static int load_chunks(struct work *work, struct skep_error *err)
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

static int load_shard(struct work *work, size_t i, struct skep_error *err)
{
    const struct skep_job_shard *named = &work->job.shards[i];
    struct part *part = &work->parts[i];
    if (skep_manifest_shard_index(&work->manifest, &named->shard) == SIZE_MAX) {
        return skep_error_set(err, SKEP_ERR_NOT_FOUND, "job: shard %zu is not in this model", i);
    }
    work->shards[i] = named->shard;
    skep_layout_of(&work->manifest.model, &named->shard, &part->layout);
    size_t parameters = part->layout.parameters;
    struct skep_moments *moments = &work->moments[i];
    int rc = skep_moments_init(moments, skep_model_ops(work->lm), parameters, err);
    if (rc != 0) {
        return rc;
    }
    part->start = calloc(parameters, sizeof *part->start);
    part->residual = calloc(parameters, sizeof *part->residual);
    if (part->start == NULL || part->residual == NULL) {
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory for %zu parameters", parameters);
    }
    struct skep_buffer file = {0};
    rc = skep_file_read(named->state, SKEP_LIMIT_STATE_BYTES, &file, err);
    if (rc == 0) {
        rc = skep_state_read(&part->layout, file.data, file.size, part->start, err);
    }
    skep_buffer_done(&file);
    if (rc == 0) {
        rc = skep_flat_read(named->moments, &moments->step,
                            (float *const[]){moments->first, moments->second}, 2, parameters, err);
    }
    uint64_t ignored = 0;
    if (rc == 0) {
        rc = skep_flat_read(named->residual, &ignored, (float *const[]){part->residual}, 1,
                            parameters, err);
    }
    if (rc == 0 && skep_model_set(work->lm, &named->shard, part->start) != 0) {
        rc = skep_error_set(err, SKEP_ERR_MEMORY, "no memory for %zu parameters", parameters);
    }
    return rc;
}

static int load_shards(struct work *work, struct skep_error *err)
{
    size_t count = work->job.shard_count;
    work->parts = skep_alloc(count, sizeof *work->parts);
    work->shards = skep_alloc(count, sizeof *work->shards);
    work->moments = skep_alloc(count, sizeof *work->moments);
    struct skep_model_options options = {.batch = work->manifest.training.batch};
    int rc = skep_model_new(&work->manifest.model, &options, &work->lm, err);
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = load_shard(work, i, err);
    }
    return rc;
}

static bool poll(void *user, uint32_t step, double loss_nats, uint64_t tokens)
{
    struct work *work = user;
    uint64_t now = skep_clock_monotonic_ms();
    if (now - work->told_ms >= PROGRESS_MS) {
        work->told_ms = now;
        tell(&(struct skep_job_event){
            .kind = SKEP_JOB_PROGRESS, .step = step, .loss = loss_nats, .tokens = tokens});
    }
    return stop_wanted != 0 || getppid() != work->parent;
}

static int compress_part(struct work *work, size_t i, struct skep_update_body *body,
                         struct skep_error *err)
{
    const struct part *part = &work->parts[i];
    const struct skep_update_config *config = &work->manifest.update;
    float decay = (float)config->error_decay_permille / 1000.0f;
    size_t count = part->layout.tensor_count;
    struct skep_tiling *tilings = skep_alloc(count, sizeof *tilings);
    float *delta = skep_alloc(part->layout.parameters, sizeof *delta);
    skep_model_get(work->lm, &work->shards[i], delta);
    for (size_t p = 0; p < part->layout.parameters; p++) {
        delta[p] = part->start[p] - delta[p];
    }
    for (size_t t = 0; t < count; t++) {
        const struct skep_tensor_spec *spec = &part->layout.tensors[t];
        tilings[t] = skep_tiling_of(spec->dims, spec->dim_count, config->keep);
    }
    int rc = skep_compress_shard(tilings, count, decay, delta, part->residual, body, err);
    free(tilings);
    free(delta);
    return rc;
}

static int write_part(struct work *work, size_t i, struct skep_error *err)
{
    struct part *part = &work->parts[i];
    struct skep_update_body body = {0};
    struct skep_buffer bytes = {0};
    char name[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(&work->shards[i], name);
    char *body_path = skep_format("%s/%s.body", work->folder, name);
    char *moments_path = skep_format("%s/%s.moments", work->folder, name);
    char *residual_path = skep_format("%s/%s.residual", work->folder, name);
    struct skep_moments *moments = &work->moments[i];
    int rc = compress_part(work, i, &body, err);
    if (rc == 0) {
        skep_update_body_encode(&body, &bytes);
        rc = skep_file_write_quick(body_path, 0600, bytes.data, bytes.size, err);
    }
    if (rc == 0) {
        rc = skep_flat_write(moments_path, moments->step,
                             (const float *const[]){moments->first, moments->second}, 2,
                             part->layout.parameters, err);
    }
    if (rc == 0) {
        rc = skep_flat_write(residual_path, 0, (const float *const[]){part->residual}, 1,
                             part->layout.parameters, err);
    }
    free(body_path);
    free(moments_path);
    free(residual_path);
    skep_buffer_done(&bytes);
    skep_update_body_done(&body);
    return rc;
}

static int run(struct work *work, const char *path, struct skep_error *err)
{
    struct skep_train_position position = {0};
    int rc = load_job(work, path, err);
    if (rc == 0) {
        rc = load_manifest(work, err);
    }
    if (rc == 0) {
        rc = load_chunks(work, err);
    }
    if (rc == 0) {
        rc = load_shards(work, err);
    }
    if (rc == 0) {
        struct skep_train_job job = {
            .training = &work->manifest.training,
            .learning_rate = skep_train_rate(&work->manifest.training, work->job.trunk_version),
            .shards = work->shards,
            .moments = work->moments,
            .shard_count = work->job.shard_count,
            .chunks = work->chunks,
            .chunk_count = work->job.chunk_count,
            .ticket = &work->job.ticket,
            .poll = poll,
            .user = work};
        rc = skep_train_run(work->lm, &job, &position, err);
    }
    for (size_t i = 0; i < work->job.shard_count && rc == 0; i++) {
        rc = write_part(work, i, err);
    }
    if (rc == 0) {
        tell(&(struct skep_job_event){.kind = SKEP_JOB_DONE,
                                      .tokens = position.tokens,
                                      .loss = position.loss_last,
                                      .loss_first = position.loss_first});
    }
    return rc;
}

static void work_done(struct work *work)
{
    for (size_t i = 0; work->parts != NULL && i < work->job.shard_count; i++) {
        skep_layout_done(&work->parts[i].layout);
        free(work->parts[i].start);
        free(work->parts[i].residual);
        skep_moments_done(&work->moments[i]);
    }
    for (size_t i = 0; work->texts != NULL && i < work->job.chunk_count; i++) {
        skep_buffer_done(&work->texts[i]);
    }
    skep_model_free(work->lm);
    free(work->parts);
    free(work->shards);
    free(work->moments);
    free(work->texts);
    free(work->chunks);
    free(work->folder);
    skep_manifest_done(&work->manifest);
    skep_job_file_done(&work->job);
}

int main(int argc, char **argv)
{
    if (argc != 2 || argv[1][0] == '-') {
        fprintf(stderr, "usage: skep-worker JOBFILE   (started by skepd)\n");
        return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }
    struct sigaction action = {.sa_handler = on_stop};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    struct work work = {.parent = getppid()};
    struct skep_error err = {0};
    int rc = run(&work, argv[1], &err);
    if (rc != 0) {
        struct skep_job_event event = {.kind = SKEP_JOB_ERROR};
        snprintf(event.message, sizeof event.message, "%s", err.text);
        tell(&event);
        fprintf(stderr, "skep-worker: %s\n", err.text);
    }
    work_done(&work);
    return skep_err_exit_status((enum skep_err)rc);
}
