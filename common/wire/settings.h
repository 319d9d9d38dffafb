/*
 * The tables of fields (fields.h) of a manifest's settings, shared by those who read them from a manifest and from a task file. Only for
 * this folder.
 */
#ifndef SKEP_WIRE_SETTINGS_H
#define SKEP_WIRE_SETTINGS_H

#include <stddef.h>

#include "common/wire/fields.h"
#include "common/wire/model-config.h"

/* `section` is training, update or merge, or empty for the manifest's own fields. */
const struct skep_field *skep_manifest_fields(const char *section, size_t *ret_count);
/* Those of the section model depend on its field `kind`: one table for each kind. */
const struct skep_field *skep_model_config_fields(enum skep_model_kind kind, size_t *ret_count);

#endif
