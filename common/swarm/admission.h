/*
 * May this update be merged? Everything that can be said without the network: the statement belongs to this project, its shard
 * exists, its base version is v, v-1 or v-2, its base state is the one sealed; each refusal with its own
 * code and sentence. The body was already checked by its decoder; that a donor has one update for each base version is the store's to
 * see (SKEP_ERR_DUPLICATE), and round.h lets only one of them into a merge.
 */
#ifndef SKEP_SWARM_ADMISSION_H
#define SKEP_SWARM_ADMISSION_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/wire/manifest.h"
#include "common/wire/statements.h"

/* The newest versions of the shard: roots[s] is the state root of version - s, for s <= SKEP_LIMIT_STALENESS and s <= version. */
struct skep_shard_head {
    uint64_t version;
    struct skep_hash roots[3];
};

/*
 * SKEP_ERR_REFUSED  other project            SKEP_ERR_NOT_FOUND  no such shard in this model
 * SKEP_ERR_STALE    base older than v-2       SKEP_ERR_STATE      base newer than ours (the donor should retry: we are behind)
 * SKEP_ERR_HASH     base state is not the sealed one
 */
int skep_admission_check(const struct skep_manifest *manifest, const struct skep_shard_head *head,
                         const struct skep_update_statement *statement, struct skep_error *err);

#endif
