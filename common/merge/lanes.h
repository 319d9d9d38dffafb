/*
 * Trimmed sums of mixes for several places at once. Places with three and more contributors are what mixing costs (combine.h): n sums
 * each, then a sorting network. Neither looks at the values to decide what to do next, so eight places go through it side by side in
 * vector registers, of whatever width the processor has.
 *
 * The network is Batcher's merge exchange (Knuth, TAOCP 5.2.2, algorithm M): 63 exchanges for 16 numbers, 543 for 64.
 */
#ifndef SKEP_MERGE_LANES_H
#define SKEP_MERGE_LANES_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"

#define SKEP_LANES 8u
#define SKEP_LANES_EXCHANGES_MOST 543u

/* What is the same for all places of a round. */
struct skep_lanes_network {
    size_t n;
    size_t trimmed; /* at each end */
    size_t exchange_count;
    uint8_t exchanges[2 * SKEP_LANES_EXCHANGES_MOST];
};

/* Up to SKEP_LANES places. Row k: the k-th contributor of each, the value it sent and, as bits from the highest down (bit 63: set 0), the sets that hold it.
 * Lanes with fewer contributors than `rows` have the value 0 there. */
struct skep_lanes {
    size_t rows;
    int64_t values[SKEP_LIMIT_UPDATES_PER_ROUND][SKEP_LANES] __attribute__((aligned(64)));
    uint64_t sets[SKEP_LIMIT_UPDATES_PER_ROUND][SKEP_LANES] __attribute__((aligned(64)));
};

void skep_lanes_network_init(struct skep_lanes_network *network, size_t n, size_t trimmed);

/* For each lane: of the n sums (sum i is of the values whose sets hold i), sorted, without `trimmed` at each end, the sum. */
void skep_lanes_sum(const struct skep_lanes_network *network, const struct skep_lanes *lanes,
                    int64_t ret_sums[SKEP_LANES]);

#endif
