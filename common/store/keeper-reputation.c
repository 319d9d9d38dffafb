/* What the keeper's database knows about trust: rows that follow from the trunk's seals, kept so that a start need not read them all. */
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/store/keeper-db.h"
#include "common/store/keeper-private.h"
#include "common/wire/envelope.h"
#include "common/wire/statements.h"

static int forget(struct skep_keeper_db *db, const struct skep_project_id *project,
                  const struct skep_peer_id *donor, struct skep_error *err)
{
    struct skep_query *query = skep_db_use(db->db, FORGET_REPUTATION, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_id(query, 1, project->bytes);
    skep_query_bind_id(query, 2, donor->bytes);
    return skep_query_run(query, err);
}

static int put(struct skep_keeper_db *db, const struct skep_project_id *project,
               const struct skep_reputation *row, struct skep_error *err)
{
    struct skep_query *query = skep_db_use(db->db, PUT_REPUTATION, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_id(query, 1, project->bytes);
    skep_query_bind_id(query, 2, row->donor.bytes);
    skep_query_bind_integer(query, 3, (int64_t)row->earned);
    skep_query_bind_integer(query, 4, (int64_t)row->seen);
    skep_query_bind_integer(query, 5, (int64_t)row->merged);
    if (row->banned) {
        skep_query_bind_integer(query, 6, (int64_t)row->banned_at);
    } else {
        skep_query_bind_null(query, 6);
    }
    return skep_query_run(query, err);
}

int skep_keeper_db_put_reputation(struct skep_keeper_db *db, const struct skep_project_id *project,
                                  const struct skep_version_row *row, struct skep_error *err)
{
    int result = SKEP_OK;
    for (size_t i = 0; result == SKEP_OK && i < row->forgotten_count; i++) {
        result = forget(db, project, &row->forgotten[i], err);
    }
    for (size_t i = 0; result == SKEP_OK && i < row->reputation_count; i++) {
        result = put(db, project, &row->reputation[i], err);
    }
    return result;
}

int skep_keeper_db_get_reputation(struct skep_keeper_db *db, const struct skep_project_id *project,
                                  struct skep_reputation **ret_rows, size_t *ret_count,
                                  struct skep_error *err)
{
    struct skep_query *query = skep_db_use(db->db, GET_REPUTATION, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_id(query, 1, project->bytes);
    struct skep_reputation *rows = NULL;
    size_t count = 0;
    size_t capacity = 0;
    int row;
    while ((row = skep_query_step(query, err)) == 1) {
        if (count == capacity) {
            capacity = capacity == 0 ? 64 : 2 * capacity;
            rows = skep_realloc(rows, capacity, sizeof *rows);
        }
        struct skep_reputation *reputation = &rows[count++];
        *reputation = (struct skep_reputation){
            .earned = (uint64_t)skep_query_integer(query, 1),
            .seen = (uint64_t)skep_query_integer(query, 2),
            .merged = (uint64_t)skep_query_integer(query, 3),
            .banned = !skep_query_is_null(query, 4),
            .banned_at = (uint64_t)skep_query_integer(query, 4),
        };
        skep_query_id(query, 0, reputation->donor.bytes);
    }
    if (row < 0) {
        free(rows);
        return row;
    }
    *ret_rows = rows;
    *ret_count = count;
    return SKEP_OK;
}

/* A stored seal was checked before it was stored, so its signatures are not looked at again. */
static int apply_text(struct skep_reputations *table, const char *text, struct skep_error *err)
{
    struct skep_envelope envelope = {0};
    struct skep_seal seal = {0};
    int result = skep_envelope_parse(text, strlen(text), &envelope, err);
    if (result == SKEP_OK) {
        result = skep_seal_decode(envelope.payload.data, envelope.payload.size, &seal, err);
    }
    if (result == SKEP_OK) {
        result = skep_reputation_apply(table, &seal, err);
    }
    skep_seal_done(&seal);
    skep_envelope_done(&envelope);
    return result;
}

static int apply_seals(struct skep_keeper_db *db, const struct skep_project_id *project,
                       struct skep_reputations *table, struct skep_error *err)
{
    static const struct skep_shard trunk = {.kind = SKEP_SHARD_TRUNK};
    struct skep_query *query = skep_db_use(db->db, EACH_SEAL, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_id(query, 1, project->bytes);
    skep_query_bind_shard(query, 2, &trunk);
    int result = SKEP_OK;
    int row = 0;
    while (result == SKEP_OK && (row = skep_query_step(query, err)) == 1) {
        result = apply_text(table, skep_query_text(query, 0), err);
    }
    skep_query_reset(query);
    return row < 0 ? row : result;
}

int skep_keeper_db_rebuild_reputation(struct skep_keeper_db *db,
                                      const struct skep_project_id *project,
                                      struct skep_reputations *table, struct skep_error *err)
{
    int result = skep_db_begin(db->db, err);
    if (result != SKEP_OK) {
        return result;
    }
    result = apply_seals(db, project, table, err);
    struct skep_query *query = result == SKEP_OK ? skep_db_use(db->db, DROP_REPUTATION, err) : NULL;
    if (result == SKEP_OK && query == NULL) {
        result = skep_db_failure(err);
    } else if (result == SKEP_OK) {
        skep_query_bind_id(query, 1, project->bytes);
        result = skep_query_run(query, err);
    }
    for (size_t i = 0; result == SKEP_OK && i < skep_reputation_count(table); i++) {
        struct skep_reputation row = skep_reputation_at(table, i);
        result = put(db, project, &row, err);
    }
    return skep_db_end(db->db, result, err);
}
