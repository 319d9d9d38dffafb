#include "common/wire/safetensors.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/json.h"

/*
 * A header may have this many bytes for each tensor that its reader wants, and for the metadata: 1 MiB for a shard of 4096 tensors.
 * The reference implementation allows 100 MB; but a header parsed costs fifty times its size in memory.
 */
#define HEADER_FOR_TENSOR 256u
#define HEADER_FOR_METADATA 4096u
#define VALUES_MOST ((int64_t)(SKEP_LIMIT_STATE_BYTES / 4))
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

/* Whether `count` is the product of the axes, and these such as are read again. */
static bool has_its_count(const struct skep_tensor_view *tensor)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < tensor->dim_count; i++) {
        if (i == SKEP_LIMIT_TENSOR_DIMS || tensor->dims[i] == 0 ||
            tensor->dims[i] > VALUES_MOST / count) {
            return false;
        }
        count *= tensor->dims[i];
    }
    return tensor->count == (size_t)count;
}

static void append_tensor(const struct skep_tensor_view *tensor, uint64_t begin,
                          struct skep_buffer *header)
{
    char text[64];
    assert(is_plain_name(tensor->name) && strcmp(tensor->name, METADATA_KEY) != 0);
    assert(has_its_count(tensor));
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
        skep_put_floats(bytes, values + done, part);
        skep_buffer_append(file, bytes, 4 * part);
        done += part;
    }
}

/* Returns the size of the data that must follow. */
static uint64_t write_header(const struct skep_tensor_view *tensors, size_t count,
                             struct skep_buffer *header)
{
    skep_buffer_append_text(header, "{\"" METADATA_KEY "\":{\"format\":\"skep\"}");
    uint64_t begin = 0;
    for (size_t t = 0; t < count; t++) {
        append_tensor(&tensors[t], begin, header);
        begin += 4 * (uint64_t)tensors[t].count;
    }
    skep_buffer_append_text(header, "}");
    while (header->size % 8 != 0) {
        skep_buffer_append_text(header, " ");
    }
    return begin;
}

/* Whether a file can hold them all. */
static bool values_fit(const struct skep_tensor_view *tensors, size_t count)
{
    size_t left = (size_t)VALUES_MOST;
    for (size_t t = 0; t < count; t++) {
        if (tensors[t].count > left) {
            return false;
        }
        left -= tensors[t].count;
    }
    return true;
}

int skep_safetensors_frame(const struct skep_tensor_view *tensors, size_t count,
                           struct skep_buffer *ret_file, uint8_t **ret_places,
                           struct skep_error *err)
{
    if (!values_fit(tensors, count)) {
        return skep_error_set(err, SKEP_ERR_TOO_LARGE,
                              "safetensors: %zu tensors from %s on hold more than %" PRId64
                              " values, as many as are allowed",
                              count, tensors[0].name, VALUES_MOST);
    }
    struct skep_buffer header = {0};
    size_t size = (size_t)write_header(tensors, count, &header) + 8 + header.size;
    struct skep_buffer file = {.size = size, .capacity = size};
    int rc = SKEP_OK;
    if (size > SKEP_LIMIT_STATE_BYTES) {
        rc = skep_error_set(err, SKEP_ERR_TOO_LARGE,
                            "safetensors: the file would have %zu bytes; allowed: up to %u", size,
                            SKEP_LIMIT_STATE_BYTES);
    } else if ((file.data = calloc(size, 1)) == NULL) {
        rc = skep_error_set(err, SKEP_ERR_MEMORY, "no memory for %zu bytes of tensors", size);
    } else {
        skep_put_u64(file.data, header.size);
        memcpy(file.data + 8, header.data, header.size);
        uint8_t *at = file.data + 8 + header.size;
        for (size_t t = 0; t < count; t++) {
            ret_places[t] = at;
            at += 4 * tensors[t].count;
        }
        *ret_file = file;
    }
    skep_buffer_done(&header);
    return rc;
}

void skep_safetensors_write(const struct skep_tensor_view *tensors, const float *const *values,
                            size_t count, struct skep_buffer *ret_file)
{
    struct skep_buffer header = {0};
    write_header(tensors, count, &header);
    skep_buffer_append_u64(ret_file, header.size);
    skep_buffer_append(ret_file, header.data, header.size);
    for (size_t t = 0; t < count; t++) {
        append_values(values[t], tensors[t].count, ret_file);
    }
    skep_buffer_done(&header);
}

/* ---- reading ---- */

#define SHOWN_SIZE 40

/* The beginning of a foreign text as a sentence may hold it. */
static const char *show(const char *text, char to[SHOWN_SIZE])
{
    size_t size = strlen(text);
    snprintf(to, SHOWN_SIZE, "%.*s%s", SHOWN_SIZE - 4, text, size > SHOWN_SIZE - 4 ? "..." : "");
    for (char *at = to; *at != '\0'; at++) {
        if (*at < ' ' || *at > '~') {
            *at = '?';
        }
    }
    return to;
}

static int read_shape(const struct skep_json *object, const char *what,
                      struct skep_tensor_view *view, struct skep_error *err)
{
    const struct skep_json *shape = NULL;
    int rc = skep_json_get_array(object, what, "shape", SKEP_LIMIT_TENSOR_DIMS, &shape, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    int64_t count = 1;
    view->dim_count = (uint32_t)skep_json_array_size(shape);
    for (uint32_t i = 0; i < view->dim_count; i++) {
        int64_t dim = 0;
        if (!skep_json_integer_at(shape, i, INT64_MIN, INT64_MAX, &dim)) {
            return skep_error_set(err, SKEP_ERR_FORMAT,
                                  "%s: axis %u of its shape is no integer; expected one from 1",
                                  what, i);
        }
        /* A quotient, since the product of two that fit need not fit. */
        if (dim < 1 || dim > VALUES_MOST / count) {
            return skep_error_set(err, SKEP_ERR_FORMAT,
                                  "%s: axis %u of its shape is %" PRId64
                                  "; expected 1 or more, and up to %" PRId64 " values in all",
                                  what, i, dim, VALUES_MOST);
        }
        count *= dim;
        view->dims[i] = (uint32_t)dim;
    }
    view->count = (size_t)count;
    return SKEP_OK;
}

/* Sets view->data, once its bytes are known to be inside the `data_size` bytes at `data`. */
static int read_offsets(const struct skep_json *object, const char *what, const uint8_t *data,
                        size_t data_size, struct skep_tensor_view *view, struct skep_error *err)
{
    const struct skep_json *offsets = NULL;
    int rc = skep_json_get_array(object, what, "data_offsets", 2, &offsets, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    int64_t begin = 0;
    int64_t end = 0;
    if (!skep_json_integer_at(offsets, 0, INT64_MIN, INT64_MAX, &begin) ||
        !skep_json_integer_at(offsets, 1, INT64_MIN, INT64_MAX, &end)) {
        return skep_error_set(err, SKEP_ERR_FORMAT, "%s: data_offsets are not two integers", what);
    }
    if (begin < 0 || end < begin || (uint64_t)end > data_size) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s: data_offsets are %" PRId64 " and %" PRId64
                              "; expected two rising integers from 0 to %zu, where the data ends",
                              what, begin, end, data_size);
    }
    if ((uint64_t)(end - begin) != 4 * (uint64_t)view->count) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s: data_offsets span %" PRId64 " bytes; its shape needs %zu", what,
                              end - begin, 4 * view->count);
    }
    view->data = data + begin;
    return SKEP_OK;
}

static int check_dtype(const struct skep_json *object, const char *what, struct skep_error *err)
{
    const char *type = NULL;
    int rc = skep_json_get_text(object, what, "dtype", &type, err);
    if (rc == SKEP_OK && strcmp(type, "F32") != 0) {
        char shown[SHOWN_SIZE];
        rc = skep_error_set(err, SKEP_ERR_FORMAT, "%s: dtype is %s; allowed: F32", what,
                            show(type, shown));
    }
    return rc;
}

static int read_tensor(const char *name, const struct skep_json *value, const uint8_t *data,
                       size_t data_size, struct skep_tensor_view *view, struct skep_error *err)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets", NULL};
    if (!is_plain_name(name)) {
        char shown[SHOWN_SIZE];
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "safetensors: the tensor name \"%s\" has %zu bytes; expected 1 to %u "
                              "ASCII letters, digits and signs, no blanks, quotes, backslashes",
                              show(name, shown), strlen(name), SKEP_LIMIT_TENSOR_NAME - 1);
    }
    snprintf(view->name, sizeof view->name, "%s", name);
    char what[SKEP_LIMIT_TENSOR_NAME + 16];
    snprintf(what, sizeof what, "tensor %s", name);
    int rc = skep_json_allow(value, what, keys, err);
    if (rc == SKEP_OK) {
        rc = check_dtype(value, what, err);
    }
    if (rc == SKEP_OK) {
        rc = read_shape(value, what, view, err);
    }
    return rc == SKEP_OK ? read_offsets(value, what, data, data_size, view, err) : rc;
}

static int check_metadata(const struct skep_json *header, struct skep_error *err)
{
    const struct skep_json *metadata = NULL;
    int rc = skep_json_get_object(header, "safetensors", METADATA_KEY, &metadata, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    const struct skep_json *value = NULL;
    for (const char *key = skep_json_next(metadata, NULL, &value); key != NULL;
         key = skep_json_next(metadata, key, &value)) {
        if (skep_json_text(value) == NULL) {
            char shown[SHOWN_SIZE];
            return skep_error_set(err, SKEP_ERR_FORMAT,
                                  "safetensors: \"%s\" in " METADATA_KEY " is no text",
                                  show(key, shown));
        }
    }
    return SKEP_OK;
}

/* How many tensors the header names. */
static size_t count_tensors(const struct skep_json *header)
{
    size_t count = 0;
    const struct skep_json *value = NULL;
    for (const char *key = skep_json_next(header, NULL, &value); key != NULL;
         key = skep_json_next(header, key, &value)) {
        count += strcmp(key, METADATA_KEY) != 0;
    }
    return count;
}

/* `views` has room for all that the header names. */
static int read_tensors(const struct skep_json *header, const uint8_t *data, size_t data_size,
                        struct skep_tensor_view *views, struct skep_error *err)
{
    const struct skep_json *value = NULL;
    for (const char *key = skep_json_next(header, NULL, &value); key != NULL;
         key = skep_json_next(header, key, &value)) {
        int rc = strcmp(key, METADATA_KEY) == 0
                     ? check_metadata(header, err)
                     : read_tensor(key, value, data, data_size, views++, err);
        if (rc != SKEP_OK) {
            return rc;
        }
    }
    return SKEP_OK;
}

static int compare_data(const void *left, const void *right)
{
    const struct skep_tensor_view *a = left;
    const struct skep_tensor_view *b = right;
    return (a->data > b->data) - (a->data < b->data);
}

/* In order of their data the tensors must follow each other and fill it. */
static int check_cover(const struct skep_tensor_view *views, size_t count, const uint8_t *data,
                       size_t data_size, struct skep_error *err)
{
    size_t at = 0;
    for (size_t t = 0; t < count; t++) {
        size_t begin = (size_t)(views[t].data - data);
        if (begin != at) {
            return skep_error_set(err, SKEP_ERR_FORMAT,
                                  "tensor %s: its data begins at byte %zu, %s the end of the data "
                                  "before it at %zu",
                                  views[t].name, begin, begin < at ? "before" : "not at", at);
        }
        at += 4 * views[t].count;
    }
    if (at != data_size) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "safetensors: the tensors fill %zu bytes of data; the file has %zu",
                              at, data_size);
    }
    return SKEP_OK;
}

/* The views of the `count` tensors that the header names. */
static int read_views(const struct skep_json *header, size_t count, const uint8_t *data,
                      size_t data_size, struct skep_tensor_view **ret_views, struct skep_error *err)
{
    struct skep_tensor_view *views = calloc(count + 1, sizeof *views);
    if (views == NULL) {
        return skep_error_set(err, SKEP_ERR_MEMORY,
                              "no memory for the %zu tensors of a safetensors file", count);
    }
    int rc = read_tensors(header, data, data_size, views, err);
    if (rc == SKEP_OK) {
        qsort(views, count, sizeof *views, compare_data);
        rc = check_cover(views, count, data, data_size, err);
    }
    if (rc != SKEP_OK) {
        free(views);
        return rc;
    }
    *ret_views = views;
    return SKEP_OK;
}

/* The header's size, once it is known to lie inside the file. */
static int find_header(const uint8_t *file, size_t size, size_t most, size_t *ret_size,
                       struct skep_error *err)
{
    size_t limit = HEADER_FOR_TENSOR * most + HEADER_FOR_METADATA;
    if (size > SKEP_LIMIT_STATE_BYTES) {
        return skep_error_set(err, SKEP_ERR_TOO_LARGE,
                              "safetensors: the file has %zu bytes; allowed: up to %u", size,
                              SKEP_LIMIT_STATE_BYTES);
    }
    if (size < 8) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "safetensors: the file has %zu bytes; expected 8 for the size of the "
                              "header and more",
                              size);
    }
    uint64_t found = skep_get_u64(file);
    if (found > size - 8) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "safetensors: the header has %" PRIu64
                              " bytes; the file has %zu after the header's size",
                              found, size - 8);
    }
    if (found > limit) {
        return skep_error_set(err, SKEP_ERR_TOO_LARGE,
                              "safetensors: the header has %" PRIu64 " bytes; allowed: up to %zu",
                              found, limit);
    }
    if (found == 0 || file[8] != '{') {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "safetensors: the header of %" PRIu64
                              " bytes does not begin with {, as it must",
                              found);
    }
    *ret_size = (size_t)found;
    return SKEP_OK;
}

int skep_safetensors_read_few(const void *data, size_t size, size_t most,
                              struct skep_tensor_view **ret_views, size_t *ret_count,
                              struct skep_error *err)
{
    assert(most <= SKEP_LIMIT_TENSORS);
    const uint8_t *file = data;
    size_t header_size = 0;
    int rc = find_header(file, size, most, &header_size, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    struct skep_json *header = NULL;
    rc = skep_json_parse(file + 8, header_size, "safetensors header", &header, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    size_t count = count_tensors(header);
    if (count > most) {
        rc = skep_error_set(err, SKEP_ERR_TOO_LARGE,
                            "safetensors: the file has %zu tensors; allowed: up to %zu", count,
                            most);
    } else {
        rc = read_views(header, count, file + 8 + header_size, size - 8 - header_size, ret_views,
                        err);
    }
    skep_json_free(header);
    if (rc == SKEP_OK) {
        *ret_count = count;
    }
    return rc;
}

int skep_safetensors_read(const void *data, size_t size, struct skep_tensor_view **ret_views,
                          size_t *ret_count, struct skep_error *err)
{
    return skep_safetensors_read_few(data, size, SKEP_LIMIT_TENSORS, ret_views, ret_count, err);
}

/* ---- views ---- */

const struct skep_tensor_view *skep_tensor_view_find(const struct skep_tensor_view *views,
                                                     size_t count, const char *name)
{
    for (size_t t = 0; t < count; t++) {
        if (strcmp(views[t].name, name) == 0) {
            return &views[t];
        }
    }
    return NULL;
}

void skep_tensor_view_copy(const struct skep_tensor_view *view, float *ret_values)
{
    skep_get_floats(view->data, view->count, ret_values);
}
