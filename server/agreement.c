#include "server/agreement.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/crypto/hash.h"
#include "common/swarm/statement.h"
#include "server/audit.h"
#include "server/host.h"
#include "server/intake.h"
#include "server/outbox.h"
#include "server/peers.h"
#include "server/project.h"
#include "server/sync.h"
#include "server/trust.h"

#define FETCH_TIMEOUT_MS 10000

struct skep_agreement {
    struct skep_host *host;
    struct skep_timer *timer; /* the earliest deadline of all machines */
    struct skep_outbox *outbox;
};

static void drain_and_hurry(struct skep_kept_shard *shard);

static uint64_t now_of(const struct skep_kept_shard *shard)
{
    return skep_loop_now_ms(shard->project->host->loop);
}

/* Sets the timer to the earliest deadline. */
static void arm(struct skep_agreement *agreement)
{
    const struct skep_host *host = agreement->host;
    uint64_t earliest = UINT64_MAX;
    for (size_t i = 0; i < host->project_count; i++) {
        const struct skep_project *project = host->projects[i];
        for (size_t j = 0; j < project->shard_count; j++) {
            const struct skep_kept_shard *shard = project->shards[j];
            if (shard != NULL && shard->round != NULL) {
                uint64_t deadline = skep_round_deadline(shard->round);
                earliest = deadline < earliest ? deadline : earliest;
            }
        }
    }
    if (earliest == UINT64_MAX) {
        skep_timer_stop(agreement->timer);
        return;
    }
    uint64_t now = skep_loop_now_ms(host->loop);
    skep_timer_start(agreement->timer, earliest > now ? earliest - now : 1, 0);
}

static void on_timer(void *user)
{
    struct skep_agreement *agreement = user;
    struct skep_host *host = agreement->host;
    for (size_t i = 0; i < host->project_count; i++) {
        struct skep_project *project = host->projects[i];
        for (size_t j = 0; j < project->shard_count; j++) {
            struct skep_kept_shard *shard = project->shards[j];
            if (shard != NULL && shard->round != NULL &&
                skep_round_deadline(shard->round) <= now_of(shard)) {
                skep_round_tick(shard->round, now_of(shard));
                drain_and_hurry(shard);
            }
        }
    }
    arm(agreement);
}

struct skep_agreement *skep_agreement_new(struct skep_host *host)
{
    struct skep_agreement *agreement = skep_alloc(1, sizeof *agreement);
    agreement->host = host;
    agreement->timer = skep_timer_new(host->loop, on_timer, agreement);
    agreement->outbox = skep_outbox_new(host);
    return agreement;
}

void skep_agreement_free(struct skep_agreement *agreement)
{
    if (agreement != NULL) {
        skep_timer_free(agreement->timer);
        skep_outbox_free(agreement->outbox);
        free(agreement);
    }
}

static void do_merge(struct skep_kept_shard *shard, const struct skep_round_action *action)
{
    struct skep_round_outcome outcome = {0};
    struct skep_error reason = {0};
    uint64_t base = skep_kept_shard_head(shard)->version;
    int result = skep_kept_shard_merge(shard, action->list, action->list_count, &outcome, &reason);
    if (result != SKEP_OK) {
        skep_log(SKEP_LOG_WARNING, "%s: merging %zu updates onto version %llu failed: %s",
                 shard->text, action->list_count, (unsigned long long)base, reason.text);
    }
    skep_round_merged(shard->round, base, action->list, action->list_count,
                      result == SKEP_OK ? &outcome : NULL, now_of(shard));
}

/* An update on its way from another keeper. */
struct fetch {
    struct skep_kept_shard *shard;
    struct skep_hash hash;
};

static bool fetching(const struct skep_kept_shard *shard, const struct skep_hash *hash,
                     size_t *ret_place)
{
    for (size_t i = 0; i < shard->fetching_count; i++) {
        if (skep_hash_equal(&shard->fetching[i], hash)) {
            *ret_place = i;
            return true;
        }
    }
    return false;
}

static void on_fetched(void *user, int result, const struct skep_http_answer *answer,
                       const struct skep_error *err)
{
    struct fetch *fetch = user;
    struct skep_kept_shard *shard = fetch->shard;
    struct skep_hash hash = fetch->hash;
    free(fetch);
    size_t place = 0;
    if (fetching(shard, &hash, &place)) {
        shard->fetching[place] = shard->fetching[--shard->fetching_count];
    }
    if (result == SKEP_ERR_CANCELLED) {
        return;
    }
    struct skep_error reason = {0};
    if (result != SKEP_OK) {
        reason = err != NULL ? *err : reason;
    } else if (answer->status != 200) {
        result = skep_error_set(&reason, SKEP_ERR_NOT_FOUND, "status %d", answer->status);
    } else {
        struct skep_hash found = skep_hash_of(answer->body.data, answer->body.size);
        result =
            skep_hash_equal(&found, &hash)
                ? skep_intake_fetched(shard->project, answer->body.data, answer->body.size, &reason)
                : skep_error_set(&reason, SKEP_ERR_HASH, "it came with another hash");
    }
    if (result != SKEP_OK) {
        skep_log(SKEP_LOG_INFO, "%s: update %.12s could not be had from its keeper: %s",
                 shard->text, skep_id_text(hash.bytes), reason.text);
    }
}

static void do_fetch(struct skep_kept_shard *shard, const struct skep_round_action *action)
{
    struct skep_host *host = shard->project->host;
    const struct skep_record *record = skep_peers_find(host->peers, &action->peer);
    size_t place = 0;
    if (record == NULL || fetching(shard, &action->hash, &place) ||
        shard->fetching_count == SKEP_LIMIT_UPDATES_PER_ROUND) {
        return;
    }
    shard->fetching[shard->fetching_count++] = action->hash;
    struct fetch *fetch = skep_alloc(1, sizeof *fetch);
    *fetch = (struct fetch){.shard = shard, .hash = action->hash};
    char path[32 + SKEP_ID_TEXT_SIZE];
    snprintf(path, sizeof path, "/v1/updates/%s", skep_id_text(action->hash.bytes));
    struct skep_http_request request = {.method = "GET",
                                        .path = path,
                                        .timeout_ms = FETCH_TIMEOUT_MS,
                                        .limit = SKEP_LIMIT_UPDATE_BYTES};
    skep_peers_send(host->peers, record, &request, on_fetched, fetch);
}

/* Promise and vote to disk: until that succeeds nothing that depends on them may be sent. */
static int do_persist(struct skep_kept_shard *shard, const struct skep_round_action *action,
                      struct skep_error *err)
{
    const struct skep_round_memory *memory = &action->memory;
    if (memory->promised == 0 && !memory->has_vote) {
        return SKEP_OK; /* nothing on disk says the same */
    }
    return skep_keeper_db_put_vote(shard->project->host->db, &shard->project->manifest.project,
                                   &shard->shard, memory->version + 1, memory->promised,
                                   memory->has_vote, memory->vote_attempt,
                                   memory->has_vote ? memory->vote_payload.data : NULL,
                                   memory->has_vote ? memory->vote_payload.size : 0, err);
}

static void send_message(struct skep_kept_shard *shard, const struct skep_message *message,
                         const struct skep_peer_id *peer)
{
    struct skep_host *host = shard->project->host;
    char *payload = skep_message_encode(message);
    char *text = skep_statement_sign_text(host->key, SKEP_TYPE_MESSAGE, payload);
    for (size_t i = 0; i < shard->replicas.count; i++) {
        const struct skep_peer_id *keeper = &shard->replicas.keepers[i];
        bool wanted = peer == NULL || skep_peer_id_equal(peer, keeper);
        if (wanted && !skep_peer_id_equal(keeper, &host->id)) {
            skep_outbox_push(host->agreement->outbox, shard->project, keeper, text);
        }
    }
    free(text);
    free(payload);
}

static void do_answer_sealed(struct skep_kept_shard *shard, const struct skep_round_action *action)
{
    struct skep_host *host = shard->project->host;
    struct skep_version_row row = {0};
    if (skep_keeper_db_get_version(host->db, &shard->project->manifest.project, &shard->shard,
                                   action->version, &row, NULL) != SKEP_OK ||
        row.seal == NULL) {
        return;
    }
    struct skep_message message = {.kind = SKEP_MESSAGE_SEALED,
                                   .project = shard->project->manifest.project,
                                   .shard = shard->shard,
                                   .version = action->version,
                                   .from = host->id};
    if (skep_envelope_parse(row.seal, strlen(row.seal), &message.sealed, NULL) == SKEP_OK) {
        send_message(shard, &message, &action->peer);
    }
    skep_message_done(&message);
    free((void *)row.seal);
}

static int do_commit(struct skep_kept_shard *shard, const struct skep_round_action *action,
                     struct skep_error *err)
{
    const struct skep_buffer *payload = &action->envelope.payload;
    struct skep_seal seal = {0};
    int result = skep_seal_decode(payload->data, payload->size, &seal, err);
    if (result == SKEP_OK) {
        result = skep_kept_shard_commit(shard, &action->envelope, &seal, &action->hash, err);
    }
    if (result == SKEP_OK) {
        skep_log(SKEP_LOG_INFO, "%s version %llu sealed: %zu of %zu updates merged, state %.12s",
                 shard->text, (unsigned long long)seal.version, shard->project->last_seal.updates,
                 seal.receipt_count, skep_id_text(seal.state.bytes));
        skep_round_sealed(shard->round, &seal, &action->hash, now_of(shard));
        skep_audit_sealed(shard, &seal, &action->hash);
    }
    skep_seal_done(&seal);
    return result;
}

static int carry_out(struct skep_kept_shard *shard, const struct skep_round_action *action,
                     struct skep_error *err)
{
    switch (action->kind) {
    case SKEP_ROUND_MERGE:
        do_merge(shard, action);
        return SKEP_OK;
    case SKEP_ROUND_FETCH:
        do_fetch(shard, action);
        return SKEP_OK;
    case SKEP_ROUND_PERSIST:
        return do_persist(shard, action, err);
    case SKEP_ROUND_SEND:
        send_message(shard, &action->message, action->to_all ? NULL : &action->peer);
        return SKEP_OK;
    case SKEP_ROUND_COMMIT:
        return do_commit(shard, action, err);
    case SKEP_ROUND_CATCH_UP:
        skep_sync_shard(shard, &action->peer);
        return SKEP_OK;
    case SKEP_ROUND_ANSWER_SEALED:
        do_answer_sealed(shard, action);
        return SKEP_OK;
    }
    return SKEP_OK;
}

/* Carries out all that the machine asks for, in order; drops the machine if something cannot be. */
static void drain(struct skep_kept_shard *shard)
{
    struct skep_round_action action = {0};
    int result = SKEP_OK;
    while (result == SKEP_OK && skep_round_take(shard->round, &action)) {
        struct skep_error reason = {0};
        result = carry_out(shard, &action, &reason);
        skep_round_action_done(&action);
        action = (struct skep_round_action){0};
        if (result != SKEP_OK) {
            skep_log(SKEP_LOG_ERROR, "%s: the agreement stops until this is mended: %s",
                     shard->text, reason.text);
            skep_round_free(shard->round);
            shard->round = NULL;
        }
    }
}

/* The trunk closes: what its donors had for the experts has come before (donors publish the trunk last). */
static void hurry_experts(const struct skep_kept_shard *trunk)
{
    const struct skep_project *project = trunk->project;
    for (size_t i = 0; i < project->shard_count; i++) {
        struct skep_kept_shard *shard = project->shards[i];
        if (shard != NULL && shard != trunk && shard->round != NULL) {
            skep_round_hurry(shard->round, now_of(shard));
            drain(shard);
        }
    }
}

/* A keeper that is alone closes and seals in one go. */
static void drain_and_hurry(struct skep_kept_shard *shard)
{
    uint64_t before = skep_kept_shard_head(shard)->version;
    drain(shard);
    bool sealed = skep_kept_shard_head(shard)->version > before;
    if (shard->shard.kind == SKEP_SHARD_TRUNK && shard->round != NULL &&
        (sealed || skep_round_closing(shard->round))) {
        hurry_experts(shard);
    }
}

static void drain_and_arm(struct skep_kept_shard *shard)
{
    drain_and_hurry(shard);
    arm(shard->project->host->agreement);
}

static int add_waiting(void *user, const struct skep_hash *update, const struct skep_peer_id *donor,
                       uint64_t base_version)
{
    struct skep_kept_shard *shard = user;
    if (!skep_blobs_has(shard->project->host->blobs, update)) {
        skep_log(SKEP_LOG_WARNING, "%s: the file of waiting update %.12s is gone", shard->text,
                 skep_id_text(update->bytes));
        return SKEP_OK;
    }
    if (!skep_trust_admits(shard, update, donor)) {
        return SKEP_OK;
    }
    struct skep_round_update waiting = {
        .hash = *update, .donor = *donor, .base_version = base_version};
    skep_round_add(shard->round, &waiting, now_of(shard));
    return SKEP_OK;
}

int skep_agreement_start(struct skep_kept_shard *shard, struct skep_error *err)
{
    if (!skep_kept_shard_can_judge(shard)) { /* the next look fetches what is missing */
        skep_round_free(shard->round);
        shard->round = NULL;
        return SKEP_OK;
    }
    struct skep_host *host = shard->project->host;
    const struct skep_project_id *project = &shard->project->manifest.project;
    const struct skep_kept_version *head = skep_kept_shard_head(shard);
    struct skep_round_memory memory = {.version = head->version, .head = head->payload};
    int result = skep_keeper_db_get_vote(host->db, project, &shard->shard, head->version + 1,
                                         &memory.promised, &memory.has_vote, &memory.vote_attempt,
                                         &memory.vote_payload, err);
    if (result != SKEP_OK && result != SKEP_ERR_NOT_FOUND) {
        return result;
    }
    skep_round_free(shard->round);
    shard->round = skep_round_new(&shard->project->manifest, &shard->shard, host->key, &memory,
                                  shard->recent, shard->recent_count);
    skep_buffer_done(&memory.vote_payload);
    if (shard->shard.kind == SKEP_SHARD_TRUNK) {
        skep_trust_sealed(shard->project);
        skep_trust_tell(shard);
    }
    result = skep_keeper_db_each_update(host->db, project, &shard->shard, add_waiting, shard, err);
    drain_and_arm(shard);
    return result;
}

void skep_agreement_update(struct skep_kept_shard *shard, const struct skep_round_update *update)
{
    if (shard->round != NULL) {
        skep_round_add(shard->round, update, now_of(shard));
        drain_and_arm(shard);
    }
}

void skep_agreement_verdict(struct skep_kept_shard *shard, const struct skep_round_update *update,
                            bool valid)
{
    if (shard->round != NULL) {
        skep_round_verdict(shard->round, update, valid, now_of(shard));
        drain_and_arm(shard);
    }
}

void skep_agreement_receive(struct skep_kept_shard *shard, const struct skep_message *message)
{
    if (shard->round != NULL) {
        skep_round_receive(shard->round, message, now_of(shard));
        drain_and_arm(shard);
    }
}

void skep_agreement_adopted(struct skep_kept_shard *shard, const struct skep_seal *seal,
                            const struct skep_hash *payload_hash)
{
    skep_audit_sealed(shard, seal, payload_hash);
    if (shard->round != NULL) {
        skep_round_sealed(shard->round, seal, payload_hash, now_of(shard));
        drain_and_arm(shard);
    }
}
