#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/swarm/audit.h"
#include "tests/bench/attack/cell.h"

/* A place for each of the last rounds, and one for the first, which is kept for ever. */
#define PLACES (ATTACK_DELAY + 2)

static bool attacks_now(const struct cell *cell, size_t d)
{
    return d < cell->liars &&
           (cell->attack->awake == NULL || cell->attack->awake(cell->lab.version, cell->rounds));
}

static float **place_of(struct cell *cell, size_t d, size_t shard, uint64_t round)
{
    size_t place = round == 0 ? PLACES - 1 : round % (PLACES - 1);
    return &cell->past[d][shard * PLACES + place];
}

const float *cell_past(struct cell *cell, size_t d, size_t shard, uint64_t round)
{
    return *place_of(cell, d, shard, round);
}

static void remember(struct cell *cell, size_t d)
{
    if (cell->past[d] == NULL) {
        cell->past[d] = skep_alloc(cell->lab.shard_count * PLACES, sizeof(float *));
    }
    for (size_t i = 0; i < cell->lab.shard_count; i++) {
        float **place = place_of(cell, d, i, cell->lab.version);
        if (*place == NULL) {
            *place = skep_alloc(cell->lab.shards[i].layout.parameters, sizeof(float));
        }
        lab_expand(&cell->lab, i, &cell->bodies[d][i], *place);
    }
}

static void train(struct cell *cell, size_t d, const uint8_t *data, struct skep_update_body *bodies)
{
    struct skep_error err = {0};
    int rc = lab_job(&cell->lab, d, NULL, data, cell->data.train_size, &err);
    for (size_t i = 0; i < cell->lab.shard_count && rc == 0; i++) {
        rc = lab_compress(&cell->lab, d, i, cell->lab.deltas[i], &bodies[i], &err);
    }
    if (rc != 0) {
        cell_die(&err);
    }
}

bool cell_work(struct cell *cell)
{
    const struct attack *attack = cell->attack;
    bool forges = attack->forge != NULL || attack->spoil != NULL;
    bool any_forges = false;
    for (size_t d = 0; d < cell->donors; d++) {
        bool banned = cell_is_banned(cell, d);
        bool attacks = attacks_now(cell, d) && !banned;
        cell->lying[d] = attacks && (forges || attack->flips);
        any_forges = any_forges || (cell->lying[d] && forges);
        if (banned || (attacks && !attack->trains)) {
            continue;
        }
        if (cell->audits) {
            lab_double(&cell->lab, cell->donors + d, d);
        }
        bool flips = attacks && attack->flips;
        train(cell, d, flips ? cell->data.flipped : cell->data.train, cell->bodies[d]);
        if (d < cell->liars) {
            remember(cell, d);
        }
    }
    return any_forges;
}

static void swap_states(struct cell *cell)
{
    for (size_t i = 0; i < cell->lab.shard_count; i++) {
        float *state = cell->lab.shards[i].parameters;
        cell->lab.shards[i].parameters = cell->bases[i];
        cell->bases[i] = state;
    }
}

bool cell_repeat(void *user, size_t d)
{
    struct cell *cell = user;
    struct skep_update_body *bodies = skep_alloc(cell->lab.shard_count, sizeof *bodies);
    struct skep_error err = {0};
    bool valid = true;
    skep_ops_set_threads(2);
    swap_states(cell);
    train(cell, cell->donors + d, cell->data.train, bodies);
    swap_states(cell);
    skep_ops_set_threads(1);
    for (size_t i = 0; i < cell->lab.shard_count && valid; i++) {
        struct skep_audit_likeness likeness = {0};
        if (skep_audit_compare(&cell->bodies[d][i], &bodies[i], &likeness, &err) != 0) {
            cell_die(&err);
        }
        valid = skep_audit_valid(&likeness);
    }
    cell_drop_bodies(cell, bodies);
    free(bodies);
    return valid;
}
