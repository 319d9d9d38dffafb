/* A keeper's host in the simulated world: carries out what the machine asks for, with a disk that survives crashes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/crypto/hash.h"
#include "common/swarm/statement.h"
#include "tests/sim/sim-internal.h"

uint64_t sim_local_ms(const struct sim_world *world, const struct sim_keeper *keeper)
{
    return world->now_ms + keeper->skew_ms;
}

static uint64_t head_version(const struct sim_keeper *keeper)
{
    return keeper->version_count;
}

static void copy_buffer(const struct skep_buffer *from, struct skep_buffer *to)
{
    to->size = 0;
    skep_buffer_append(to, from->data, from->size);
}

static void copy_envelope(const struct skep_envelope *from, struct skep_envelope *to)
{
    skep_envelope_init(to, from->type, from->payload.data, from->payload.size);
    for (size_t i = 0; i < from->signature_count; i++) {
        skep_envelope_add(to, &from->signatures[i].signer, from->signatures[i].bytes);
    }
}

static void copy_message(const struct skep_message *from, struct skep_message *to)
{
    *to = *from;
    to->seal_payload = (struct skep_buffer){0};
    skep_buffer_append(&to->seal_payload, from->seal_payload.data, from->seal_payload.size);
    to->sealed = (struct skep_envelope){0};
    if (from->sealed.type != NULL) {
        copy_envelope(&from->sealed, &to->sealed);
    }
}

static void schedule_tick(struct sim_world *world, struct sim_keeper *keeper)
{
    uint64_t deadline = skep_round_deadline(keeper->round);
    if (deadline == UINT64_MAX) {
        return;
    }
    uint64_t local = sim_local_ms(world, keeper);
    uint64_t at = deadline <= local ? world->now_ms : world->now_ms + (deadline - local);
    if (at < keeper->tick_ms || keeper->tick_ms < world->now_ms) {
        keeper->tick_ms = at;
        sim_queue_push_take(&world->queue, at, sim_event_new(SIM_TICK, keeper));
    }
}

/* As a keeper does that starts: from the seals of the window on its disk. */
static void load_standings(struct sim_keeper *keeper)
{
    size_t count = keeper->version_count;
    keeper->standings = skep_standings_new();
    for (size_t i = count > SKEP_STANDINGS_SEALS ? count - SKEP_STANDINGS_SEALS : 0; i < count;
         i++) {
        skep_standings_push(keeper->standings, &keeper->versions[i].seal);
    }
}

void sim_keeper_start(struct sim_world *world, struct sim_keeper *keeper)
{
    struct skep_round_memory memory = keeper->memory;
    uint64_t version = head_version(keeper);
    if (memory.version != version) {
        /* The seal was stored and we crashed: the vote before it goes with it, in one transaction. */
        memory = (struct skep_round_memory){.version = version};
    }
    memory.head = version == 0 ? world->genesis : keeper->versions[version - 1].link;
    struct skep_round_update recent[3 * SKEP_LIMIT_UPDATES_PER_ROUND];
    size_t count = 0;
    for (uint64_t v = version > 3 ? version - 3 : 0; v < version; v++) {
        const struct skep_seal *seal = &keeper->versions[v].seal;
        for (size_t i = 0; i < seal->receipt_count; i++) {
            const struct skep_receipt *one = &seal->receipts[i];
            recent[count++] =
                (struct skep_round_update){one->update, one->donor, one->base_version};
        }
    }
    load_standings(keeper);
    keeper->up = true;
    keeper->epoch++;
    keeper->catching = false;
    keeper->tick_ms = UINT64_MAX;
    keeper->skew_ms = skep_rng_below(&world->rng, 100000);
    keeper->round =
        skep_round_new(&world->manifest, &world->shard, keeper->key, &memory, recent, count);
    sim_audits_load(world, keeper);
    for (size_t i = 0; i < world->update_count; i++) {
        if (keeper->stored[i] && !sim_is_banned(keeper, &world->updates[i].update.donor)) {
            skep_round_add(keeper->round, &world->updates[i].update, sim_local_ms(world, keeper));
        }
    }
    schedule_tick(world, keeper);
}

void sim_keeper_crash(struct sim_world *world, struct sim_keeper *keeper)
{
    if (world->trace) {
        fprintf(stderr, "%8llu keeper %zu crashes\n", (unsigned long long)world->now_ms,
                keeper->place);
    }
    skep_round_free(keeper->round);
    keeper->round = NULL;
    skep_standings_free(keeper->standings);
    keeper->standings = NULL;
    skep_reputations_free(keeper->reputations);
    keeper->reputations = NULL;
    keeper->up = false;
    world->result.crashes++;
    struct sim_event *event = sim_event_new(SIM_RESTART, keeper);
    event->epoch = 0;
    sim_queue_push_take(&world->queue, world->now_ms + 1 + skep_rng_below(&world->rng, 4000),
                        event);
}

void sim_keeper_done(struct sim_keeper *keeper)
{
    skep_round_free(keeper->round);
    skep_standings_free(keeper->standings);
    skep_reputations_free(keeper->reputations);
    skep_buffer_done(&keeper->memory.vote_payload);
    for (size_t i = 0; i < keeper->version_count; i++) {
        skep_envelope_done(&keeper->versions[i].envelope);
        skep_seal_done(&keeper->versions[i].seal);
    }
    skep_key_free(keeper->key);
}

/* What a message says of its sender must be on the sender's disk. */
static void check_persisted(struct sim_world *world, const struct sim_keeper *keeper,
                            const struct skep_message *message)
{
    const struct skep_round_memory *disk = &keeper->memory;
    bool right = true;
    if (message->version != disk->version + 1) {
        right = message->kind == SKEP_MESSAGE_SEALED;
    } else if (message->kind == SKEP_MESSAGE_PREPARE || message->kind == SKEP_MESSAGE_PROMISE) {
        right = disk->promised >= message->attempt &&
                (message->kind == SKEP_MESSAGE_PREPARE || message->has_vote == disk->has_vote);
    } else if (message->kind == SKEP_MESSAGE_VOTE) {
        struct skep_hash hash = skep_hash_of(disk->vote_payload.data, disk->vote_payload.size);
        right = disk->has_vote && disk->vote_attempt == message->attempt &&
                skep_hash_equal(&hash, &message->seal_hash);
    } else if (message->kind == SKEP_MESSAGE_PROPOSE) {
        right = disk->has_vote && disk->vote_attempt == message->attempt &&
                disk->vote_payload.size == message->seal_payload.size &&
                memcmp(disk->vote_payload.data, message->seal_payload.data,
                       disk->vote_payload.size) == 0;
    }
    if (!right) {
        sim_fail(world, "keeper %zu sends message %d of attempt %u before it is on its disk",
                 keeper->place, (int)message->kind, message->attempt);
    }
}

static uint64_t some_delay(struct sim_world *world)
{
    uint64_t delay = 1 + skep_rng_below(&world->rng, world->delay_ms);
    return !world->calm && sim_chance(world, 20) ? delay * 30 : delay;
}

static void deliver(struct sim_world *world, const struct sim_keeper *from, struct sim_keeper *to,
                    const struct skep_message *message)
{
    bool cut = from->side != to->side;
    size_t copies = sim_chance(world, world->double_permille) ? 2 : 1;
    for (size_t i = 0; i < copies; i++) {
        world->result.messages++;
        if (!world->calm && (cut || sim_chance(world, world->loss_permille))) {
            continue;
        }
        struct sim_event *event = sim_event_new(SIM_MESSAGE, to);
        event->epoch = 0; /* a keeper that restarts gets what was sent before, too */
        if (world->through_json) {
            char *text = skep_message_encode(message);
            struct skep_error err = {0};
            if (skep_message_decode(text, strlen(text), &event->message, &err) != 0) {
                sim_fail(world, "%s", err.text);
            }
            free(text);
        } else {
            copy_message(message, &event->message);
        }
        sim_queue_push_take(&world->queue, world->now_ms + some_delay(world), event);
    }
}

static struct sim_keeper *keeper_of(struct sim_world *world, const struct skep_peer_id *id)
{
    for (size_t i = 0; i < world->keeper_count; i++) {
        if (skep_peer_id_equal(&world->keeper_ids[i], id)) {
            return &world->keepers[i];
        }
    }
    return NULL;
}

static void send(struct sim_world *world, const struct sim_keeper *keeper,
                 const struct skep_round_action *action)
{
    check_persisted(world, keeper, &action->message);
    for (size_t i = 0; i < world->keeper_count; i++) {
        struct sim_keeper *to = &world->keepers[i];
        if (to != keeper &&
            (action->to_all || skep_peer_id_equal(&action->peer, &world->keeper_ids[i]))) {
            deliver(world, keeper, to, &action->message);
        }
    }
}

static void answer_sealed(struct sim_world *world, const struct sim_keeper *keeper,
                          const struct skep_round_action *action)
{
    if (action->version == 0 || action->version > keeper->version_count) {
        sim_fail(world, "keeper %zu would answer with version %llu, which it does not have",
                 keeper->place, (unsigned long long)action->version);
        return;
    }
    const struct sim_version *version = &keeper->versions[action->version - 1];
    struct skep_message message = {.kind = SKEP_MESSAGE_SEALED,
                                   .project = world->manifest.project,
                                   .shard = world->shard,
                                   .version = action->version,
                                   .attempt = version->seal.attempt,
                                   .from = world->keeper_ids[keeper->place]};
    message.sealed = version->envelope; /* borrowed */
    deliver(world, keeper, keeper_of(world, &action->peer), &message);
}

/* Onto the disk, and nothing is sealed that may not be. */
static void append_version(struct sim_world *world, struct sim_keeper *keeper,
                           const struct skep_envelope *envelope)
{
    struct sim_version version = {0};
    if (keeper->version_count == SIM_VERSIONS ||
        !sim_check_seal(world, keeper, envelope, &version.seal, &version.link)) {
        return;
    }
    copy_envelope(envelope, &version.envelope);
    keeper->versions[keeper->version_count] = version;
    keeper->version_count++;
    skep_standings_push(keeper->standings, &version.seal);
    skep_reputation_apply(keeper->reputations, &version.seal, NULL);
    skep_round_sealed(keeper->round, &version.seal, &version.link, sim_local_ms(world, keeper));
}

static void persist(struct sim_keeper *keeper, const struct skep_round_memory *memory)
{
    struct skep_buffer payload = keeper->memory.vote_payload;
    copy_buffer(&memory->vote_payload, &payload);
    keeper->memory = *memory;
    keeper->memory.vote_payload = payload;
}

static void ask(struct sim_world *world, const struct sim_keeper *keeper, enum sim_event_kind kind,
                const struct skep_round_action *action)
{
    struct sim_event *event = sim_event_new(kind, keeper);
    uint64_t delay = 2 * some_delay(world);
    if (kind == SIM_MERGED) {
        delay = 1 + skep_rng_below(&world->rng, world->merge_ms);
        event->base = action->version - 1;
        event->list_count = action->list_count;
        event->list = skep_alloc(action->list_count, sizeof(action->list[0]));
        memcpy(event->list, action->list, action->list_count * sizeof(action->list[0]));
    } else {
        event->peer = keeper_of(world, &action->peer)->place;
    }
    if (kind == SIM_FETCHED) {
        memcpy(&event->index, action->hash.bytes, sizeof(event->index));
    }
    sim_queue_push_take(&world->queue, world->now_ms + delay, event);
}

static void trace(const struct sim_world *world, const struct sim_keeper *keeper,
                  const struct skep_round_action *action)
{
    static const char *const actions[] = {"merge",  "fetch",    "persist",      "send",
                                          "commit", "catch up", "answer sealed"};
    static const char *const messages[] = {"prepare", "promise", "propose", "vote", "sealed"};
    fprintf(stderr, "%8llu keeper %zu version %llu: %s", (unsigned long long)world->now_ms,
            keeper->place, (unsigned long long)action->version, actions[action->kind]);
    if (action->kind == SKEP_ROUND_SEND) {
        fprintf(stderr, " %s attempt %u", messages[action->message.kind], action->message.attempt);
    }
    fputc('\n', stderr);
}

static void carry_out(struct sim_world *world, struct sim_keeper *keeper,
                      const struct skep_round_action *action)
{
    if (world->trace) {
        trace(world, keeper, action);
    }
    switch (action->kind) {
    case SKEP_ROUND_MERGE:
        ask(world, keeper, SIM_MERGED, action);
        break;
    case SKEP_ROUND_FETCH:
        ask(world, keeper, SIM_FETCHED, action);
        break;
    case SKEP_ROUND_PERSIST:
        persist(keeper, &action->memory);
        break;
    case SKEP_ROUND_SEND:
        send(world, keeper, action);
        break;
    case SKEP_ROUND_COMMIT:
        append_version(world, keeper, &action->envelope);
        break;
    case SKEP_ROUND_CATCH_UP:
        if (!keeper->catching) {
            keeper->catching = true;
            ask(world, keeper, SIM_CAUGHT, action);
        }
        break;
    case SKEP_ROUND_ANSWER_SEALED:
        answer_sealed(world, keeper, action);
        break;
    }
}

/* Base state and the merged updates, hashed; false if an update of the list is poison. */
static bool fake_merge(const struct sim_world *world, const struct sim_keeper *keeper,
                       const struct sim_event *event, struct skep_round_outcome *ret_outcome)
{
    struct skep_hash parts[SKEP_LIMIT_UPDATES_PER_ROUND + 1];
    struct skep_peer_id donors[SKEP_LIMIT_UPDATES_PER_ROUND];
    bool left_out[SKEP_LIMIT_UPDATES_PER_ROUND];
    memset(&parts[0], 0, sizeof(parts[0]));
    if (event->base > 0) {
        parts[0] = keeper->versions[event->base - 1].seal.state;
    }
    for (size_t i = 0; i < event->list_count; i++) {
        size_t index = 0;
        memcpy(&index, event->list[i].hash.bytes, sizeof(index));
        if (world->updates[index].poison) {
            return false;
        }
        donors[i] = event->list[i].donor;
    }
    skep_standings_judge(keeper->standings, donors, event->list_count, left_out);
    size_t merged = 0;
    for (size_t i = 0; i < event->list_count; i++) {
        ret_outcome->updates[i] = (struct skep_round_fate){
            .merged = !left_out[i],
            .agreement_permille = (int32_t)sim_agreement(world, &event->list[i].hash, &donors[i])};
        if (!left_out[i]) {
            parts[++merged] = event->list[i].hash;
        }
    }
    ret_outcome->root = skep_hash_of(parts, (merged + 1) * sizeof(parts[0]));
    ret_outcome->norm = 1000 + skep_standings_norm_limit(keeper->standings) % 100;
    return true;
}

/* Admission: base version v, v-1 or v-2, one for each donor and base; then stored for good. */
static void store_update(struct sim_world *world, struct sim_keeper *keeper, size_t index)
{
    const struct skep_round_update *update = &world->updates[index].update;
    uint64_t version = head_version(keeper);
    if (update->base_version > version || update->base_version + 2 < version ||
        sim_is_banned(keeper, &update->donor)) {
        return;
    }
    if (!keeper->stored[index]) {
        sim_audit_ask(world, keeper, index);
    }
    keeper->stored[index] = true;
    world->updates[index].stored = true;
    skep_round_add(keeper->round, update, sim_local_ms(world, keeper));
}

static void catch_up(struct sim_world *world, struct sim_keeper *keeper,
                     const struct sim_keeper *peer)
{
    keeper->catching = false;
    if (!peer->up || (!world->calm && peer->side != keeper->side)) {
        return;
    }
    while (keeper->version_count < peer->version_count && !world->result.failed) {
        world->result.catch_ups++;
        append_version(world, keeper, &peer->versions[keeper->version_count].envelope);
    }
}

static void happen(struct sim_world *world, struct sim_keeper *keeper, struct sim_event *event)
{
    uint64_t local = sim_local_ms(world, keeper);
    struct skep_round_outcome outcome = {0};
    switch (event->kind) {
    case SIM_TICK:
        keeper->tick_ms = UINT64_MAX;
        skep_round_tick(keeper->round, local);
        break;
    case SIM_MESSAGE:
        skep_round_receive(keeper->round, &event->message, local);
        break;
    case SIM_MERGED: {
        bool merged = event->base == keeper->version_count && /* else it comes too late */
                      fake_merge(world, keeper, event, &outcome);
        skep_round_merged(keeper->round, event->base, event->list, event->list_count,
                          merged ? &outcome : NULL, local);
        break;
    }
    case SIM_FETCHED:
        if (world->keepers[event->peer].up && world->keepers[event->peer].stored[event->index]) {
            store_update(world, keeper, event->index);
        }
        break;
    case SIM_UPLOADED:
        store_update(world, keeper, event->index);
        break;
    case SIM_AUDITED:
        sim_audit_done(world, keeper, event->index);
        break;
    case SIM_CAUGHT:
        catch_up(world, keeper, &world->keepers[event->peer]);
        break;
    default:
        break;
    }
}

void sim_keeper_handle(struct sim_world *world, struct sim_keeper *keeper, struct sim_event *event)
{
    happen(world, keeper, event);
    struct skep_round_action action;
    while (keeper->up && !world->result.failed && skep_round_take(keeper->round, &action)) {
        bool before = !world->calm && sim_chance(world, world->crash_permille);
        if (!before) {
            carry_out(world, keeper, &action);
        }
        skep_round_action_done(&action);
        if (before) {
            sim_keeper_crash(world, keeper);
        }
    }
    if (keeper->up) {
        schedule_tick(world, keeper);
    }
}
