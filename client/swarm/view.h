/*
 * How a local swarm looks in the terminal: a full-screen table (ncurses) or, with --plain and where stdout is no terminal, one
 * line per event. The view owns the terminal between open and close and gives it back unharmed.
 */
#ifndef SKEP_CLIENT_SWARM_VIEW_H
#define SKEP_CLIENT_SWARM_VIEW_H

#include <stdbool.h>

#include "client/swarm/figures.h"

struct skep_swarm_view;

/* Falls back to lines if `plain`, or if stdout is no terminal. */
struct skep_swarm_view *skep_swarm_view_open(bool plain);
void skep_swarm_view_close(struct skep_swarm_view *view);
/* Something happened: shown below the table, or as a line. */
void skep_swarm_view_event(struct skep_swarm_view *view, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Redraws the table; as lines, says what is new (a new round, or ten seconds later). */
void skep_swarm_view_show(struct skep_swarm_view *view, const struct skep_swarm_figures *figures);

#endif
