/*
 * For how long the agreement of the other keepers has asked for an update that is held back here, and whether it gets it now. A keeper that gave
 * nothing could halt a shard (a majority may have voted for the update already), and one that gave at once would hold nothing back.
 *
 *   nobody looks at it                        at once
 *   its job waits or runs                     when it was asked for so long: SKEP_AUDIT_YIELD_MS
 *   found to be false, or its donor banned    SKEP_AUDIT_LAST_YIELD_MS
 *
 * Who stops asking for SKEP_AUDIT_ASKED_MS has stopped and begins anew. Pure: the time comes with the calls.
 */
#ifndef SKEP_SERVER_AUDIT_ASKED_H
#define SKEP_SERVER_AUDIT_ASKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/id.h"

#define SKEP_AUDIT_YIELD_MS 10000u
#define SKEP_AUDIT_LAST_YIELD_MS 600000u
#define SKEP_AUDIT_ASKED_MS 60000u

enum skep_audit_standing {
    SKEP_AUDIT_NOT_LOOKED_AT, /* and never will be */
    SKEP_AUDIT_LOOKED_AT,
    SKEP_AUDIT_CAUGHT,
};

struct skep_audit_asked_item {
    struct skep_hash update;
    uint64_t since_ms;
    uint64_t last_ms;
};

/* Zero-initialise. */
struct skep_audit_asked {
    struct skep_audit_asked_item *items;
    size_t count;
};

/* It is asked for at `now_ms`: is it given? */
bool skep_audit_asked_gives(struct skep_audit_asked *asked, const struct skep_hash *update,
                            enum skep_audit_standing standing, uint64_t now_ms);
void skep_audit_asked_done(struct skep_audit_asked *asked);

#endif
