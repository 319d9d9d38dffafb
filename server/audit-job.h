/*
 * One job that a keeper may repeat: what it needs in a folder of its own, like a donor's.
 *
 *   DIR/audit/<id>/  <update>.update             the updates of the job that came here
 *                    <shard>-<version>.state     what it began with
 *                    manifest, job.json, <shard>.moments-before, <shard>.residual-before       once it runs, and what the worker leaves
 *
 * Updates and states are second names of blobs: they cost nothing while the keeper has the blobs too, and stay when it removes them (it
 * keeps the states of three versions).
 */
#ifndef SKEP_SERVER_AUDIT_JOB_H
#define SKEP_SERVER_AUDIT_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/id.h"
#include "common/store/keeper-audits.h"
#include "common/wire/statements.h"
#include "server/audit-verdict.h"
#include "server/evidence.h"

struct skep_kept_shard;
struct skep_project;

struct skep_audit_update {
    struct skep_hash hash;
    struct skep_kept_shard *shard;
    uint64_t base_version;
    struct skep_hash before;
    struct skep_hash after;
};

/* Fields are to be read. */
struct skep_audit_load {
    struct skep_project *project;
    struct skep_peer_id donor;
    struct skep_hash ticket;
    char *folder;
    size_t update_count;
    struct skep_audit_update *updates;
    bool has_trunk; /* the trunk's update is here, and with it: */
    uint64_t trunk_version;
    struct skep_hash trunk_before;
    size_t part_count;
    struct skep_update_part *parts;
    uint64_t trunk_ms;     /* since then */
    uint64_t came_version; /* the trunk's newest when the first came */
    bool pinned;           /* all states are in the folder */
    bool late;             /* the lot for the trunk's update fell before the others came */
    bool resumed;          /* open when the keeper ended: nobody was here when it was asked for */
    bool crowded;          /* a history that it needs was shown, and there was no room; */
    bool prolonged;        /* it waits for the second time because of that */
};

struct skep_hash skep_audit_id(const struct skep_project_id *project,
                               const struct skep_peer_id *donor, const struct skep_hash *ticket);
struct skep_audit_load *skep_audit_load_new(struct skep_project *project,
                                            const struct skep_peer_id *donor,
                                            const struct skep_hash *ticket);
/* Does the folder of the row's job have its update? */
bool skep_audit_load_holds(struct skep_project *project, const struct skep_audit_row *row);
void skep_audit_load_free(struct skep_audit_load *load);
/* And its folder. */
void skep_audit_load_remove(struct skep_audit_load *load);

/* Takes an update whose file is among the blobs or in the folder. */
int skep_audit_load_add(struct skep_audit_load *load, const struct skep_audit_row *row,
                        uint64_t now_ms, struct skep_error *err);
/* Holds the states that are still to be held; sets `pinned` once all are. One that is gone here never will be. */
void skep_audit_load_pin(struct skep_audit_load *load);
/* Each history that is needed; until `each` says false. */
void skep_audit_load_histories(const struct skep_audit_load *load,
                               bool (*each)(void *user, const struct skep_hash *history,
                                            const struct skep_kept_shard *shard),
                               void *user);
/* Is everything there that repeating it takes? */
bool skep_audit_load_complete(const struct skep_audit_load *load,
                              const struct skep_evidence *evidence, uint64_t now_ms);
/* Have states that repeating it takes been here and are gone? Of a job that is taken up again, late. */
bool skep_audit_load_is_too_late(const struct skep_audit_load *load);
/* Has its donor kept us waiting? Not if all that is lacking is ours: the data, room, the time that this keeper was away, versions that it has not
 * got yet, or what updates began with that it took. Of states then only those count that nothing but the trunk's list names and that are kept no more;
 * and a list that never came. */
bool skep_audit_load_is_silent(const struct skep_audit_load *load,
                               const struct skep_evidence *evidence);
/* Makes the folder one that skep-worker takes; *ret_path is the job file, which the caller frees. SKEP_ERR_HASH if our disk has changed a state or the
 * data: no job that says anything of the donor. */
int skep_audit_load_write(const struct skep_audit_load *load, struct skep_evidence *evidence,
                          char **ret_path, struct skep_error *err);
/* Has its donor signed what cannot be: an update that the trunk's list of the job's shards does not name or says another beginning of, or a
 * history that was shown and is of no such shard? Then no job gives that, and none need be repeated; `err` says what. Of a job that is complete. */
bool skep_audit_load_is_false(const struct skep_audit_load *load, struct skep_evidence *evidence,
                              struct skep_error *err);
/* Compares update i with what the worker left, of a job that is not false: what fails then is ours. */
int skep_audit_load_look(const struct skep_audit_load *load, size_t i,
                         struct skep_evidence *evidence, struct skep_audit_look *ret_look,
                         struct skep_error *err);

#endif
