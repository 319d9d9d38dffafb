#include "client/remote/donor-internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/sys/clock.h"

#define LOOK_MS 1000u /* between looks at the newest versions, of which a keeper names all shards */
#define PRUNE_S 60
#define FRESH_MS 20000u /* keepers are looked for this often, for their records age */

/* ---- following the trunk ---- */

static void end_look(struct skep_remote_donor *donor, int result, const struct skep_error *err)
{
    if (result != SKEP_OK && result != SKEP_ERR_CANCELLED) {
        donor->find_ms = 0;
        skep_log(SKEP_LOG_WARNING, "the newest trunk cannot be had: %s", err->text);
    }
    skep_remote_slice_release(donor->drawn);
    donor->drawn = NULL;
    donor->following = false;
}

/* The slice is complete: trainers take it with their next batch. */
static void show_slice(struct skep_remote_donor *donor)
{
    pthread_mutex_lock(&donor->lock);
    struct skep_remote_slice *before = donor->slice;
    donor->slice = donor->drawn;
    donor->progress.trunk_version = donor->drawn->version;
    pthread_cond_broadcast(&donor->changed);
    pthread_mutex_unlock(&donor->lock);
    donor->drawn = NULL;
    skep_remote_slice_release(before);
}

static void on_chunks(void *user, int result, const struct skep_error *err)
{
    struct skep_remote_donor *donor = user;
    struct skep_error own = *err;
    if (result == SKEP_OK) {
        result = skep_remote_slice_fill(donor->drawn, donor->options.session, &own);
    }
    if (result == SKEP_OK) {
        show_slice(donor);
        skep_session_prune(donor->options.session, PRUNE_S);
    }
    end_look(donor, result, &own);
}

static void on_trunk(void *user, int result, const struct skep_error *err)
{
    struct skep_remote_donor *donor = user;
    struct skep_session *session = donor->options.session;
    if (result != SKEP_OK || !donor->have) {
        end_look(donor, result, err);
        return;
    }
    donor->drawn = skep_remote_slice_draw(session, &donor->id);
    skep_session_fetch_chunks(session, &session->manifest.train, donor->drawn->places,
                              donor->drawn->count, on_chunks, donor);
}

static void on_head(void *user, int result, const struct skep_error *err)
{
    static const size_t trunk = 0;
    struct skep_remote_donor *donor = user;
    struct skep_session *session = donor->options.session;
    const struct skep_head *head = &session->heads.heads[trunk];
    bool newer = donor->slice == NULL || head->version > donor->slice->version;
    if (result != SKEP_OK || !head->known || !newer) {
        end_look(donor, result, err);
        return;
    }
    skep_session_fetch_shards(session, &trunk, 1, &donor->have, on_trunk, donor);
}

static void on_found(void *user, int result, const struct skep_error *err)
{
    struct skep_remote_donor *donor = user;
    if (result != SKEP_OK) {
        end_look(donor, result, err);
        return;
    }
    donor->find_ms = skep_clock_monotonic_ms() + FRESH_MS;
    skep_session_poll_trunk(donor->options.session, on_head, donor);
}

static void on_timer(void *user)
{
    struct skep_remote_donor *donor = user;
    if (donor->following) {
        return;
    }
    donor->following = true;
    if (skep_clock_monotonic_ms() >= donor->find_ms) {
        skep_session_find(donor->options.session, on_found, donor);
    } else {
        skep_session_poll_trunk(donor->options.session, on_head, donor);
    }
}

/* ---- updates of the trunk ---- */

static void on_settled(void *user, const struct skep_update_statement *statement, bool accepted)
{
    (void)user;
    if (!accepted) {
        skep_log(SKEP_LOG_INFO, "our update of the trunk from version %llu was not taken",
                 (unsigned long long)statement->base_version);
    }
}

/* The moments stay in memory, so there are none to rest beside the update. */
static void on_parcels(void *user)
{
    struct skep_remote_donor *donor = user;
    pthread_mutex_lock(&donor->lock);
    struct skep_remote_parcel *parcel = donor->parcels;
    donor->parcels = NULL;
    pthread_mutex_unlock(&donor->lock);
    char *nothing = skep_format("%s/no-moments", donor->options.session->folder);
    while (parcel != NULL) {
        struct skep_remote_parcel *next = parcel->next;
        struct skep_error err = {0};
        if (skep_outbox_add(donor->outbox, &parcel->file, nothing, nothing, &err) != SKEP_OK) {
            skep_log(SKEP_LOG_WARNING, "an update of the trunk is lost: %s", err.text);
        }
        skep_buffer_done(&parcel->file);
        free(parcel);
        parcel = next;
    }
    free(nothing);
}

/* ---- trainers ---- */

static int before_call(struct skep_remote_trainer *trainer, struct skep_error *err)
{
    struct skep_remote_donor *donor = trainer->donor;
    if (donor->options.before_call != NULL) {
        donor->options.before_call(donor->options.user, trainer->number);
    }
    return skep_remote_stopping(donor)
               ? skep_error_set(err, SKEP_ERR_CANCELLED, "the donor is stopping")
               : SKEP_OK;
}

static int call_forward(void *user, uint32_t layer, const struct skep_expert_group *groups,
                        size_t group_count, const skep_real *x, skep_real *y, bool *answered,
                        struct skep_error *err)
{
    struct skep_remote_trainer *trainer = user;
    int rc = before_call(trainer, err);
    return rc != SKEP_OK ? rc
                         : trainer->inner.forward(trainer->inner.user, layer, groups, group_count,
                                                  x, y, answered, err);
}

static int call_backward(void *user, uint32_t layer, const struct skep_expert_group *groups,
                         size_t group_count, const skep_real *x, const skep_real *dy, skep_real *dx,
                         bool *answered, struct skep_error *err)
{
    struct skep_remote_trainer *trainer = user;
    int rc = before_call(trainer, err);
    return rc != SKEP_OK ? rc
                         : trainer->inner.backward(trainer->inner.user, layer, groups, group_count,
                                                   x, dy, dx, answered, err);
}

static int prepare_trainer(struct skep_remote_donor *donor, uint32_t number, struct skep_error *err)
{
    struct skep_remote_trainer *trainer = &donor->trainers[number];
    const struct skep_model_config *config = &donor->manifest->model;
    struct skep_model_options options = {.batch = donor->options.batch, .calls = &trainer->calls};
    trainer->donor = donor;
    trainer->number = number;
    trainer->line = skep_caller_line_new(donor->caller);
    trainer->inner = skep_caller_line_calls(trainer->line);
    trainer->calls = (struct skep_expert_calls){
        .user = trainer, .forward = call_forward, .backward = call_backward};
    trainer->windows = calloc(donor->options.batch, skep_model_config_window(config));
    if (trainer->windows == NULL) {
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory for a batch of %u",
                              donor->options.batch);
    }
    return skep_model_new(config, &options, &trainer->model, err);
}

static int start_threads(struct skep_remote_donor *donor, struct skep_error *err)
{
    bool good = true;
    for (uint32_t i = 0; i < donor->options.trainers && good; i++) {
        good = pthread_create(&donor->trainers[i].thread, NULL, skep_remote_trainer_main,
                              &donor->trainers[i]) == 0;
        donor->started += good;
    }
    donor->steward_started =
        good && pthread_create(&donor->steward, NULL, skep_remote_steward_main, donor) == 0;
    return donor->steward_started
               ? SKEP_OK
               : skep_error_set(err, SKEP_ERR_MEMORY, "no more threads: %u of %u trainers started",
                                donor->started, donor->options.trainers);
}

/* ---- the donor ---- */

static struct skep_caller *make_caller(const struct skep_remote_donor_options *options)
{
    struct skep_session *session = options->session;
    size_t count = skep_peers_count(session->peers);
    struct skep_record *records = skep_alloc(count + 1, sizeof *records);
    for (size_t i = 0; i < count; i++) {
        records[i] = *skep_peers_at(session->peers, i);
    }
    struct skep_caller_options caller = {.manifest = &session->manifest,
                                         .records = records,
                                         .record_count = count,
                                         .key = options->key};
    struct skep_caller *made = skep_caller_new(&caller);
    free(records);
    return made;
}

static void init(struct skep_remote_donor *donor, const struct skep_remote_donor_options *options)
{
    pthread_condattr_t attributes;
    donor->options = *options;
    donor->manifest = &options->session->manifest;
    donor->id = skep_key_id(options->key);
    if (donor->options.batch == 0) {
        donor->options.batch = donor->manifest->training.batch;
    }
    pthread_mutex_init(&donor->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&donor->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    donor->trainers = skep_alloc(options->trainers, sizeof *donor->trainers);
    donor->caller = make_caller(options);
    donor->steward_line = skep_caller_line_new(donor->caller);
    donor->async = skep_async_new(options->session->loop, on_parcels, donor);
    donor->timer = skep_timer_new(options->session->loop, on_timer, donor);
    donor->find_ms = skep_clock_monotonic_ms() + FRESH_MS;
    donor->next_update_ms = skep_clock_monotonic_ms() + options->period_ms;
}

int skep_remote_donor_open(const struct skep_remote_donor_options *options,
                           struct skep_remote_donor **ret_donor, struct skep_error *err)
{
    if (options->trainers < 1 || options->trainers > SKEP_REMOTE_TRAINERS) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT, "%u trainers; allowed: 1 to %u",
                              options->trainers, SKEP_REMOTE_TRAINERS);
    }
    struct skep_remote_donor *donor = skep_alloc(1, sizeof *donor);
    init(donor, options);
    int rc = skep_gathering_new(donor->manifest, &donor->gathering, err);
    if (rc == SKEP_OK) {
        rc = skep_outbox_new(options->session, on_settled, donor, &donor->outbox, err);
    }
    for (uint32_t i = 0; rc == SKEP_OK && i < options->trainers; i++) {
        rc = prepare_trainer(donor, i, err);
    }
    if (rc == SKEP_OK) {
        rc = start_threads(donor, err);
    }
    if (rc != SKEP_OK) {
        skep_remote_donor_stop(donor);
        skep_remote_donor_free(donor);
        return rc;
    }
    skep_timer_start(donor->timer, 1, LOOK_MS);
    *ret_donor = donor;
    return SKEP_OK;
}

static void end_threads(struct skep_remote_donor *donor)
{
    pthread_mutex_lock(&donor->lock);
    donor->stopping = true;
    pthread_cond_broadcast(&donor->changed);
    pthread_mutex_unlock(&donor->lock);
    for (uint32_t i = 0; i < donor->started; i++) {
        pthread_join(donor->trainers[i].thread, NULL);
    }
    if (donor->steward_started) {
        pthread_join(donor->steward, NULL);
    }
    donor->started = 0;
    donor->steward_started = false;
}

void skep_remote_donor_stop(struct skep_remote_donor *donor)
{
    end_threads(donor);
    skep_timer_stop(donor->timer);
    for (uint32_t i = 0; i < donor->options.trainers; i++) {
        struct skep_remote_trainer *trainer = &donor->trainers[i];
        skep_model_free(trainer->model);
        skep_caller_line_free(trainer->line);
        free(trainer->windows);
        *trainer = (struct skep_remote_trainer){0};
    }
    skep_caller_line_free(donor->steward_line);
    skep_caller_free(donor->caller);
    donor->steward_line = NULL;
    donor->caller = NULL;
}

void skep_remote_donor_free(struct skep_remote_donor *donor)
{
    if (donor == NULL) {
        return;
    }
    while (donor->parcels != NULL) {
        struct skep_remote_parcel *next = donor->parcels->next;
        skep_buffer_done(&donor->parcels->file);
        free(donor->parcels);
        donor->parcels = next;
    }
    skep_outbox_free(donor->outbox);
    skep_gathering_free(donor->gathering);
    skep_remote_slice_release(donor->slice);
    skep_remote_slice_release(donor->drawn);
    skep_timer_free(donor->timer);
    skep_async_free(donor->async);
    free(donor->trainers);
    pthread_cond_destroy(&donor->changed);
    pthread_mutex_destroy(&donor->lock);
    free(donor);
}

void skep_remote_donor_progress(struct skep_remote_donor *donor,
                                struct skep_remote_progress *ret_progress)
{
    pthread_mutex_lock(&donor->lock);
    *ret_progress = donor->progress;
    pthread_mutex_unlock(&donor->lock);
}
