/*
 * Which fields a task file has, section by section. Some depend on the kind of the model: its shape and its data. The tables are the
 * manifest's own (fields.h), so a new field of a section is a field of the task file at once. Only for this folder.
 */
#ifndef SKEP_WIRE_TASK_SECTIONS_H
#define SKEP_WIRE_TASK_SECTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/wire/fields.h"
#include "common/wire/task.h"

#define SKEP_TASK_SECTIONS 7
#define SKEP_TASK_TOP_FIELDS 3

/* The top mapping is the section without a name, and the first. */
struct skep_task_section {
    const char *name;
    const struct skep_field *fields;
    size_t count;
    size_t offset; /* of the struct that the fields are in, from struct skep_task */
};

struct skep_task_sections {
    struct skep_task_section all[SKEP_TASK_SECTIONS];
    struct skep_field top[SKEP_TASK_TOP_FIELDS];
};

/* A path in the section data: a SKEP_FIELD_OTHER there. */
struct skep_task_path {
    const char *key;
    enum skep_model_kind kind;
    size_t offset; /* of a char * in struct skep_task */
    bool needed;
    const char *what; /* it names */
};

/* Sections point into themselves: they are not copied. */
void skep_task_sections_init(struct skep_task_sections *sections, enum skep_model_kind kind);
/* NULL if there is none. */
const struct skep_task_section *skep_task_section_find(const struct skep_task_sections *sections,
                                                       const char *name);
bool skep_task_section_has(const struct skep_task_section *section, const char *key);
const struct skep_task_path *skep_task_paths(size_t *ret_count);

#endif
