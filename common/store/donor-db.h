/*
 * What a donor keeps: its receipts (seal envelopes that name it) and marks of how far it has read, in SQLite (WAL). Durable when a call
 * returns, as in keeper-db.h.
 */
#ifndef SKEP_STORE_DONOR_DB_H
#define SKEP_STORE_DONOR_DB_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"

struct skep_donor_db;

int skep_donor_db_open(const char *path, struct skep_donor_db **ret_db, struct skep_error *err);
void skep_donor_db_close(struct skep_donor_db *db);

/* A receipt: one seal's envelope text with what it grants this donor. The same again is fine. */
int skep_donor_db_add_receipt(struct skep_donor_db *db, const struct skep_project_id *project,
                              const struct skep_shard *shard, uint64_t version,
                              uint64_t credit_micro, const char *seal, struct skep_error *err);
/* In order of arrival. */
int skep_donor_db_each_receipt(struct skep_donor_db *db, const struct skep_project_id *project,
                               int (*each)(void *user, const struct skep_shard *shard,
                                           uint64_t version, uint64_t credit_micro,
                                           const char *seal),
                               void *user, struct skep_error *err);
int skep_donor_db_sum(struct skep_donor_db *db, const struct skep_project_id *project,
                      uint64_t *ret_receipts, uint64_t *ret_credit_micro, struct skep_error *err);
/* A number remembered by name (e.g. the last receipt rowid seen at a keeper). 0 if unknown. */
int skep_donor_db_set_mark(struct skep_donor_db *db, const char *name, int64_t value,
                           struct skep_error *err);
int skep_donor_db_get_mark(struct skep_donor_db *db, const char *name, int64_t *ret_value,
                           struct skep_error *err);

#endif
