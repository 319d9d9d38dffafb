/*
 * Tables that tie the fields of a plain struct to the fields of a JSON object: name, kind, place in the struct, range. One table
 * reads, checks and writes, so the three cannot drift apart, and every refusal names the field, the value found and what is
 * allowed. Only for this folder.
 */
#ifndef SKEP_WIRE_FIELDS_H
#define SKEP_WIRE_FIELDS_H

#include <stddef.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/wire/json.h"

enum skep_field_kind {
    SKEP_FIELD_U16, /* uint16_t, uint32_t, uint64_t, int64_t, double: least .. most */
    SKEP_FIELD_U32, /* integers stay below 2^53, so that `least` and `most` hold them exactly */
    SKEP_FIELD_U64,
    SKEP_FIELD_I64,
    SKEP_FIELD_REAL,
    SKEP_FIELD_BOOL,
    SKEP_FIELD_CHOICE, /* an enum counted from 0, written as one of `choices` */
    SKEP_FIELD_FIXED,  /* a text that must be choices[0]; nothing in the struct */
    SKEP_FIELD_ID,     /* 32 bytes in hexadecimal */
    SKEP_FIELD_SHARD,
    SKEP_FIELD_OTHER, /* allowed here, read and written by the caller */
};

struct skep_field {
    const char *key;
    enum skep_field_kind kind;
    size_t offset;
    double least;
    double most;
    const char *const *choices; /* NULL-terminated */
};

/* `what` names the object in messages. Every field must be there and no other. */
int skep_fields_read(const struct skep_json *object, const char *what,
                     const struct skep_field *fields, size_t count, void *to,
                     struct skep_error *err);
/* One field alone; others are not looked at. */
int skep_field_read(const struct skep_json *object, const char *what,
                    const struct skep_field *field, void *to, struct skep_error *err);
/* The ranges alone, on a struct. */
int skep_fields_check(const char *what, const struct skep_field *fields, size_t count,
                      const void *from, struct skep_error *err);
/* In the table's order; SKEP_FIELD_OTHER gets null as its place, for the caller to replace. */
void skep_fields_write(const struct skep_field *fields, size_t count, const void *from,
                       struct skep_json *object);

/* An array of at most `most` 32-byte names in hexadecimal; *ret_ids (the caller frees; NULL if empty) is untouched on failure. */
int skep_ids_read(const struct skep_json *object, const char *what, const char *key, size_t most,
                  void **ret_ids, size_t *ret_count, struct skep_error *err);
struct skep_json *skep_ids_write(const void *ids, size_t count);

#endif
