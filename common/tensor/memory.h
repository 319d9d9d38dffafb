/*
 * Memory for activations: on a cache line, not cleared (so that what a small batch never touches costs nothing), and in large pages
 * where the system grants them on request (Linux: madvise). A pass streams through tens of megabytes; with pages of 4 KiB the
 * translation of addresses costs a part of it (tests/bench/lm-step measured 5 to 9 % with glibc's hugetlb tunable).
 */
#ifndef SKEP_TENSOR_MEMORY_H
#define SKEP_TENSOR_MEMORY_H

#include <stddef.h>

/* NULL when there is no memory. */
void *skep_memory_new(size_t size) __attribute__((warn_unused_result));
void skep_memory_free(void *memory);

#endif
