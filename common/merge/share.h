/*
 * One piece of work cut into parts for plain threads. Parts write to places of their own and their sums are of integers, so neither
 * their number nor their order shows in the result.
 */
#ifndef SKEP_MERGE_SHARE_H
#define SKEP_MERGE_SHARE_H

#include <stddef.h>

typedef void (*skep_share_work)(void *context, size_t part, size_t parts);

#define SKEP_SHARE_PARTS_MOST 64u

/* Calls work(context, part, parts) once for each part below `parts` (1 .. SKEP_SHARE_PARTS_MOST) and returns when all are done. Part 0
 * runs in the caller's thread, and so does every part for which the system has no thread. */
void skep_share(size_t parts, skep_share_work work, void *context);

/* Part `part` of `count` things: from here up to where the next part begins. */
static inline size_t skep_share_first(size_t count, size_t part, size_t parts)
{
    return count / parts * part + count % parts * part / parts;
}

#endif
