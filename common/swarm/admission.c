#include "common/swarm/admission.h"

#include <inttypes.h>
#include <string.h>

#include "common/swarm/ticket.h"

uint64_t skep_job_tokens(const struct skep_manifest *manifest)
{
    const struct skep_model_config *model = &manifest->model;
    uint64_t records = (uint64_t)manifest->training.steps * manifest->training.batch;
    return model->kind == SKEP_MODEL_LM ? records * (model->context - model->prefix) : records;
}

static int check_base(const struct skep_shard_head *head, const char *shard,
                      const struct skep_update_statement *statement, struct skep_error *err)
{
    uint64_t base = statement->base_version;
    if (base > head->version) {
        return skep_refuse(err, SKEP_REFUSAL_BASE_AHEAD,
                           "update of %s starts from version %" PRIu64 ", the newest here is "
                           "%" PRIu64 ": try again later",
                           shard, base, head->version);
    }
    uint64_t age = head->version - base;
    if (age > SKEP_LIMIT_STALENESS) {
        return skep_refuse(err, SKEP_REFUSAL_BASE_STALE,
                           "update of %s starts from version %" PRIu64
                           ", the oldest still merged is %" PRIu64,
                           shard, base, head->version - SKEP_LIMIT_STALENESS);
    }
    if (!skep_hash_equal(&statement->base_state, &head->roots[age])) {
        return skep_refuse(
            err, SKEP_REFUSAL_BASE_STATE,
            "update of %s starts from state %s, version %" PRIu64 " was sealed as %s", shard,
            skep_id_text(statement->base_state.bytes), base, skep_id_text(head->roots[age].bytes));
    }
    return 0;
}

static int check_ticket(const struct skep_update_statement *statement,
                        const struct skep_hash *beacon, struct skep_error *err)
{
    struct skep_hash ticket = skep_ticket_of(beacon, &statement->donor, statement->trunk_version);
    if (!skep_hash_equal(&ticket, &statement->ticket)) {
        return skep_refuse(err, SKEP_REFUSAL_TICKET,
                           "update has ticket %s, version %" PRIu64 " and its donor's key give %s",
                           skep_id_text(statement->ticket.bytes), statement->trunk_version,
                           skep_id_text(ticket.bytes));
    }
    return 0;
}

static int check_remote(const struct skep_manifest *manifest, const struct skep_shard_head *head,
                        const struct skep_update_statement *statement, struct skep_error *err)
{
    if (!manifest->trust.remote) {
        return skep_refuse(err, SKEP_REFUSAL_REMOTE,
                           "update is of remote calls, which this project does not merge "
                           "(trust.remote)");
    }
    if (statement->trunk_version != statement->base_version) {
        return skep_refuse(err, SKEP_REFUSAL_TICKET,
                           "update of remote calls names trunk version %" PRIu64
                           ", expected its base version %" PRIu64,
                           statement->trunk_version, statement->base_version);
    }
    if (statement->tokens == 0) {
        return skep_refuse(err, SKEP_REFUSAL_TOKENS,
                           "update of remote calls is of 0 tokens, expected at least 1");
    }
    return check_ticket(statement, &head->beacons[head->version - statement->base_version], err);
}

/* The trunk's version that a job names. */
static int check_trunk(const struct skep_trunk_view *trunk,
                       const struct skep_update_statement *statement, struct skep_error *err)
{
    uint64_t version = statement->trunk_version;
    if (statement->shard.kind == SKEP_SHARD_TRUNK && version != statement->base_version) {
        return skep_refuse(err, SKEP_REFUSAL_TICKET,
                           "update of the trunk names trunk version %" PRIu64
                           ", expected its base version %" PRIu64,
                           version, statement->base_version);
    }
    if (version < trunk->newest && trunk->newest - version > SKEP_LIMIT_TICKET_AGE) {
        return skep_refuse(err, SKEP_REFUSAL_TRUNK_STALE,
                           "update has a ticket of trunk version %" PRIu64
                           ", the oldest still taken is %" PRIu64,
                           version, trunk->newest - SKEP_LIMIT_TICKET_AGE);
    }
    if (!trunk->known) {
        return skep_refuse(err, SKEP_REFUSAL_TRUNK_AHEAD,
                           "update has a ticket of trunk version %" PRIu64
                           ", which is not known here: try again later",
                           version);
    }
    return 0;
}

static int check_job(const struct skep_manifest *manifest, const struct skep_trunk_view *trunk,
                     const struct skep_update_statement *statement, struct skep_error *err)
{
    uint64_t tokens = skep_job_tokens(manifest);
    int code = check_trunk(trunk, statement, err);
    if (code == 0) {
        code = check_ticket(statement, &trunk->beacon, err);
    }
    if (code == 0 && statement->tokens != tokens) {
        code = skep_refuse(err, SKEP_REFUSAL_TOKENS,
                           "update is of %" PRIu64 " tokens, a job trains on %" PRIu64,
                           statement->tokens, tokens);
    }
    return code;
}

int skep_admission_check_place(const struct skep_manifest *manifest,
                               const struct skep_update_statement *statement,
                               struct skep_error *err)
{
    if (memcmp(&statement->project, &manifest->project, sizeof(manifest->project)) != 0) {
        return skep_refuse(err, SKEP_REFUSAL_OTHER_PROJECT, "update is for project %s, expected %s",
                           skep_id_text(statement->project.bytes),
                           skep_id_text(manifest->project.bytes));
    }
    if (skep_manifest_shard_index(manifest, &statement->shard) == SIZE_MAX) {
        char shard[SKEP_SHARD_TEXT_SIZE];
        skep_shard_format(&statement->shard, shard);
        return skep_refuse(err, SKEP_REFUSAL_NO_SUCH_SHARD,
                           "update is for shard %s, expected trunk or ffn.<0-%u>.<0-%u>.<0-%u>",
                           shard, manifest->model.layers - 1, manifest->model.rows - 1,
                           manifest->model.columns - 1);
    }
    return 0;
}

int skep_admission_check(const struct skep_manifest *manifest, const struct skep_shard_head *head,
                         const struct skep_trunk_view *trunk,
                         const struct skep_update_statement *statement, struct skep_error *err)
{
    char shard[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(&statement->shard, shard);
    int code = check_base(head, shard, statement, err);
    if (code != 0) {
        return code;
    }
    return statement->remote ? check_remote(manifest, head, statement, err)
                             : check_job(manifest, trunk, statement, err);
}
