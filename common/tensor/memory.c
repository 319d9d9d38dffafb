#include "common/tensor/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LINE ((size_t)64)
#define LARGE_PAGE ((size_t)2 << 20)

void *skep_memory_new(size_t size)
{
    size_t align = size >= 2 * LARGE_PAGE ? LARGE_PAGE : LINE;
    if (size > SIZE_MAX - align) {
        return NULL;
    }
    size_t rounded = (size + align - 1) / align * align;
    void *memory = aligned_alloc(align, rounded == 0 ? align : rounded);
    if (memory == NULL) {
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    if (align == LARGE_PAGE) {
        /* A wish: small pages do as well, only slower. The rest of the last large page would be memory that nobody uses. */
        size_t whole = size / LARGE_PAGE * LARGE_PAGE;
        madvise(memory, whole, MADV_HUGEPAGE);
        madvise((char *)memory + whole, rounded - whole, MADV_NOHUGEPAGE);
    }
#endif
    return memory;
}

void skep_memory_free(void *memory)
{
    free(memory);
}
