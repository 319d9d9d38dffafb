/*
 * One project as a client sees it over the network: its keepers, its manifest, the heads, and files fetched from them into a
 * folder:
 *
 *   FOLDER/manifest          the signed manifest as it came
 *   FOLDER/addresses         keepers of the last run
 *   FOLDER/states/<root>     shard states, safetensors, by root hash   (.part while they come)
 *   FOLDER/data/             data chunks by their hash
 *
 * Everything is asynchronous on the loop: each call takes a `done` that comes exactly once, with SKEP_ERR_CANCELLED when the session
 * is closed meanwhile. The daemon and the commands both stand on this.
 */
#ifndef SKEP_CLIENT_NETWORK_SESSION_H
#define SKEP_CLIENT_NETWORK_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/network/fetch.h"
#include "client/network/heads.h"
#include "client/network/peers.h"
#include "client/network/transport.h"
#include "common/base/error.h"
#include "common/base/id.h"
#include "common/store/blobs.h"
#include "common/sys/loop.h"
#include "common/wire/chunks.h"
#include "common/wire/manifest.h"

struct skep_session_options {
    struct skep_project_id project;
    const char *folder;      /* made if missing */
    const char *bootstrap;   /* as in peers.h */
    const char *listen_host; /* as in peers.h */
};

/* A shard's version whose seal was checked (or version 0, which follows from the manifest). */
struct skep_sealed {
    bool known;
    uint64_t version;
    struct skep_hash root;
    struct skep_hash payload; /* the beacon, if the shard is the trunk */
};

/* Fields are for the files of this folder; others use the functions below and read `manifest`, `heads` and `sealed`. */
struct skep_session {
    struct skep_loop *loop;
    struct skep_http_client *http;
    struct skep_transport transport;
    bool closing;
    struct skep_project_id project;
    char *folder;
    struct skep_peers *peers;
    struct skep_blobs *blobs;
    bool has_manifest;
    struct skep_manifest manifest;
    struct skep_hash manifest_hash;
    struct skep_heads heads;
    struct skep_sealed *sealed; /* one per shard */
    unsigned turn;              /* who is asked first moves on with each request */
};

typedef void (*skep_session_done)(void *user, int result, const struct skep_error *err);

int skep_session_open(struct skep_loop *loop, const struct skep_session_options *options,
                      struct skep_session **ret_session, struct skep_error *err);
/* All running calls end with SKEP_ERR_CANCELLED before this returns. Not from inside a callback of the session. */
void skep_session_close(struct skep_session *session);

/* Finds keepers, and fetches and checks the manifest unless it is there. */
void skep_session_find(struct skep_session *session, skep_session_done done, void *user);
/* Asks all known keepers for their heads; done well if at least one answered and the trunk is known. */
void skep_session_ask_heads(struct skep_session *session, skep_session_done done, void *user);
/* Asks one keeper of the trunk (another each time). */
void skep_session_poll_trunk(struct skep_session *session, skep_session_done done, void *user);

/* Fetches the newest sealed states of these shards (places in the manifest's order). ret_have[i] tells which are there at the end
 * (borrowed until done); the result is that of the first failure, so look at both. */
void skep_session_fetch_shards(struct skep_session *session, const size_t *shards, size_t count,
                               bool *ret_have, skep_session_done done, void *user);
/* Path of a shard's fetched state; the caller frees. */
char *skep_session_state_path(const struct skep_session *session, size_t shard);
/* Removes states that are neither a fetched version nor the head of any shard, if they are older than that: commands that run side
 * by side share a folder. */
void skep_session_prune(struct skep_session *session, int64_t older_than_s);

/* Fetches data chunks (`places` in the set) that are not there yet. */
void skep_session_fetch_chunks(struct skep_session *session, const struct skep_data_set *set,
                               const size_t *places, size_t count, skep_session_done done,
                               void *user);

/* For programs that wait: runs the loop until done came. Give `skep_session_woken` and a wait as done and user. */
struct skep_wait {
    bool done;
    int result;
    struct skep_error err;
};
void skep_session_woken(void *user, int result, const struct skep_error *err);
int skep_session_wait(struct skep_session *session, struct skep_wait *wait, uint64_t limit_ms,
                      struct skep_error *err);

/* One shard (shard.c); the above is made of these. */
void skep_shard_fetch(struct skep_session *session, size_t shard, skep_session_done done,
                      void *user);
/* Reads and checks a keeper's answer about version `version` of a shard. Chunks may be missing (count 0) when no longer held. */
int skep_version_read(const struct skep_manifest *manifest, const struct skep_hash *manifest_hash,
                      const struct skep_shard *shard, const struct skep_json *answer,
                      struct skep_sealed *ret_sealed, struct skep_chunks *ret_chunks,
                      struct skep_error *err);

#endif
