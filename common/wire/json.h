/*
 * JSON, behind one small face so that only this folder knows the library.
 *
 * Reading: skep_json_parse() checks size, depth, duplicate keys and UTF-8; the getters take a key and say in *err which
 * field of which object (`what`, e.g. "seal") has which value and what was expected. skep_json_allow() refuses unknown
 * fields. Every number is held to a double or to 2^53 - 1, the largest integer that all JSON readers agree on. Building:
 * the setters take plain values. Objects are reference counted by nobody: every value belongs to the
 * root it was put into, and only roots are freed.
 */
#ifndef SKEP_WIRE_JSON_H
#define SKEP_WIRE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/id.h"

/* The largest integer that survives a reader which knows doubles only (RFC 8259 section 6). */
#define SKEP_JSON_INTEGER_MOST (((int64_t)1 << 53) - 1)

/* A JSON value; opaque. */
struct skep_json;

/* An object or array with nothing after it, within SKEP_LIMIT_JSON_BYTES, _VALUES and _DEPTH; no key twice, no NUL in texts. */
int skep_json_parse(const void *text, size_t size, const char *what, struct skep_json **ret_root,
                    struct skep_error *err);
/* Frees a root (and all in it); NULL is fine. */
void skep_json_free(struct skep_json *root);

/* Refuses any key of `object` that is not in the NULL-terminated list. */
int skep_json_allow(const struct skep_json *object, const char *what, const char *const *keys,
                    struct skep_error *err);
bool skep_json_has(const struct skep_json *object, const char *key);
bool skep_json_is_null(const struct skep_json *value);

/* Getters: borrowed results, untouched on failure. Bounds are inclusive. */
int skep_json_get_text(const struct skep_json *object, const char *what, const char *key,
                       const char **ret_text, struct skep_error *err);
int skep_json_get_integer(const struct skep_json *object, const char *what, const char *key,
                          int64_t least, int64_t most, int64_t *ret_value, struct skep_error *err);
int skep_json_get_real(const struct skep_json *object, const char *what, const char *key,
                       double least, double most, double *ret_value, struct skep_error *err);
int skep_json_get_bool(const struct skep_json *object, const char *what, const char *key,
                       bool *ret_value, struct skep_error *err);
/* Exactly `size` bytes written as lower-case hexadecimal. */
int skep_json_get_hex(const struct skep_json *object, const char *what, const char *key, void *to,
                      size_t size, struct skep_error *err);
int skep_json_get_shard(const struct skep_json *object, const char *what, const char *key,
                        struct skep_shard *ret_shard, struct skep_error *err);
int skep_json_get_object(const struct skep_json *object, const char *what, const char *key,
                         const struct skep_json **ret_object, struct skep_error *err);
/* An array of at most `most` items. */
int skep_json_get_array(const struct skep_json *object, const char *what, const char *key,
                        size_t most, const struct skep_json **ret_array, struct skep_error *err);
size_t skep_json_array_size(const struct skep_json *array);
/* Item i, or NULL beyond the end. */
const struct skep_json *skep_json_array_at(const struct skep_json *array, size_t i);
/* Item i as an integer; false beyond the end, for any other type and out of the bounds, *ret_value untouched. */
bool skep_json_integer_at(const struct skep_json *array, size_t i, int64_t least, int64_t most,
                          int64_t *ret_value);
/* The text of a string value, or NULL if it is none. */
const char *skep_json_text(const struct skep_json *value);
/* Walks an object's members: start with NULL; the next key, or NULL at the end. *ret_value is borrowed. */
const char *skep_json_next(const struct skep_json *object, const char *key,
                           const struct skep_json **ret_value);

/*
 * Builders. New roots; items put into another value belong to it from then on. Texts that are not UTF-8 (a sentence cut in the
 * middle of a letter) get `?` for each byte that is not. Reals must be finite, integers within +-SKEP_JSON_INTEGER_MOST.
 */
struct skep_json *skep_json_object_new(void);
struct skep_json *skep_json_array_new(void);
/* A deep copy that is its own root. */
struct skep_json *skep_json_copy(const struct skep_json *value);
void skep_json_set_text(struct skep_json *object, const char *key, const char *text);
void skep_json_set_integer(struct skep_json *object, const char *key, int64_t value);
void skep_json_set_real(struct skep_json *object, const char *key, double value);
void skep_json_set_bool(struct skep_json *object, const char *key, bool value);
void skep_json_set_null(struct skep_json *object, const char *key);
void skep_json_set_hex(struct skep_json *object, const char *key, const void *data, size_t size);
void skep_json_set_shard(struct skep_json *object, const char *key, const struct skep_shard *shard);
void skep_json_set_take(struct skep_json *object, const char *key, struct skep_json *take_value);
void skep_json_push_take(struct skep_json *array, struct skep_json *take_value);
void skep_json_push_text(struct skep_json *array, const char *text);
void skep_json_push_hex(struct skep_json *array, const void *data, size_t size);

/* Compact text with keys in the order they were set; the caller frees. Indented for people if `pretty`. */
char *skep_json_write(const struct skep_json *root, bool pretty);

#endif
