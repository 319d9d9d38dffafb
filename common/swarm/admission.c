#include "common/swarm/admission.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/limits.h"

static int check_base(const struct skep_shard_head *head, const char *shard,
                      const struct skep_update_statement *statement, struct skep_error *err)
{
    uint64_t base = statement->base_version;
    if (base > head->version) {
        return skep_error_set(err, SKEP_ERR_STATE,
                              "update of %s starts from version %" PRIu64 ", the newest here is "
                              "%" PRIu64 ": try again later",
                              shard, base, head->version);
    }
    uint64_t age = head->version - base;
    if (age > SKEP_LIMIT_STALENESS) {
        return skep_error_set(err, SKEP_ERR_STALE,
                              "update of %s starts from version %" PRIu64
                              ", the oldest still merged is %" PRIu64,
                              shard, base, head->version - SKEP_LIMIT_STALENESS);
    }
    if (!skep_hash_equal(&statement->base_state, &head->roots[age])) {
        return skep_error_set(
            err, SKEP_ERR_HASH,
            "update of %s starts from state %s, version %" PRIu64 " was sealed as %s", shard,
            skep_id_text(statement->base_state.bytes), base, skep_id_text(head->roots[age].bytes));
    }
    return 0;
}

int skep_admission_check(const struct skep_manifest *manifest, const struct skep_shard_head *head,
                         const struct skep_update_statement *statement, struct skep_error *err)
{
    char shard[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(&statement->shard, shard);
    if (memcmp(&statement->project, &manifest->project, sizeof(manifest->project)) != 0) {
        return skep_error_set(err, SKEP_ERR_REFUSED, "update is for project %s, expected %s",
                              skep_id_text(statement->project.bytes),
                              skep_id_text(manifest->project.bytes));
    }
    if (skep_manifest_shard_index(manifest, &statement->shard) == SIZE_MAX) {
        return skep_error_set(err, SKEP_ERR_NOT_FOUND,
                              "update is for shard %s, expected trunk or ffn.<0-%u>.<0-%u>.<0-%u>",
                              shard, manifest->model.layers - 1, manifest->model.rows - 1,
                              manifest->model.columns - 1);
    }
    return check_base(head, shard, statement, err);
}
