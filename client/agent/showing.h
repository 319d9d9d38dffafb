/*
 * Showing histories to keepers that audit (swarm/history.h). Each update says by hash what its job began and ended with; for the last
 * SKEP_SHOWING_JOBS published jobs the files stay in EVIDENCE/<trunk version>-<ticket>/<hash>.moments and .residual (second names, which cost
 * room only once the donor has gone on), and keepers that ask for them get them.
 *
 * Keepers are asked what they want when one has said that it wants something, and every SKEP_SHOWING_MS while there are jobs to show: lots
 * fall after the merge. A job that none of the SKEP_LIMIT_STALENESS + 1 versions merged which could is drawn by the next one. It is kept until
 * then, and for what a donor that begins a job with every version publishes meanwhile and before a keeper has said what it wants: one job more for
 * each, and one to spare. And it is to be shown for that many of the project's longest rounds, one to spare, and SKEP_SHOWING_FOR_MS (the
 * keepers' patience and more) after it was published or last wanted; later there is nothing to wake up for, nor ever in projects without
 * audits. One request at a time; a keeper that does not answer is asked the next time.
 */
#ifndef SKEP_CLIENT_AGENT_SHOWING_H
#define SKEP_CLIENT_AGENT_SHOWING_H

#include <stdint.h>

#include "client/network/session.h"
#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/limits.h"

/* The seal that draws what is stale comes so many versions after the one that the job began with. */
#define SKEP_SHOWING_VERSIONS (SKEP_LIMIT_STALENESS + 2)
#define SKEP_SHOWING_JOBS (1 + SKEP_SHOWING_VERSIONS + 1)
#define SKEP_SHOWING_MS 10000u
#define SKEP_SHOWING_FOR_MS 600000u
#define SKEP_SHOWING_SENDS 512u /* most histories that one keeper gets before the next is asked */

struct skep_showing;

/* Needs the manifest. To be freed after the session is closed, as the outbox. */
int skep_showing_new(struct skep_session *session, struct skep_showing **ret_showing,
                     struct skep_error *err);
void skep_showing_free(struct skep_showing *showing);

/* Keeps a history of the job that this ticket is of; files that are not there are passed over. Does nothing in projects without audits. */
void skep_showing_keep(struct skep_showing *showing, uint64_t trunk_version,
                       const struct skep_hash *ticket, const struct skep_hash *history,
                       const char *moments_path, const char *residual_path);
/* Forgets all but the newest jobs. */
void skep_showing_prune(struct skep_showing *showing);
/* Who this donor is; before that nobody is asked. */
void skep_showing_introduce(struct skep_showing *showing, const struct skep_peer_id *donor);
/* Asks soon: a keeper wants something. */
void skep_showing_hurry(struct skep_showing *showing);
/* When there is something to do: keepers are asked. UINT64_MAX: never, unless something happens first. */
uint64_t skep_showing_due(const struct skep_showing *showing);
/* What is due at `now_ms`; a timer that is set to that moment does this while the loop runs, tests bring their own time. */
void skep_showing_step(struct skep_showing *showing, uint64_t now_ms);

#endif
