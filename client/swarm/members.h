/*
 * The processes of a local swarm: where each lives, how it is started, and what it last said. Internal to client/swarm.
 */
#ifndef SKEP_CLIENT_SWARM_MEMBERS_H
#define SKEP_CLIENT_SWARM_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/swarm/figures.h"
#include "client/swarm/options.h"
#include "common/base/error.h"
#include "common/sys/http-client.h"
#include "common/sys/loop.h"
#include "common/sys/process.h"

#define SKEP_SWARM_PORT 7420
#define SKEP_SWARM_RESTART_MS 5000

struct skep_swarm_members;

/* One keeper or donor. */
struct skep_swarm_member {
    struct skep_swarm_members *members;
    bool is_keeper;
    unsigned number; /* from 1 */
    char host[16];   /* its own 127.a.b.c */
    char *dir;
    struct skep_process *process; /* NULL: not running */
    bool ready;                   /* keeper: it said that it listens */
    bool wanted;                  /* start it again if it dies */
    bool asked;                   /* a status request is on its way */
    uint64_t died_ms;
};

/* Told about what happens to members, as sentences. */
typedef void (*skep_swarm_event)(void *user, const char *sentence);

/* `figures` (borrowed) is kept up to date with what members say. */
struct skep_swarm_members *skep_swarm_members_new(struct skep_loop *loop,
                                                  const struct skep_swarm_options *options,
                                                  struct skep_swarm_figures *figures,
                                                  skep_swarm_event event, void *user);
/* Kills what still runs. */
void skep_swarm_members_free(struct skep_swarm_members *members);

int skep_swarm_start_keepers(struct skep_swarm_members *members, struct skep_error *err);
int skep_swarm_start_donors(struct skep_swarm_members *members, const char *project,
                            struct skep_error *err);
/* Asks donors (or keepers) to stop, and no longer starts them anew. */
void skep_swarm_stop_donors(struct skep_swarm_members *members);
void skep_swarm_stop_keepers(struct skep_swarm_members *members);
bool skep_swarm_keepers_ready(const struct skep_swarm_members *members);
size_t skep_swarm_running(const struct skep_swarm_members *members, bool keepers);
/* Address of keeper `i` (from 0) as host:port; in a static-lifetime ring of 8. */
const char *skep_swarm_keeper_address(const struct skep_swarm_members *members, size_t i);

/* Once a second: asks everyone for figures and starts anew who died a while ago. */
void skep_swarm_members_tick(struct skep_swarm_members *members);

#endif
