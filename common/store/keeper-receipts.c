/* What the keeper's database knows about credit: receipts, the seals that hold them, and sums. */
#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/store/keeper-db.h"
#include "common/store/keeper-private.h"

int skep_keeper_db_get_receipts(struct skep_keeper_db *db, const struct skep_project_id *project,
                                const struct skep_shard *shard, uint64_t version,
                                struct skep_receipt_row **ret_receipts, size_t *ret_count,
                                struct skep_error *err)
{
    struct skep_query *query = skep_db_use(db->db, GET_RECEIPTS, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_id(query, 1, project->bytes);
    skep_query_bind_shard(query, 2, shard);
    skep_query_bind_integer(query, 3, (int64_t)version);
    struct skep_receipt_row *receipts = NULL;
    size_t count = 0;
    int row;
    while ((row = skep_query_step(query, err)) == 1) {
        receipts = skep_realloc(receipts, count + 1, sizeof *receipts);
        struct skep_receipt_row *receipt = &receipts[count++];
        skep_query_id(query, 0, receipt->update.bytes);
        skep_query_id(query, 1, receipt->donor.bytes);
        receipt->base_version = (uint64_t)skep_query_integer(query, 2);
        receipt->credit_micro = (uint64_t)skep_query_integer(query, 3);
        receipt->merged = skep_query_integer(query, 4) != 0;
        receipt->copy = skep_query_integer(query, 5) != 0;
        receipt->agreement_permille = skep_query_integer(query, 6);
    }
    if (row < 0) {
        free(receipts);
        return row;
    }
    *ret_receipts = receipts;
    *ret_count = count;
    return SKEP_OK;
}

int skep_keeper_db_each_receipt_seal(struct skep_keeper_db *db,
                                     const struct skep_project_id *project,
                                     const struct skep_peer_id *donor, int64_t after, size_t most,
                                     int (*each)(void *user, int64_t rowid, const char *seal),
                                     void *user, struct skep_error *err)
{
    struct skep_query *query = skep_db_use(db->db, EACH_RECEIPT_SEAL, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_id(query, 1, project->bytes);
    skep_query_bind_id(query, 2, donor->bytes);
    skep_query_bind_integer(query, 3, after);
    skep_query_bind_integer(query, 4, (int64_t)most);
    int result = SKEP_OK;
    int row = 0;
    while (result == SKEP_OK && (row = skep_query_step(query, err)) == 1) {
        result = each(user, skep_query_integer(query, 0), skep_query_text(query, 1));
    }
    skep_query_reset(query);
    return row < 0 ? row : result;
}

int skep_keeper_db_donor_totals(struct skep_keeper_db *db, const struct skep_project_id *project,
                                size_t most, struct skep_donor_total **ret_totals,
                                size_t *ret_count, struct skep_error *err)
{
    struct skep_query *query = skep_db_use(db->db, DONOR_TOTALS, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_id(query, 1, project->bytes);
    skep_query_bind_integer(query, 2, (int64_t)most);
    struct skep_donor_total *totals = NULL;
    size_t count = 0;
    int row;
    while ((row = skep_query_step(query, err)) == 1) {
        totals = skep_realloc(totals, count + 1, sizeof *totals);
        skep_query_id(query, 0, totals[count].donor.bytes);
        totals[count].updates = (uint64_t)skep_query_integer(query, 1);
        totals[count].credit_micro = (uint64_t)skep_query_integer(query, 2);
        count++;
    }
    if (row < 0) {
        free(totals);
        return row;
    }
    *ret_totals = totals;
    *ret_count = count;
    return SKEP_OK;
}
