/*
 * Histories that donors showed (swarm/history.h), as files DIR/evidence/<hash>: whole and checked against the hash that the donor had
 * signed before anybody asked. Together they take no more than was allowed; where one more would, those go first that were not used for
 * longest, but none that is still wanted. What a donor ends one job with is what it begins the next with, so most are used twice.
 *
 * What only jobs on probation want has half of the room at most: newcomers cost nothing but their stamps, and if they could fill all of it, no
 * trusted donor could be convicted of what it shows. More than that can be wanted by them when they name what lies here already; then it makes room
 * for what others show.
 */
#ifndef SKEP_SERVER_EVIDENCE_H
#define SKEP_SERVER_EVIDENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/id.h"

struct skep_evidence;

enum skep_evidence_want {
    SKEP_EVIDENCE_UNWANTED,
    SKEP_EVIDENCE_PROBATION, /* only by jobs on probation */
    SKEP_EVIDENCE_WANTED,
};

/* Who wants this one? */
typedef enum skep_evidence_want skep_evidence_wanted(void *user, const struct skep_hash *history);

/* Opens the folder, made if missing, and takes up what lies there. */
int skep_evidence_open(const char *folder, uint64_t limit_bytes, skep_evidence_wanted *wanted,
                       void *user, struct skep_evidence **ret_evidence, struct skep_error *err);
void skep_evidence_close(struct skep_evidence *evidence);
bool skep_evidence_has(const struct skep_evidence *evidence, const struct skep_hash *history);
/* Stores a history of a shard of so many parameters, durably. SKEP_ERR_FORMAT and SKEP_ERR_HASH as skep_history_open(), SKEP_ERR_HASH too if it
 * is another one, SKEP_ERR_FULL if there is no room. */
int skep_evidence_put(struct skep_evidence *evidence, const struct skep_hash *history,
                      size_t parameters, const void *data, size_t size, struct skep_error *err);
/* Of how many bytes it is; 0 if it is not here. */
uint64_t skep_evidence_size(const struct skep_evidence *evidence, const struct skep_hash *history);
/* Its bytes; the caller frees. SKEP_ERR_NOT_FOUND; SKEP_ERR_HASH if our disk has changed them, and then it is here no more. */
int skep_evidence_get(struct skep_evidence *evidence, const struct skep_hash *history,
                      struct skep_buffer *ret_data, struct skep_error *err);
uint64_t skep_evidence_bytes(const struct skep_evidence *evidence);

#endif
