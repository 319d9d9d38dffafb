/* Virtual time: a binary heap of events. */
#include <stdlib.h>

#include "common/base/alloc.h"
#include "tests/sim/sim-internal.h"

static bool is_before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

static void swap(struct sim_queue *queue, size_t a, size_t b)
{
    struct sim_event *held = queue->items[a];
    queue->items[a] = queue->items[b];
    queue->items[b] = held;
}

void sim_queue_push_take(struct sim_queue *queue, uint64_t at_ms, struct sim_event *take_event)
{
    if (queue->count == queue->capacity) {
        queue->capacity = queue->capacity == 0 ? 256 : 2 * queue->capacity;
        queue->items = skep_realloc(queue->items, queue->capacity, sizeof(struct sim_event *));
    }
    take_event->at_ms = at_ms;
    take_event->order = queue->order++;
    size_t at = queue->count++;
    queue->items[at] = take_event;
    while (at > 0 && is_before(queue->items[at], queue->items[(at - 1) / 2])) {
        swap(queue, at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
}

struct sim_event *sim_queue_pop(struct sim_queue *queue)
{
    if (queue->count == 0) {
        return NULL;
    }
    struct sim_event *first = queue->items[0];
    queue->items[0] = queue->items[--queue->count];
    for (size_t at = 0;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2; child++) {
            if (child < queue->count && is_before(queue->items[child], queue->items[least])) {
                least = child;
            }
        }
        if (least == at) {
            return first;
        }
        swap(queue, at, least);
        at = least;
    }
}

void sim_event_free(struct sim_event *event)
{
    if (event != NULL) {
        skep_message_done(&event->message);
        free(event->list);
        free(event);
    }
}
