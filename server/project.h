/*
 * A project on this keeper: its manifest, the shards that the manifest's replica sets place here, and which of its data chunks
 * lie on this disk.
 *
 * A project is taken in three steps: the state files of version 0, which follow from the manifest, then the manifest in the database,
 * then the rest. A disk that is full in the first step leaves nothing but unnamed files; a crash after the second is repaired by the
 * next start, since loading a project makes what is missing.
 */
#ifndef SKEP_SERVER_PROJECT_H
#define SKEP_SERVER_PROJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/discovery/directory.h"
#include "common/store/keeper-audits.h"
#include "common/wire/manifest.h"

struct skep_beacons;
struct skep_host;
struct skep_kept_shard;
struct skep_pace;
struct skep_reputations;

/* One directory key and the shards below it: all of the project, one shard, or one row of experts. */
struct skep_project_key {
    struct skep_directory_key key;
    bool whole_project;
    size_t first_shard; /* places in the manifest's order */
    size_t shard_count;
    bool ours; /* this keeper holds one of them */
};

/* A data chunk that the manifest names. */
struct skep_data_chunk {
    struct skep_hash hash;
    bool held;
    bool asked;    /* a request for it is under way */
    uint32_t asks; /* so many were answered in vain: ask the next keeper */
};

/* What the newest seal of any shard said, for status; shard text empty if there was none since the start. */
struct skep_last_seal {
    char shard[SKEP_SHARD_TEXT_SIZE];
    uint64_t version;
    size_t updates;
    size_t donors;
};

struct skep_project {
    struct skep_host *host; /* borrowed */
    struct skep_manifest manifest;
    struct skep_hash manifest_hash; /* of its payload: the beacon of version 0 */
    char *envelope;                 /* the manifest as it came */
    size_t shard_count;
    struct skep_kept_shard *
        *shards; /* by place in the manifest's order; NULL where another keeper has it */
    size_t kept_count;
    size_t key_count;
    struct skep_project_key *keys;
    size_t chunk_count;
    struct skep_data_chunk *chunks; /* training and held-out, each hash once */
    size_t chunks_held;
    size_t chunk_failures; /* requests in vain since the last look (sync.h) */
    struct skep_last_seal last_seal;
    size_t most_donors_in_seal; /* of the trunk */
    struct skep_beacons *beacons;
    struct skep_pace *pace;
    uint64_t accepted;                     /* updates since the start, */
    uint64_t audited[SKEP_AUDIT_VERDICTS]; /* since the start, by what was found */
    uint64_t refused[SKEP_REFUSALS];       /* and those that were not, by reason */
    struct skep_reputations *reputations;  /* with audits: of the donors (trust.h) */
    bool reputations_stored;               /* the database has the same rows */
};

/* Takes a project that came as a manifest envelope: checks, stores and loads it. *ret_new is false if it is here already.
 * SKEP_ERR_DUPLICATE for another manifest of the same project, SKEP_ERR_REFUSED if this keeper is not named or does not take it. */
int skep_project_take(struct skep_host *host, const void *envelope, size_t size,
                      struct skep_project **ret_project, bool *ret_new, struct skep_error *err);
/* Loads all projects of the database: at the start. */
int skep_project_load_all(struct skep_host *host, struct skep_error *err);
void skep_project_free(struct skep_project *project);

/* The shard if this keeper holds it, else NULL with a sentence. */
struct skep_kept_shard *skep_project_shard(struct skep_project *project,
                                           const struct skep_shard *shard, struct skep_error *err);
/* Does the manifest name this keeper? */
bool skep_project_names(const struct skep_project *project, const struct skep_peer_id *keeper);
/* The data chunk with this hash, or NULL. */
struct skep_data_chunk *skep_project_chunk(struct skep_project *project,
                                           const struct skep_hash *hash);
/* A chunk has been stored as a blob. */
void skep_project_chunk_stored(struct skep_project *project, struct skep_data_chunk *chunk);
/* SHA-256 over "shard text NUL root" of the newest versions: equal on two keepers that hold the same shards exactly when they
 * agree on everything. */
struct skep_hash skep_project_state_hash(const struct skep_project *project);

#endif
