/*
 * Donors, liars and crowds of keys against the real rules of common/swarm/reputation.h, one trunk version after the other: who is
 * merged, who is audited, who is banned. Training is left out: an entry is either a job really done (valid if recomputed) or anything
 * else (invalid). For tests/bench/trust-sim and, smaller, tests/unit/swarm/test-trust.
 *
 * Pessimistic: publishing costs nothing, keys cost nothing (their stamps do), a liar is never picked by skep_audit_suspects(), and a
 * finding stands in the seal after the one that drew it, so a banned key was merged once more.
 */
#ifndef TESTS_BENCH_TRUST_SCENES_H
#define TESTS_BENCH_TRUST_SCENES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/rng.h"
#include "common/swarm/reputation.h"

#define SCENE_ENTRIES 512u /* in one version */
#define SCENE_KEYS 100u    /* of a crowd */

/* Ours, or BOINC's to compare: always until n = 10, then 1 in n, absence does not matter. */
enum scene_policy { SCENE_OURS, SCENE_BOINC };

struct scene {
    enum scene_policy policy;
    double false_alarm; /* of an honest update that is audited */
    struct skep_rng rng;
    struct skep_reputations *table;
    uint64_t next_key;
    struct skep_finding pending[SCENE_ENTRIES]; /* of audits drawn by the last seal */
    size_t pending_count;
    uint64_t jobs; /* really done */
    uint64_t merged;
    uint64_t audits;
    uint64_t bans;
    size_t most_lies; /* merged in one version */
};

/* What a key publishes for the next version; merged and banned are answers. */
struct scene_entry {
    uint64_t key;
    bool honest;
    bool merged;
    bool banned; /* by the seal of this version */
};

void scene_init(struct scene *scene, enum scene_policy policy, uint64_t seed);
void scene_done(struct scene *scene);
uint64_t scene_new_key(struct scene *scene);
struct skep_reputation scene_find(const struct scene *scene, uint64_t key);
void scene_version(struct scene *scene, struct scene_entry *entries, size_t count);

/* Own rounds of a key from its first lie to its ban, after `sleep` honest rounds; then it lies in `lie_permille` of its rounds. At
 * most `most` rounds, which is the answer then. *ret_merged counts the lies that were merged. */
uint32_t scene_liar(struct scene *scene, uint32_t sleep, uint32_t lie_permille, uint32_t most,
                    uint32_t *ret_merged);

/* `donors` honest ones for `versions` versions each; scene->bans says how many were banned. */
void scene_honest(struct scene *scene, unsigned donors, uint32_t versions);

/*
 * Crowds with the compute of one machine, a job a version, for so many versions. The answer: updates merged for each job done (1 for an
 * honest donor). `n` is where keys turn.
 */
enum scene_crowd {
    CROWD_COPIES,   /* one key works, all others publish copies of it */
    CROWD_ROTATION, /* all take turns, and work */
    CROWD_STRIKE,   /* each works up to n, one after the other, then all publish anything at once */
    CROWD_WAKE,     /* the same, but each does one more job first, so that it is not away */
    CROWD_THREE,    /* three keys take turns, never away; then turn together */
    CROWD_MIX,      /* a key works up to n, then every second update is a lie */
    CROWD_TURN,     /* a key works up to n and turns; meanwhile the machine works for the next */
    CROWDS,
};
const char *scene_crowd_name(enum scene_crowd crowd);
double scene_influence(struct scene *scene, enum scene_crowd crowd, uint32_t n, uint32_t versions);

#endif
