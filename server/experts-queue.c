#include "server/experts-queue.h"

bool skep_remote_queue_push(struct skep_remote_queue *queue, struct skep_remote_task *tasks,
                            size_t count)
{
    if (count > queue->limit - queue->count) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        tasks[i].next = NULL;
        if (queue->last != NULL) {
            queue->last->next = &tasks[i];
        } else {
            queue->first = &tasks[i];
        }
        queue->last = &tasks[i];
    }
    queue->count += count;
    return true;
}

static bool together(const struct skep_remote_task *a, const struct skep_remote_task *b)
{
    return a->pass == b->pass && a->parameters == b->parameters && a->pass != SKEP_REMOTE_UPDATE;
}

struct skep_remote_task *skep_remote_queue_take(struct skep_remote_queue *queue, size_t rows)
{
    struct skep_remote_task *batch = queue->first;
    if (batch == NULL) {
        return NULL;
    }
    struct skep_remote_task *end = batch; /* of the batch */
    struct skep_remote_task *kept = NULL; /* the last task that stays */
    struct skep_remote_task *task = batch->next;
    size_t room = rows > batch->rows ? rows - batch->rows : 0;
    bool open = true;
    queue->first = NULL;
    queue->count--;
    while (task != NULL) {
        struct skep_remote_task *next = task->next;
        bool wanted = open && together(batch, task);
        if (wanted && task->rows <= room) {
            room -= task->rows;
            end->next = task;
            end = task;
            queue->count--;
        } else {
            open = open && !wanted; /* it does not fit: those behind it wait too */
            if (kept != NULL) {
                kept->next = task;
            } else {
                queue->first = task;
            }
            kept = task;
        }
        task = next;
    }
    end->next = NULL;
    if (kept != NULL) {
        kept->next = NULL;
    }
    queue->last = kept;
    return batch;
}
