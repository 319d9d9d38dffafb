/*
 * The task file: what an admin writes (YAML, through libcyaml) and `skep project publish` turns into a manifest.
 *
 * Every field but `data.file` has a default; `skep project init` writes a commented example. An unknown field, a wrong type
 * or a value out of range gives `FILE:LINE: field is VALUE; allowed: ...`.
 */
#ifndef SKEP_WIRE_TASK_H
#define SKEP_WIRE_TASK_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/wire/manifest.h"

/* Zero-initialise; free with skep_task_done(). */
struct skep_task {
    char *data_file;        /* as written, relative to the task file */
    uint32_t holdout_every; /* every n-th line is held out; 0 for none */
    struct skep_manifest
        manifest; /* name, model, training, update, merge, replicas and chunk_bytes are filled in */
};

/* `path` is only for messages; `text` is the file's content. */
int skep_task_parse(const char *path, const char *text, size_t size, struct skep_task *ret_task,
                    struct skep_error *err);
void skep_task_done(struct skep_task *task);
/* The commented example with the defaults, for `skep project init`; caller frees. */
char *skep_task_example(const char *name, const char *data_file);

#endif
