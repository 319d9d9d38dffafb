#include "common/wire/manifest.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/wire/chunks.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"

#define WHAT "manifest"
#define NAME_SIZE_MOST 100u
#define DEFAULT_CHUNK_BYTES 65536u
#define SIZE_MOST ((double)SKEP_LIMIT_CHUNKS * SKEP_LIMIT_CHUNK_BYTES)
/* Of a shard with so many parameters: swarm/history.h, which stands above this folder. */
#define HISTORY_BYTES(parameters) (12 * (parameters) + 112)
#define COUNT(table) (sizeof(table) / sizeof(table)[0])

#define FIELD(type, member, kind, least, most)                                                     \
    {                                                                                              \
#member, SKEP_FIELD_##kind, offsetof(struct type, member), least, most, NULL               \
    }

static const struct skep_field TOP[] = {
    {"name", SKEP_FIELD_OTHER, 0, 0, 0, NULL},
    FIELD(skep_manifest, project, ID, 0, 0),
    FIELD(skep_manifest, created_s, I64, 0, SKEP_JSON_INTEGER_MOST),
    FIELD(skep_manifest, seed, ID, 0, 0),
    {"model", SKEP_FIELD_OTHER, 0, 0, 0, NULL},
    {"training", SKEP_FIELD_OTHER, 0, 0, 0, NULL},
    {"update", SKEP_FIELD_OTHER, 0, 0, 0, NULL},
    {"merge", SKEP_FIELD_OTHER, 0, 0, 0, NULL},
    {"trust", SKEP_FIELD_OTHER, 0, 0, 0, NULL},
    FIELD(skep_manifest, chunk_bytes, U32, 64, SKEP_LIMIT_CHUNK_BYTES),
    {"train", SKEP_FIELD_OTHER, 0, 0, 0, NULL},
    {"heldout", SKEP_FIELD_OTHER, 0, 0, 0, NULL},
    FIELD(skep_manifest, replicas, U32, 1, SKEP_LIMIT_KEEPERS),
    {"keepers", SKEP_FIELD_OTHER, 0, 0, 0, NULL},
};

static const struct skep_field TRAINING[] = {
    FIELD(skep_training_config, steps, U32, 1, 100000),
    FIELD(skep_training_config, batch, U32, 1, 4096),
    FIELD(skep_training_config, donor_rows, U32, 1, SKEP_LIMIT_GRID),
    FIELD(skep_training_config, slice_chunks, U32, 1, SKEP_LIMIT_CHUNKS),
    FIELD(skep_training_config, warmup_rounds, U32, 0, 1000000),
    FIELD(skep_training_config, learning_rate, REAL, 1e-8, 1),
    FIELD(skep_training_config, beta1, REAL, 0, 0.9999),
    FIELD(skep_training_config, beta2, REAL, 0, 0.99999),
    FIELD(skep_training_config, epsilon, REAL, 1e-12, 0.01),
    FIELD(skep_training_config, weight_decay, REAL, 0, 1),
    FIELD(skep_training_config, clip, REAL, 1e-3, 1000),
    FIELD(skep_training_config, z_loss, REAL, 0, 1),
    FIELD(skep_training_config, balance_step, REAL, 0, 1),
};

static const char *const MASKS[] = {"own", "common", NULL};

static const struct skep_field UPDATE[] = {
    FIELD(skep_update_config, keep, U32, 1, 4096),
    {"mask", SKEP_FIELD_CHOICE, offsetof(struct skep_update_config, mask), 0, 0, MASKS},
    FIELD(skep_update_config, error_decay_permille, U32, 0, 1000),
    FIELD(skep_update_config, scale_ceiling, REAL, 1e-6, 1024),
};

static const char *const RULES[SKEP_MERGE_RULES + 1] = {
    [SKEP_MERGE_MEAN] = "mean",
    [SKEP_MERGE_COORDINATE_MEDIAN] = "coordinate_median",
    [SKEP_MERGE_TRIMMED_MEAN] = "trimmed_mean",
    [SKEP_MERGE_KRUM] = "krum",
    [SKEP_MERGE_MULTI_KRUM] = "multi_krum",
    [SKEP_MERGE_GEOMETRIC_MEDIAN] = "geometric_median",
    [SKEP_MERGE_CENTERED_CLIP] = "centered_clip",
    [SKEP_MERGE_NNM_TRIMMED_MEAN] = "nnm_trimmed_mean",
    [SKEP_MERGE_NNM_GEOMETRIC_MEDIAN] = "nnm_geometric_median",
};

static const struct skep_field MERGE[] = {
    {"rule", SKEP_FIELD_CHOICE, offsetof(struct skep_merge_config, rule), 0, 0, RULES},
    FIELD(skep_merge_config, liars_permille, U32, 0, 499),
    FIELD(skep_merge_config, clip_permille, U32, 0, 10000),
    FIELD(skep_merge_config, overlap_permille, U32, 0, 1000),
    FIELD(skep_merge_config, step_permille, U32, 1, 10000),
    FIELD(skep_merge_config, window_ms, U32, 1, 86400000),
    FIELD(skep_merge_config, least_updates, U32, 1, SKEP_LIMIT_UPDATES_PER_ROUND),
    FIELD(skep_merge_config, most_updates, U32, 1, SKEP_LIMIT_UPDATES_PER_ROUND),
};

static const struct skep_field TRUST[] = {
    FIELD(skep_trust_config, stamp_bits, U32, 0, SKEP_LIMIT_STAMP_BITS),
    FIELD(skep_trust_config, remote, BOOL, 0, 0),
    FIELD(skep_trust_config, audits, BOOL, 0, 0),
};

static const struct skep_field DATA[] = {
    FIELD(skep_data_set, size_bytes, U64, 0, SIZE_MOST),
    {"chunks", SKEP_FIELD_OTHER, 0, 0, 0, NULL},
};

const struct skep_field *skep_manifest_fields(const char *section, size_t *ret_count)
{
    if (strcmp(section, "training") == 0) {
        *ret_count = COUNT(TRAINING);
        return TRAINING;
    }
    if (strcmp(section, "update") == 0) {
        *ret_count = COUNT(UPDATE);
        return UPDATE;
    }
    if (strcmp(section, "merge") == 0) {
        *ret_count = COUNT(MERGE);
        return MERGE;
    }
    if (strcmp(section, "trust") == 0) {
        *ret_count = COUNT(TRUST);
        return TRUST;
    }
    *ret_count = COUNT(TOP);
    return TOP;
}

static struct skep_model_config default_classifier(void)
{
    struct skep_model_config model = {
        .kind = SKEP_MODEL_CLASSIFIER,
        .inputs = 784, /* 28 x 28 pixels */
        .classes = 10,
        .dim = 128,
        .hidden = 512,
        .layers = 4,
        .rows = 4,
        .columns = 4,
        .experts_per_token = 4,
    };
    skep_model_config_imply(&model);
    return model;
}

static struct skep_model_config default_lm(void)
{
    return (struct skep_model_config){
        .vocabulary = 256,
        .dim = 128,
        .hidden = 512,
        .heads = 4,
        .layers = 2,
        .context = 128,
        .prefix = 16,
        .rows = 2,
        .columns = 4,
        .experts_per_token = 2,
        .rows_per_token = 1,
        .route = SKEP_ROUTE_DOCUMENT,
    };
}

uint32_t skep_manifest_default_chunk_bytes(const struct skep_model_config *model)
{
    if (model->kind != SKEP_MODEL_CLASSIFIER) {
        return DEFAULT_CHUNK_BYTES;
    }
    uint32_t record = (uint32_t)skep_model_config_window(model);
    return record > DEFAULT_CHUNK_BYTES ? record : DEFAULT_CHUNK_BYTES / record * record;
}

/* A donor of an lm needs as many rows as one token may use; one of a classifier, as many as hold the experts of one record. */
static uint32_t least_donor_rows(const struct skep_model_config *model)
{
    return model->kind == SKEP_MODEL_LM
               ? model->rows_per_token
               : (model->experts_per_token + model->columns - 1) / model->columns;
}

uint32_t skep_manifest_default_donor_rows(const struct skep_model_config *model)
{
    uint32_t least = least_donor_rows(model);
    uint32_t half = model->rows / 2;
    return model->kind == SKEP_MODEL_LM || least > half ? least : half;
}

void skep_manifest_defaults(struct skep_manifest *manifest)
{
    bool classifier = manifest->model.kind == SKEP_MODEL_CLASSIFIER;
    manifest->model = classifier ? default_classifier() : default_lm();
    manifest->training = (struct skep_training_config){
        .steps = 20,
        .batch = classifier ? 32 : 2,
        .donor_rows = skep_manifest_default_donor_rows(&manifest->model),
        .slice_chunks = 4,
        .warmup_rounds = 20,
        .learning_rate = classifier ? 0.001 : 0.002,
        .beta1 = 0.9,
        .beta2 = 0.95,
        .epsilon = 1e-8,
        .weight_decay = 0.1,
        .clip = 1.0,
        .z_loss = 0.001,
        .balance_step = 0.001,
    };
    manifest->update =
        (struct skep_update_config){.keep = 256, .error_decay_permille = 950, .scale_ceiling = 10};
    manifest->merge = (struct skep_merge_config){
        .rule = SKEP_MERGE_MEAN,
        .liars_permille = 250,
        .clip_permille = 1000,
        .overlap_permille = 400,
        .step_permille = 1000,
        .window_ms = 4000,
        .least_updates = 1,
        .most_updates = 64,
    };
    manifest->trust = (struct skep_trust_config){.stamp_bits = 4, .remote = true};
    manifest->chunk_bytes = skep_manifest_default_chunk_bytes(&manifest->model);
    manifest->replicas = 4;
}

void skep_manifest_done(struct skep_manifest *manifest)
{
    free(manifest->name);
    free(manifest->train.chunks);
    free(manifest->heldout.chunks);
    free(manifest->keepers);
    *manifest = (struct skep_manifest){0};
}

/* --- checking --- */

static int check_name(const char *name, struct skep_error *err)
{
    size_t size = name == NULL ? 0 : strlen(name);
    bool fine = size > 0 && size <= NAME_SIZE_MOST;
    for (size_t i = 0; fine && i < size; i++) {
        fine = (unsigned char)name[i] >= ' ' && name[i] != 0x7f;
    }
    if (fine) {
        return SKEP_OK;
    }
    return skep_error_set(err, SKEP_ERR_FORMAT,
                          WHAT
                          ": field name has %zu bytes or a control character; allowed: 1 to %u "
                          "bytes of text",
                          size, NAME_SIZE_MOST);
}

/* The bytes of one example; a classifier's examples are whole records, which chunks and data sets do not cut. */
static int check_records(const char *what, const char *key, uint64_t bytes,
                         const struct skep_model_config *model, struct skep_error *err)
{
    uint64_t record = skep_model_config_window(model);
    if (model->kind != SKEP_MODEL_CLASSIFIER || bytes % record == 0) {
        return SKEP_OK;
    }
    uint64_t fitting = (bytes / record + (bytes < record)) * record;
    return skep_error_set(err, SKEP_ERR_FORMAT,
                          "%s: field %s is %llu; allowed: a multiple of the record's %llu bytes "
                          "(inputs + 1), such as %llu",
                          what, key, (unsigned long long)bytes, (unsigned long long)record,
                          (unsigned long long)fitting);
}

static int check_donor_rows(const struct skep_training_config *training,
                            const struct skep_model_config *model, struct skep_error *err)
{
    bool lm = model->kind == SKEP_MODEL_LM;
    uint32_t least = least_donor_rows(model);
    if (training->donor_rows >= least && training->donor_rows <= model->rows) {
        return SKEP_OK;
    }
    return skep_error_set(err, SKEP_ERR_FORMAT,
                          WHAT ".training: field donor_rows is %u; allowed: %s (%u) to rows (%u)",
                          training->donor_rows,
                          lm ? "rows_per_token" : "enough for experts_per_token", least,
                          model->rows);
}

/* Whoever repeats a job needs all that it depended on. */
static int check_audits(const struct skep_manifest *manifest, struct skep_error *err)
{
    if (!manifest->trust.audits) {
        return SKEP_OK;
    }
    if (manifest->trust.remote) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              WHAT ".trust: field remote is true; allowed: false with audits, for "
                                   "nobody can repeat a remote call");
    }
    uint64_t parameters = skep_model_config_shard_parameters(&manifest->model);
    uint64_t bytes = HISTORY_BYTES(parameters);
    if (bytes > SKEP_LIMIT_HTTP_BODY) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              WHAT ".trust: field audits is true; allowed: false for a shard of "
                                   "%llu parameters, whose history of %llu bytes does not fit into "
                                   "one request (%u)",
                              (unsigned long long)parameters, (unsigned long long)bytes,
                              SKEP_LIMIT_HTTP_BODY);
    }
    return SKEP_OK;
}

/* What the sections demand of each other. */
static int check_relations(const struct skep_manifest *manifest, struct skep_error *err)
{
    const struct skep_training_config *training = &manifest->training;
    const struct skep_model_config *model = &manifest->model;
    int rc = check_audits(manifest, err);
    if (rc == SKEP_OK) {
        rc = check_donor_rows(training, model, err);
    }
    if (rc != SKEP_OK) {
        return rc;
    }
    if (manifest->merge.least_updates > manifest->merge.most_updates) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              WHAT ".merge: field least_updates is %u; allowed: 1 to most_updates "
                                   "(%u)",
                              manifest->merge.least_updates, manifest->merge.most_updates);
    }
    if (manifest->update.mask == SKEP_MASK_COMMON && manifest->merge.overlap_permille != 0) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              WHAT ".merge: field overlap_permille is %u; allowed: 0 with "
                                   "update.mask common, where all send the same places",
                              manifest->merge.overlap_permille);
    }
    uint64_t state = skep_model_config_state_bytes(model);
    if (skep_chunks_count(state, manifest->chunk_bytes) > SKEP_LIMIT_CHUNKS) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              WHAT ": field chunk_bytes is %u; allowed: enough for a shard of %llu "
                                   "bytes in %u chunks",
                              manifest->chunk_bytes, (unsigned long long)state, SKEP_LIMIT_CHUNKS);
    }
    return check_records(WHAT, "chunk_bytes", manifest->chunk_bytes, model, err);
}

int skep_manifest_check_settings(const struct skep_manifest *manifest, struct skep_error *err)
{
    int rc = check_name(manifest->name, err);
    if (rc == SKEP_OK) {
        rc = skep_fields_check(WHAT, TOP, COUNT(TOP), manifest, err);
    }
    if (rc == SKEP_OK) {
        rc = skep_model_config_check(&manifest->model, err);
    }
    if (rc == SKEP_OK) {
        rc = skep_fields_check(WHAT ".training", TRAINING, COUNT(TRAINING), &manifest->training,
                               err);
    }
    if (rc == SKEP_OK) {
        rc = skep_fields_check(WHAT ".update", UPDATE, COUNT(UPDATE), &manifest->update, err);
    }
    if (rc == SKEP_OK) {
        rc = skep_fields_check(WHAT ".merge", MERGE, COUNT(MERGE), &manifest->merge, err);
    }
    if (rc == SKEP_OK) {
        rc = skep_fields_check(WHAT ".trust", TRUST, COUNT(TRUST), &manifest->trust, err);
    }
    return rc == SKEP_OK ? check_relations(manifest, err) : rc;
}

static int check_data(const char *what, const struct skep_data_set *data,
                      const struct skep_manifest *manifest, uint64_t least, struct skep_error *err)
{
    uint32_t chunk_bytes = manifest->chunk_bytes;
    if (data->size_bytes < least || data->size_bytes > (uint64_t)SIZE_MOST) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s: field size_bytes is %llu; allowed: %llu to %llu", what,
                              (unsigned long long)data->size_bytes, (unsigned long long)least,
                              (unsigned long long)SIZE_MOST);
    }
    uint64_t expected = skep_chunks_count(data->size_bytes, chunk_bytes);
    if (data->chunk_count != expected || expected > SKEP_LIMIT_CHUNKS) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s: field chunks has %zu names; allowed: %llu for %llu bytes in "
                              "chunks of %u, at most %u",
                              what, data->chunk_count, (unsigned long long)expected,
                              (unsigned long long)data->size_bytes, chunk_bytes, SKEP_LIMIT_CHUNKS);
    }
    return check_records(what, "size_bytes", data->size_bytes, &manifest->model, err);
}

static int check_keepers(const struct skep_manifest *manifest, struct skep_error *err)
{
    if (manifest->keeper_count < 1 || manifest->keeper_count > SKEP_LIMIT_KEEPERS) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              WHAT ": field keepers has %zu names; allowed: 1 to %u",
                              manifest->keeper_count, SKEP_LIMIT_KEEPERS);
    }
    if (manifest->trust.audits && manifest->keeper_count > manifest->replicas) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              WHAT ": field keepers has %zu names; allowed with trust.audits: at "
                                   "most replicas (%u), for only keepers of all shards can repeat "
                                   "jobs",
                              manifest->keeper_count, manifest->replicas);
    }
    for (size_t i = 0; i < manifest->keeper_count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (skep_peer_id_equal(&manifest->keepers[i], &manifest->keepers[k])) {
                return skep_error_set(err, SKEP_ERR_FORMAT,
                                      WHAT ": field keepers names %s twice; allowed: once",
                                      skep_id_text(manifest->keepers[i].bytes));
            }
        }
    }
    return SKEP_OK;
}

int skep_manifest_check(const struct skep_manifest *manifest, struct skep_error *err)
{
    int rc = skep_manifest_check_settings(manifest, err);
    if (rc == SKEP_OK) {
        /* One sequence and the byte that follows it; one record. */
        uint64_t least = skep_model_config_window(&manifest->model);
        least += manifest->model.kind == SKEP_MODEL_LM;
        rc = check_data(WHAT ".train", &manifest->train, manifest, least, err);
    }
    if (rc == SKEP_OK) {
        rc = check_data(WHAT ".heldout", &manifest->heldout, manifest, 0, err);
    }
    return rc == SKEP_OK ? check_keepers(manifest, err) : rc;
}

/* --- reading --- */

static int read_section(const struct skep_json *root, const char *key, const char *what,
                        const struct skep_field *fields, size_t count, void *to,
                        struct skep_error *err)
{
    const struct skep_json *object = NULL;
    int rc = skep_json_get_object(root, WHAT, key, &object, err);
    return rc == SKEP_OK ? skep_fields_read(object, what, fields, count, to, err) : rc;
}

static int read_data(const struct skep_json *root, const char *key, const char *what,
                     struct skep_data_set *data, struct skep_error *err)
{
    const struct skep_json *object = NULL;
    void *chunks = NULL;
    int rc = skep_json_get_object(root, WHAT, key, &object, err);
    if (rc == SKEP_OK) {
        rc = skep_fields_read(object, what, DATA, COUNT(DATA), data, err);
    }
    if (rc == SKEP_OK) {
        rc = skep_ids_read(object, what, "chunks", SKEP_LIMIT_CHUNKS, &chunks, &data->chunk_count,
                           err);
    }
    data->chunks = chunks;
    return rc;
}

static int read_settings(const struct skep_json *root, struct skep_manifest *manifest,
                         struct skep_error *err)
{
    const char *name = NULL;
    const struct skep_json *model = NULL;
    int rc = skep_json_get_text(root, WHAT, "name", &name, err);
    if (rc == SKEP_OK) {
        manifest->name = skep_strdup(name);
        rc = skep_json_get_object(root, WHAT, "model", &model, err);
    }
    if (rc == SKEP_OK) {
        rc = skep_model_config_from_json(model, &manifest->model, err);
    }
    if (rc == SKEP_OK) {
        rc = read_section(root, "training", WHAT ".training", TRAINING, COUNT(TRAINING),
                          &manifest->training, err);
    }
    if (rc == SKEP_OK) {
        rc = read_section(root, "update", WHAT ".update", UPDATE, COUNT(UPDATE), &manifest->update,
                          err);
    }
    if (rc == SKEP_OK) {
        rc = read_section(root, "merge", WHAT ".merge", MERGE, COUNT(MERGE), &manifest->merge, err);
    }
    if (rc == SKEP_OK) {
        rc = read_section(root, "trust", WHAT ".trust", TRUST, COUNT(TRUST), &manifest->trust, err);
    }
    return rc;
}

static int read_manifest(const struct skep_json *root, struct skep_manifest *manifest,
                         struct skep_error *err)
{
    void *keepers = NULL;
    int rc = skep_fields_read(root, WHAT, TOP, COUNT(TOP), manifest, err);
    if (rc == SKEP_OK) {
        rc = read_settings(root, manifest, err);
    }
    if (rc == SKEP_OK) {
        rc = read_data(root, "train", WHAT ".train", &manifest->train, err);
    }
    if (rc == SKEP_OK) {
        rc = read_data(root, "heldout", WHAT ".heldout", &manifest->heldout, err);
    }
    if (rc == SKEP_OK) {
        rc = skep_ids_read(root, WHAT, "keepers", SKEP_LIMIT_KEEPERS, &keepers,
                           &manifest->keeper_count, err);
        manifest->keepers = keepers;
    }
    return rc == SKEP_OK ? skep_manifest_check(manifest, err) : rc;
}

int skep_manifest_decode(const void *payload, size_t size, struct skep_manifest *ret_manifest,
                         struct skep_error *err)
{
    struct skep_json *root = NULL;
    int rc = skep_json_parse(payload, size, WHAT, &root, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    struct skep_manifest manifest = {0};
    rc = read_manifest(root, &manifest, err);
    skep_json_free(root);
    if (rc != SKEP_OK) {
        skep_manifest_done(&manifest);
        return rc;
    }
    *ret_manifest = manifest;
    return SKEP_OK;
}

/* --- writing --- */

static void write_section(struct skep_json *root, const char *key, const struct skep_field *fields,
                          size_t count, const void *from)
{
    struct skep_json *object = skep_json_object_new();
    skep_fields_write(fields, count, from, object);
    skep_json_set_take(root, key, object);
}

static void write_data(struct skep_json *root, const char *key, const struct skep_data_set *data)
{
    struct skep_json *object = skep_json_object_new();
    skep_fields_write(DATA, COUNT(DATA), data, object);
    skep_json_set_take(object, "chunks", skep_ids_write(data->chunks, data->chunk_count));
    skep_json_set_take(root, key, object);
}

char *skep_manifest_encode(const struct skep_manifest *manifest)
{
    struct skep_json *root = skep_json_object_new();
    skep_fields_write(TOP, COUNT(TOP), manifest, root);
    skep_json_set_text(root, "name", manifest->name);
    skep_json_set_take(root, "model", skep_model_config_to_json(&manifest->model));
    write_section(root, "training", TRAINING, COUNT(TRAINING), &manifest->training);
    write_section(root, "update", UPDATE, COUNT(UPDATE), &manifest->update);
    write_section(root, "merge", MERGE, COUNT(MERGE), &manifest->merge);
    write_section(root, "trust", TRUST, COUNT(TRUST), &manifest->trust);
    write_data(root, "train", &manifest->train);
    write_data(root, "heldout", &manifest->heldout);
    skep_json_set_take(root, "keepers", skep_ids_write(manifest->keepers, manifest->keeper_count));
    char *text = skep_json_write(root, false);
    skep_json_free(root);
    return text;
}

/* --- the shards --- */

size_t skep_manifest_shard_count(const struct skep_manifest *manifest)
{
    const struct skep_model_config *model = &manifest->model;
    return 1 + (size_t)model->layers * model->rows * model->columns;
}

struct skep_shard skep_manifest_shard(const struct skep_manifest *manifest, size_t i)
{
    const struct skep_model_config *model = &manifest->model;
    if (i == 0) {
        return (struct skep_shard){.kind = SKEP_SHARD_TRUNK};
    }
    size_t place = i - 1;
    return (struct skep_shard){
        .kind = SKEP_SHARD_FFN,
        .layer = (uint16_t)(place / model->columns / model->rows),
        .row = (uint16_t)(place / model->columns % model->rows),
        .column = (uint16_t)(place % model->columns),
    };
}

size_t skep_manifest_shard_index(const struct skep_manifest *manifest,
                                 const struct skep_shard *shard)
{
    const struct skep_model_config *model = &manifest->model;
    if (shard->kind == SKEP_SHARD_TRUNK) {
        return 0;
    }
    if (shard->layer >= model->layers || shard->row >= model->rows ||
        shard->column >= model->columns) {
        return SIZE_MAX;
    }
    return 1 + ((size_t)shard->layer * model->rows + shard->row) * model->columns + shard->column;
}
