#include "common/swarm/ticket.h"

#include <string.h>

#include "common/base/bytes.h"
#include "common/base/rng.h"
#include "common/crypto/hash.h"

struct skep_hash skep_ticket_of(const struct skep_hash *beacon, const struct skep_peer_id *donor,
                                uint64_t trunk_version)
{
    static const char label[11] = {'s', 'k', 'e', 'p', '-', 't', 'i', 'c', 'k', 'e', 't'};
    uint8_t bytes[sizeof(label) + 2ul * SKEP_ID_SIZE + 8];
    uint8_t *at = bytes;
    memcpy(at, label, sizeof(label));
    at += sizeof(label);
    memcpy(at, beacon->bytes, SKEP_ID_SIZE);
    at += SKEP_ID_SIZE;
    memcpy(at, donor->bytes, SKEP_ID_SIZE);
    at += SKEP_ID_SIZE;
    skep_put_u64(at, trunk_version);
    return skep_hash_of(bytes, sizeof(bytes));
}

size_t skep_ticket_slice(const struct skep_hash *ticket, size_t chunk_count, size_t count,
                         size_t *ret_chunks)
{
    /* A seed of its own, so that the places are independent of the order of the batches. */
    static const char label[10] = {'s', 'k', 'e', 'p', '-', 's', 'l', 'i', 'c', 'e'};
    uint8_t seed[sizeof(label) + SKEP_ID_SIZE];
    memcpy(seed, label, sizeof(label));
    memcpy(seed + sizeof(label), ticket->bytes, SKEP_ID_SIZE);
    struct skep_rng rng = skep_rng_of_bytes(seed, sizeof(seed));
    /* Selection sampling (Knuth, TAOCP 3.4.2, algorithm S): each place is taken with probability wanted / left. */
    size_t wanted = count < chunk_count ? count : chunk_count;
    size_t taken = 0;
    for (size_t i = 0; i < chunk_count && taken < wanted; i++) {
        if (skep_rng_below(&rng, chunk_count - i) < wanted - taken) {
            ret_chunks[taken++] = i;
        }
    }
    return taken;
}
