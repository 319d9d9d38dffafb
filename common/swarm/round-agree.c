/* The agreement's own steps: leading an attempt, voting, committing, saying again. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/swarm/round-internal.h"

/* Whether there is anything to agree on, as far as we know. */
static bool has_matter(const struct skep_round *round)
{
    if (round->proposal.known || round->news.known) {
        return true;
    }
    struct skep_round_list list;
    skep_round_select(round, &list);
    return list.count >= skep_round_least(round);
}

/* True once so many, we among them, have promised to vote in no attempt below ours. */
static bool has_majority(struct skep_round *round)
{
    struct skep_round_lead *lead = &round->lead;
    if (!lead->prepared) {
        const struct skep_round_memory *memory = &round->memory;
        lead->best_from = round->me;
        if (!has_matter(round) ||
            (memory->has_vote &&
             skep_round_read_proposal(round, memory->vote_payload.data, memory->vote_payload.size,
                                      memory->vote_attempt, &lead->best) != 0)) {
            return false;
        }
        lead->prepared = true;
        lead->promised[round->me] = true;
        lead->has_own = lead->best.known;
        lead->own = lead->best.link;
        lead->promise_count = 1;
        if (round->memory.promised < round->attempt) {
            round->memory.promised = round->attempt;
            skep_round_push_persist(round);
        }
        skep_round_push_send(round, SKEP_MESSAGE_PREPARE, round->attempt, SIZE_MAX);
    }
    return lead->promise_count >=
           round->replicas.count - skep_replicas_quorum(&round->replicas) + 1;
}

/* We could not vote for what we would have to propose again, so promises that tell of that vote are set aside, and all are asked for anew. */
static void refuse_best(struct skep_round *round)
{
    struct skep_round_lead *lead = &round->lead;
    struct skep_hash refused = lead->best.link;
    skep_round_proposal_done(&lead->best);
    memset(lead, 0, sizeof(*lead));
    lead->has_refused = true;
    lead->refused = refused;
    round->due = true;
}

/* Could we vote for the best of the promises? Our own vote stays what it is: we knew its claims and had its updates when we gave it. */
static bool knows_best(const struct skep_round *round)
{
    const struct skep_round_lead *lead = &round->lead;
    return (lead->has_own && skep_hash_equal(&lead->own, &lead->best.link)) ||
           (skep_round_claims_known(round, &lead->best) &&
            !skep_round_is_against(round, &lead->best.list));
}

/* Fixes the list of our attempt: what may already have been voted for, else what we hold. */
static bool has_list(struct skep_round *round)
{
    struct skep_round_lead *lead = &round->lead;
    if (!lead->has_list) {
        if (lead->best.known) {
            lead->list = lead->best.list;
        } else {
            skep_round_select(round, &lead->list);
        }
        lead->has_list = lead->list.count >= skep_round_least(round);
    }
    return lead->has_list;
}

static void propose(struct skep_round *round, const struct skep_round_outcome *outcome,
                    uint64_t now_ms)
{
    const struct skep_round_lead *lead = &round->lead;
    struct skep_round_claims claims = lead->best.claims;
    if (!lead->best.known) {
        skep_round_claims_choose(round, &lead->list, now_ms, &claims);
    }
    char *payload = skep_round_payload(round, round->attempt, &lead->list, outcome, &claims);
    int code =
        skep_round_read_proposal(round, payload, strlen(payload), round->attempt, &round->proposal);
    assert(code == 0);
    (void)code;
    free(payload);
}

/* The next step of leading our attempt, if it is ours. The vote that follows a proposal is persisted before either is sent, so a
 * leader that restarts cannot propose two things in one attempt. */
void skep_round_lead(struct skep_round *round, uint64_t now_ms)
{
    if (!round->agreeing || round->news.known ||
        skep_round_leader(round, round->attempt) != round->me ||
        round->memory.promised > round->attempt ||
        (round->memory.has_vote && round->memory.vote_attempt >= round->attempt)) {
        return;
    }
    if ((round->attempt > 0 && !has_majority(round)) || !has_list(round)) {
        return;
    }
    struct skep_round_lead *lead = &round->lead;
    if (lead->best.known && !knows_best(round)) {
        refuse_best(round);
        return;
    }
    const struct skep_round_outcome *outcome = NULL;
    size_t from = lead->best.known ? lead->best_from : round->me;
    enum skep_round_merge_state state =
        skep_round_ensure(round, &lead->list, from, now_ms, &outcome);
    if (state == SKEP_ROUND_FAILED && !lead->best.known) {
        skep_round_shrink(round, &lead->list);
        lead->has_list = false;
        round->due = true;
    } else if (state == SKEP_ROUND_MERGED && lead->best.known &&
               !skep_round_is_ours(round, &lead->best, outcome)) {
        if (!lead->has_own || !skep_hash_equal(&lead->own, &lead->best.link)) {
            refuse_best(round);
        }
    } else if (state == SKEP_ROUND_MERGED) {
        propose(round, outcome, now_ms);
    }
}

/* Votes for the newest proposal if its attempt is open to us and its merge gave here all that it says. */
void skep_round_vote(struct skep_round *round, uint64_t now_ms)
{
    struct skep_round_proposal *proposal = &round->proposal;
    struct skep_round_memory *memory = &round->memory;
    if (!proposal->known || round->news.known) {
        return;
    }
    const struct skep_round_outcome *outcome = NULL;
    size_t leader = skep_round_leader(round, proposal->attempt);
    if (skep_round_ensure(round, &proposal->list, leader, now_ms, &outcome) != SKEP_ROUND_MERGED ||
        !skep_round_is_ours(round, proposal, outcome) ||
        !skep_round_claims_known(round, proposal)) {
        return;
    }
    if (proposal->attempt < memory->promised ||
        (memory->has_vote && memory->vote_attempt >= proposal->attempt)) {
        return;
    }
    memory->promised = proposal->attempt;
    memory->has_vote = true;
    memory->vote_attempt = proposal->attempt;
    memory->vote_payload.size = 0;
    skep_buffer_append(&memory->vote_payload, proposal->payload.data, proposal->payload.size);
    skep_round_push_persist(round);
    skep_round_sign_ballot(round);
    if (leader == round->me) {
        skep_round_send_proposal(round, SIZE_MAX);
    }
    skep_round_send_vote(round, SIZE_MAX);
}

/* The proposal's payload with all valid votes for it; returns how many. */
static size_t assemble(struct skep_round *round, struct skep_envelope *ret_envelope)
{
    const struct skep_round_proposal *proposal = &round->proposal;
    struct skep_buffer bytes = {0};
    skep_envelope_pae(SKEP_TYPE_SEAL, proposal->payload.data, proposal->payload.size, &bytes);
    skep_envelope_init(ret_envelope, SKEP_TYPE_SEAL, proposal->payload.data,
                       proposal->payload.size);
    size_t count = 0;
    for (size_t i = 0; i < round->replicas.count; i++) {
        struct skep_round_ballot *ballot = &round->ballots[i];
        const struct skep_peer_id *voter = &round->replicas.keepers[i];
        if (!ballot->given || !skep_hash_equal(&ballot->seal, &proposal->hash)) {
            continue;
        }
        if (!skep_signature_verify(voter, bytes.data, bytes.size, &ballot->signature)) {
            ballot->given = false;
            continue;
        }
        skep_envelope_add(ret_envelope, voter, ballot->signature.bytes);
        count++;
    }
    skep_buffer_done(&bytes);
    return count;
}

static size_t count_ballots(const struct skep_round *round)
{
    size_t count = 0;
    for (size_t i = 0; i < round->replicas.count; i++) {
        if (round->ballots[i].given &&
            skep_hash_equal(&round->ballots[i].seal, &round->proposal.hash)) {
            count++;
        }
    }
    return count;
}

/* Takes the envelope. */
static void push_commit(struct skep_round *round, const struct skep_round_list *list,
                        const struct skep_hash *link, struct skep_envelope *take_envelope)
{
    struct skep_round_action *action = skep_round_push_list(round, SKEP_ROUND_COMMIT, list);
    action->hash = *link;
    action->envelope = *take_envelope;
    memset(take_envelope, 0, sizeof(*take_envelope));
    round->committing = true;
}

/* Someone sent us the seal: its merge is ours if we hold its updates; otherwise its state is fetched. What a majority signed is not ours
 * to doubt: only the state must be the one that we have. */
static void commit_news(struct skep_round *round, uint64_t now_ms)
{
    struct skep_round_news *news = &round->news;
    const struct skep_round_outcome *outcome = NULL;
    enum skep_round_merge_state state =
        skep_round_ensure(round, &news->list, news->from, now_ms, &outcome);
    if (state == SKEP_ROUND_MERGED && skep_hash_equal(&outcome->root, &news->state)) {
        push_commit(round, &news->list, &news->link, &news->envelope);
    } else if (state == SKEP_ROUND_MERGED || state == SKEP_ROUND_FAILED ||
               (state == SKEP_ROUND_MISSING &&
                now_ms >= news->since_ms + 2 * SKEP_ROUND_RESEND_MS)) {
        /* Any keeper that voted has it; the one that told us may have vanished. */
        size_t peer = (news->from + news->tries / 2) % round->replicas.count;
        peer = peer == round->me ? (peer + 1) % round->replicas.count : peer;
        news->tries += skep_round_catch_up(round, peer, now_ms) ? 1 : 0;
    }
}

void skep_round_commit(struct skep_round *round, uint64_t now_ms)
{
    if (round->news.known) {
        commit_news(round, now_ms);
        return;
    }
    size_t quorum = skep_replicas_quorum(&round->replicas);
    if (!round->proposal.known || count_ballots(round) < quorum) {
        return;
    }
    const struct skep_round_outcome *outcome = NULL;
    size_t leader = skep_round_leader(round, round->proposal.attempt);
    if (skep_round_ensure(round, &round->proposal.list, leader, now_ms, &outcome) !=
            SKEP_ROUND_MERGED ||
        !skep_hash_equal(&outcome->root, &round->proposal.state)) {
        return;
    }
    struct skep_envelope envelope = {0};
    if (assemble(round, &envelope) >= quorum) {
        round->announce = leader == round->me;
        if (round->announce) {
            skep_round_copy_envelope(&envelope, &round->announcement);
        }
        push_commit(round, &round->proposal.list, &round->proposal.link, &envelope);
    }
    skep_envelope_done(&envelope);
}

/* Says again what has had no answer: whoever knows the version sealed will answer with the seal. Fetches repeat themselves
 * (round-lists.c). */
void skep_round_resend(struct skep_round *round)
{
    const struct skep_round_ballot *mine = &round->ballots[round->me];
    const struct skep_round_lead *lead = &round->lead;
    bool proposed = round->proposal.known && mine->given &&
                    round->proposal.attempt >= round->memory.promised &&
                    skep_hash_equal(&mine->seal, &round->proposal.hash) &&
                    skep_round_leader(round, round->proposal.attempt) == round->me;
    for (size_t i = 0; i < round->replicas.count; i++) {
        const struct skep_round_ballot *theirs = &round->ballots[i];
        if (lead->prepared && !lead->promised[i] &&
            (!mine->given || mine->attempt < round->attempt)) {
            skep_round_push_send(round, SKEP_MESSAGE_PREPARE, round->attempt, i);
        }
        if (proposed && !(theirs->given && skep_hash_equal(&theirs->seal, &round->proposal.hash))) {
            skep_round_send_proposal(round, i);
        }
    }
    if (mine->given) {
        skep_round_send_vote(round, SIZE_MAX);
    }
    if (round->attempt > 0 && round->memory.promised == round->attempt &&
        !(mine->given && mine->attempt == round->attempt)) {
        skep_round_send_promise(round, skep_round_leader(round, round->attempt));
    }
}

bool skep_round_catch_up(struct skep_round *round, size_t from, uint64_t now_ms)
{
    if (now_ms < round->catch_up_after_ms) {
        return false;
    }
    round->catch_up_after_ms = now_ms + SKEP_ROUND_RESEND_MS;
    skep_round_push(round, SKEP_ROUND_CATCH_UP)->peer = round->replicas.keepers[from];
    return true;
}
