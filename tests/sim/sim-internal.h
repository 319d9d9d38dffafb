/* The inside of the simulated world: sim-round.c runs it, sim-keeper.c is a keeper's host, sim-queue.c its time. */
#ifndef SKEP_TESTS_SIM_INTERNAL_H
#define SKEP_TESTS_SIM_INTERNAL_H

#include "common/base/rng.h"
#include "common/merge/standings.h"
#include "common/swarm/reputation.h"
#include "common/swarm/round.h"
#include "tests/sim/sim-round.h"

#define SIM_KEEPERS 7
#define SIM_UPDATES 512
#define SIM_VERSIONS 256
#define SIM_DONORS 6

struct sim_world;

enum sim_event_kind {
    SIM_TICK,
    SIM_MESSAGE,  /* message */
    SIM_MERGED,   /* list onto version `base` */
    SIM_FETCHED,  /* update `index` from keeper `peer` */
    SIM_UPLOADED, /* update `index` from its donor */
    SIM_CAUGHT,   /* seals of keeper `peer` */
    SIM_RESTART,
    SIM_DONATE,  /* donor `index` finishes a job */
    SIM_CUT,     /* links change */
    SIM_AUDITED, /* update `index` was repeated */
};

struct sim_event {
    uint64_t at_ms;
    uint64_t order;
    enum sim_event_kind kind;
    size_t keeper;  /* whom it happens to */
    uint64_t epoch; /* and in which of its lives; 0: in any */
    size_t index;
    size_t peer;
    uint64_t base;
    size_t list_count;
    struct skep_round_update *list;
    struct skep_message message;
};

struct sim_queue {
    struct sim_event **items;
    size_t count;
    size_t capacity;
    uint64_t order;
};

/* A heap by time, then by order of asking. Takes the event; the caller of pop frees it with sim_event_free(). */
void sim_queue_push_take(struct sim_queue *queue, uint64_t at_ms, struct sim_event *take_event);
struct sim_event *sim_queue_pop(struct sim_queue *queue);
void sim_event_free(struct sim_event *event);

enum sim_verdict {
    SIM_OPEN,
    SIM_VALID,
    SIM_INVALID,
};

/* A seal on a keeper's disk. */
struct sim_version {
    struct skep_envelope envelope;
    struct skep_seal seal;
    struct skep_hash link;
};

struct sim_keeper {
    struct skep_key *key;
    size_t place;
    bool up;
    uint64_t epoch;
    uint64_t skew_ms; /* its clock is ahead by this */
    uint64_t tick_ms; /* next tick asked for */
    size_t side;      /* links between sides are cut */
    struct skep_round *round;
    struct skep_standings *standings;     /* as of its head, */
    struct skep_reputations *reputations; /* as these */
    bool audits;
    bool lies; /* finds of all updates what is not so */
    bool catching;
    /* the disk */
    struct skep_round_memory memory;
    size_t version_count;
    struct sim_version versions[SIM_VERSIONS]; /* version i + 1 */
    bool stored[SIM_UPDATES];
    enum sim_verdict verdicts[SIM_UPDATES];
};

/* Update i, known by its hash's first bytes. */
struct sim_update {
    struct skep_round_update update;
    bool poison; /* a list with it cannot be merged */
    bool cheat;  /* no job gives it */
    bool stated; /* a seal says what was found */
    bool stored; /* by some keeper: acknowledged to the donor */
    uint64_t merged_in;
};

struct sim_world {
    struct skep_rng rng;
    bool trace;
    bool calm;
    bool through_json; /* messages are encoded and decoded */
    uint64_t now_ms;
    uint64_t calm_ms;  /* faults end */
    uint64_t quiet_ms; /* donors stop */
    uint32_t loss_permille;
    uint32_t double_permille;
    uint32_t crash_permille; /* at each action */
    uint32_t poison_permille;
    bool liar; /* donor 0's updates pull against the others' */
    bool audits;
    bool cheat; /* donor 1's updates are no job's */
    uint32_t delay_ms;
    uint32_t merge_ms;
    struct skep_manifest manifest;
    struct skep_peer_id keeper_ids[SIM_KEEPERS];
    struct skep_shard shard;
    struct skep_hash genesis;
    size_t keeper_count;
    struct sim_keeper keepers[SIM_KEEPERS];
    size_t donor_count;
    uint64_t donor_base[SIM_DONORS]; /* 1 + base of its newest update */
    size_t update_count;
    struct sim_update updates[SIM_UPDATES];
    struct sim_queue queue;
    /* what the world saw sealed */
    size_t version_count;
    struct sim_version versions[SIM_VERSIONS]; /* the first seal of each, without its envelope */
    bool again[SIM_VERSIONS];
    struct skep_standings *standings;     /* from the seals alone, */
    struct skep_reputations *reputations; /* as these */
    struct sim_result result;
};

void sim_fail(struct sim_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool sim_chance(struct sim_world *world, uint32_t permille);
struct sim_event *sim_event_new(enum sim_event_kind kind, const struct sim_keeper *keeper);
/* Checks a seal against all that was sealed before, and that it follows the keeper's head; notes and decodes it. False if it
 * may not be, which fails the run. */
bool sim_check_seal(struct sim_world *world, const struct sim_keeper *keeper,
                    const struct skep_envelope *envelope, struct skep_seal *ret_seal,
                    struct skep_hash *ret_link);

/* What a merge measures of an update of this donor in the worlds: honest ones agree a little, each a bit otherwise. */
int64_t sim_agreement(const struct sim_world *world, const struct skep_hash *update,
                      const struct skep_peer_id *donor);

/* sim-audits.c */
/* An update was stored: it will be repeated, some time later. */
void sim_audit_ask(struct sim_world *world, const struct sim_keeper *keeper, size_t index);
void sim_audit_done(struct sim_world *world, struct sim_keeper *keeper, size_t index);
/* A keeper starts: what its seals say, and its machine is told the rest of what it found. */
void sim_audits_load(struct sim_world *world, struct sim_keeper *keeper);
/* By one of the keeper's seals: its updates are not let in. */
bool sim_is_banned(const struct sim_keeper *keeper, const struct skep_peer_id *donor);
/* The first seal of a version: what it says was found must be so, for the first time, and no banned donor is in its list. */
void sim_audits_check(struct sim_world *world, const struct skep_seal *seal);
/* All keepers know the same of the donors. */
void sim_audits_check_end(struct sim_world *world);

/* sim-keeper.c */
uint64_t sim_local_ms(const struct sim_world *world, const struct sim_keeper *keeper);
void sim_keeper_start(struct sim_world *world, struct sim_keeper *keeper);
void sim_keeper_crash(struct sim_world *world, struct sim_keeper *keeper);
void sim_keeper_done(struct sim_keeper *keeper);
/* Lets the event happen to its keeper, then carries out what the machine asks for. */
void sim_keeper_handle(struct sim_world *world, struct sim_keeper *keeper, struct sim_event *event);

#endif
