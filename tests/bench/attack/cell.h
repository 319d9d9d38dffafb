/*
 * One cell of the attack grid from the inside, for the files that share it:
 *
 *   attack-cell.c    the rounds, and what is printed of them
 *   cell-options.c   what the command line says
 *   cell-work.c      honest jobs, and their repetition by an auditor
 *   cell-lies.c      what liars publish instead
 *   cell-keeper.c    what the keeper accepts, whom it leaves out, what it merges
 *   cell-gate.c      a merge that the loss gate looks at
 *   cell-court.c     who is audited, and what comes of it
 *
 * Every function ends the program with a sentence if something fails that should not.
 */
#ifndef SKEP_TESTS_BENCH_ATTACK_CELL_H
#define SKEP_TESTS_BENCH_ATTACK_CELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/rng.h"
#include "common/merge/loss-gate.h"
#include "common/merge/standings.h"
#include "tests/bench/attack/attacks.h"
#include "tests/bench/attack/court.h"
#include "tests/bench/attack/data.h"
#include "tests/bench/lab.h"

struct cell {
    /* options */
    struct skep_manifest manifest;
    struct attack_data_options data_options;
    const struct attack *attack;
    size_t donors;
    size_t liars; /* the first ones */
    uint64_t rounds;
    uint64_t seed;
    bool curve;
    bool forgets; /* no standing: every round stands for itself */
    bool audits;
    bool gates;      /* the loss gate halves or skips steps that harm, which no keeper does */
    uint64_t passed; /* audits that every donor has passed before */
    /* the world: with audits a donor's double, number donors + d, has the history from before its job */
    struct attack_data data;
    struct lab lab;
    struct skep_rng rngs[LAB_DONORS];
    struct skep_standings **standings;             /* one a shard */
    struct skep_loss_gate_history *gate_histories; /* one a shard */
    float **bases; /* with audits, states that this round's jobs began with */
    struct court court;
    float **past[LAB_DONORS]; /* of liars: what they computed honestly, see cell-work.c */
    /* this round */
    struct skep_update_body *bodies[LAB_DONORS]; /* one a shard; no tensors: nothing is published */
    bool lying[LAB_DONORS];
    /* over all rounds */
    uint64_t refused;
    uint64_t held_back;        /* steps that the gate halved or skipped */
    uint64_t lies[LAB_DONORS]; /* rounds with a lie, until the ban */
};

/* Updates of one shard that the keeper's decoder accepts. */
struct cell_intake {
    size_t count;
    struct skep_update_body bodies[LAB_DONORS];
    struct skep_merge_input inputs[LAB_DONORS];
    size_t donors[LAB_DONORS];
    struct skep_merge_report report; /* once merged */
};

void cell_die(const struct skep_error *err) __attribute__((noreturn));

void cell_read_options(struct cell *cell, int argc, char **argv);

bool cell_is_banned(const struct cell *cell, size_t donor);
void cell_drop_bodies(const struct cell *cell, struct skep_update_body *bodies);

/* All jobs of this round that are done at all. Returns whether anyone will forge. */
bool cell_work(struct cell *cell);
/* What a liar computed honestly in `round`, of one shard, expanded; the oldest kept if that is too long ago. */
const float *cell_past(struct cell *cell, size_t donor, size_t shard, uint64_t round);
/* Repeats a donor's job from its history and the base states on another number of threads: is what it published what comes of it? */
bool cell_repeat(void *cell, size_t donor);

/* Replaces what the liars publish of this shard. */
void cell_lie(struct cell *cell, size_t shard);

/* Fills *intake (freed with cell_let_go) and merges it onto `parameters` with a step halved so often. */
void cell_merge(struct cell *cell, size_t shard, struct cell_intake *intake, uint32_t halvings,
                float *parameters);
void cell_let_go(struct cell_intake *intake);
/* The same onto a shard's newest version; *intake must have been zeroed or let go. */
void cell_merge_gated(struct cell *cell, size_t shard, struct cell_intake *intake);
/* Merges the round's updates into a shard and remembers what became of them. */
void cell_make_version(struct cell *cell, size_t shard, struct cell_intake *intake);

struct cell_hearing;
/* Before the merges: what may not be merged is dropped. */
struct cell_hearing *cell_hear(struct cell *cell);
/* What the trunk's merge saw. */
void cell_note(struct cell_hearing *hearing, const struct cell_intake *trunk);
/* Seals the round and audits what it calls for; frees. */
void cell_judge(struct cell *cell, struct cell_hearing *take_hearing);

#endif
