/* What this keeper found when it repeated jobs, and what of it may stand in a seal (the rules are in round.h). */
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/swarm/round-internal.h"

static bool may_state(const struct skep_round *round)
{
    return round->manifest->trust.audits && round->shard.kind == SKEP_SHARD_TRUNK;
}

static struct skep_round_found *find(const struct skep_round *round, const struct skep_hash *update)
{
    for (size_t i = 0; i < round->found_count; i++) {
        if (skep_hash_equal(&round->found[i].update.hash, update)) {
            return &round->found[i];
        }
    }
    return NULL;
}

static bool is_found(const struct skep_round *round, const struct skep_round_update *update,
                     bool valid)
{
    const struct skep_round_found *found = find(round, &update->hash);
    return found != NULL && found->valid == valid &&
           found->update.base_version == update->base_version &&
           skep_peer_id_equal(&found->update.donor, &update->donor);
}

bool skep_round_found_invalid(const struct skep_round *round, const struct skep_hash *update)
{
    const struct skep_round_found *found = find(round, update);
    return found != NULL && !found->valid;
}

bool skep_round_is_against(const struct skep_round *round, const struct skep_round_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct skep_hash *update = &list->items[i].hash;
        if (skep_round_found_invalid(round, update) && skep_round_find(round, update) == NULL) {
            return true;
        }
    }
    return false;
}

static struct skep_round_update update_of(const struct skep_finding *finding)
{
    return (struct skep_round_update){finding->update, finding->donor, finding->base_version};
}

static bool is_old(const struct skep_round *round, const struct skep_round_found *found)
{
    return found->valid &&
           found->update.base_version + SKEP_ROUND_VERDICT_VERSIONS < round->memory.version + 1;
}

/* The valid one that can be missed best: it only counts for its donor. */
static struct skep_round_found *least_of(struct skep_round *round)
{
    struct skep_round_found *least = NULL;
    for (size_t i = 0; i < round->found_count; i++) {
        struct skep_round_found *one = &round->found[i];
        if (one->valid &&
            (least == NULL || one->update.base_version < least->update.base_version)) {
            least = one;
        }
    }
    return least;
}

static struct skep_round_found *room_for(struct skep_round *round)
{
    if (round->found_count == SKEP_ROUND_VERDICTS) {
        return least_of(round);
    }
    round->found = skep_realloc(round->found, round->found_count + 1, sizeof(round->found[0]));
    return &round->found[round->found_count++];
}

void skep_round_verdict(struct skep_round *round, const struct skep_round_update *update,
                        bool valid, uint64_t now_ms)
{
    struct skep_round_found one = {.update = *update, .valid = valid, .since_ms = now_ms};
    if (!may_state(round) || find(round, &update->hash) != NULL || is_old(round, &one)) {
        return;
    }
    struct skep_round_found *place = room_for(round);
    if (place == NULL) {
        return;
    }
    *place = one;
    for (size_t i = 0; i < round->held_count && !valid; i++) {
        struct skep_round_held *held = &round->held[i];
        held->bad = held->bad || skep_hash_equal(&held->update.hash, &update->hash);
    }
    round->lead.has_refused = false; /* a vote that we did not know what to think of */
    skep_round_advance(round, now_ms);
}

void skep_round_ban(struct skep_round *round, const struct skep_peer_id *donor)
{
    for (size_t i = 0; i < round->held_count; i++) {
        if (skep_peer_id_equal(&round->held[i].update.donor, donor)) {
            round->held[i].bad = true;
            round->held[i].banned = true;
        }
    }
}

/* ---- claims ---- */

bool skep_round_claims_any(const struct skep_round_claims *claims)
{
    bool any = claims->finding_count > 0;
    for (size_t i = 0; i < SKEP_LIMIT_UPDATES_PER_ROUND; i++) {
        any = any || claims->audited[i];
    }
    return any;
}

void skep_round_claims_of(const struct skep_seal *seal, struct skep_round_claims *ret_claims)
{
    *ret_claims = (struct skep_round_claims){.finding_count = seal->finding_count};
    for (size_t i = 0; i < seal->receipt_count; i++) {
        ret_claims->audited[i] = seal->receipts[i].audited;
    }
    for (size_t i = 0; i < seal->finding_count; i++) {
        ret_claims->findings[i] = seal->findings[i];
    }
}

bool skep_round_claims_allowed(const struct skep_round *round, const struct skep_seal *seal)
{
    bool any = seal->finding_count > 0;
    for (size_t i = 0; i < seal->receipt_count; i++) {
        any = any || seal->receipts[i].audited;
        for (size_t k = 0; k < seal->finding_count; k++) {
            if (skep_hash_equal(&seal->receipts[i].update, &seal->findings[k].update)) {
                return false; /* its receipt says whether it was found valid */
            }
        }
    }
    return !any || (may_state(round) && seal->finding_count <= SKEP_LIMIT_FINDINGS);
}

bool skep_round_claims_known(const struct skep_round *round,
                             const struct skep_round_proposal *proposal)
{
    const struct skep_round_claims *claims = &proposal->claims;
    for (size_t i = 0; i < proposal->list.count; i++) {
        if (claims->audited[i] && !is_found(round, &proposal->list.items[i], true)) {
            return false;
        }
    }
    for (size_t i = 0; i < claims->finding_count; i++) {
        struct skep_round_update update = update_of(&claims->findings[i]);
        if (!is_found(round, &update, claims->findings[i].verdict == SKEP_VERDICT_VALID)) {
            return false;
        }
    }
    return true;
}

static bool is_ripe(const struct skep_round *round, const struct skep_round_found *found,
                    uint64_t now_ms)
{
    return round->replicas.count == 1 || now_ms >= found->since_ms + SKEP_ROUND_VERDICT_MS;
}

static int by_failures(const void *a, const void *b)
{
    const struct skep_round_found *x = *(const struct skep_round_found *const *)a;
    const struct skep_round_found *y = *(const struct skep_round_found *const *)b;
    if (x->failures != y->failures) {
        return x->failures < y->failures ? -1 : 1;
    }
    return skep_hash_compare(&x->update.hash, &y->update.hash);
}

static int by_update(const void *a, const void *b)
{
    return skep_hash_compare(&((const struct skep_finding *)a)->update,
                             &((const struct skep_finding *)b)->update);
}

static void claim(struct skep_round_claims *claims, const struct skep_round_list *list,
                  const struct skep_round_found *found)
{
    for (size_t i = 0; i < list->count; i++) {
        if (skep_hash_equal(&list->items[i].hash, &found->update.hash)) {
            claims->audited[i] = found->valid;
            return;
        }
    }
    if (claims->finding_count < SKEP_LIMIT_FINDINGS) {
        claims->findings[claims->finding_count++] = (struct skep_finding){
            .update = found->update.hash,
            .donor = found->update.donor,
            .base_version = found->update.base_version,
            .verdict = found->valid ? SKEP_VERDICT_VALID : SKEP_VERDICT_INVALID};
    }
}

static bool is_listed(const struct skep_round_list *list, const struct skep_hash *update)
{
    for (size_t i = 0; i < list->count; i++) {
        if (skep_hash_equal(&list->items[i].hash, update)) {
            return true;
        }
    }
    return false;
}

void skep_round_claims_choose(const struct skep_round *round, const struct skep_round_list *list,
                              uint64_t now_ms, struct skep_round_claims *ret_claims)
{
    *ret_claims = (struct skep_round_claims){0};
    if (!may_state(round) || round->attempt > 0 || round->memory.version < round->claims_after) {
        return;
    }
    const struct skep_round_found **ripe =
        skep_alloc(round->found_count + 1, sizeof(struct skep_round_found *));
    size_t count = 0;
    for (size_t i = 0; i < round->found_count; i++) {
        const struct skep_round_found *one = &round->found[i];
        const struct skep_round_held *held = skep_round_find(round, &one->update.hash);
        bool waits = held != NULL && !held->bad && !is_listed(list, &one->update.hash);
        if (!waits && is_ripe(round, one, now_ms) &&
            one->update.base_version <= round->memory.version) {
            ripe[count++] = one;
        }
    }
    qsort(ripe, count, sizeof(struct skep_round_found *), by_failures);
    size_t most = round->claims_most != 0 ? round->claims_most : SKEP_ROUND_CLAIMS;
    for (size_t i = 0; i < count && i < most; i++) {
        claim(ret_claims, list, ripe[i]);
    }
    qsort(ret_claims->findings, ret_claims->finding_count, sizeof(ret_claims->findings[0]),
          by_update);
    free(ripe);
}

/* ---- what became of claims ---- */

static void note_failure(struct skep_round *round, const struct skep_hash *update)
{
    struct skep_round_found *found = find(round, update);
    if (found != NULL) {
        found->failures++;
    }
}

void skep_round_claims_failed(struct skep_round *round)
{
    const struct skep_round_proposal *proposal = &round->proposal;
    if (!proposal->known || proposal->attempt != round->attempt ||
        !skep_round_claims_any(&proposal->claims) ||
        skep_round_leader(round, round->attempt) != round->me) {
        return;
    }
    for (size_t i = 0; i < proposal->list.count; i++) {
        if (proposal->claims.audited[i]) {
            note_failure(round, &proposal->list.items[i].hash);
        }
    }
    for (size_t i = 0; i < proposal->claims.finding_count; i++) {
        note_failure(round, &proposal->claims.findings[i].update);
    }
    size_t most = round->claims_most != 0 ? round->claims_most : SKEP_ROUND_CLAIMS;
    round->claims_most = most > 4 ? most / 4 : 1;
    round->claims_pause = round->claims_pause < SKEP_ROUND_LONGEST_PAUSE / 2
                              ? 2 * round->claims_pause + 1
                              : SKEP_ROUND_LONGEST_PAUSE;
    round->claims_after = round->memory.version + 1 + round->claims_pause;
}

static bool is_stated(const struct skep_seal *seal, const struct skep_hash *update)
{
    for (size_t i = 0; i < seal->receipt_count; i++) {
        if (seal->receipts[i].audited && skep_hash_equal(&seal->receipts[i].update, update)) {
            return true;
        }
    }
    for (size_t i = 0; i < seal->finding_count; i++) {
        if (skep_hash_equal(&seal->findings[i].update, update)) {
            return true;
        }
    }
    return false;
}

void skep_round_claims_sealed(struct skep_round *round, const struct skep_seal *seal)
{
    struct skep_round_claims claims;
    skep_round_claims_of(seal, &claims);
    if (skep_round_claims_any(&claims)) {
        round->claims_most = 0;
        round->claims_pause = 0;
        round->claims_after = 0;
    }
    size_t kept = 0;
    for (size_t i = 0; i < round->found_count; i++) {
        if (!is_stated(seal, &round->found[i].update.hash) && !is_old(round, &round->found[i])) {
            round->found[kept++] = round->found[i];
        }
    }
    round->found_count = kept;
    for (size_t i = 0; i < seal->finding_count; i++) {
        if (seal->findings[i].verdict == SKEP_VERDICT_INVALID) {
            skep_round_ban(round, &seal->findings[i].donor);
        }
    }
}
