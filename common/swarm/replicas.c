#include "common/swarm/replicas.h"

#include <stdlib.h>

#include "common/base/bytes.h"
#include "common/crypto/hash.h"

/* A keeper and its place in an order drawn by hash. */
struct ranked {
    struct skep_hash rank;
    struct skep_peer_id keeper;
};

static int compare_ranked(const void *a, const void *b)
{
    return skep_hash_compare(&((const struct ranked *)a)->rank, &((const struct ranked *)b)->rank);
}

/* SHA-256(label || previous, if any || shard text || keeper id). */
static struct skep_hash rank_of(const char *label, const struct skep_hash *previous,
                                const struct skep_shard *shard, const struct skep_peer_id *keeper)
{
    char text[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(shard, text);
    struct skep_buffer bytes = {0};
    skep_buffer_append_text(&bytes, label);
    if (previous != NULL) {
        skep_buffer_append(&bytes, previous->bytes, SKEP_ID_SIZE);
    }
    skep_buffer_append_text(&bytes, text);
    skep_buffer_append(&bytes, keeper->bytes, SKEP_ID_SIZE);
    struct skep_hash rank = skep_hash_of(bytes.data, bytes.size);
    skep_buffer_done(&bytes);
    return rank;
}

struct skep_replicas skep_replicas_of(const struct skep_manifest *manifest,
                                      const struct skep_shard *shard)
{
    struct ranked all[SKEP_LIMIT_KEEPERS];
    size_t count =
        manifest->keeper_count < SKEP_LIMIT_KEEPERS ? manifest->keeper_count : SKEP_LIMIT_KEEPERS;
    for (size_t i = 0; i < count; i++) {
        all[i].keeper = manifest->keepers[i];
        all[i].rank = rank_of("skep-replica", NULL, shard, &manifest->keepers[i]);
    }
    qsort(all, count, sizeof(all[0]), compare_ranked);
    struct skep_replicas replicas = {0};
    replicas.count = manifest->replicas < count ? manifest->replicas : count;
    for (size_t i = 0; i < replicas.count; i++) {
        replicas.keepers[i] = all[i].keeper;
    }
    return replicas;
}

bool skep_replicas_has(const struct skep_replicas *replicas, const struct skep_peer_id *keeper)
{
    for (size_t i = 0; i < replicas->count; i++) {
        if (skep_peer_id_equal(&replicas->keepers[i], keeper)) {
            return true;
        }
    }
    return false;
}

size_t skep_replicas_quorum(const struct skep_replicas *replicas)
{
    return replicas->count / 2 + 1;
}

struct skep_peer_id skep_replicas_leader(const struct skep_replicas *replicas,
                                         const struct skep_shard *shard,
                                         const struct skep_hash *previous, uint32_t attempt)
{
    struct ranked order[SKEP_LIMIT_KEEPERS];
    for (size_t i = 0; i < replicas->count; i++) {
        order[i].keeper = replicas->keepers[i];
        order[i].rank = rank_of("skep-leader", previous, shard, &replicas->keepers[i]);
    }
    qsort(order, replicas->count, sizeof(order[0]), compare_ranked);
    return replicas->count == 0 ? (struct skep_peer_id){{0}}
                                : order[attempt % replicas->count].keeper;
}
