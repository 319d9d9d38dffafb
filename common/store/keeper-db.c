#include "common/store/keeper-db.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/store/keeper-private.h"
#include "common/store/schema.h"

#define SCHEMA_VERSION 5

static const char *const SQL[KEEPER_QUERIES] = {
    [ADD_PROJECT] = "INSERT INTO project (id, manifest) VALUES (?, ?)",
    [GET_PROJECT] = "SELECT manifest FROM project WHERE id = ?",
    [EACH_PROJECT] = "SELECT id, manifest FROM project ORDER BY id",
    [ADD_VERSION] = "INSERT INTO version (project, shard, version, payload, root, state, seal) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?) "
                    "ON CONFLICT (project, shard, version) DO UPDATE SET "
                    "seal = coalesce(excluded.seal, version.seal), state = CASE WHEN "
                    "excluded.state = zeroblob(32) THEN version.state ELSE excluded.state END",
    [GET_VERSION] = "SELECT version, payload, root, state, seal FROM version "
                    "WHERE project = ? AND shard = ? AND version = ?",
    [GET_LATEST_VERSION] = "SELECT version, payload, root, state, seal FROM version "
                           "WHERE project = ? AND shard = ? ORDER BY version DESC LIMIT 1",
    [ADD_RECEIPT] = "INSERT OR IGNORE INTO receipt (project, shard, version, update_hash, donor, "
                    "base_version, credit_micro, merged, copy, agreement) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [GET_RECEIPTS] =
        "SELECT update_hash, donor, base_version, credit_micro, merged, copy, agreement "
        "FROM receipt WHERE project = ? AND shard = ? AND version = ? ORDER BY update_hash",
    [EACH_RECEIPT_SEAL] =
        "SELECT version.rowid, version.seal FROM version WHERE version.project = ?1 AND "
        "version.rowid > ?3 AND version.seal IS NOT NULL AND EXISTS (SELECT 1 FROM receipt WHERE "
        "receipt.project = ?1 AND receipt.shard = version.shard AND "
        "receipt.version = version.version AND receipt.donor = ?2) "
        "ORDER BY version.rowid LIMIT ?4",
    [DONOR_TOTALS] = "SELECT donor, sum(merged), sum(credit_micro) FROM receipt WHERE project = ? "
                     "GROUP BY donor ORDER BY 3 DESC, donor LIMIT ?",
    [ADD_UPDATE] = "INSERT INTO waiting (project, shard, update_hash, donor, base_version) "
                   "VALUES (?, ?, ?, ?, ?) ON CONFLICT (project, shard, update_hash) DO NOTHING",
    [EACH_UPDATE] = "SELECT update_hash, donor, base_version FROM waiting "
                    "WHERE project = ? AND shard = ? ORDER BY update_hash",
    [DROP_MERGED_UPDATES] =
        "DELETE FROM waiting WHERE project = ?1 AND shard = ?2 AND (donor, base_version) IN "
        "(SELECT donor, base_version FROM receipt WHERE project = ?1 AND shard = ?2 AND "
        "version = ?3)",
    [DROP_STALE_UPDATES] = "DELETE FROM waiting WHERE project = ? AND shard = ? "
                           "AND base_version < ?",
    [PUT_VOTE] = "INSERT OR REPLACE INTO vote (project, shard, version, promised, vote_attempt, "
                 "vote_payload) VALUES (?, ?, ?, ?, ?, ?)",
    [GET_VOTE] = "SELECT promised, vote_attempt, vote_payload FROM vote "
                 "WHERE project = ? AND shard = ? AND version = ?",
#define AUDIT_COLUMNS                                                                              \
    "update_hash, shard, donor, ticket, base_version, before, after, came_s, verdict, distance, "  \
    "overlap, seconds"
    [ADD_AUDIT] = "INSERT OR IGNORE INTO audit (project, " AUDIT_COLUMNS
                  ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [SET_VERDICT] =
        "UPDATE audit SET verdict = ?3, distance = ?4, overlap = ?5, seconds = ?6 "
        "WHERE project = ?1 AND update_hash = ?2 AND (verdict = 0 OR ?3 = 2 OR (?3 IN (3, 5) "
        "AND verdict IN (1, 4))) AND verdict <> ?3",
    [REMOVE_AUDIT] = "DELETE FROM audit WHERE project = ? AND update_hash = ?",
    [GET_AUDIT] = "SELECT " AUDIT_COLUMNS " FROM audit WHERE project = ? AND update_hash = ?",
    [OPEN_AUDITS] = "SELECT " AUDIT_COLUMNS
                    " FROM audit WHERE project = ? AND verdict = 0 ORDER BY came_s, update_hash",
    [LIST_AUDITS] =
        "SELECT " AUDIT_COLUMNS " FROM audit WHERE project = ? AND verdict IN (1, 2, 3, 5) "
        "ORDER BY came_s DESC, update_hash LIMIT ?",
    [DONOR_AUDITS] = "SELECT " AUDIT_COLUMNS " FROM audit WHERE project = ? AND donor = ? AND "
                     "shard = ? ORDER BY base_version DESC LIMIT ?",
    [COUNT_AUDITS] = "SELECT verdict, count(*) FROM audit WHERE project = ? GROUP BY verdict",
    [INVALID_OF_DONOR] =
        "SELECT 1 FROM audit WHERE project = ? AND verdict = 2 AND donor = ? LIMIT 1",
    [DROP_OLD_AUDITS] =
        "DELETE FROM audit WHERE project = ? AND verdict = ? AND shard = ? AND base_version < ?",
    [DROP_SEALED_BANS] =
        "DELETE FROM audit WHERE project = ?1 AND verdict = 2 AND shard = ?2 AND "
        "base_version < ?3 AND donor IN (SELECT donor FROM reputation WHERE project = ?1 AND "
        "banned_at IS NOT NULL)",
    [DROP_VOTES] = "DELETE FROM vote WHERE project = ? AND shard = ? AND version <= ?",
    [PUT_REPUTATION] = "INSERT OR REPLACE INTO reputation (project, donor, earned, seen, merged, "
                       "banned_at) VALUES (?, ?, ?, ?, ?, ?)",
    [GET_REPUTATION] = "SELECT donor, earned, seen, merged, banned_at FROM reputation "
                       "WHERE project = ? ORDER BY donor",
    [FORGET_REPUTATION] = "DELETE FROM reputation WHERE project = ? AND donor = ?",
    [DROP_REPUTATION] = "DELETE FROM reputation WHERE project = ?",
    [EACH_SEAL] = "SELECT seal FROM version WHERE project = ? AND shard = ? AND seal IS NOT NULL "
                  "ORDER BY version",
};

int skep_keeper_db_open(const char *path, struct skep_keeper_db **ret_db, struct skep_error *err)
{
    struct skep_db *inner = NULL;
    int result =
        skep_db_open(path, skep_keeper_schema, SCHEMA_VERSION, SQL, KEEPER_QUERIES, &inner, err);
    if (result != SKEP_OK) {
        return result;
    }
    struct skep_keeper_db *db = skep_alloc(1, sizeof *db);
    db->db = inner;
    *ret_db = db;
    return SKEP_OK;
}

void skep_keeper_db_close(struct skep_keeper_db *db)
{
    if (db != NULL) {
        skep_db_close(db->db);
        free(db);
    }
}

/* Takes a statement and binds project and shard (if given) to its first places. */
static struct skep_query *use(struct skep_keeper_db *db, enum skep_keeper_query which,
                              const struct skep_project_id *project, const struct skep_shard *shard,
                              struct skep_error *err)
{
    struct skep_query *query = skep_db_use(db->db, which, err);
    if (query != NULL) {
        skep_query_bind_id(query, 1, project->bytes);
        if (shard != NULL) {
            skep_query_bind_shard(query, 2, shard);
        }
    }
    return query;
}

int skep_keeper_db_add_project(struct skep_keeper_db *db, const struct skep_project_id *project,
                               const char *manifest_envelope, struct skep_error *err)
{
    struct skep_query *query = use(db, GET_PROJECT, project, NULL, err);
    int found = query == NULL ? skep_db_failure(err) : skep_query_step(query, err);
    if (found < 0) {
        return found;
    }
    if (found == 1) {
        bool same = strcmp(skep_query_text(query, 0), manifest_envelope) == 0;
        skep_query_reset(query);
        return same ? SKEP_OK
                    : skep_error_set(err, SKEP_ERR_DUPLICATE,
                                     "project %s has another manifest here already",
                                     skep_id_text(project->bytes));
    }
    query = use(db, ADD_PROJECT, project, NULL, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_text(query, 2, manifest_envelope);
    return skep_query_run(query, err);
}

int skep_keeper_db_each_project(struct skep_keeper_db *db,
                                int (*each)(void *user, const struct skep_project_id *project,
                                            const char *manifest_envelope),
                                void *user, struct skep_error *err)
{
    struct skep_query *query = skep_db_use(db->db, EACH_PROJECT, err);
    int result = query == NULL ? skep_db_failure(err) : SKEP_OK;
    int row = 0;
    while (result == SKEP_OK && (row = skep_query_step(query, err)) == 1) {
        struct skep_project_id project;
        skep_query_id(query, 0, project.bytes);
        result = each(user, &project, skep_query_text(query, 1));
    }
    if (query != NULL) {
        skep_query_reset(query);
    }
    return row < 0 ? row : result;
}

/* Runs an insertion below a project; one that is not here breaks its foreign key. */
static int run_below(struct skep_query *query, const struct skep_project_id *project,
                     struct skep_error *err)
{
    int result = skep_query_run(query, err);
    return result != SKEP_ERR_NOT_FOUND
               ? result
               : skep_error_set(err, SKEP_ERR_NOT_FOUND, "project %s is not here",
                                skep_id_text(project->bytes));
}

static int insert_version(struct skep_keeper_db *db, const struct skep_project_id *project,
                          const struct skep_shard *shard, const struct skep_version_row *row,
                          struct skep_error *err)
{
    struct skep_query *query = use(db, ADD_VERSION, project, shard, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_integer(query, 3, (int64_t)row->version);
    skep_query_bind_id(query, 4, row->payload_hash.bytes);
    skep_query_bind_id(query, 5, row->root.bytes);
    skep_query_bind_id(query, 6, row->state.bytes);
    if (row->seal != NULL) {
        skep_query_bind_text(query, 7, row->seal);
    } else {
        skep_query_bind_null(query, 7);
    }
    return run_below(query, project, err);
}

static int insert_receipt(struct skep_keeper_db *db, const struct skep_project_id *project,
                          const struct skep_shard *shard, uint64_t version,
                          const struct skep_receipt_row *receipt, struct skep_error *err)
{
    struct skep_query *query = use(db, ADD_RECEIPT, project, shard, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_integer(query, 3, (int64_t)version);
    skep_query_bind_id(query, 4, receipt->update.bytes);
    skep_query_bind_id(query, 5, receipt->donor.bytes);
    skep_query_bind_integer(query, 6, (int64_t)receipt->base_version);
    skep_query_bind_integer(query, 7, (int64_t)receipt->credit_micro);
    skep_query_bind_integer(query, 8, receipt->merged);
    skep_query_bind_integer(query, 9, receipt->copy);
    skep_query_bind_integer(query, 10, receipt->agreement_permille);
    return skep_query_run(query, err);
}

/* Runs a statement over project, shard and one number. */
static int run_numbered(struct skep_keeper_db *db, enum skep_keeper_query which,
                        const struct skep_project_id *project, const struct skep_shard *shard,
                        uint64_t number, struct skep_error *err)
{
    struct skep_query *query = use(db, which, project, shard, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_integer(query, 3, (int64_t)number);
    return skep_query_run(query, err);
}

int skep_keeper_db_add_version(struct skep_keeper_db *db, const struct skep_project_id *project,
                               const struct skep_shard *shard, const struct skep_version_row *row,
                               const struct skep_receipt_row *receipts, size_t receipt_count,
                               struct skep_error *err)
{
    int result = skep_db_begin(db->db, err);
    if (result != SKEP_OK) {
        return result;
    }
    result = insert_version(db, project, shard, row, err);
    for (size_t i = 0; result == SKEP_OK && i < receipt_count; i++) {
        result = insert_receipt(db, project, shard, row->version, &receipts[i], err);
    }
    if (result == SKEP_OK) {
        result = run_numbered(db, DROP_MERGED_UPDATES, project, shard, row->version, err);
    }
    if (result == SKEP_OK && row->version > SKEP_LIMIT_STALENESS) {
        result = run_numbered(db, DROP_STALE_UPDATES, project, shard,
                              row->version - SKEP_LIMIT_STALENESS, err);
    }
    if (result == SKEP_OK) {
        result = run_numbered(db, DROP_VOTES, project, shard, row->version, err);
    }
    if (result == SKEP_OK) {
        result = skep_keeper_db_put_reputation(db, project, row, err);
    }
    return skep_db_end(db->db, result, err);
}

int skep_keeper_db_get_version(struct skep_keeper_db *db, const struct skep_project_id *project,
                               const struct skep_shard *shard, uint64_t version,
                               struct skep_version_row *ret_row, struct skep_error *err)
{
    bool latest = version == UINT64_MAX;
    struct skep_query *query =
        use(db, latest ? GET_LATEST_VERSION : GET_VERSION, project, shard, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    if (!latest) {
        skep_query_bind_integer(query, 3, (int64_t)version);
    }
    int row = skep_query_step(query, err);
    if (row < 0) {
        return row;
    }
    if (row == 0) {
        char text[SKEP_SHARD_TEXT_SIZE];
        skep_shard_format(shard, text);
        return latest ? skep_error_set(err, SKEP_ERR_NOT_FOUND, "no version of %s is here", text)
                      : skep_error_set(err, SKEP_ERR_NOT_FOUND, "version %llu of %s is not here",
                                       (unsigned long long)version, text);
    }
    ret_row->version = (uint64_t)skep_query_integer(query, 0);
    skep_query_id(query, 1, ret_row->payload_hash.bytes);
    skep_query_id(query, 2, ret_row->root.bytes);
    skep_query_id(query, 3, ret_row->state.bytes);
    ret_row->seal = skep_strdup(skep_query_text(query, 4));
    skep_query_reset(query);
    return SKEP_OK;
}

int skep_keeper_db_add_update(struct skep_keeper_db *db, const struct skep_project_id *project,
                              const struct skep_shard *shard, const struct skep_hash *update,
                              const struct skep_peer_id *donor, uint64_t base_version,
                              struct skep_error *err)
{
    struct skep_query *query = use(db, ADD_UPDATE, project, shard, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_id(query, 3, update->bytes);
    skep_query_bind_id(query, 4, donor->bytes);
    skep_query_bind_integer(query, 5, (int64_t)base_version);
    return run_below(query, project, err);
}

int skep_keeper_db_each_update(struct skep_keeper_db *db, const struct skep_project_id *project,
                               const struct skep_shard *shard,
                               int (*each)(void *user, const struct skep_hash *update,
                                           const struct skep_peer_id *donor, uint64_t base_version),
                               void *user, struct skep_error *err)
{
    struct skep_query *query = use(db, EACH_UPDATE, project, shard, err);
    int result = query == NULL ? skep_db_failure(err) : SKEP_OK;
    int row = 0;
    while (result == SKEP_OK && (row = skep_query_step(query, err)) == 1) {
        struct skep_hash update;
        struct skep_peer_id donor;
        skep_query_id(query, 0, update.bytes);
        skep_query_id(query, 1, donor.bytes);
        result = each(user, &update, &donor, (uint64_t)skep_query_integer(query, 2));
    }
    if (query != NULL) {
        skep_query_reset(query);
    }
    return row < 0 ? row : result;
}

int skep_keeper_db_put_vote(struct skep_keeper_db *db, const struct skep_project_id *project,
                            const struct skep_shard *shard, uint64_t version, uint32_t promised,
                            bool has_vote, uint32_t vote_attempt, const void *vote_payload,
                            size_t vote_size, struct skep_error *err)
{
    struct skep_query *query = use(db, PUT_VOTE, project, shard, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_integer(query, 3, (int64_t)version);
    skep_query_bind_integer(query, 4, promised);
    if (has_vote) {
        skep_query_bind_integer(query, 5, vote_attempt);
        skep_query_bind_blob(query, 6, vote_payload, vote_size);
    } else {
        skep_query_bind_null(query, 5);
        skep_query_bind_null(query, 6);
    }
    return run_below(query, project, err);
}

int skep_keeper_db_get_vote(struct skep_keeper_db *db, const struct skep_project_id *project,
                            const struct skep_shard *shard, uint64_t version,
                            uint32_t *ret_promised, bool *ret_has_vote, uint32_t *ret_vote_attempt,
                            struct skep_buffer *ret_payload, struct skep_error *err)
{
    struct skep_query *query = use(db, GET_VOTE, project, shard, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_integer(query, 3, (int64_t)version);
    int row = skep_query_step(query, err);
    if (row <= 0) {
        return row < 0 ? row
                       : skep_error_set(err, SKEP_ERR_NOT_FOUND, "no vote on version %llu",
                                        (unsigned long long)version);
    }
    *ret_promised = (uint32_t)skep_query_integer(query, 0);
    *ret_has_vote = !skep_query_is_null(query, 1);
    *ret_vote_attempt = (uint32_t)skep_query_integer(query, 1);
    size_t size = 0;
    const void *payload = skep_query_blob(query, 2, &size);
    skep_buffer_append(ret_payload, payload, size);
    skep_query_reset(query);
    return SKEP_OK;
}
