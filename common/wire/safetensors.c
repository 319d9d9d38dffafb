#include "common/wire/safetensors.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/json.h"

/* 4096 tensors of 256 characters each; the reference implementation allows 100 MB, which no shard needs. */
#define HEADER_LIMIT (1u << 20)
#define METADATA_KEY "__metadata__"

/* Names go into JSON and into sentences as they are. */
static bool is_plain_name(const char *name)
{
    size_t size = strlen(name);
    if (size == 0 || size >= SKEP_LIMIT_TENSOR_NAME) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (name[i] <= ' ' || name[i] > '~' || name[i] == '"' || name[i] == '\\') {
            return false;
        }
    }
    return true;
}

/* ---- writing ---- */

static void append_tensor(const struct skep_tensor_view *tensor, uint64_t begin,
                          struct skep_buffer *header)
{
    char text[64];
    assert(is_plain_name(tensor->name) && strcmp(tensor->name, METADATA_KEY) != 0);
    skep_buffer_append_text(header, ",\"");
    skep_buffer_append_text(header, tensor->name);
    skep_buffer_append_text(header, "\":{\"dtype\":\"F32\",\"shape\":[");
    for (uint32_t i = 0; i < tensor->dim_count; i++) {
        snprintf(text, sizeof text, "%s%" PRIu32, i == 0 ? "" : ",", tensor->dims[i]);
        skep_buffer_append_text(header, text);
    }
    snprintf(text, sizeof text, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin,
             begin + 4 * (uint64_t)tensor->count);
    skep_buffer_append_text(header, text);
}

static void append_values(const float *values, size_t count, struct skep_buffer *file)
{
    uint8_t bytes[4096];
    for (size_t done = 0; done < count;) {
        size_t part = count - done < sizeof bytes / 4 ? count - done : sizeof bytes / 4;
        for (size_t i = 0; i < part; i++) {
            skep_put_f32(bytes + 4 * i, values[done + i]);
        }
        skep_buffer_append(file, bytes, 4 * part);
        done += part;
    }
}

void skep_safetensors_write(const struct skep_tensor_view *tensors, const float *const *values,
                            size_t count, struct skep_buffer *ret_file)
{
    struct skep_buffer header = {0};
    skep_buffer_append_text(&header, "{\"" METADATA_KEY "\":{\"format\":\"skep\"}");
    uint64_t begin = 0;
    for (size_t t = 0; t < count; t++) {
        append_tensor(&tensors[t], begin, &header);
        begin += 4 * (uint64_t)tensors[t].count;
    }
    skep_buffer_append_text(&header, "}");
    while (header.size % 8 != 0) {
        skep_buffer_append_text(&header, " ");
    }
    skep_buffer_append_u64(ret_file, header.size);
    skep_buffer_append(ret_file, header.data, header.size);
    for (size_t t = 0; t < count; t++) {
        append_values(values[t], tensors[t].count, ret_file);
    }
    skep_buffer_done(&header);
}

/* ---- reading ---- */

/* A tensor as the header has it. */
struct entry {
    struct skep_tensor_view view;
    uint64_t begin;
    uint64_t end;
};

static int read_shape(const struct skep_json *object, const char *what, struct entry *entry,
                      struct skep_error *err)
{
    const struct skep_json *shape = NULL;
    int rc = skep_json_get_array(object, what, "shape", SKEP_LIMIT_TENSOR_DIMS, &shape, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    uint64_t count = 1;
    entry->view.dim_count = (uint32_t)skep_json_array_size(shape);
    for (uint32_t i = 0; i < entry->view.dim_count; i++) {
        int64_t dim = 0;
        /* Each factor below 2^30 and the product held to that at each step: no overflow. */
        if (!skep_json_integer_at(shape, i, 1, SKEP_LIMIT_STATE_BYTES / 4, &dim) ||
            (count *= (uint64_t)dim) > SKEP_LIMIT_STATE_BYTES / 4) {
            return skep_error_set(err, SKEP_ERR_FORMAT,
                                  "%s: axis %u of its shape is no integer from 1, or makes it "
                                  "larger than %u values",
                                  what, i, SKEP_LIMIT_STATE_BYTES / 4);
        }
        entry->view.dims[i] = (uint32_t)dim;
    }
    entry->view.count = (size_t)count;
    return SKEP_OK;
}

static int read_offsets(const struct skep_json *object, const char *what, uint64_t data_size,
                        struct entry *entry, struct skep_error *err)
{
    const struct skep_json *offsets = NULL;
    int rc = skep_json_get_array(object, what, "data_offsets", 2, &offsets, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    int64_t begin = 0;
    int64_t end = 0;
    if (skep_json_array_size(offsets) != 2 ||
        !skep_json_integer_at(offsets, 0, 0, (int64_t)data_size, &begin) ||
        !skep_json_integer_at(offsets, 1, begin, (int64_t)data_size, &end)) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s: data_offsets are not two rising integers from 0 to %" PRIu64
                              ", where the data ends",
                              what, data_size);
    }
    if ((uint64_t)(end - begin) != 4 * (uint64_t)entry->view.count) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s: data_offsets span %" PRId64 " bytes; its shape needs %zu", what,
                              end - begin, 4 * entry->view.count);
    }
    entry->begin = (uint64_t)begin;
    entry->end = (uint64_t)end;
    return SKEP_OK;
}

static int read_entry(const char *name, const struct skep_json *value, uint64_t data_size,
                      struct entry *entry, struct skep_error *err)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets", NULL};
    if (!is_plain_name(name)) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "safetensors: a tensor's name has %zu characters, or others than "
                              "letters, digits and signs; allowed: 1 .. %u plain ones",
                              strlen(name), SKEP_LIMIT_TENSOR_NAME - 1);
    }
    snprintf(entry->view.name, sizeof entry->view.name, "%s", name);
    char what[SKEP_LIMIT_TENSOR_NAME + 16];
    snprintf(what, sizeof what, "tensor %s", name);
    int rc = skep_json_allow(value, what, keys, err);
    const char *type = NULL;
    if (rc == SKEP_OK) {
        rc = skep_json_get_text(value, what, "dtype", &type, err);
    }
    if (rc == SKEP_OK && strcmp(type, "F32") != 0) {
        rc = skep_error_set(err, SKEP_ERR_FORMAT, "%s: dtype is %.16s; allowed: F32", what, type);
    }
    if (rc == SKEP_OK) {
        rc = read_shape(value, what, entry, err);
    }
    return rc == SKEP_OK ? read_offsets(value, what, data_size, entry, err) : rc;
}

static int read_metadata(const struct skep_json *metadata, struct skep_error *err)
{
    const struct skep_json *value = NULL;
    for (const char *key = skep_json_next(metadata, NULL, &value); key != NULL;
         key = skep_json_next(metadata, key, &value)) {
        if (skep_json_text(value) == NULL) {
            return skep_error_set(err, SKEP_ERR_FORMAT,
                                  "safetensors: " METADATA_KEY " has a value that is no text");
        }
    }
    return SKEP_OK;
}

static int read_entries(const struct skep_json *header, uint64_t data_size, struct entry *entries,
                        size_t *ret_count, struct skep_error *err)
{
    size_t count = 0;
    const struct skep_json *value = NULL;
    for (const char *key = skep_json_next(header, NULL, &value); key != NULL;
         key = skep_json_next(header, key, &value)) {
        int rc;
        if (strcmp(key, METADATA_KEY) == 0) {
            rc = read_metadata(value, err);
        } else if (count == SKEP_LIMIT_TENSORS) {
            rc = skep_error_set(err, SKEP_ERR_TOO_LARGE,
                                "safetensors: more than %u tensors, as many as are allowed",
                                SKEP_LIMIT_TENSORS);
        } else {
            rc = read_entry(key, value, data_size, &entries[count++], err);
        }
        if (rc != SKEP_OK) {
            return rc;
        }
    }
    *ret_count = count;
    return SKEP_OK;
}

static int compare_begins(const void *left, const void *right)
{
    const struct entry *a = left;
    const struct entry *b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* In order of their data the tensors must follow each other and fill it. */
static int check_cover(const struct entry *entries, size_t count, uint64_t data_size,
                       struct skep_error *err)
{
    uint64_t at = 0;
    for (size_t t = 0; t < count; t++) {
        if (entries[t].begin != at) {
            return skep_error_set(err, SKEP_ERR_FORMAT,
                                  "tensor %s: its data begins at byte %" PRIu64
                                  ", %s the end of the data before it at %" PRIu64,
                                  entries[t].view.name, entries[t].begin,
                                  entries[t].begin < at ? "before" : "not at", at);
        }
        at = entries[t].end;
    }
    if (at != data_size) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "safetensors: the tensors fill %" PRIu64 " bytes of data; the file "
                              "has %" PRIu64,
                              at, data_size);
    }
    return SKEP_OK;
}

static int read_views(const struct skep_json *header, const uint8_t *data, uint64_t data_size,
                      struct skep_tensor_view **ret_views, size_t *ret_count,
                      struct skep_error *err)
{
    size_t count = 0;
    struct skep_tensor_view *views = NULL;
    struct entry *entries = calloc(SKEP_LIMIT_TENSORS, sizeof *entries);
    int rc = SKEP_ERR_MEMORY;
    if (entries == NULL) {
        skep_error_set(err, SKEP_ERR_MEMORY, "no memory for the header of a safetensors file");
        goto out;
    }
    rc = read_entries(header, data_size, entries, &count, err);
    if (rc != SKEP_OK) {
        goto out;
    }
    qsort(entries, count, sizeof *entries, compare_begins);
    rc = check_cover(entries, count, data_size, err);
    if (rc != SKEP_OK) {
        goto out;
    }
    views = calloc(count + 1, sizeof *views);
    if (views == NULL) {
        rc = skep_error_set(err, SKEP_ERR_MEMORY, "no memory for %zu tensors", count);
        goto out;
    }
    for (size_t t = 0; t < count; t++) {
        views[t] = entries[t].view;
        views[t].data = data + entries[t].begin;
    }
    *ret_views = views;
    *ret_count = count;
out:
    free(entries);
    return rc;
}

int skep_safetensors_read(const void *data, size_t size, struct skep_tensor_view **ret_views,
                          size_t *ret_count, struct skep_error *err)
{
    if (size > SKEP_LIMIT_STATE_BYTES) {
        return skep_error_set(err, SKEP_ERR_TOO_LARGE,
                              "safetensors: the file has %zu bytes; allowed: up to %u", size,
                              SKEP_LIMIT_STATE_BYTES);
    }
    struct skep_reader reader = skep_reader_of(data, size);
    uint64_t header_size = skep_read_u64(&reader);
    if (reader.failed || header_size > skep_reader_left(&reader) || header_size > HEADER_LIMIT) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "safetensors: a file of %zu bytes has a header of %" PRIu64
                              "; allowed: what is there, up to %u",
                              size, header_size, HEADER_LIMIT);
    }
    const uint8_t *text = skep_read_bytes(&reader, (size_t)header_size);
    if (header_size == 0 || text[0] != '{') {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "safetensors: the header does not begin with {, as it must");
    }
    struct skep_json *header = NULL;
    int rc = skep_json_parse(text, (size_t)header_size, "safetensors header", &header, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    rc = read_views(header, text + header_size, skep_reader_left(&reader), ret_views, ret_count,
                    err);
    skep_json_free(header);
    return rc;
}
