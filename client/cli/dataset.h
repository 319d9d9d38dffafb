/*
 * The data that a task file names, read and cut: a text, or the records of a classifier made of its IDX files (plain or gzip). The
 * chunk lists of both parts go into the task's manifest.
 */
#ifndef SKEP_CLIENT_CLI_DATASET_H
#define SKEP_CLIENT_CLI_DATASET_H

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/wire/task.h"

/* The task file itself; paths in it are relative to its folder. The caller frees the task, also after a failure. */
int skep_task_load(const char *path, struct skep_task *ret_task, struct skep_error *err);
/* Reads what is trained on and what is held out, and fills task->manifest.train and .heldout. */
int skep_dataset_read(const char *task_path, struct skep_task *task, struct skep_buffer *ret_train,
                      struct skep_buffer *ret_heldout, struct skep_error *err);
/* Records of two IDX files, whose paths are used as they are. */
int skep_dataset_records(const char *images, const char *labels,
                         const struct skep_model_config *model, struct skep_buffer *ret_records,
                         struct skep_error *err);

#endif
