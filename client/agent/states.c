#include "client/agent/states.h"

#define ANYWHERE(done)                                                                             \
    [SKEP_AGENT_DETACHED] = SKEP_AGENT_IDLE, [SKEP_AGENT_DONE] = (done),                           \
    [SKEP_AGENT_FAILED] = SKEP_AGENT_BACKOFF, [SKEP_AGENT_PAUSE] = SKEP_AGENT_PAUSED,              \
    [SKEP_AGENT_QUIT] = SKEP_AGENT_STOPPING

static const enum skep_agent_state moves[SKEP_AGENT_STATES][SKEP_AGENT_EVENTS] = {
    [SKEP_AGENT_IDLE] = {[SKEP_AGENT_ATTACHED] = SKEP_AGENT_FINDING,
                         [SKEP_AGENT_PAUSE] = SKEP_AGENT_PAUSED,
                         [SKEP_AGENT_QUIT] = SKEP_AGENT_STOPPING},
    [SKEP_AGENT_FINDING] = {ANYWHERE(SKEP_AGENT_LOOKING), [SKEP_AGENT_KEPT] = SKEP_AGENT_TRAINING,
                            [SKEP_AGENT_TOO_LARGE] = SKEP_AGENT_REFUSING},
    [SKEP_AGENT_LOOKING] =
        {ANYWHERE(SKEP_AGENT_FETCHING_TRUNK), [SKEP_AGENT_NOTHING_NEW] = SKEP_AGENT_WAITING,
         [SKEP_AGENT_KEPT] = SKEP_AGENT_TRAINING},
    [SKEP_AGENT_FETCHING_TRUNK] = {ANYWHERE(SKEP_AGENT_FETCHING_DATA), [SKEP_AGENT_KEPT] =
                                                                           SKEP_AGENT_TRAINING},
    [SKEP_AGENT_FETCHING_DATA] = {ANYWHERE(SKEP_AGENT_FETCHING_EXPERTS)},
    [SKEP_AGENT_FETCHING_EXPERTS] = {ANYWHERE(SKEP_AGENT_TRAINING)},
    [SKEP_AGENT_TRAINING] = {ANYWHERE(SKEP_AGENT_PUBLISHING)},
    /* when keepers take their time, the outbox goes on in the background */
    [SKEP_AGENT_PUBLISHING] = {ANYWHERE(SKEP_AGENT_WAITING), [SKEP_AGENT_TIME] =
                                                                 SKEP_AGENT_WAITING},
    [SKEP_AGENT_WAITING] = {ANYWHERE(SKEP_AGENT_FINDING), [SKEP_AGENT_TIME] = SKEP_AGENT_FINDING},
    [SKEP_AGENT_BACKOFF] = {[SKEP_AGENT_DETACHED] = SKEP_AGENT_IDLE,
                            [SKEP_AGENT_PAUSE] = SKEP_AGENT_PAUSED,
                            [SKEP_AGENT_QUIT] = SKEP_AGENT_STOPPING,
                            [SKEP_AGENT_TIME] = SKEP_AGENT_FINDING},
    [SKEP_AGENT_REFUSING] = {[SKEP_AGENT_DETACHED] = SKEP_AGENT_IDLE,
                             [SKEP_AGENT_PAUSE] = SKEP_AGENT_PAUSED,
                             [SKEP_AGENT_QUIT] = SKEP_AGENT_STOPPING},
    [SKEP_AGENT_PAUSED] =
        {[SKEP_AGENT_RESUME] = SKEP_AGENT_FINDING, [SKEP_AGENT_QUIT] = SKEP_AGENT_STOPPING},
    [SKEP_AGENT_STOPPING] = {[SKEP_AGENT_QUIT] = SKEP_AGENT_STAY},
};

enum skep_agent_state skep_agent_next(enum skep_agent_state state, enum skep_agent_event event)
{
    enum skep_agent_state next = moves[state][event];
    return next == SKEP_AGENT_STAY ? state : next;
}

const char *skep_agent_state_name(enum skep_agent_state state)
{
    static const char *const names[SKEP_AGENT_STATES] = {
        [SKEP_AGENT_STAY] = "unknown",
        [SKEP_AGENT_IDLE] = "idle",
        [SKEP_AGENT_FINDING] = "finding",
        [SKEP_AGENT_LOOKING] = "looking",
        [SKEP_AGENT_FETCHING_TRUNK] = "fetching-trunk",
        [SKEP_AGENT_FETCHING_DATA] = "fetching-data",
        [SKEP_AGENT_FETCHING_EXPERTS] = "fetching-experts",
        [SKEP_AGENT_TRAINING] = "training",
        [SKEP_AGENT_PUBLISHING] = "publishing",
        [SKEP_AGENT_WAITING] = "waiting",
        [SKEP_AGENT_BACKOFF] = "backoff",
        [SKEP_AGENT_REFUSING] = "refusing",
        [SKEP_AGENT_PAUSED] = "paused",
        [SKEP_AGENT_STOPPING] = "stopping",
    };
    return names[state < SKEP_AGENT_STATES ? state : SKEP_AGENT_STAY];
}
