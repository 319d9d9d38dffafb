/*
 * Catching up: what this keeper lacks and others have.
 *
 * - Versions: every SKEP_LOOK_MS one keeper of each project is asked for its heads; a shard that was behind at two looks in a row,
 *   or whose machine asks for it, catches up: the newest version's seal (a majority's signatures are checked) and state (each chunk
 *   is checked; chunks that our own state already has are not fetched), and the seals between, for their receipts.
 * - Data chunks that the manifest names and this disk lacks, a few at a time, from any keeper of the project.
 *
 *   catch-up of one shard:  LATEST -> SEALS (one by one, up to the newest) -> CHUNKS -> adopt
 */
#ifndef SKEP_SERVER_SYNC_H
#define SKEP_SERVER_SYNC_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/id.h"
#include "server/shard.h"

#define SKEP_LOOK_MS 3000
#define SKEP_CHUNKS_AT_ONCE 4u

struct skep_host;
struct skep_project;
struct skep_sync;

struct skep_sync *skep_sync_new(struct skep_host *host);
void skep_sync_free(struct skep_sync *sync);
void skep_sync_start(struct skep_sync *sync);
/* Brings the shard up to what `peer` has (NULL: any keeper of its replica set); does nothing if that is under way. */
void skep_sync_shard(struct skep_kept_shard *shard, const struct skep_peer_id *peer);
/* Asks for missing data chunks, as many at once as allowed. */
void skep_sync_chunks(struct skep_project *project);

#endif
