#include "common/merge/share.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

struct part {
    skep_share_work work;
    void *context;
    size_t part;
    size_t parts;
    pthread_t thread;
    bool started;
};

static void *run_part(void *argument)
{
    const struct part *part = argument;
    part->work(part->context, part->part, part->parts);
    return NULL;
}

void skep_share(size_t parts, skep_share_work work, void *context)
{
    assert(parts >= 1 && parts <= SKEP_SHARE_PARTS_MOST);
    struct part all[SKEP_SHARE_PARTS_MOST];
    for (size_t i = 1; i < parts; i++) {
        all[i] = (struct part){.work = work, .context = context, .part = i, .parts = parts};
        all[i].started = pthread_create(&all[i].thread, NULL, run_part, &all[i]) == 0;
    }
    work(context, 0, parts);
    for (size_t i = 1; i < parts; i++) {
        if (all[i].started) {
            pthread_join(all[i].thread, NULL);
        } else {
            work(context, i, parts);
        }
    }
}
