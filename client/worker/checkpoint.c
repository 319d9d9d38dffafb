#include "client/worker/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "client/worker/stream.h"
#include "common/base/alloc.h"

#define MARK "SKCP"
#define FORMAT 1u
#define HEADER_BYTES 116u
#define SHARD_BYTES 16u

static char *path_of(const struct skep_work *work)
{
    return skep_format("%s/checkpoint", work->folder);
}

/* The gradients of a stopped update that it still has to use. */
static bool keeps_gradients(const struct skep_work *work, size_t i)
{
    return work->position.updating && i >= work->position.shard;
}

uint64_t skep_checkpoint_bytes(const struct skep_work *work)
{
    uint64_t bytes = HEADER_BYTES + SKEP_ID_SIZE;
    for (size_t i = 0; i < work->job.shard_count; i++) {
        bytes += SHARD_BYTES + (uint64_t)work->layouts[i].parameters * 3 * sizeof(float);
    }
    return bytes;
}

uint64_t skep_checkpoint_pause_ms(uint64_t checkpoint_bytes, uint32_t checkpoint_s)
{
    uint64_t by_size = checkpoint_bytes / SKEP_CHECKPOINT_BYTES_PER_MS;
    uint64_t asked = (uint64_t)checkpoint_s * 1000;
    return by_size > asked ? by_size : asked;
}

/* ---- out ---- */

static void put_position(struct skep_stream_out *out, const struct skep_train_position *position)
{
    skep_stream_put_u32(out, position->step);
    skep_stream_put_u64(out, position->tokens);
    skep_stream_put_f64(out, position->loss_first);
    skep_stream_put_f64(out, position->loss_last);
    skep_stream_put_u32(out, position->updating);
    skep_stream_put_f64(out, position->step_loss);
    skep_stream_put_u64(out, position->step_tokens);
    skep_stream_put_f64(out, position->clip);
    skep_stream_put_u32(out, position->shard);
    skep_stream_put_u64(out, position->offset);
}

/* An array of the back end, on the host: where it is, or in scratch. */
static const float *on_host(const struct skep_work *work, const float *values, size_t count)
{
    if (work->ops->on_host) {
        return values;
    }
    work->ops->copy_out(work->scratch, values, count * sizeof *values);
    return work->scratch;
}

static void put_shard(struct skep_stream_out *out, const struct skep_work *work, size_t i)
{
    size_t count = work->layouts[i].parameters;
    const struct skep_moments *moments = &work->moments[i];
    skep_stream_put_u64(out, count);
    skep_stream_put_u64(out, moments->step);
    skep_model_get(work->model, &work->shards[i], work->scratch);
    skep_stream_put_floats(out, work->scratch, count);
    skep_stream_put_floats(out, on_host(work, moments->first, count), count);
    skep_stream_put_floats(out, on_host(work, moments->second, count), count);
    if (keeps_gradients(work, i)) {
        skep_model_get_gradients(work->model, &work->shards[i], work->scratch);
        skep_stream_put_floats(out, work->scratch, count);
    }
}

int skep_checkpoint_write(const struct skep_work *work, struct skep_error *err)
{
    struct skep_stream_out *out = NULL;
    struct skep_hash identity = skep_job_file_identity(&work->job);
    char *path = path_of(work);
    int rc = skep_stream_create(path, &out, err);
    free(path);
    if (rc != 0) {
        return rc;
    }
    skep_stream_put(out, MARK, 4);
    skep_stream_put_u32(out, FORMAT);
    skep_stream_put(out, identity.bytes, sizeof identity.bytes);
    put_position(out, &work->position);
    skep_stream_put_u32(out, work->parts);
    skep_stream_put_u32(out, (uint32_t)work->job.shard_count);
    for (size_t i = 0; i < work->job.shard_count; i++) {
        put_shard(out, work, i);
    }
    rc = work->ops->status(err);
    if (rc != 0) {
        skep_stream_abandon(out);
        return rc;
    }
    skep_stream_put_hash(out);
    return skep_stream_commit(out, true, err);
}

/* ---- in ---- */

static int get_position(struct skep_stream_in *in, struct skep_train_position *position,
                        struct skep_error *err)
{
    uint8_t bytes[60];
    int rc = skep_stream_get(in, bytes, sizeof bytes, err);
    if (rc != 0) {
        return rc;
    }
    struct skep_reader reader = skep_reader_of(bytes, sizeof bytes);
    uint64_t reals[2];
    position->step = skep_read_u32(&reader);
    position->tokens = skep_read_u64(&reader);
    reals[0] = skep_read_u64(&reader);
    reals[1] = skep_read_u64(&reader);
    memcpy(&position->loss_first, &reals[0], sizeof reals[0]);
    memcpy(&position->loss_last, &reals[1], sizeof reals[1]);
    position->updating = skep_read_u32(&reader) != 0;
    reals[0] = skep_read_u64(&reader);
    position->step_tokens = skep_read_u64(&reader);
    reals[1] = skep_read_u64(&reader);
    memcpy(&position->step_loss, &reals[0], sizeof reals[0]);
    memcpy(&position->clip, &reals[1], sizeof reals[1]);
    position->shard = skep_read_u32(&reader);
    return skep_stream_get_u64(in, &position->offset, err);
}

static int get_header(struct skep_stream_in *in, struct skep_work *work, struct skep_error *err)
{
    uint8_t head[8 + SKEP_ID_SIZE];
    uint32_t shards = 0;
    struct skep_hash identity = skep_job_file_identity(&work->job);
    int rc = skep_stream_get(in, head, sizeof head, err);
    if (rc == 0 && (memcmp(head, MARK, 4) != 0 || skep_get_u32(head + 4) != FORMAT)) {
        rc = skep_error_set(err, SKEP_ERR_FORMAT, "it is not a checkpoint of format %u", FORMAT);
    }
    if (rc == 0 && memcmp(head + 8, identity.bytes, SKEP_ID_SIZE) != 0) {
        rc = skep_error_set(err, SKEP_ERR_FORMAT, "it is of job %.16s and this is job %.16s",
                            skep_id_text(head + 8), skep_id_text(identity.bytes));
    }
    if (rc == 0) {
        rc = get_position(in, &work->position, err);
    }
    if (rc == 0) {
        rc = skep_stream_get_u32(in, &work->parts, err);
    }
    if (rc == 0) {
        rc = skep_stream_get_u32(in, &shards, err);
    }
    if (rc == 0 && shards != work->job.shard_count) {
        rc = skep_error_set(err, SKEP_ERR_FORMAT, "it has %u shards and the job %zu", shards,
                            work->job.shard_count);
    }
    return rc;
}

/* Floats into an array of the back end. */
static int get_array(struct skep_stream_in *in, struct skep_work *work, float *to, size_t count,
                     struct skep_error *err)
{
    float *host = work->ops->on_host ? to : work->scratch;
    int rc = skep_stream_get_floats(in, host, count, err);
    if (rc == 0 && host != to) {
        work->ops->copy_in(to, host, count * sizeof *to);
    }
    return rc;
}

static int get_shard(struct skep_stream_in *in, struct skep_work *work, size_t i,
                     struct skep_error *err)
{
    size_t count = work->layouts[i].parameters;
    struct skep_moments *moments = &work->moments[i];
    uint64_t found = 0;
    int rc = skep_stream_get_u64(in, &found, err);
    if (rc == 0 && found != count) {
        rc = skep_error_set(err, SKEP_ERR_FORMAT, "its shard %zu has %llu parameters, expected %zu",
                            i, (unsigned long long)found, count);
    }
    if (rc == 0) {
        rc = skep_stream_get_u64(in, &moments->step, err);
    }
    if (rc == 0) {
        rc = skep_stream_get_floats(in, work->scratch, count, err);
    }
    if (rc == 0) {
        rc = skep_model_set(work->model, &work->shards[i], work->scratch);
    }
    if (rc == 0) {
        rc = get_array(in, work, moments->first, count, err);
    }
    if (rc == 0) {
        rc = get_array(in, work, moments->second, count, err);
    }
    if (rc == 0 && keeps_gradients(work, i)) {
        rc = skep_stream_get_floats(in, work->scratch, count, err);
        if (rc == 0) {
            skep_model_set_gradients(work->model, &work->shards[i], work->scratch);
        }
    }
    return rc;
}

int skep_checkpoint_read(struct skep_work *work, struct skep_error *err)
{
    struct skep_stream_in *in = NULL;
    char *path = path_of(work);
    int rc = skep_stream_open(path, &in, err);
    free(path);
    if (rc != 0) {
        return rc;
    }
    rc = skep_stream_check(in, err);
    if (rc == 0) {
        rc = get_header(in, work, err);
    }
    for (size_t i = 0; i < work->job.shard_count && rc == 0; i++) {
        rc = skep_work_stopped(err);
        if (rc == 0) {
            rc = get_shard(in, work, i, err);
        }
    }
    skep_stream_close(in);
    return rc;
}
