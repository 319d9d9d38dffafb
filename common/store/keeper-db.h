/*
 * What a keeper must not forget, in SQLite (WAL, synchronous FULL): projects, sealed versions, receipts, reputation, waiting updates, promises
 * and votes. Each call that changes something is one transaction and durable when it returns, so kill -9 at any moment loses
 * nothing that was acknowledged. Large bytes (states, update files, data chunks) live beside it as blobs. schemas/sql/keeper.sql
 * is the schema, compiled in.
 *
 * What names a project that was not added is SKEP_ERR_NOT_FOUND. The `each` functions must not ask the same question again from
 * inside their callback (one prepared statement serves it); anything else may be asked and changed there. A negative result of
 * the callback ends the walk and is returned.
 */
#ifndef SKEP_STORE_KEEPER_DB_H
#define SKEP_STORE_KEEPER_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/id.h"
#include "common/swarm/reputation.h"

struct skep_keeper_db;

int skep_keeper_db_open(const char *path, struct skep_keeper_db **ret_db, struct skep_error *err);
void skep_keeper_db_close(struct skep_keeper_db *db);

/* Projects: the manifest's envelope text as it came. Adding one again with the same text is fine; another text is
 * SKEP_ERR_DUPLICATE. */
int skep_keeper_db_add_project(struct skep_keeper_db *db, const struct skep_project_id *project,
                               const char *manifest_envelope, struct skep_error *err);
int skep_keeper_db_each_project(struct skep_keeper_db *db,
                                int (*each)(void *user, const struct skep_project_id *project,
                                            const char *manifest_envelope),
                                void *user, struct skep_error *err);

/* One sealed version. For version 0 the seal is NULL and payload_hash is the manifest payload's. */
struct skep_version_row {
    uint64_t version;
    struct skep_hash payload_hash;
    struct skep_hash root;  /* of the state */
    struct skep_hash state; /* blob: SHA-256 of the state file */
    const char *seal;       /* envelope text, or NULL */
    /* What skep_reputation_apply() of this seal changed, if it is a new version of the trunk, else none: rows to write, and donors to
     * forget before that. Only read by skep_keeper_db_add_version(). */
    size_t reputation_count;
    const struct skep_reputation *reputation;
    size_t forgotten_count;
    const struct skep_peer_id *forgotten;
};

/* A receipt as stored beside its seal. */
struct skep_receipt_row {
    struct skep_hash update;
    struct skep_peer_id donor;
    uint64_t base_version;
    uint64_t credit_micro;
    bool merged;
    bool copy;
    int64_t agreement_permille;
};

/* Stores the version and its receipts, deletes the waiting updates that its list names, their rivals (of the same donor and base
 * version), those with base_version + 2 < version, and promise and vote, all in one transaction. Seals are kept for ever, older states are
 * the caller's to remove. Storing the same version again is fine and replaces its seal unless that is NULL, and the name of its
 * state file unless that is all zeros (a seal may come before its state, and either again if the disk has lost it). */
int skep_keeper_db_add_version(struct skep_keeper_db *db, const struct skep_project_id *project,
                               const struct skep_shard *shard, const struct skep_version_row *row,
                               const struct skep_receipt_row *receipts, size_t receipt_count,
                               struct skep_error *err);
/* The newest (version UINT64_MAX) or a given version; row->seal is freed by the caller (cast). SKEP_ERR_NOT_FOUND. */
int skep_keeper_db_get_version(struct skep_keeper_db *db, const struct skep_project_id *project,
                               const struct skep_shard *shard, uint64_t version,
                               struct skep_version_row *ret_row, struct skep_error *err);
/* Receipts of one version, in order of update hash; *ret_receipts is freed by the caller. */
int skep_keeper_db_get_receipts(struct skep_keeper_db *db, const struct skep_project_id *project,
                                const struct skep_shard *shard, uint64_t version,
                                struct skep_receipt_row **ret_receipts, size_t *ret_count,
                                struct skep_error *err);
/* Seals that hold a receipt of this donor, with rowid above `after`, at most `most`: each(user, rowid, seal text). */
int skep_keeper_db_each_receipt_seal(struct skep_keeper_db *db,
                                     const struct skep_project_id *project,
                                     const struct skep_peer_id *donor, int64_t after, size_t most,
                                     int (*each)(void *user, int64_t rowid, const char *seal),
                                     void *user, struct skep_error *err);
struct skep_donor_total {
    struct skep_peer_id donor;
    uint64_t updates; /* merged */
    uint64_t credit_micro;
};
/* Sums over all receipts of a project, most credit first, at most `most`; freed by the caller. */
int skep_keeper_db_donor_totals(struct skep_keeper_db *db, const struct skep_project_id *project,
                                size_t most, struct skep_donor_total **ret_totals,
                                size_t *ret_count, struct skep_error *err);

/* Reputation (swarm/reputation.h) as of the newest trunk version, in order of donor, for skep_reputation_restore(); freed by the caller. */
int skep_keeper_db_get_reputation(struct skep_keeper_db *db, const struct skep_project_id *project,
                                  struct skep_reputation **ret_rows, size_t *ret_count,
                                  struct skep_error *err);
/* The same from nothing but the stored seals of the trunk, into an empty table; and the rows become what that gives. SKEP_ERR_STATE if a seal is
 * missing. */
int skep_keeper_db_rebuild_reputation(struct skep_keeper_db *db,
                                      const struct skep_project_id *project,
                                      struct skep_reputations *table, struct skep_error *err);

/* Waiting updates: admitted, not merged. The same one again is fine. Two of one donor for the same shard and base version are no error
 * here: other keepers may vote for one while another waits with us, and it must be held before it can be merged. */
int skep_keeper_db_add_update(struct skep_keeper_db *db, const struct skep_project_id *project,
                              const struct skep_shard *shard, const struct skep_hash *update,
                              const struct skep_peer_id *donor, uint64_t base_version,
                              struct skep_error *err);
int skep_keeper_db_each_update(struct skep_keeper_db *db, const struct skep_project_id *project,
                               const struct skep_shard *shard,
                               int (*each)(void *user, const struct skep_hash *update,
                                           const struct skep_peer_id *donor, uint64_t base_version),
                               void *user, struct skep_error *err);

/* Promise and vote for version `version` of a shard (swarm/round.h); replaces what was there. vote_payload may be NULL. */
int skep_keeper_db_put_vote(struct skep_keeper_db *db, const struct skep_project_id *project,
                            const struct skep_shard *shard, uint64_t version, uint32_t promised,
                            bool has_vote, uint32_t vote_attempt, const void *vote_payload,
                            size_t vote_size, struct skep_error *err);
/* SKEP_ERR_NOT_FOUND if none was stored. */
int skep_keeper_db_get_vote(struct skep_keeper_db *db, const struct skep_project_id *project,
                            const struct skep_shard *shard, uint64_t version,
                            uint32_t *ret_promised, bool *ret_has_vote, uint32_t *ret_vote_attempt,
                            struct skep_buffer *ret_payload, struct skep_error *err);

#endif
