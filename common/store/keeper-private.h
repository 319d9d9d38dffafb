/* The keeper's database from the inside: its statements by name. Shared by keeper-db.c,
 * keeper-receipts.c, keeper-reputation.c and keeper-audits.c only. */
#ifndef SKEP_STORE_KEEPER_PRIVATE_H
#define SKEP_STORE_KEEPER_PRIVATE_H

#include "common/store/database.h"
#include "common/store/keeper-db.h"

enum skep_keeper_query {
    ADD_PROJECT,
    GET_PROJECT,
    EACH_PROJECT,
    ADD_VERSION,
    GET_VERSION,
    GET_LATEST_VERSION,
    ADD_RECEIPT,
    GET_RECEIPTS,
    EACH_RECEIPT_SEAL,
    DONOR_TOTALS,
    ADD_UPDATE,
    EACH_UPDATE,
    DROP_MERGED_UPDATES,
    DROP_STALE_UPDATES,
    PUT_VOTE,
    GET_VOTE,
    DROP_VOTES,
    PUT_REPUTATION,
    GET_REPUTATION,
    FORGET_REPUTATION,
    DROP_REPUTATION,
    EACH_SEAL,
    ADD_AUDIT,
    SET_VERDICT,
    REMOVE_AUDIT,
    GET_AUDIT,
    OPEN_AUDITS,
    LIST_AUDITS,
    DONOR_AUDITS,
    COUNT_AUDITS,
    INVALID_OF_DONOR,
    DROP_OLD_AUDITS,
    DROP_SEALED_BANS,
    KEEPER_QUERIES,
};

struct skep_keeper_db {
    struct skep_db *db;
    uint64_t audit_changes;
};

/* Inside a transaction: forgets donors, then writes rows. */
int skep_keeper_db_put_reputation(struct skep_keeper_db *db, const struct skep_project_id *project,
                                  const struct skep_version_row *row, struct skep_error *err);

#endif
