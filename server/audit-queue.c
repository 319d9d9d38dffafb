#include "server/audit-queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"

struct skep_audit_job *skep_audit_queue_find(const struct skep_audit_queue *queue,
                                             const struct skep_hash *id)
{
    for (struct skep_audit_job *job = queue->jobs; job != NULL; job = job->next) {
        if (skep_hash_equal(&job->id, id)) {
            return job;
        }
    }
    return NULL;
}

bool skep_audit_queue_has_room(const struct skep_audit_queue *queue,
                               const struct skep_project_id *project,
                               const struct skep_peer_id *donor, bool trusted)
{
    size_t own = 0;
    size_t here = 0; /* of these, of this project */
    size_t fresh = 0;
    for (const struct skep_audit_job *job = queue->jobs; job != NULL; job = job->next) {
        bool is_own = skep_peer_id_equal(&job->donor, donor);
        own += is_own;
        here += is_own && memcmp(&job->project, project, sizeof *project) == 0;
        fresh += !job->trusted;
    }
    if (queue->count >= queue->limit) {
        return false;
    }
    if (trusted) {
        return here < queue->most_of_donor;
    }
    return here < queue->most_of_donor / 2 && fresh < queue->most_new &&
           (own == 0 || fresh < queue->most_new / 2);
}

struct skep_audit_job *skep_audit_queue_add(struct skep_audit_queue *queue,
                                            const struct skep_hash *id,
                                            const struct skep_project_id *project,
                                            const struct skep_peer_id *donor, bool trusted)
{
    if (queue->count >= queue->limit) {
        return NULL;
    }
    struct skep_audit_job *job = skep_alloc(1, sizeof *job);
    *job = (struct skep_audit_job){
        .id = *id, .project = *project, .donor = *donor, .trusted = trusted};
    struct skep_audit_job **end = &queue->jobs;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = job;
    queue->count++;
    return job;
}

void skep_audit_queue_want(struct skep_audit_queue *queue, struct skep_audit_job *job, bool urgent,
                           uint64_t now_ms)
{
    job->urgent = job->urgent || urgent;
    if (job->stage == SKEP_AUDIT_PINNED) {
        job->stage = SKEP_AUDIT_WAITING;
        job->deadline_ms = now_ms + queue->wait_ms;
    }
}

void skep_audit_queue_prolong(const struct skep_audit_queue *queue, struct skep_audit_job *job,
                              uint64_t now_ms)
{
    if (job->stage == SKEP_AUDIT_WAITING) {
        job->deadline_ms = now_ms + queue->wait_ms;
    }
}

void skep_audit_queue_ready(struct skep_audit_job *job)
{
    if (job->stage == SKEP_AUDIT_WAITING) {
        job->stage = SKEP_AUDIT_READY;
    }
}

void skep_audit_queue_again(const struct skep_audit_queue *queue, struct skep_audit_job *job,
                            uint64_t now_ms)
{
    if (job->stage == SKEP_AUDIT_READY || job->stage == SKEP_AUDIT_RUNNING) {
        job->stage = SKEP_AUDIT_WAITING;
        job->deadline_ms = now_ms + queue->wait_ms;
    }
}

struct skep_audit_job *skep_audit_queue_next(struct skep_audit_queue *queue)
{
    struct skep_audit_job *best = NULL;
    for (struct skep_audit_job *job = queue->jobs; job != NULL; job = job->next) {
        if (job->stage == SKEP_AUDIT_RUNNING) {
            return NULL;
        }
        bool its_turn = job->urgent != queue->urgent_ran;
        if (job->stage == SKEP_AUDIT_READY &&
            (best == NULL || (its_turn && best->urgent == queue->urgent_ran))) {
            best = job;
        }
    }
    if (best != NULL) {
        best->stage = SKEP_AUDIT_RUNNING;
        queue->urgent_ran = best->urgent;
    }
    return best;
}

bool skep_audit_queue_ended(struct skep_audit_job *job, bool well)
{
    assert(job->stage == SKEP_AUDIT_RUNNING);
    job->tries++;
    if (well || job->tries >= SKEP_AUDIT_TRIES) {
        return true;
    }
    job->stage = SKEP_AUDIT_READY;
    return false;
}

void skep_audit_queue_blame(struct skep_audit_job *job)
{
    assert(job->stage == SKEP_AUDIT_RUNNING);
    job->faults++;
}

bool skep_audit_queue_is_guilty(const struct skep_audit_job *job)
{
    return job->faults >= SKEP_AUDIT_TRIES;
}

struct skep_audit_job *skep_audit_queue_expired(const struct skep_audit_queue *queue,
                                                uint64_t now_ms)
{
    for (struct skep_audit_job *job = queue->jobs; job != NULL; job = job->next) {
        if (job->stage == SKEP_AUDIT_WAITING && now_ms >= job->deadline_ms) {
            return job;
        }
    }
    return NULL;
}

void skep_audit_queue_remove(struct skep_audit_queue *queue, struct skep_audit_job *job)
{
    for (struct skep_audit_job **at = &queue->jobs; *at != NULL; at = &(*at)->next) {
        if (*at == job) {
            *at = job->next;
            queue->count--;
            free(job);
            return;
        }
    }
}

size_t skep_audit_queue_count(const struct skep_audit_queue *queue, enum skep_audit_stage stage)
{
    size_t count = 0;
    for (const struct skep_audit_job *job = queue->jobs; job != NULL; job = job->next) {
        count += job->stage == stage;
    }
    return count;
}
