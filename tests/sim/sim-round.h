/*
 * A small world for the round machine: 1 to 7 keepers of one shard on virtual time, from a seed. Messages are delayed, lost, doubled
 * and overtake each other; keepers crash between any two actions and start again with what they had written down; links are cut.
 * After a time of faults comes a calm one. While it runs the world checks that
 *
 *   - no version is ever sealed with two different lists or states, and nothing is merged twice;
 *   - promises, votes and proposals are on the disk before they are sent;
 *   - every seal carries a majority's signatures and follows its keeper's head;
 *   - verdicts in seals are true, stand in one seal each, and only where a majority audits, even with one keeper that finds of everything what is
 *     not so; no honest donor is banned, and nothing of a banned one is merged;
 *   - every seal leaves out just those donors that the seals before it tell of (merge/standings.h), whatever its keepers went through;
 *
 * and at its end that in the calm versions were sealed, that all keepers stand at the same one and know the same of the donors, none ever doubted another's seal, and no update
 * is left waiting. The merge is a hash of the base state and the updates that are not left out; in half of the worlds one donor lies. Keys are fakes too (fake-key.c), for speed.
 */
#ifndef SKEP_TESTS_SIM_ROUND_H
#define SKEP_TESTS_SIM_ROUND_H

#include <stdbool.h>
#include <stdint.h>

struct sim_result {
    bool failed;
    char reason[200];
    uint64_t versions; /* sealed in all */
    uint64_t calm;     /* of these after the faults */
    uint64_t crashes;
    uint64_t messages;
    uint64_t later;     /* versions sealed in an attempt above 0 */
    uint64_t twice;     /* versions sealed in more than one attempt */
    uint64_t catch_ups; /* that brought a seal */
    uint64_t left_out;  /* updates of the liar that were not merged */
    uint64_t wronged;   /* and of others */
    uint64_t verdicts;  /* in seals */
    uint64_t bans;
    uint64_t bans_despite; /* in worlds with a keeper that lies */
};

/* Runs the world of this seed. `trace` prints each event on stderr. */
struct sim_result sim_round_run(uint64_t seed, bool trace);

#endif
