/*
 * Who keeps what: the replica set of a shard is the r genesis keepers nearest to it, ordered by
 * SHA-256("skep-replica" || shard text || keeper id), smallest first; r = manifest->replicas, capped by the keepers there are.
 * A quorum is a majority of the set.
 */
#ifndef SKEP_SWARM_REPLICAS_H
#define SKEP_SWARM_REPLICAS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/id.h"
#include "common/base/limits.h"
#include "common/wire/manifest.h"

struct skep_replicas {
    size_t count;
    struct skep_peer_id keepers[SKEP_LIMIT_KEEPERS];
};

struct skep_replicas skep_replicas_of(const struct skep_manifest *manifest,
                                      const struct skep_shard *shard);
bool skep_replicas_has(const struct skep_replicas *replicas, const struct skep_peer_id *keeper);
size_t skep_replicas_quorum(const struct skep_replicas *replicas);
/* Who leads attempt a of the version after the one whose payload hash is `previous`: the set ordered by
 * SHA-256("skep-leader" || previous || shard text || keeper id); attempt a belongs to place a modulo the set's size. */
struct skep_peer_id skep_replicas_leader(const struct skep_replicas *replicas,
                                         const struct skep_shard *shard,
                                         const struct skep_hash *previous, uint32_t attempt);

#endif
