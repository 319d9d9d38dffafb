/*
 * Carries out what the agreement machines (swarm/round.h) ask for, and tells them what happened: merges, fetches of missing
 * updates, promises and votes to disk, messages out and in, commits, timers. Messages to one keeper are held for SKEP_OUTBOX_MS
 * and leave in one POST. One timer serves all machines.
 *
 * When something cannot be written (a full disk), the machine is dropped before anything that depends on it is sent, and made again
 * from the disk at the next look (sync.h): to the other keepers this is a crash and a restart.
 */
#ifndef SKEP_SERVER_AGREEMENT_H
#define SKEP_SERVER_AGREEMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "common/swarm/round.h"
#include "server/shard.h"

#define SKEP_OUTBOX_MS 20

struct skep_host;
struct skep_agreement;

struct skep_agreement *skep_agreement_new(struct skep_host *host);
/* Before the projects are freed and after the HTTP client. */
void skep_agreement_free(struct skep_agreement *agreement);

/* Makes the machine of a shard that has its state (and skep_kept_shard_can_judge(), else it does nothing): from the newest version, promise and vote, waiting updates. Replaces the one
 * there was. */
int skep_agreement_start(struct skep_kept_shard *shard, struct skep_error *err);
/* An update was stored and admitted. */
void skep_agreement_update(struct skep_kept_shard *shard, const struct skep_round_update *update);
/* What came of repeating the job of an update of the trunk. */
void skep_agreement_verdict(struct skep_kept_shard *shard, const struct skep_round_update *update,
                            bool valid);
/* A message whose signature was checked. */
void skep_agreement_receive(struct skep_kept_shard *shard, const struct skep_message *message);
/* A newer version has been adopted from a peer (sync.h). */
void skep_agreement_adopted(struct skep_kept_shard *shard, const struct skep_seal *seal,
                            const struct skep_hash *payload_hash);

#endif
