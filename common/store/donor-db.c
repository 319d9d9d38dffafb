#include "common/store/donor-db.h"

#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/store/database.h"
#include "common/store/schema.h"

#define SCHEMA_VERSION 1

enum donor_query {
    ADD_RECEIPT,
    EACH_RECEIPT,
    SUM_RECEIPTS,
    SET_MARK,
    GET_MARK,
    DONOR_QUERIES,
};

static const char *const SQL[DONOR_QUERIES] = {
    [ADD_RECEIPT] = "INSERT OR IGNORE INTO receipt (project, shard, version, credit_micro, seal) "
                    "VALUES (?, ?, ?, ?, ?)",
    [EACH_RECEIPT] = "SELECT shard, version, credit_micro, seal FROM receipt WHERE project = ? "
                     "ORDER BY rowid",
    [SUM_RECEIPTS] = "SELECT count(*), coalesce(sum(credit_micro), 0) FROM receipt "
                     "WHERE project = ?",
    [SET_MARK] = "INSERT OR REPLACE INTO mark (name, value) VALUES (?, ?)",
    [GET_MARK] = "SELECT value FROM mark WHERE name = ?",
};

struct skep_donor_db {
    struct skep_db *db;
};

int skep_donor_db_open(const char *path, struct skep_donor_db **ret_db, struct skep_error *err)
{
    struct skep_db *inner = NULL;
    int result =
        skep_db_open(path, skep_donor_schema, SCHEMA_VERSION, SQL, DONOR_QUERIES, &inner, err);
    if (result != SKEP_OK) {
        return result;
    }
    struct skep_donor_db *db = skep_alloc(1, sizeof *db);
    db->db = inner;
    *ret_db = db;
    return SKEP_OK;
}

void skep_donor_db_close(struct skep_donor_db *db)
{
    if (db != NULL) {
        skep_db_close(db->db);
        free(db);
    }
}

int skep_donor_db_add_receipt(struct skep_donor_db *db, const struct skep_project_id *project,
                              const struct skep_shard *shard, uint64_t version,
                              uint64_t credit_micro, const char *seal, struct skep_error *err)
{
    struct skep_query *query = skep_db_use(db->db, ADD_RECEIPT, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_id(query, 1, project->bytes);
    skep_query_bind_shard(query, 2, shard);
    skep_query_bind_integer(query, 3, (int64_t)version);
    skep_query_bind_integer(query, 4, (int64_t)credit_micro);
    skep_query_bind_text(query, 5, seal);
    return skep_query_run(query, err);
}

int skep_donor_db_each_receipt(struct skep_donor_db *db, const struct skep_project_id *project,
                               int (*each)(void *user, const struct skep_shard *shard,
                                           uint64_t version, uint64_t credit_micro,
                                           const char *seal),
                               void *user, struct skep_error *err)
{
    struct skep_query *query = skep_db_use(db->db, EACH_RECEIPT, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_id(query, 1, project->bytes);
    int result = SKEP_OK;
    int row = 0;
    while (result == SKEP_OK && (row = skep_query_step(query, err)) == 1) {
        struct skep_shard shard;
        const char *name = skep_query_text(query, 0);
        if (name == NULL || !skep_shard_parse(name, &shard)) {
            result =
                skep_error_set(err, SKEP_ERR_FORMAT, "a receipt names shard %.40s, which is none",
                               name == NULL ? "(nothing)" : name);
            break;
        }
        result = each(user, &shard, (uint64_t)skep_query_integer(query, 1),
                      (uint64_t)skep_query_integer(query, 2), skep_query_text(query, 3));
    }
    skep_query_reset(query);
    return row < 0 ? row : result;
}

int skep_donor_db_sum(struct skep_donor_db *db, const struct skep_project_id *project,
                      uint64_t *ret_receipts, uint64_t *ret_credit_micro, struct skep_error *err)
{
    struct skep_query *query = skep_db_use(db->db, SUM_RECEIPTS, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_id(query, 1, project->bytes);
    int row = skep_query_step(query, err);
    if (row != 1) {
        return row < 0 ? row : SKEP_ERR_IO;
    }
    *ret_receipts = (uint64_t)skep_query_integer(query, 0);
    *ret_credit_micro = (uint64_t)skep_query_integer(query, 1);
    skep_query_reset(query);
    return SKEP_OK;
}

int skep_donor_db_set_mark(struct skep_donor_db *db, const char *name, int64_t value,
                           struct skep_error *err)
{
    struct skep_query *query = skep_db_use(db->db, SET_MARK, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_text(query, 1, name);
    skep_query_bind_integer(query, 2, value);
    return skep_query_run(query, err);
}

int skep_donor_db_get_mark(struct skep_donor_db *db, const char *name, int64_t *ret_value,
                           struct skep_error *err)
{
    struct skep_query *query = skep_db_use(db->db, GET_MARK, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_text(query, 1, name);
    int row = skep_query_step(query, err);
    if (row < 0) {
        return row;
    }
    *ret_value = row == 1 ? skep_query_integer(query, 0) : 0;
    skep_query_reset(query);
    return SKEP_OK;
}
