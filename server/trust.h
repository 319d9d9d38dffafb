/*
 * What this keeper thinks of a project's donors: the reputations that follow from the trunk's seals (swarm/reputation.h) and from its own
 * verdicts on the updates in them, made anew at each start. Only where the manifest asks for audits.
 *
 * A keeper audits where it keeps all shards of a project: then it has what every job begins with. Others hold back nothing and rely on those
 * of the replica set that do.
 */
#ifndef SKEP_SERVER_TRUST_H
#define SKEP_SERVER_TRUST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/wire/statements.h"

struct skep_kept_shard;
struct skep_project;

/* Does this keeper repeat jobs of the project? */
bool skep_trust_audits(const struct skep_project *project);
/* Brings the reputations up to the trunk's newest version here. */
void skep_trust_follow(struct skep_project *project);
/* An update of the trunk that was merged before it was found valid: counts from the next version on. */
void skep_trust_found(struct skep_project *project, const struct skep_hash *update,
                      const struct skep_peer_id *donor, uint64_t base_version);
/* May its updates be merged before anybody has repeated the job? */
bool skep_trust_is_trusted(const struct skep_project *project, const struct skep_peer_id *donor);
/* By a seal, or caught by this keeper. */
bool skep_trust_is_banned(const struct skep_project *project, const struct skep_peer_id *donor);
/* May the agreement have this update, which is stored here? */
bool skep_trust_admits(const struct skep_kept_shard *shard, const struct skep_hash *update,
                       const struct skep_peer_id *donor);
/* Banned donors are refused, and updates that break the chain of histories where this keeper knows the one before: what an update, or the
 * part of a job, begins with has to be what the donor ended with before, or nothing. */
int skep_trust_check(const struct skep_project *project,
                     const struct skep_update_statement *statement,
                     const struct skep_update_part *parts, struct skep_error *err);

#endif
