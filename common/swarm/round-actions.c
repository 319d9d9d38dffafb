/* The queue of what the host is to do, and the messages in it. */
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/swarm/round-internal.h"

struct skep_round_action *skep_round_push(struct skep_round *round,
                                          enum skep_round_action_kind kind)
{
    if (round->action_count == 0) {
        round->action_first = 0;
    }
    size_t place = round->action_first + round->action_count;
    if (place == round->action_capacity) {
        round->action_capacity = round->action_capacity == 0 ? 8 : 2 * round->action_capacity;
        round->actions =
            skep_realloc(round->actions, round->action_capacity, sizeof(round->actions[0]));
    }
    round->action_count++;
    struct skep_round_action *action = &round->actions[place];
    memset(action, 0, sizeof(*action));
    action->kind = kind;
    action->version = round->memory.version + 1;
    return action;
}

bool skep_round_take(struct skep_round *round, struct skep_round_action *ret_action)
{
    if (round->action_count == 0) {
        return false;
    }
    *ret_action = round->actions[round->action_first];
    round->action_first++;
    round->action_count--;
    return true;
}

void skep_round_action_done(struct skep_round_action *action)
{
    free(action->list);
    action->list = NULL;
    skep_message_done(&action->message);
    skep_envelope_done(&action->envelope);
    skep_buffer_done(&action->memory.vote_payload);
}

void skep_round_push_persist(struct skep_round *round)
{
    struct skep_round_action *action = skep_round_push(round, SKEP_ROUND_PERSIST);
    action->memory = round->memory;
    action->memory.vote_payload = (struct skep_buffer){0};
    skep_buffer_append(&action->memory.vote_payload, round->memory.vote_payload.data,
                       round->memory.vote_payload.size);
}

struct skep_round_action *skep_round_push_list(struct skep_round *round,
                                               enum skep_round_action_kind kind,
                                               const struct skep_round_list *list)
{
    struct skep_round_action *action = skep_round_push(round, kind);
    action->list_count = list->count;
    action->list = skep_alloc(list->count, sizeof(list->items[0]));
    memcpy(action->list, list->items, list->count * sizeof(list->items[0]));
    return action;
}

struct skep_message *skep_round_push_send(struct skep_round *round, enum skep_message_kind kind,
                                          uint32_t attempt, size_t to)
{
    if (round->replicas.count == 1 || to == round->me) {
        return NULL;
    }
    struct skep_round_action *action = skep_round_push(round, SKEP_ROUND_SEND);
    action->to_all = to == SIZE_MAX;
    if (!action->to_all) {
        action->peer = round->replicas.keepers[to];
    }
    struct skep_message *message = &action->message;
    message->kind = kind;
    message->project = round->manifest->project;
    message->shard = round->shard;
    message->version = round->memory.version + 1;
    message->attempt = attempt;
    message->from = round->replicas.keepers[round->me];
    return message;
}

void skep_round_send_proposal(struct skep_round *round, size_t to)
{
    const struct skep_round_proposal *proposal = &round->proposal;
    struct skep_message *message =
        skep_round_push_send(round, SKEP_MESSAGE_PROPOSE, proposal->attempt, to);
    if (message != NULL) {
        skep_buffer_append(&message->seal_payload, proposal->payload.data, proposal->payload.size);
    }
}

void skep_round_send_vote(struct skep_round *round, size_t to)
{
    const struct skep_round_ballot *ballot = &round->ballots[round->me];
    struct skep_message *message =
        skep_round_push_send(round, SKEP_MESSAGE_VOTE, ballot->attempt, to);
    if (message != NULL) {
        message->seal_hash = ballot->seal;
        memcpy(message->signature, ballot->signature.bytes, sizeof(message->signature));
    }
}

void skep_round_send_promise(struct skep_round *round, size_t to)
{
    const struct skep_round_memory *memory = &round->memory;
    struct skep_message *message =
        skep_round_push_send(round, SKEP_MESSAGE_PROMISE, memory->promised, to);
    if (message != NULL && memory->has_vote) {
        message->has_vote = true;
        message->vote_attempt = memory->vote_attempt;
        skep_buffer_append(&message->seal_payload, memory->vote_payload.data,
                           memory->vote_payload.size);
    }
}

void skep_round_copy_envelope(const struct skep_envelope *from, struct skep_envelope *to)
{
    skep_envelope_init(to, from->type, from->payload.data, from->payload.size);
    for (size_t i = 0; i < from->signature_count; i++) {
        skep_envelope_add(to, &from->signatures[i].signer, from->signatures[i].bytes);
    }
}
