/*
 * The newest versions of all shards, as the keepers tell it (GET /v1/projects/{project}/head): for each shard the highest version
 * heard of and who has it. These are claims; shard.h believes a version only with its seal. Pure.
 */
#ifndef SKEP_CLIENT_NETWORK_HEADS_H
#define SKEP_CLIENT_NETWORK_HEADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/wire/json.h"
#include "common/wire/manifest.h"

struct skep_head {
    bool known;
    uint64_t version;
    struct skep_hash root;    /* as the first of the holders said */
    struct skep_hash payload; /* likewise */
    uint64_t holders;         /* bit i: manifest->keepers[i] has this version */
};

/* One per shard, in the manifest's order of shards. */
struct skep_heads {
    size_t count;
    struct skep_head *heads;
};

int skep_heads_init(struct skep_heads *heads, const struct skep_manifest *manifest,
                    struct skep_error *err);
void skep_heads_done(struct skep_heads *heads);
/* Forgets all, e.g. after a lie was found out. */
void skep_heads_clear(struct skep_heads *heads);
/* Takes in one keeper's answer; SKEP_ERR_FORMAT if it is not what a keeper of this project would say, SKEP_ERR_REFUSED if the
 * manifest does not name it. Shards heard of before stay. */
int skep_heads_read(struct skep_heads *heads, const struct skep_manifest *manifest,
                    const struct skep_peer_id *keeper, const struct skep_json *answer,
                    struct skep_error *err);
/* Place of a keeper in the manifest's list, or SIZE_MAX. */
size_t skep_heads_keeper_place(const struct skep_manifest *manifest,
                               const struct skep_peer_id *keeper);

#endif
