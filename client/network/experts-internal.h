/* What the files of the caller of experts (experts.h) share. Private to this folder. */
#ifndef SKEP_CLIENT_NETWORK_EXPERTS_INTERNAL_H
#define SKEP_CLIENT_NETWORK_EXPERTS_INTERNAL_H

#include <pthread.h>

#include "client/network/experts.h"
#include "common/base/limits.h"
#include "common/sys/http-client.h"
#include "common/sys/loop.h"

#define SKEP_CALLER_TOKEN_SIZE 80 /* "Bearer " and 64 digits */

/* A keeper as the caller knows it. The record does not change; the rest is under caller->lock, which may be taken inside `opening`. */
struct skep_caller_keeper {
    struct skep_record record; /* without its projects */
    uint64_t aside_until_ms;
    unsigned silences;                  /* since it answered last */
    uint64_t silent_ms;                 /* when the newest was noticed */
    char token[SKEP_CALLER_TOKEN_SIZE]; /* the header Authorization; empty: no session */
    /* One session with a keeper is opened at a time, so that threads share it: its success and its failure. */
    pthread_mutex_t opening;
    size_t openings;    /* tried so far */
    int opening_result; /* of the last one */
    struct skep_error opening_err;
};

/* The keepers of one expert, the one that is asked first in front; indices into caller->keepers. */
struct skep_caller_route {
    uint8_t count;
    uint8_t keepers[SKEP_LIMIT_KEEPERS];
    bool has_base;         /* an update of ours was made from this version: */
    uint64_t base_version; /* the next is from no older one (caller->lock) */
};

struct skep_caller {
    const struct skep_manifest *manifest;
    const struct skep_key *key;
    struct skep_peer_id id; /* of the key */
    uint64_t stamp;         /* under the lock */
    uint64_t timeout_ms;
    uint64_t grace_ms;
    char project[SKEP_ID_TEXT_SIZE];
    size_t keeper_count;
    struct skep_caller_keeper *keepers;
    size_t route_count; /* shards, in the manifest's order; the trunk's stays empty */
    struct skep_caller_route *routes;
    pthread_mutex_t lock;
};

struct skep_caller_line {
    struct skep_caller *caller;
    struct skep_loop *loop;
    struct skep_http_client *http;
};

/* Which keeper is to be asked for a shard (its place in the manifest's order); SIZE_MAX if none is known. One that was silent is tried by
 * one call when its time aside is over; others ask the next of the replica set until it has answered. */
size_t skep_caller_choose(struct skep_caller *caller, size_t shard);
void skep_caller_set_aside(struct skep_caller *caller, size_t keeper);
bool skep_caller_is_aside(struct skep_caller *caller, size_t keeper);

/* Fills in where a request to a keeper goes: host, port, pin, and the path /v1/projects/<project>/<what>, which the caller frees. */
char *skep_caller_address(const struct skep_caller *caller, size_t keeper, const char *what,
                          struct skep_http_request *request);
/* One request and its answer, which the caller frees; others of this line go on meanwhile. */
int skep_caller_exchange(struct skep_caller_line *line, const struct skep_http_request *request,
                         struct skep_http_answer *ret_answer, struct skep_error *err);

/* The header Authorization for a keeper, from a session that there is or is opened now. `stale` (may be NULL) is one that was refused. */
int skep_caller_session(struct skep_caller_line *line, size_t keeper, const char *stale,
                        char ret_token[SKEP_CALLER_TOKEN_SIZE], struct skep_error *err);

#endif
