/*
 * The agent: joins the states (states.h) with the network, the worker and the control socket. One project at a time. Folder:
 *
 *   DIR/key.pem (0600)  DIR/lock  DIR/control.sock  DIR/donor.db  DIR/attached.json
 *   DIR/project-<id8>/  manifest, addresses, stamp, states/, data/ (network/session.h), outbox/, own/ (outbox.h), job/, evidence/ (showing.h)
 */
#ifndef SKEP_CLIENT_AGENT_AGENT_H
#define SKEP_CLIENT_AGENT_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/agent/job.h"
#include "client/agent/outbox.h"
#include "client/agent/states.h"
#include "client/network/session.h"
#include "common/base/error.h"
#include "common/crypto/key.h"
#include "common/gpu/gpu.h"
#include "common/store/donor-db.h"
#include "common/sys/ipc.h"
#include "common/sys/loop.h"

struct skep_agent_call;
struct skep_stamper;

/* Fields are for client/agent only. */
struct skep_agent {
    struct skep_loop *loop;
    char *dir;
    char *listen_host;
    int lock;
    struct skep_key *key;
    struct skep_peer_id id;
    struct skep_donor_db *db;
    struct skep_ipc_server *control;

    enum skep_agent_state state;
    uint64_t generation; /* of the state: answers to earlier ones are not heard */
    int64_t since_s;
    char sentence[640];
    struct skep_timer *timer;
    struct skep_timer *refresh; /* keepers' records expire; long jobs must not lose sight of them */
    uint64_t deadline_ms;       /* WAITING ends */
    bool polling;
    unsigned failures; /* in a row: how long to back off */

    bool attached;
    struct skep_project_id project;
    char *bootstrap;
    struct skep_session *session;
    struct skep_outbox *outbox;
    struct skep_stamper *stamper;    /* NULL until the manifest is there */
    struct skep_agent_call *finding; /* the search that runs */
    uint64_t found_ms;               /* when keepers were last found */
    bool receipts_busy;
    struct skep_job job;
    struct skep_job_watch watch;
    uint32_t threads;        /* that a worker computes with, */
    enum skep_device device; /* and where */
    uint64_t memory_bytes;   /* that it may take */
    bool recompute;          /* only so the project's jobs fit */

    /* figures of the attached project */
    uint64_t trained; /* base version + 1 of our newest accepted trunk update; 0: none */
    uint64_t tokens_total;
    uint64_t updates_sent;
    uint64_t updates_merged;
    uint64_t credit_micro;
    uint64_t round;
    uint64_t peak_bytes; /* of the newest job's worker */
    double loss;         /* of the newest job, in skep_agent_loss_unit() */
    double tokens_per_s;
};

struct skep_agent_options {
    const char *dir;
    const char *listen_host; /* NULL: chosen */
    const char *bootstrap;   /* NULL: as remembered */
    const char *attach;      /* project id, NULL: as remembered */
    uint32_t threads;        /* that a worker computes with; 0: 1 */
    enum skep_device device; /* where it computes */
    uint64_t memory_bytes;   /* that a worker may take; 0: half of the machine's */
};

/* Opens the folder and begins. SKEP_ERR_IN_USE if another skepd has it. */
int skep_agent_open(struct skep_loop *loop, const struct skep_agent_options *options,
                    struct skep_agent **ret_agent, struct skep_error *err);
void skep_agent_close(struct skep_agent *agent);
/* Begins to stop; the loop stops when the worker has written its checkpoint, within 10 s. */
void skep_agent_quit(struct skep_agent *agent);

/* Used by control.c. */
int skep_agent_attach(struct skep_agent *agent, const char *project, const char *bootstrap,
                      struct skep_error *err);
void skep_agent_detach(struct skep_agent *agent);
void skep_agent_pause(struct skep_agent *agent, bool paused);
/* What people read: bits per byte of an lm, nats per record of a classifier. */
struct skep_loss_unit {
    double nats; /* one nat in it */
    const char *name;
    const char *tokens; /* what is counted */
};
struct skep_loss_unit skep_agent_loss_unit(const struct skep_agent *agent);
/* control.h: answers one request line. */
void skep_control_answer(void *user, const char *request, size_t size,
                         struct skep_buffer *ret_answer);

#endif
