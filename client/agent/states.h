/*
 * What the donor is doing: the life of a job as a table of moves. Pure; agent.c does what each state means.
 *
 *   IDLE -attach-> FINDING -> LOOKING -> FETCHING_TRUNK -> FETCHING_DATA -> FETCHING_EXPERTS -> TRAINING -> PUBLISHING -> WAITING
 *                    ^           \--nothing new since our last update--------------------------------------------> |
 *                    |<------------------------- the trunk's next version, or the wait is over ---------------------'
 *                    '--time-- BACKOFF <--failed-- any of them            PAUSED, STOPPING: from anywhere
 *
 * FINDING leads to REFUSING, which only another project, a pause or the end leads out of, when the manifest says that the project's jobs
 * do not fit into the donor's limits.
 *
 * A job that was interrupted while it was trained is kept: RESUME, like the next start of the daemon, begins at FINDING, and one of the
 * states before FETCHING_DATA says KEPT, which leads to TRAINING, once it has learned that the job's base is not too old, or that
 * nobody can be asked.
 */
#ifndef SKEP_CLIENT_AGENT_STATES_H
#define SKEP_CLIENT_AGENT_STATES_H

enum skep_agent_state {
    SKEP_AGENT_STAY, /* no state: the event changes nothing */
    SKEP_AGENT_IDLE,
    SKEP_AGENT_FINDING,
    SKEP_AGENT_LOOKING,
    SKEP_AGENT_FETCHING_TRUNK,
    SKEP_AGENT_FETCHING_DATA,
    SKEP_AGENT_FETCHING_EXPERTS,
    SKEP_AGENT_TRAINING,
    SKEP_AGENT_PUBLISHING,
    SKEP_AGENT_WAITING,
    SKEP_AGENT_BACKOFF,
    SKEP_AGENT_REFUSING, /* the project takes more than the donor gives */
    SKEP_AGENT_PAUSED,
    SKEP_AGENT_STOPPING,
    SKEP_AGENT_STATES,
};

enum skep_agent_event {
    SKEP_AGENT_ATTACHED,
    SKEP_AGENT_DETACHED,
    SKEP_AGENT_DONE,        /* what the state does has succeeded */
    SKEP_AGENT_NOTHING_NEW, /* our update for the newest version is with the keepers already */
    SKEP_AGENT_KEPT,        /* there is a job to go on with */
    SKEP_AGENT_TOO_LARGE,   /* its jobs do not fit into the donor's limits */
    SKEP_AGENT_FAILED,
    SKEP_AGENT_TIME, /* the time the state waits for has come */
    SKEP_AGENT_PAUSE,
    SKEP_AGENT_RESUME,
    SKEP_AGENT_QUIT,
    SKEP_AGENT_EVENTS,
};

/* The state after `event`; the same state if the event means nothing there. */
enum skep_agent_state skep_agent_next(enum skep_agent_state state, enum skep_agent_event event);
/* A word for status, e.g. "training". */
const char *skep_agent_state_name(enum skep_agent_state state);

#endif
