#include "common/swarm/job-file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/base/limits.h"
#include "common/crypto/hash.h"
#include "common/wire/json.h"

void skep_job_file_done(struct skep_job_file *job)
{
    free(job->manifest);
    free(job->device);
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
        skep_json_set_integer(shard, "base_version", (int64_t)job->shards[i].base_version);
        skep_json_set_hex(shard, "root", job->shards[i].root.bytes, SKEP_ID_SIZE);
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
    skep_json_set_integer(root, "threads", (int64_t)job->threads);
    skep_json_set_bool(root, "recompute", job->recompute);
    skep_json_set_text(root, "device", job->device);
    skep_json_set_integer(root, "checkpoint_s", (int64_t)job->checkpoint_s);
    char *text = skep_json_write(root, true);
    skep_json_free(root);
    return text;
}

struct skep_hash skep_job_file_identity(const struct skep_job_file *job)
{
    struct skep_buffer bytes = {0};
    skep_buffer_append(&bytes, job->ticket.bytes, SKEP_ID_SIZE);
    skep_buffer_append_u64(&bytes, job->trunk_version);
    skep_buffer_append_u64(&bytes, job->chunk_count);
    for (size_t i = 0; i < job->shard_count; i++) {
        char name[SKEP_SHARD_TEXT_SIZE];
        skep_shard_format(&job->shards[i].shard, name);
        skep_buffer_append(&bytes, name, strlen(name) + 1);
        skep_buffer_append(&bytes, job->shards[i].root.bytes, SKEP_ID_SIZE);
    }
    struct skep_hash identity = skep_hash_of(bytes.data, bytes.size);
    skep_buffer_done(&bytes);
    return identity;
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
    static const char *const keys[] = {"shard",   "base_version", "root", "state",
                                       "moments", "residual",     NULL};
    int rc = skep_json_allow(value, "job shard", keys, err);
    if (rc == 0) {
        rc = skep_json_get_shard(value, "job shard", "shard", &shard->shard, err);
    }
    int64_t version = 0;
    if (rc == 0) {
        rc = skep_json_get_integer(value, "job shard", "base_version", 0, INT64_MAX, &version, err);
        shard->base_version = (uint64_t)version;
    }
    if (rc == 0) {
        rc = skep_json_get_hex(value, "job shard", "root", shard->root.bytes, SKEP_ID_SIZE, err);
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

static int read_how(const struct skep_json *root, struct skep_job_file *job, struct skep_error *err)
{
    int64_t threads = 0;
    int64_t checkpoint_s = 0;
    int rc = skep_json_get_integer(root, "job", "threads", 1, SKEP_JOB_THREADS, &threads, err);
    if (rc == 0) {
        rc = skep_json_get_bool(root, "job", "recompute", &job->recompute, err);
    }
    if (rc == 0) {
        rc = get_text_copy(root, "job", "device", &job->device, err);
    }
    if (rc == 0) {
        rc = skep_json_get_integer(root, "job", "checkpoint_s", 0, UINT32_MAX, &checkpoint_s, err);
    }
    job->threads = (uint32_t)threads;
    job->checkpoint_s = (uint32_t)checkpoint_s;
    return rc;
}

int skep_job_file_decode(const void *text, size_t size, struct skep_job_file *ret_job,
                         struct skep_error *err)
{
    static const char *const keys[] = {"manifest",     "ticket",  "trunk_version", "chunks",
                                       "shards",       "threads", "recompute",     "device",
                                       "checkpoint_s", NULL};
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
        rc = skep_json_get_array(root, "job", "shards", SKEP_LIMIT_JOB_SHARDS, &shards, err);
    }
    if (rc == 0) {
        rc = read_chunks(chunks, &job, err);
    }
    if (rc == 0) {
        rc = read_shards(shards, &job, err);
    }
    if (rc == 0) {
        rc = read_how(root, &job, err);
    }
    skep_json_free(root);
    if (rc != 0) {
        skep_job_file_done(&job);
        return rc;
    }
    *ret_job = job;
    return 0;
}

/* In the order of enum skep_job_event_kind. */
static const char *const kinds[] = {"progress", "halted", "stopped", "done", "error"};
#define MOST_LOSS                                                                                  \
    1e300 /* a history that somebody made up can have a job lose whatever a number can say */
#define KINDS (sizeof kinds / sizeof kinds[0])

char *skep_job_event_encode(const struct skep_job_event *event)
{
    struct skep_json *root = skep_json_object_new();
    skep_json_set_text(root, "event", kinds[event->kind]);
    if (event->kind == SKEP_JOB_ERROR) {
        skep_json_set_text(root, "message", event->message);
        if (event->code != SKEP_OK) {
            skep_json_set_text(root, "reason", skep_err_name(event->code));
        }
        if (event->damaged) {
            skep_json_set_shard(root, "damaged", &event->shard);
        }
    } else if (event->kind == SKEP_JOB_DONE) {
        skep_json_set_integer(root, "tokens", (int64_t)event->tokens);
        skep_json_set_real(root, "loss_first", event->loss_first);
        skep_json_set_real(root, "loss_last", event->loss);
        skep_json_set_integer(root, "peak_bytes", (int64_t)event->peak_bytes);
    } else {
        skep_json_set_integer(root, "step", (int64_t)event->step);
        skep_json_set_integer(root, "tokens", (int64_t)event->tokens);
        if (event->kind == SKEP_JOB_PROGRESS) {
            skep_json_set_real(root, "loss", event->loss);
        }
    }
    char *text = skep_json_write(root, false);
    skep_json_free(root);
    return text;
}

static int get_count(const struct skep_json *root, const char *key, uint64_t *ret_count,
                     struct skep_error *err)
{
    int64_t value = 0;
    int rc = skep_json_get_integer(root, "event", key, 0, INT64_MAX, &value, err);
    *ret_count = (uint64_t)value;
    return rc;
}

static int read_done(const struct skep_json *root, struct skep_job_event *event,
                     struct skep_error *err)
{
    int rc = skep_json_get_real(root, "event", "loss_last", 0, MOST_LOSS, &event->loss, err);
    if (rc == 0) {
        rc = skep_json_get_real(root, "event", "loss_first", 0, MOST_LOSS, &event->loss_first, err);
    }
    return rc == 0 ? get_count(root, "peak_bytes", &event->peak_bytes, err) : rc;
}

static int read_numbers(const struct skep_json *root, struct skep_job_event *event,
                        struct skep_error *err)
{
    int rc = get_count(root, "tokens", &event->tokens, err);
    if (rc != 0) {
        return rc;
    }
    if (event->kind == SKEP_JOB_DONE) {
        return read_done(root, event, err);
    }
    rc = get_count(root, "step", &event->step, err);
    if (rc == 0 && event->kind == SKEP_JOB_PROGRESS) {
        rc = skep_json_get_real(root, "event", "loss", 0, MOST_LOSS, &event->loss, err);
    }
    return rc;
}

/* An unknown name is no reason. */
static enum skep_err code_of(const char *name)
{
    int code = SKEP_ERR_CANCELLED;
    while (code != SKEP_OK && strcmp(skep_err_name((enum skep_err)code), name) != 0) {
        code++;
    }
    return (enum skep_err)code;
}

static int read_error(const struct skep_json *root, struct skep_job_event *event,
                      struct skep_error *err)
{
    const char *message = NULL;
    int rc = skep_json_get_text(root, "event", "message", &message, err);
    snprintf(event->message, sizeof event->message, "%s", rc == 0 ? message : "");
    if (rc == 0 && skep_json_has(root, "reason")) {
        const char *name = NULL;
        rc = skep_json_get_text(root, "event", "reason", &name, err);
        event->code = rc == 0 ? code_of(name) : SKEP_OK;
    }
    event->damaged = skep_json_has(root, "damaged");
    if (rc == 0 && event->damaged) {
        rc = skep_json_get_shard(root, "event", "damaged", &event->shard, err);
    }
    return rc;
}

static int read_kind(const struct skep_json *root, enum skep_job_event_kind *ret_kind,
                     struct skep_error *err)
{
    const char *name = NULL;
    int rc = skep_json_get_text(root, "event", "event", &name, err);
    for (size_t i = 0; i < KINDS && rc == 0; i++) {
        if (strcmp(name, kinds[i]) == 0) {
            *ret_kind = (enum skep_job_event_kind)i;
            return 0;
        }
    }
    return rc != 0 ? rc
                   : skep_error_set(err, SKEP_ERR_FORMAT,
                                    "event is \"%.40s\"; allowed: progress, halted, stopped, done, "
                                    "error",
                                    name);
}

int skep_job_event_decode(const char *line, struct skep_job_event *ret_event,
                          struct skep_error *err)
{
    struct skep_json *root = NULL;
    struct skep_job_event event = {0};
    int rc = skep_json_parse(line, strlen(line), "event", &root, err);
    if (rc == 0) {
        rc = read_kind(root, &event.kind, err);
    }
    if (rc == 0) {
        rc = event.kind == SKEP_JOB_ERROR ? read_error(root, &event, err)
                                          : read_numbers(root, &event, err);
    }
    skep_json_free(root);
    if (rc == 0) {
        *ret_event = event;
    }
    return rc;
}
