#include "client/worker/job-file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/wire/json.h"

void skep_job_file_done(struct skep_job_file *job)
{
    free(job->manifest);
    for (size_t i = 0; i < job->chunk_count; i++) {
        free(job->chunks[i]);
    }
    free(job->chunks);
    for (size_t i = 0; i < job->shard_count; i++) {
        free(job->shards[i].state);
        free(job->shards[i].moments);
        free(job->shards[i].residual);
    }
    free(job->shards);
    *job = (struct skep_job_file){0};
}

char *skep_job_file_encode(const struct skep_job_file *job)
{
    struct skep_json *root = skep_json_object_new();
    struct skep_json *chunks = skep_json_array_new();
    struct skep_json *shards = skep_json_array_new();
    for (size_t i = 0; i < job->chunk_count; i++) {
        skep_json_push_text(chunks, job->chunks[i]);
    }
    for (size_t i = 0; i < job->shard_count; i++) {
        struct skep_json *shard = skep_json_object_new();
        skep_json_set_shard(shard, "shard", &job->shards[i].shard);
        skep_json_set_text(shard, "state", job->shards[i].state);
        skep_json_set_text(shard, "moments", job->shards[i].moments);
        skep_json_set_text(shard, "residual", job->shards[i].residual);
        skep_json_push_take(shards, shard);
    }
    skep_json_set_text(root, "manifest", job->manifest);
    skep_json_set_hex(root, "ticket", job->ticket.bytes, sizeof job->ticket.bytes);
    skep_json_set_integer(root, "trunk_version", (int64_t)job->trunk_version);
    skep_json_set_take(root, "chunks", chunks);
    skep_json_set_take(root, "shards", shards);
    char *text = skep_json_write(root, true);
    skep_json_free(root);
    return text;
}

static int get_text_copy(const struct skep_json *object, const char *what, const char *key,
                         char **ret_copy, struct skep_error *err)
{
    const char *text = NULL;
    int rc = skep_json_get_text(object, what, key, &text, err);
    if (rc == 0) {
        *ret_copy = skep_strdup(text);
    }
    return rc;
}

static int read_shard(const struct skep_json *value, struct skep_job_shard *shard,
                      struct skep_error *err)
{
    static const char *const keys[] = {"shard", "state", "moments", "residual", NULL};
    int rc = skep_json_allow(value, "job shard", keys, err);
    if (rc == 0) {
        rc = skep_json_get_shard(value, "job shard", "shard", &shard->shard, err);
    }
    if (rc == 0) {
        rc = get_text_copy(value, "job shard", "state", &shard->state, err);
    }
    if (rc == 0) {
        rc = get_text_copy(value, "job shard", "moments", &shard->moments, err);
    }
    if (rc == 0) {
        rc = get_text_copy(value, "job shard", "residual", &shard->residual, err);
    }
    return rc;
}

static int read_shards(const struct skep_json *array, struct skep_job_file *job,
                       struct skep_error *err)
{
    size_t count = skep_json_array_size(array);
    job->shards = skep_alloc(count + 1, sizeof *job->shards);
    for (size_t i = 0; i < count; i++) {
        job->shard_count = i + 1;
        int rc = read_shard(skep_json_array_at(array, i), &job->shards[i], err);
        if (rc != 0) {
            return rc;
        }
        for (size_t j = 0; j < i; j++) {
            if (skep_shard_equal(&job->shards[i].shard, &job->shards[j].shard)) {
                return skep_error_set(err, SKEP_ERR_FORMAT, "job: shard %zu is there twice", i);
            }
        }
    }
    if (count == 0 || job->shards[0].shard.kind != SKEP_SHARD_TRUNK) {
        return skep_error_set(err, SKEP_ERR_FORMAT, "job: the first of %zu shards is not the trunk",
                              count);
    }
    return 0;
}

static int read_chunks(const struct skep_json *array, struct skep_job_file *job,
                       struct skep_error *err)
{
    size_t count = skep_json_array_size(array);
    job->chunks = skep_alloc(count + 1, sizeof *job->chunks);
    for (size_t i = 0; i < count; i++) {
        const char *path = skep_json_text(skep_json_array_at(array, i));
        if (path == NULL) {
            return skep_error_set(err, SKEP_ERR_FORMAT, "job: chunk %zu is not a path", i);
        }
        job->chunks[job->chunk_count++] = skep_strdup(path);
    }
    if (count == 0) {
        return skep_error_set(err, SKEP_ERR_FORMAT, "job: there is no chunk to train on");
    }
    return 0;
}

int skep_job_file_decode(const void *text, size_t size, struct skep_job_file *ret_job,
                         struct skep_error *err)
{
    static const char *const keys[] = {"manifest", "ticket", "trunk_version",
                                       "chunks",   "shards", NULL};
    struct skep_json *root = NULL;
    struct skep_job_file job = {0};
    const struct skep_json *chunks = NULL;
    const struct skep_json *shards = NULL;
    int64_t version = 0;
    int rc = skep_json_parse(text, size, "job", &root, err);
    if (rc == 0) {
        rc = skep_json_allow(root, "job", keys, err);
    }
    if (rc == 0) {
        rc = get_text_copy(root, "job", "manifest", &job.manifest, err);
    }
    if (rc == 0) {
        rc = skep_json_get_hex(root, "job", "ticket", job.ticket.bytes, sizeof job.ticket.bytes,
                               err);
    }
    if (rc == 0) {
        rc = skep_json_get_integer(root, "job", "trunk_version", 0, INT64_MAX, &version, err);
        job.trunk_version = (uint64_t)version;
    }
    if (rc == 0) {
        rc = skep_json_get_array(root, "job", "chunks", SKEP_LIMIT_CHUNKS, &chunks, err);
    }
    if (rc == 0) {
        rc = skep_json_get_array(root, "job", "shards", SKEP_JOB_SHARDS, &shards, err);
    }
    if (rc == 0) {
        rc = read_chunks(chunks, &job, err);
    }
    if (rc == 0) {
        rc = read_shards(shards, &job, err);
    }
    skep_json_free(root);
    if (rc != 0) {
        skep_job_file_done(&job);
        return rc;
    }
    *ret_job = job;
    return 0;
}

char *skep_job_event_encode(const struct skep_job_event *event)
{
    struct skep_json *root = skep_json_object_new();
    if (event->kind == SKEP_JOB_ERROR) {
        skep_json_set_text(root, "event", "error");
        skep_json_set_text(root, "message", event->message);
    } else if (event->kind == SKEP_JOB_DONE) {
        skep_json_set_text(root, "event", "done");
        skep_json_set_integer(root, "tokens", (int64_t)event->tokens);
        skep_json_set_real(root, "loss_first", event->loss_first);
        skep_json_set_real(root, "loss_last", event->loss);
    } else {
        skep_json_set_text(root, "event", "progress");
        skep_json_set_integer(root, "step", (int64_t)event->step);
        skep_json_set_real(root, "loss", event->loss);
        skep_json_set_integer(root, "tokens", (int64_t)event->tokens);
    }
    char *text = skep_json_write(root, false);
    skep_json_free(root);
    return text;
}

static int read_numbers(const struct skep_json *root, struct skep_job_event *event,
                        struct skep_error *err)
{
    bool done = event->kind == SKEP_JOB_DONE;
    int64_t tokens = 0;
    int64_t step = 0;
    int rc = skep_json_get_integer(root, "event", "tokens", 0, INT64_MAX, &tokens, err);
    if (rc == 0) {
        rc = skep_json_get_real(root, "event", done ? "loss_last" : "loss", 0, 1e6, &event->loss,
                                err);
    }
    if (rc == 0 && done) {
        rc = skep_json_get_real(root, "event", "loss_first", 0, 1e6, &event->loss_first, err);
    } else if (rc == 0) {
        rc = skep_json_get_integer(root, "event", "step", 0, INT64_MAX, &step, err);
    }
    event->tokens = (uint64_t)tokens;
    event->step = (uint64_t)step;
    return rc;
}

int skep_job_event_decode(const char *line, struct skep_job_event *ret_event,
                          struct skep_error *err)
{
    struct skep_json *root = NULL;
    struct skep_job_event event = {0};
    const char *kind = NULL;
    const char *message = NULL;
    int rc = skep_json_parse(line, strlen(line), "event", &root, err);
    if (rc == 0) {
        rc = skep_json_get_text(root, "event", "event", &kind, err);
    }
    if (rc == 0 && strcmp(kind, "error") == 0) {
        event.kind = SKEP_JOB_ERROR;
        rc = skep_json_get_text(root, "event", "message", &message, err);
        snprintf(event.message, sizeof event.message, "%s", message != NULL ? message : "");
    } else if (rc == 0 && (strcmp(kind, "done") == 0 || strcmp(kind, "progress") == 0)) {
        event.kind = strcmp(kind, "done") == 0 ? SKEP_JOB_DONE : SKEP_JOB_PROGRESS;
        rc = read_numbers(root, &event, err);
    } else if (rc == 0) {
        rc = skep_error_set(err, SKEP_ERR_FORMAT,
                            "event is \"%.40s\"; allowed: progress, done, error", kind);
    }
    skep_json_free(root);
    if (rc == 0) {
        *ret_event = event;
    }
    return rc;
}
