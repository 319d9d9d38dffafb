/* A model to use: the newest sealed versions of a project, fetched for export, generate and eval, or a folder that export wrote. */
#ifndef SKEP_CLIENT_CLI_FETCHED_H
#define SKEP_CLIENT_CLI_FETCHED_H

#include <stddef.h>
#include <stdint.h>

#include "client/network/session.h"
#include "common/base/error.h"
#include "common/model/model.h"
#include "common/sys/loop.h"
#include "common/wire/manifest.h"

/* Zero-initialise; free with skep_fetched_done(). */
struct skep_fetched {
    struct skep_loop *loop;       /* NULL for a folder */
    struct skep_session *session; /* NULL for a folder */
    char *folder;                 /* of an exported model */
    struct skep_manifest
        exported; /* only its `model` is filled in, from the folder's config.json */
    const struct skep_manifest *manifest; /* the session's, or `exported` */
    bool *have;                           /* per shard */
    size_t missing;
    struct skep_wait wait; /* here, because an answer may still come after we gave up waiting */
};

struct skep_fetched_source {
    const char *model;     /* folder of an exported model; the others are then not looked at */
    const char *dir;       /* of the daemon whose attached project is meant; NULL: the default */
    const char *project;   /* NULL: the attached one */
    const char *bootstrap; /* NULL: the daemon's */
};

/* Reads the folder's config.json, or finds keepers and the manifest: the model's shape is known, and nothing large has been fetched. */
int skep_fetched_find(const struct skep_fetched_source *source, struct skep_fetched *ret_model,
                      struct skep_error *err);
/* Then fetches all shards. Experts that nobody gives are counted in `missing`; without the trunk it fails. */
int skep_fetched_shards(struct skep_fetched *model, struct skep_error *err);
/* Both. */
int skep_fetched_get(const struct skep_fetched_source *source, struct skep_fetched *ret_model,
                     struct skep_error *err);
void skep_fetched_done(struct skep_fetched *model);
/* The fetched shards as a model for batches of up to `batch` sequences. */
int skep_fetched_load(const struct skep_fetched *model, uint32_t batch, struct skep_model **ret_lm,
                      struct skep_error *err);

#endif
