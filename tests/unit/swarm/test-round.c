/* The round machine's moves, one keeper at a time; the others are played by the test. What many do together is tests/sim. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/crypto/hash.h"
#include "common/swarm/credit.h"
#include "common/swarm/round.h"
#include "common/swarm/statement.h"
#include "tests/lib/cmocka.h"

#define KEEPERS 3

/* Keeper i is the leader of attempt i of version 1. */
struct fixture {
    struct skep_key *keys[KEEPERS];
    struct skep_peer_id ids[KEEPERS];
    struct skep_manifest manifest;
    struct skep_shard shard;
    struct skep_round_memory memory; /* the disk */
    struct skep_round *round;
    struct skep_round_action action; /* the last one taken */
    uint64_t now_ms;
};

static const struct skep_hash root = {{0xaa}};

static struct skep_round_update update_of(uint8_t number)
{
    return (struct skep_round_update){.hash = {{number}}, .donor = {{number}}};
}

static void start(struct fixture *fixture, size_t me)
{
    skep_round_free(fixture->round);
    fixture->round = skep_round_new(&fixture->manifest, &fixture->shard, fixture->keys[me],
                                    &fixture->memory, NULL, 0);
}

static int set_up_keepers(void **state, size_t count)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    skep_manifest_defaults(&fixture->manifest);
    fixture->manifest.project.bytes[0] = 9;
    fixture->manifest.merge.window_ms = 1000;
    fixture->manifest.merge.least_updates = 1;
    fixture->manifest.merge.most_updates = 4;
    fixture->manifest.keepers = fixture->ids;
    fixture->manifest.keeper_count = count;
    fixture->manifest.replicas = (uint32_t)count;
    fixture->memory.head.bytes[0] = 7;
    struct skep_key *keys[KEEPERS];
    for (size_t i = 0; i < count; i++) {
        uint8_t seed[32] = {(uint8_t)(20 + i)};
        keys[i] = skep_key_from_seed(seed);
        fixture->ids[i] = skep_key_id(keys[i]);
    }
    struct skep_replicas replicas = skep_replicas_of(&fixture->manifest, &fixture->shard);
    struct skep_peer_id ordered[KEEPERS];
    for (size_t a = 0; a < count; a++) {
        ordered[a] =
            skep_replicas_leader(&replicas, &fixture->shard, &fixture->memory.head, (uint32_t)a);
        for (size_t i = 0; i < count; i++) {
            if (skep_peer_id_equal(&ordered[a], &fixture->ids[i])) {
                fixture->keys[a] = keys[i];
            }
        }
    }
    memcpy(fixture->ids, ordered, count * sizeof(ordered[0]));
    fixture->now_ms = 5000;
    *state = fixture;
    return 0;
}

static int set_up(void **state)
{
    return set_up_keepers(state, KEEPERS);
}

static int set_up_alone(void **state)
{
    return set_up_keepers(state, 1);
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    skep_round_action_done(&fixture->action);
    skep_round_free(fixture->round);
    for (size_t i = 0; i < fixture->manifest.keeper_count; i++) {
        skep_key_free(fixture->keys[i]);
    }
    skep_buffer_done(&fixture->memory.vote_payload);
    fixture->manifest.keepers = NULL;
    skep_manifest_done(&fixture->manifest);
    free(fixture);
    return 0;
}

/* The next action must be of this kind. PERSIST writes the disk. */
static const struct skep_round_action *expect(struct fixture *fixture,
                                              enum skep_round_action_kind kind)
{
    skep_round_action_done(&fixture->action);
    memset(&fixture->action, 0, sizeof(fixture->action));
    assert_true(skep_round_take(fixture->round, &fixture->action));
    assert_int_equal(fixture->action.kind, kind);
    if (kind == SKEP_ROUND_PERSIST) {
        skep_buffer_done(&fixture->memory.vote_payload);
        fixture->memory = fixture->action.memory;
        memset(&fixture->action.memory.vote_payload, 0, sizeof(struct skep_buffer));
    }
    return &fixture->action;
}

static const struct skep_message *expect_send(struct fixture *fixture, enum skep_message_kind kind)
{
    const struct skep_round_action *action = expect(fixture, SKEP_ROUND_SEND);
    assert_int_equal(action->message.kind, kind);
    return &action->message;
}

static void expect_nothing(struct fixture *fixture)
{
    struct skep_round_action action;
    assert_false(skep_round_take(fixture->round, &action));
}

static void add(struct fixture *fixture, uint8_t number)
{
    struct skep_round_update update = update_of(number);
    skep_round_add(fixture->round, &update, fixture->now_ms);
}

/* What a merge of `count` updates gives in these tests: the second one was left out. */
static struct skep_round_outcome outcome_of(size_t count, const struct skep_hash *state)
{
    struct skep_round_outcome outcome = {.root = *state, .norm = 500};
    for (size_t i = 0; i < count; i++) {
        outcome.updates[i].merged = i != 1;
        outcome.updates[i].agreement_permille = 100 - 150 * (int32_t)i;
    }
    return outcome;
}

static void merged_as(struct fixture *fixture, size_t count,
                      const struct skep_round_outcome *outcome)
{
    struct skep_round_update list[4];
    for (uint8_t i = 0; i < count; i++) {
        list[i] = update_of((uint8_t)(i + 1));
    }
    skep_round_merged(fixture->round, 0, list, count, outcome, fixture->now_ms);
}

static void merged(struct fixture *fixture, size_t count, const struct skep_hash *state)
{
    if (state == NULL) {
        merged_as(fixture, count, NULL);
        return;
    }
    struct skep_round_outcome outcome = outcome_of(count, state);
    merged_as(fixture, count, &outcome);
}

static void tick_after(struct fixture *fixture, uint64_t ms)
{
    fixture->now_ms += ms;
    skep_round_tick(fixture->round, fixture->now_ms);
}

/* The payload of version 1 that merges updates 1 .. count. */
static char *payload_with(const struct fixture *fixture, uint32_t attempt, size_t count,
                          const struct skep_round_outcome *outcome)
{
    struct skep_receipt receipts[4];
    uint64_t credit = skep_credit_micro(&fixture->manifest, &fixture->shard);
    for (uint8_t i = 0; i < count; i++) {
        struct skep_round_update update = update_of((uint8_t)(i + 1));
        const struct skep_round_fate *fate = &outcome->updates[i];
        receipts[i] = (struct skep_receipt){.update = update.hash,
                                            .donor = update.donor,
                                            .credit_micro = fate->merged ? credit : 0,
                                            .merged = fate->merged,
                                            .copy = fate->copy,
                                            .agreement_permille = fate->agreement_permille};
    }
    struct skep_seal seal = {.project = fixture->manifest.project,
                             .shard = fixture->shard,
                             .version = 1,
                             .attempt = attempt,
                             .previous = {{7}},
                             .state = outcome->root,
                             .norm = outcome->norm,
                             .receipt_count = count,
                             .receipts = receipts};
    return skep_seal_encode(&seal);
}

static char *payload_of(const struct fixture *fixture, uint32_t attempt, size_t count)
{
    struct skep_round_outcome outcome = outcome_of(count, &root);
    return payload_with(fixture, attempt, count, &outcome);
}

static struct skep_message message_of(const struct fixture *fixture, size_t from,
                                      enum skep_message_kind kind, uint32_t attempt)
{
    return (struct skep_message){.kind = kind,
                                 .project = fixture->manifest.project,
                                 .shard = fixture->shard,
                                 .version = 1,
                                 .attempt = attempt,
                                 .from = fixture->ids[from]};
}

static void hear(struct fixture *fixture, struct skep_message *message)
{
    skep_round_receive(fixture->round, message, fixture->now_ms);
    skep_message_done(message);
}

static void hear_proposal(struct fixture *fixture, size_t from, uint32_t attempt, char *payload)
{
    struct skep_message message = message_of(fixture, from, SKEP_MESSAGE_PROPOSE, attempt);
    skep_buffer_append_text(&message.seal_payload, payload);
    free(payload);
    hear(fixture, &message);
}

static void hear_vote(struct fixture *fixture, size_t from, uint32_t attempt, char *payload)
{
    struct skep_message message = message_of(fixture, from, SKEP_MESSAGE_VOTE, attempt);
    struct skep_envelope envelope = {0};
    skep_statement_sign(fixture->keys[from], SKEP_TYPE_SEAL, payload, &envelope);
    message.seal_hash = skep_hash_of(payload, strlen(payload));
    memcpy(message.signature, envelope.signatures[0].bytes, sizeof(message.signature));
    skep_envelope_done(&envelope);
    free(payload);
    hear(fixture, &message);
}

static void hear_prepare(struct fixture *fixture, size_t from, uint32_t attempt)
{
    struct skep_message message = message_of(fixture, from, SKEP_MESSAGE_PREPARE, attempt);
    hear(fixture, &message);
}

/* The host stores what COMMIT said. */
static void commit(struct fixture *fixture)
{
    const struct skep_round_action *action = expect(fixture, SKEP_ROUND_COMMIT);
    struct skep_seal seal = {0};
    struct skep_hash link;
    assert_int_equal(skep_seal_open(&action->envelope, &fixture->manifest, &seal, &link, NULL), 0);
    assert_true(skep_hash_equal(&link, &action->hash));
    assert_int_equal(action->list_count, seal.receipt_count);
    skep_round_sealed(fixture->round, &seal, &link, fixture->now_ms);
    skep_seal_done(&seal);
    expect(fixture, SKEP_ROUND_PERSIST);
    assert_int_equal(fixture->memory.version, 1);
    assert_false(fixture->memory.has_vote);
}

static void a_lone_keeper_waits_for_company_then_seals_alone(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, 0);
    assert_true(skep_round_deadline(fixture->round) == UINT64_MAX);
    add(fixture, 1);
    expect_nothing(fixture);
    assert_int_equal(skep_round_deadline(fixture->round), 6000);
    tick_after(fixture, 1000);
    assert_int_equal(expect(fixture, SKEP_ROUND_MERGE)->list_count, 1);
    merged(fixture, 1, &root);
    expect(fixture, SKEP_ROUND_PERSIST);
    assert_true(fixture->memory.has_vote);
    commit(fixture);
    assert_int_equal(skep_round_version(fixture->round), 1);
    assert_int_equal(skep_round_waiting(fixture->round), 0);
    add(fixture, 1); /* merged already */
    expect_nothing(fixture);
    assert_int_equal(skep_round_waiting(fixture->round), 0);
}

static void enough_updates_close_the_window_at_once(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, 0);
    add(fixture, 2);
    struct skep_round_update again = update_of(2); /* the same donor once more does not count */
    again.hash.bytes[1] = 1;
    skep_round_add(fixture->round, &again, fixture->now_ms);
    expect_nothing(fixture);
    add(fixture, 1);
    const struct skep_round_action *action = expect(fixture, SKEP_ROUND_MERGE);
    assert_int_equal(action->list_count, 2);
    assert_int_equal(action->list[0].hash.bytes[0], 1);
    assert_int_equal(action->list[1].hash.bytes[0], 2);
    assert_int_equal(action->list[1].hash.bytes[1], 0);
}

static void a_list_that_cannot_be_merged_is_not_proposed_again(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, 0);
    add(fixture, 1);
    add(fixture, 2);
    expect(fixture, SKEP_ROUND_MERGE);
    merged(fixture, 2, NULL);
    assert_int_equal(skep_round_deadline(fixture->round), 0);
    tick_after(fixture, 0);
    assert_int_equal(expect(fixture, SKEP_ROUND_MERGE)->list_count, 1);
    merged(fixture, 1, NULL);
    tick_after(fixture, 0);
    const struct skep_round_action *action = expect(fixture, SKEP_ROUND_MERGE);
    assert_int_equal(action->list_count, 1);
    assert_int_equal(action->list[0].hash.bytes[0], 2);
}

/* Up to the leader's proposal of updates 1 and 2 in attempt 0. */
static void lead(struct fixture *fixture)
{
    start(fixture, 0);
    add(fixture, 1);
    add(fixture, 2);
    expect(fixture, SKEP_ROUND_MERGE);
    merged(fixture, 2, &root);
}

static void a_leader_persists_its_vote_then_proposes_and_seals_with_a_majority(void **state)
{
    struct fixture *fixture = *state;
    lead(fixture);
    expect(fixture, SKEP_ROUND_PERSIST);
    char *payload = payload_of(fixture, 0, 2);
    const struct skep_message *message = expect_send(fixture, SKEP_MESSAGE_PROPOSE);
    assert_true(fixture->action.to_all);
    assert_int_equal(message->seal_payload.size, strlen(payload));
    assert_memory_equal(message->seal_payload.data, payload, strlen(payload));
    free(payload);
    expect_send(fixture, SKEP_MESSAGE_VOTE);
    expect_nothing(fixture);
    hear_vote(fixture, 2, 0, payload_of(fixture, 0, 2));
    commit(fixture);
    assert_int_equal(expect_send(fixture, SKEP_MESSAGE_SEALED)->version, 1);
    expect_nothing(fixture);
}

static void a_forged_vote_does_not_count(void **state)
{
    struct fixture *fixture = *state;
    lead(fixture);
    expect(fixture, SKEP_ROUND_PERSIST);
    expect_send(fixture, SKEP_MESSAGE_PROPOSE);
    expect_send(fixture, SKEP_MESSAGE_VOTE);
    char *payload = payload_of(fixture, 0, 2);
    struct skep_message message = message_of(fixture, 1, SKEP_MESSAGE_VOTE, 0);
    message.seal_hash = skep_hash_of(payload, strlen(payload));
    free(payload);
    hear(fixture, &message);
    expect_nothing(fixture);
    hear_vote(fixture, 1, 0, payload_of(fixture, 0, 2));
    commit(fixture);
}

static void what_has_no_answer_is_said_again(void **state)
{
    struct fixture *fixture = *state;
    lead(fixture);
    expect(fixture, SKEP_ROUND_PERSIST);
    expect_send(fixture, SKEP_MESSAGE_PROPOSE);
    expect_send(fixture, SKEP_MESSAGE_VOTE);
    assert_int_equal(skep_round_deadline(fixture->round), 5000 + SKEP_ROUND_RESEND_MS);
    tick_after(fixture, SKEP_ROUND_RESEND_MS);
    expect_send(fixture, SKEP_MESSAGE_PROPOSE);
    expect_send(fixture, SKEP_MESSAGE_PROPOSE);
    expect_send(fixture, SKEP_MESSAGE_VOTE);
    expect_nothing(fixture);
}

static void a_voter_fetches_what_it_lacks_and_then_votes(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, 1);
    add(fixture, 1);
    hear_proposal(fixture, 0, 0, payload_of(fixture, 0, 2));
    const struct skep_round_action *action = expect(fixture, SKEP_ROUND_FETCH);
    assert_int_equal(action->hash.bytes[0], 2);
    assert_true(skep_peer_id_equal(&action->peer, &fixture->ids[0]));
    expect_nothing(fixture);
    tick_after(fixture, SKEP_ROUND_RESEND_MS); /* another keeper is asked in between */
    assert_true(skep_peer_id_equal(&expect(fixture, SKEP_ROUND_FETCH)->peer, &fixture->ids[2]));
    add(fixture, 2);
    expect(fixture, SKEP_ROUND_MERGE);
    merged(fixture, 2, &root);
    expect(fixture, SKEP_ROUND_PERSIST);
    char *payload = payload_of(fixture, 0, 2);
    struct skep_hash hash = skep_hash_of(payload, strlen(payload));
    free(payload);
    assert_true(skep_hash_equal(&expect_send(fixture, SKEP_MESSAGE_VOTE)->seal_hash, &hash));
    hear_vote(fixture, 2, 0, payload_of(fixture, 0, 2));
    commit(fixture);
    expect_nothing(fixture); /* it did not lead: others announce */
}

static void another_state_or_credit_gets_no_vote(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, 1);
    add(fixture, 1);
    fixture->manifest.training.steps++; /* another job, another credit */
    char *payload = payload_of(fixture, 0, 1);
    fixture->manifest.training.steps--;
    hear_proposal(fixture, 0, 0, payload);
    expect_nothing(fixture);
    hear_proposal(fixture, 0, 0, payload_of(fixture, 0, 1));
    expect(fixture, SKEP_ROUND_MERGE);
    struct skep_hash other = {{0xbb}};
    merged(fixture, 1, &other);
    expect_nothing(fixture);
    assert_int_equal(skep_round_disagreements(fixture->round), 1);
}

/* One claim of a proposal, changed in its text. */
static void hear_claim(struct fixture *fixture, const char *right, const char *wrong)
{
    char *payload = payload_of(fixture, 0, 1);
    const char *at = strstr(payload, right);
    assert_non_null(at);
    char *changed =
        skep_format("%.*s%s%s", (int)(at - payload), payload, wrong, at + strlen(right));
    free(payload);
    hear_proposal(fixture, 0, 0, changed);
}

#define AUDITED_RIGHT "\"audited\":false"
#define AUDITED_WRONG "\"audited\":true"
#define NO_FINDINGS "\"findings\":[]"

/* A finding on update `number` of its donor. */
static const char *finding_of(char number, const char *verdict)
{
    static char text[300];
    snprintf(text, sizeof(text),
             "\"findings\":[{\"update\":\"0%c%062d\",\"donor\":\"0%c%062d\","
             "\"base_version\":0,\"verdict\":\"%s\"}]",
             number, 0, number, 0, verdict);
    return text;
}

static void claims_without_audits_are_refused(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, 1);
    add(fixture, 1);
    hear_claim(fixture, AUDITED_RIGHT, AUDITED_WRONG);
    hear_claim(fixture, NO_FINDINGS, finding_of('9', "invalid"));
    expect_nothing(fixture);
    hear_proposal(fixture, 0, 0, payload_of(fixture, 0, 1));
    expect(fixture, SKEP_ROUND_MERGE);
}

static void find_out(struct fixture *fixture, uint8_t number, bool valid)
{
    struct skep_round_update update = update_of(number);
    skep_round_verdict(fixture->round, &update, valid, fixture->now_ms);
}

/* A voter with update 1 that hears of attempt 0 with this claim, and merges it. */
static void doubt(struct fixture *fixture, const char *right, const char *wrong)
{
    fixture->manifest.trust.audits = true;
    start(fixture, 1);
    add(fixture, 1);
    hear_claim(fixture, right, wrong);
    expect(fixture, SKEP_ROUND_MERGE);
    merged(fixture, 1, &root);
}

static void expect_vote(struct fixture *fixture)
{
    expect(fixture, SKEP_ROUND_PERSIST);
    expect_send(fixture, SKEP_MESSAGE_VOTE);
    expect_nothing(fixture);
    fixture->memory.has_vote = false;
    fixture->memory.promised = 0;
}

static void a_voter_waits_for_its_own_verdict_and_then_votes(void **state)
{
    struct fixture *fixture = *state;
    doubt(fixture, AUDITED_RIGHT, AUDITED_WRONG);
    expect_nothing(fixture);
    find_out(fixture, 2, true); /* of another */
    expect_nothing(fixture);
    find_out(fixture, 1, true);
    expect_vote(fixture);
    doubt(fixture, NO_FINDINGS, finding_of('9', "invalid"));
    expect_nothing(fixture);
    find_out(fixture, 9, false);
    expect_vote(fixture);
    assert_int_equal(skep_round_disagreements(fixture->round), 0);
}

static void a_claim_that_is_not_what_was_found_here_gets_no_vote(void **state)
{
    struct fixture *fixture = *state;
    doubt(fixture, AUDITED_RIGHT, AUDITED_WRONG);
    find_out(fixture, 1, false);
    expect_nothing(fixture);
    doubt(fixture, NO_FINDINGS, finding_of('9', "invalid"));
    find_out(fixture, 9, true);
    find_out(fixture, 9, false); /* the first verdict stays */
    expect_nothing(fixture);
    doubt(fixture, NO_FINDINGS, finding_of('9', "valid"));
    find_out(fixture, 9, false);
    expect_nothing(fixture);
    /* The right update, said to be another donor's. */
    doubt(fixture, NO_FINDINGS, finding_of('9', "invalid"));
    struct skep_round_update update = update_of(9);
    update.donor.bytes[0] = 8;
    skep_round_verdict(fixture->round, &update, false, fixture->now_ms);
    expect_nothing(fixture);
}

static void no_finding_is_about_an_update_of_the_list(void **state)
{
    struct fixture *fixture = *state;
    fixture->manifest.trust.audits = true;
    start(fixture, 1);
    add(fixture, 1);
    find_out(fixture, 1, true);
    hear_claim(fixture, NO_FINDINGS, finding_of('1', "valid"));
    expect_nothing(fixture);
}

static void experts_seals_hold_no_verdicts(void **state)
{
    struct fixture *fixture = *state;
    fixture->manifest.trust.audits = true;
    fixture->shard = (struct skep_shard){.kind = SKEP_SHARD_FFN, .row = 0, .column = 0};
    struct skep_replicas replicas = skep_replicas_of(&fixture->manifest, &fixture->shard);
    struct skep_peer_id leader =
        skep_replicas_leader(&replicas, &fixture->shard, &fixture->memory.head, 0);
    size_t from = 0;
    while (!skep_peer_id_equal(&fixture->ids[from], &leader)) {
        from++;
    }
    start(fixture, (from + 1) % KEEPERS);
    add(fixture, 1);
    find_out(fixture, 9, false);
    char *payload = payload_of(fixture, 0, 1);
    const char *at = strstr(payload, NO_FINDINGS);
    assert_non_null(at);
    char *changed = skep_format("%.*s%s%s", (int)(at - payload), payload,
                                finding_of('9', "invalid"), at + strlen(NO_FINDINGS));
    free(payload);
    hear_proposal(fixture, from, 0, changed);
    expect_nothing(fixture);
    hear_proposal(fixture, from, 0, payload_of(fixture, 0, 1));
    expect(fixture, SKEP_ROUND_MERGE);
}

/* What the proposal that comes next claims. */
static struct skep_seal expect_claims(struct fixture *fixture)
{
    expect(fixture, SKEP_ROUND_PERSIST);
    const struct skep_message *message = expect_send(fixture, SKEP_MESSAGE_PROPOSE);
    struct skep_seal seal = {0};
    assert_int_equal(
        skep_seal_decode(message->seal_payload.data, message->seal_payload.size, &seal, NULL), 0);
    return seal;
}

static void a_leader_claims_what_it_has_known_for_some_time(void **state)
{
    struct fixture *fixture = *state;
    fixture->manifest.trust.audits = true;
    start(fixture, 0);
    find_out(fixture, 9, false);
    find_out(fixture, 8, true);
    find_out(fixture, 1, true);
    tick_after(fixture, SKEP_ROUND_VERDICT_MS);
    find_out(fixture, 2, true); /* too new */
    find_out(fixture, 7, false);
    add(fixture, 1);
    add(fixture, 2);
    expect(fixture, SKEP_ROUND_MERGE);
    merged(fixture, 2, &root);
    struct skep_seal seal = expect_claims(fixture);
    assert_true(seal.receipts[0].audited);
    assert_false(seal.receipts[1].audited);
    assert_int_equal(seal.finding_count, 2);
    assert_int_equal(seal.findings[0].update.bytes[0], 8);
    assert_int_equal(seal.findings[0].verdict, SKEP_VERDICT_VALID);
    assert_int_equal(seal.findings[1].update.bytes[0], 9);
    assert_int_equal(seal.findings[1].verdict, SKEP_VERDICT_INVALID);
    skep_seal_done(&seal);
}

static void what_waits_for_a_later_list_is_no_finding_yet(void **state)
{
    struct fixture *fixture = *state;
    fixture->manifest.trust.audits = true;
    fixture->manifest.merge.most_updates = 1;
    start(fixture, 0);
    find_out(fixture, 1, true);
    find_out(fixture, 2, true);
    tick_after(fixture, SKEP_ROUND_VERDICT_MS);
    struct skep_round_update update = update_of(2);
    add(fixture, 1);
    expect(fixture, SKEP_ROUND_MERGE);
    skep_round_add(fixture->round, &update, fixture->now_ms);
    merged(fixture, 1, &root);
    struct skep_seal seal = expect_claims(fixture);
    assert_true(seal.receipts[0].audited);
    assert_int_equal(seal.finding_count, 0);
    skep_seal_done(&seal);
}

static void a_lone_keeper_claims_at_once_and_each_verdict_once(void **state)
{
    struct fixture *fixture = *state;
    fixture->manifest.trust.audits = true;
    start(fixture, 0);
    find_out(fixture, 9, false);
    struct skep_round_update banned = update_of(9);
    banned.hash.bytes[1] = 1;
    skep_round_add(fixture->round, &banned, fixture->now_ms); /* another one of the same donor */
    skep_round_ban(fixture->round, &banned.donor);
    add(fixture, 1);
    tick_after(fixture, 1000);
    assert_int_equal(expect(fixture, SKEP_ROUND_MERGE)->list_count, 1);
    merged(fixture, 1, &root);
    expect(fixture, SKEP_ROUND_PERSIST);
    struct skep_seal seal = {0};
    const struct skep_buffer *payload = &fixture->memory.vote_payload;
    assert_int_equal(skep_seal_decode(payload->data, payload->size, &seal, NULL), 0);
    assert_int_equal(seal.finding_count, 1);
    skep_seal_done(&seal);
    commit(fixture);
    assert_int_equal(skep_round_waiting(fixture->round), 0);
    struct skep_round_update next = update_of(2);
    next.base_version = 1;
    skep_round_add(fixture->round, &next, fixture->now_ms);
    tick_after(fixture, 1000);
    expect(fixture, SKEP_ROUND_MERGE);
    struct skep_round_outcome outcome = outcome_of(1, &root);
    skep_round_merged(fixture->round, 1, &next, 1, &outcome, fixture->now_ms);
    expect(fixture, SKEP_ROUND_PERSIST);
    payload = &fixture->memory.vote_payload;
    assert_int_equal(skep_seal_decode(payload->data, payload->size, &seal, NULL), 0);
    assert_int_equal(seal.finding_count, 0);
    skep_seal_done(&seal);
}

static void a_sealed_ban_ends_what_waits_here_whatever_was_found_here(void **state)
{
    struct fixture *fixture = *state;
    fixture->manifest.trust.audits = true;
    start(fixture, 1);
    add(fixture, 1);
    struct skep_round_update waiting = update_of(9);
    waiting.hash.bytes[1] = 1;
    skep_round_add(fixture->round, &waiting, fixture->now_ms);
    find_out(fixture, 9, true);
    struct skep_seal seal = {.project = fixture->manifest.project,
                             .shard = fixture->shard,
                             .version = 1,
                             .previous = {{7}},
                             .finding_count = 1};
    struct skep_finding finding = {
        .update = {{9}}, .donor = {{9}}, .verdict = SKEP_VERDICT_INVALID};
    seal.findings = &finding;
    struct skep_hash link = skep_seal_hash(&seal);
    assert_int_equal(skep_round_waiting(fixture->round), 2);
    skep_round_sealed(fixture->round, &seal, &link, fixture->now_ms);
    assert_int_equal(skep_round_waiting(fixture->round), 1);
}

/* Lets attempt 0 fail and leads attempt 1; what it asks for besides is dropped. */
static void enter_attempt_1(struct fixture *fixture)
{
    tick_after(fixture, 20000);
    struct skep_round_action action;
    while (skep_round_take(fixture->round, &action)) {
        skep_round_action_done(&action);
    }
}

static void hear_promise(struct fixture *fixture, size_t from, char *vote)
{
    struct skep_message promise = message_of(fixture, from, SKEP_MESSAGE_PROMISE, 1);
    if (vote != NULL) {
        promise.has_vote = true;
        skep_buffer_append_text(&promise.seal_payload, vote);
        free(vote);
    }
    hear(fixture, &promise);
}

static void a_later_attempt_claims_nothing(void **state)
{
    struct fixture *fixture = *state;
    fixture->manifest.trust.audits = true;
    start(fixture, 1);
    find_out(fixture, 9, false);
    find_out(fixture, 1, true);
    tick_after(fixture, SKEP_ROUND_VERDICT_MS);
    add(fixture, 1);
    tick_after(fixture, 1000);
    enter_attempt_1(fixture);
    hear_promise(fixture, 2, NULL);
    expect(fixture, SKEP_ROUND_MERGE);
    merged(fixture, 1, &root);
    struct skep_seal seal = expect_claims(fixture);
    assert_int_equal(seal.finding_count, 0);
    assert_false(seal.receipts[0].audited);
    skep_seal_done(&seal);
}

static char *payload_that_claims(const struct fixture *fixture, const char *claim)
{
    char *payload = payload_of(fixture, 0, 1);
    const char *at = strstr(payload, NO_FINDINGS);
    char *changed =
        skep_format("%.*s%s%s", (int)(at - payload), payload, claim, at + strlen(NO_FINDINGS));
    free(payload);
    return changed;
}

static void a_later_leader_keeps_claims_that_it_knows(void **state)
{
    struct fixture *fixture = *state;
    fixture->manifest.trust.audits = true;
    start(fixture, 1);
    find_out(fixture, 9, false);
    add(fixture, 1);
    tick_after(fixture, 1000);
    enter_attempt_1(fixture);
    hear_promise(fixture, 2, payload_that_claims(fixture, finding_of('9', "invalid")));
    expect(fixture, SKEP_ROUND_MERGE);
    merged(fixture, 1, &root);
    struct skep_seal seal = expect_claims(fixture);
    assert_int_equal(seal.finding_count, 1);
    skep_seal_done(&seal);
}

static void a_vote_for_claims_that_a_later_leader_does_not_know_is_set_aside(void **state)
{
    struct fixture *fixture = *state;
    fixture->manifest.trust.audits = true;
    start(fixture, 1);
    add(fixture, 1);
    tick_after(fixture, 1000);
    enter_attempt_1(fixture);
    hear_promise(fixture, 0, payload_that_claims(fixture, finding_of('9', "invalid")));
    tick_after(fixture, 0);
    expect_send(fixture, SKEP_MESSAGE_PREPARE); /* all are asked anew */
    hear_promise(fixture, 0, payload_that_claims(fixture, finding_of('9', "invalid")));
    expect_nothing(fixture); /* not enough without it */
    hear_promise(fixture, 2, NULL);
    expect(fixture, SKEP_ROUND_MERGE);
    merged(fixture, 1, &root);
    struct skep_seal seal = expect_claims(fixture);
    assert_int_equal(seal.finding_count, 0);
    skep_seal_done(&seal);
}

static void
what_was_found_invalid_here_is_not_proposed_and_is_voted_for_when_it_is_given_to_us(void **state)
{
    struct fixture *fixture = *state;
    fixture->manifest.trust.audits = true;
    start(fixture, 0);
    add(fixture, 2);
    find_out(fixture, 2, false);
    find_out(fixture, 3, false);
    add(fixture, 3);
    tick_after(fixture, 1000);
    expect_nothing(fixture);
    add(fixture, 1);
    tick_after(fixture, 1000);
    const struct skep_round_action *action = expect(fixture, SKEP_ROUND_MERGE);
    assert_int_equal(action->list_count, 1);
    assert_int_equal(action->list[0].hash.bytes[0], 1);
    start(fixture, 1);
    find_out(fixture, 1, false);
    hear_proposal(fixture, 0, 0, payload_of(fixture, 0, 1));
    expect(fixture, SKEP_ROUND_FETCH);
    expect_nothing(fixture);
    add(fixture, 1);
    expect(fixture, SKEP_ROUND_MERGE);
    merged(fixture, 1, &root);
    expect_vote(fixture);
}

static void a_vote_for_what_was_found_invalid_here_is_set_aside(void **state)
{
    struct fixture *fixture = *state;
    fixture->manifest.trust.audits = true;
    start(fixture, 1);
    find_out(fixture, 2, false);
    add(fixture, 1);
    tick_after(fixture, 1000);
    enter_attempt_1(fixture);
    hear_promise(fixture, 0, payload_of(fixture, 0, 2));
    tick_after(fixture, 0);
    expect_send(fixture, SKEP_MESSAGE_PREPARE); /* all are asked anew */
    hear_promise(fixture, 0, payload_of(fixture, 0, 2));
    expect_nothing(fixture);
    hear_promise(fixture, 2, NULL);
    assert_int_equal(expect(fixture, SKEP_ROUND_MERGE)->list_count, 1);
}

/* Seals version `version`, a list of one, as all the others; returns how many findings the leader's proposal for it had. */
static size_t findings_of_next(struct fixture *fixture, uint64_t version)
{
    struct skep_round_update update = update_of(1);
    update.hash.bytes[1] = (uint8_t)version;
    update.base_version = version - 1;
    skep_round_add(fixture->round, &update, fixture->now_ms);
    tick_after(fixture, 1000);
    struct skep_round_outcome outcome = outcome_of(1, &root);
    skep_round_merged(fixture->round, version - 1, &update, 1, &outcome, fixture->now_ms);
    size_t findings = SIZE_MAX;
    struct skep_round_action action;
    while (skep_round_take(fixture->round, &action)) {
        struct skep_seal seal = {0};
        if (action.kind == SKEP_ROUND_SEND && action.message.kind == SKEP_MESSAGE_PROPOSE) {
            const struct skep_buffer *payload = &action.message.seal_payload;
            assert_int_equal(skep_seal_decode(payload->data, payload->size, &seal, NULL), 0);
            findings = seal.finding_count;
        }
        skep_seal_done(&seal);
        skep_round_action_done(&action);
    }
    return findings;
}

/* Another leader's seal of this version ends it. */
static struct skep_hash seal_otherwise(struct fixture *fixture, uint64_t version,
                                       const struct skep_hash *previous)
{
    fixture->now_ms += 20000;
    skep_round_tick(fixture->round, fixture->now_ms);
    struct skep_seal seal = {.project = fixture->manifest.project,
                             .shard = fixture->shard,
                             .version = version,
                             .previous = *previous};
    struct skep_hash link = skep_seal_hash(&seal);
    skep_round_sealed(fixture->round, &seal, &link, fixture->now_ms);
    struct skep_round_action action;
    while (skep_round_take(fixture->round, &action)) {
        skep_round_action_done(&action);
    }
    return link;
}

static void claims_that_nobody_shares_make_pauses_and_get_fewer(void **state)
{
    struct fixture *fixture = *state;
    fixture->manifest.trust.audits = true;
    start(fixture, 0);
    for (uint8_t i = 50; i < 80; i++) {
        find_out(fixture, i, false);
    }
    fixture->now_ms += SKEP_ROUND_VERDICT_MS;
    struct skep_hash head = {{7}};
    size_t claimed[3];
    uint64_t when[3];
    size_t times = 0;
    for (uint64_t version = 1; version < 40 && times < 3; version++) {
        size_t findings = findings_of_next(fixture, version);
        if (findings != SIZE_MAX && findings > 0) {
            claimed[times] = findings;
            when[times++] = version;
        }
        head = seal_otherwise(fixture, version, &head);
    }
    assert_int_equal(times, 3);
    assert_int_equal(claimed[0], 30);
    assert_true(claimed[1] >= 30); /* 32 would be allowed */
    assert_int_equal(claimed[2], 8);
    assert_true(when[1] >= when[0] + 2);
    assert_true(when[2] >= when[1] + 4);
}

/* What a lying leader may say of two updates, in otherwise the right seal. */
static void lie(struct fixture *fixture, void (*twist)(struct skep_round_outcome *outcome))
{
    struct skep_round_outcome outcome = outcome_of(2, &root);
    twist(&outcome);
    start(fixture, 1);
    add(fixture, 1);
    add(fixture, 2);
    hear_proposal(fixture, 0, 0, payload_with(fixture, 0, 2, &outcome));
    expect(fixture, SKEP_ROUND_MERGE);
    merged(fixture, 2, &root);
    expect_nothing(fixture);
    assert_int_equal(skep_round_disagreements(fixture->round), 1);
    tick_after(fixture, 1); /* counted once */
    assert_int_equal(skep_round_disagreements(fixture->round), 1);
}

static void merge_the_one_left_out(struct skep_round_outcome *outcome)
{
    outcome->updates[1].merged = true;
}

static void leave_out_the_merged_one(struct skep_round_outcome *outcome)
{
    outcome->updates[0].merged = false;
}

static void call_it_a_copy(struct skep_round_outcome *outcome)
{
    outcome->updates[1].copy = true;
}

static void change_an_agreement(struct skep_round_outcome *outcome)
{
    outcome->updates[1].agreement_permille++;
}

static void change_the_norm(struct skep_round_outcome *outcome)
{
    outcome->norm--;
}

static void a_leader_that_states_another_outcome_gets_no_vote(void **state)
{
    struct fixture *fixture = *state;
    lie(fixture, merge_the_one_left_out);
    lie(fixture, leave_out_the_merged_one);
    lie(fixture, call_it_a_copy);
    lie(fixture, change_an_agreement);
    lie(fixture, change_the_norm);
}

static void a_norm_beyond_what_a_seal_can_say_is_written_as_the_most(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, 0);
    add(fixture, 1);
    add(fixture, 2);
    expect(fixture, SKEP_ROUND_MERGE);
    struct skep_round_outcome outcome = outcome_of(2, &root);
    outcome.norm = UINT64_MAX;
    merged_as(fixture, 2, &outcome);
    expect(fixture, SKEP_ROUND_PERSIST);
    const struct skep_message *message = expect_send(fixture, SKEP_MESSAGE_PROPOSE);
    struct skep_seal seal = {0};
    assert_int_equal(
        skep_seal_decode(message->seal_payload.data, message->seal_payload.size, &seal, NULL), 0);
    assert_true(seal.norm == SKEP_NORM_MOST);
    skep_seal_done(&seal);
}

static void only_the_leader_of_an_attempt_is_listened_to(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, 1);
    add(fixture, 1);
    hear_proposal(fixture, 2, 0, payload_of(fixture, 0, 1));
    hear_prepare(fixture, 0, 2);
    hear_prepare(fixture, 0, 0);
    expect_nothing(fixture);
}

static void a_promise_is_persisted_and_closes_earlier_attempts(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, 1);
    add(fixture, 1);
    hear_prepare(fixture, 2, 2);
    expect(fixture, SKEP_ROUND_PERSIST);
    assert_int_equal(fixture->memory.promised, 2);
    assert_false(expect_send(fixture, SKEP_MESSAGE_PROMISE)->has_vote);
    hear_prepare(fixture, 2, 2); /* asked again: nothing new to write */
    expect_send(fixture, SKEP_MESSAGE_PROMISE);
    hear_proposal(fixture, 0, 0, payload_of(fixture, 0, 1));
    expect(fixture, SKEP_ROUND_MERGE); /* it may be sealed all the same */
    merged(fixture, 1, &root);
    expect_nothing(fixture);
    start(fixture, 1); /* and a restart does not forget it */
    add(fixture, 1);
    tick_after(fixture, 0);
    expect_send(fixture, SKEP_MESSAGE_PROMISE);
    hear_proposal(fixture, 0, 0, payload_of(fixture, 0, 1));
    expect(fixture, SKEP_ROUND_MERGE);
    merged(fixture, 1, &root);
    expect_nothing(fixture);
}

static void a_vote_survives_a_restart_and_is_told_in_promises(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, 1);
    add(fixture, 1);
    hear_proposal(fixture, 0, 0, payload_of(fixture, 0, 1));
    expect(fixture, SKEP_ROUND_MERGE);
    merged(fixture, 1, &root);
    expect(fixture, SKEP_ROUND_PERSIST);
    start(fixture, 1); /* before the vote was sent */
    assert_int_equal(skep_round_deadline(fixture->round), 0);
    add(fixture, 1);
    expect(fixture, SKEP_ROUND_MERGE);
    expect_send(fixture, SKEP_MESSAGE_VOTE);
    hear_prepare(fixture, 2, 2);
    expect(fixture, SKEP_ROUND_PERSIST);
    const struct skep_message *promise = expect_send(fixture, SKEP_MESSAGE_PROMISE);
    assert_true(promise->has_vote);
    assert_int_equal(promise->vote_attempt, 0);
    char *payload = payload_of(fixture, 0, 1);
    assert_memory_equal(promise->seal_payload.data, payload, promise->seal_payload.size);
    free(payload);
}

static void a_leader_that_restarts_proposes_the_same_again(void **state)
{
    struct fixture *fixture = *state;
    lead(fixture);
    expect(fixture, SKEP_ROUND_PERSIST);
    start(fixture, 0);
    add(fixture, 3); /* would be another list */
    char *payload = payload_of(fixture, 0, 2);
    bool proposed = false;
    struct skep_round_action action;
    while (skep_round_take(fixture->round, &action)) {
        if (action.kind == SKEP_ROUND_SEND && action.message.kind == SKEP_MESSAGE_PROPOSE) {
            proposed = true;
            assert_memory_equal(action.message.seal_payload.data, payload, strlen(payload));
        }
        skep_round_action_done(&action);
    }
    assert_true(proposed);
    free(payload);
}

static void a_later_leader_proposes_the_list_that_may_be_sealed(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, 1);
    add(fixture, 3);
    tick_after(fixture, 1000); /* the window ends; the leader of attempt 0 is silent */
    expect_nothing(fixture);
    tick_after(fixture, SKEP_ROUND_ATTEMPT_MS);
    expect(fixture, SKEP_ROUND_PERSIST);
    assert_int_equal(fixture->memory.promised, 1);
    assert_int_equal(expect_send(fixture, SKEP_MESSAGE_PREPARE)->attempt, 1);
    skep_round_action_done(&fixture->action);
    struct skep_round_action action;
    memset(&fixture->action, 0, sizeof(fixture->action));
    while (skep_round_take(fixture->round, &action)) {
        skep_round_action_done(&action); /* said again: the tick was late for that, too */
    }
    struct skep_message promise = message_of(fixture, 2, SKEP_MESSAGE_PROMISE, 1);
    char *payload = payload_of(fixture, 0, 1);
    promise.has_vote = true;
    skep_buffer_append_text(&promise.seal_payload, payload);
    free(payload);
    hear(fixture, &promise);
    const struct skep_round_action *fetch = expect(fixture, SKEP_ROUND_FETCH);
    assert_true(skep_peer_id_equal(&fetch->peer, &fixture->ids[2]));
    add(fixture, 1);
    assert_int_equal(expect(fixture, SKEP_ROUND_MERGE)->list_count, 1);
    merged(fixture, 1, &root);
    expect(fixture, SKEP_ROUND_PERSIST);
    payload = payload_of(fixture, 1, 1);
    const struct skep_message *message = expect_send(fixture, SKEP_MESSAGE_PROPOSE);
    assert_int_equal(message->seal_payload.size, strlen(payload));
    assert_memory_equal(message->seal_payload.data, payload, strlen(payload));
    free(payload);
}

static void a_keeper_that_is_behind_asks_for_what_is_newer(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, 1);
    struct skep_message message = message_of(fixture, 2, SKEP_MESSAGE_VOTE, 0);
    message.version = 4;
    hear(fixture, &message);
    assert_true(skep_peer_id_equal(&expect(fixture, SKEP_ROUND_CATCH_UP)->peer, &fixture->ids[2]));
    message = message_of(fixture, 2, SKEP_MESSAGE_VOTE, 0);
    message.version = 4;
    hear(fixture, &message);
    expect_nothing(fixture); /* not for every message */
    assert_int_equal(skep_round_deadline(fixture->round), 5000 + SKEP_ROUND_RESEND_MS);
    tick_after(fixture, SKEP_ROUND_RESEND_MS);
    expect(fixture, SKEP_ROUND_CATCH_UP);
}

static void a_keeper_that_asks_about_a_sealed_version_gets_its_seal(void **state)
{
    struct fixture *fixture = *state;
    fixture->memory.version = 3;
    start(fixture, 1);
    hear_prepare(fixture, 0, 4);
    const struct skep_round_action *action = expect(fixture, SKEP_ROUND_ANSWER_SEALED);
    assert_int_equal(action->version, 1);
    assert_true(skep_peer_id_equal(&action->peer, &fixture->ids[0]));
    hear_prepare(fixture, 0, 4);
    expect_nothing(fixture);
}

static void hear_sealed(struct fixture *fixture)
{
    struct skep_message message = message_of(fixture, 0, SKEP_MESSAGE_SEALED, 0);
    char *payload = payload_of(fixture, 0, 1);
    skep_envelope_init(&message.sealed, SKEP_TYPE_SEAL, payload, strlen(payload));
    for (size_t i = 0; i < KEEPERS; i += 2) {
        struct skep_envelope one = {0};
        skep_statement_sign(fixture->keys[i], SKEP_TYPE_SEAL, payload, &one);
        skep_envelope_add(&message.sealed, &fixture->ids[i], one.signatures[0].bytes);
        skep_envelope_done(&one);
    }
    free(payload);
    hear(fixture, &message);
}

static void a_seal_is_stored_once_its_list_is_merged_here(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, 1);
    add(fixture, 1);
    hear_sealed(fixture);
    expect(fixture, SKEP_ROUND_MERGE);
    merged(fixture, 1, &root);
    commit(fixture);
    expect_nothing(fixture);
}

static void a_seal_whose_updates_are_gone_is_caught_up_with(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, 1);
    hear_sealed(fixture);
    expect(fixture, SKEP_ROUND_FETCH);
    tick_after(fixture, SKEP_ROUND_RESEND_MS);
    expect(fixture, SKEP_ROUND_FETCH);
    tick_after(fixture, SKEP_ROUND_RESEND_MS);
    expect(fixture, SKEP_ROUND_FETCH);
    assert_true(skep_peer_id_equal(&expect(fixture, SKEP_ROUND_CATCH_UP)->peer, &fixture->ids[0]));
}

static void nothing_to_agree_on_means_silence(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, 1);
    hear_prepare(fixture, 2, 2);
    expect(fixture, SKEP_ROUND_PERSIST);
    expect_send(fixture, SKEP_MESSAGE_PROMISE);
    tick_after(fixture, 20000);
    expect_nothing(fixture);
    assert_true(skep_round_deadline(fixture->round) == UINT64_MAX);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lone_keeper_waits_for_company_then_seals_alone,
                                        set_up_alone, tear_down),
        CASE(enough_updates_close_the_window_at_once),
        CASE(a_list_that_cannot_be_merged_is_not_proposed_again),
        CASE(a_leader_persists_its_vote_then_proposes_and_seals_with_a_majority),
        CASE(a_forged_vote_does_not_count),
        CASE(what_has_no_answer_is_said_again),
        CASE(a_voter_fetches_what_it_lacks_and_then_votes),
        CASE(another_state_or_credit_gets_no_vote),
        CASE(claims_without_audits_are_refused),
        CASE(a_voter_waits_for_its_own_verdict_and_then_votes),
        CASE(a_claim_that_is_not_what_was_found_here_gets_no_vote),
        CASE(no_finding_is_about_an_update_of_the_list),
        CASE(experts_seals_hold_no_verdicts),
        CASE(a_leader_claims_what_it_has_known_for_some_time),
        CASE(what_waits_for_a_later_list_is_no_finding_yet),
        cmocka_unit_test_setup_teardown(a_lone_keeper_claims_at_once_and_each_verdict_once,
                                        set_up_alone, tear_down),
        CASE(a_sealed_ban_ends_what_waits_here_whatever_was_found_here),
        CASE(a_later_attempt_claims_nothing),
        CASE(a_later_leader_keeps_claims_that_it_knows),
        CASE(what_was_found_invalid_here_is_not_proposed_and_is_voted_for_when_it_is_given_to_us),
        CASE(a_vote_for_what_was_found_invalid_here_is_set_aside),
        CASE(a_vote_for_claims_that_a_later_leader_does_not_know_is_set_aside),
        CASE(claims_that_nobody_shares_make_pauses_and_get_fewer),
        CASE(a_leader_that_states_another_outcome_gets_no_vote),
        CASE(a_norm_beyond_what_a_seal_can_say_is_written_as_the_most),
        CASE(only_the_leader_of_an_attempt_is_listened_to),
        CASE(a_promise_is_persisted_and_closes_earlier_attempts),
        CASE(a_vote_survives_a_restart_and_is_told_in_promises),
        CASE(a_leader_that_restarts_proposes_the_same_again),
        CASE(a_later_leader_proposes_the_list_that_may_be_sealed),
        CASE(a_keeper_that_is_behind_asks_for_what_is_newer),
        CASE(a_keeper_that_asks_about_a_sealed_version_gets_its_seal),
        CASE(a_seal_is_stored_once_its_list_is_merged_here),
        CASE(a_seal_whose_updates_are_gone_is_caught_up_with),
        CASE(nothing_to_agree_on_means_silence),
    };
    return cmocka_run_group_tests_name("round", tests, NULL, NULL);
}
