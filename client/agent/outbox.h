/*
 * Updates on their way to keepers. Each is a file in OUTBOX/<hash>.update, with the moments and residual that belong to it beside it,
 * and stays there until every keeper of its replica set has it, refuses it, or it is too old to be merged; so a restart or a long
 * absence of the keepers loses nothing. An update is *accepted* once a majority has acknowledged it: then its moments and residual
 * move into place (OWN/<shard>.moments, .residual). Keepers that do not answer are tried again, 1 s, 2 s, 4 s ... 30 s later.
 * The trunk's update waits until the experts' are settled, but no longer than SKEP_OUTBOX_TRUNK_HELD_MS.
 */
#ifndef SKEP_CLIENT_AGENT_OUTBOX_H
#define SKEP_CLIENT_AGENT_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/network/session.h"
#include "common/base/error.h"
#include "common/wire/statements.h"

#define SKEP_OUTBOX_TRUNK_HELD_MS 2000u

struct skep_outbox;
struct skep_showing;

/* Told when an update is accepted (or given up) by its replica set. */
typedef void (*skep_outbox_settled)(void *user, const struct skep_update_statement *statement,
                                    bool accepted);

/* Opens the folders below the session's own and takes up what lies there. Needs the manifest. Free before the session is closed
 * is not needed: close the session first, then free. */
int skep_outbox_new(struct skep_session *session, skep_outbox_settled settled, void *user,
                    struct skep_outbox **ret_outbox, struct skep_error *err);
void skep_outbox_free(struct skep_outbox *outbox);

/* Takes the update file and moves the two files of the job (which may be missing) beside it; starts to send. */
int skep_outbox_add(struct skep_outbox *outbox, const struct skep_buffer *file,
                    const char *moments_path, const char *residual_path, struct skep_error *err);
/* Where histories are kept for keepers that ask (showing.h). */
struct skep_showing *skep_outbox_showing(const struct skep_outbox *outbox);
/* What is due at `now_ms` (sys/clock.h, monotonic). A timer of the outbox's own does this four times a second while the loop runs; tests
 * bring their own time. */
void skep_outbox_step(struct skep_outbox *outbox, uint64_t now_ms);
/* Has a majority an update of ours for this shard's version? Another one would be refused. */
bool skep_outbox_has_accepted(const struct skep_outbox *outbox, size_t shard,
                              uint64_t base_version);
/* Audits that this donor has passed, as the last keeper said that took an update of ours; -1: none has said it. */
int skep_outbox_audits_passed(const struct skep_outbox *outbox);
/* Updates neither accepted nor given up. */
size_t skep_outbox_unsettled(const struct skep_outbox *outbox);
/* Path of a shard's moments or residual ("moments", "residual") in place; the caller frees. */
char *skep_outbox_own_path(const struct skep_outbox *outbox, const struct skep_shard *shard,
                           const char *what);

#endif
