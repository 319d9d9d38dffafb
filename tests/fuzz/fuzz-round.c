/*
 * The round machine of one keeper: the bytes are what happens to it, and the target is its host. The first four bytes choose the set
 * and the limits; then each event is a byte saying which and the few bytes it needs (see `happen`). The other keepers lie as they
 * please, with signatures that anyone could forge (tests/sim/fake-key.c).
 *
 * Promises: no crash; the queue of actions and the updates held stay bounded; a promise or vote once on the disk is not taken back or
 * changed, also over restarts; what is sent was on the disk before; what is committed is signed by a majority and follows the head.
 */
#include "common/base/bytes.h"
#include "common/base/limits.h"
#include "common/crypto/hash.h"
#include "common/swarm/credit.h"
#include "common/swarm/round.h"
#include "common/swarm/statement.h"
#include "tests/fuzz/fuzz.h"

#define KEEPERS_MOST 4
#define EVENTS_MOST 400
#define VERSIONS_KEPT (SKEP_LIMIT_STALENESS + 1)
#define LIST_MOST 8 /* updates that a seal made up here names: one for each bit of a byte */
#define MERGES_MOST 8
#define NORM 500 /* of each round */
/* All fetches of a list, and a few messages, persists and merges. */
#define ACTIONS_MOST (2 * SKEP_LIMIT_UPDATES_PER_ROUND + 32)
#define HELD_MOST (SKEP_LIMIT_PENDING_UPDATES + 2 * SKEP_LIMIT_UPDATES_PER_ROUND)

const char *const fuzz_sentence = "a round keeps its promises whatever the other keepers say";

struct merge {
    uint64_t base;
    size_t count;
    struct skep_round_update *list;
};

struct host {
    struct skep_reader bytes;
    size_t me;
    struct skep_key *keys[KEEPERS_MOST];
    struct skep_peer_id ids[KEEPERS_MOST];
    struct skep_manifest manifest;
    struct skep_shard shard;
    struct skep_round *round;
    uint64_t now_ms;
    size_t merge_count; /* asked for and not answered */
    struct merge merges[MERGES_MOST];
    /* the disk */
    struct skep_round_memory memory;
    struct skep_seal recent[VERSIONS_KEPT];
};

static uint8_t next(struct host *host)
{
    return skep_read_u8(&host->bytes);
}

/* ---- the host: what the machine asks for ---- */

static void check_progress(const struct skep_round_memory *before,
                           const struct skep_round_memory *after)
{
    FUZZ_CHECK(after->version >= before->version);
    if (after->version > before->version) {
        return;
    }
    FUZZ_CHECK(after->promised >= before->promised);
    if (!before->has_vote) {
        return;
    }
    FUZZ_CHECK(after->has_vote && after->vote_attempt >= before->vote_attempt);
    if (after->vote_attempt == before->vote_attempt) {
        FUZZ_CHECK(after->vote_payload.size == before->vote_payload.size);
        FUZZ_CHECK(memcmp(after->vote_payload.data, before->vote_payload.data,
                          before->vote_payload.size) == 0);
    } else {
        FUZZ_CHECK(after->vote_attempt >= before->promised);
    }
}

/* Takes the action's memory. */
static void persist(struct host *host, struct skep_round_memory *take_memory)
{
    check_progress(&host->memory, take_memory);
    FUZZ_CHECK(skep_hash_equal(&host->memory.head, &take_memory->head));
    skep_buffer_done(&host->memory.vote_payload);
    host->memory = *take_memory;
    take_memory->vote_payload = (struct skep_buffer){0};
}

/* What a message says of us is on the disk, and others can read it. */
static void check_sent(const struct host *host, const struct skep_message *message)
{
    const struct skep_round_memory *disk = &host->memory;
    if (message->kind == SKEP_MESSAGE_SEALED) {
        FUZZ_CHECK(message->version <= disk->version);
    } else {
        FUZZ_CHECK(message->version == disk->version + 1);
    }
    if (message->kind == SKEP_MESSAGE_PREPARE || message->kind == SKEP_MESSAGE_PROMISE) {
        FUZZ_CHECK(disk->promised >= message->attempt);
    }
    if (message->kind == SKEP_MESSAGE_VOTE || message->kind == SKEP_MESSAGE_PROPOSE) {
        FUZZ_CHECK(disk->has_vote && disk->vote_attempt == message->attempt);
    }
    struct skep_message again = {0};
    char *text = skep_message_encode(message);
    FUZZ_CHECK(skep_message_decode(text, strlen(text), &again, NULL) == SKEP_OK);
    free(text);
    skep_message_done(&again);
}

/* The seal becomes the head: on the disk first, then told to the machine. */
static void store_seal(struct host *host, const struct skep_seal *seal,
                       const struct skep_hash *link)
{
    struct skep_seal *place = &host->recent[seal->version % VERSIONS_KEPT];
    skep_seal_done(place);
    skep_seal_copy(seal, place);
    skep_buffer_done(&host->memory.vote_payload);
    host->memory = (struct skep_round_memory){.version = seal->version, .head = *link};
    skep_round_sealed(host->round, seal, link, host->now_ms);
}

static void commit(struct host *host, const struct skep_round_action *action)
{
    struct skep_seal seal = {0};
    struct skep_hash link;
    FUZZ_CHECK(skep_seal_open(&action->envelope, &host->manifest, &seal, &link, NULL) == SKEP_OK);
    FUZZ_CHECK(skep_hash_equal(&link, &action->hash));
    FUZZ_CHECK(seal.version == host->memory.version + 1);
    FUZZ_CHECK(skep_hash_equal(&seal.previous, &host->memory.head));
    FUZZ_CHECK(seal.receipt_count == action->list_count);
    store_seal(host, &seal, &link);
    skep_seal_done(&seal);
}

/* Takes the action's list. The oldest merge is forgotten if there are too many, as a crashed merge would be. */
static void note_merge(struct host *host, struct skep_round_action *action)
{
    FUZZ_CHECK(action->list_count > 0 && action->list_count <= SKEP_LIMIT_UPDATES_PER_ROUND);
    if (host->merge_count == MERGES_MOST) {
        free(host->merges[0].list);
        host->merge_count--;
        memmove(host->merges, host->merges + 1, host->merge_count * sizeof host->merges[0]);
    }
    host->merges[host->merge_count++] =
        (struct merge){action->version - 1, action->list_count, action->list};
    action->list = NULL;
}

static void carry_out(struct host *host, struct skep_round_action *action)
{
    switch (action->kind) {
    case SKEP_ROUND_MERGE:
        note_merge(host, action);
        break;
    case SKEP_ROUND_PERSIST:
        persist(host, &action->memory);
        break;
    case SKEP_ROUND_SEND:
        check_sent(host, &action->message);
        break;
    case SKEP_ROUND_COMMIT:
        commit(host, action);
        break;
    case SKEP_ROUND_ANSWER_SEALED:
        FUZZ_CHECK(action->version > 0 && action->version <= host->memory.version);
        break;
    case SKEP_ROUND_FETCH:
    case SKEP_ROUND_CATCH_UP:
        FUZZ_CHECK(!skep_peer_id_equal(&action->peer, &host->ids[host->me]));
        break;
    }
}

static void carry_out_all(struct host *host)
{
    size_t count = 0;
    struct skep_round_action action;
    while (skep_round_take(host->round, &action)) {
        carry_out(host, &action);
        skep_round_action_done(&action);
        count++;
        FUZZ_CHECK(count <= ACTIONS_MOST);
    }
    FUZZ_CHECK(skep_round_waiting(host->round) <= HELD_MOST);
    FUZZ_CHECK(skep_round_version(host->round) == host->memory.version);
}

static void start(struct host *host)
{
    struct skep_round_update recent[VERSIONS_KEPT * SKEP_LIMIT_UPDATES_PER_ROUND];
    size_t count = 0;
    for (size_t v = 0; v < VERSIONS_KEPT; v++) {
        for (size_t i = 0; i < host->recent[v].receipt_count; i++) {
            const struct skep_receipt *one = &host->recent[v].receipts[i];
            recent[count++] =
                (struct skep_round_update){one->update, one->donor, one->base_version};
        }
    }
    skep_round_free(host->round);
    host->round = skep_round_new(&host->manifest, &host->shard, host->keys[host->me], &host->memory,
                                 recent, count);
}

/* ---- what happens ---- */

/* Update n of a base version, and who gave it: two updates of one donor for every base. */
static struct skep_round_update update_of(uint8_t number, uint64_t base)
{
    struct skep_round_update update = {.base_version = base};
    update.hash.bytes[0] = number;
    skep_put_u64(update.hash.bytes + 1, base);
    update.donor.bytes[0] = (uint8_t)(number / 2 + 1);
    return update;
}

static uint64_t base_of(const struct host *host, uint8_t choice)
{
    uint64_t back = choice % 4;
    return back == 3                     ? host->memory.version + 1
           : back > host->memory.version ? 0
                                         : host->memory.version - back;
}

static struct skep_hash root_of(const struct skep_round_update *list, size_t count)
{
    struct skep_buffer bytes = {0};
    for (size_t i = 0; i < count; i++) {
        skep_buffer_append(&bytes, list[i].hash.bytes, SKEP_ID_SIZE);
    }
    struct skep_hash hash = skep_hash_of(bytes.data, bytes.size);
    skep_buffer_done(&bytes);
    return hash;
}

/* What a merge says of an update; `lie`: or somebody else of it. */
static struct skep_round_fate fate_of(const struct skep_round_update *update, bool lie)
{
    uint8_t number = update->hash.bytes[0];
    return (struct skep_round_fate){.merged = number % 4 != 3,
                                    .copy = number == 7,
                                    .agreement_permille = (number * 100 + lie) % 2001 - 1000};
}

static struct skep_round_outcome outcome_of(const struct skep_round_update *list, size_t count)
{
    struct skep_round_outcome outcome = {.root = root_of(list, count), .norm = NORM};
    for (size_t i = 0; i < count; i++) {
        outcome.updates[i] = fate_of(&list[i], false);
    }
    return outcome;
}

/* A seal payload of the next version that merges the updates in the bits of `mask`; `twist` breaks it in one of some ways. */
static char *payload_of(const struct host *host, uint32_t attempt, uint8_t mask, uint8_t twist)
{
    struct skep_round_update list[LIST_MOST];
    struct skep_receipt receipts[LIST_MOST];
    size_t count = 0;
    uint64_t base = base_of(host, twist >> 6);
    for (uint8_t i = 0; i < LIST_MOST; i++) {
        if ((mask >> i & 1) != 0) {
            list[count] = update_of(i, base);
            struct skep_round_fate fate = fate_of(&list[count], twist >> 4 & 1);
            uint64_t credit = skep_credit_micro(&host->manifest, &host->shard);
            receipts[count] = (struct skep_receipt){.update = list[count].hash,
                                                    .donor = list[count].donor,
                                                    .base_version = base,
                                                    .credit_micro = fate.merged ? credit : 0,
                                                    .merged = fate.merged,
                                                    .copy = fate.copy,
                                                    .agreement_permille = fate.agreement_permille};
            count++;
        }
    }
    struct skep_seal seal = {.project = host->manifest.project,
                             .shard = host->shard,
                             .version = host->memory.version + 1,
                             .attempt = attempt,
                             .previous = host->memory.head,
                             .state = root_of(list, count),
                             .norm = NORM,
                             .receipt_count = count,
                             .receipts = receipts};
    seal.state.bytes[0] ^= (twist & 7) == 1;
    seal.previous.bytes[0] ^= (twist & 7) == 2;
    seal.version += (twist & 7) == 3;
    seal.attempt += (twist & 7) == 4;
    return skep_seal_encode(&seal);
}

/* Signed by the keepers in the bits of `signers`. */
static void sign_payload(const struct host *host, const char *payload, uint8_t signers,
                         struct skep_envelope *ret_envelope)
{
    size_t size = strlen(payload);
    struct skep_buffer pae = {0};
    skep_envelope_init(ret_envelope, SKEP_TYPE_SEAL, payload, size);
    skep_envelope_pae(SKEP_TYPE_SEAL, payload, size, &pae);
    for (size_t i = 0; i < host->manifest.keeper_count; i++) {
        if ((signers >> i & 1) != 0) {
            struct skep_signature signature = skep_key_sign(host->keys[i], pae.data, pae.size);
            skep_envelope_add(ret_envelope, &host->ids[i], signature.bytes);
        }
    }
    skep_buffer_done(&pae);
}

/* from+kind, version+attempt, mask, twist. */
static void hear(struct host *host)
{
    static const uint32_t leaps[] = {300, 1u << 20, UINT32_MAX};
    uint8_t head = next(host);
    uint8_t place = next(host);
    uint8_t mask = next(host);
    uint8_t twist = next(host);
    size_t from = head % 8 % host->manifest.keeper_count;
    struct skep_message message = {.kind = (enum skep_message_kind)(head / 8 % 5),
                                   .project = host->manifest.project,
                                   .shard = host->shard,
                                   .version = base_of(host, place) + 1,
                                   .attempt = place / 4 % 16,
                                   .from = host->ids[from]};
    if (message.attempt > 12) {
        message.attempt = leaps[message.attempt - 13];
    }
    uint32_t attempt = message.attempt;
    if (message.kind == SKEP_MESSAGE_PROMISE) {
        message.has_vote = (twist & 8) != 0;
        message.vote_attempt = attempt - (attempt > 0 && (twist & 16) == 0);
        attempt = message.vote_attempt;
    }
    char *payload = payload_of(host, attempt, mask, twist);
    struct skep_envelope signed_payload = {0};
    sign_payload(host, payload, (uint8_t)(1u << from), &signed_payload);
    if (message.kind == SKEP_MESSAGE_PROPOSE || message.has_vote) {
        skep_buffer_append_text(&message.seal_payload, payload);
    } else if (message.kind == SKEP_MESSAGE_VOTE) {
        message.seal_hash = skep_hash_of(payload, strlen(payload));
        memcpy(message.signature, signed_payload.signatures[0].bytes, sizeof message.signature);
        message.signature[0] ^= (twist & 32) != 0;
    } else if (message.kind == SKEP_MESSAGE_SEALED) {
        sign_payload(host, payload, place >> 4, &message.sealed);
    }
    skep_round_receive(host->round, &message, host->now_ms);
    skep_envelope_done(&signed_payload);
    free(payload);
    skep_message_done(&message);
}

/* from, length, then so many bytes as the payload of a proposal. */
static void hear_bytes(struct host *host)
{
    struct skep_message message = {.kind = SKEP_MESSAGE_PROPOSE,
                                   .project = host->manifest.project,
                                   .shard = host->shard,
                                   .version = host->memory.version + 1};
    message.from = host->ids[next(host) % host->manifest.keeper_count];
    size_t size = next(host);
    const uint8_t *bytes = skep_read_bytes(&host->bytes, size);
    if (bytes != NULL) {
        skep_buffer_append(&message.seal_payload, bytes, size);
        skep_round_receive(host->round, &message, host->now_ms);
    }
    skep_message_done(&message);
}

/* which merge, and whether it failed or gave the right root. */
static void answer_merge(struct host *host)
{
    uint8_t choice = next(host);
    if (host->merge_count == 0) {
        return;
    }
    size_t i = choice / 4 % host->merge_count;
    struct merge merge = host->merges[i];
    host->merges[i] = host->merges[--host->merge_count];
    struct skep_round_outcome outcome = outcome_of(merge.list, merge.count);
    outcome.root.bytes[1] ^= choice % 4 == 1;
    skep_round_merged(host->round, merge.base, merge.list, merge.count,
                      choice % 4 == 0 ? NULL : &outcome, host->now_ms);
    free(merge.list);
}

/* The host caught up: another keeper showed a good seal. */
static void catch_up(struct host *host)
{
    uint8_t mask = next(host);
    uint8_t attempt = next(host);
    char *payload = payload_of(host, attempt, mask, 0);
    struct skep_seal seal = {0};
    FUZZ_CHECK(skep_seal_decode(payload, strlen(payload), &seal, NULL) == SKEP_OK);
    struct skep_hash link = skep_seal_hash(&seal);
    store_seal(host, &seal, &link);
    skep_seal_done(&seal);
    free(payload);
}

static void happen(struct host *host)
{
    struct skep_round_update update;
    uint8_t event = next(host);
    switch (event % 8) {
    case 0:
        update = update_of(next(host), base_of(host, event / 8));
        skep_round_add(host->round, &update, host->now_ms);
        break;
    case 1:
    case 2:
        hear(host);
        break;
    case 3:
        answer_merge(host);
        break;
    case 4:
        host->now_ms += 50u * (event / 8u);
        skep_round_tick(host->round, host->now_ms);
        break;
    case 5:
        hear_bytes(host);
        break;
    case 6:
        skep_round_hurry(host->round, host->now_ms);
        break;
    default:
        if (event < 128) {
            start(host);
        } else {
            catch_up(host);
        }
        break;
    }
}

/* ---- the whole ---- */

static void host_init(struct host *host)
{
    skep_manifest_defaults(&host->manifest);
    uint8_t set = next(host);
    size_t keepers = 1 + set % KEEPERS_MOST;
    host->manifest.keeper_count = keepers;
    host->manifest.replicas = (uint32_t)host->manifest.keeper_count;
    host->manifest.keepers = host->ids;
    host->manifest.merge.window_ms = 1000;
    host->manifest.merge.least_updates = 1 + next(host) % 3;
    host->manifest.merge.most_updates = 1 + next(host) % SKEP_LIMIT_UPDATES_PER_ROUND;
    if (host->manifest.merge.most_updates < host->manifest.merge.least_updates) {
        host->manifest.merge.most_updates = host->manifest.merge.least_updates;
    }
    host->shard.kind = next(host) % 2 == 0 ? SKEP_SHARD_TRUNK : SKEP_SHARD_FFN;
    for (size_t i = 0; i < host->manifest.keeper_count; i++) {
        uint8_t seed[32] = {(uint8_t)(i + 1)};
        host->keys[i] = skep_key_from_seed(seed);
        host->ids[i] = skep_key_id(host->keys[i]);
    }
    host->me = set / KEEPERS_MOST % keepers;
    host->now_ms = 1000;
    start(host);
}

static void host_done(struct host *host)
{
    skep_round_free(host->round);
    for (size_t i = 0; i < host->merge_count; i++) {
        free(host->merges[i].list);
    }
    for (size_t v = 0; v < VERSIONS_KEPT; v++) {
        skep_seal_done(&host->recent[v]);
    }
    for (size_t i = 0; i < host->manifest.keeper_count; i++) {
        skep_key_free(host->keys[i]);
    }
    skep_buffer_done(&host->memory.vote_payload);
    host->manifest.keepers = NULL; /* the array inside the host */
    skep_manifest_done(&host->manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host host = {.bytes = skep_reader_of(data, size)};
    host_init(&host);
    for (size_t i = 0; i < EVENTS_MOST && skep_reader_left(&host.bytes) > 0; i++) {
        happen(&host);
        carry_out_all(&host);
    }
    host_done(&host);
    return 0;
}
