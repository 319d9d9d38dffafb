/*
 * The keeper's auditor: repeats jobs of donors from their tickets with the program that donors run, and says whether the same came of it.
 *
 *   update --took()--> audit-queue.h --worker--> audit-verdict.h --> row in the database --> into the agreement, if it was held back
 *
 * In probation (swarm/reputation.h) an update is held back from the agreement until it was found valid. Trusted donors' updates are merged
 * at once; what the job began with is held until the seal that merged it draws it (skep_audit_drawn()) or not. For a draw or in probation the
 * donor is asked for its histories: the answer to its update, or to a later one, says "evidence": "wanted", and GET .../evidence lists them.
 *
 * One lot for a job, with its chance (swarm/reputation.h), from the trunk's seal that has its update in its list: nobody knew that when any
 * of its updates was published, and all keepers draw the same. On what that seal shows to be strange it always falls. So that no update
 * goes without a lot: a trusted donor's experts' updates wait for the trunk's of their job, which says what it takes to repeat it, and are
 * left out when it can come no more; those that come when the lot has fallen have another, from the first seal of an expert that lists one
 * of them, and who does not answer that one has not answered for the job; and where no trunk's seal lists the trunk's in time, the one that
 * makes it stale draws.
 *
 * A job whose updates are not what its trunk's list says, or whose history is one of another shard, is invalid and need not be repeated.
 *
 * "Unanswered" is only who was asked and did not show, whose list names a version that is kept no more and nothing else names, or whose job
 * came to numbers that are none each time it was repeated; what went wrong here, what this keeper had no room or no data for, or has begun to
 * ask for after a restart, is "not drawn". (An expert's update that is left out is "unanswered" by itself: trust.h counts the trunk's.) An
 * update under agreement comes without the question for room; where there is none it is left undrawn, too.
 *
 * One worker at a time, niced, on one thread. What waits is in the database and in DIR/audit, so a crash loses no update; a
 * lot that had fallen on a trusted donor and was not answered yet is lost with it.
 */
#ifndef SKEP_SERVER_AUDIT_H
#define SKEP_SERVER_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/wire/statements.h"

#define SKEP_AUDIT_JOBS 512u    /* held at once, */
#define SKEP_AUDIT_NEW_JOBS 64u /* of which of donors on probation */
/* In a project: one in the list of each version that may still merge it, and as many that are drawn; on probation half of it. */
#define SKEP_AUDIT_DONOR_JOBS 8u
#define SKEP_AUDIT_WAIT_MS 120000u             /* for the donor's histories */
#define SKEP_AUDIT_EVIDENCE_BYTES (8ull << 30) /* half of it for what donors on probation show */

struct skep_audit;
struct skep_host;
struct skep_kept_shard;
struct skep_project;

int skep_audit_open(struct skep_host *host, struct skep_audit **ret_audit, struct skep_error *err);
/* Kills a worker that runs; its job is taken up by the next start. */
void skep_audit_close(struct skep_audit *audit);

/* Takes up what was open when the keeper ended: once the project is loaded. */
void skep_audit_resume(struct skep_project *project);
/* Is there room to repeat the job of this update? If not it is refused (SKEP_REFUSAL_WAITING) before anything is stored, so that nothing which
 * this keeper could not look at is merged by it or told against anybody. */
int skep_audit_check_room(const struct skep_project *project,
                          const struct skep_update_statement *statement, struct skep_error *err);
/* Before the update is stored: what its donor committed to. */
int skep_audit_note(struct skep_project *project, const struct skep_update_statement *statement,
                    const struct skep_hash *update, struct skep_error *err);
/* The update is stored. */
void skep_audit_took(struct skep_project *project, const struct skep_hash *update);
/* Is its donor to show histories, of this job or an earlier one? */
bool skep_audit_asks(struct skep_project *project, const struct skep_hash *update);
/* What the donor of this update has passed of its probation (trust.h); false where nothing is known of that. */
bool skep_audit_tells(struct skep_project *project, const struct skep_hash *update,
                      unsigned *ret_passed);
/* The agreement of the other keepers asks for an update that is held back here (audit-asked.h). Once it has asked for SKEP_AUDIT_YIELD_MS
 * it may have it: a majority may have voted for it already, and no version would be sealed any more. If the update was found invalid here
 * or its donor is banned it has to ask for SKEP_AUDIT_LAST_YIELD_MS: until then the others can find the same, or agree on a list without it
 * (swarm/round.h); but where one of them has voted for it and the rest are gone nothing else is ever sealed, and a shard that halts costs
 * more than one false update, clipped as all are. */
bool skep_audit_yields(struct skep_project *project, const struct skep_hash *update);
/* A version was sealed: lots fall. */
void skep_audit_sealed(struct skep_kept_shard *shard, const struct skep_seal *seal,
                       const struct skep_hash *payload_hash);

/* Histories that a donor is asked for; until `each` says false. */
void skep_audit_wanted(struct skep_project *project, const struct skep_peer_id *donor,
                       bool (*each)(void *user, const struct skep_hash *history,
                                    const struct skep_kept_shard *shard),
                       void *user);
/* A history that was asked for. SKEP_ERR_NOT_FOUND if nobody did, else as skep_evidence_put(). */
int skep_audit_evidence(struct skep_audit *audit, const struct skep_hash *history, const void *data,
                        size_t size, struct skep_error *err);

/* For status: jobs that wait (for evidence or their turn), histories held. */
size_t skep_audit_waiting(const struct skep_audit *audit);
uint64_t skep_audit_evidence_bytes(const struct skep_audit *audit);

#endif
