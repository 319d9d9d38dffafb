/*
 * What a project takes of the machines that take part, worked out from its manifest (or task file) alone, before anything is
 * fetched: the memory of skep-worker, a donor's disk and traffic, a keeper's disk and memory. skepd asks before it takes a project, so
 * that a task too large is refused with a sentence and not by the system's lack of memory; `skep plan` shows it all.
 *
 * The worker's memory (client/worker/work.h says what it holds) is a sum over what is there at its peak, while the job's updates are
 * written: nothing of the model has been freed then.
 *
 *   program       the binary, its libraries, the CBLAS's own buffers: measured, see plan.c
 *   parameters, gradients, moments (two)      of the trunk and of the job's experts
 *   activations   of one batch and the scratch of the way back: common/model says how many
 *   staging       one shard's difference and its residual (or state, when the job begins), of the largest shard
 *   update        of that shard: indices, codes, values and the encoded body
 *   data          the slice's chunks and the manifest's list of them
 *
 * The size of an update is an expectation: Rice codes (r = 5) of gaps that are geometric with the kept values' density.
 */
#ifndef SKEP_CLIENT_PLAN_PLAN_H
#define SKEP_CLIENT_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/wire/manifest.h"

/* How the worker computes. */
struct skep_plan_options {
    bool recompute;   /* activations are computed again on the way back instead of kept */
    uint32_t threads; /* 0 counts as 1 */
};

struct skep_plan_memory {
    uint64_t program;
    uint64_t parameters;
    uint64_t gradients;
    uint64_t moments;
    uint64_t activations;
    uint64_t staging;
    uint64_t update;
    uint64_t data;
    uint64_t total;
};

/* Of a donor, in bytes. */
struct skep_plan_disk {
    uint64_t states;  /* that one job begins with */
    uint64_t moments; /* of its shards, and */
    uint64_t residuals;
    uint64_t data; /* the slice */
    uint64_t
        outbox; /* its updates until the keepers have them, with the moments and residuals that belong to them */
    uint64_t checkpoint; /* of a job that was interrupted */
    uint64_t job;        /* the sum of these: one job */
    uint64_t
        most; /* after many jobs: states, moments and residuals of all shards, the whole data set, and one job's work */
};

struct skep_plan_keeper {
    uint64_t state;  /* one version of the shard */
    uint64_t update; /* one update of it */
    uint64_t disk;   /* the versions it holds and a full round of updates */
    uint64_t memory; /* while it merges a full round */
};

struct skep_plan {
    uint64_t trunk; /* parameters */
    uint64_t expert;
    uint64_t all;
    uint64_t experts;     /* there are */
    uint64_t job_experts; /* a job trains */
    uint64_t tokens;      /* (records) a job computes */
    double operations;    /* floating-point operations of a job */
    uint64_t
        down;    /* bytes of the first job; a later one fetches what has changed, at most as much */
    uint64_t up; /* to all keepers of each shard */
    uint32_t copies; /* keepers of each shard */
    struct skep_plan_memory memory;
    struct skep_plan_disk disk;
    struct skep_plan_keeper keeper_trunk;
    struct skep_plan_keeper keeper_expert;
    uint64_t keeper_disk;   /* of one that holds every shard and the data */
    uint64_t keeper_memory; /* and while it merges the largest of them */
};

/* The manifest's settings have been checked; data sets and keepers may be missing (then slices are full, and each shard has
 * `replicas` keepers). */
void skep_plan_of(const struct skep_manifest *manifest, const struct skep_plan_options *options,
                  struct skep_plan *ret_plan);

/*
 * May a donor with this limit work for the project, and must it recompute? SKEP_ERR_REFUSED with the sentence that the donor is told:
 * how much the jobs need, the limit, and what to do. The largest shards of a job decide, whichever rows it is given.
 */
int skep_plan_check(const struct skep_manifest *manifest, uint64_t limit_bytes, uint32_t threads,
                    bool *ret_recompute, struct skep_error *err);

#endif
