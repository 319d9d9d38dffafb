#include "client/cli/fetched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/attachment.h"
#include "client/cli/cli.h"
#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/model/layout.h"
#include "common/sys/file.h"
#include "common/wire/json.h"

#define FIND_MS 60000u
#define FETCH_MS 1800000u
#define ATTEMPTS 5 /* the swarm moves on while we fetch */
#define KEEP_S 600 /* older states of the cache are removed */

/* Where fetched models rest: below the donor's folder if one was named, else the user's cache. */
static char *cache_folder(const char *dir, const struct skep_project_id *project)
{
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    const char *id = skep_id_text(project->bytes);
    if (dir != NULL) {
        return skep_format("%s/view-%.8s", dir, id);
    }
    if (cache != NULL && cache[0] == '/') {
        return skep_format("%s/skep/%.8s", cache, id);
    }
    return skep_format("%s/.cache/skep/%.8s", home != NULL ? home : "/tmp", id);
}

static int open_session(const struct skep_fetched_source *source, struct skep_fetched *model,
                        struct skep_error *err)
{
    struct skep_attachment kept = {0};
    char *dir = skep_cli_dir(source->dir);
    char *folder = NULL;
    int rc = 0;
    skep_attachment_load(dir, &kept);
    const char *bootstrap = source->bootstrap != NULL ? source->bootstrap : kept.bootstrap;
    if (source->project != NULL) {
        rc = skep_attachment_check(source->project, bootstrap, err);
        (void)skep_hex_decode(source->project, kept.project.bytes, sizeof kept.project.bytes);
    } else if (!kept.attached) {
        rc = skep_error_set(err, SKEP_ERR_NOT_FOUND,
                            "%s is attached to no project; name one with --project ID --bootstrap "
                            "HOST:PORT",
                            dir);
    }
    if (rc == 0) {
        folder = cache_folder(source->dir, &kept.project);
        struct skep_session_options options = {
            .project = kept.project, .folder = folder, .bootstrap = bootstrap};
        rc = skep_session_open(model->loop, &options, &model->session, err);
    }
    free(folder);
    free(kept.bootstrap);
    free(dir);
    return rc;
}

static int find(struct skep_fetched *model, struct skep_error *err)
{
    model->wait = (struct skep_wait){0};
    skep_session_find(model->session, skep_session_woken, &model->wait);
    return skep_session_wait(model->session, &model->wait, FIND_MS, err);
}

static int ask_heads(struct skep_fetched *model, struct skep_error *err)
{
    model->wait = (struct skep_wait){0};
    skep_session_ask_heads(model->session, skep_session_woken, &model->wait);
    return skep_session_wait(model->session, &model->wait, FIND_MS, err);
}

static int fetch_all(struct skep_fetched *model, struct skep_error *err)
{
    struct skep_session *session = model->session;
    size_t count = session->heads.count;
    model->wait = (struct skep_wait){0};
    size_t *shards = calloc(count, sizeof *shards);
    free(model->have);
    model->have = calloc(count, sizeof *model->have);
    if (shards == NULL || model->have == NULL) {
        free(shards);
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory for %zu shards", count);
    }
    for (size_t i = 0; i < count; i++) {
        shards[i] = i;
    }
    skep_session_fetch_shards(session, shards, count, model->have, skep_session_woken,
                              &model->wait);
    free(shards);
    int rc = skep_session_wait(session, &model->wait, FETCH_MS, err);
    model->missing = 0;
    for (size_t i = 0; i < count && model->wait.done; i++) {
        model->missing += !model->have[i];
    }
    return rc;
}

/* The shape in FOLDER/config.json; `versions` and the rest are for people. */
static int read_config(const char *folder, struct skep_model_config *ret_config,
                       struct skep_error *err)
{
    char *path = skep_format("%s/config.json", folder);
    struct skep_buffer text = {0};
    struct skep_json *root = NULL;
    const struct skep_json *shape = NULL;
    int rc = skep_file_read(path, SKEP_LIMIT_STATEMENT_BYTES, &text, err);
    if (rc == 0) {
        rc = skep_json_parse(text.data, text.size, "config.json", &root, err);
    }
    if (rc == 0) {
        rc = skep_json_get_object(root, "config.json", "model", &shape, err);
    }
    if (rc == 0) {
        rc = skep_model_config_from_json(shape, ret_config, err);
    }
    if (rc != 0) {
        rc = skep_error_prefix(err, "%s is no model that skep export wrote", folder);
    }
    skep_json_free(root);
    skep_buffer_done(&text);
    free(path);
    return rc;
}

static char *shard_path(const struct skep_fetched *model, size_t i)
{
    if (model->session != NULL) {
        return skep_session_state_path(model->session, i);
    }
    struct skep_shard shard = skep_manifest_shard(model->manifest, i);
    char name[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(&shard, name);
    return skep_format("%s/%s.safetensors", model->folder, name);
}

static int open_folder(const char *folder, struct skep_fetched *model, struct skep_error *err)
{
    int rc = read_config(folder, &model->exported.model, err);
    if (rc != 0) {
        return rc;
    }
    model->folder = skep_strdup(folder);
    model->manifest = &model->exported;
    size_t count = skep_manifest_shard_count(model->manifest);
    model->have = skep_alloc(count, sizeof *model->have);
    for (size_t i = 0; i < count; i++) {
        char *path = shard_path(model, i);
        model->have[i] = skep_file_exists(path);
        model->missing += !model->have[i];
        free(path);
    }
    if (!model->have[0]) {
        return skep_error_set(err, SKEP_ERR_NOT_FOUND,
                              "%s holds no trunk.safetensors; export the model again", folder);
    }
    if (model->missing > 0) {
        fprintf(stderr, "skep: %zu of %zu shards are not in %s\n", model->missing, count, folder);
    }
    return 0;
}

int skep_fetched_find(const struct skep_fetched_source *source, struct skep_fetched *ret_model,
                      struct skep_error *err)
{
    if (source->model != NULL) {
        return open_folder(source->model, ret_model, err);
    }
    ret_model->loop = skep_loop_new();
    int rc = open_session(source, ret_model, err);
    if (rc == 0) {
        rc = find(ret_model, err);
    }
    if (rc == 0) {
        ret_model->manifest = &ret_model->session->manifest;
    }
    return rc;
}

int skep_fetched_shards(struct skep_fetched *model, struct skep_error *err)
{
    if (model->session == NULL) {
        return 0; /* a folder: they lie there */
    }
    int rc = 0;
    bool again = true;
    for (int attempt = 0; attempt < ATTEMPTS && again; attempt++) {
        rc = ask_heads(model, err);
        if (rc == 0) {
            rc = fetch_all(model, err);
        }
        again = rc != 0 && model->wait.done;
    }
    if (rc != 0 && model->have != NULL && model->wait.done && model->have[0]) {
        fprintf(stderr, "skep: %zu of %zu shards cannot be fetched (%s)\n", model->missing,
                model->session->heads.count, err->text);
        rc = 0;
    }
    if (rc == 0) {
        skep_session_prune(model->session, KEEP_S);
    }
    return rc;
}

int skep_fetched_get(const struct skep_fetched_source *source, struct skep_fetched *ret_model,
                     struct skep_error *err)
{
    int rc = skep_fetched_find(source, ret_model, err);
    return rc == 0 ? skep_fetched_shards(ret_model, err) : rc;
}

void skep_fetched_done(struct skep_fetched *model)
{
    skep_session_close(model->session);
    if (model->loop != NULL) {
        skep_loop_free(model->loop);
    }
    free(model->folder);
    free(model->have);
    *model = (struct skep_fetched){0};
}

static int load_shard(const struct skep_fetched *model, size_t i, struct skep_model *lm,
                      struct skep_error *err)
{
    const struct skep_manifest *manifest = model->manifest;
    struct skep_shard shard = skep_manifest_shard(manifest, i);
    struct skep_layout layout = {0};
    struct skep_buffer file = {0};
    char *path = shard_path(model, i);
    skep_layout_of(&manifest->model, &shard, &layout);
    float *parameters = calloc(layout.parameters, sizeof *parameters);
    int rc = parameters != NULL ? skep_file_read(path, SKEP_LIMIT_STATE_BYTES, &file, err)
                                : skep_error_set(err, SKEP_ERR_MEMORY, "no memory for %zu numbers",
                                                 layout.parameters);
    if (rc == 0) {
        rc = skep_state_read(&layout, file.data, file.size, parameters, err);
    }
    if (rc == 0 && skep_model_set(lm, &shard, parameters) != 0) {
        rc =
            skep_error_set(err, SKEP_ERR_MEMORY, "no memory for %zu parameters", layout.parameters);
    }
    free(parameters);
    free(path);
    skep_buffer_done(&file);
    skep_layout_done(&layout);
    return rc;
}

int skep_fetched_load(const struct skep_fetched *model, uint32_t batch, struct skep_model **ret_lm,
                      struct skep_error *err)
{
    struct skep_model *lm = NULL;
    struct skep_model_options options = {.batch = batch, .forward_only = true};
    int rc = skep_model_new(&model->manifest->model, &options, &lm, err);
    size_t count = skep_manifest_shard_count(model->manifest);
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (model->have[i]) {
            rc = load_shard(model, i, lm, err);
        }
    }
    if (rc != 0) {
        skep_model_free(lm);
        return rc;
    }
    *ret_lm = lm;
    return 0;
}
