/*
 * Which jobs a keeper repeats, and when: one at a time, by turns one that a merge waits for (urgent) and one that was drawn, and of each the
 * oldest first. Urgent ones are brought by newcomers, as many as they like: if these always went first no drawn job would run, and its
 * donor would lose one place after the other until it has none left.
 *
 *   add() -> PINNED --want()--> WAITING --ready()--> READY --next()--> RUNNING --ended(well)--> gone
 *              |                |     ^                | ^                |  |
 *              |                |     '----again()-----'-)----------------'  |
 *              '--> gone        '--expired()-> gone      '---ended(badly)----'  (SKEP_AUDIT_TRIES times, then gone)
 *
 * PINNED: what the job began with is held, because a lot may fall on it after its merge. WAITING: for the trunk's update, data chunks or
 * the donor's histories, no longer than until its deadline. Pure: the time comes with the calls; audit.c does what is said here.
 *
 * Room. A job that has a place keeps it: whoever could push others out by bringing more could push out what would convict it. So who comes
 * is asked whether there is room before anything is stored. A donor has most_of_donor places in each project, on probation half as many. All
 * else is counted over the keeper's projects, which share one worker: donors on probation have most_new together, so that newcomers, which
 * cost nothing but their stamps, leave room for those whose jobs are drawn; and once half of these are taken nobody on probation gets a
 * second place: to shut other newcomers out takes a key for each place in the other half.
 */
#ifndef SKEP_SERVER_AUDIT_QUEUE_H
#define SKEP_SERVER_AUDIT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/id.h"

#define SKEP_AUDIT_TRIES 2u

enum skep_audit_stage {
    SKEP_AUDIT_PINNED,
    SKEP_AUDIT_WAITING,
    SKEP_AUDIT_READY,
    SKEP_AUDIT_RUNNING,
};

/* Fields are to be read; `load` is the caller's. */
struct skep_audit_job {
    struct skep_audit_job *next;
    struct skep_hash id; /* of project, donor and ticket */
    struct skep_project_id project;
    struct skep_peer_id donor;
    bool trusted; /* when it came */
    enum skep_audit_stage stage;
    bool urgent;          /* a merge waits for it */
    uint64_t deadline_ms; /* WAITING */
    unsigned tries;
    unsigned faults; /* so many of which ended for what the job itself is */
    void *load;
};

/* Zero-initialise and set the limits. */
struct skep_audit_queue {
    struct skep_audit_job *jobs; /* in the order in which they came */
    size_t count;
    size_t limit;
    size_t most_new;
    size_t most_of_donor;
    uint64_t wait_ms; /* longest WAITING */
    bool urgent_ran;  /* last */
};

struct skep_audit_job *skep_audit_queue_find(const struct skep_audit_queue *queue,
                                             const struct skep_hash *id);
/* Is there room for one more job of this donor? */
bool skep_audit_queue_has_room(const struct skep_audit_queue *queue,
                               const struct skep_project_id *project,
                               const struct skep_peer_id *donor, bool trusted);
/* A new job, PINNED; NULL where `limit` are here. */
struct skep_audit_job *skep_audit_queue_add(struct skep_audit_queue *queue,
                                            const struct skep_hash *id,
                                            const struct skep_project_id *project,
                                            const struct skep_peer_id *donor, bool trusted);
/* PINNED -> WAITING; an urgent wish makes what waits or is ready urgent, and a WAITING job's deadline stays. */
void skep_audit_queue_want(struct skep_audit_queue *queue, struct skep_audit_job *job, bool urgent,
                           uint64_t now_ms);
/* WAITING -> READY: all that it needs is there. */
void skep_audit_queue_ready(struct skep_audit_job *job);
/* A WAITING job gets as long once more. */
void skep_audit_queue_prolong(const struct skep_audit_queue *queue, struct skep_audit_job *job,
                              uint64_t now_ms);
/* READY or RUNNING -> WAITING, with a deadline of its own: more has come that belongs to it. Who ran it has ended that. */
void skep_audit_queue_again(const struct skep_audit_queue *queue, struct skep_audit_job *job,
                            uint64_t now_ms);
/* The next to run, now RUNNING; NULL while one runs or none is ready. */
struct skep_audit_job *skep_audit_queue_next(struct skep_audit_queue *queue);
/* It stopped running: true if it is over, else it is READY again. Over means that the caller removes it. */
bool skep_audit_queue_ended(struct skep_audit_job *job, bool well);
/* The try that is ending came to nothing for what the job itself is, and nothing that is ours: before ended(). */
void skep_audit_queue_blame(struct skep_audit_job *job);
/* That was so each time: once can be anything. */
bool skep_audit_queue_is_guilty(const struct skep_audit_job *job);
/* One that has WAITED too long, for the caller to remove; NULL if there is none. */
struct skep_audit_job *skep_audit_queue_expired(const struct skep_audit_queue *queue,
                                                uint64_t now_ms);
/* Takes it out and frees it (its load is the caller's). */
void skep_audit_queue_remove(struct skep_audit_queue *queue, struct skep_audit_job *job);
/* So many are in this stage. */
size_t skep_audit_queue_count(const struct skep_audit_queue *queue, enum skep_audit_stage stage);

#endif
