/*
 * What the rules of trust do to liars and to honest donors, simulated on the real modules (trust-scenes.h): how soon a liar is banned,
 * how many honest donors are, and what a hundred keys gain over one on the same machine.
 *
 *   trust-sim [--quick] [--false-alarm P]     P: the chance that an honest update is found invalid (tests/bench/audit-replay)
 *
 * sybil_* are updates merged for each job done, 1 for an honest donor, of crowds that turn at n; sybil_influence, the last line, is the
 * worst of all. boinc_* are the same under BOINC's adaptive replication.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/trust-scenes.h"

#define BAN_ROUNDS 20u
#define LONG_ROUNDS 100000u
#define BAR 1.05
/* Larger than audit-replay's estimate, which is below this. */
#define FALSE_ALARM 1e-6

static void liars(const char *name, uint32_t sleep, uint32_t lie_permille, unsigned trials)
{
    uint64_t rounds = 0;
    uint64_t merged = 0;
    unsigned soon = 0;
    struct scene scene;
    scene_init(&scene, SCENE_OURS, 11 + sleep + lie_permille);
    for (unsigned i = 0; i < trials; i++) {
        uint32_t lies = 0;
        uint32_t until = scene_liar(&scene, sleep, lie_permille, LONG_ROUNDS, &lies);
        rounds += until;
        merged += lies;
        soon += until <= BAN_ROUNDS;
    }
    scene_done(&scene);
    double share = (double)soon / trials;
    printf("ban_%s_mean\t%.2f\town rounds\t28\t%.3f\n", name, (double)rounds / trials,
           (double)rounds / trials / 28); /* BTARD, 7 liars of 16 */
    printf("ban_%s_within_%u\t%.4f\tshare of liars\t0.99\t%.4f\n", name, BAN_ROUNDS, share,
           share / 0.99);
    printf("ban_%s_merged\t%.2f\tlies merged\t-\t-\n", name, (double)merged / trials);
}

static void honest(double false_alarm, uint32_t versions)
{
    static const uint32_t jobs[] = {100, 1000, 10000};
    struct scene scene;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        scene_init(&scene, SCENE_OURS, 3);
        scene_honest(&scene, 10, jobs[i]);
        printf("honest_audits_%u\t%.4f\tshare of jobs\t-\t-\n", jobs[i],
               (double)scene.audits / (double)scene.jobs);
        scene_done(&scene);
    }
    scene_init(&scene, SCENE_OURS, 5);
    scene.false_alarm = false_alarm;
    scene_honest(&scene, 10, versions / 10);
    printf("honest_rounds\t%llu\trounds\t-\t-\n", (unsigned long long)scene.jobs);
    printf("honest_bans\t%llu\tdonors\t0\t-\n", (unsigned long long)scene.bans);
    scene_done(&scene);
}

static size_t at_once; /* most lies of a crowd that one version merged */

static double crowd(enum scene_policy policy, enum scene_crowd kind, uint32_t n, uint32_t versions)
{
    struct scene scene;
    versions *= n > 100 ? 8 : 1; /* such keys are few, and turn late */
    scene_init(&scene, policy, 17 + n);
    double influence = scene_influence(&scene, kind, n, versions);
    at_once = policy == SCENE_OURS && scene.most_lies > at_once ? scene.most_lies : at_once;
    scene_done(&scene);
    const char *prefix = policy == SCENE_OURS ? "sybil" : "boinc";
    printf("%s_%s_%u\t%.4f\tupdates merged a job\t%.2f\t%.4f\n", prefix, scene_crowd_name(kind), n,
           influence, BAR, influence / BAR);
    fflush(stdout);
    return influence;
}

int main(int argc, char **argv)
{
    bool quick = false;
    double false_alarm = FALSE_ALARM;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            quick = true;
        } else if (strcmp(argv[i], "--false-alarm") == 0 && i + 1 < argc) {
            false_alarm = strtod(argv[++i], NULL);
        } else {
            fprintf(stderr, "usage: trust-sim [--quick] [--false-alarm P]\n");
            return 2;
        }
    }
    unsigned trials = quick ? 300 : 3000;
    uint32_t versions = quick ? 100000 : 1000000;
    liars("always", 0, 1000, trials);
    liars("sleeper_10", 10, 1000, trials);
    liars("sleeper_30", 30, 1000, trials);
    liars("sleeper_100", 100, 1000, trials);
    liars("sleeper_300", 300, 1000, trials);
    liars("on_off", 0, 100, trials);
    liars("on_off_after_100", 100, 100, trials);
    honest(false_alarm, LONG_ROUNDS);
    crowd(SCENE_BOINC, CROWD_TURN, 10, versions);
    static const uint32_t turns[] = {SKEP_PROBATION, SKEP_PROBATION + 8, 80, 123, 150};
    double worst = 0;
    for (enum scene_crowd kind = 0; kind < CROWDS; kind++) {
        for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++) {
            bool turns_at_n = kind != CROWD_COPIES && kind != CROWD_ROTATION;
            if (i == 0 || turns_at_n) {
                double influence = crowd(SCENE_OURS, kind, turns_at_n ? turns[i] : 0,
                                         turns_at_n ? versions : versions / 1000);
                worst = influence > worst ? influence : worst;
            }
        }
    }
    printf("sybil_at_once\t%zu\tlies merged in one version\t%u\t-\n", at_once, SCENE_KEYS);
    printf("sybil_influence\t%.4f\tupdates merged a job\t%.2f\t%.4f\n", worst, BAR, worst / BAR);
    return 0;
}
