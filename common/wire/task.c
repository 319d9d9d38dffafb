#include "common/wire/task.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cyaml/cyaml.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"
#include "common/wire/yaml-lines.h"

/*
 * One path for every value. yaml-lines.c walks the text for lines; libcyaml loads all values as texts by a schema made from the
 * manifest's own tables (fields.h); each text then goes through those tables as a JSON value. So ranges, choices and sentences are
 * the manifest's, a new field of a section is a field of the task file at once, and each refusal has its line.
 */

#define TASK_SIZE_MOST (1u << 16)
#define FILE_SIZE_MOST 4096u
#define SECTION_COUNT 6
#define FIELDS_MOST 32
#define HOLDOUT_EVERY 20u

/* What a section's fields are read into, as texts; NULL where the file has none. */
struct raw_section {
    char *values[FIELDS_MOST];
};

/* The top mapping is the section without a name. */
struct raw {
    char *values[FIELDS_MOST];
    struct raw_section *sections[SECTION_COUNT];
};

struct section {
    const char *name;
    const struct skep_field *fields;
    size_t count;
    size_t offset; /* of the struct that the fields are in */
};

static const struct skep_field DATA[] = {
    {"file", SKEP_FIELD_OTHER, 0, 0, 0, NULL},
    {"holdout_every", SKEP_FIELD_U32, offsetof(struct skep_task, holdout_every), 0, 1000000, NULL},
};

/* Of the manifest's own fields a task file has these; the rest is filled in when it is published. */
static const char *const TOP_KEYS[] = {"name", "replicas", "chunk_bytes"};
#define TOP_COUNT (sizeof TOP_KEYS / sizeof TOP_KEYS[0])

struct sections {
    struct section all[SECTION_COUNT];
    struct skep_field top[TOP_COUNT];
};

static struct section manifest_section(const char *name, size_t offset)
{
    struct section section = {.name = name,
                              .offset = offsetof(struct skep_task, manifest) + offset};
    section.fields = skep_manifest_fields(name, &section.count);
    assert(section.count <= FIELDS_MOST);
    return section;
}

static void sections_init(struct sections *sections)
{
    struct section whole = manifest_section("", 0);
    for (size_t i = 0; i < TOP_COUNT; i++) {
        for (size_t f = 0; f < whole.count; f++) {
            if (strcmp(whole.fields[f].key, TOP_KEYS[i]) == 0) {
                sections->top[i] = whole.fields[f];
            }
        }
        assert(sections->top[i].key != NULL);
    }
    whole.fields = sections->top;
    whole.count = TOP_COUNT;
    sections->all[0] = whole;
    sections->all[1] = (struct section){.name = "data", .fields = DATA, .count = 2};
    sections->all[2] = manifest_section("model", offsetof(struct skep_manifest, model));
    sections->all[3] = manifest_section("training", offsetof(struct skep_manifest, training));
    sections->all[4] = manifest_section("update", offsetof(struct skep_manifest, update));
    sections->all[5] = manifest_section("merge", offsetof(struct skep_manifest, merge));
}

static const struct section *find_section(const struct sections *sections, const char *name)
{
    for (size_t s = 0; s < SECTION_COUNT; s++) {
        if (strcmp(sections->all[s].name, name) == 0) {
            return &sections->all[s];
        }
    }
    return NULL;
}

static bool has_field(const struct section *section, const char *key)
{
    for (size_t i = 0; i < section->count; i++) {
        if (strcmp(section->fields[i].key, key) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- what the walk knows: names and shapes ---- */

/* What one reading of a file carries along. */
struct reading {
    const char *path;
    struct sections sections;
    struct skep_yaml_lines lines;
    char log[200]; /* libcyaml's first complaint */
};

static int refuse_unknown(const struct reading *reading, const struct skep_yaml_field *field,
                          struct skep_error *err)
{
    const struct section *section = find_section(&reading->sections, field->section);
    char allowed[400] = "";
    size_t used = 0;
    for (size_t s = 1; section->name[0] == '\0' && s < SECTION_COUNT; s++) {
        used += (size_t)snprintf(allowed + used, sizeof allowed - used, "%s%s", s > 1 ? ", " : "",
                                 reading->sections.all[s].name);
    }
    for (size_t i = 0; i < section->count && used < sizeof allowed; i++) {
        used += (size_t)snprintf(allowed + used, sizeof allowed - used, "%s%s",
                                 used > 0 ? ", " : "", section->fields[i].key);
    }
    return skep_error_set(err, SKEP_ERR_FORMAT, "%s:%zu: %s%sunknown field %s; allowed: %s",
                          reading->path, field->line, section->name,
                          section->name[0] == '\0' ? "" : ": ", field->key, allowed);
}

/* Each known name must be in its place: sections hold fields, fields hold single values. */
static int check_shape(const struct reading *reading, struct skep_error *err)
{
    static const char *const kinds[] = {"a single value", "a section", "a list"};
    for (size_t i = 0; i < reading->lines.count; i++) {
        const struct skep_yaml_field *field = &reading->lines.fields[i];
        const struct section *in = find_section(&reading->sections, field->section);
        bool is_section = field->section[0] == '\0' &&
                          find_section(&reading->sections, field->key) != NULL &&
                          field->key[0] != '\0';
        if (in == NULL) {
            continue; /* inside something unknown, which was met before */
        }
        if (!is_section && !has_field(in, field->key)) {
            return refuse_unknown(reading, field, err);
        }
        enum skep_yaml_kind expected = is_section ? SKEP_YAML_MAPPING : SKEP_YAML_SCALAR;
        if (field->kind != expected) {
            return skep_error_set(err, SKEP_ERR_FORMAT, "%s:%zu: %s%sfield %s is %s; allowed: %s",
                                  reading->path, field->line, in->name,
                                  in->name[0] == '\0' ? "" : ": ", field->key, kinds[field->kind],
                                  is_section ? "a section, its fields indented below"
                                             : kinds[expected]);
        }
    }
    return SKEP_OK;
}

/* The line of a field, else of its section, else the first. */
static size_t line_of(const struct reading *reading, const char *section, const char *key)
{
    const struct skep_yaml_field *field = skep_yaml_field_find(&reading->lines, section, key);
    if (field == NULL) {
        field = skep_yaml_field_find(&reading->lines, "", section);
    }
    return field == NULL ? 1 : field->line;
}

/* ---- loading ---- */

static void keep_first_complaint(cyaml_log_t level, void *context, const char *format, va_list args)
{
    struct reading *reading = context;
    if (level >= CYAML_LOG_ERROR && reading->log[0] == '\0') {
        vsnprintf(reading->log, sizeof reading->log, format, args);
        reading->log[strcspn(reading->log, "\n")] = '\0';
    }
}

/* libcyaml's schema of one section; `ret_fields` has room for an end mark after it. */
static void schema_of(const struct section *section, cyaml_schema_field_t *ret_fields)
{
    const cyaml_schema_value_t text = {
        CYAML_VALUE_STRING(CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, char, 0, CYAML_UNLIMITED)};
    for (size_t i = 0; i < section->count; i++) {
        ret_fields[i] = (cyaml_schema_field_t){
            .key = section->fields[i].key,
            .data_offset = (uint32_t)(i * sizeof(char *)),
            .value = text,
        };
    }
    ret_fields[section->count] = (cyaml_schema_field_t){.key = NULL};
}

struct schema {
    cyaml_schema_field_t fields[SECTION_COUNT][FIELDS_MOST + SECTION_COUNT + 1];
    cyaml_schema_value_t top;
};

static void schema_init(struct schema *schema, const struct sections *sections)
{
    for (size_t s = 0; s < SECTION_COUNT; s++) {
        schema_of(&sections->all[s], schema->fields[s]);
    }
    cyaml_schema_field_t *next = schema->fields[0] + sections->all[0].count;
    for (size_t s = 1; s < SECTION_COUNT; s++) {
        const cyaml_schema_value_t mapping = {CYAML_VALUE_MAPPING(
            CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct raw_section, schema->fields[s])};
        *next = (cyaml_schema_field_t){
            .key = sections->all[s].name,
            .data_offset = (uint32_t)(offsetof(struct raw, sections) + s * sizeof(void *)),
            .value = mapping,
        };
        next++;
    }
    *next = (cyaml_schema_field_t){.key = NULL};
    const cyaml_schema_value_t top = {
        CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct raw, schema->fields[0])};
    schema->top = top;
}

/* ---- values ---- */

/* The JSON object {key: value} of a value's text: a number if it is written as one, else a text for the reader to refuse. */
static struct skep_json *value_to_json(const char *key, const char *text)
{
    struct skep_json *object = NULL;
    if (text[0] != '\0' && text[strspn(text, "0123456789+-.eE")] == '\0') {
        char *json = skep_format("{\"%s\":%s}", key, text);
        int rc = skep_json_parse(json, strlen(json), "number", &object, NULL);
        free(json);
        if (rc == SKEP_OK) {
            return object;
        }
    }
    object = skep_json_object_new();
    skep_json_set_text(object, key, text);
    return object;
}

static int read_section(const struct reading *reading, const struct section *section,
                        char *const *values, struct skep_task *task, struct skep_error *err)
{
    for (size_t i = 0; i < section->count; i++) {
        const struct skep_field *field = &section->fields[i];
        if (values[i] == NULL || field->kind == SKEP_FIELD_OTHER) {
            continue;
        }
        char *what =
            skep_format("%s:%zu%s%s", reading->path, line_of(reading, section->name, field->key),
                        section->name[0] == '\0' ? "" : ": ", section->name);
        struct skep_json *value = value_to_json(field->key, values[i]);
        int rc = skep_field_read(value, what, field, (uint8_t *)task + section->offset, err);
        skep_json_free(value);
        free(what);
        if (rc != SKEP_OK) {
            return rc;
        }
    }
    return SKEP_OK;
}

/* A project without a name is called like its file: `task` for some/task.yaml. */
static char *name_of_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash == NULL ? path : slash + 1;
    const char *dot = strrchr(base, '.');
    size_t size = dot == NULL || dot == base ? strlen(base) : (size_t)(dot - base);
    return skep_format("%.*s", (int)(size > 100 ? 100 : size), base);
}

static int read_texts(const struct reading *reading, const struct raw *raw, struct skep_task *task,
                      struct skep_error *err)
{
    const char *name = raw->values[0];
    task->manifest.name = name == NULL ? name_of_path(reading->path) : skep_strdup(name);
    const char *file = raw->sections[1] == NULL ? NULL : raw->sections[1]->values[0];
    if (file == NULL || file[0] == '\0') {
        return skep_error_set(
            err, SKEP_ERR_FORMAT,
            "%s:%zu: data: field file is missing; allowed: the path of the text to "
            "train on, from where this file is",
            reading->path, line_of(reading, "data", "file"));
    }
    if (strlen(file) > FILE_SIZE_MOST) {
        return skep_error_set(
            err, SKEP_ERR_FORMAT, "%s:%zu: data: field file has %zu bytes; allowed: up to %u",
            reading->path, line_of(reading, "data", "file"), strlen(file), FILE_SIZE_MOST);
    }
    task->data_file = skep_strdup(file);
    return SKEP_OK;
}

/*
 * What fields demand of each other is checked by the manifest, whose sentences begin `manifest.model: field dim is`; they get the
 * line of that field here.
 */
static int check_settings(const struct reading *reading, const struct skep_task *task,
                          struct skep_error *err)
{
    if (task->holdout_every == 1) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s:%zu: data: field holdout_every is 1, which holds out every line; "
                              "allowed: 0 for none, or 2 and more",
                              reading->path, line_of(reading, "data", "holdout_every"));
    }
    struct skep_error found = {0};
    int rc = skep_manifest_check_settings(&task->manifest, &found);
    if (rc == SKEP_OK) {
        return rc;
    }
    char section[32] = "";
    char key[32] = "";
    const char *rest = found.text;
    if (sscanf(rest, "manifest.%31[a-z_]: field %31[a-z0-9_]", section, key) >= 1) {
        rest += strlen("manifest.");
    } else if (sscanf(rest, "manifest: field %31[a-z0-9_]", key) == 1) {
        rest += strlen("manifest: ");
    }
    return skep_error_set(err, found.code, "%s:%zu: %s", reading->path,
                          line_of(reading, section, key), rest);
}

static int read_raw(const struct reading *reading, const struct raw *raw, struct skep_task *task,
                    struct skep_error *err)
{
    skep_manifest_defaults(&task->manifest);
    task->holdout_every = HOLDOUT_EVERY;
    int rc = read_section(reading, &reading->sections.all[0], raw->values, task, err);
    for (size_t s = 1; rc == SKEP_OK && s < SECTION_COUNT; s++) {
        if (raw->sections[s] != NULL) {
            rc = read_section(reading, &reading->sections.all[s], raw->sections[s]->values, task,
                              err);
        }
    }
    if (rc == SKEP_OK) {
        rc = read_texts(reading, raw, task, err);
    }
    return rc == SKEP_OK ? check_settings(reading, task, err) : rc;
}

static int load(struct reading *reading, const char *text, size_t size, struct skep_task *task,
                struct skep_error *err)
{
    struct schema schema;
    schema_init(&schema, &reading->sections);
    const cyaml_config_t config = {
        .log_fn = keep_first_complaint,
        .log_ctx = reading,
        .mem_fn = cyaml_mem,
        .log_level = CYAML_LOG_ERROR,
    };
    cyaml_data_t *loaded = NULL;
    cyaml_err_t cyaml_rc =
        cyaml_load_data((const uint8_t *)text, size, &config, &schema.top, &loaded, NULL);
    if (cyaml_rc != CYAML_OK) {
        return skep_error_set(err, SKEP_ERR_FORMAT, "%s:1: %s (%s)", reading->path, reading->log,
                              cyaml_strerror(cyaml_rc));
    }
    const struct raw empty = {.values = {NULL}};
    int rc = read_raw(reading, loaded == NULL ? &empty : loaded, task, err);
    cyaml_free(&config, &schema.top, loaded, 0);
    return rc;
}

int skep_task_parse(const char *path, const char *text, size_t size, struct skep_task *ret_task,
                    struct skep_error *err)
{
    if (size > TASK_SIZE_MOST) {
        return skep_error_set(err, SKEP_ERR_TOO_LARGE, "%s has %zu bytes; allowed: up to %u", path,
                              size, TASK_SIZE_MOST);
    }
    struct reading *reading = skep_alloc(1, sizeof *reading);
    struct skep_task task = {0};
    reading->path = path;
    sections_init(&reading->sections);
    int rc = skep_yaml_lines_of(path, text, size, &reading->lines, err);
    if (rc == SKEP_OK) {
        rc = check_shape(reading, err);
    }
    if (rc == SKEP_OK) {
        rc = load(reading, text, size, &task, err);
    }
    free(reading);
    if (rc != SKEP_OK) {
        skep_task_done(&task);
        return rc;
    }
    *ret_task = task;
    return SKEP_OK;
}

void skep_task_done(struct skep_task *task)
{
    free(task->data_file);
    skep_manifest_done(&task->manifest);
    *task = (struct skep_task){0};
}

/* ---- the example ---- */

/* Said beside each field, as `section.key` or `key`. */
static const char *const COMMENTS[][2] = {
    {"replicas", "keepers of each shard"},
    {"chunk_bytes", "of data and shard states"},
    {"data.holdout_every", "every n-th line is kept for measuring; 0 for none"},
    {"model.kind", "a byte-level Transformer with mixture-of-experts layers"},
    {"model.vocabulary", "bytes"},
    {"model.dim", "width of the residual stream"},
    {"model.hidden", "width inside an expert"},
    {"model.heads", "of attention; dim is a multiple of it"},
    {"model.layers", "each with attention and a grid of experts"},
    {"model.context", "bytes in a sequence"},
    {"model.prefix", "first bytes of a sequence: they choose its rows and carry no loss"},
    {"model.rows", "of the grid of experts in each layer"},
    {"model.columns", "of that grid"},
    {"model.experts_per_token", "that work on each byte"},
    {"model.rows_per_token", "rows that they may come from"},
    {"model.route", "document: rows chosen per sequence; token: per byte"},
    {"training.steps", "local AdamW steps in one job"},
    {"training.batch", "sequences in one step"},
    {"training.donor_rows", "rows of each layer that a donor fetches for one job"},
    {"training.slice_chunks", "data chunks that a job trains on"},
    {"training.warmup_rounds", "the learning rate rises over these trunk versions"},
    {"training.learning_rate", "of AdamW"},
    {"training.beta1", "decay of AdamW's mean"},
    {"training.beta2", "decay of AdamW's mean square"},
    {"training.epsilon", "added to AdamW's denominator"},
    {"training.weight_decay", "of AdamW"},
    {"training.clip", "largest norm of a step's gradient"},
    {"training.z_loss", "weight of the router's z-loss"},
    {"training.balance_step", "how fast the bias that spreads work over experts moves"},
    {"update.keep", "values sent of each 4096"},
    {"update.error_decay_permille", "what a donor keeps of what it did not send"},
    {"update.scale_ceiling", "larger values in an update are refused"},
    {"merge.rule", "mean or trimmed_mean"},
    {"merge.trim_permille", "share of updates dropped at each end of every coordinate"},
    {"merge.step_permille", "outer step: 1000 applies the whole average"},
    {"merge.window_ms", "a round closes this long after its first update"},
    {"merge.least_updates", "and never with fewer than these"},
    {"merge.most_updates", "nor with more"},
};

static const char *comment_of(const char *path)
{
    for (size_t i = 0; i < sizeof COMMENTS / sizeof COMMENTS[0]; i++) {
        if (strcmp(COMMENTS[i][0], path) == 0) {
            return COMMENTS[i][1];
        }
    }
    return NULL;
}

static void append_free(struct skep_buffer *text, char *take_part)
{
    skep_buffer_append_text(text, take_part);
    free(take_part);
}

/* `text` as YAML: in quotes, which is right for any text. */
static void append_quoted(struct skep_buffer *to, const char *text)
{
    skep_buffer_append_text(to, "\"");
    for (const char *at = text; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            append_free(to, skep_format("\\x%02x", (unsigned)*at));
        } else {
            append_free(to, skep_format("%s%c", *at == '"' || *at == '\\' ? "\\" : "", *at));
        }
    }
    skep_buffer_append_text(to, "\"");
}

/* A field's value as JSON writes it, which YAML reads as well; choices without their quotes. The caller frees. */
static char *value_text(const struct skep_field *field, const void *from)
{
    struct skep_json *object = skep_json_object_new();
    skep_fields_write(field, 1, from, object);
    char *json = skep_json_write(object, false);
    skep_json_free(object);
    const char *value = strchr(json, ':') + 1;
    value += *value == '"';
    char *text = skep_format("%.*s", (int)strcspn(value, "\"}"), value);
    free(json);
    return text;
}

static void append_field(struct skep_buffer *text, const struct section *section,
                         const struct skep_field *field, const struct skep_task *task)
{
    bool top = section->name[0] == '\0';
    char *path = skep_format("%s%s%s", section->name, top ? "" : ".", field->key);
    char *value = value_text(field, (const uint8_t *)task + section->offset);
    char *line = skep_format("%s%s: %s", top ? "" : "  ", field->key, value);
    const char *comment = comment_of(path);
    append_free(text, comment == NULL ? skep_format("%s\n", line)
                                      : skep_format("%-32s # %s\n", line, comment));
    free(line);
    free(value);
    free(path);
}

static void append_section(struct skep_buffer *text, const struct section *section,
                           const struct skep_task *task)
{
    if (section->name[0] != '\0') {
        append_free(text, skep_format("\n%s:\n", section->name));
    }
    for (size_t i = 0; i < section->count; i++) {
        if (section->fields[i].kind != SKEP_FIELD_OTHER) {
            append_field(text, section, &section->fields[i], task);
        } else if (section->fields == DATA) {
            skep_buffer_append_text(text, "  file: ");
            append_quoted(text, task->data_file);
            skep_buffer_append_text(text, " # the text to train on; its path from here\n");
        } else {
            skep_buffer_append_text(text, "name: ");
            append_quoted(text, task->manifest.name);
            skep_buffer_append_text(text, "\n");
        }
    }
}

char *skep_task_example(const char *name, const char *data_file)
{
    struct skep_task task = {.data_file = skep_strdup(data_file), .holdout_every = HOLDOUT_EVERY};
    skep_manifest_defaults(&task.manifest);
    task.manifest.name = skep_strdup(name);
    struct sections sections = {0};
    sections_init(&sections);
    struct skep_buffer text = {0};
    skep_buffer_append_text(&text, "# A Skep project. Only data.file must stand here; every other "
                                   "value is the default.\n"
                                   "# Publish it with: skep project publish THIS_FILE\n\n");
    for (size_t s = 0; s < SECTION_COUNT; s++) {
        append_section(&text, &sections.all[s], &task);
    }
    skep_task_done(&task);
    skep_buffer_append_u8(&text, 0);
    return (char *)text.data;
}
