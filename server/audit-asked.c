#include "server/audit-asked.h"

#include <stdlib.h>

#include "common/base/alloc.h"

/* Since when it has been asked for, without a pause. */
static uint64_t since(struct skep_audit_asked *asked, const struct skep_hash *update,
                      uint64_t now_ms)
{
    size_t kept = 0;
    for (size_t i = 0; i < asked->count; i++) {
        if (now_ms - asked->items[i].last_ms < SKEP_AUDIT_ASKED_MS) {
            asked->items[kept++] = asked->items[i];
        }
    }
    asked->count = kept;
    for (size_t i = 0; i < kept; i++) {
        if (skep_hash_equal(&asked->items[i].update, update)) {
            asked->items[i].last_ms = now_ms;
            return asked->items[i].since_ms;
        }
    }
    asked->items = skep_realloc(asked->items, kept + 1, sizeof *asked->items);
    asked->items[asked->count++] =
        (struct skep_audit_asked_item){.update = *update, .since_ms = now_ms, .last_ms = now_ms};
    return now_ms;
}

bool skep_audit_asked_gives(struct skep_audit_asked *asked, const struct skep_hash *update,
                            enum skep_audit_standing standing, uint64_t now_ms)
{
    uint64_t asked_ms = now_ms - since(asked, update, now_ms);
    if (standing == SKEP_AUDIT_CAUGHT) {
        return asked_ms >= SKEP_AUDIT_LAST_YIELD_MS;
    }
    return standing == SKEP_AUDIT_NOT_LOOKED_AT || asked_ms >= SKEP_AUDIT_YIELD_MS;
}

void skep_audit_asked_done(struct skep_audit_asked *asked)
{
    free(asked->items);
    *asked = (struct skep_audit_asked){0};
}
