/* The agreement itself: leading an attempt, promising, voting, counting votes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/crypto/hash.h"
#include "common/swarm/credit.h"
#include "common/swarm/round-internal.h"
#include "common/swarm/statement.h"

size_t skep_round_place(const struct skep_round *round, const struct skep_peer_id *keeper)
{
    for (size_t i = 0; i < round->replicas.count; i++) {
        if (skep_peer_id_equal(&round->replicas.keepers[i], keeper)) {
            return i;
        }
    }
    return SIZE_MAX;
}

size_t skep_round_leader(const struct skep_round *round, uint32_t attempt)
{
    struct skep_peer_id leader =
        skep_replicas_leader(&round->replicas, &round->shard, &round->memory.head, attempt);
    return skep_round_place(round, &leader);
}

static void list_of(const struct skep_seal *seal, struct skep_round_list *ret_list)
{
    ret_list->count = seal->receipt_count;
    for (size_t i = 0; i < seal->receipt_count; i++) {
        const struct skep_receipt *receipt = &seal->receipts[i];
        ret_list->items[i] =
            (struct skep_round_update){receipt->update, receipt->donor, receipt->base_version};
    }
}

static bool receipts_are_right(const struct skep_round *round, const struct skep_seal *seal)
{
    uint64_t credit = skep_credit_micro(round->manifest, &round->shard);
    for (size_t i = 0; i < seal->receipt_count; i++) {
        const struct skep_receipt *one = &seal->receipts[i];
        if (one->credit_micro != credit || one->base_version > round->memory.version ||
            round->memory.version - one->base_version > SKEP_LIMIT_STALENESS ||
            skep_round_is_recent(round, &one->donor, one->base_version) ||
            (i > 0 && skep_hash_compare(&one[-1].update, &one->update) >= 0)) {
            return false;
        }
        for (size_t k = 0; k < i; k++) {
            if (skep_peer_id_equal(&one->donor, &seal->receipts[k].donor)) {
                return false;
            }
        }
    }
    return true;
}

/* SKEP_ERR_STATE: follows another version than our head. SKEP_ERR_REFUSED: never to be voted for. */
static int check_seal(const struct skep_round *round, const struct skep_seal *seal,
                      uint32_t attempt)
{
    if (memcmp(&seal->project, &round->manifest->project, sizeof(seal->project)) != 0 ||
        !skep_shard_equal(&seal->shard, &round->shard) || seal->attempt != attempt ||
        seal->version != round->memory.version + 1) {
        return SKEP_ERR_REFUSED;
    }
    if (!skep_hash_equal(&seal->previous, &round->memory.head)) {
        return SKEP_ERR_STATE;
    }
    uint32_t most = round->manifest->merge.most_updates;
    if (seal->receipt_count < skep_round_least(round) || seal->receipt_count > most ||
        seal->receipt_count > SKEP_LIMIT_UPDATES_PER_ROUND || !receipts_are_right(round, seal)) {
        return SKEP_ERR_REFUSED;
    }
    return 0;
}

static void proposal_done(struct skep_round_proposal *proposal)
{
    skep_buffer_done(&proposal->payload);
    memset(proposal, 0, sizeof(*proposal));
}

/* Replaces *proposal by a checked one, or leaves it alone. */
static int read_proposal(const struct skep_round *round, const void *payload, size_t size,
                         uint32_t attempt, struct skep_round_proposal *proposal)
{
    struct skep_seal seal = {0};
    int code = skep_seal_decode(payload, size, &seal, NULL);
    if (code != 0) {
        return code;
    }
    code = check_seal(round, &seal, attempt);
    if (code == 0) {
        struct skep_buffer copy = {0};
        skep_buffer_append(&copy, payload, size);
        proposal_done(proposal);
        proposal->known = true;
        proposal->attempt = attempt;
        proposal->payload = copy;
        proposal->hash = skep_hash_of(payload, size);
        proposal->state = seal.state;
        proposal->link = skep_seal_hash(&seal);
        list_of(&seal, &proposal->list);
    }
    skep_seal_done(&seal);
    return code;
}

static void lead_done(struct skep_round_lead *lead)
{
    proposal_done(&lead->best);
    memset(lead, 0, sizeof(*lead));
}

void skep_round_enter(struct skep_round *round, uint32_t attempt, uint64_t now_ms)
{
    lead_done(&round->lead);
    round->attempt = attempt;
    round->attempt_ms = now_ms;
}

void skep_round_forget(struct skep_round *round)
{
    lead_done(&round->lead);
    proposal_done(&round->proposal);
    memset(round->ballots, 0, sizeof(round->ballots));
    skep_envelope_done(&round->news.envelope);
    memset(&round->news, 0, sizeof(round->news));
    skep_envelope_done(&round->announcement);
    memset(&round->announcement, 0, sizeof(round->announcement));
    round->announce = false;
    round->committing = false;
    round->merge_count = 0;
    round->fetch_count = 0;
    uint32_t most = round->manifest->merge.most_updates;
    round->most = most < SKEP_LIMIT_UPDATES_PER_ROUND ? most : SKEP_LIMIT_UPDATES_PER_ROUND;
    round->window_open = false;
    round->agreeing = false;
    round->timed = false;
    round->attempt = 0;
}

/* Our vote for the proposal as a ballot, signed. Ed25519 is deterministic: after a restart it is the same again. */
static void sign_ballot(struct skep_round *round)
{
    struct skep_round_ballot *ballot = &round->ballots[round->me];
    struct skep_buffer bytes = {0};
    skep_envelope_pae(SKEP_TYPE_SEAL, round->proposal.payload.data, round->proposal.payload.size,
                      &bytes);
    ballot->given = true;
    ballot->attempt = round->proposal.attempt;
    ballot->seal = round->proposal.hash;
    ballot->signature = skep_key_sign(round->key, bytes.data, bytes.size);
    skep_buffer_done(&bytes);
}

/* Whether a remembered vote is about a version that is sealed by now. */
static bool is_outdated(const struct skep_round *round)
{
    const struct skep_buffer *payload = &round->memory.vote_payload;
    struct skep_seal seal = {0};
    if (skep_seal_decode(payload->data, payload->size, &seal, NULL) != 0) {
        return false;
    }
    bool outdated = seal.version <= round->memory.version;
    skep_seal_done(&seal);
    return outdated;
}

/* A vote that we cannot read (a torn disk) is still a vote: it stays in memory, goes into promises as it is, and keeps us from
 * leading. Forgetting it could seal two versions. */
void skep_round_restore(struct skep_round *round)
{
    struct skep_round_memory *memory = &round->memory;
    if (memory->has_vote && is_outdated(round)) {
        memory->has_vote = false;
        memory->promised = 0;
    }
    if (memory->has_vote && memory->vote_attempt > memory->promised) {
        memory->promised = memory->vote_attempt;
    }
    if (memory->has_vote &&
        read_proposal(round, memory->vote_payload.data, memory->vote_payload.size,
                      memory->vote_attempt, &round->proposal) == 0) {
        sign_ballot(round);
    }
    round->attempt = memory->promised;
    round->agreeing = memory->has_vote || memory->promised > 0;
    round->due = round->agreeing;
}

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

/* True once a majority, we among them, has promised to vote in no attempt below ours. */
static bool has_majority(struct skep_round *round)
{
    struct skep_round_lead *lead = &round->lead;
    if (!lead->prepared) {
        const struct skep_round_memory *memory = &round->memory;
        lead->best_from = round->me;
        if (!has_matter(round) ||
            (memory->has_vote &&
             read_proposal(round, memory->vote_payload.data, memory->vote_payload.size,
                           memory->vote_attempt, &lead->best) != 0)) {
            return false;
        }
        lead->prepared = true;
        lead->promised[round->me] = true;
        lead->promise_count = 1;
        if (round->memory.promised < round->attempt) {
            round->memory.promised = round->attempt;
            skep_round_push_persist(round);
        }
        skep_round_push_send(round, SKEP_MESSAGE_PREPARE, round->attempt, SIZE_MAX);
    }
    return lead->promise_count >= skep_replicas_quorum(&round->replicas);
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

static void doubt(struct skep_round *round, struct skep_round_proposal *proposal)
{
    if (!proposal->doubted) {
        proposal->doubted = true;
        round->disagreements++;
    }
}

static void propose(struct skep_round *round, const struct skep_hash *root)
{
    const struct skep_round_list *list = &round->lead.list;
    struct skep_receipt receipts[SKEP_LIMIT_UPDATES_PER_ROUND];
    for (size_t i = 0; i < list->count; i++) {
        receipts[i] = (struct skep_receipt){
            .update = list->items[i].hash,
            .donor = list->items[i].donor,
            .base_version = list->items[i].base_version,
            .credit_micro = skep_credit_micro(round->manifest, &round->shard),
        };
    }
    struct skep_seal seal = {
        .project = round->manifest->project,
        .shard = round->shard,
        .version = round->memory.version + 1,
        .attempt = round->attempt,
        .previous = round->memory.head,
        .state = *root,
        .receipt_count = list->count,
        .receipts = receipts,
    };
    char *payload = skep_seal_encode(&seal);
    int code = read_proposal(round, payload, strlen(payload), round->attempt, &round->proposal);
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
    struct skep_hash root;
    size_t from = lead->best.known ? lead->best_from : round->me;
    enum skep_round_merge_state state = skep_round_ensure(round, &lead->list, from, now_ms, &root);
    if (state == SKEP_ROUND_FAILED && !lead->best.known) {
        skep_round_shrink(round, &lead->list);
        lead->has_list = false;
        round->due = true;
    } else if (state == SKEP_ROUND_MERGED && lead->best.known &&
               !skep_hash_equal(&root, &lead->best.state)) {
        doubt(round, &lead->best);
    } else if (state == SKEP_ROUND_MERGED) {
        propose(round, &root);
    }
}

/* Votes for the newest proposal if its attempt is open to us and its merge gave the state it names. */
void skep_round_vote(struct skep_round *round, uint64_t now_ms)
{
    struct skep_round_proposal *proposal = &round->proposal;
    struct skep_round_memory *memory = &round->memory;
    if (!proposal->known || round->news.known) {
        return;
    }
    struct skep_hash root;
    size_t leader = skep_round_leader(round, proposal->attempt);
    if (skep_round_ensure(round, &proposal->list, leader, now_ms, &root) != SKEP_ROUND_MERGED) {
        return;
    }
    if (!skep_hash_equal(&root, &proposal->state)) {
        doubt(round, proposal);
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
    sign_ballot(round);
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

/* Someone sent us the seal: its merge is ours if we hold its updates; otherwise its state is fetched. */
static void commit_news(struct skep_round *round, uint64_t now_ms)
{
    struct skep_round_news *news = &round->news;
    struct skep_hash root;
    enum skep_round_merge_state state =
        skep_round_ensure(round, &news->list, news->from, now_ms, &root);
    if (state == SKEP_ROUND_MERGED && skep_hash_equal(&root, &news->state)) {
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
    struct skep_hash root;
    size_t leader = skep_round_leader(round, round->proposal.attempt);
    if (skep_round_ensure(round, &round->proposal.list, leader, now_ms, &root) !=
            SKEP_ROUND_MERGED ||
        !skep_hash_equal(&root, &round->proposal.state)) {
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

/* Says again what has had no answer. Fetches repeat themselves (round-lists.c). */
void skep_round_resend(struct skep_round *round)
{
    const struct skep_round_ballot *mine = &round->ballots[round->me];
    const struct skep_round_lead *lead = &round->lead;
    bool proposed = round->proposal.known && mine->given &&
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
            read_proposal(round, message->seal_payload.data, message->seal_payload.size,
                          message->vote_attempt, &vote) != 0) {
            return;
        }
        if (!lead->best.known || vote.attempt > lead->best.attempt) {
            proposal_done(&lead->best);
            lead->best = vote;
            lead->best_from = from;
        } else {
            proposal_done(&vote);
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
    int code = read_proposal(round, message->seal_payload.data, message->seal_payload.size,
                             message->attempt, &round->proposal);
    if (code == 0) {
        skep_round_follow(round, message->attempt, now_ms);
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
        if (!skep_hash_equal(&seal.previous, &round->memory.head) ||
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
            list_of(&seal, &round->news.list);
        }
    }
    skep_seal_done(&seal);
}
