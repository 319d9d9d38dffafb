/*
 * What this keeper thinks of a project's donors: the reputations that follow from the trunk's seals and from nothing else
 * (swarm/reputation.h), so that all keepers of the trunk think the same, whether they audit or not; they are written with each version, and
 * made anew from the seals where that was missed. What the keeper found itself comes into the seals by agreement (swarm/round.h); before
 * that it decides what this keeper lets into the agreement. Only where the manifest asks for audits.
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
#include "common/store/keeper-audits.h"
#include "common/store/keeper-db.h"
#include "common/wire/statements.h"

struct skep_kept_shard;
struct skep_project;

/* What the donor that was asked about last owes, kept because one update raises that question several times and the answer is a walk over
 * rows. All 0 at first. */
struct skep_trust_owed {
    struct skep_project_id project;
    struct skep_peer_id donor;
    uint64_t changes; /* of the rows, plus 1 */
    unsigned answers;
};

/* Does this keeper repeat jobs of the project? */
bool skep_trust_audits(const struct skep_project *project);
/* Brings the reputations up to the trunk's newest version here. */
void skep_trust_follow(struct skep_project *project);
/* A seal is about to be stored: if it is the trunk's next one, what it changes in the reputations goes into `row`, for the same transaction.
 * The caller frees row->reputation (cast). If the row cannot be stored, skep_trust_forget(). */
void skep_trust_apply(struct skep_project *project, const struct skep_seal *seal,
                      struct skep_version_row *row);
/* The table in memory; the next skep_trust_follow() reads it again. */
void skep_trust_forget(struct skep_project *project);
/* The trunk has a newer version: whoever is banned leaves the waiting lists of all shards. */
void skep_trust_sealed(struct skep_project *project);
/* Tells a new machine of the trunk what this keeper found and no seal says. */
void skep_trust_tell(struct skep_kept_shard *trunk);
/* May its updates be merged before anybody has repeated the job? Not those of whoever left a drawn job unanswered here, whatever the seals say: silence is no
 * lie, so nobody else is told, but trust is lost with it. SKEP_PROBATION of its jobs have to be found valid here again, as a new key's. */
bool skep_trust_is_trusted(const struct skep_project *project, const struct skep_peer_id *donor);
/* What a drawn job is that this donor leaves unanswered. Silence while answers are owed adds nothing to what is owed: nothing of the donor is
 * believed unseen meanwhile, so it gains nothing, and an honest one that is switched off at night must come to an end. */
enum skep_audit_verdict skep_trust_silence(const struct skep_project *project,
                                           const struct skep_peer_id *donor);
/* How many of the SKEP_PROBATION audits it has passed before it is believed unseen, as far as this keeper knows. */
unsigned skep_trust_passed(const struct skep_project *project, const struct skep_peer_id *donor);
/* By a seal of the trunk, if it is kept here, or caught by this keeper. */
bool skep_trust_is_banned(const struct skep_project *project, const struct skep_peer_id *donor);
/* The trunk's update of this donor's job with this ticket, if it came lately. */
bool skep_trust_trunk_came(const struct skep_project *project, const struct skep_peer_id *donor,
                           const struct skep_hash *ticket, struct skep_audit_row *ret_row);
/* May the agreement have this update, which is stored here? An expert's update of a trusted donor only once its job can be drawn: when the
 * trunk's update has come. */
bool skep_trust_admits(const struct skep_kept_shard *shard, const struct skep_hash *update,
                       const struct skep_peer_id *donor);
/* Banned donors are refused, and updates that break the chain of histories where this keeper knows the one before: what an update, or the
 * part of a job, begins with has to be what the donor ended with before, or nothing. */
int skep_trust_check(const struct skep_project *project,
                     const struct skep_update_statement *statement,
                     const struct skep_update_part *parts, struct skep_error *err);

#endif
