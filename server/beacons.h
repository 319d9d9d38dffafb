/*
 * Beacons of the trunk: the hashes of its seals, of which tickets are made (swarm/ticket.h), so that every keeper can check the ticket of
 * every update. A keeper of the trunk has them in its database. One that holds experts alone asks a keeper of the trunk for the seal
 * of a version when an update names it, checks the seal's signatures and remembers it; until then the update is to be tried again.
 *
 * Bounds: one request at a time and one in SKEP_BEACONS_GAP_MS, whatever versions strangers name; SKEP_BEACONS_KEPT are remembered.
 */
#ifndef SKEP_SERVER_BEACONS_H
#define SKEP_SERVER_BEACONS_H

#include <stdint.h>

#include "common/swarm/admission.h"

#define SKEP_BEACONS_GAP_MS 250u
#define SKEP_BEACONS_KEPT (2ul * (SKEP_LIMIT_TICKET_AGE + 1))

struct skep_beacons;
struct skep_project;

/* `project` is borrowed; its shards may be opened later. */
struct skep_beacons *skep_beacons_new(struct skep_project *project);
void skep_beacons_free(struct skep_beacons *beacons);
/* What is known of this version of the trunk; asks for it if nothing is. */
struct skep_trunk_view skep_beacons_view(struct skep_beacons *beacons, uint64_t version);

#endif
