/*
 * For tests/integration/test-safetensors.py: answers each file named on the command line with one line, `ok` and its tensors as
 * `<name> <axes, comma-separated, or -> <values in hexadecimal>`, or `refused <sentence>`. With --write FOLDER it also writes each file that
 * it read again, under the same base name in FOLDER.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/wire/safetensors.h"

static bool read_file(const char *path, struct skep_buffer *ret_bytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return false;
    }
    uint8_t part[4096];
    for (size_t size; (size = fread(part, 1, sizeof part, file)) > 0;) {
        skep_buffer_append(ret_bytes, part, size);
    }
    bool whole = ferror(file) == 0;
    fclose(file);
    return whole;
}

static void print_views(const struct skep_tensor_view *views, size_t count)
{
    printf("ok");
    for (size_t t = 0; t < count; t++) {
        printf(" %s %s", views[t].name, views[t].dim_count == 0 ? "-" : "");
        for (uint32_t i = 0; i < views[t].dim_count; i++) {
            printf("%s%u", i == 0 ? "" : ",", views[t].dims[i]);
        }
        char *hex = skep_alloc(8 * views[t].count + 1, 1);
        skep_hex_encode(views[t].data, 4 * views[t].count, hex);
        printf(" %s", hex);
        free(hex);
    }
    printf("\n");
}

static bool write_views(const struct skep_tensor_view *views, size_t count, const char *path)
{
    float **values = skep_alloc(count + 1, sizeof *values);
    for (size_t t = 0; t < count; t++) {
        values[t] = skep_alloc(views[t].count, sizeof **values);
        skep_tensor_view_copy(&views[t], values[t]);
    }
    struct skep_buffer bytes = {0};
    skep_safetensors_write(views, (const float *const *)values, count, &bytes);
    for (size_t t = 0; t < count; t++) {
        free(values[t]);
    }
    free(values);
    FILE *file = fopen(path, "wb");
    bool whole = file != NULL && fwrite(bytes.data, 1, bytes.size, file) == bytes.size;
    whole = file != NULL && fclose(file) == 0 && whole;
    skep_buffer_done(&bytes);
    return whole;
}

/* False if a file cannot be read or written. */
static bool answer(const char *path, const char *folder)
{
    struct skep_buffer bytes = {0};
    struct skep_tensor_view *views = NULL;
    size_t count = 0;
    struct skep_error err = {0};
    bool fine = read_file(path, &bytes);
    if (fine && skep_safetensors_read(bytes.data, bytes.size, &views, &count, &err) != SKEP_OK) {
        printf("refused %s\n", err.text);
    } else if (fine) {
        print_views(views, count);
        const char *slash = strrchr(path, '/');
        char *to =
            folder == NULL ? NULL : skep_format("%s/%s", folder, slash == NULL ? path : slash + 1);
        fine = to == NULL || write_views(views, count, to);
        free(to);
    }
    free(views);
    skep_buffer_done(&bytes);
    return fine;
}

int main(int argc, char **argv)
{
    const char *folder = argc > 2 && strcmp(argv[1], "--write") == 0 ? argv[2] : NULL;
    for (int i = folder == NULL ? 1 : 3; i < argc; i++) {
        if (!answer(argv[i], folder)) {
            fprintf(stderr, "safetensors-tool: %s cannot be read or written\n", argv[i]);
            return 1;
        }
    }
    return 0;
}
