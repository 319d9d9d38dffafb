/*
 * Tickets and slices: the donor does not choose its data. ticket = SHA-256("skep-ticket" || beacon || donor || base version),
 * where the beacon is skep_seal_hash() of the trunk's newest seal (the manifest's payload hash at version 0) and the base version is the
 * trunk's. The ticket seeds the order of the batches and picks the slice's chunks, so a job can be repeated by anyone.
 */
#ifndef SKEP_SWARM_TICKET_H
#define SKEP_SWARM_TICKET_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/id.h"

struct skep_hash skep_ticket_of(const struct skep_hash *beacon, const struct skep_peer_id *donor,
                                uint64_t trunk_version);

/* `count` different places among `chunk_count` chunks (all of them if there are fewer), rising. Returns how many. */
size_t skep_ticket_slice(const struct skep_hash *ticket, size_t chunk_count, size_t count,
                         size_t *ret_chunks);

#endif
