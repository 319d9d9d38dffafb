/* Golden bytes: schemas/vectors/<name> holds hexadecimal with spaces and line ends. */
#ifndef SKEP_TESTS_LIB_VECTORS_H
#define SKEP_TESTS_LIB_VECTORS_H

#include <stdio.h>
#include <stdlib.h>

#include "common/base/bytes.h"
#include "tests/lib/cmocka.h"

/* Appends the bytes to *ret_bytes; fails the test if the file is missing or holds anything else. */
static inline void skep_test_vector_read(const char *name, struct skep_buffer *ret_bytes)
{
    char path[512];
    const char *source = getenv("SKEP_SOURCE");
    snprintf(path, sizeof path, "%s/schemas/vectors/%s", source == NULL ? "." : source, name);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fail_msg("%s does not open; run from the source tree or set SKEP_SOURCE", path);
        return;
    }
    unsigned byte;
    while (fscanf(file, " %2x", &byte) == 1) {
        skep_buffer_append_u8(ret_bytes, (uint8_t)byte);
    }
    assert_true(feof(file));
    fclose(file);
}

#endif
