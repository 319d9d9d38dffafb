#include "common/wire/model-config.h"

#include <stddef.h>

#include "common/base/limits.h"
#include "common/wire/fields.h"

#define WHAT "manifest.model"
#define U32(member, least, most)                                                                   \
    {                                                                                              \
#member, SKEP_FIELD_U32, offsetof(struct skep_model_config, member), least, most, NULL     \
    }

static const char *const KINDS[] = {"lm", NULL};
static const char *const ROUTES[] = {"document", "token", NULL};

static const struct skep_field FIELDS[] = {
    {"kind", SKEP_FIELD_FIXED, 0, 0, 0, KINDS},
    U32(vocabulary, 256, 256),
    U32(dim, 8, SKEP_LIMIT_DIM),
    U32(hidden, 8, 4 * SKEP_LIMIT_DIM),
    U32(heads, 1, SKEP_LIMIT_DIM),
    U32(layers, 1, SKEP_LIMIT_LAYERS),
    U32(context, 2, SKEP_LIMIT_CONTEXT),
    U32(prefix, 1, SKEP_LIMIT_CONTEXT - 1),
    U32(rows, 1, SKEP_LIMIT_GRID),
    U32(columns, 1, SKEP_LIMIT_GRID),
    U32(experts_per_token, 1, SKEP_LIMIT_GRID),
    U32(rows_per_token, 1, SKEP_LIMIT_GRID),
    {"route", SKEP_FIELD_CHOICE, offsetof(struct skep_model_config, route), 0, 0, ROUTES},
};
#define FIELD_COUNT (sizeof FIELDS / sizeof FIELDS[0])

const struct skep_field *skep_model_config_fields(size_t *ret_count)
{
    *ret_count = FIELD_COUNT;
    return FIELDS;
}

/* The tensors of model/layout.h, in bytes of float32; a safetensors header of 256 bytes a tensor is more than enough. */
static uint64_t trunk_bytes(const struct skep_model_config *config)
{
    uint64_t d = config->dim;
    uint64_t grid = (uint64_t)config->rows + config->columns;
    uint64_t layer = 4 * d * d + 2 * d + grid * (d + 1);
    uint64_t floats =
        (uint64_t)config->vocabulary * d + config->context * d + config->layers * layer + 2 * d;
    return 4 * floats + 256 * (4 + 8 * (uint64_t)config->layers);
}

static uint64_t expert_bytes(const struct skep_model_config *config)
{
    uint64_t d = config->dim;
    uint64_t h = config->hidden;
    return 4 * (2 * d * h + 3 * d + h) + 256ul * 6;
}

uint64_t skep_model_config_state_bytes(const struct skep_model_config *config)
{
    uint64_t trunk = trunk_bytes(config);
    uint64_t expert = expert_bytes(config);
    return trunk > expert ? trunk : expert;
}

static int check_relations(const struct skep_model_config *config, struct skep_error *err)
{
    if (config->dim % config->heads != 0) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              WHAT ": field dim is %u; allowed: a multiple of heads (%u)",
                              config->dim, config->heads);
    }
    if (config->prefix >= config->context) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              WHAT ": field prefix is %u; allowed: 1 to %u, less than context (%u)",
                              config->prefix, config->context - 1, config->context);
    }
    if (config->rows_per_token > config->rows) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              WHAT ": field rows_per_token is %u; allowed: 1 to rows (%u)",
                              config->rows_per_token, config->rows);
    }
    if (config->experts_per_token > config->rows_per_token * config->columns) {
        return skep_error_set(
            err, SKEP_ERR_FORMAT,
            WHAT ": field experts_per_token is %u; allowed: 1 to rows_per_token * columns (%u)",
            config->experts_per_token, config->rows_per_token * config->columns);
    }
    uint64_t bytes = skep_model_config_state_bytes(config);
    if (bytes > SKEP_LIMIT_STATE_BYTES) {
        return skep_error_set(err, SKEP_ERR_TOO_LARGE,
                              WHAT ": dim %u, hidden %u, layers %u make a shard of %llu bytes; "
                                   "allowed: at most %u",
                              config->dim, config->hidden, config->layers,
                              (unsigned long long)bytes, SKEP_LIMIT_STATE_BYTES);
    }
    return SKEP_OK;
}

size_t skep_model_config_window(const struct skep_model_config *config)
{
    return config->kind == SKEP_MODEL_CLASSIFIER ? (size_t)config->inputs + 1 : config->context;
}

int skep_model_config_check(const struct skep_model_config *config, struct skep_error *err)
{
    int rc = skep_fields_check(WHAT, FIELDS, FIELD_COUNT, config, err);
    return rc == SKEP_OK ? check_relations(config, err) : rc;
}

int skep_model_config_from_json(const struct skep_json *object,
                                struct skep_model_config *ret_config, struct skep_error *err)
{
    struct skep_model_config config = {0};
    int rc = skep_fields_read(object, WHAT, FIELDS, FIELD_COUNT, &config, err);
    if (rc == SKEP_OK) {
        rc = check_relations(&config, err);
    }
    if (rc == SKEP_OK) {
        *ret_config = config;
    }
    return rc;
}

struct skep_json *skep_model_config_to_json(const struct skep_model_config *config)
{
    struct skep_json *object = skep_json_object_new();
    skep_fields_write(FIELDS, FIELD_COUNT, config, object);
    return object;
}
