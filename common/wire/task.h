/*
 * The task file: what an admin writes (YAML, through libcyaml) and `skep project publish` turns into a manifest.
 *
 * Every field but the data's paths has a default; `skep project init` writes a commented example. An unknown field, a wrong type
 * or a value out of range gives `FILE:LINE: field is VALUE; allowed: ...`.
 */
#ifndef SKEP_WIRE_TASK_H
#define SKEP_WIRE_TASK_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/wire/manifest.h"

#define SKEP_TASK_HOLDOUT_EVERY 20u /* by default */

/* Zero-initialise; free with skep_task_done(). */
struct skep_task {
    char *data_file;        /* lm: the text. Paths are as written, relative to the task file */
    char *images;           /* classifier: IDX files (idx.h) of inputs and their classes */
    char *labels;           /* */
    char *heldout_images;   /* and of those held out; NULL where holdout_every decides */
    char *heldout_labels;   /* */
    uint32_t holdout_every; /* every n-th line or record is held out; 0 for none */
    struct skep_manifest
        manifest; /* name, model, training, update, merge, replicas and chunk_bytes are filled in */
};

/* `path` is only for messages; `text` is the file's content. */
int skep_task_parse(const char *path, const char *text, size_t size, struct skep_task *ret_task,
                    struct skep_error *err);
void skep_task_done(struct skep_task *task);
/* The commented example with the defaults, for `skep project init`; the caller frees. `data` is an lm's text, or the folder of a
 * classifier's four files, which have the names of MNIST's. */
char *skep_task_example(enum skep_model_kind kind, const char *name, const char *data);

#endif
