#include "tests/bench/trust-scenes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/crypto/hash.h"

#define BOINC_TRUST 10u

void scene_init(struct scene *scene, enum scene_policy policy, uint64_t seed)
{
    *scene = (struct scene){.policy = policy,
                            .rng = skep_rng_of(seed),
                            .table = skep_reputations_new(SKEP_REPUTATION_LIMIT)};
}

void scene_done(struct scene *scene)
{
    skep_reputations_free(scene->table);
}

uint64_t scene_new_key(struct scene *scene)
{
    return ++scene->next_key;
}

static struct skep_peer_id id_of(uint64_t key)
{
    struct skep_peer_id id = {0};
    for (unsigned i = 0; i < 8; i++) {
        id.bytes[i] = (uint8_t)(key >> (56 - 8 * i));
    }
    return id;
}

struct skep_reputation scene_find(const struct scene *scene, uint64_t key)
{
    struct skep_peer_id id = id_of(key);
    return skep_reputation_find(scene->table, &id);
}

static bool may_merge_unseen(const struct scene *scene, const struct skep_reputation *reputation)
{
    return scene->policy == SCENE_OURS ? skep_reputation_may_merge(reputation, false)
                                       : reputation->n >= BOINC_TRUST && !reputation->banned;
}

static uint32_t permille_of(const struct scene *scene, const struct skep_reputation *reputation)
{
    if (scene->policy == SCENE_OURS) {
        return skep_audit_permille(reputation);
    }
    uint32_t permille = 1000 / (reputation->n > 0 ? reputation->n : 1);
    return permille > SKEP_AUDIT_FLOOR_PERMILLE ? permille : SKEP_AUDIT_FLOOR_PERMILLE;
}

static struct skep_hash random_hash(struct scene *scene)
{
    struct skep_hash hash;
    for (unsigned i = 0; i < SKEP_ID_SIZE; i += 8) {
        skep_put_u64(hash.bytes + i, skep_rng_next(&scene->rng));
    }
    return hash;
}

static struct skep_finding audit(struct scene *scene, const struct scene_entry *entry)
{
    scene->audits++;
    bool right = entry->honest && skep_rng_unit(&scene->rng) >= scene->false_alarm;
    return (struct skep_finding){.donor = id_of(entry->key),
                                 .verdict = right ? SKEP_VERDICT_VALID : SKEP_VERDICT_INVALID};
}

/* The draft of one seal; `findings` begins with those of the last draws. */
struct draft {
    struct skep_receipt receipts[SCENE_ENTRIES];
    size_t receipt_count;
    struct skep_finding findings[2 * SCENE_ENTRIES];
    size_t finding_count;
};

static void enter(struct scene *scene, struct scene_entry *entry, struct draft *draft)
{
    entry->merged = false;
    scene->jobs += entry->honest;
    struct skep_reputation reputation = scene_find(scene, entry->key);
    if (reputation.banned) {
        return;
    }
    struct skep_receipt receipt = {
        .donor = id_of(entry->key), .update = random_hash(scene), .merged = true};
    if (!may_merge_unseen(scene, &reputation)) {
        struct skep_finding finding = audit(scene, entry);
        if (finding.verdict == SKEP_VERDICT_INVALID) {
            draft->findings[draft->finding_count++] = finding;
            return;
        }
        receipt.audited = true;
    }
    entry->merged = true;
    scene->merged++;
    draft->receipts[draft->receipt_count++] = receipt;
}

/* The lots of the updates that this seal merged unseen; n as it was when they were merged. */
static void draw(struct scene *scene, const struct scene_entry *entries, size_t count,
                 const struct draft *draft)
{
    struct skep_hash beacon = random_hash(scene);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (!entries[i].merged) {
            continue;
        }
        const struct skep_receipt *receipt = &draft->receipts[at++];
        struct skep_reputation reputation = skep_reputation_find(scene->table, &receipt->donor);
        if (!receipt->audited && !reputation.banned &&
            skep_audit_drawn(&beacon, &receipt->update, permille_of(scene, &reputation))) {
            scene->pending[scene->pending_count++] = audit(scene, &entries[i]);
        }
    }
}

void scene_version(struct scene *scene, struct scene_entry *entries, size_t count)
{
    static struct draft draft;
    assert(count <= SCENE_ENTRIES);
    draft.receipt_count = 0;
    draft.finding_count = scene->pending_count;
    memcpy(draft.findings, scene->pending, scene->pending_count * sizeof *scene->pending);
    scene->pending_count = 0;
    for (size_t i = 0; i < count; i++) {
        enter(scene, &entries[i], &draft);
    }
    const struct skep_seal seal = {.version = skep_reputation_version(scene->table) + 1,
                                   .receipt_count = draft.receipt_count,
                                   .receipts = draft.receipts,
                                   .finding_count = draft.finding_count,
                                   .findings = draft.findings};
    int result = skep_reputation_apply(scene->table, &seal, NULL);
    assert(result == SKEP_OK);
    (void)result;
    draw(scene, entries, count, &draft);
    size_t lies = 0;
    for (size_t i = 0; i < count; i++) {
        entries[i].banned = scene_find(scene, entries[i].key).banned;
        scene->bans += entries[i].banned;
        lies += entries[i].merged && !entries[i].honest;
    }
    scene->most_lies = lies > scene->most_lies ? lies : scene->most_lies;
}

/* --- one donor --- */

uint32_t scene_liar(struct scene *scene, uint32_t sleep, uint32_t lie_permille, uint32_t most,
                    uint32_t *ret_merged)
{
    struct scene_entry entry = {.key = scene_new_key(scene), .honest = true};
    for (uint32_t i = 0; i < sleep; i++) {
        scene_version(scene, &entry, 1);
    }
    *ret_merged = 0;
    uint32_t rounds = 0;
    while (rounds < most && !entry.banned) {
        entry.honest = skep_rng_below(&scene->rng, 1000) >= lie_permille;
        scene_version(scene, &entry, 1);
        *ret_merged += entry.merged && !entry.honest;
        rounds++;
    }
    return entry.banned ? rounds : most;
}

void scene_honest(struct scene *scene, unsigned donors, uint32_t versions)
{
    struct scene_entry *entries = skep_alloc(donors, sizeof *entries);
    for (unsigned i = 0; i < donors; i++) {
        entries[i] = (struct scene_entry){.key = scene_new_key(scene), .honest = true};
    }
    for (uint32_t v = 0; v < versions; v++) {
        scene_version(scene, entries, donors);
    }
    free(entries);
}

/* --- crowds --- */

const char *scene_crowd_name(enum scene_crowd crowd)
{
    static const char *const names[CROWDS] = {
        [CROWD_COPIES] = "copies", [CROWD_ROTATION] = "rotation", [CROWD_STRIKE] = "strike",
        [CROWD_WAKE] = "wake",     [CROWD_THREE] = "three",       [CROWD_MIX] = "mix",
        [CROWD_TURN] = "turn"};
    return names[crowd];
}

struct crowd {
    struct scene *scene;
    uint32_t n;
    uint64_t end; /* version */
    size_t count;
    struct scene_entry keys[SCENE_KEYS];
};

static bool over(const struct crowd *crowd)
{
    return skep_reputation_version(crowd->scene->table) >= crowd->end;
}

static void renew(struct crowd *crowd, size_t i)
{
    crowd->keys[i] = (struct scene_entry){.key = scene_new_key(crowd->scene)};
}

static void publish(struct crowd *crowd, size_t i, bool honest)
{
    crowd->keys[i].honest = honest;
    scene_version(crowd->scene, &crowd->keys[i], 1);
}

static void copies(struct crowd *crowd)
{
    for (uint64_t v = 0; !over(crowd); v++) {
        for (size_t i = 0; i < crowd->count; i++) {
            if (crowd->keys[i].banned) {
                renew(crowd, i);
            }
            crowd->keys[i].honest = i == v % crowd->count;
        }
        scene_version(crowd->scene, crowd->keys, crowd->count);
    }
}

static void rotation(struct crowd *crowd)
{
    for (uint64_t v = 0; !over(crowd); v++) {
        publish(crowd, v % crowd->count, true);
    }
}

static void work_up_to_n(struct crowd *crowd, size_t i)
{
    while (scene_find(crowd->scene, crowd->keys[i].key).n < crowd->n) {
        publish(crowd, i, true);
    }
}

/* Keys 0 .. ready - 1 publish anything; the next one does a job to be present, if `wake`. Until all are banned. */
static void strike(struct crowd *crowd, bool wake)
{
    size_t ready = wake ? 0 : crowd->count;
    size_t left = crowd->count;
    while (left > 0) {
        struct scene_entry entries[SCENE_KEYS];
        size_t from[SCENE_KEYS];
        size_t count = 0;
        for (size_t i = 0; i < crowd->count && i <= ready; i++) {
            if (!crowd->keys[i].banned) {
                crowd->keys[i].honest = i == ready;
                from[count] = i;
                entries[count++] = crowd->keys[i];
            }
        }
        scene_version(crowd->scene, entries, count);
        for (size_t e = 0; e < count; e++) {
            crowd->keys[from[e]] = entries[e];
            left -= entries[e].banned;
        }
        ready += ready < crowd->count;
    }
}

static void warm_and_strike(struct crowd *crowd, bool wake)
{
    while (!over(crowd)) {
        for (size_t i = 0; i < crowd->count; i++) {
            renew(crowd, i);
            work_up_to_n(crowd, i);
        }
        strike(crowd, wake);
    }
}

static void three(struct crowd *crowd)
{
    crowd->count = 3;
    while (!over(crowd)) {
        for (size_t i = 0; i < 3; i++) {
            renew(crowd, i);
        }
        for (uint64_t v = 0; scene_find(crowd->scene, crowd->keys[v % 3].key).n < crowd->n; v++) {
            publish(crowd, v % 3, true);
        }
        strike(crowd, false);
    }
}

static void mix(struct crowd *crowd)
{
    while (!over(crowd)) {
        renew(crowd, 0);
        work_up_to_n(crowd, 0);
        for (unsigned v = 0; !crowd->keys[0].banned; v++) {
            publish(crowd, 0, v % 2 == 1);
        }
    }
}

/* keys[0] works, the others, of which there are count - 1, lie until they are banned. */
static void turn(struct crowd *crowd)
{
    crowd->count = 1;
    renew(crowd, 0);
    while (!over(crowd)) {
        if (crowd->count < SCENE_KEYS &&
            scene_find(crowd->scene, crowd->keys[0].key).n >= crowd->n) {
            crowd->keys[crowd->count] = crowd->keys[0];
            crowd->keys[crowd->count++].honest = false;
            renew(crowd, 0);
        }
        crowd->keys[0].honest = true;
        scene_version(crowd->scene, crowd->keys, crowd->count);
        for (size_t i = crowd->count - 1; i > 0; i--) {
            if (crowd->keys[i].banned) {
                crowd->keys[i] = crowd->keys[--crowd->count];
            }
        }
    }
}

double scene_influence(struct scene *scene, enum scene_crowd kind, uint32_t n, uint32_t versions)
{
    struct crowd *crowd = skep_alloc(1, sizeof *crowd);
    *crowd = (struct crowd){.scene = scene, .n = n, .count = SCENE_KEYS};
    crowd->end = skep_reputation_version(scene->table) + versions;
    for (size_t i = 0; i < crowd->count; i++) {
        renew(crowd, i);
    }
    switch (kind) {
    case CROWD_COPIES:
        copies(crowd);
        break;
    case CROWD_ROTATION:
        rotation(crowd);
        break;
    case CROWD_STRIKE:
    case CROWD_WAKE:
        warm_and_strike(crowd, kind == CROWD_WAKE);
        break;
    case CROWD_THREE:
        three(crowd);
        break;
    case CROWD_MIX:
        mix(crowd);
        break;
    case CROWD_TURN:
    case CROWDS:
        turn(crowd);
        break;
    }
    free(crowd);
    return (double)scene->merged / (double)scene->jobs;
}
