#include "client/cli/dataset.h"

#include <stdlib.h>
#include <string.h>

#include "client/cli/split.h"
#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/sys/file.h"
#include "common/wire/gzip.h"
#include "common/wire/idx.h"

#define TASK_BYTES (1u << 20)
#define DATA_BYTES ((size_t)SKEP_LIMIT_CHUNKS * SKEP_LIMIT_CHUNK_BYTES)

int skep_task_load(const char *path, struct skep_task *ret_task, struct skep_error *err)
{
    struct skep_buffer text = {0};
    int rc = skep_file_read(path, TASK_BYTES, &text, err);
    if (rc == 0) {
        rc = skep_task_parse(path, (const char *)text.data, text.size, ret_task, err);
    }
    skep_buffer_done(&text);
    return rc;
}

/* `file` as the task file names it; the caller frees. */
static char *beside(const char *task_path, const char *file)
{
    const char *slash = strrchr(task_path, '/');
    return file[0] == '/' || slash == NULL
               ? skep_strdup(file)
               : skep_format("%.*s/%s", (int)(slash - task_path), task_path, file);
}

/* A file's bytes, unpacked if they are packed. */
static int read_unpacked(const char *path, struct skep_buffer *ret_bytes, struct skep_error *err)
{
    struct skep_buffer packed = {0};
    int rc = skep_file_read(path, DATA_BYTES, ret_bytes, err);
    if (rc == 0 && skep_gzip_is(ret_bytes->data, ret_bytes->size)) {
        packed = *ret_bytes;
        *ret_bytes = (struct skep_buffer){0};
        rc = skep_gzip_unpack(path, packed.data, packed.size, DATA_BYTES, ret_bytes, err);
    }
    skep_buffer_done(&packed);
    return rc;
}

int skep_dataset_records(const char *images, const char *labels,
                         const struct skep_model_config *model, struct skep_buffer *ret_records,
                         struct skep_error *err)
{
    const char *const paths[2] = {images, labels};
    struct skep_buffer bytes[2] = {{0}, {0}};
    struct skep_idx idx[2];
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++) {
        rc = read_unpacked(paths[i], &bytes[i], err);
        if (rc == 0) {
            rc = skep_idx_parse(paths[i], bytes[i].data, bytes[i].size, &idx[i], err);
        }
    }
    if (rc == 0) {
        rc = skep_idx_records(&idx[0], &idx[1], model->inputs, model->classes, ret_records, err);
    }
    skep_buffer_done(&bytes[0]);
    skep_buffer_done(&bytes[1]);
    return rc;
}

static int read_text(const char *task_path, const struct skep_task *task,
                     struct skep_buffer *ret_train, struct skep_buffer *ret_heldout,
                     struct skep_error *err)
{
    struct skep_buffer text = {0};
    char *path = beside(task_path, task->data_file);
    int rc = skep_file_read(path, DATA_BYTES, &text, err);
    if (rc == 0) {
        skep_split_lines(text.data, text.size, task->holdout_every, ret_train, ret_heldout);
    }
    skep_buffer_done(&text);
    free(path);
    return rc;
}

static int read_pair(const char *task_path, const struct skep_task *task,
                     const char *const names[2], struct skep_buffer *ret_records,
                     struct skep_error *err)
{
    char *images = beside(task_path, names[0]);
    char *labels = beside(task_path, names[1]);
    int rc = skep_dataset_records(images, labels, &task->manifest.model, ret_records, err);
    free(images);
    free(labels);
    return rc;
}

static int read_records(const char *task_path, const struct skep_task *task,
                        struct skep_buffer *ret_train, struct skep_buffer *ret_heldout,
                        struct skep_error *err)
{
    const char *const train[2] = {task->images, task->labels};
    const char *const heldout[2] = {task->heldout_images, task->heldout_labels};
    struct skep_buffer records = {0};
    int rc = read_pair(task_path, task, train, &records, err);
    if (rc == 0) {
        skep_split_records(records.data, records.size,
                           skep_model_config_window(&task->manifest.model), task->holdout_every,
                           ret_train, ret_heldout);
    }
    if (rc == 0 && heldout[0] != NULL) {
        rc = read_pair(task_path, task, heldout, ret_heldout, err);
    }
    skep_buffer_done(&records);
    return rc;
}

int skep_dataset_read(const char *task_path, struct skep_task *task, struct skep_buffer *ret_train,
                      struct skep_buffer *ret_heldout, struct skep_error *err)
{
    struct skep_manifest *manifest = &task->manifest;
    int rc = manifest->model.kind == SKEP_MODEL_CLASSIFIER
                 ? read_records(task_path, task, ret_train, ret_heldout, err)
                 : read_text(task_path, task, ret_train, ret_heldout, err);
    if (rc == 0) {
        rc = skep_split_chunks(ret_train, manifest->chunk_bytes, &manifest->train, err);
    }
    if (rc == 0) {
        rc = skep_split_chunks(ret_heldout, manifest->chunk_bytes, &manifest->heldout, err);
    }
    return rc;
}
