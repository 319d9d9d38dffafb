#include "common/wire/yaml-lines.h"

#include <stdio.h>
#include <string.h>

#include <yaml.h>

#define DEEPEST 16u

/* One open mapping or sequence. */
struct level {
    bool mapping;
    bool want_key; /* of a mapping: the next node is a key */
};

struct walk {
    const char *path;
    struct skep_error *err;
    struct skep_yaml_lines *lines;
    struct level levels[DEEPEST];
    size_t depth; /* open levels */
    size_t documents;
    char section[SKEP_YAML_KEY_SIZE]; /* the top key whose value is open */
    size_t pending;                   /* 1 + the field that waits for its value, or 0 */
};

static int refuse(struct walk *walk, size_t line, const char *sentence)
{
    return skep_error_set(walk->err, SKEP_ERR_FORMAT, "%s:%zu: %s", walk->path, line, sentence);
}

const struct skep_yaml_field *skep_yaml_field_find(const struct skep_yaml_lines *lines,
                                                   const char *section, const char *key)
{
    for (size_t i = 0; i < lines->count; i++) {
        const struct skep_yaml_field *field = &lines->fields[i];
        if (strcmp(field->section, section) == 0 && strcmp(field->key, key) == 0) {
            return field;
        }
    }
    return NULL;
}

static int note_key(struct walk *walk, const char *key, size_t line)
{
    struct skep_yaml_lines *lines = walk->lines;
    struct skep_yaml_field field = {.line = line};
    snprintf(field.key, sizeof field.key, "%s", key);
    snprintf(field.section, sizeof field.section, "%s", walk->depth == 2 ? walk->section : "");
    const struct skep_yaml_field *before = skep_yaml_field_find(lines, field.section, field.key);
    if (before != NULL) {
        return skep_error_set(walk->err, SKEP_ERR_FORMAT,
                              "%s:%zu: field %s is here again after line %zu; allowed: once",
                              walk->path, line, field.key, before->line);
    }
    if (lines->count == SKEP_YAML_FIELDS_MOST) {
        return refuse(walk, line, "more fields than any such file has");
    }
    lines->fields[lines->count++] = field;
    walk->pending = lines->count;
    if (walk->depth == 1) {
        snprintf(walk->section, sizeof walk->section, "%s", key);
    }
    return SKEP_OK;
}

/* A scalar, or the start of a mapping or sequence: where a value or a key is due. */
static int enter_node(struct walk *walk, enum skep_yaml_kind kind, const char *text, size_t line)
{
    struct level *level = walk->depth == 0 ? NULL : &walk->levels[walk->depth - 1];
    if (level != NULL && level->mapping && level->want_key) {
        level->want_key = false;
        if (kind != SKEP_YAML_SCALAR) {
            return refuse(walk, line, "a field's name is a list or section; allowed: plain text");
        }
        return walk->depth <= 2 ? note_key(walk, text, line) : SKEP_OK;
    }
    if (level != NULL) {
        level->want_key = level->mapping;
    } else if (kind != SKEP_YAML_MAPPING) {
        return refuse(walk, line,
                      "the file is a list or a text; allowed: fields, each `name: value`");
    }
    if (walk->pending != 0) {
        struct skep_yaml_field *field = &walk->lines->fields[walk->pending - 1];
        field->kind = kind;
        snprintf(field->text, sizeof field->text, "%s", text == NULL ? "" : text);
        walk->pending = 0;
    }
    if (kind == SKEP_YAML_SCALAR) {
        return SKEP_OK;
    }
    if (walk->depth == DEEPEST) {
        return refuse(walk, line, "nested deeper than any such file is");
    }
    bool mapping = kind == SKEP_YAML_MAPPING;
    walk->levels[walk->depth++] = (struct level){.mapping = mapping, .want_key = mapping};
    return SKEP_OK;
}

static int take_event(struct walk *walk, const yaml_event_t *event)
{
    size_t line = event->start_mark.line + 1;
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return ++walk->documents > 1 ? refuse(walk, line, "a second document begins; allowed: one")
                                     : SKEP_OK;
    case YAML_ALIAS_EVENT:
        return refuse(walk, line, "an alias (*name) stands here; allowed: plain values");
    case YAML_SCALAR_EVENT:
        return enter_node(walk, SKEP_YAML_SCALAR, (const char *)event->data.scalar.value, line);
    case YAML_MAPPING_START_EVENT:
        return enter_node(walk, SKEP_YAML_MAPPING, NULL, line);
    case YAML_SEQUENCE_START_EVENT:
        return enter_node(walk, SKEP_YAML_SEQUENCE, NULL, line);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        walk->depth--;
        return SKEP_OK;
    default:
        return SKEP_OK;
    }
}

static int refuse_text(struct walk *walk, const yaml_parser_t *parser)
{
    return skep_error_set(walk->err, SKEP_ERR_FORMAT, "%s:%zu: this is not YAML: %s", walk->path,
                          parser->problem_mark.line + 1,
                          parser->problem == NULL ? "unreadable" : parser->problem);
}

int skep_yaml_lines_of(const char *path, const char *text, size_t size,
                       struct skep_yaml_lines *ret_lines, struct skep_error *err)
{
    struct walk walk = {.path = path, .err = err, .lines = ret_lines};
    yaml_parser_t parser;
    if (yaml_parser_initialize(&parser) == 0) {
        return skep_error_set(err, SKEP_ERR_MEMORY, "%s: no memory to read YAML", path);
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    ret_lines->count = 0;
    int rc = SKEP_OK;
    for (bool end = false; rc == SKEP_OK && !end;) {
        yaml_event_t event;
        if (yaml_parser_parse(&parser, &event) == 0) {
            rc = refuse_text(&walk, &parser);
            break;
        }
        end = event.type == YAML_STREAM_END_EVENT;
        rc = take_event(&walk, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return rc;
}
