/*
 * Allocation: two kinds. Small, fixed sizes of our own stop the program when memory is gone (there is nothing sensible
 * to do); sizes that come from a peer, a file or a model use plain calloc and report SKEP_ERR_MEMORY.
 */
#ifndef SKEP_BASE_ALLOC_H
#define SKEP_BASE_ALLOC_H

#include <stddef.h>

/* Zeroed memory for `count` items of `size` bytes, or the program stops. The caller frees with free(). */
void *skep_alloc(size_t count, size_t size) __attribute__((malloc, warn_unused_result));

/* Grows or shrinks `old` (may be NULL) to `count` items of `size` bytes, or the program stops. New bytes are not zeroed. */
void *skep_realloc(void *old, size_t count, size_t size) __attribute__((warn_unused_result));

/* A copy of `text` the caller frees; NULL gives NULL. */
char *skep_strdup(const char *text) __attribute__((warn_unused_result));

/* A formatted string the caller frees. */
char *skep_format(const char *format, ...)
    __attribute__((format(printf, 1, 2), warn_unused_result));

#endif
