#include "common/wire/model-config.h"

#include <stdbool.h>
#include <stddef.h>

#include "common/base/limits.h"
#include "common/wire/fields.h"

#define WHAT "manifest.model"
#define U32(member, least, most)                                                                   \
    {                                                                                              \
#member, SKEP_FIELD_U32, offsetof(struct skep_model_config, member), least, most, NULL     \
    }

static const char *const KINDS[] = {"lm", "classifier", NULL};
static const char *const EXPERTS[] = {"ffn", "paper_ffn", NULL};
static const char *const ROUTES[] = {"document", "token", NULL};

/* Each kind has a table of its own; what both have stands in both, in this order. */
#define KIND                                                                                       \
    {                                                                                              \
        "kind", SKEP_FIELD_CHOICE, offsetof(struct skep_model_config, kind), 0, 0, KINDS           \
    }
#define EXPERT                                                                                     \
    {                                                                                              \
        "expert", SKEP_FIELD_CHOICE, offsetof(struct skep_model_config, expert), 0, 0, EXPERTS     \
    }

static const struct skep_field LM[] = {
    KIND,
    EXPERT,
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

static const struct skep_field CLASSIFIER[] = {
    KIND,
    EXPERT,
    U32(inputs, 1, SKEP_LIMIT_INPUTS),
    U32(classes, 2, 256),
    U32(dim, 8, SKEP_LIMIT_DIM),
    U32(hidden, 8, 4 * SKEP_LIMIT_DIM),
    U32(layers, 1, SKEP_LIMIT_LAYERS),
    U32(rows, 1, SKEP_LIMIT_GRID),
    U32(columns, 1, SKEP_LIMIT_GRID),
    U32(experts_per_token, 1, SKEP_LIMIT_GRID),
};

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

const struct skep_field *skep_model_config_fields(enum skep_model_kind kind, size_t *ret_count)
{
    *ret_count = kind == SKEP_MODEL_CLASSIFIER ? COUNT(CLASSIFIER) : COUNT(LM);
    return kind == SKEP_MODEL_CLASSIFIER ? CLASSIFIER : LM;
}

const char *skep_model_kind_name(enum skep_model_kind kind)
{
    return KINDS[kind];
}

const char *skep_expert_kind_name(enum skep_expert_kind kind)
{
    return EXPERTS[kind];
}

void skep_model_config_imply(struct skep_model_config *config)
{
    if (config->kind == SKEP_MODEL_CLASSIFIER) {
        config->vocabulary = 0;
        config->heads = 0;
        config->context = 1;
        config->prefix = 0;
        config->rows_per_token = config->rows;
        config->route = SKEP_ROUTE_TOKEN;
    } else {
        config->inputs = 0;
        config->classes = 0;
    }
}

/* The tensors of model/layout.h, in floats. */
static uint64_t trunk_parameters(const struct skep_model_config *config)
{
    uint64_t d = config->dim;
    uint64_t grid = (uint64_t)config->rows + config->columns;
    uint64_t layer = 2 * d + grid * (d + 1);
    uint64_t floats = 2 * d;
    if (config->kind == SKEP_MODEL_CLASSIFIER) {
        floats += d * (config->inputs + 1) + config->classes * (d + 1); /* into and out of d */
    } else {
        floats += (config->vocabulary + (uint64_t)config->context) * d;
        layer += 4 * d * d; /* attention */
    }
    return floats + config->layers * layer;
}

static uint64_t expert_parameters(const struct skep_model_config *config)
{
    uint64_t d = config->dim;
    uint64_t h = config->hidden;
    if (config->expert == SKEP_EXPERT_PAPER_FFN) {
        return 2 * d * h + h * h + 6 * h + d;
    }
    return 2 * d * h + 3 * d + h;
}

uint64_t skep_model_config_shard_parameters(const struct skep_model_config *config)
{
    uint64_t trunk = trunk_parameters(config);
    uint64_t expert = expert_parameters(config);
    return trunk > expert ? trunk : expert;
}

/* A safetensors header of 256 bytes a tensor is more than enough. */
uint64_t skep_model_config_state_bytes(const struct skep_model_config *config)
{
    uint64_t expert_tensors = config->expert == SKEP_EXPERT_PAPER_FFN ? 10 : 6;
    uint64_t trunk = 4 * trunk_parameters(config) + 256 * (6 + 8 * (uint64_t)config->layers);
    uint64_t expert = 4 * expert_parameters(config) + 256 * expert_tensors;
    return trunk > expert ? trunk : expert;
}

/* ---- relations ---- */

static int check_lm(const struct skep_model_config *config, struct skep_error *err)
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
    return SKEP_OK;
}

/* Fields that the kind does not write hold what it implies. */
static int check_implied(const struct skep_model_config *config, struct skep_error *err)
{
    struct skep_model_config implied = *config;
    skep_model_config_imply(&implied);
    const struct {
        const char *key;
        uint32_t found;
        uint32_t expected;
    } fields[] = {
        {"inputs", config->inputs, implied.inputs},
        {"classes", config->classes, implied.classes},
        {"vocabulary", config->vocabulary, implied.vocabulary},
        {"heads", config->heads, implied.heads},
        {"context", config->context, implied.context},
        {"prefix", config->prefix, implied.prefix},
        {"rows_per_token", config->rows_per_token, implied.rows_per_token},
        {"route", config->route, implied.route},
    };
    for (size_t i = 0; i < COUNT(fields); i++) {
        if (fields[i].found != fields[i].expected) {
            return skep_error_set(
                err, SKEP_ERR_FORMAT, WHAT ": field %s is %u; allowed in a model of kind %s: %u",
                fields[i].key, fields[i].found, KINDS[config->kind], fields[i].expected);
        }
    }
    return SKEP_OK;
}

static int check_relations(const struct skep_model_config *config, struct skep_error *err)
{
    int rc = check_implied(config, err);
    bool lm = config->kind == SKEP_MODEL_LM;
    if (rc == SKEP_OK && lm) {
        rc = check_lm(config, err);
    }
    if (rc != SKEP_OK) {
        return rc;
    }
    if (config->experts_per_token > config->rows_per_token * config->columns) {
        return skep_error_set(
            err, SKEP_ERR_FORMAT, WHAT ": field experts_per_token is %u; allowed: 1 to %s (%u)",
            config->experts_per_token, lm ? "rows_per_token * columns" : "rows * columns",
            config->rows_per_token * config->columns);
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
    static const struct skep_field kind = KIND;
    size_t count = 0;
    int rc = skep_fields_check(WHAT, &kind, 1, config, err);
    const struct skep_field *fields = skep_model_config_fields(config->kind, &count);
    if (rc == SKEP_OK) {
        rc = skep_fields_check(WHAT, fields, count, config, err);
    }
    return rc == SKEP_OK ? check_relations(config, err) : rc;
}

int skep_model_config_from_json(const struct skep_json *object,
                                struct skep_model_config *ret_config, struct skep_error *err)
{
    static const struct skep_field kind = KIND;
    struct skep_model_config config = {0};
    size_t count = 0;
    int rc = skep_field_read(object, WHAT, &kind, &config, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    const struct skep_field *fields = skep_model_config_fields(config.kind, &count);
    rc = skep_fields_read(object, WHAT, fields, count, &config, err);
    if (rc == SKEP_OK) {
        skep_model_config_imply(&config);
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
    size_t count = 0;
    const struct skep_field *fields = skep_model_config_fields(config->kind, &count);
    skep_fields_write(fields, count, config, object);
    return object;
}
