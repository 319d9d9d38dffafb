/*
 * What is remembered of donors: a table of bounded size with one small value for each key, the key seen longest ago being forgotten.
 * A set-associative cache: a key may stand in one of SKEP_DONORS_WAYS places of its set, the newest first, so looking one up costs the
 * same however many there are. Which set is a matter of a secret seed, so nobody can choose keys that push out another's.
 */
#ifndef SKEP_SWARM_DONORS_H
#define SKEP_SWARM_DONORS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/id.h"

#define SKEP_DONORS_WAYS 8u

struct skep_donors;

/* Room for `most` donors (a multiple of SKEP_DONORS_WAYS) with values of `value_size` bytes. */
struct skep_donors *skep_donors_new(size_t most, size_t value_size, uint64_t seed);
void skep_donors_free(struct skep_donors *donors);
/* The donor's value, until the next call; NULL if it is not remembered. */
void *skep_donors_find(struct skep_donors *donors, const struct skep_peer_id *donor);
/* The same; a donor that is not remembered is from now on, with a value of zeros. */
void *skep_donors_take(struct skep_donors *donors, const struct skep_peer_id *donor);

#endif
