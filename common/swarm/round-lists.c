/* Updates held, lists chosen from them, merges and fetches asked for. */
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/crypto/hash.h"
#include "common/swarm/round-internal.h"

size_t skep_round_least(const struct skep_round *round)
{
    return round->manifest->merge.least_updates > 1 ? round->manifest->merge.least_updates : 1;
}

const struct skep_round_held *skep_round_find(const struct skep_round *round,
                                              const struct skep_hash *hash)
{
    for (size_t i = 0; i < round->held_count; i++) {
        if (skep_hash_equal(&round->held[i].update.hash, hash)) {
            return &round->held[i];
        }
    }
    return NULL;
}

bool skep_round_is_recent(const struct skep_round *round, const struct skep_peer_id *donor,
                          uint64_t base_version)
{
    for (size_t i = 0; i < round->recent_count; i++) {
        if (round->recent[i].base_version == base_version &&
            skep_peer_id_equal(&round->recent[i].donor, donor)) {
            return true;
        }
    }
    return false;
}

static bool is_stale(const struct skep_round *round, uint64_t base_version)
{
    return base_version + SKEP_LIMIT_STALENESS < round->memory.version;
}

static bool is_eligible(const struct skep_round *round, const struct skep_round_held *held)
{
    return !held->bad && held->update.base_version <= round->memory.version &&
           !is_stale(round, held->update.base_version) &&
           !skep_round_is_recent(round, &held->update.donor, held->update.base_version);
}

static int by_donor(const void *a, const void *b)
{
    const struct skep_round_update *x = a;
    const struct skep_round_update *y = b;
    int order = memcmp(x->donor.bytes, y->donor.bytes, SKEP_ID_SIZE);
    if (order != 0) {
        return order;
    }
    if (x->base_version != y->base_version) {
        return x->base_version > y->base_version ? -1 : 1;
    }
    return skep_hash_compare(&x->hash, &y->hash);
}

static int by_staleness(const void *a, const void *b)
{
    const struct skep_round_update *x = a;
    const struct skep_round_update *y = b;
    if (x->base_version != y->base_version) {
        return x->base_version > y->base_version ? -1 : 1;
    }
    return skep_hash_compare(&x->hash, &y->hash);
}

static int by_hash(const void *a, const void *b)
{
    return skep_hash_compare(&((const struct skep_round_update *)a)->hash,
                             &((const struct skep_round_update *)b)->hash);
}

void skep_round_select(const struct skep_round *round, struct skep_round_list *ret_list)
{
    ret_list->count = 0;
    struct skep_round_update *all = skep_alloc(round->held_count + 1, sizeof(all[0]));
    size_t count = 0;
    for (size_t i = 0; i < round->held_count; i++) {
        if (is_eligible(round, &round->held[i])) {
            all[count++] = round->held[i].update;
        }
    }
    qsort(all, count, sizeof(all[0]), by_donor);
    size_t donors = 0;
    for (size_t i = 0; i < count; i++) {
        if (donors == 0 || !skep_peer_id_equal(&all[donors - 1].donor, &all[i].donor)) {
            all[donors++] = all[i];
        }
    }
    qsort(all, donors, sizeof(all[0]), by_staleness);
    ret_list->count = donors < round->most ? donors : round->most;
    memcpy(ret_list->items, all, ret_list->count * sizeof(all[0]));
    qsort(ret_list->items, ret_list->count, sizeof(all[0]), by_hash);
    free(all);
}

/* Whether a list under agreement names it, so that it must be kept although the table is full. */
static bool is_wanted(const struct skep_round *round, const struct skep_hash *hash)
{
    for (size_t i = 0; i < round->fetch_count; i++) {
        if (skep_hash_equal(&round->fetches[i].hash, hash)) {
            return true;
        }
    }
    return false;
}

static void drop_fetch(struct skep_round *round, const struct skep_hash *hash)
{
    for (size_t i = 0; i < round->fetch_count; i++) {
        if (skep_hash_equal(&round->fetches[i].hash, hash)) {
            round->fetches[i] = round->fetches[--round->fetch_count];
            return;
        }
    }
}

void skep_round_hold(struct skep_round *round, const struct skep_round_update *update)
{
    bool wanted = is_wanted(round, &update->hash);
    drop_fetch(round, &update->hash);
    size_t limit = SKEP_LIMIT_PENDING_UPDATES + (wanted ? SKEP_ROUND_FETCHES : 0);
    if (round->held_count >= limit || is_stale(round, update->base_version) ||
        skep_round_is_recent(round, &update->donor, update->base_version) ||
        skep_round_find(round, &update->hash) != NULL) {
        return;
    }
    round->held = skep_realloc(round->held, round->held_count + 1, sizeof(round->held[0]));
    round->held[round->held_count++] = (struct skep_round_held){
        .update = *update, .bad = skep_round_found_invalid(round, &update->hash)};
}

void skep_round_prune(struct skep_round *round)
{
    size_t kept = 0;
    for (size_t i = 0; i < round->held_count; i++) {
        const struct skep_round_update *update = &round->held[i].update;
        if (!round->held[i].banned && !is_stale(round, update->base_version) &&
            !skep_round_is_recent(round, &update->donor, update->base_version)) {
            round->held[kept++] = round->held[i];
        }
    }
    round->held_count = kept;
}

void skep_round_remember(struct skep_round *round, const struct skep_seal *seal)
{
    size_t kept = 0;
    for (size_t i = 0; i < round->recent_count; i++) {
        if (!is_stale(round, round->recent[i].base_version)) {
            round->recent[kept++] = round->recent[i];
        }
    }
    round->recent =
        skep_realloc(round->recent, kept + seal->receipt_count + 1, sizeof(round->recent[0]));
    for (size_t i = 0; i < seal->receipt_count; i++) {
        const struct skep_receipt *receipt = &seal->receipts[i];
        round->recent[kept++] =
            (struct skep_round_update){receipt->update, receipt->donor, receipt->base_version};
    }
    round->recent_count = kept;
}

static struct skep_hash list_hash(const struct skep_round_update *list, size_t count)
{
    struct skep_buffer bytes = {0};
    for (size_t i = 0; i < count; i++) {
        skep_buffer_append(&bytes, list[i].hash.bytes, SKEP_ID_SIZE);
    }
    struct skep_hash hash = skep_hash_of(bytes.data, bytes.size);
    skep_buffer_done(&bytes);
    return hash;
}

struct skep_round_merge *skep_round_merge_of(struct skep_round *round,
                                             const struct skep_round_update *list, size_t count)
{
    struct skep_hash hash = list_hash(list, count);
    for (size_t i = 0; i < round->merge_count; i++) {
        if (skep_hash_equal(&round->merges[i].list, &hash)) {
            return &round->merges[i];
        }
    }
    return NULL;
}

struct skep_round_merge *skep_round_merge_add(struct skep_round *round,
                                              const struct skep_round_update *list, size_t count,
                                              uint64_t now_ms)
{
    if (round->merge_count == SKEP_ROUND_MERGES) {
        memmove(round->merges, round->merges + 1,
                (SKEP_ROUND_MERGES - 1) * sizeof(round->merges[0]));
        round->merge_count--;
    }
    struct skep_round_merge *merge = &round->merges[round->merge_count++];
    *merge = (struct skep_round_merge){
        .list = list_hash(list, count), .state = SKEP_ROUND_MERGING, .asked_ms = now_ms};
    return merge;
}

/* The n-th keeper to ask: `from`, who named the update, every other time; in between each of the others in turn, since `from` may
 * have vanished after others got it. */
static size_t whom_to_ask(const struct skep_round *round, size_t from, uint32_t tries)
{
    if (tries % 2 == 0 && from != round->me) {
        return from;
    }
    size_t count = round->replicas.count;
    size_t place = (from + 1 + tries / 2) % count;
    return place == round->me ? (place + 1) % count : place;
}

static void fetch(struct skep_round *round, const struct skep_hash *hash, size_t from,
                  uint64_t now_ms)
{
    if (round->replicas.count == 1) {
        return;
    }
    size_t i = 0;
    while (i < round->fetch_count && !skep_hash_equal(&round->fetches[i].hash, hash)) {
        i++;
    }
    if (i == round->fetch_count) {
        if (round->fetch_count == SKEP_ROUND_FETCHES) {
            round->fetches[0] = round->fetches[--round->fetch_count];
        }
        round->fetches[round->fetch_count++] = (struct skep_round_fetch){.hash = *hash};
    }
    struct skep_round_fetch *one = &round->fetches[i];
    if (now_ms < one->again_ms) {
        return;
    }
    struct skep_round_action *action = skep_round_push(round, SKEP_ROUND_FETCH);
    action->hash = *hash;
    action->peer = round->replicas.keepers[whom_to_ask(round, from, one->tries)];
    one->again_ms = now_ms + SKEP_ROUND_RESEND_MS;
    one->tries++;
}

enum skep_round_merge_state skep_round_ensure(struct skep_round *round,
                                              const struct skep_round_list *list, size_t from,
                                              uint64_t now_ms,
                                              const struct skep_round_outcome **ret_outcome)
{
    struct skep_round_merge *merge = skep_round_merge_of(round, list->items, list->count);
    if (merge != NULL) {
        *ret_outcome = &merge->outcome;
        return merge->state;
    }
    bool complete = true;
    for (size_t i = 0; i < list->count; i++) {
        const struct skep_round_update *wanted = &list->items[i];
        const struct skep_round_held *held = skep_round_find(round, &wanted->hash);
        if (held == NULL) {
            fetch(round, &wanted->hash, from, now_ms);
            complete = false;
        } else if (held->update.base_version != wanted->base_version ||
                   !skep_peer_id_equal(&held->update.donor, &wanted->donor)) {
            return SKEP_ROUND_FAILED;
        }
    }
    if (!complete) {
        return SKEP_ROUND_MISSING;
    }
    skep_round_merge_add(round, list->items, list->count, now_ms);
    skep_round_push_list(round, SKEP_ROUND_MERGE, list);
    return SKEP_ROUND_MERGING;
}

void skep_round_shrink(struct skep_round *round, const struct skep_round_list *list)
{
    if (list->count > skep_round_least(round)) {
        size_t half = list->count / 2;
        round->most = half > skep_round_least(round) ? half : skep_round_least(round);
        return;
    }
    for (size_t i = 0; i < round->held_count; i++) {
        if (skep_hash_equal(&round->held[i].update.hash, &list->items[0].hash)) {
            round->held[i].bad = true;
        }
    }
}
