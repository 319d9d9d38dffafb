/*
 * What the files of the agent say to each other. A state that finds its work done moves on at once, from within skep_agent_happen(): such
 * moves only go forward in the table of skep_agent_next(), or end in a state that does nothing on entry, so there are at most as many as
 * states.
 */
#ifndef SKEP_CLIENT_AGENT_AGENT_INTERNAL_H
#define SKEP_CLIENT_AGENT_AGENT_INTERNAL_H

#include "client/agent/agent.h"
#include "client/agent/states.h"
#include "common/base/error.h"

/* Moves on, and does what the new state means. */
void skep_agent_happen(struct skep_agent *agent, enum skep_agent_event event);
/* What the state does could not be done: BACKOFF with the reason, or on with the job that is kept. */
void skep_agent_fail(struct skep_agent *agent, const struct skep_error *err);
/* The sentence of status. */
void skep_agent_say(struct skep_agent *agent, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The job's updates into the outbox; SKEP_ERR_STATE while the stamp is searched for. */
int skep_agent_publish(struct skep_agent *agent, struct skep_error *err);

/* training.c: starts the worker, or goes on with the job that is kept. */
void skep_training_enter(struct skep_agent *agent);
/* A result that came when we were about to leave goes into the outbox: the next run sends it. */
void skep_training_save_result(struct skep_agent *agent);

/* project.c: opens the session of a project and what is remembered of it; the bootstrap addresses may be NULL. */
int skep_project_open(struct skep_agent *agent, const char *project, const char *bootstrap,
                      struct skep_error *err);
void skep_project_close(struct skep_agent *agent);
/* Writes attached.json, and the project's figures. */
int skep_project_remember(struct skep_agent *agent, bool paused, struct skep_error *err);
void skep_project_save_figures(struct skep_agent *agent);

#endif
