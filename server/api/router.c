#include "server/api/router.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Length of the segment that starts at `text`. */
static size_t segment_size(const char *text)
{
    return strcspn(text, "/");
}

static bool take_part(const char *text, size_t size, struct skep_route_parts *parts)
{
    if (size == 0 || size >= SKEP_ROUTE_PART_SIZE || parts->count == SKEP_ROUTE_PARTS) {
        return false;
    }
    memcpy(parts->text[parts->count], text, size);
    parts->text[parts->count][size] = '\0';
    parts->count++;
    return true;
}

static bool match(const char *pattern, const char *path, struct skep_route_parts *parts)
{
    parts->count = 0;
    for (;;) {
        size_t wanted = segment_size(pattern);
        size_t found = segment_size(path);
        bool same = wanted == found && memcmp(pattern, path, wanted) == 0;
        if (*pattern == '{' ? !take_part(path, found, parts) : !same) {
            return false;
        }
        pattern += wanted;
        path += found;
        if (*pattern == '\0' || *path == '\0') {
            return *pattern == *path;
        }
        pattern++;
        path++;
    }
}

/* Adds a method to the sentence's list. */
static void note_method(char *list, size_t size, const char *method)
{
    size_t used = strlen(list);
    if (used + strlen(method) + 5 < size) {
        snprintf(list + used, size - used, "%s%s", used > 0 ? " or " : "", method);
    }
}

enum skep_route_match skep_route_find(const struct skep_route_entry *entries, size_t count,
                                      const char *method, const char *path,
                                      const struct skep_route_entry **ret_entry,
                                      struct skep_route_parts *ret_parts, struct skep_error *err)
{
    char methods[64] = "";
    for (size_t i = 0; i < count; i++) {
        struct skep_route_parts parts = {0};
        if (!match(entries[i].pattern, path, &parts)) {
            continue;
        }
        if (strcmp(entries[i].method, method) == 0) {
            *ret_entry = &entries[i];
            *ret_parts = parts;
            return SKEP_ROUTE_FOUND;
        }
        note_method(methods, sizeof methods, entries[i].method);
    }
    if (methods[0] != '\0') {
        skep_error_set(err, SKEP_ERR_ARGUMENT, "the method is %.16s; allowed here: %s", method,
                       methods);
        return SKEP_ROUTE_NO_METHOD;
    }
    skep_error_set(err, SKEP_ERR_NOT_FOUND, "there is nothing at %.200s", path);
    return SKEP_ROUTE_NO_PATH;
}
