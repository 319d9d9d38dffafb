#include "common/wire/json.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"

/* A struct skep_json is jansson's json_t under another name, so that jansson's header stays in this file. */
static json_t *inner(const struct skep_json *value)
{
    return (json_t *)value;
}

/* Jansson answers NULL when memory is gone; sizes are bounded by the limits, so that stops the program. */
static void *needed(void *memory)
{
    if (memory == NULL) {
        fputs("skep: out of memory for JSON\n", stderr);
        abort();
    }
    return memory;
}

static struct skep_json *outer(json_t *value)
{
    return needed(value);
}

/* --- reading --- */

/*
 * Walks the text once before the library sees it: its own depth limit is 2048 levels of recursion, and a few bytes of text make
 * a hundred bytes of values.
 */
static int check_shape(const char *text, size_t size, const char *what, struct skep_error *err)
{
    size_t depth = 0;
    size_t values = 1;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (quoted) {
            i += c == '\\';
            quoted = c != '"';
            continue;
        }
        quoted = c == '"';
        depth += c == '[' || c == '{';
        depth -= (c == ']' || c == '}') && depth > 0;
        values += c == '[' || c == '{' || c == ',';
        if (depth > SKEP_LIMIT_JSON_DEPTH) {
            return skep_error_set(err, SKEP_ERR_TOO_LARGE,
                                  "%s is nested deeper than %u levels at byte %zu", what,
                                  SKEP_LIMIT_JSON_DEPTH, i);
        }
        if (values > SKEP_LIMIT_JSON_VALUES) {
            return skep_error_set(err, SKEP_ERR_TOO_LARGE, "%s holds more than %u JSON values",
                                  what, SKEP_LIMIT_JSON_VALUES);
        }
    }
    return SKEP_OK;
}

int skep_json_parse(const void *text, size_t size, const char *what, struct skep_json **ret_root,
                    struct skep_error *err)
{
    if (size > SKEP_LIMIT_JSON_BYTES) {
        return skep_error_set(err, SKEP_ERR_TOO_LARGE, "%s is %zu bytes long; at most %u allowed",
                              what, size, SKEP_LIMIT_JSON_BYTES);
    }
    if (size == 0) {
        return skep_error_set(err, SKEP_ERR_FORMAT, "%s is empty; expected JSON", what);
    }
    /* Jansson 2.14 overlooks one after a number. */
    const char *nul = memchr(text, '\0', size);
    if (nul != NULL) {
        return skep_error_set(err, SKEP_ERR_FORMAT, "%s is not JSON: byte %zu is a NUL", what,
                              (size_t)(nul - (const char *)text));
    }
    int rc = check_shape(text, size, what, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    json_error_t reason;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &reason);
    if (root == NULL) {
        /* It quotes the text, which is foreign. */
        for (char *at = reason.text; *at != '\0'; at++) {
            if (*at < ' ' || *at > '~') {
                *at = '?';
            }
        }
        return skep_error_set(err, SKEP_ERR_FORMAT, "%s is not JSON: line %d, column %d: %s", what,
                              reason.line, reason.column, reason.text);
    }
    *ret_root = outer(root);
    return SKEP_OK;
}

void skep_json_free(struct skep_json *root)
{
    json_decref(inner(root));
}

#define SHOWN_SIZE 64

/* A value as a message shows it: short values as written, in ASCII; long ones cut; containers by kind. */
static const char *show(const json_t *value, char to[SHOWN_SIZE])
{
    if (json_is_object(value)) {
        snprintf(to, SHOWN_SIZE, "an object");
    } else if (json_is_array(value)) {
        snprintf(to, SHOWN_SIZE, "an array of %zu items", json_array_size(value));
    } else {
        char *text = needed(
            json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15)));
        bool whole = strlen(text) < SHOWN_SIZE - 4;
        snprintf(to, SHOWN_SIZE, "%.*s%s", SHOWN_SIZE - 4, text, whole ? "" : "...");
        free(text);
    }
    /* The one control character that jansson leaves as it is. */
    for (char *at = to; *at != '\0'; at++) {
        if (*at == 0x7f) {
            *at = '?';
        }
    }
    return to;
}

static int refuse_value(const json_t *value, const char *what, const char *key, const char *allowed,
                        struct skep_error *err)
{
    if (value == NULL) {
        return skep_error_set(err, SKEP_ERR_FORMAT, "%s: field %s is missing; allowed: %s", what,
                              key, allowed);
    }
    char shown[SHOWN_SIZE];
    return skep_error_set(err, SKEP_ERR_FORMAT, "%s: field %s is %s; allowed: %s", what, key,
                          show(value, shown), allowed);
}

int skep_json_allow(const struct skep_json *object, const char *what, const char *const *keys,
                    struct skep_error *err)
{
    if (!json_is_object(inner(object))) {
        char shown[SHOWN_SIZE];
        return skep_error_set(err, SKEP_ERR_FORMAT, "%s is %s; expected a JSON object", what,
                              show(inner(object), shown));
    }
    const struct skep_json *value = NULL;
    for (const char *key = skep_json_next(object, NULL, &value); key != NULL;
         key = skep_json_next(object, key, &value)) {
        size_t i = 0;
        while (keys[i] != NULL && strcmp(keys[i], key) != 0) {
            i++;
        }
        if (keys[i] != NULL) {
            continue;
        }
        struct skep_buffer list = {0};
        for (size_t k = 0; keys[k] != NULL; k++) {
            skep_buffer_append_text(&list, k == 0 ? "" : ", ");
            skep_buffer_append_text(&list, keys[k]);
        }
        char shown[SHOWN_SIZE];
        char shown_key[SHOWN_SIZE];
        json_t *name = needed(json_string(key));
        skep_error_set(err, SKEP_ERR_FORMAT, "%s: unknown field %s with value %s; allowed: %.*s",
                       what, show(name, shown_key), show(inner(value), shown), (int)list.size,
                       (const char *)list.data);
        json_decref(name);
        skep_buffer_done(&list);
        return SKEP_ERR_FORMAT;
    }
    return SKEP_OK;
}

bool skep_json_has(const struct skep_json *object, const char *key)
{
    return json_object_get(inner(object), key) != NULL;
}

bool skep_json_is_null(const struct skep_json *value)
{
    return json_is_null(inner(value));
}

int skep_json_get_text(const struct skep_json *object, const char *what, const char *key,
                       const char **ret_text, struct skep_error *err)
{
    const json_t *value = json_object_get(inner(object), key);
    if (!json_is_string(value)) {
        return refuse_value(value, what, key, "a text", err);
    }
    *ret_text = json_string_value(value);
    return SKEP_OK;
}

int skep_json_get_integer(const struct skep_json *object, const char *what, const char *key,
                          int64_t least, int64_t most, int64_t *ret_value, struct skep_error *err)
{
    const json_t *value = json_object_get(inner(object), key);
    if (!json_is_integer(value) || json_integer_value(value) < least ||
        json_integer_value(value) > most) {
        char allowed[80];
        snprintf(allowed, sizeof allowed, "an integer from %lld to %lld", (long long)least,
                 (long long)most);
        return refuse_value(value, what, key, allowed, err);
    }
    *ret_value = json_integer_value(value);
    return SKEP_OK;
}

int skep_json_get_real(const struct skep_json *object, const char *what, const char *key,
                       double least, double most, double *ret_value, struct skep_error *err)
{
    const json_t *value = json_object_get(inner(object), key);
    /* Written so that a NaN would be refused as well. */
    if (!json_is_number(value) ||
        !(json_number_value(value) >= least && json_number_value(value) <= most)) {
        char allowed[80];
        snprintf(allowed, sizeof allowed, "a number from %g to %g", least, most);
        return refuse_value(value, what, key, allowed, err);
    }
    *ret_value = json_number_value(value);
    return SKEP_OK;
}

int skep_json_get_bool(const struct skep_json *object, const char *what, const char *key,
                       bool *ret_value, struct skep_error *err)
{
    const json_t *value = json_object_get(inner(object), key);
    if (!json_is_boolean(value)) {
        return refuse_value(value, what, key, "true or false", err);
    }
    *ret_value = json_is_true(value);
    return SKEP_OK;
}

int skep_json_get_hex(const struct skep_json *object, const char *what, const char *key, void *to,
                      size_t size, struct skep_error *err)
{
    const json_t *value = json_object_get(inner(object), key);
    if (!skep_hex_decode(json_string_value(value), to, size)) {
        char allowed[80];
        snprintf(allowed, sizeof allowed, "%zu lower-case hexadecimal digits", 2 * size);
        return refuse_value(value, what, key, allowed, err);
    }
    return SKEP_OK;
}

int skep_json_get_shard(const struct skep_json *object, const char *what, const char *key,
                        struct skep_shard *ret_shard, struct skep_error *err)
{
    const json_t *value = json_object_get(inner(object), key);
    if (!json_is_string(value) || !skep_shard_parse(json_string_value(value), ret_shard)) {
        return refuse_value(value, what, key, "trunk or ffn.<layer>.<row>.<column>", err);
    }
    return SKEP_OK;
}

int skep_json_get_object(const struct skep_json *object, const char *what, const char *key,
                         const struct skep_json **ret_object, struct skep_error *err)
{
    json_t *value = json_object_get(inner(object), key);
    if (!json_is_object(value)) {
        return refuse_value(value, what, key, "an object", err);
    }
    *ret_object = outer(value);
    return SKEP_OK;
}

int skep_json_get_array(const struct skep_json *object, const char *what, const char *key,
                        size_t most, const struct skep_json **ret_array, struct skep_error *err)
{
    json_t *value = json_object_get(inner(object), key);
    if (!json_is_array(value) || json_array_size(value) > most) {
        char allowed[80];
        snprintf(allowed, sizeof allowed, "an array of at most %zu items", most);
        return refuse_value(value, what, key, allowed, err);
    }
    *ret_array = outer(value);
    return SKEP_OK;
}

size_t skep_json_array_size(const struct skep_json *array)
{
    return json_array_size(inner(array));
}

const struct skep_json *skep_json_array_at(const struct skep_json *array, size_t i)
{
    return (const struct skep_json *)json_array_get(inner(array), i);
}

bool skep_json_integer_at(const struct skep_json *array, size_t i, int64_t least, int64_t most,
                          int64_t *ret_value)
{
    const json_t *item = json_array_get(inner(array), i);
    if (!json_is_integer(item) || json_integer_value(item) < least ||
        json_integer_value(item) > most) {
        return false;
    }
    *ret_value = json_integer_value(item);
    return true;
}

const char *skep_json_text(const struct skep_json *value)
{
    return json_string_value(inner(value));
}

const char *skep_json_next(const struct skep_json *object, const char *key,
                           const struct skep_json **ret_value)
{
    json_t *members = inner(object);
    void *at = key == NULL ? json_object_iter(members)
                           : json_object_iter_next(members, json_object_iter_at(members, key));
    if (at == NULL) {
        return NULL;
    }
    *ret_value = outer(json_object_iter_value(at));
    return json_object_iter_key(at);
}

/* --- building --- */

struct skep_json *skep_json_object_new(void)
{
    return outer(json_object());
}

struct skep_json *skep_json_array_new(void)
{
    return outer(json_array());
}

struct skep_json *skep_json_copy(const struct skep_json *value)
{
    return outer(json_deep_copy(inner(value)));
}

/* Takes `value`, as jansson does even when it fails. */
static void put(struct skep_json *object, const char *key, json_t *value)
{
    int rc = json_object_set_new(inner(object), key, value);
    assert(rc == 0);
    (void)rc;
}

/* A text value; where jansson refuses the bytes as UTF-8, all that is not ASCII becomes `?`. */
static json_t *text_value(const char *text)
{
    json_t *value = json_string(text);
    if (value != NULL) {
        return value;
    }
    char *copy = skep_strdup(text);
    for (char *c = copy; *c != '\0'; c++) {
        if ((unsigned char)*c >= 0x80) {
            *c = '?';
        }
    }
    value = needed(json_string(copy));
    free(copy);
    return value;
}

static json_t *hex_value(const void *data, size_t size)
{
    char *text = skep_alloc(2 * size + 1, 1);
    skep_hex_encode(data, size, text);
    json_t *value = needed(json_string(text));
    free(text);
    return value;
}

void skep_json_set_text(struct skep_json *object, const char *key, const char *text)
{
    put(object, key, text_value(text));
}

void skep_json_set_integer(struct skep_json *object, const char *key, int64_t value)
{
    assert(value >= -SKEP_JSON_INTEGER_MOST && value <= SKEP_JSON_INTEGER_MOST);
    put(object, key, json_integer(value));
}

void skep_json_set_real(struct skep_json *object, const char *key, double value)
{
    assert(isfinite(value));
    put(object, key, json_real(value));
}

void skep_json_set_bool(struct skep_json *object, const char *key, bool value)
{
    put(object, key, json_boolean(value));
}

void skep_json_set_null(struct skep_json *object, const char *key)
{
    put(object, key, json_null());
}

void skep_json_set_hex(struct skep_json *object, const char *key, const void *data, size_t size)
{
    put(object, key, hex_value(data, size));
}

void skep_json_set_shard(struct skep_json *object, const char *key, const struct skep_shard *shard)
{
    char text[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(shard, text);
    put(object, key, json_string(text));
}

void skep_json_set_take(struct skep_json *object, const char *key, struct skep_json *take_value)
{
    put(object, key, inner(take_value));
}

void skep_json_push_take(struct skep_json *array, struct skep_json *take_value)
{
    int rc = json_array_append_new(inner(array), inner(take_value));
    assert(rc == 0);
    (void)rc;
}

void skep_json_push_text(struct skep_json *array, const char *text)
{
    skep_json_push_take(array, outer(text_value(text)));
}

void skep_json_push_hex(struct skep_json *array, const void *data, size_t size)
{
    skep_json_push_take(array, outer(hex_value(data, size)));
}

/* Whether the text may hold a real: a digit before a point or a negative exponent. Texts may look so too; that costs only time. */
static bool may_hold_reals(const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        bool digit = *at >= '0' && *at <= '9';
        if (digit && (at[1] == '.' || (at[1] == 'e' && at[2] == '-'))) {
            return true;
        }
    }
    return false;
}

char *skep_json_write(const struct skep_json *root, bool pretty)
{
    size_t flags = pretty ? JSON_INDENT(2) : JSON_COMPACT;
    /* 17 digits hold every double, 15 look like what a person wrote (0.1 and not 0.10000000000000001): 15 where they say the same. */
    char *text = needed(json_dumps(inner(root), flags | JSON_REAL_PRECISION(17)));
    if (!may_hold_reals(text)) {
        return text;
    }
    char *shorter = json_dumps(inner(root), flags | JSON_REAL_PRECISION(15));
    json_t *again = shorter == NULL ? NULL : json_loads(shorter, 0, NULL);
    bool same = again != NULL && json_equal(again, inner(root));
    json_decref(again);
    free(same ? text : shorter);
    return same ? shorter : text;
}
