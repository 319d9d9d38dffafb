/*
 * Catching up with one shard from one keeper (sync.h tells when): LATEST -> SEALS -> CHUNKS -> adopted. A failure anywhere gives
 * up with a log line; what was stored until then is whole, and the next look tries another keeper.
 */
#ifndef SKEP_SERVER_CATCH_UP_H
#define SKEP_SERVER_CATCH_UP_H

#include "common/wire/statements.h"
#include "server/shard.h"

/* shard->catch_up must be NULL; it points to what runs until that has ended. */
void skep_catch_up_start(struct skep_kept_shard *shard, const struct skep_record *record);

#endif
