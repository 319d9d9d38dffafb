/*
 * Who is connected to a server and until when each must be done with what it is doing: sending headers, sending a body, taking
 * an answer. A client that drips a byte now and then is never silent, so a limit on silence alone would let it keep its place
 * for ever. Private to this folder; sockets are plain descriptors here.
 */
#ifndef SKEP_SYS_VISITS_H
#define SKEP_SYS_VISITS_H

#include <stdint.h>

struct skep_visit {
    struct skep_visit *next;
    struct skep_visit *previous;
    int fd;
    uint64_t deadline_ms;
};

struct skep_visits {
    struct skep_visit *first;
    uint64_t swept_ms;
    uint64_t patience_ms; /* for doing nothing at all */
};

/* A new visitor, who has time for headers. */
struct skep_visit *skep_visits_add(struct skep_visits *visits, int fd, uint64_t now_ms);
void skep_visits_remove(struct skep_visits *visits, struct skep_visit *visit);
/* Time for the next request's headers: twice the patience, of which half may be silence. */
void skep_visit_expect_headers(const struct skep_visits *visits, struct skep_visit *visit,
                               uint64_t now_ms);
/* Time for `size` bytes in either direction: the patience and 1 ms per byte (that is 1 kB/s). */
void skep_visit_expect_bytes(const struct skep_visits *visits, struct skep_visit *visit,
                             uint64_t size, uint64_t now_ms);
/* No limit: the visitor waits for us. */
void skep_visit_wait(struct skep_visit *visit);
/* Shuts down the sockets of all whose time is over, so that the server sees them end. Looks at most once a second. */
void skep_visits_sweep(struct skep_visits *visits, uint64_t now_ms);

#endif
