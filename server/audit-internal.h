/*
 * The inside of the auditor, shared by its files only: audit.c takes updates up, asks for histories and drives the worker; audit-lots.c
 * draws.
 */
#ifndef SKEP_SERVER_AUDIT_INTERNAL_H
#define SKEP_SERVER_AUDIT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/store/keeper-audits.h"
#include "server/audit-asked.h"
#include "server/audit-queue.h"
#include "server/audit.h"

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

/* The same verdict for all that has none of its own, and the end of the job. */
void skep_audit_end_all(struct skep_audit *audit, struct skep_audit_job *job,
                        enum skep_audit_verdict verdict);

#endif
