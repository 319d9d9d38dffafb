#include "common/store/keeper-audits.h"

#include "common/store/keeper-private.h"

#define FIGURE 3 /* place of the first figure in SET_VERDICT */

const char *skep_audit_verdict_name(enum skep_audit_verdict verdict)
{
    static const char *const names[SKEP_AUDIT_VERDICTS] = {
        "open", "valid", "invalid", "unanswered", "not drawn", "unanswered again"};
    return names[verdict];
}

uint64_t skep_keeper_db_audit_changes(const struct skep_keeper_db *db)
{
    return db->audit_changes;
}

static struct skep_query *use(struct skep_keeper_db *db, enum skep_keeper_query which,
                              const struct skep_project_id *project, struct skep_error *err)
{
    struct skep_query *query = skep_db_use(db->db, which, err);
    if (query != NULL) {
        skep_query_bind_id(query, 1, project->bytes);
    }
    return query;
}

/* One that changes rows. */
static struct skep_query *use_to_write(struct skep_keeper_db *db, enum skep_keeper_query which,
                                       const struct skep_project_id *project,
                                       struct skep_error *err)
{
    db->audit_changes++;
    return use(db, which, project, err);
}

int skep_keeper_db_add_audit(struct skep_keeper_db *db, const struct skep_project_id *project,
                             const struct skep_audit_row *row, struct skep_error *err)
{
    struct skep_query *query = use_to_write(db, ADD_AUDIT, project, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_id(query, 2, row->update.bytes);
    skep_query_bind_shard(query, 3, &row->shard);
    skep_query_bind_id(query, 4, row->donor.bytes);
    skep_query_bind_id(query, 5, row->ticket.bytes);
    skep_query_bind_integer(query, 6, (int64_t)row->base_version);
    skep_query_bind_id(query, 7, row->before.bytes);
    skep_query_bind_id(query, 8, row->after.bytes);
    skep_query_bind_integer(query, 9, row->came_s);
    skep_query_bind_integer(query, 10, row->verdict);
    skep_query_bind_real(query, 11, row->distance);
    skep_query_bind_real(query, 12, row->overlap);
    skep_query_bind_real(query, 13, row->seconds);
    return skep_query_run(query, err);
}

int skep_keeper_db_set_verdict(struct skep_keeper_db *db, const struct skep_project_id *project,
                               const struct skep_audit_row *row, bool *ret_changed,
                               struct skep_error *err)
{
    struct skep_query *query = use_to_write(db, SET_VERDICT, project, err);
    *ret_changed = false;
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_id(query, 2, row->update.bytes);
    skep_query_bind_integer(query, FIGURE, row->verdict);
    skep_query_bind_real(query, FIGURE + 1, row->distance);
    skep_query_bind_real(query, FIGURE + 2, row->overlap);
    skep_query_bind_real(query, FIGURE + 3, row->seconds);
    int result = skep_query_run(query, err);
    *ret_changed = result == SKEP_OK && skep_db_changed(db->db) > 0;
    return result;
}

/* False for a row that no program of ours has written. */
static bool read_row(struct skep_query *query, struct skep_audit_row *row)
{
    const char *shard = skep_query_text(query, 1);
    int64_t verdict = skep_query_integer(query, 8);
    *row = (struct skep_audit_row){.base_version = (uint64_t)skep_query_integer(query, 4),
                                   .came_s = skep_query_integer(query, 7),
                                   .distance = skep_query_real(query, 9),
                                   .overlap = skep_query_real(query, 10),
                                   .seconds = skep_query_real(query, 11)};
    skep_query_id(query, 0, row->update.bytes);
    skep_query_id(query, 2, row->donor.bytes);
    skep_query_id(query, 3, row->ticket.bytes);
    skep_query_id(query, 5, row->before.bytes);
    skep_query_id(query, 6, row->after.bytes);
    if (shard == NULL || !skep_shard_parse(shard, &row->shard) || verdict < 0 ||
        verdict >= SKEP_AUDIT_VERDICTS) {
        return false;
    }
    row->verdict = (enum skep_audit_verdict)verdict;
    return true;
}

static int walk(struct skep_query *query, skep_audit_each each, void *user, struct skep_error *err)
{
    int result = SKEP_OK;
    int found = 0;
    while (result == SKEP_OK && (found = skep_query_step(query, err)) == 1) {
        struct skep_audit_row row;
        if (read_row(query, &row)) {
            result = each(user, &row);
        }
    }
    skep_query_reset(query);
    return found < 0 ? found : result;
}

static int take_row(void *user, const struct skep_audit_row *row)
{
    *(struct skep_audit_row *)user = *row;
    return SKEP_ERR_DUPLICATE; /* one is enough */
}

int skep_keeper_db_get_audit(struct skep_keeper_db *db, const struct skep_project_id *project,
                             const struct skep_hash *update, struct skep_audit_row *ret_row,
                             struct skep_error *err)
{
    struct skep_query *query = use(db, GET_AUDIT, project, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_id(query, 2, update->bytes);
    int result = walk(query, take_row, ret_row, err);
    if (result == SKEP_OK) {
        return skep_error_set(err, SKEP_ERR_NOT_FOUND, "update %.12s has no audit here",
                              skep_id_text(update->bytes));
    }
    return result == SKEP_ERR_DUPLICATE ? SKEP_OK : result;
}

int skep_keeper_db_open_audits(struct skep_keeper_db *db, const struct skep_project_id *project,
                               skep_audit_each each, void *user, struct skep_error *err)
{
    struct skep_query *query = use(db, OPEN_AUDITS, project, err);
    return query == NULL ? skep_db_failure(err) : walk(query, each, user, err);
}

int skep_keeper_db_list_audits(struct skep_keeper_db *db, const struct skep_project_id *project,
                               size_t most, skep_audit_each each, void *user,
                               struct skep_error *err)
{
    struct skep_query *query = use(db, LIST_AUDITS, project, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_integer(query, 2, (int64_t)most);
    return walk(query, each, user, err);
}

int skep_keeper_db_donor_audits(struct skep_keeper_db *db, const struct skep_project_id *project,
                                const struct skep_peer_id *donor, const struct skep_shard *shard,
                                size_t most, skep_audit_each each, void *user,
                                struct skep_error *err)
{
    struct skep_query *query = use(db, DONOR_AUDITS, project, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_id(query, 2, donor->bytes);
    skep_query_bind_shard(query, 3, shard);
    skep_query_bind_integer(query, 4, (int64_t)most);
    return walk(query, each, user, err);
}

int skep_keeper_db_count_audits(struct skep_keeper_db *db, const struct skep_project_id *project,
                                uint64_t ret_counts[SKEP_AUDIT_VERDICTS], struct skep_error *err)
{
    struct skep_query *query = use(db, COUNT_AUDITS, project, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    uint64_t counts[SKEP_AUDIT_VERDICTS] = {0};
    int found = 0;
    while ((found = skep_query_step(query, err)) == 1) {
        int64_t verdict = skep_query_integer(query, 0);
        if (verdict >= 0 && verdict < SKEP_AUDIT_VERDICTS) {
            counts[verdict] = (uint64_t)skep_query_integer(query, 1);
        }
    }
    for (size_t i = 0; found == 0 && i < SKEP_AUDIT_VERDICTS; i++) {
        ret_counts[i] = counts[i];
    }
    return found < 0 ? found : SKEP_OK;
}

bool skep_keeper_db_caught(struct skep_keeper_db *db, const struct skep_project_id *project,
                           const struct skep_peer_id *donor)
{
    struct skep_query *query = use(db, INVALID_OF_DONOR, project, NULL);
    if (query == NULL) {
        return false;
    }
    skep_query_bind_id(query, 2, donor->bytes);
    bool caught = skep_query_step(query, NULL) == 1;
    skep_query_reset(query);
    return caught;
}

int skep_keeper_db_remove_audit(struct skep_keeper_db *db, const struct skep_project_id *project,
                                const struct skep_hash *update, struct skep_error *err)
{
    struct skep_query *query = use_to_write(db, REMOVE_AUDIT, project, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_id(query, 2, update->bytes);
    return skep_query_run(query, err);
}

static int drop_one_verdict(struct skep_keeper_db *db, const struct skep_project_id *project,
                            const struct skep_shard *shard, enum skep_audit_verdict verdict,
                            uint64_t below, struct skep_error *err)
{
    struct skep_query *query = use_to_write(db, DROP_OLD_AUDITS, project, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_integer(query, 2, verdict);
    skep_query_bind_shard(query, 3, shard);
    skep_query_bind_integer(query, 4, (int64_t)below);
    return skep_query_run(query, err);
}

static int drop_sealed_bans(struct skep_keeper_db *db, const struct skep_project_id *project,
                            const struct skep_shard *shard, uint64_t below, struct skep_error *err)
{
    struct skep_query *query = use_to_write(db, DROP_SEALED_BANS, project, err);
    if (query == NULL) {
        return skep_db_failure(err);
    }
    skep_query_bind_shard(query, 2, shard);
    skep_query_bind_integer(query, 3, (int64_t)below);
    return skep_query_run(query, err);
}

int skep_keeper_db_drop_audits(struct skep_keeper_db *db, const struct skep_project_id *project,
                               const struct skep_shard *shard, uint64_t head,
                               struct skep_error *err)
{
    uint64_t below = head > SKEP_AUDIT_KEPT_VERSIONS ? head - SKEP_AUDIT_KEPT_VERSIONS : 0;
    uint64_t answers = head > SKEP_AUDIT_KEPT_ANSWERS ? head - SKEP_AUDIT_KEPT_ANSWERS : 0;
    uint64_t answered = shard->kind == SKEP_SHARD_TRUNK ? answers : below;
    int result = drop_one_verdict(db, project, shard, SKEP_AUDIT_NOT_DRAWN, below, err);
    if (result == SKEP_OK) {
        result = drop_one_verdict(db, project, shard, SKEP_AUDIT_UNANSWERED_AGAIN, below, err);
    }
    if (result == SKEP_OK) {
        result = drop_one_verdict(db, project, shard, SKEP_AUDIT_VALID, answered, err);
    }
    if (result == SKEP_OK) {
        result = drop_one_verdict(db, project, shard, SKEP_AUDIT_UNANSWERED, answered, err);
    }
    return result == SKEP_OK ? drop_sealed_bans(db, project, shard, below, err) : result;
}
