/*
 * Catching up with one shard from one keeper (sync.h tells when): MISSING -> LATEST -> SEALS -> CHUNKS -> adopted. A failure anywhere gives
 * up with a log line; what was stored until then is whole, and the next look tries another keeper.
 *
 * Every seal between our version and the newest is fetched and stored, one after the other; so a keeper that adopts a version holds all
 * seals below it, and judges donors (merge/standings.h) as those do who sealed it. MISSING is for what should not be: seals of that window
 * which the disk has lost. They are fetched back from the newest to the oldest, each the one that the next names as its previous, before
 * the shard has a machine again.
 */
#ifndef SKEP_SERVER_CATCH_UP_H
#define SKEP_SERVER_CATCH_UP_H

#include "common/wire/statements.h"
#include "server/shard.h"

/* shard->catch_up must be NULL; it points to what runs until that has ended. */
void skep_catch_up_start(struct skep_kept_shard *shard, const struct skep_record *record);

#endif
