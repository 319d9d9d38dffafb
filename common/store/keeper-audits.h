/*
 * The keeper's memory of audits (server/audit.h): one row for each update that came to a project with audits, open until it has a verdict.
 * The row also says what the donor committed to (swarm/history.h), so that a break of its chain is seen. Durable when a call returns.
 */
#ifndef SKEP_STORE_KEEPER_AUDITS_H
#define SKEP_STORE_KEEPER_AUDITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/store/keeper-db.h"

#define SKEP_AUDIT_KEPT_VERSIONS 64u
#define SKEP_AUDIT_KEPT_ANSWERS 1024u

enum skep_audit_verdict {
    SKEP_AUDIT_OPEN,
    SKEP_AUDIT_VALID,
    SKEP_AUDIT_INVALID, /* repeated, and something else came of it */
    SKEP_AUDIT_UNANSWERED, /* could not be repeated: the donor showed no history, or its base is gone */
    SKEP_AUDIT_NOT_DRAWN,
    SKEP_AUDIT_UNANSWERED_AGAIN, /* by who owed answers already (server/trust.h) */
    SKEP_AUDIT_VERDICTS,
};

const char *skep_audit_verdict_name(enum skep_audit_verdict verdict);

struct skep_audit_row {
    struct skep_hash update;
    struct skep_shard shard;
    struct skep_peer_id donor;
    struct skep_hash ticket;
    uint64_t base_version;
    struct skep_hash before;
    struct skep_hash after;
    int64_t came_s;
    enum skep_audit_verdict verdict;
    double distance;
    double overlap;
    double seconds;
};

/* A negative result of the callback ends the walk and is returned. */
typedef int (*skep_audit_each)(void *user, const struct skep_audit_row *row);

/* A row that is there already stays as it is. */
int skep_keeper_db_add_audit(struct skep_keeper_db *db, const struct skep_project_id *project,
                             const struct skep_audit_row *row, struct skep_error *err);
/* Verdict and figures of the row with this update, if it is open; "invalid" is the last word on others, too, and "unanswered" (again or not) on
 * "valid" and "not drawn": a part of the job may come late and be drawn when the rest has its verdict. *ret_changed: is it another than before? */
int skep_keeper_db_set_verdict(struct skep_keeper_db *db, const struct skep_project_id *project,
                               const struct skep_audit_row *row, bool *ret_changed,
                               struct skep_error *err);
/* SKEP_ERR_NOT_FOUND if there is none. */
int skep_keeper_db_get_audit(struct skep_keeper_db *db, const struct skep_project_id *project,
                             const struct skep_hash *update, struct skep_audit_row *ret_row,
                             struct skep_error *err);
/* Open ones, in the order in which they came. */
int skep_keeper_db_open_audits(struct skep_keeper_db *db, const struct skep_project_id *project,
                               skep_audit_each each, void *user, struct skep_error *err);
/* Those with a verdict, newest first, at most `most`. */
int skep_keeper_db_list_audits(struct skep_keeper_db *db, const struct skep_project_id *project,
                               size_t most, skep_audit_each each, void *user,
                               struct skep_error *err);
/* The updates of one donor for one shard, newest base first, at most `most`. */
int skep_keeper_db_donor_audits(struct skep_keeper_db *db, const struct skep_project_id *project,
                                const struct skep_peer_id *donor, const struct skep_shard *shard,
                                size_t most, skep_audit_each each, void *user,
                                struct skep_error *err);
/* Rows by verdict. */
int skep_keeper_db_count_audits(struct skep_keeper_db *db, const struct skep_project_id *project,
                                uint64_t ret_counts[SKEP_AUDIT_VERDICTS], struct skep_error *err);
/* Grows with every call that may have changed a row: as long as it is the same, what was worked out from them holds. */
uint64_t skep_keeper_db_audit_changes(const struct skep_keeper_db *db);
/* Was an update of this donor found invalid? False too when the database does not answer. */
bool skep_keeper_db_caught(struct skep_keeper_db *db, const struct skep_project_id *project,
                           const struct skep_peer_id *donor);
/* Forgets one update, as if it had never come. */
int skep_keeper_db_remove_audit(struct skep_keeper_db *db, const struct skep_project_id *project,
                                const struct skep_hash *update, struct skep_error *err);
/* Forgets rows of this shard with a verdict that nothing needs any more when its version is `head`: neither seals (a valid one is sealed within
 * SKEP_ROUND_VERDICT_VERSIONS) nor reputations (which follow from seals alone), the chain of histories or what a donor owes (server/trust.h). So those
 * SKEP_AUDIT_KEPT_VERSIONS below it; of the trunk, those that say how a donor answered, SKEP_AUDIT_KEPT_ANSWERS below it, when n has faded below
 * probation for whoever was away; invalid ones too once a seal bans the donor, and until then never. */
int skep_keeper_db_drop_audits(struct skep_keeper_db *db, const struct skep_project_id *project,
                               const struct skep_shard *shard, uint64_t head,
                               struct skep_error *err);

#endif
