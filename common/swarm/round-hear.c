/* What other keepers say, noted down; round-agree.c then acts on it. */
#include <string.h>

#include "common/swarm/round-internal.h"
#include "common/swarm/statement.h"

void skep_round_on_prepare(struct skep_round *round, const struct skep_message *message,
                           size_t from, uint64_t now_ms)
{
    uint32_t attempt = message->attempt;
    struct skep_round_memory *memory = &round->memory;
    if (attempt == 0 || from != skep_round_leader(round, attempt) || attempt < memory->promised ||
        (memory->has_vote && memory->vote_attempt >= attempt)) {
        return;
    }
    skep_round_follow(round, attempt, now_ms);
    round->heard = round->heard || attempt == round->attempt;
    if (memory->promised < attempt) {
        memory->promised = attempt;
        skep_round_push_persist(round);
    }
    struct skep_message *promise = skep_round_push_send(round, SKEP_MESSAGE_PROMISE, attempt, from);
    if (promise != NULL && memory->has_vote) {
        promise->has_vote = true;
        promise->vote_attempt = memory->vote_attempt;
        skep_buffer_append(&promise->seal_payload, memory->vote_payload.data,
                           memory->vote_payload.size);
    }
}

void skep_round_on_promise(struct skep_round *round, const struct skep_message *message,
                           size_t from)
{
    struct skep_round_lead *lead = &round->lead;
    if (message->attempt != round->attempt || !lead->prepared || lead->promised[from]) {
        return;
    }
    if (message->has_vote) {
        struct skep_round_proposal vote = {0};
        if (message->vote_attempt >= round->attempt ||
            skep_round_read_proposal(round, message->seal_payload.data, message->seal_payload.size,
                                     message->vote_attempt, &vote) != 0) {
            return;
        }
        if (lead->has_refused && skep_hash_equal(&vote.link, &lead->refused)) {
            skep_round_proposal_done(&vote);
            return;
        }
        if (!lead->best.known || vote.attempt > lead->best.attempt) {
            skep_round_proposal_done(&lead->best);
            lead->best = vote;
            lead->best_from = from;
            lead->has_list =
                false; /* more promises than a majority are as good, and this list is merged somewhere */
        } else {
            skep_round_proposal_done(&vote);
        }
    }
    lead->promised[from] = true;
    lead->promise_count++;
}

void skep_round_on_propose(struct skep_round *round, const struct skep_message *message,
                           size_t from, uint64_t now_ms)
{
    if (from != skep_round_leader(round, message->attempt)) {
        return;
    }
    if (round->proposal.known && message->attempt <= round->proposal.attempt) {
        const struct skep_round_ballot *mine = &round->ballots[round->me];
        if (mine->given && mine->attempt == message->attempt) {
            skep_round_send_vote(round, from); /* it asks because our vote was lost */
        }
        return;
    }
    int code =
        skep_round_read_proposal(round, message->seal_payload.data, message->seal_payload.size,
                                 message->attempt, &round->proposal);
    if (code == 0) {
        skep_round_follow(round, message->attempt, now_ms);
        round->heard = round->heard || message->attempt == round->attempt;
    } else if (code == SKEP_ERR_STATE) {
        skep_round_catch_up(round, from, now_ms);
    }
}

void skep_round_on_vote(struct skep_round *round, const struct skep_message *message, size_t from,
                        uint64_t now_ms)
{
    struct skep_round_ballot *ballot = &round->ballots[from];
    if (!ballot->given || message->attempt >= ballot->attempt) {
        ballot->given = true;
        ballot->attempt = message->attempt;
        ballot->seal = message->seal_hash;
        memcpy(ballot->signature.bytes, message->signature, sizeof(ballot->signature.bytes));
    }
    skep_round_follow(round, message->attempt, now_ms);
}

void skep_round_on_sealed(struct skep_round *round, const struct skep_message *message, size_t from,
                          uint64_t now_ms)
{
    struct skep_seal seal = {0};
    struct skep_hash link;
    if (round->news.known ||
        skep_seal_open(&message->sealed, round->manifest, &seal, &link, NULL) != 0) {
        return;
    }
    if (skep_shard_equal(&seal.shard, &round->shard) && seal.version == message->version) {
        /* An empty list, which no honest keeper votes for, is nothing to merge: only its state could be fetched. */
        if (!skep_hash_equal(&seal.previous, &round->memory.head) || seal.receipt_count == 0 ||
            seal.receipt_count > SKEP_LIMIT_UPDATES_PER_ROUND) {
            skep_round_catch_up(round, from, now_ms);
        } else {
            skep_round_follow(round, 0, now_ms);
            round->news.known = true;
            round->news.from = from;
            round->news.since_ms = now_ms;
            round->news.state = seal.state;
            round->news.link = link;
            skep_round_copy_envelope(&message->sealed, &round->news.envelope);
            skep_round_list_of(&seal, &round->news.list);
        }
    }
    skep_seal_done(&seal);
}
