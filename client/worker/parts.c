#include "client/worker/parts.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/worker/flat.h"
#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/merge/compress.h"
#include "common/merge/mask.h"
#include "common/sys/file.h"
#include "common/wire/safetensors.h"

/* scratch <- the state the job began with - the parameters it ended with */
static int take_difference(struct skep_work *work, size_t i, struct skep_error *err)
{
    struct skep_buffer file = {0};
    struct skep_tensor_view *views = NULL;
    size_t count = 0;
    int rc = skep_work_read_state(work, i, &file, err);
    if (rc == 0) {
        rc = skep_safetensors_read(file.data, file.size, &views, &count, err);
    }
    if (rc == 0) {
        /* the file has the root it had when skep_state_read() took it: its tensors are the layout's */
        skep_model_get(work->model, &work->shards[i], work->scratch);
        float *at = work->scratch;
        for (size_t t = 0; t < count; t++) {
            for (size_t v = 0; v < views[t].count; v++, at++) {
                *at = skep_get_f32(views[t].data + 4 * v) - *at;
            }
        }
        rc = work->ops->status(err);
    }
    free(views);
    skep_buffer_done(&file);
    return rc;
}

static int compress(struct skep_work *work, size_t i, float *residual,
                    struct skep_update_body *ret_body, struct skep_error *err)
{
    const struct skep_layout *layout = &work->layouts[i];
    const struct skep_update_config *config = &work->manifest.update;
    struct skep_tiling *tilings = skep_alloc(layout->tensor_count, sizeof *tilings);
    for (size_t t = 0; t < layout->tensor_count; t++) {
        const struct skep_tensor_spec *spec = &layout->tensors[t];
        tilings[t] = skep_tiling_of(spec->dims, spec->dim_count, config->keep);
    }
    struct skep_hash mask =
        skep_mask_seed(&work->manifest.project, &work->shards[i], work->job.shards[i].base_version);
    const struct skep_compress_options options = {
        .decay = (float)config->error_decay_permille / 1000.0f,
        .mask = config->mask == SKEP_MASK_COMMON ? &mask : NULL,
        .stopped = skep_ops_stopped};
    int rc = skep_compress_shard_with(&options, tilings, layout->tensor_count, work->scratch,
                                      residual, ret_body, err);
    free(tilings);
    return rc;
}

static int write_body(struct skep_work *work, size_t i, float *residual, struct skep_error *err)
{
    struct skep_update_body body = {0};
    struct skep_buffer bytes = {0};
    char *path = skep_work_path(work, i, "body");
    int rc = compress(work, i, residual, &body, err);
    if (rc == 0) {
        skep_update_body_encode(&body, &bytes);
        rc = skep_file_write_quick(path, 0600, bytes.data, bytes.size, err);
    }
    skep_buffer_done(&bytes);
    skep_update_body_done(&body);
    free(path);
    return rc;
}

static int write_residual(struct skep_work *work, size_t i, struct skep_error *err)
{
    size_t count = work->layouts[i].parameters;
    struct skep_error why = {0};
    uint64_t ignored = 0;
    float *residual = calloc(count, sizeof *residual);
    if (residual == NULL) {
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory for a residual of %zu values",
                              count);
    }
    int rc = skep_flat_read(work->job.shards[i].residual, &ignored, (float *const[]){residual}, 1,
                            count, &why);
    if (rc == SKEP_ERR_CANCELLED) {
        free(residual);
        return skep_work_stopped(err);
    }
    if (rc != 0) {
        skep_log(SKEP_LOG_WARNING, "a residual begins anew from zero: %s", why.text);
        memset(residual, 0, count * sizeof *residual);
    }
    char *path = skep_work_path(work, i, "residual");
    rc = write_body(work, i, residual, err);
    if (rc == 0) {
        rc = skep_flat_write(path, 0, (const float *const[]){residual}, 1, count, err);
    }
    free(path);
    free(residual);
    return rc;
}

static int write_moments(struct skep_work *work, size_t i, struct skep_error *err)
{
    const struct skep_moments *moments = &work->moments[i];
    size_t count = work->layouts[i].parameters;
    char *path = skep_work_path(work, i, "moments");
    float *second = NULL;
    const float *arrays[2] = {moments->first, moments->second};
    int rc = 0;
    if (!work->ops->on_host) {
        second = calloc(count, sizeof *second);
        rc = second != NULL ? 0 : skep_error_set(err, SKEP_ERR_MEMORY, "no memory for moments");
        if (rc == 0) {
            skep_moments_get(moments, work->scratch, second);
            arrays[0] = work->scratch;
            arrays[1] = second;
            rc = work->ops->status(err);
        }
    }
    if (rc == 0) {
        rc = skep_flat_write(path, moments->step, arrays, 2, count, err);
    }
    free(second);
    free(path);
    return rc;
}

int skep_part_write(struct skep_work *work, size_t i, struct skep_error *err)
{
    int rc = take_difference(work, i, err);
    if (rc == 0) {
        rc = write_residual(work, i, err);
    }
    return rc == 0 ? write_moments(work, i, err) : rc;
}

void skep_parts_sync(const struct skep_work *work)
{
    int folder = open(work->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        (void)syncfs(folder);
        close(folder);
    }
}
