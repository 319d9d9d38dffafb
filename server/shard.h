/*
 * One shard on this keeper: its newest versions on disk and its agreement machine.
 *
 * Order of writes, so that a crash at any moment leaves something whole: state file (a blob), then the version's row with its
 * receipts, then old states and update files are removed. A version whose row is there but whose state is not (the disk lied, or
 * a crash during catching up) is made again: from the version below it and the updates of its seal if they are still here, else
 * fetched from peers (sync.h). Until then `has_state` is false, there is no machine, and updates only wait.
 *
 * A merge needs the seals of the last SKEP_STANDINGS_SEALS versions, too (merge/standings.h). They are always here: versions come one by one
 * from the agreement, or by catching up, which stores the seal of every version between ours and the newest before it adopts that;
 * and seals are kept for ever. Where the disk has lost one all the same, it is fetched before the machine starts (catch-up.h).
 */
#ifndef SKEP_SERVER_SHARD_H
#define SKEP_SERVER_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/limits.h"
#include "common/store/keeper-db.h"
#include "common/swarm/admission.h"
#include "common/swarm/replicas.h"
#include "common/swarm/round.h"
#include "common/wire/chunks.h"
#include "server/shape.h"

#define SKEP_KEPT_VERSIONS (SKEP_LIMIT_STALENESS + 1)

struct skep_project;
struct skep_catch_up;

/* One of the newest versions. The chunk list is made when first asked for. */
struct skep_kept_version {
    uint64_t version;
    struct skep_hash payload; /* skep_seal_hash(), or of the manifest's payload for 0 */
    struct skep_hash root;
    struct skep_hash state; /* blob */
    bool has_chunks;
    struct skep_chunks chunks;
    uint64_t
        since_ms; /* when it was sealed or fetched here, on the loop's clock; UINT64_MAX: before the start */
};

/* The last merge, kept for the commit that usually follows. */
struct skep_kept_merge {
    bool valid;
    struct skep_hash key; /* of base version and list */
    struct skep_round_outcome outcome;
    struct skep_buffer file;
};

struct skep_kept_shard {
    struct skep_project *project; /* borrowed */
    struct skep_shard shard;
    char text[SKEP_SHARD_TEXT_SIZE];
    struct skep_shape shape;
    struct skep_replicas replicas;
    size_t version_count;                                  /* at least 1 once open */
    struct skep_kept_version versions[SKEP_KEPT_VERSIONS]; /* newest first */
    bool has_state;
    struct skep_buffer file; /* the newest state */
    struct skep_kept_merge merge;
    size_t recent_count;
    struct skep_round_update *recent; /* in the lists of `versions` */
    struct skep_standings *standings; /* as of the newest version */
    struct skep_round
        *round; /* NULL until has_state, and after the disk refused something (agreement.h) */
    size_t fetching_count; /* updates on their way */
    struct skep_hash fetching[SKEP_LIMIT_UPDATES_PER_ROUND];
    struct skep_catch_up *catch_up; /* running, or NULL (sync.h) */
    bool behind; /* a peer was ahead at the last look, when we had behind_version */
    uint64_t behind_version;
};

/* Loads the shard at place `index` of the manifest's order, or makes its version 0. */
int skep_kept_shard_open(struct skep_project *project, size_t index,
                         struct skep_kept_shard **ret_shard, struct skep_error *err);
void skep_kept_shard_free(struct skep_kept_shard *shard);

/* The newest version (borrowed). */
const struct skep_kept_version *skep_kept_shard_head(const struct skep_kept_shard *shard);
struct skep_shard_head skep_kept_shard_admission_head(const struct skep_kept_shard *shard);
/* A version of those kept, or NULL. */
struct skep_kept_version *skep_kept_shard_version(struct skep_kept_shard *shard, uint64_t version);
/* Its state file: *ret_data is borrowed, from memory for the newest, else in `room`. SKEP_ERR_NOT_FOUND when no longer held. */
int skep_kept_shard_state(struct skep_kept_shard *shard, uint64_t version, struct skep_buffer *room,
                          const struct skep_buffer **ret_data, struct skep_error *err);
/* Its chunk list, borrowed. */
int skep_kept_shard_chunks(struct skep_kept_shard *shard, uint64_t version,
                           const struct skep_chunks **ret_chunks, struct skep_error *err);
/* The update of this donor and base version, or of this hash, in the lists of the newest versions; NULL if there is none. */
const struct skep_round_update *skep_kept_shard_merged(const struct skep_kept_shard *shard,
                                                       const struct skep_hash *update,
                                                       const struct skep_peer_id *donor,
                                                       uint64_t base_version);

/* The stored seal of a version. SKEP_ERR_NOT_FOUND. */
int skep_kept_shard_seal(const struct skep_kept_shard *shard, uint64_t version,
                         struct skep_seal *ret_seal, struct skep_error *err);
/* Standings as of `version`, from the stored seals of its window; not whole if one is missing. The caller frees. */
struct skep_standings *skep_kept_shard_standings(const struct skep_kept_shard *shard,
                                                 uint64_t version);
/* Those of the newest version, read again. */
void skep_kept_shard_load_standings(struct skep_kept_shard *shard);
/* The newest version of the head's window whose seal is not here; 0 if none is missing. */
uint64_t skep_kept_shard_missing_seal(const struct skep_kept_shard *shard);
/* Stores a seal that was missing: the one that the seal above it names as the previous. */
int skep_kept_shard_mend(struct skep_kept_shard *shard, const struct skep_envelope *envelope,
                         const struct skep_seal *seal, const struct skep_hash *payload_hash,
                         struct skep_error *err);
/* Are the seals here that say who is left out of the next merge? Without them there is no machine: what it merged might not be what the
 * others merge. */
bool skep_kept_shard_can_judge(const struct skep_kept_shard *shard);

/* What merging `list` onto the newest version gives. */
int skep_kept_shard_merge(struct skep_kept_shard *shard, const struct skep_round_update *list,
                          size_t count, struct skep_round_outcome *ret_outcome,
                          struct skep_error *err);
/* Stores the next version: the merge of the seal's receipts, which must give the seal's state. */
int skep_kept_shard_commit(struct skep_kept_shard *shard, const struct skep_envelope *envelope,
                           const struct skep_seal *seal, const struct skep_hash *payload_hash,
                           struct skep_error *err);
/* Stores a newer version whose state came from a peer; `take_file` is taken on success. */
int skep_kept_shard_adopt(struct skep_kept_shard *shard, const struct skep_envelope *envelope,
                          const struct skep_seal *seal, const struct skep_hash *payload_hash,
                          struct skep_buffer *take_file, struct skep_error *err);
/* Stores a seal between our version and a newer one that is being fetched: only for its receipts. */
int skep_kept_shard_pass(struct skep_kept_shard *shard, const struct skep_envelope *envelope,
                         const struct skep_seal *seal, const struct skep_hash *payload_hash,
                         struct skep_error *err);
/* Gives the newest version its state again; the file's root must be the version's. */
int skep_kept_shard_restore(struct skep_kept_shard *shard, struct skep_buffer *take_file,
                            struct skep_error *err);

#endif
