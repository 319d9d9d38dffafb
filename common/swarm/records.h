/*
 * The table of keepers that answered: newest believable record of each, as envelopes to hand on and decoded. Readers trust
 * signatures, not messengers; keepers gossip what they have, so that a dead keeper is forgotten when its record expires (seconds)
 * although its DHT entry lives for minutes. Pure: time comes with each call.
 */
#ifndef SKEP_SWARM_RECORDS_H
#define SKEP_SWARM_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/wire/envelope.h"
#include "common/wire/statements.h"

#define SKEP_RECORD_LIFETIME_S 60

struct skep_records;

struct skep_records *skep_records_new(size_t limit);
void skep_records_free(struct skep_records *records);
/* Verifies and keeps an envelope if it is newer than what is known of that keeper. *ret_new (may be NULL) tells whether it was.
 * A record that says `leaving` removes the keeper and is remembered until it expires. */
int skep_records_add(struct skep_records *records, const struct skep_envelope *envelope,
                     int64_t now_s, bool *ret_new, struct skep_error *err);
void skep_records_expire(struct skep_records *records, int64_t now_s);
/* Live records (not expired, not leaving), in order of keeper id; borrowed until the next change. */
size_t skep_records_count(const struct skep_records *records);
const struct skep_record *skep_records_at(const struct skep_records *records, size_t i);
const struct skep_envelope *skep_records_envelope_at(const struct skep_records *records, size_t i);
const struct skep_record *skep_records_find(const struct skep_records *records,
                                            const struct skep_peer_id *keeper);

#endif
