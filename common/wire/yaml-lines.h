/*
 * Where the fields of a YAML text stand: one walk over libyaml's events that notes the line of every key of the top mapping and of
 * the mappings in it. libcyaml loads values but forgets their lines, and people want to be told the line.
 *
 * The walk also says, by line, what is no YAML at all, and refuses what a file for people does not need: aliases, a second
 * document, a key twice, keys that are no plain text. Only for this folder.
 */
#ifndef SKEP_WIRE_YAML_LINES_H
#define SKEP_WIRE_YAML_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

#define SKEP_YAML_FIELDS_MOST 256
#define SKEP_YAML_KEY_SIZE 48 /* longer keys are cut, which no known one is */

enum skep_yaml_kind {
    SKEP_YAML_SCALAR,
    SKEP_YAML_MAPPING,
    SKEP_YAML_SEQUENCE,
};

struct skep_yaml_field {
    char section[SKEP_YAML_KEY_SIZE]; /* empty for a key of the top mapping */
    char key[SKEP_YAML_KEY_SIZE];
    size_t line; /* from 1 */
    enum skep_yaml_kind kind;
    char text[SKEP_YAML_KEY_SIZE]; /* of a scalar, cut like keys */
};

struct skep_yaml_lines {
    size_t count;
    struct skep_yaml_field fields[SKEP_YAML_FIELDS_MOST];
};

/* `path` is for messages, which begin with `path:line: `. */
int skep_yaml_lines_of(const char *path, const char *text, size_t size,
                       struct skep_yaml_lines *ret_lines, struct skep_error *err);
/* NULL if there is none. */
const struct skep_yaml_field *skep_yaml_field_find(const struct skep_yaml_lines *lines,
                                                   const char *section, const char *key);

#endif
