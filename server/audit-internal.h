/*
 * The inside of the auditor, shared by its files only: audit.c asks for histories and drives the worker; audit-take.c takes updates up;
 * audit-lots.c draws.
 */
#ifndef SKEP_SERVER_AUDIT_INTERNAL_H
#define SKEP_SERVER_AUDIT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/store/keeper-audits.h"
#include "server/audit-asked.h"
#include "server/audit-queue.h"
#include "server/audit.h"

struct skep_audit_load;
struct skep_audit_look;
struct skep_audit_update;
struct skep_evidence;
struct skep_process;
struct skep_timer;

struct skep_audit {
    struct skep_host *host;
    struct skep_timer *timer;
    struct skep_audit_queue queue;
    struct skep_evidence *evidence;
    struct skep_process *worker;
    struct skep_audit_job *running;
    bool done;   /* the worker said so, */
    bool failed; /* or that numbers of the job are none */
    uint64_t started_ms;
    struct skep_audit_asked asked; /* by the agreement, for what is held back */
};

uint64_t skep_audit_now(const struct skep_audit *audit);

/* Counted is what has changed a row. */
int skep_audit_set_verdict(struct skep_project *project, const struct skep_audit_row *row,
                           struct skep_error *err);
/* Of the job's update i; `look` may be NULL. */
void skep_audit_write_verdict(const struct skep_audit_load *load, size_t i,
                              enum skep_audit_verdict verdict, const struct skep_audit_look *look,
                              double seconds);

/* An update that was held back goes to the agreement, if it may and still can be merged. */
void skep_audit_let_one_in(const struct skep_audit_update *update,
                           const struct skep_peer_id *donor);

/* The same verdict for all that has none of its own, and the end of the job. */
void skep_audit_end_all(struct skep_audit *audit, struct skep_audit_job *job,
                        enum skep_audit_verdict verdict);

#endif
