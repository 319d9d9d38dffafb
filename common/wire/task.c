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
#include "common/wire/task-sections.h"
#include "common/wire/yaml-lines.h"

/*
 * One path for every value. yaml-lines.c walks the text for lines; libcyaml loads all values as texts by a schema made from the
 * manifest's own tables (task-sections.h); each text then goes through those tables as a JSON value. So ranges, choices and
 * sentences are the manifest's, and each refusal has its line. Which tables is decided first, by the walk's text of model.kind.
 */

#define TASK_SIZE_MOST (1u << 16)
#define FILE_SIZE_MOST 4096u
#define FIELDS_MOST 32

/* What a section's fields are read into, as texts; NULL where the file has none. */
struct raw_section {
    char *values[FIELDS_MOST];
};

/* The top mapping is the section without a name. */
struct raw {
    char *values[FIELDS_MOST];
    struct raw_section *sections[SKEP_TASK_SECTIONS];
};

/* ---- what the walk knows: names and shapes ---- */

/* What one reading of a file carries along. */
struct reading {
    const char *path;
    enum skep_model_kind kind;
    struct skep_task_sections sections;
    struct skep_yaml_lines lines;
    char log[200]; /* libcyaml's first complaint */
};

static enum skep_model_kind other_kind(enum skep_model_kind kind)
{
    return kind == SKEP_MODEL_LM ? SKEP_MODEL_CLASSIFIER : SKEP_MODEL_LM;
}

/* A field that models of the other kind have. */
static bool is_of_other_kind(const struct reading *reading, const struct skep_yaml_field *field)
{
    struct skep_task_sections others;
    skep_task_sections_init(&others, other_kind(reading->kind));
    const struct skep_task_section *section = skep_task_section_find(&others, field->section);
    return section != NULL && skep_task_section_has(section, field->key);
}

static int refuse_unknown(const struct reading *reading, const struct skep_yaml_field *field,
                          struct skep_error *err)
{
    if (is_of_other_kind(reading, field)) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s:%zu: %s: field %s belongs to a model of kind %s; this one is of "
                              "kind %s",
                              reading->path, field->line, field->section, field->key,
                              skep_model_kind_name(other_kind(reading->kind)),
                              skep_model_kind_name(reading->kind));
    }
    const struct skep_task_section *section =
        skep_task_section_find(&reading->sections, field->section);
    char allowed[400] = "";
    size_t used = 0;
    for (size_t s = 1; section->name[0] == '\0' && s < SKEP_TASK_SECTIONS; s++) {
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
        const struct skep_task_section *in =
            skep_task_section_find(&reading->sections, field->section);
        bool is_section = field->section[0] == '\0' &&
                          skep_task_section_find(&reading->sections, field->key) != NULL &&
                          field->key[0] != '\0';
        if (in == NULL) {
            continue; /* inside something unknown, which was met before */
        }
        if (!is_section && !skep_task_section_has(in, field->key)) {
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

/* Decides which tables hold, before anything else is looked at. */
static int read_kind(struct reading *reading, struct skep_error *err)
{
    const struct skep_yaml_field *field = skep_yaml_field_find(&reading->lines, "model", "kind");
    reading->kind = SKEP_MODEL_LM;
    if (field != NULL && field->kind == SKEP_YAML_SCALAR) {
        size_t count = 0;
        const struct skep_field *kind = skep_model_config_fields(SKEP_MODEL_LM, &count);
        struct skep_model_config model = {0};
        struct skep_json *value = skep_json_object_new();
        char *what = skep_format("%s:%zu: model", reading->path, field->line);
        skep_json_set_text(value, "kind", field->text);
        int rc = skep_field_read(value, what, kind, &model, err);
        skep_json_free(value);
        free(what);
        if (rc != SKEP_OK) {
            return rc;
        }
        reading->kind = model.kind;
    }
    skep_task_sections_init(&reading->sections, reading->kind);
    return SKEP_OK;
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
static void schema_of(const struct skep_task_section *section, cyaml_schema_field_t *ret_fields)
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
    cyaml_schema_field_t fields[SKEP_TASK_SECTIONS][FIELDS_MOST + SKEP_TASK_SECTIONS + 1];
    cyaml_schema_value_t top;
};

static void schema_init(struct schema *schema, const struct skep_task_sections *sections)
{
    for (size_t s = 0; s < SKEP_TASK_SECTIONS; s++) {
        schema_of(&sections->all[s], schema->fields[s]);
    }
    cyaml_schema_field_t *next = schema->fields[0] + sections->all[0].count;
    for (size_t s = 1; s < SKEP_TASK_SECTIONS; s++) {
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

/* The JSON object {key: value} of a value's text: a number, true or false if it is written as one, else a text for the reader to refuse. */
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
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        skep_json_set_bool(object, key, text[0] == 't');
    } else {
        skep_json_set_text(object, key, text);
    }
    return object;
}

static int read_section(const struct reading *reading, const struct skep_task_section *section,
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

/* The path under `key` of the section data; NULL if the file has none or an empty one. */
static const char *path_of(const struct reading *reading, const struct raw *raw, const char *key)
{
    const struct skep_task_section *data = &reading->sections.all[1];
    for (size_t i = 0; raw->sections[1] != NULL && i < data->count; i++) {
        const char *value = raw->sections[1]->values[i];
        if (strcmp(data->fields[i].key, key) == 0 && value != NULL && value[0] != '\0') {
            return value;
        }
    }
    return NULL;
}

static int read_path(const struct reading *reading, const struct skep_task_path *path,
                     const char *value, struct skep_task *task, struct skep_error *err)
{
    size_t line = line_of(reading, "data", path->key);
    if (value == NULL && path->needed) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s:%zu: data: field %s is missing; allowed: the path %s, from where "
                              "this file is",
                              reading->path, line, path->key, path->what);
    }
    if (value != NULL && strlen(value) > FILE_SIZE_MOST) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s:%zu: data: field %s has %zu bytes; allowed: up to %u",
                              reading->path, line, path->key, strlen(value), FILE_SIZE_MOST);
    }
    char **to = (char **)(void *)((uint8_t *)task + path->offset);
    *to = value == NULL ? NULL : skep_strdup(value);
    return SKEP_OK;
}

static int read_texts(const struct reading *reading, const struct raw *raw, struct skep_task *task,
                      struct skep_error *err)
{
    const char *name = raw->values[0];
    task->manifest.name = name == NULL ? name_of_path(reading->path) : skep_strdup(name);
    size_t count = 0;
    const struct skep_task_path *paths = skep_task_paths(&count);
    int rc = SKEP_OK;
    for (size_t i = 0; i < count && rc == SKEP_OK; i++) {
        if (paths[i].kind == reading->kind) {
            rc = read_path(reading, &paths[i], path_of(reading, raw, paths[i].key), task, err);
        }
    }
    return rc;
}

static bool is_written(const struct reading *reading, const char *section, const char *key)
{
    return skep_yaml_field_find(&reading->lines, section, key) != NULL;
}

/* Held-out records come from files of their own or out of the others, and inputs come with classes. */
static int check_heldout(const struct reading *reading, struct skep_task *task,
                         struct skep_error *err)
{
    const char *const keys[] = {"heldout_images", "heldout_labels"};
    const char *const paths[] = {task->heldout_images, task->heldout_labels};
    for (size_t i = 0; i < 2; i++) {
        if (paths[i] != NULL && paths[1 - i] == NULL) {
            return skep_error_set(
                err, SKEP_ERR_FORMAT, "%s:%zu: data: field %s stands alone; allowed: only with %s",
                reading->path, line_of(reading, "data", keys[i]), keys[i], keys[1 - i]);
        }
    }
    if (paths[0] != NULL && !is_written(reading, "data", "holdout_every")) {
        task->holdout_every = 0;
    }
    if (paths[0] != NULL && task->holdout_every != 0) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s:%zu: data: field holdout_every is %u beside heldout_images; "
                              "allowed: 0, or no heldout_images",
                              reading->path, line_of(reading, "data", "holdout_every"),
                              task->holdout_every);
    }
    return SKEP_OK;
}

/* What the file does not say and the model's shape decides. */
static void derive(const struct reading *reading, struct skep_manifest *manifest)
{
    skep_model_config_imply(&manifest->model);
    if (!is_written(reading, "", "chunk_bytes")) {
        manifest->chunk_bytes = skep_manifest_default_chunk_bytes(&manifest->model);
    }
    if (!is_written(reading, "training", "donor_rows")) {
        manifest->training.donor_rows = skep_manifest_default_donor_rows(&manifest->model);
    }
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
                              "%s:%zu: data: field holdout_every is 1, which holds out everything; "
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
    task->manifest.model.kind = reading->kind;
    skep_manifest_defaults(&task->manifest);
    task->holdout_every = SKEP_TASK_HOLDOUT_EVERY;
    int rc = read_section(reading, &reading->sections.all[0], raw->values, task, err);
    for (size_t s = 1; rc == SKEP_OK && s < SKEP_TASK_SECTIONS; s++) {
        if (raw->sections[s] != NULL) {
            rc = read_section(reading, &reading->sections.all[s], raw->sections[s]->values, task,
                              err);
        }
    }
    if (rc == SKEP_OK) {
        derive(reading, &task->manifest);
        rc = read_texts(reading, raw, task, err);
    }
    if (rc == SKEP_OK) {
        rc = check_heldout(reading, task, err);
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
    int rc = skep_yaml_lines_of(path, text, size, &reading->lines, err);
    if (rc == SKEP_OK) {
        rc = read_kind(reading, err);
    }
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
    free(task->images);
    free(task->labels);
    free(task->heldout_images);
    free(task->heldout_labels);
    skep_manifest_done(&task->manifest);
    *task = (struct skep_task){0};
}
