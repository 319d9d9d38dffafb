/*
 * What liars publish in the place of honest work. A liar here knows everything: the honest updates of the round before it speaks, the
 * rule that will merge them, and the manifest's limits; it has the donor's real code and keeps its own honest history.
 *
 *   name              what it publishes                                              source
 *   none              honest work
 *   sign-flip-S       its own update times -S, S = 1, 10, 1000                       BTARD, arXiv 2106.11257
 *   gaussian          noise, ten times the norm of an honest update
 *   label-flip        honest training on classes C - 1 - y                           (audits see other work)
 *   constant          one common direction for ever, times 1000                      BTARD
 *   delayed           its own update of DELAY rounds ago                             BTARD
 *   ipm               -e * mean of the honest, e searched                            arXiv 1903.03936
 *   alie              mean - z * deviation, coordinate-wise, z searched              arXiv 1902.06156
 *   min-max           mean - g * (deviation, mean or sign), as far as the honest lie  NDSS 2021, Shejwalkar and Houmansadr
 *   mimic             all the same honest donor's update                             arXiv 2006.09365
 *   copy-cat          another's update, a little changed
 *   zeros             nothing
 *   stale             its first update again and again
 *   rare-coordinate   against the descent, where no honest donor sent anything
 *   index-stuffing    all its weight on the last two tensors, near the output
 *   codebook          codes used to put all weight on one value of each block, at the ceiling
 *   nan               a codebook that is not finite
 *   sleeper           honest for half of the rounds, then sign-flip-10
 *   on-off            sign-flip-10 in every tenth round
 *   sybil             the first liar's sign-flip-10 under all names
 *
 * ipm-quiet and alie-quiet search only among strengths at which the liars' agreement with the others (common/merge/standing.h) stays near
 * the usual, so that they are not left out for it.
 *
 * Values are held to the manifest's ceiling, since what is beyond it would be refused. Liars that would all send the same know that copies
 * count once: each drops another random half of the coordinates and fills what is missing with noise in places of his own.
 */
#ifndef SKEP_TESTS_BENCH_ATTACK_ATTACKS_H
#define SKEP_TESTS_BENCH_ATTACK_ATTACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/rng.h"
#include "common/wire/update.h"

#define ATTACK_DELAY 20u
#define ATTACK_STRENGTHS 8u

/* What a liar knows of one shard in one round. Vectors are flat, `parameters` long, in the direction that is subtracted from the state. */
struct attack_scene {
    size_t parameters;
    size_t tensor_count;
    const size_t *offsets;
    size_t honest_count;
    float *const *honest;
    const float *mean;
    const float *deviation;
    double norm;          /* median of the honest norms */
    double ceiling;       /* of values */
    double strength;      /* of a searched attack */
    const float *own;     /* its own honest update, if it trained */
    const float *old;     /* that of ATTACK_DELAY rounds ago; its oldest before */
    const float *first;   /* and of its first round */
    const float *unsent;  /* what the first liar's compression has kept back so far */
    const float *chief;   /* the first liar's own honest update, if it trained */
    size_t liar;          /* its number among the liars */
    struct skep_rng *rng; /* of this liar */
};

struct attack {
    const char *name;
    bool trains;                        /* needs own honest work */
    bool flips;                         /* the work is done on false classes */
    bool disguises;                     /* all liars' vectors are alike, which must not show */
    bool quiet;                         /* the search keeps agreement near the usual */
    double strengths[ATTACK_STRENGTHS]; /* to search among; all 0: not searched */
    /* The vector to compress and publish; NULL: its own honest update. */
    void (*forge)(const struct attack_scene *scene, float *ret_vector);
    /* A last change of the compressed body, or NULL. */
    void (*spoil)(const struct attack_scene *scene, struct skep_update_body *body);
    /* Whether it attacks in this round of `rounds`; NULL: always. */
    bool (*awake)(uint64_t round, uint64_t rounds);
};

/* NULL if there is none of this name. */
const struct attack *attack_find(const char *name);
/* The i-th, NULL after the last. */
const struct attack *attack_at(size_t i);
/* attack->forge, disguised if it must be, held to the ceiling. */
void attack_forge(const struct attack *attack, const struct attack_scene *scene, float *ret_vector);

#endif
