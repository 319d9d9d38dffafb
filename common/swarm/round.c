/* Events in, deadlines out, and the order in which things are tried. */
#include "common/swarm/round.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/swarm/round-internal.h"
#include "common/swarm/statement.h"

/* An attempt whose leader is at work lasts longer the more have failed, up to this many times SKEP_ROUND_ATTEMPT_MS: merges that take
 * longer than the first attempt must be able to finish in a later one. A silent leader is gone or has nothing to propose. */
#define LONGEST_ATTEMPT 8u
#define SLOWEST_MERGE_MS 60000u
/* Nobody honest is this far ahead: a year of attempts. A larger leap would use the numbers up. */
#define FURTHEST_LEAP (1u << 22)

struct skep_round *skep_round_new(const struct skep_manifest *manifest,
                                  const struct skep_shard *shard, const struct skep_key *key,
                                  const struct skep_round_memory *memory,
                                  const struct skep_round_update *recent, size_t recent_count)
{
    struct skep_round *round = skep_alloc(1, sizeof(*round));
    round->manifest = manifest;
    round->shard = *shard;
    round->key = key;
    round->replicas = skep_replicas_of(manifest, shard);
    struct skep_peer_id me = skep_key_id(key);
    round->me = skep_round_place(round, &me);
    assert(round->me != SIZE_MAX);
    round->memory = *memory;
    round->memory.vote_payload = (struct skep_buffer){0};
    skep_buffer_append(&round->memory.vote_payload, memory->vote_payload.data,
                       memory->vote_payload.size);
    round->recent = skep_alloc(recent_count + 1, sizeof(recent[0]));
    if (recent_count > 0) {
        memcpy(round->recent, recent, recent_count * sizeof(recent[0]));
    }
    round->recent_count = recent_count;
    skep_round_forget(round);
    skep_round_restore(round);
    return round;
}

void skep_round_free(struct skep_round *round)
{
    if (round == NULL) {
        return;
    }
    struct skep_round_action action;
    while (skep_round_take(round, &action)) {
        skep_round_action_done(&action);
    }
    skep_round_forget(round);
    skep_buffer_done(&round->memory.vote_payload);
    free(round->actions);
    free(round->held);
    free(round->found);
    free(round->recent);
    free(round);
}

static void start_timers(struct skep_round *round, uint64_t now_ms)
{
    round->timed = true;
    round->attempt_ms = now_ms;
    round->resend_ms = now_ms + SKEP_ROUND_RESEND_MS;
}

void skep_round_follow(struct skep_round *round, uint32_t attempt, uint64_t now_ms)
{
    if (!round->agreeing) {
        round->agreeing = true;
        start_timers(round, now_ms);
    }
    if (attempt > round->attempt) {
        skep_round_enter(round, attempt, now_ms);
    }
}

/* How many updates close the window before its end: the trunk's, one of each donor that the last versions merged (two until there is a
 * version: company is worth the wait). An expert's donors change with their slices, so nobody can be waited for; its window is
 * ended by skep_round_hurry(). */
static size_t full_count(const struct skep_round *round)
{
    size_t least = skep_round_least(round);
    if (round->shard.kind != SKEP_SHARD_TRUNK) {
        return round->most;
    }
    size_t donors = round->recent_count == 0 ? 2 : 0;
    for (size_t i = 0; i < round->recent_count; i++) {
        bool again = false;
        for (size_t j = 0; j < i && !again; j++) {
            again = skep_peer_id_equal(&round->recent[i].donor, &round->recent[j].donor);
        }
        donors += !again;
    }
    donors = donors > least ? donors : least;
    return donors < round->most ? donors : round->most;
}

/* WAITING -> OPEN -> AGREEING. */
static void watch_window(struct skep_round *round, uint64_t now_ms)
{
    if (round->agreeing) {
        return;
    }
    struct skep_round_list list;
    skep_round_select(round, &list);
    if (list.count == 0) {
        round->window_open = false;
        round->hurried = false;
        return;
    }
    if (!round->window_open) {
        round->window_open = true;
        round->window_ms = now_ms;
    }
    size_t least = skep_round_least(round);
    size_t full = full_count(round);
    uint64_t end = round->window_ms + round->manifest->merge.window_ms;
    round->wake_ms = now_ms < end ? end : UINT64_MAX;
    bool over = round->hurried || now_ms >= end;
    if (list.count >= full || (over && list.count >= least)) {
        skep_round_follow(round, round->attempt, now_ms);
    }
}

static uint64_t attempt_end(const struct skep_round *round)
{
    uint64_t times = round->attempt < LONGEST_ATTEMPT ? round->attempt + 1u : LONGEST_ATTEMPT;
    if (!round->heard && !round->lead.prepared) {
        times = 1;
    }
    /* The leader merges before it proposes, and we before we vote. */
    return round->attempt_ms + times * SKEP_ROUND_ATTEMPT_MS + 2 * round->merge_ms;
}

/* An attempt that came to nothing gives way to the next. With nothing left to agree on (others drew us in and vanished) we go back to
 * waiting, so that an empty swarm is silent. */
static void pass_attempt(struct skep_round *round, uint64_t now_ms)
{
    if (!round->agreeing || round->news.known || now_ms < attempt_end(round)) {
        return;
    }
    struct skep_round_list list;
    skep_round_select(round, &list);
    if (list.count < skep_round_least(round) && !round->proposal.known) {
        round->agreeing = false;
        round->window_open = false;
        return;
    }
    skep_round_enter(round, round->attempt + 1, now_ms);
}

static bool is_behind(const struct skep_round *round)
{
    return round->ahead > round->memory.version && round->ahead_tries > 0;
}

/* Others are ahead: asks for their seals until we have them. */
static void follow_ahead(struct skep_round *round, uint64_t now_ms)
{
    if (is_behind(round) && skep_round_catch_up(round, round->ahead_from, now_ms)) {
        round->ahead_tries--;
    }
}

void skep_round_advance(struct skep_round *round, uint64_t now_ms)
{
    if (round->committing) {
        return;
    }
    bool restarted = round->agreeing && !round->timed;
    round->due = false;
    if (restarted) {
        start_timers(round, now_ms);
    }
    follow_ahead(round, now_ms);
    watch_window(round, now_ms);
    pass_attempt(round, now_ms);
    skep_round_lead(round, now_ms);
    skep_round_vote(round, now_ms);
    skep_round_commit(round, now_ms);
    if (!round->committing && round->agreeing && (restarted || now_ms >= round->resend_ms)) {
        round->resend_ms = now_ms + SKEP_ROUND_RESEND_MS;
        skep_round_resend(round);
    }
}

void skep_round_add(struct skep_round *round, const struct skep_round_update *update,
                    uint64_t now_ms)
{
    skep_round_hold(round, update);
    skep_round_advance(round, now_ms);
}

void skep_round_merged(struct skep_round *round, uint64_t base,
                       const struct skep_round_update *list, size_t list_count,
                       const struct skep_round_outcome *outcome, uint64_t now_ms)
{
    if (base != round->memory.version || list_count == 0) {
        return;
    }
    struct skep_round_merge *merge = skep_round_merge_of(round, list, list_count);
    if (merge == NULL) {
        merge = skep_round_merge_add(round, list, list_count, now_ms);
    }
    uint64_t took_ms = now_ms - merge->asked_ms;
    took_ms = took_ms < SLOWEST_MERGE_MS ? took_ms : SLOWEST_MERGE_MS;
    round->merge_ms = took_ms > round->merge_ms / 2 ? took_ms : round->merge_ms / 2;
    merge->state = outcome != NULL ? SKEP_ROUND_MERGED : SKEP_ROUND_FAILED;
    if (outcome != NULL) {
        merge->outcome = *outcome;
    }
    skep_round_advance(round, now_ms);
}

/* `from` asks about a version that is sealed. Votes cross the seal in every round; only one that is said again shows a keeper that
 * missed it. */
static void answer_sealed(struct skep_round *round, const struct skep_message *message, size_t from,
                          uint64_t now_ms)
{
    bool crossed = message->kind == SKEP_MESSAGE_VOTE || message->kind == SKEP_MESSAGE_PROMISE;
    if (message->kind == SKEP_MESSAGE_SEALED || message->version == 0 ||
        now_ms < round->answer_after_ms[from] ||
        (crossed && message->version == round->memory.version &&
         now_ms < round->sealed_ms + SKEP_ROUND_RESEND_MS / 2)) {
        return;
    }
    round->answer_after_ms[from] = now_ms + SKEP_ROUND_RESEND_MS / 2;
    struct skep_round_action *action = skep_round_push(round, SKEP_ROUND_ANSWER_SEALED);
    action->peer = round->replicas.keepers[from];
    action->version = message->version;
}

static void handle(struct skep_round *round, const struct skep_message *message, size_t from,
                   uint64_t now_ms)
{
    switch (message->kind) {
    case SKEP_MESSAGE_PREPARE:
        skep_round_on_prepare(round, message, from, now_ms);
        break;
    case SKEP_MESSAGE_PROMISE:
        skep_round_on_promise(round, message, from);
        break;
    case SKEP_MESSAGE_PROPOSE:
        skep_round_on_propose(round, message, from, now_ms);
        break;
    case SKEP_MESSAGE_VOTE:
        skep_round_on_vote(round, message, from, now_ms);
        break;
    case SKEP_MESSAGE_SEALED:
        skep_round_on_sealed(round, message, from, now_ms);
        break;
    }
}

void skep_round_receive(struct skep_round *round, const struct skep_message *message,
                        uint64_t now_ms)
{
    size_t from = skep_round_place(round, &message->from);
    if (from == SIZE_MAX || from == round->me ||
        memcmp(&message->project, &round->manifest->project, sizeof(message->project)) != 0 ||
        !skep_shard_equal(&message->shard, &round->shard)) {
        return;
    }
    if (message->version <= round->memory.version) {
        answer_sealed(round, message, from, now_ms);
    } else if (round->committing) {
        return; /* it will be said again */
    } else if (message->version > round->memory.version + 1) {
        if (message->version - 1 > round->ahead || round->ahead_tries == 0) {
            round->ahead = message->version - 1;
            round->ahead_from = from;
            round->ahead_tries = SKEP_ROUND_AHEAD_TRIES;
        }
        skep_round_advance(round, now_ms);
    } else if (message->attempt <= round->attempt ||
               message->attempt - round->attempt <= FURTHEST_LEAP) {
        handle(round, message, from, now_ms);
        skep_round_advance(round, now_ms);
    }
}

/* Tells the others of the version we led to its seal. */
static void announce(struct skep_round *round, const struct skep_seal *seal,
                     const struct skep_envelope *envelope)
{
    struct skep_message *message =
        skep_round_push_send(round, SKEP_MESSAGE_SEALED, seal->attempt, SIZE_MAX);
    if (message != NULL) {
        message->version = seal->version;
        skep_round_copy_envelope(envelope, &message->sealed);
    }
}

void skep_round_sealed(struct skep_round *round, const struct skep_seal *seal,
                       const struct skep_hash *payload_hash, uint64_t now_ms)
{
    if (seal->version <= round->memory.version) {
        return;
    }
    /* A host that stores another hash would be alone on its chain after the first seal of a later attempt. */
    struct skep_hash link = skep_seal_hash(seal);
    assert(skep_hash_equal(payload_hash, &link));
    struct skep_envelope announcement = round->announcement;
    memset(&round->announcement, 0, sizeof(round->announcement));
    bool told = !round->announce || seal->version != round->memory.version + 1;
    skep_round_forget(round);
    round->memory.version = seal->version;
    round->memory.head = *payload_hash;
    round->memory.promised = 0;
    round->memory.has_vote = false;
    round->memory.vote_attempt = 0;
    skep_buffer_done(&round->memory.vote_payload);
    skep_round_push_persist(round);
    skep_round_remember(round, seal);
    skep_round_claims_sealed(round, seal);
    skep_round_prune(round);
    round->hurried = false;
    round->sealed_ms = now_ms;
    round->due = true;
    if (!told) {
        announce(round, seal, &announcement);
    }
    skep_envelope_done(&announcement);
}

void skep_round_hurry(struct skep_round *round, uint64_t now_ms)
{
    if (round->window_open && !round->agreeing) {
        round->hurried = true;
        skep_round_advance(round, now_ms);
    }
}

bool skep_round_closing(const struct skep_round *round)
{
    return round->agreeing || round->committing;
}

void skep_round_tick(struct skep_round *round, uint64_t now_ms)
{
    skep_round_advance(round, now_ms);
}

uint64_t skep_round_deadline(const struct skep_round *round)
{
    if (round->committing) {
        return UINT64_MAX;
    }
    if (round->due) {
        return 0;
    }
    uint64_t deadline = is_behind(round) ? round->catch_up_after_ms : UINT64_MAX;
    if (round->agreeing) {
        uint64_t end = attempt_end(round);
        end = round->news.known || round->resend_ms < end ? round->resend_ms : end;
        return end < deadline ? end : deadline;
    }
    return round->window_open && round->wake_ms < deadline ? round->wake_ms : deadline;
}

uint64_t skep_round_version(const struct skep_round *round)
{
    return round->memory.version;
}

size_t skep_round_waiting(const struct skep_round *round)
{
    return round->held_count;
}

size_t skep_round_disagreements(const struct skep_round *round)
{
    return round->disagreements;
}
