/* Trainers and the steward of a donor in remote mode (donor.h). */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/agent/stamp.h"
#include "client/remote/donor-internal.h"
#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/swarm/update-open.h"
#include "common/sys/clock.h"

#define AFTER_FAILURE_MS 1000u
#define SHARDS_AT_ONCE 64u /* of which the steward asks for updates in one request */

bool skep_remote_stopping(struct skep_remote_donor *donor)
{
    pthread_mutex_lock(&donor->lock);
    bool stopping = donor->stopping;
    pthread_mutex_unlock(&donor->lock);
    return stopping;
}

/* True when the time is over, false when the donor stops before. */
static bool pause_for(struct skep_remote_donor *donor, uint64_t ms)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += (time_t)(ms / 1000);
    end.tv_nsec += (long)(ms % 1000) * 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_mutex_lock(&donor->lock);
    while (!donor->stopping && pthread_cond_timedwait(&donor->changed, &donor->lock, &end) == 0) {
    }
    bool stopping = donor->stopping;
    pthread_mutex_unlock(&donor->lock);
    return !stopping;
}

/* The newest slice, to be released; NULL when the donor stops. Waits for the first one. */
static struct skep_remote_slice *take_slice(struct skep_remote_donor *donor)
{
    pthread_mutex_lock(&donor->lock);
    while (!donor->stopping && donor->slice == NULL) {
        pthread_cond_wait(&donor->changed, &donor->lock);
    }
    struct skep_remote_slice *slice = donor->stopping ? NULL : donor->slice;
    if (slice != NULL) {
        skep_remote_slice_hold(slice);
    }
    pthread_mutex_unlock(&donor->lock);
    return slice;
}

/* ---- trainers ---- */

static void send_update(struct skep_remote_donor *donor, const struct skep_remote_slice *slice,
                        const struct skep_gathered *gathered, const struct skep_buffer *body)
{
    struct skep_update_statement statement = {.project = donor->manifest->project,
                                              .shard = {.kind = SKEP_SHARD_TRUNK},
                                              .base_version = slice->version,
                                              .base_state = slice->root,
                                              .trunk_version = slice->version,
                                              .ticket = slice->ticket,
                                              .remote = true,
                                              .stamp = donor->stamp,
                                              .tokens = gathered->tokens,
                                              .loss_first = gathered->loss_first,
                                              .loss_last = gathered->loss_last};
    struct skep_remote_parcel *parcel = skep_alloc(1, sizeof *parcel);
    skep_update_seal(donor->options.key, &statement, body, &parcel->file);
    pthread_mutex_lock(&donor->lock);
    parcel->next = donor->parcels;
    donor->parcels = parcel;
    donor->progress.trunk_updates++;
    pthread_mutex_unlock(&donor->lock);
    skep_async_send(donor->async);
}

/* Is it time for an update of the trunk? If so it is this trainer's to make, and the next is due a period later. */
static bool take_turn(struct skep_remote_donor *donor, uint64_t version)
{
    uint64_t now_ms = skep_clock_monotonic_ms();
    bool mine = false;
    if (!skep_gathering_ready(donor->gathering, version)) {
        return false;
    }
    pthread_mutex_lock(&donor->lock);
    if (donor->stamped && now_ms >= donor->next_update_ms) {
        donor->next_update_ms = now_ms + donor->options.period_ms;
        mine = true;
    }
    pthread_mutex_unlock(&donor->lock);
    return mine;
}

/* What was gathered becomes an update if the time has come; from the newest trunk, not from that of the batch. */
static void update_trunk(struct skep_remote_trainer *trainer)
{
    struct skep_remote_donor *donor = trainer->donor;
    struct skep_remote_slice *slice = take_slice(donor);
    if (slice != NULL && take_turn(donor, slice->version)) {
        struct skep_gathered gathered;
        struct skep_buffer body = {0};
        struct skep_error err = {0};
        int rc = skep_gathering_step(donor->gathering, trainer->model, slice->trunk, slice->version,
                                     &gathered, &body, &err);
        if (rc == SKEP_OK) {
            send_update(donor, slice, &gathered, &body);
        } else if (rc != SKEP_ERR_STATE) {
            skep_log(SKEP_LOG_WARNING, "no update of the trunk: %s", err.text);
        }
        skep_buffer_done(&body);
    }
    skep_remote_slice_release(slice);
}

static int run_batch(struct skep_remote_trainer *trainer, struct skep_remote_slice *slice,
                     struct skep_error *err)
{
    const struct skep_shard trunk = {.kind = SKEP_SHARD_TRUNK};
    struct skep_remote_donor *donor = trainer->donor;
    uint32_t batch = donor->options.batch;
    struct skep_model_loss loss;
    int rc = skep_remote_slice_batch(slice, &donor->manifest->model, batch, trainer->windows, err);
    if (rc == SKEP_OK) {
        rc = skep_model_set(trainer->model, &trunk, slice->trunk);
    }
    if (rc == SKEP_OK) {
        rc = skep_model_forward(trainer->model, trainer->windows, batch, &loss, err);
    }
    if (rc == SKEP_OK) {
        rc = skep_model_backward(trainer->model, donor->manifest->training.z_loss, err);
    }
    if (rc == SKEP_OK) {
        skep_gathering_add(donor->gathering, trainer->model, &loss);
    }
    pthread_mutex_lock(&donor->lock);
    if (rc == SKEP_OK) {
        donor->progress.batches++;
        donor->progress.tokens += loss.tokens;
        donor->progress.correct += loss.correct;
        donor->progress.nats += loss.sum_nats;
    } else {
        donor->progress.failed++;
    }
    pthread_mutex_unlock(&donor->lock);
    return rc;
}

void *skep_remote_trainer_main(void *user)
{
    struct skep_remote_trainer *trainer = user;
    struct skep_remote_donor *donor = trainer->donor;
    struct skep_remote_slice *slice = NULL;
    while ((slice = take_slice(donor)) != NULL) {
        struct skep_error err = {0};
        int rc = run_batch(trainer, slice, &err);
        skep_remote_slice_release(slice);
        if (rc == SKEP_OK) {
            update_trunk(trainer);
        } else if (!skep_remote_stopping(donor)) {
            skep_log(SKEP_LOG_WARNING, "trainer %u gave up a batch: %s", trainer->number, err.text);
            (void)pause_for(donor, AFTER_FAILURE_MS);
        }
    }
    return NULL;
}

/* ---- the steward ---- */

static void count_outcomes(struct skep_remote_donor *donor,
                           const enum skep_caller_outcome *outcomes, size_t count)
{
    pthread_mutex_lock(&donor->lock);
    for (size_t i = 0; i < count; i++) {
        donor->progress.expert_updates += outcomes[i] == SKEP_CALLER_PUBLISHED;
        donor->progress.expert_early += outcomes[i] == SKEP_CALLER_EARLY;
        donor->progress.expert_failed += outcomes[i] == SKEP_CALLER_FAILED;
    }
    pthread_mutex_unlock(&donor->lock);
}

/* Experts first .. first + count - 1 in the manifest's order of shards. */
static void update_experts(struct skep_remote_donor *donor, size_t first, size_t count)
{
    struct skep_shard shards[SHARDS_AT_ONCE];
    enum skep_caller_outcome outcomes[SHARDS_AT_ONCE];
    struct skep_error err = {0};
    double loss_first = 0;
    double loss_last = 0;
    if (!skep_gathering_losses(donor->gathering, &loss_first, &loss_last)) {
        return; /* no batch has come to its end */
    }
    for (size_t i = 0; i < count; i++) {
        shards[i] = skep_manifest_shard(donor->manifest, first + i);
    }
    int rc = skep_caller_line_update(donor->steward_line, shards, count, loss_first, loss_last,
                                     outcomes, &err);
    count_outcomes(donor, outcomes, count);
    if (rc != SKEP_OK) {
        skep_log(SKEP_LOG_WARNING, "an update of an expert failed: %s", err.text);
    }
}

static bool is_stopping(void *user)
{
    return skep_remote_stopping(user);
}

/* The stamp of this project, kept or found now; updates are made from then on. False if there is none. */
static bool find_stamp(struct skep_remote_donor *donor)
{
    const char *folder = donor->options.session->folder;
    struct skep_stamp_search search;
    struct skep_error err = {0};
    skep_stamp_begin(&search, &donor->manifest->project, &donor->id,
                     donor->manifest->trust.stamp_bits);
    skep_stamp_load(folder, &search);
    if (!search.found) {
        int rc = skep_stamp_find(&search, is_stopping, donor, &err);
        if (rc != SKEP_OK) {
            skep_log(SKEP_LOG_INFO, "%s", err.text);
            return false;
        }
        skep_log(SKEP_LOG_INFO, "found a stamp after %llu tries", (unsigned long long)search.tries);
        skep_stamp_save(folder, &search);
    }
    skep_caller_set_stamp(donor->caller, search.nonce);
    pthread_mutex_lock(&donor->lock);
    donor->stamp = search.nonce;
    donor->stamped = true;
    pthread_mutex_unlock(&donor->lock);
    return true;
}

/* Goes round all experts in a period, a few at a time, so that keepers and callers never wait for all of them at once. Keepers that are
 * slow are asked less often: the steward waits for them half of its time at most, for the trainers' calls come first. */
void *skep_remote_steward_main(void *user)
{
    struct skep_remote_donor *donor = user;
    size_t end = skep_manifest_shard_count(donor->manifest);
    size_t parts = (end - 1 + SHARDS_AT_ONCE - 1) / SHARDS_AT_ONCE;
    uint64_t share_ms = donor->options.period_ms / (parts > 0 ? parts : 1) + 1;
    uint64_t pause_ms = share_ms;
    size_t next = 1;
    if (!find_stamp(donor)) {
        return NULL;
    }
    while (pause_for(donor, pause_ms)) {
        size_t count = end - next < SHARDS_AT_ONCE ? end - next : SHARDS_AT_ONCE;
        uint64_t start_ms = skep_clock_monotonic_ms();
        update_experts(donor, next, count);
        uint64_t taken_ms = skep_clock_monotonic_ms() - start_ms;
        pause_ms = taken_ms * 2 > share_ms ? taken_ms : share_ms - taken_ms;
        next = next + count < end ? next + count : 1;
    }
    return NULL;
}
