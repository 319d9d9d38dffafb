/* What a job leaves for the agent: of each shard <shard>.body (the compressed update), <shard>.moments and <shard>.residual. */
#ifndef SKEP_CLIENT_WORKER_PARTS_H
#define SKEP_CLIENT_WORKER_PARTS_H

#include <stddef.h>

#include "client/worker/work.h"
#include "common/base/error.h"

/* Writes those of shard i, and changes nothing in memory: it may be done again. A residual that is damaged begins anew from zero, with a
 * line in the log. */
int skep_part_write(struct skep_work *work, size_t i, struct skep_error *err);
/* Has the system put on the disk what was written so far, before a checkpoint says that it is there. */
void skep_parts_sync(const struct skep_work *work);

#endif
