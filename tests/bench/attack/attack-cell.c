/*
 * One cell of the attack grid: real training in which some of the donors lie. Prints one line, "name=value" in columns: how good the
 * model is at the end, and what became of donors. tests/bench/attack-grid runs many and makes the tables.
 *
 *   attack-cell [--data DIR] [--model classifier|lm] [--spread identical|sorted] [--rule NAME] [--attack NAME] [--donors N] [--liars N]
 *               [--rounds N] [--seed N] [--set FIELD=N]... [--forgets] [--audits] [--gate] [--mask] [--curve]
 *
 * --data is a folder with MNIST's four files, or a text for the lm; without it a classifier's data is drawn from a seed (patterns of ten
 * classes and noise), the lm's is the GPL. `sorted`: the data lies in order of class (a text in its own order), so that a donor's
 * slice shows few classes; `identical`: shuffled, so that all slices are alike.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/crypto/hash.h"
#include "tests/bench/attack/cell.h"

#define LAST_MEASURES 20 /* rounds at the end over which the result is averaged */

void cell_die(const struct skep_error *err)
{
    fprintf(stderr, "attack-cell: %s\n", err->text);
    exit(1);
}

void cell_drop_bodies(const struct cell *cell, struct skep_update_body *bodies)
{
    for (size_t i = 0; i < cell->lab.shard_count; i++) {
        skep_update_body_done(&bodies[i]);
        bodies[i] = (struct skep_update_body){0};
    }
}

static void keep_bases(struct cell *cell)
{
    for (size_t i = 0; i < cell->lab.shard_count; i++) {
        const struct lab_shard *shard = &cell->lab.shards[i];
        memcpy(cell->bases[i], shard->parameters, shard->layout.parameters * sizeof(float));
    }
}

static void run_round(struct cell *cell)
{
    struct cell_intake *intake = skep_alloc(1, sizeof *intake);
    struct cell_hearing *hearing = NULL;
    bool forges = cell_work(cell);
    for (size_t i = 0; forges && i < cell->lab.shard_count; i++) {
        cell_lie(cell, i);
    }
    if (cell->audits) {
        keep_bases(cell);
        hearing = cell_hear(cell);
    }
    for (size_t i = 0; i < cell->lab.shard_count; i++) {
        cell_make_version(cell, i, intake);
        if (hearing != NULL && i == 0) {
            cell_note(hearing, intake);
        }
        cell_let_go(intake);
    }
    if (hearing != NULL) {
        cell_judge(cell, hearing);
    }
    for (size_t d = 0; d < cell->donors; d++) {
        cell_drop_bodies(cell, cell->bodies[d]);
    }
    free(intake);
    cell->lab.version++;
}

static void print_result(const struct cell *cell, double right, double nats)
{
    uint64_t liars = 0;
    uint64_t honest = 0;
    uint64_t slowest = 0;
    for (size_t d = 0; d < cell->donors && cell->audits; d++) {
        bool banned = cell_is_banned(cell, d);
        liars += banned && d < cell->liars;
        honest += banned && d >= cell->liars;
        slowest = cell->lies[d] > slowest ? cell->lies[d] : slowest;
    }
    printf("right=%.4f nats=%.4f refused=%llu banned=%llu false_bans=%llu lies=%llu audits=%llu "
           "held_back=%llu\n",
           right, nats, (unsigned long long)cell->refused, (unsigned long long)liars,
           (unsigned long long)honest, (unsigned long long)slowest,
           (unsigned long long)cell->court.audits, (unsigned long long)cell->held_back);
}

static void run(struct cell *cell)
{
    struct skep_error err = {0};
    double right = 0;
    double nats = 0;
    for (uint64_t round = 1; round <= cell->rounds; round++) {
        run_round(cell);
        bool counts = round + LAST_MEASURES > cell->rounds;
        if (counts || (cell->curve && round % 10 == 0)) {
            struct skep_eval eval = {0};
            if (lab_measure(&cell->lab, cell->data.test, cell->data.test_size, &eval, &err) != 0) {
                eval = (struct skep_eval){.nats = INFINITY};
            }
            right += counts ? eval.accuracy / LAST_MEASURES : 0;
            nats += counts ? eval.nats / LAST_MEASURES : 0;
            if (cell->curve) {
                fprintf(stderr, "round %3llu  %.4f right  %.4f nats\n", (unsigned long long)round,
                        eval.accuracy, eval.nats);
            }
        }
    }
    print_result(cell, right, nats);
}

static void prepare(struct cell *cell)
{
    struct skep_error err = {0};
    struct skep_peer_id ids[LAB_DONORS];
    size_t known = cell->donors * (cell->audits ? 2 : 1);
    cell->data_options.model = &cell->manifest.model;
    cell->data_options.seed = cell->seed;
    cell->manifest.seed = skep_hash_of(&cell->seed, sizeof cell->seed);
    if (skep_model_config_check(&cell->manifest.model, &err) != 0 ||
        attack_data_open(&cell->data_options, &cell->data, &err) != 0 ||
        lab_open(&cell->lab, &cell->manifest, known, &err) != 0) {
        cell_die(&err);
    }
    for (size_t d = 0; d < cell->donors; d++) {
        cell->rngs[d] = skep_rng_of(cell->seed * 1000 + d);
        cell->bodies[d] = skep_alloc(cell->lab.shard_count, sizeof *cell->bodies[d]);
        ids[d] = cell->lab.donors[d].id;
    }
    cell->standings = skep_alloc(cell->lab.shard_count, sizeof(struct skep_standings *));
    cell->bases = skep_alloc(cell->lab.shard_count, sizeof *cell->bases);
    cell->gate_histories = skep_alloc(cell->lab.shard_count, sizeof *cell->gate_histories);
    for (size_t i = 0; i < cell->lab.shard_count; i++) {
        cell->standings[i] = skep_standings_new();
        cell->bases[i] = skep_alloc(cell->lab.shards[i].layout.parameters, sizeof(float));
    }
    cell->court = (struct court){.repeat = cell_repeat, .user = cell};
    if (cell->audits && court_open(&cell->court, ids, cell->donors, cell->passed, &err) != 0) {
        cell_die(&err);
    }
}

static void clean_up(struct cell *cell)
{
    size_t places = cell->lab.shard_count * (ATTACK_DELAY + 2);
    for (size_t d = 0; d < cell->donors; d++) {
        for (size_t i = 0; cell->past[d] != NULL && i < places; i++) {
            free(cell->past[d][i]);
        }
        free(cell->past[d]);
        free(cell->bodies[d]);
    }
    for (size_t i = 0; i < cell->lab.shard_count; i++) {
        skep_standings_free(cell->standings[i]);
        free(cell->bases[i]);
    }
    free(cell->standings);
    free(cell->bases);
    free(cell->gate_histories);
    if (cell->audits) {
        court_close(&cell->court);
    }
    lab_close(&cell->lab);
    attack_data_close(&cell->data);
}

int main(int argc, char **argv)
{
    static struct cell cell = {.donors = 16, .rounds = 60, .seed = 1};
    cell.attack = attack_find("none");
    cell_read_options(&cell, argc, argv);
    prepare(&cell);
    run(&cell);
    clean_up(&cell);
    return 0;
}
