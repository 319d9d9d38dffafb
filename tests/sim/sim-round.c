/* The simulated world: its faults, its donors, what it checks. */
#include "tests/sim/sim-round.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/crypto/hash.h"
#include "common/swarm/credit.h"
#include "common/swarm/statement.h"
#include "tests/sim/sim-internal.h"

void sim_fail(struct sim_world *world, const char *format, ...)
{
    if (world->result.failed) {
        return;
    }
    world->result.failed = true;
    int at = snprintf(world->result.reason, sizeof(world->result.reason),
                      "at %llu ms: ", (unsigned long long)world->now_ms);
    va_list values;
    va_start(values, format);
    vsnprintf(world->result.reason + at, sizeof(world->result.reason) - (size_t)at, format, values);
    va_end(values);
}

bool sim_chance(struct sim_world *world, uint32_t permille)
{
    return skep_rng_below(&world->rng, 1000) < permille;
}

struct sim_event *sim_event_new(enum sim_event_kind kind, const struct sim_keeper *keeper)
{
    struct sim_event *event = skep_alloc(1, sizeof(*event));
    event->kind = kind;
    if (keeper != NULL) {
        event->keeper = keeper->place;
        event->epoch = keeper->epoch;
    }
    return event;
}

static void check_receipts(struct sim_world *world, const struct skep_seal *seal)
{
    for (size_t i = 0; i < seal->receipt_count; i++) {
        const struct skep_receipt *one = &seal->receipts[i];
        size_t index = 0;
        memcpy(&index, one->update.bytes, sizeof(index));
        if (index >= world->update_count || !world->updates[index].stored ||
            world->updates[index].poison) {
            sim_fail(world, "version %llu merges an update that nobody could have merged",
                     (unsigned long long)seal->version);
            return;
        }
        struct sim_update *update = &world->updates[index];
        if (update->merged_in != 0) {
            sim_fail(world, "update %zu is merged in version %llu and again in %llu", index,
                     (unsigned long long)update->merged_in, (unsigned long long)seal->version);
        }
        update->merged_in = seal->version;
        uint64_t credit = one->merged ? skep_credit_micro(&world->manifest, &world->shard) : 0;
        if (one->credit_micro != credit) {
            sim_fail(world, "update %zu earns another credit than its job", index);
        }
    }
}

int64_t sim_agreement(const struct sim_world *world, const struct skep_hash *update,
                      const struct skep_peer_id *donor)
{
    int64_t noise = update->bytes[SKEP_ID_SIZE - 1] - 128;
    return world->liar && donor->bytes[0] == 1 ? noise - 300 : noise + 200;
}

/* Whoever has the seals finds out who is left out of the next one. */
static void check_standings(struct sim_world *world, const struct skep_seal *seal)
{
    struct skep_peer_id donors[SKEP_LIMIT_UPDATES_PER_ROUND];
    bool left_out[SKEP_LIMIT_UPDATES_PER_ROUND];
    for (size_t i = 0; i < seal->receipt_count; i++) {
        donors[i] = seal->receipts[i].donor;
    }
    skep_standings_judge(world->standings, donors, seal->receipt_count, left_out);
    for (size_t i = 0; i < seal->receipt_count; i++) {
        const struct skep_receipt *one = &seal->receipts[i];
        if (one->merged == left_out[i] ||
            one->agreement_permille != sim_agreement(world, &one->update, &one->donor)) {
            sim_fail(world, "version %llu says of update %zu what its seals do not give",
                     (unsigned long long)seal->version, i);
        }
        bool lies = world->liar && one->donor.bytes[0] == 1;
        world->result.left_out += left_out[i] && lies;
        world->result.wronged += left_out[i] && !lies;
    }
    skep_standings_push(world->standings, seal);
}

/* The first seal of a version says what it is. */
static void note_seal(struct sim_world *world, const struct skep_seal *seal,
                      const struct skep_hash *link)
{
    struct sim_version *version = &world->versions[world->version_count++];
    skep_seal_copy(seal, &version->seal);
    version->link = *link;
    check_receipts(world, seal);
    check_standings(world, seal);
    sim_audits_check(world, seal);
    world->result.versions++;
    world->result.calm += world->calm ? 1 : 0;
    world->result.later += seal->attempt > 0 ? 1 : 0;
    if (world->trace) {
        fprintf(stderr, "%8llu version %llu sealed in attempt %u: %zu updates\n",
                (unsigned long long)world->now_ms, (unsigned long long)seal->version, seal->attempt,
                seal->receipt_count);
    }
}

static void check_seal(struct sim_world *world, const struct sim_keeper *keeper,
                       const struct skep_seal *seal, const struct skep_hash *link)
{
    const struct skep_hash *head = keeper->version_count == 0
                                       ? &world->genesis
                                       : &keeper->versions[keeper->version_count - 1].link;
    if (seal->version != keeper->version_count + 1 || !skep_hash_equal(&seal->previous, head)) {
        sim_fail(world, "keeper %zu at version %zu stores a seal of %llu that does not follow",
                 keeper->place, keeper->version_count, (unsigned long long)seal->version);
    } else if (seal->version > world->version_count) {
        note_seal(world, seal, link);
    } else if (!skep_hash_equal(link, &world->versions[seal->version - 1].link)) {
        sim_fail(world, "version %llu is sealed twice, with different lists or states",
                 (unsigned long long)seal->version);
    } else if (seal->attempt != world->versions[seal->version - 1].seal.attempt &&
               !world->again[seal->version - 1]) {
        world->again[seal->version - 1] = true;
        world->result.twice++;
    }
}

bool sim_check_seal(struct sim_world *world, const struct sim_keeper *keeper,
                    const struct skep_envelope *envelope, struct skep_seal *ret_seal,
                    struct skep_hash *ret_link)
{
    struct skep_error err = {0};
    if (skep_seal_open(envelope, &world->manifest, ret_seal, ret_link, &err) != 0) {
        sim_fail(world, "keeper %zu stores a seal that is none: %s", keeper->place, err.text);
        return false;
    }
    check_seal(world, keeper, ret_seal, ret_link);
    if (world->result.failed) {
        skep_seal_done(ret_seal);
    }
    return !world->result.failed;
}

static void upload(struct sim_world *world, size_t index, const struct sim_keeper *to,
                   uint64_t delay_ms)
{
    struct sim_event *event = sim_event_new(SIM_UPLOADED, to);
    event->epoch = 0;
    event->index = index;
    sim_queue_push_take(&world->queue, world->now_ms + delay_ms, event);
}

/* An upload arrives, or has failed and is tried again later: donors keep at it. */
static void uploaded(struct sim_world *world, struct sim_keeper *keeper, struct sim_event *event)
{
    if (!keeper->up || sim_chance(world, world->calm ? 50 : 300)) {
        upload(world, event->index, keeper, 1000 + skep_rng_below(&world->rng, 4000));
    } else {
        sim_keeper_handle(world, keeper, event);
    }
}

/* A donor finishes a job: a new update from a version that some keeper told it, sent to all keepers. */
static void donate(struct sim_world *world, size_t donor)
{
    struct sim_keeper *told = &world->keepers[skep_rng_below(&world->rng, world->keeper_count)];
    uint64_t base = told->version_count;
    if (base > 0 && sim_chance(world, 200)) {
        base--;
    }
    if (told->up && world->update_count < SIM_UPDATES && world->donor_base[donor] < base + 1) {
        size_t index = world->update_count++;
        world->donor_base[donor] = base + 1;
        struct sim_update *update = &world->updates[index];
        memset(update, 0, sizeof(*update));
        uint64_t noise = skep_rng_next(&world->rng);
        update->update.hash = skep_hash_of(&noise, sizeof(noise));
        memcpy(update->update.hash.bytes, &index, sizeof(index));
        update->update.donor.bytes[0] = (uint8_t)(donor + 1);
        update->update.base_version = base;
        update->poison = sim_chance(world, world->poison_permille);
        update->cheat = world->cheat && donor == 1;
        for (size_t i = 0; i < world->keeper_count; i++) {
            upload(world, index, &world->keepers[i],
                   skep_rng_below(&world->rng, 3 * world->delay_ms));
        }
    }
    if (world->now_ms < world->quiet_ms) {
        struct sim_event *event = sim_event_new(SIM_DONATE, NULL);
        event->index = donor;
        sim_queue_push_take(
            &world->queue,
            world->now_ms + 200 + skep_rng_below(&world->rng, world->audits ? 2800 : 800), event);
    }
}

/* New sides, or none. */
static void cut_links(struct sim_world *world)
{
    bool cut = !world->calm && sim_chance(world, 500);
    for (size_t i = 0; i < world->keeper_count; i++) {
        world->keepers[i].side = cut ? skep_rng_below(&world->rng, 2) : 0;
    }
    if (!world->calm) {
        sim_queue_push_take(&world->queue, world->now_ms + 500 + skep_rng_below(&world->rng, 3000),
                            sim_event_new(SIM_CUT, NULL));
    }
}

static void set_manifest(struct sim_world *world)
{
    struct skep_manifest *manifest = &world->manifest;
    skep_manifest_defaults(manifest);
    memset(manifest->project.bytes, 7, sizeof(manifest->project.bytes));
    manifest->keeper_count = world->keeper_count;
    manifest->keepers = world->keeper_ids;
    manifest->replicas = (uint32_t)world->keeper_count;
    manifest->merge.window_ms = 100 + (uint32_t)skep_rng_below(&world->rng, 500);
    manifest->merge.least_updates = 1 + (uint32_t)skep_rng_below(&world->rng, 2);
    manifest->merge.most_updates = 2 + (uint32_t)skep_rng_below(&world->rng, 6);
}

/* Some keepers audit, in some worlds too few of them, in some one that finds what is not so. */
static void set_audits(struct sim_world *world)
{
    world->audits = sim_chance(world, 400);
    if (!world->audits) {
        return;
    }
    world->manifest.trust.audits = true;
    world->cheat = true;
    world->quiet_ms += 20000; /* verdicts take their time */
    size_t count = world->keeper_count;
    size_t auditors = sim_chance(world, 500) ? count : 1 + skep_rng_below(&world->rng, count);
    size_t first = skep_rng_below(&world->rng, count);
    for (size_t i = 0; i < auditors; i++) {
        world->keepers[(first + i) % count].audits = true;
    }
    world->keepers[first].lies = count > 2 && sim_chance(world, 500);
}

static void set_faults(struct sim_world *world)
{
    world->through_json = sim_chance(world, 60);
    world->loss_permille = (uint32_t)skep_rng_below(&world->rng, 500);
    world->double_permille = (uint32_t)skep_rng_below(&world->rng, 300);
    world->crash_permille = (uint32_t)skep_rng_below(&world->rng, 60);
    world->poison_permille = sim_chance(world, 200) ? 100 : 0;
    world->delay_ms = 5 + (uint32_t)skep_rng_below(&world->rng, 150);
    world->merge_ms =
        sim_chance(world, 100) ? 3000 : 1 + (uint32_t)skep_rng_below(&world->rng, 300);
    world->calm_ms = 3000 + skep_rng_below(&world->rng, 6000);
    world->quiet_ms = world->calm_ms + 5000;
    world->liar = sim_chance(world, 500);
    set_audits(world);
}

static struct sim_world *world_new(uint64_t seed, bool trace)
{
    struct sim_world *world = skep_alloc(1, sizeof(*world));
    world->rng = skep_rng_of(seed);
    world->trace = trace;
    world->keeper_count = 1 + skep_rng_below(&world->rng, SIM_KEEPERS);
    world->donor_count = 1 + skep_rng_below(&world->rng, SIM_DONORS);
    world->genesis = skep_hash_of(&seed, sizeof(seed));
    for (size_t i = 0; i < world->keeper_count; i++) {
        struct sim_keeper *keeper = &world->keepers[i];
        struct skep_hash key_seed = skep_hash_of(&i, sizeof(i));
        keeper->place = i;
        keeper->key = skep_key_from_seed(key_seed.bytes);
        world->keeper_ids[i] = skep_key_id(keeper->key);
    }
    world->standings = skep_standings_new();
    world->reputations = skep_reputations_new(SIM_DONORS);
    set_manifest(world);
    set_faults(world);
    for (size_t i = 0; i < world->keeper_count; i++) {
        sim_keeper_start(world, &world->keepers[i]);
    }
    for (size_t i = 0; i < world->donor_count; i++) {
        donate(world, i);
    }
    cut_links(world);
    if (trace) {
        fprintf(stderr,
                "keepers %zu donors %zu least %u most %u window %u delay %u merge %u loss %u crash "
                "%u poison %u calm at %llu\n",
                world->keeper_count, world->donor_count, world->manifest.merge.least_updates,
                world->manifest.merge.most_updates, world->manifest.merge.window_ms,
                world->delay_ms, world->merge_ms, world->loss_permille, world->crash_permille,
                world->poison_permille, (unsigned long long)world->calm_ms);
    }
    return world;
}

static void world_free(struct sim_world *world)
{
    for (size_t i = 0; i < world->keeper_count; i++) {
        sim_keeper_done(&world->keepers[i]);
    }
    for (size_t i = 0; i < world->version_count; i++) {
        skep_seal_done(&world->versions[i].seal);
    }
    struct sim_event *event = NULL;
    while ((event = sim_queue_pop(&world->queue)) != NULL) {
        sim_event_free(event);
    }
    skep_standings_free(world->standings);
    skep_reputations_free(world->reputations);
    free(world->queue.items);
    world->manifest.keepers = NULL; /* the array inside the world */
    skep_manifest_done(&world->manifest);
    free(world);
}

static void dispatch(struct sim_world *world, struct sim_event *event)
{
    struct sim_keeper *keeper = &world->keepers[event->keeper];
    if (event->kind == SIM_DONATE) {
        donate(world, event->index);
    } else if (event->kind == SIM_CUT) {
        cut_links(world);
    } else if (event->kind == SIM_UPLOADED) {
        uploaded(world, keeper, event);
    } else if (event->kind == SIM_AUDITED && !keeper->up) {
        sim_audit_ask(world, keeper, event->index); /* it is taken up by the next start */
    } else if (event->kind == SIM_RESTART) {
        sim_keeper_start(world, keeper);
    } else if (keeper->up && (event->epoch == 0 || event->epoch == keeper->epoch)) {
        sim_keeper_handle(world, keeper, event);
    }
}

static void check_end(struct sim_world *world)
{
    sim_audits_check_end(world);
    /* Below least_updates those of one donor may be left: three, for three base versions. */
    size_t most_left = world->manifest.merge.least_updates > 1 ? 3 : 0;
    for (size_t i = 0; i < world->keeper_count; i++) {
        const struct sim_keeper *keeper = &world->keepers[i];
        if (!keeper->up || keeper->version_count != world->version_count) {
            sim_fail(world, "keeper %zu ends at version %zu, others at %zu", i,
                     keeper->version_count, world->version_count);
        } else if (skep_round_disagreements(keeper->round) != 0) {
            sim_fail(world, "keeper %zu doubted %zu seals", i,
                     skep_round_disagreements(keeper->round));
        } else if (skep_round_waiting(keeper->round) > most_left && world->poison_permille == 0) {
            sim_fail(world, "keeper %zu ends with %zu updates waiting", i,
                     skep_round_waiting(keeper->round));
        }
    }
    /* Slow merges, and rounds that wait for a second donor or for the only one, take their time. */
    bool slow = world->merge_ms >= 1000 || world->manifest.merge.least_updates > 1 ||
                world->donor_count == 1;
    uint64_t expected = slow ? 0 : 1;
    if (world->result.calm < expected &&
        world->donor_count >= world->manifest.merge.least_updates && world->poison_permille == 0) {
        sim_fail(world, "only %llu versions were sealed in the calm",
                 (unsigned long long)world->result.calm);
    }
}

struct sim_result sim_round_run(uint64_t seed, bool trace)
{
    struct sim_world *world = world_new(seed, trace);
    uint64_t end_ms = world->quiet_ms + 60000; /* enough for the longest attempts to pass */
    while (!world->result.failed) {
        struct sim_event *event = sim_queue_pop(&world->queue);
        if (event == NULL || event->at_ms > end_ms) {
            sim_event_free(event);
            break;
        }
        world->now_ms = event->at_ms;
        world->calm = world->now_ms >= world->calm_ms;
        dispatch(world, event);
        sim_event_free(event);
    }
    if (!world->result.failed) {
        check_end(world);
    }
    struct sim_result result = world->result;
    world_free(world);
    return result;
}
