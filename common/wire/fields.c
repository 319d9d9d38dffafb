#include "common/wire/fields.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"

#define FIELDS_MOST 32

static bool is_integer(const struct skep_field *field)
{
    return field->kind <= SKEP_FIELD_I64;
}

/* The number at the field's place; integers above 2^53 round, and stay above. */
static double number_at(const struct skep_field *field, const void *from)
{
    const uint8_t *at = (const uint8_t *)from + field->offset;
    switch (field->kind) {
    case SKEP_FIELD_U16:
        return *(const uint16_t *)(const void *)at;
    case SKEP_FIELD_U32:
        return *(const uint32_t *)(const void *)at;
    case SKEP_FIELD_U64:
        return (double)*(const uint64_t *)(const void *)at;
    case SKEP_FIELD_I64:
        return (double)*(const int64_t *)(const void *)at;
    default:
        return *(const double *)(const void *)at;
    }
}

static void integer_to(const struct skep_field *field, int64_t value, void *to)
{
    uint8_t *at = (uint8_t *)to + field->offset;
    switch (field->kind) {
    case SKEP_FIELD_U16:
        *(uint16_t *)(void *)at = (uint16_t)value;
        break;
    case SKEP_FIELD_U32:
        *(uint32_t *)(void *)at = (uint32_t)value;
        break;
    case SKEP_FIELD_U64:
        *(uint64_t *)(void *)at = (uint64_t)value;
        break;
    default:
        *(int64_t *)(void *)at = value;
        break;
    }
}

/* --- reading --- */

/* The place of the field's text among its choices. */
static int read_choice(const struct skep_json *object, const char *what,
                       const struct skep_field *field, size_t *ret_place, struct skep_error *err)
{
    const char *text = NULL;
    int rc = skep_json_get_text(object, what, field->key, &text, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    char allowed[200] = "";
    for (size_t i = 0; field->choices[i] != NULL; i++) {
        if (strcmp(text, field->choices[i]) == 0) {
            *ret_place = i;
            return SKEP_OK;
        }
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof allowed - used, "%s%s", i == 0 ? "" : ", ",
                 field->choices[i]);
    }
    return skep_error_set(err, SKEP_ERR_FORMAT, "%s: field %s is \"%.60s\"; allowed: %s", what,
                          field->key, text, allowed);
}

int skep_field_read(const struct skep_json *object, const char *what,
                    const struct skep_field *field, void *to, struct skep_error *err)
{
    void *at = (uint8_t *)to + field->offset;
    if (is_integer(field)) {
        int64_t value = 0;
        int rc = skep_json_get_integer(object, what, field->key, (int64_t)field->least,
                                       (int64_t)field->most, &value, err);
        if (rc == SKEP_OK) {
            integer_to(field, value, to);
        }
        return rc;
    }
    size_t place = 0;
    int rc = SKEP_OK;
    switch (field->kind) {
    case SKEP_FIELD_REAL:
        return skep_json_get_real(object, what, field->key, field->least, field->most, at, err);
    case SKEP_FIELD_BOOL:
        return skep_json_get_bool(object, what, field->key, at, err);
    case SKEP_FIELD_FIXED:
        return read_choice(object, what, field, &place, err);
    case SKEP_FIELD_CHOICE:
        rc = read_choice(object, what, field, &place, err);
        if (rc == SKEP_OK) {
            *(unsigned *)at = (unsigned)place;
        }
        return rc;
    case SKEP_FIELD_ID:
        return skep_json_get_hex(object, what, field->key, at, SKEP_ID_SIZE, err);
    case SKEP_FIELD_SHARD:
        return skep_json_get_shard(object, what, field->key, at, err);
    default:
        return SKEP_OK;
    }
}

int skep_fields_read(const struct skep_json *object, const char *what,
                     const struct skep_field *fields, size_t count, void *to,
                     struct skep_error *err)
{
    const char *keys[FIELDS_MOST + 1];
    assert(count <= FIELDS_MOST);
    for (size_t i = 0; i < count; i++) {
        keys[i] = fields[i].key;
    }
    keys[count] = NULL;
    int rc = skep_json_allow(object, what, keys, err);
    for (size_t i = 0; rc == SKEP_OK && i < count; i++) {
        rc = skep_field_read(object, what, &fields[i], to, err);
    }
    return rc;
}

/* --- checking --- */

static int check_choice(const char *what, const struct skep_field *field, const void *from,
                        struct skep_error *err)
{
    unsigned value = *(const unsigned *)(const void *)((const uint8_t *)from + field->offset);
    unsigned count = 0;
    while (field->choices[count] != NULL) {
        count++;
    }
    if (value < count) {
        return SKEP_OK;
    }
    return skep_error_set(err, SKEP_ERR_FORMAT, "%s: field %s is choice %u; allowed: 0 to %u", what,
                          field->key, value, count - 1);
}

int skep_fields_check(const char *what, const struct skep_field *fields, size_t count,
                      const void *from, struct skep_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct skep_field *field = &fields[i];
        if (field->kind == SKEP_FIELD_CHOICE) {
            int rc = check_choice(what, field, from, err);
            if (rc != SKEP_OK) {
                return rc;
            }
        }
        if (field->kind > SKEP_FIELD_REAL) {
            continue;
        }
        double value = number_at(field, from);
        if (!(value >= field->least && value <= field->most)) {
            return skep_error_set(err, SKEP_ERR_FORMAT,
                                  "%s: field %s is %.16g; allowed: %s from %.16g to %.16g", what,
                                  field->key, value, is_integer(field) ? "an integer" : "a number",
                                  field->least, field->most);
        }
    }
    return SKEP_OK;
}

/* --- writing --- */

static void write_field(const struct skep_field *field, const void *from, struct skep_json *object)
{
    const void *at = (const uint8_t *)from + field->offset;
    switch (field->kind) {
    case SKEP_FIELD_REAL:
        skep_json_set_real(object, field->key, *(const double *)at);
        break;
    case SKEP_FIELD_BOOL:
        skep_json_set_bool(object, field->key, *(const bool *)at);
        break;
    case SKEP_FIELD_CHOICE:
        skep_json_set_text(object, field->key, field->choices[*(const unsigned *)at]);
        break;
    case SKEP_FIELD_FIXED:
        skep_json_set_text(object, field->key, field->choices[0]);
        break;
    case SKEP_FIELD_ID:
        skep_json_set_hex(object, field->key, at, SKEP_ID_SIZE);
        break;
    case SKEP_FIELD_SHARD:
        skep_json_set_shard(object, field->key, at);
        break;
    case SKEP_FIELD_OTHER:
        skep_json_set_null(object, field->key);
        break;
    default:
        skep_json_set_integer(object, field->key, (int64_t)number_at(field, from));
        break;
    }
}

void skep_fields_write(const struct skep_field *fields, size_t count, const void *from,
                       struct skep_json *object)
{
    for (size_t i = 0; i < count; i++) {
        write_field(&fields[i], from, object);
    }
}

/* --- lists of names --- */

int skep_ids_read(const struct skep_json *object, const char *what, const char *key, size_t most,
                  void **ret_ids, size_t *ret_count, struct skep_error *err)
{
    const struct skep_json *array = NULL;
    int rc = skep_json_get_array(object, what, key, most, &array, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    size_t count = skep_json_array_size(array);
    uint8_t *ids = count == 0 ? NULL : calloc(count, SKEP_ID_SIZE);
    if (count != 0 && ids == NULL) {
        return skep_error_set(err, SKEP_ERR_MEMORY, "%s: no memory for %zu %s", what, count, key);
    }
    for (size_t i = 0; i < count; i++) {
        const char *text = skep_json_text(skep_json_array_at(array, i));
        if (!skep_hex_decode(text, ids + i * SKEP_ID_SIZE, SKEP_ID_SIZE)) {
            free(ids);
            return skep_error_set(
                err, SKEP_ERR_FORMAT,
                "%s: item %zu of %s is %.70s; allowed: 64 lower-case hexadecimal digits", what, i,
                key, text == NULL ? "not a text" : text);
        }
    }
    *ret_ids = ids;
    *ret_count = count;
    return SKEP_OK;
}

struct skep_json *skep_ids_write(const void *ids, size_t count)
{
    struct skep_json *array = skep_json_array_new();
    for (size_t i = 0; i < count; i++) {
        skep_json_push_hex(array, (const uint8_t *)ids + i * SKEP_ID_SIZE, SKEP_ID_SIZE);
    }
    return array;
}
