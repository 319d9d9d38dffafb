#include "common/base/alloc.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *checked(void *memory)
{
    if (memory == NULL) {
        fputs("skep: out of memory\n", stderr);
        abort();
    }
    return memory;
}

void *skep_alloc(size_t count, size_t size)
{
    return checked(calloc(count ? count : 1, size ? size : 1));
}

void *skep_realloc(void *old, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size) {
        checked(NULL);
    }
    return checked(realloc(old, count * size != 0 ? count * size : 1));
}

char *skep_strdup(const char *text)
{
    return text == NULL ? NULL : checked(strdup(text));
}

char *skep_format(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    return checked(length < 0 ? NULL : text);
}
