#include "common/sys/visits.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "common/base/alloc.h"

#define SWEEP_MS 1000
#define MS_PER_BYTE 1

struct skep_visit *skep_visits_add(struct skep_visits *visits, int fd, uint64_t now_ms)
{
    struct skep_visit *visit = skep_alloc(1, sizeof *visit);
    visit->fd = fd;
    visit->next = visits->first;
    if (visit->next != NULL) {
        visit->next->previous = visit;
    }
    visits->first = visit;
    skep_visit_expect_headers(visits, visit, now_ms);
    return visit;
}

void skep_visits_remove(struct skep_visits *visits, struct skep_visit *visit)
{
    if (visit->previous != NULL) {
        visit->previous->next = visit->next;
    } else {
        visits->first = visit->next;
    }
    if (visit->next != NULL) {
        visit->next->previous = visit->previous;
    }
    free(visit);
}

void skep_visit_expect_headers(const struct skep_visits *visits, struct skep_visit *visit,
                               uint64_t now_ms)
{
    visit->deadline_ms = now_ms + 2 * visits->patience_ms;
}

void skep_visit_expect_bytes(const struct skep_visits *visits, struct skep_visit *visit,
                             uint64_t size, uint64_t now_ms)
{
    visit->deadline_ms = now_ms + visits->patience_ms + size * MS_PER_BYTE;
}

void skep_visit_wait(struct skep_visit *visit)
{
    visit->deadline_ms = UINT64_MAX;
}

void skep_visits_sweep(struct skep_visits *visits, uint64_t now_ms)
{
    if (now_ms < visits->swept_ms + SWEEP_MS) {
        return;
    }
    visits->swept_ms = now_ms;
    for (struct skep_visit *visit = visits->first; visit != NULL; visit = visit->next) {
        if (visit->deadline_ms < now_ms) {
            shutdown(visit->fd, SHUT_RDWR);
        }
    }
}
