#include "client/agent/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/agent/rows.h"
#include "client/agent/showing.h"
#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/model/layout.h"
#include "common/swarm/history.h"
#include "common/swarm/ticket.h"
#include "common/swarm/update-open.h"
#include "common/sys/clock.h"
#include "common/sys/file.h"

#define CHECKPOINT_S 60u

void skep_job_done(struct skep_job *job)
{
    skep_process_free(job->worker);
    free(job->places);
    free(job->shards);
    free(job->bases);
    free(job->folder);
    memset(job, 0, sizeof *job); /* unlike an assignment, clang's analyzer follows it */
}

void skep_job_draw(struct skep_job *job, const struct skep_session *session,
                   const struct skep_peer_id *donor)
{
    const struct skep_manifest *manifest = &session->manifest;
    const struct skep_sealed *trunk = &session->sealed[0];
    skep_job_done(job);
    job->trunk_version = trunk->version;
    job->ticket = skep_ticket_of(&trunk->payload, donor, trunk->version);
    job->places = skep_alloc(manifest->training.slice_chunks + 1, sizeof *job->places);
    job->place_count = skep_ticket_slice(&job->ticket, manifest->train.chunk_count,
                                         manifest->training.slice_chunks, job->places);
}

static int read_trunk(struct skep_session *session, float **ret_trunk, struct skep_error *err)
{
    struct skep_layout layout = {0};
    struct skep_buffer file = {0};
    struct skep_shard trunk = {.kind = SKEP_SHARD_TRUNK};
    char *path = skep_session_state_path(session, 0);
    skep_layout_of(&session->manifest.model, &trunk, &layout);
    float *parameters = calloc(layout.parameters, sizeof *parameters);
    int rc = parameters != NULL ? skep_file_read(path, SKEP_LIMIT_STATE_BYTES, &file, err)
                                : skep_error_set(err, SKEP_ERR_MEMORY, "no memory for the trunk");
    if (rc == 0) {
        rc = skep_state_read(&layout, file.data, file.size, parameters, err);
    }
    if (rc == 0) {
        *ret_trunk = parameters;
    } else {
        free(parameters);
    }
    skep_buffer_done(&file);
    skep_layout_done(&layout);
    free(path);
    return rc;
}

/* The trunk, then all experts of the chosen rows. */
static void list_shards(struct skep_job *job, const struct skep_manifest *manifest,
                        const bool *chosen)
{
    const struct skep_model_config *model = &manifest->model;
    size_t most = 1 + (size_t)model->layers * manifest->training.donor_rows * model->columns;
    job->shards = skep_alloc(most, sizeof *job->shards);
    job->shards[0] = 0;
    job->shard_count = 1;
    for (uint32_t layer = 0; layer < model->layers; layer++) {
        for (uint32_t row = 0; row < model->rows; row++) {
            if (!chosen[(size_t)layer * model->rows + row]) {
                continue;
            }
            for (uint32_t column = 0; column < model->columns && job->shard_count < most;
                 column++) {
                struct skep_shard shard = {.kind = SKEP_SHARD_FFN,
                                           .layer = (uint16_t)layer,
                                           .row = (uint16_t)row,
                                           .column = (uint16_t)column};
                job->shards[job->shard_count++] = skep_manifest_shard_index(manifest, &shard);
            }
        }
    }
}

int skep_job_route(struct skep_job *job, struct skep_session *session, struct skep_error *err)
{
    const struct skep_manifest *manifest = &session->manifest;
    size_t count = job->place_count;
    struct skep_buffer *texts = skep_alloc(count + 1, sizeof *texts);
    struct skep_slice_chunk *chunks = skep_alloc(count + 1, sizeof *chunks);
    bool *chosen =
        skep_alloc((size_t)manifest->model.layers * manifest->model.rows, sizeof *chosen);
    float *trunk = NULL;
    int rc = read_trunk(session, &trunk, err);
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc =
            skep_blobs_get(session->blobs, &manifest->train.chunks[job->places[i]], &texts[i], err);
        chunks[i] = (struct skep_slice_chunk){texts[i].data, texts[i].size};
    }
    if (rc == 0) {
        struct skep_rows_input input = {.manifest = manifest,
                                        .trunk = trunk,
                                        .chunks = chunks,
                                        .chunk_count = count,
                                        .ticket = &job->ticket};
        rc = skep_rows_choose(&input, chosen, err);
    }
    if (rc == 0) {
        list_shards(job, manifest, chosen);
    }
    for (size_t i = 0; i < count; i++) {
        skep_buffer_done(&texts[i]);
    }
    free(texts);
    free(chunks);
    free(chosen);
    free(trunk);
    return rc;
}

int skep_job_keep(struct skep_job *job, const bool *have, struct skep_error *err)
{
    size_t kept = 0;
    if (!have[0]) {
        return skep_error_set(err, SKEP_ERR_NETWORK, "the trunk cannot be fetched");
    }
    for (size_t i = 0; i < job->shard_count; i++) {
        if (have[i]) {
            job->shards[kept++] = job->shards[i];
        }
    }
    if (kept == 1) {
        return skep_error_set(err, SKEP_ERR_NETWORK, "none of the %zu experts can be fetched",
                              job->shard_count - 1);
    }
    if (kept < job->shard_count) {
        skep_log(SKEP_LOG_INFO, "training without %zu of %zu experts that nobody gives",
                 job->shard_count - kept, job->shard_count - 1);
    }
    job->shard_count = kept;
    return 0;
}

/* A second name for a file, which stays whatever becomes of the first; a copy where the file system knows no such thing. A file that is
 * not there gives none. */
static int link_or_copy(const char *from, const char *to, struct skep_error *err)
{
    if (link(from, to) == 0 || errno == ENOENT) {
        return 0;
    }
    struct skep_buffer file = {0};
    int rc = skep_file_read(from, SKEP_LIMIT_STATE_BYTES * (size_t)3, &file, err);
    if (rc == 0) {
        rc = skep_file_write_quick(to, 0600, file.data, file.size, err);
    }
    skep_buffer_done(&file);
    return rc;
}

/* What the job begins with, under names of its own. A history is both of its files or none. */
static int take_inputs(const struct skep_job_shard *shard, const char *state,
                       const struct skep_outbox *outbox, struct skep_error *err)
{
    char *moments = skep_outbox_own_path(outbox, &shard->shard, "moments");
    char *residual = skep_outbox_own_path(outbox, &shard->shard, "residual");
    bool whole = skep_file_exists(moments) && skep_file_exists(residual);
    int rc = link_or_copy(state, shard->state, err);
    if (rc == 0 && whole) {
        rc = link_or_copy(moments, shard->moments, err);
    }
    if (rc == 0 && whole) {
        rc = link_or_copy(residual, shard->residual, err);
    }
    free(moments);
    free(residual);
    return rc;
}

static char *path_in(const struct skep_job *job, const struct skep_shard *shard, const char *what)
{
    char name[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(shard, name);
    return skep_format("%s/%s.%s", job->folder, name, what);
}

static void describe(const struct skep_job *job, const struct skep_session *session,
                     const struct skep_job_means *means, struct skep_job_file *file)
{
    const struct skep_manifest *manifest = &session->manifest;
    file->manifest = skep_format("%s/manifest", session->folder);
    file->ticket = job->ticket;
    file->trunk_version = job->trunk_version;
    file->chunk_count = job->place_count;
    file->chunks = skep_alloc(job->place_count + 1, sizeof *file->chunks);
    for (size_t i = 0; i < job->place_count; i++) {
        const char *hash = skep_id_text(manifest->train.chunks[job->places[i]].bytes);
        file->chunks[i] = skep_format("%s/data/%.2s/%s", session->folder, hash, hash);
    }
    file->shard_count = job->shard_count;
    file->shards = skep_alloc(job->shard_count, sizeof *file->shards);
    for (size_t i = 0; i < job->shard_count; i++) {
        struct skep_job_shard *shard = &file->shards[i];
        shard->shard = skep_manifest_shard(manifest, job->shards[i]);
        shard->base_version = job->bases[i].version;
        shard->root = job->bases[i].root;
        shard->state = path_in(job, &shard->shard, "state");
        shard->moments = path_in(job, &shard->shard, "moments-before");
        shard->residual = path_in(job, &shard->shard, "residual-before");
    }
    file->threads = means->threads;
    file->recompute = means->recompute;
    file->device = skep_strdup(means->device);
    file->checkpoint_s = CHECKPOINT_S;
}

static char *folder_of(const struct skep_session *session)
{
    return skep_format("%s/job", session->folder);
}

/* A new job's folder: empty but for what it begins with. */
static int make_folder(struct skep_job *job, struct skep_session *session,
                       const struct skep_outbox *outbox, const struct skep_job_file *file,
                       struct skep_error *err)
{
    int rc = skep_folder_remove(job->folder, err);
    if (rc == 0) {
        rc = skep_folder_make(job->folder, err);
    }
    for (size_t i = 0; i < job->shard_count && rc == 0; i++) {
        char *state = skep_session_state_path(session, job->shards[i]);
        rc = take_inputs(&file->shards[i], state, outbox, err);
        free(state);
    }
    return rc;
}

/* ---- the worker ---- */

static void on_line(void *user, const char *line)
{
    const struct skep_job_watch *watch = user;
    skep_job_line(watch->job, line);
    watch->on_progress(watch->user);
}

static void on_exit_of_worker(void *user, int status)
{
    const struct skep_job_watch *watch = user;
    watch->on_exit(watch->user, status);
}

void skep_job_line(struct skep_job *job, const char *line)
{
    struct skep_job_event event;
    struct skep_error err = {0};
    if (skep_job_event_decode(line, &event, &err) != 0) {
        skep_log(SKEP_LOG_WARNING, "the worker said something else: %s", err.text);
        return;
    }
    switch (event.kind) {
    case SKEP_JOB_ERROR:
        snprintf(job->failure, sizeof job->failure, "%.255s", event.message);
        job->damaged = event.damaged;
        job->damaged_shard = event.shard;
        break;
    case SKEP_JOB_STOPPED:
        job->stopped = true;
        break;
    case SKEP_JOB_PROGRESS:
        if (!job->counting) {
            job->counting = true;
            job->started_tokens = job->last.tokens;
        }
        job->last = event;
        break;
    case SKEP_JOB_DONE:
        job->last = event;
        break;
    case SKEP_JOB_HALTED:
        break;
    }
}

static int start_worker(struct skep_job *job, struct skep_session *session, const char *path,
                        const struct skep_job_watch *watch, struct skep_error *err)
{
    /* the worker says how many threads there are, and none are started before */
    static const char *const environment[] = {"OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1", NULL};
    char *program = skep_process_find("skep-worker");
    const char *const arguments[] = {program, path, NULL};
    struct skep_process_options options = {
        .arguments = arguments,
        .environment = environment,
        .on_line = on_line,
        .on_exit = on_exit_of_worker,
        .user = (void *)watch,
    };
    job->started_ms = skep_clock_monotonic_ms();
    job->counting = false;
    job->stopped = false;
    job->failure[0] = '\0';
    int rc = skep_process_start(session->loop, &options, &job->worker, err);
    free(program);
    return rc;
}

static void remember_bases(struct skep_job *job, const struct skep_session *session)
{
    free(job->bases);
    job->bases = skep_alloc(job->shard_count, sizeof *job->bases);
    for (size_t i = 0; i < job->shard_count; i++) {
        job->bases[i] = session->sealed[job->shards[i]];
    }
}

int skep_job_start(struct skep_job *job, struct skep_session *session,
                   const struct skep_outbox *outbox, const struct skep_job_means *means,
                   const struct skep_job_watch *watch, struct skep_error *err)
{
    struct skep_job_file file = {0};
    int rc = 0;
    if (!job->kept) {
        job->folder = folder_of(session);
        remember_bases(job, session);
    }
    describe(job, session, means, &file);
    char *path = skep_format("%s/job.json", job->folder);
    char *text = skep_job_file_encode(&file);
    if (!job->kept) {
        rc = make_folder(job, session, outbox, &file, err);
    }
    if (rc == 0) {
        rc = skep_file_write(path, 0600, text, strlen(text), err);
    }
    if (rc == 0) {
        job->kept = true;
        rc = start_worker(job, session, path, watch, err);
    }
    free(text);
    free(path);
    skep_job_file_done(&file);
    return rc;
}

/* ---- a job of an earlier run ---- */

/* Place of the chunk that a path ends with, or SIZE_MAX. */
static size_t place_of(const struct skep_data_set *set, const char *path)
{
    struct skep_hash hash;
    const char *slash = strrchr(path, '/');
    if (!skep_hex_decode(slash != NULL ? slash + 1 : path, hash.bytes, sizeof hash.bytes)) {
        return SIZE_MAX;
    }
    for (size_t i = 0; i < set->chunk_count; i++) {
        if (skep_hash_equal(&set->chunks[i], &hash)) {
            return i;
        }
    }
    return SIZE_MAX;
}

static int take_up(struct skep_job *job, const struct skep_manifest *manifest,
                   const struct skep_job_file *file, struct skep_error *err)
{
    job->trunk_version = file->trunk_version;
    job->ticket = file->ticket;
    job->place_count = file->chunk_count;
    job->places = skep_alloc(file->chunk_count + 1, sizeof *job->places);
    for (size_t i = 0; i < file->chunk_count; i++) {
        job->places[i] = place_of(&manifest->train, file->chunks[i]);
        if (job->places[i] == SIZE_MAX) {
            return skep_error_set(err, SKEP_ERR_FORMAT, "chunk %zu is not of this project", i);
        }
    }
    job->shard_count = file->shard_count;
    job->shards = skep_alloc(file->shard_count, sizeof *job->shards);
    job->bases = skep_alloc(file->shard_count, sizeof *job->bases);
    for (size_t i = 0; i < file->shard_count; i++) {
        const struct skep_job_shard *shard = &file->shards[i];
        job->shards[i] = skep_manifest_shard_index(manifest, &shard->shard);
        if (job->shards[i] == SIZE_MAX) {
            return skep_error_set(err, SKEP_ERR_FORMAT, "shard %zu is not of this model", i);
        }
        job->bases[i] = (struct skep_sealed){
            .known = true, .version = shard->base_version, .root = shard->root};
    }
    job->kept = true;
    return 0;
}

bool skep_job_load(struct skep_job *job, struct skep_session *session)
{
    struct skep_buffer text = {0};
    struct skep_job_file file = {0};
    struct skep_error err = {0};
    skep_job_done(job);
    job->folder = folder_of(session);
    char *path = skep_format("%s/job.json", job->folder);
    int rc = skep_file_read(path, SKEP_LIMIT_STATEMENT_BYTES * (size_t)8, &text, &err);
    if (rc == 0) {
        rc = skep_job_file_decode(text.data, text.size, &file, &err);
    }
    if (rc == 0) {
        rc = take_up(job, &session->manifest, &file, &err);
    }
    if (rc != 0) {
        if (rc != SKEP_ERR_NOT_FOUND) {
            skep_log(SKEP_LOG_WARNING, "the job in %s is dropped: %s", job->folder, err.text);
        }
        skep_job_drop(job);
    }
    skep_buffer_done(&text);
    skep_job_file_done(&file);
    free(path);
    return job->kept;
}

void skep_job_drop(struct skep_job *job)
{
    struct skep_error err = {0};
    skep_process_free(job->worker);
    job->worker = NULL;
    if (job->folder != NULL && skep_folder_remove(job->folder, &err) != 0) {
        skep_log(SKEP_LOG_WARNING, "%s", err.text);
    }
    skep_job_done(job);
}

void skep_job_forget_damaged(const struct skep_job *job, const struct skep_session *session)
{
    size_t index = job->damaged ? skep_manifest_shard_index(&session->manifest, &job->damaged_shard)
                                : SIZE_MAX;
    for (size_t i = 0; i < job->shard_count; i++) {
        if (job->shards[i] == index) {
            char *path = skep_format("%s/states/%s", session->folder,
                                     skep_id_text(job->bases[i].root.bytes));
            (void)unlink(path);
            free(path);
        }
    }
}

/* ---- the updates ---- */

/* The hash that a flat file ends with; zeros if there is none. */
static struct skep_hash end_of(const struct skep_job *job, const struct skep_shard *shard,
                               const char *what)
{
    struct skep_hash hash = {{0}};
    char *path = path_in(job, shard, what);
    int64_t size = skep_file_size(path);
    if (size >= (int64_t)sizeof hash.bytes) {
        uint64_t offset = (uint64_t)size - sizeof hash.bytes;
        (void)skep_file_read_at(path, offset, hash.bytes, sizeof hash.bytes, NULL);
    }
    free(path);
    return hash;
}

static struct skep_hash history_before(const struct skep_job *job, const struct skep_shard *shard)
{
    struct skep_hash moments = end_of(job, shard, "moments-before");
    struct skep_hash residual = end_of(job, shard, "residual-before");
    return skep_history_of(&moments, &residual);
}

static struct skep_hash history_after(const struct skep_job *job, const struct skep_shard *shard)
{
    struct skep_hash moments = end_of(job, shard, "moments");
    struct skep_hash residual = end_of(job, shard, "residual");
    return skep_history_of(&moments, &residual);
}

/* What the job began and ended with, to be shown. */
static void keep_histories(const struct skep_job *job, const struct skep_manifest *manifest,
                           struct skep_showing *showing)
{
    static const char *const names[2][2] = {{"moments-before", "residual-before"},
                                            {"moments", "residual"}};
    for (size_t i = 0; i < job->shard_count; i++) {
        struct skep_shard shard = skep_manifest_shard(manifest, job->shards[i]);
        for (size_t end = 0; end < 2; end++) {
            struct skep_hash history =
                end == 0 ? history_before(job, &shard) : history_after(job, &shard);
            char *moments = path_in(job, &shard, names[end][0]);
            char *residual = path_in(job, &shard, names[end][1]);
            if (!skep_history_is_new(&history)) {
                skep_showing_keep(showing, job->trunk_version, &job->ticket, &history, moments,
                                  residual);
            }
            free(moments);
            free(residual);
        }
    }
    skep_showing_prune(showing);
}

/* The other shards of the job, for the trunk's update. The caller frees. */
static struct skep_update_part *name_parts(const struct skep_job *job,
                                           const struct skep_manifest *manifest)
{
    struct skep_update_part *parts = skep_alloc(job->shard_count, sizeof *parts);
    for (size_t i = 1; i < job->shard_count; i++) {
        struct skep_update_part *part = &parts[i - 1];
        part->shard = skep_manifest_shard(manifest, job->shards[i]);
        part->base_version = job->bases[i].version;
        part->before = history_before(job, &part->shard);
    }
    return parts;
}

/* The update of shard i, whose name and all that the job's updates have in common stand in `statement`. */
static int publish_shard(const struct skep_job *job, size_t i,
                         struct skep_update_statement *statement, struct skep_outbox *outbox,
                         const struct skep_key *key, struct skep_error *err)
{
    statement->base_version = job->bases[i].version;
    statement->base_state = job->bases[i].root;
    statement->before = history_before(job, &statement->shard);
    statement->after = history_after(job, &statement->shard);
    statement->part_count = statement->shard.kind == SKEP_SHARD_TRUNK ? job->shard_count - 1 : 0;
    char *body_path = path_in(job, &statement->shard, "body");
    char *moments = path_in(job, &statement->shard, "moments");
    char *residual = path_in(job, &statement->shard, "residual");
    struct skep_buffer body = {0};
    struct skep_buffer file = {0};
    int rc = skep_file_read(body_path, SKEP_LIMIT_UPDATE_BYTES, &body, err);
    if (rc == 0) {
        skep_update_seal(key, statement, &body, &file);
        rc = skep_outbox_add(outbox, &file, moments, residual, err);
    }
    skep_buffer_done(&body);
    skep_buffer_done(&file);
    free(body_path);
    free(moments);
    free(residual);
    return rc;
}

int skep_job_publish(struct skep_job *job, struct skep_session *session, struct skep_outbox *outbox,
                     const struct skep_key *key, uint64_t stamp, struct skep_error *err)
{
    if (job->last.kind != SKEP_JOB_DONE) {
        return skep_error_set(err, SKEP_ERR_STATE, "the worker ended without a result");
    }
    if (job->published == 0) {
        keep_histories(job, &session->manifest, skep_outbox_showing(outbox));
    }
    struct skep_update_statement statement = {
        .project = session->project,
        .trunk_version = job->trunk_version,
        .ticket = job->ticket,
        .stamp = stamp,
        .tokens = job->last.tokens,
        .loss_first = job->last.loss_first,
        .loss_last = job->last.loss,
    };
    struct skep_update_part *parts = name_parts(job, &session->manifest);
    int rc = 0;
    statement.parts = parts;
    for (; job->published < job->shard_count && rc == 0; job->published += rc == 0) {
        /* the trunk last: once it is there keepers close the experts' rounds too */
        size_t i = job->published + 1 < job->shard_count ? job->published + 1 : 0;
        if (skep_outbox_has_accepted(outbox, job->shards[i], job->bases[i].version)) {
            continue; /* it was not sealed in time for this job */
        }
        statement.shard = skep_manifest_shard(&session->manifest, job->shards[i]);
        rc = publish_shard(job, i, &statement, outbox, key, err);
    }
    free(parts);
    if (rc != 0) {
        return rc;
    }
    job->kept = false;
    return skep_folder_remove(job->folder, err);
}
