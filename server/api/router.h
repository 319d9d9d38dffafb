/*
 * Which handler answers a request: a table of method and path pattern. A pattern's segments are fixed words or `{name}`, which
 * matches one non-empty segment and hands it on. Pure.
 */
#ifndef SKEP_SERVER_API_ROUTER_H
#define SKEP_SERVER_API_ROUTER_H

#include <stddef.h>

#include "common/base/error.h"
#include "common/sys/http-server.h"

#define SKEP_ROUTE_PARTS 4u
#define SKEP_ROUTE_PART_SIZE 72u /* the longest are 64 hexadecimal digits */

/* What the pattern's `{name}`s matched, in order. */
struct skep_route_parts {
    size_t count;
    char text[SKEP_ROUTE_PARTS][SKEP_ROUTE_PART_SIZE];
};

/* Fills the reply and returns 0, or returns an error that the caller turns into a reply. */
typedef int (*skep_route_handler)(void *user, const struct skep_http_exchange *exchange,
                                  const struct skep_route_parts *parts,
                                  struct skep_http_reply *reply, struct skep_error *err);

struct skep_route_entry {
    const char *method;
    const char *pattern;
    skep_route_handler handler;
};

enum skep_route_match {
    SKEP_ROUTE_FOUND,
    SKEP_ROUTE_NO_PATH,   /* 404 */
    SKEP_ROUTE_NO_METHOD, /* 405: *err names the methods there are */
};

enum skep_route_match skep_route_find(const struct skep_route_entry *entries, size_t count,
                                      const char *method, const char *path,
                                      const struct skep_route_entry **ret_entry,
                                      struct skep_route_parts *ret_parts, struct skep_error *err);

#endif
