/* What the loop's side of a donor in remote mode (donor.c) and its threads (donor-threads.c) share. */
#ifndef SKEP_CLIENT_REMOTE_DONOR_INTERNAL_H
#define SKEP_CLIENT_REMOTE_DONOR_INTERNAL_H

#include <pthread.h>

#include "client/agent/outbox.h"
#include "client/network/experts.h"
#include "client/remote/donor.h"
#include "client/remote/gathering.h"
#include "client/remote/slice.h"
#include "common/model/model.h"

struct skep_remote_trainer {
    struct skep_remote_donor *donor;
    uint32_t number;
    pthread_t thread;
    struct skep_caller_line *line;
    struct skep_expert_calls inner; /* the line's */
    struct skep_expert_calls calls; /* with before_call() */
    struct skep_model *model;
    uint8_t *windows;
};

/* An update of the trunk on its way from a trainer to the loop. */
struct skep_remote_parcel {
    struct skep_remote_parcel *next;
    struct skep_buffer file;
};

struct skep_remote_donor {
    struct skep_remote_donor_options options;
    const struct skep_manifest *manifest;
    struct skep_peer_id id;
    struct skep_caller *caller;
    struct skep_gathering *gathering;
    struct skep_remote_trainer *trainers;
    uint32_t started;
    pthread_t steward;
    bool steward_started;
    struct skep_caller_line *steward_line;

    /* the loop's alone */
    struct skep_outbox *outbox;
    struct skep_timer *timer;
    struct skep_async *async;
    uint64_t find_ms;                /* when keepers are to be looked for again */
    bool following;                  /* a look at the trunk is under way */
    struct skep_remote_slice *drawn; /* whose chunks are being fetched */
    bool have;

    pthread_mutex_t lock;   /* of all below */
    pthread_cond_t changed; /* `stopping` or `slice` */
    bool stopping;
    struct skep_remote_slice *slice; /* the newest */
    struct skep_remote_parcel *parcels;
    uint64_t next_update_ms; /* of the trunk */
    bool stamped;            /* no update before the stamp is found */
    uint64_t stamp;
    struct skep_remote_progress progress;
};

/* The threads' mains; arguments are a trainer and a donor. */
void *skep_remote_trainer_main(void *trainer);
void *skep_remote_steward_main(void *donor);
bool skep_remote_stopping(struct skep_remote_donor *donor);

#endif
