/* Audits in the simulated world: who finds what, and what the seals may say of it. */
#include <string.h>

#include "tests/sim/sim-internal.h"

void sim_audit_ask(struct sim_world *world, const struct sim_keeper *keeper, size_t index)
{
    if (keeper->audits) {
        struct sim_event *event = sim_event_new(SIM_AUDITED, keeper);
        event->epoch = 0;
        event->index = index;
        sim_queue_push_take(&world->queue, world->now_ms + 100 + skep_rng_below(&world->rng, 3000),
                            event);
    }
}

static bool says(const struct skep_seal *seal, const struct skep_hash *update)
{
    bool said = false;
    for (size_t i = 0; i < seal->receipt_count; i++) {
        const struct skep_receipt *one = &seal->receipts[i];
        said = said || (one->audited && skep_hash_equal(&one->update, update));
    }
    for (size_t i = 0; i < seal->finding_count; i++) {
        said = said || skep_hash_equal(&seal->findings[i].update, update);
    }
    return said;
}

/* Tells the machine, unless one of the keeper's seals says it. */
static void tell(const struct sim_world *world, struct sim_keeper *keeper, size_t index)
{
    const struct skep_round_update *update = &world->updates[index].update;
    for (size_t i = 0; i < keeper->version_count; i++) {
        if (says(&keeper->versions[i].seal, &update->hash)) {
            return;
        }
    }
    skep_round_verdict(keeper->round, update, keeper->verdicts[index] == SIM_VALID,
                       sim_local_ms(world, keeper));
}

void sim_audit_done(struct sim_world *world, struct sim_keeper *keeper, size_t index)
{
    bool valid = world->updates[index].cheat == keeper->lies;
    keeper->verdicts[index] = valid ? SIM_VALID : SIM_INVALID;
    tell(world, keeper, index);
}

void sim_audits_load(struct sim_world *world, struct sim_keeper *keeper)
{
    keeper->reputations = skep_reputations_new(SIM_DONORS);
    for (size_t i = 0; i < keeper->version_count; i++) {
        skep_reputation_apply(keeper->reputations, &keeper->versions[i].seal, NULL);
    }
    for (size_t i = 0; i < world->update_count; i++) {
        if (keeper->verdicts[i] != SIM_OPEN) {
            tell(world, keeper, i);
        }
    }
}

bool sim_is_banned(const struct sim_keeper *keeper, const struct skep_peer_id *donor)
{
    return skep_reputation_find(keeper->reputations, donor).banned;
}

static bool majority_audits(const struct sim_world *world)
{
    size_t auditors = 0;
    for (size_t i = 0; i < world->keeper_count; i++) {
        auditors += world->keepers[i].audits;
    }
    return auditors >= world->keeper_count / 2 + 1;
}

static void check_verdict(struct sim_world *world, const struct skep_hash *hash, bool valid)
{
    size_t index = 0;
    memcpy(&index, hash->bytes, sizeof(index));
    if (index >= world->update_count || world->updates[index].cheat == valid) {
        sim_fail(world, "a seal says of update %zu what is not so", index);
        return;
    }
    if (world->updates[index].stated) {
        sim_fail(world, "the verdict on update %zu is sealed a second time", index);
    }
    if (!majority_audits(world)) {
        sim_fail(world, "a verdict is sealed that no majority could have found");
    }
    world->updates[index].stated = true;
    world->result.verdicts++;
}

void sim_audits_check(struct sim_world *world, const struct skep_seal *seal)
{
    bool lied = false;
    for (size_t i = 0; i < world->keeper_count; i++) {
        lied = lied || world->keepers[i].lies;
    }
    for (size_t i = 0; i < seal->receipt_count; i++) {
        const struct skep_receipt *one = &seal->receipts[i];
        if (skep_reputation_find(world->reputations, &one->donor).banned) {
            sim_fail(world, "version %llu merges an update of a banned donor",
                     (unsigned long long)seal->version);
        }
        if (one->audited) {
            check_verdict(world, &one->update, true);
        }
    }
    for (size_t i = 0; i < seal->finding_count; i++) {
        const struct skep_finding *one = &seal->findings[i];
        bool valid = one->verdict == SKEP_VERDICT_VALID;
        check_verdict(world, &one->update, valid);
        if (!valid && !skep_reputation_find(world->reputations, &one->donor).banned) {
            world->result.bans++;
            world->result.bans_despite += lied;
        }
    }
    skep_reputation_apply(world->reputations, seal, NULL);
}

static bool same(const struct skep_reputation *a, const struct skep_reputation *b)
{
    return skep_peer_id_equal(&a->donor, &b->donor) && a->earned == b->earned &&
           a->seen == b->seen && a->merged == b->merged && a->banned == b->banned &&
           a->banned_at == b->banned_at;
}

void sim_audits_check_end(struct sim_world *world)
{
    for (size_t i = 0; i < world->keeper_count; i++) {
        const struct skep_reputations *theirs = world->keepers[i].reputations;
        size_t count = skep_reputation_count(world->reputations);
        bool equal = theirs != NULL && skep_reputation_count(theirs) == count;
        for (size_t k = 0; k < count && equal; k++) {
            struct skep_reputation a = skep_reputation_at(theirs, k);
            struct skep_reputation b = skep_reputation_at(world->reputations, k);
            equal = same(&a, &b);
        }
        if (!equal) {
            sim_fail(world, "keeper %zu knows something else of the donors than the seals say", i);
        }
    }
}
