#include "common/swarm/pace.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/swarm/credit.h"
#include "common/swarm/donors.h"

/* What is remembered of a donor. */
struct steps {
    uint64_t
        full_us; /* when its bucket is full again: a bucket is kept as the time that filling it takes */
    bool has_job;
    uint64_t trunk_version; /* of its newest job, */
    uint64_t job_ms;        /* whose first update came then */
};

struct skep_pace {
    struct skep_donors *donors;
    uint64_t job_ms;   /* of a whole job at SKEP_LIMIT_DONOR_FLOPS */
    uint64_t burst_us; /* what filling an empty bucket takes, */
    uint64_t each_us;  /* and filling in one update */
};

/* The operations of a whole job: the trunk's, and those of every expert that it may touch. */
static double job_flops(const struct skep_manifest *manifest)
{
    const struct skep_model_config *model = &manifest->model;
    uint32_t rows = manifest->training.donor_rows;
    struct skep_shard trunk = {.kind = SKEP_SHARD_TRUNK};
    struct skep_shard expert = {.kind = SKEP_SHARD_FFN};
    double experts =
        (double)model->layers * (rows < model->rows ? rows : model->rows) * model->columns;
    return (double)skep_job_flops(manifest, &trunk) +
           experts * (double)skep_job_flops(manifest, &expert);
}

struct skep_pace *skep_pace_new(const struct skep_manifest *manifest, uint64_t seed)
{
    struct skep_pace *pace = skep_alloc(1, sizeof *pace);
    uint64_t shards = skep_manifest_shard_count(manifest);
    uint64_t window_ms = manifest->merge.window_ms < SKEP_PACE_WINDOW_MS ? manifest->merge.window_ms
                                                                         : SKEP_PACE_WINDOW_MS;
    pace->donors = skep_donors_new(SKEP_PACE_DONORS, sizeof(struct steps), seed);
    pace->job_ms = (uint64_t)(job_flops(manifest) / SKEP_LIMIT_DONOR_FLOPS * 1000);
    pace->each_us = window_ms * 1000 / (2 * shards) + 1;
    pace->burst_us = pace->each_us * shards * SKEP_PACE_WINDOWS;
    return pace;
}

void skep_pace_free(struct skep_pace *pace)
{
    if (pace != NULL) {
        skep_donors_free(pace->donors);
        free(pace);
    }
}

static int too_fast(const struct skep_pace *pace, const char *since, uint64_t elapsed_ms,
                    struct skep_error *err)
{
    return skep_refuse(err, SKEP_REFUSAL_TOO_FAST,
                       "update comes %llu ms after %s; at %g operations a second its job takes "
                       "%llu ms",
                       (unsigned long long)elapsed_ms, since, SKEP_LIMIT_DONOR_FLOPS,
                       (unsigned long long)pace->job_ms);
}

/* Can the job have been computed since its base was sealed, and since the donor's job before it? */
static int check_time(const struct skep_pace *pace, struct steps *steps,
                      const struct skep_update_statement *statement, uint64_t sealed_ms,
                      uint64_t now_ms, struct skep_error *err)
{
    if (statement->remote) {
        return SKEP_OK; /* not a job */
    }
    if (sealed_ms <= now_ms && now_ms - sealed_ms < pace->job_ms) {
        return too_fast(pace, "its base version was sealed here", now_ms - sealed_ms, err);
    }
    if (steps->has_job && statement->trunk_version <= steps->trunk_version) {
        return SKEP_OK; /* another shard of the same job, or what an outbox still held of an old one */
    }
    if (steps->has_job && now_ms >= steps->job_ms && now_ms - steps->job_ms < pace->job_ms) {
        return too_fast(pace, "its donor's job before this", now_ms - steps->job_ms, err);
    }
    steps->has_job = true;
    steps->trunk_version = statement->trunk_version;
    steps->job_ms = now_ms;
    return SKEP_OK;
}

static int pay(const struct skep_pace *pace, struct steps *steps, uint64_t now_ms,
               struct skep_error *err)
{
    uint64_t now_us = now_ms * 1000;
    uint64_t from = steps->full_us > now_us ? steps->full_us : now_us;
    if (from - now_us + pace->each_us > pace->burst_us) {
        return skep_refuse(err, SKEP_REFUSAL_RATE,
                           "donor sends more than %llu updates in %u windows; try again later",
                           (unsigned long long)(pace->burst_us / pace->each_us), SKEP_PACE_WINDOWS);
    }
    steps->full_us = from + pace->each_us;
    return SKEP_OK;
}

int skep_pace_admit(struct skep_pace *pace, const struct skep_update_statement *statement,
                    uint64_t sealed_ms, uint64_t now_ms, struct skep_error *err)
{
    struct steps *steps = skep_donors_take(pace->donors, &statement->donor);
    int rc = pay(pace, steps, now_ms, err);
    return rc == SKEP_OK ? check_time(pace, steps, statement, sealed_ms, now_ms, err) : rc;
}
