/* What may be proposed and voted for, what is remembered of it, and what one version's agreement consists of. */
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

size_t skep_round_leader(struct skep_round *round, uint32_t attempt)
{
    size_t *known = &round->leaders[attempt % round->replicas.count];
    if (*known == SIZE_MAX) {
        struct skep_peer_id leader =
            skep_replicas_leader(&round->replicas, &round->shard, &round->memory.head, attempt);
        *known = skep_round_place(round, &leader);
    }
    return *known;
}

void skep_round_list_of(const struct skep_seal *seal, struct skep_round_list *ret_list)
{
    ret_list->count = seal->receipt_count;
    for (size_t i = 0; i < seal->receipt_count; i++) {
        const struct skep_receipt *receipt = &seal->receipts[i];
        ret_list->items[i] =
            (struct skep_round_update){receipt->update, receipt->donor, receipt->base_version};
    }
}

/* The next version's seal; it borrows `receipts`, which has room for the list, and the claims. */
static struct skep_seal seal_of(const struct skep_round *round, uint32_t attempt,
                                const struct skep_round_list *list,
                                const struct skep_round_outcome *outcome,
                                const struct skep_round_claims *claims,
                                struct skep_receipt *receipts)
{
    uint64_t credit = skep_credit_micro(round->manifest, &round->shard);
    for (size_t i = 0; i < list->count; i++) {
        const struct skep_round_fate *fate = &outcome->updates[i];
        receipts[i] = (struct skep_receipt){
            .update = list->items[i].hash,
            .donor = list->items[i].donor,
            .base_version = list->items[i].base_version,
            .credit_micro = fate->merged ? credit : 0,
            .audited = claims->audited[i],
            .merged = fate->merged,
            .copy = fate->copy,
            .agreement_permille = fate->agreement_permille,
        };
    }
    return (struct skep_seal){
        .project = round->manifest->project,
        .shard = round->shard,
        .version = round->memory.version + 1,
        .attempt = attempt,
        .previous = round->memory.head,
        .state = outcome->root,
        .norm = outcome->norm < SKEP_NORM_MOST ? outcome->norm : SKEP_NORM_MOST,
        .receipt_count = list->count,
        .receipts = receipts,
        .finding_count = claims->finding_count,
        .findings = (struct skep_finding *)claims->findings,
    };
}

char *skep_round_payload(const struct skep_round *round, uint32_t attempt,
                         const struct skep_round_list *list,
                         const struct skep_round_outcome *outcome,
                         const struct skep_round_claims *claims)
{
    struct skep_receipt receipts[SKEP_LIMIT_UPDATES_PER_ROUND];
    struct skep_seal seal = seal_of(round, attempt, list, outcome, claims, receipts);
    return skep_seal_encode(&seal);
}

bool skep_round_is_ours(struct skep_round *round, struct skep_round_proposal *proposal,
                        const struct skep_round_outcome *outcome)
{
    if (!proposal->judged) {
        struct skep_receipt receipts[SKEP_LIMIT_UPDATES_PER_ROUND];
        struct skep_seal seal =
            seal_of(round, 0, &proposal->list, outcome, &proposal->claims, receipts);
        struct skep_hash link = skep_seal_hash(&seal); /* all that it says but the attempt */
        proposal->judged = true;
        proposal->ours = skep_hash_equal(&link, &proposal->link);
        round->disagreements += !proposal->ours;
    }
    return proposal->ours;
}

static bool receipts_are_right(const struct skep_round *round, const struct skep_seal *seal)
{
    uint64_t credit = skep_credit_micro(round->manifest, &round->shard);
    for (size_t i = 0; i < seal->receipt_count; i++) {
        const struct skep_receipt *one = &seal->receipts[i];
        if (one->credit_micro != (one->merged ? credit : 0) ||
            one->base_version > round->memory.version ||
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
        seal->receipt_count > SKEP_LIMIT_UPDATES_PER_ROUND || !receipts_are_right(round, seal) ||
        !skep_round_claims_allowed(round, seal)) {
        return SKEP_ERR_REFUSED;
    }
    return 0;
}

void skep_round_proposal_done(struct skep_round_proposal *proposal)
{
    skep_buffer_done(&proposal->payload);
    memset(proposal, 0, sizeof(*proposal));
}

int skep_round_read_proposal(const struct skep_round *round, const void *payload, size_t size,
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
        skep_round_proposal_done(proposal);
        proposal->known = true;
        proposal->attempt = attempt;
        proposal->payload = copy;
        proposal->hash = skep_hash_of(payload, size);
        proposal->state = seal.state;
        proposal->link = skep_seal_hash(&seal);
        skep_round_list_of(&seal, &proposal->list);
        skep_round_claims_of(&seal, &proposal->claims);
    }
    skep_seal_done(&seal);
    return code;
}

static void lead_done(struct skep_round_lead *lead)
{
    skep_round_proposal_done(&lead->best);
    memset(lead, 0, sizeof(*lead));
}

void skep_round_enter(struct skep_round *round, uint32_t attempt, uint64_t now_ms)
{
    skep_round_claims_failed(round);
    lead_done(&round->lead);
    round->attempt = attempt;
    round->attempt_ms = now_ms;
    round->heard = false;
}

void skep_round_forget(struct skep_round *round)
{
    lead_done(&round->lead);
    skep_round_proposal_done(&round->proposal);
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
    round->heard = false;
    for (size_t i = 0; i < SKEP_LIMIT_KEEPERS; i++) {
        round->leaders[i] = SIZE_MAX;
    }
}

void skep_round_sign_ballot(struct skep_round *round)
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
        skep_round_read_proposal(round, memory->vote_payload.data, memory->vote_payload.size,
                                 memory->vote_attempt, &round->proposal) == 0) {
        skep_round_sign_ballot(round);
    }
    round->attempt = memory->promised;
    round->agreeing = memory->has_vote || memory->promised > 0;
    round->due = round->agreeing;
}
