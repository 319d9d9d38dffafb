/*
 * Who may leave gradients with this keeper, and what each has left: sessions of callers, and in them one account for each expert.
 *
 *   opened ---- find() ----> used ... -----> ended: idle for SKEP_REMOTE_IDLE_MS, or pushed out by newer ones (those without accounts
 *                                            first)
 *
 * A session is known by its token, of which only the SHA-256 is kept. An account holds what hivemind keeps beside an expert, but for
 * each caller: the sum of his gradients since his last update, his AdamW moments and the residual of his error feedback. Accounts of
 * all sessions together take no more memory than was allowed; the one that was not used for longest goes first, with what is in it,
 * and its caller finds it empty. What is in use by a task (`users`) stays.
 *
 * Pure but for memory: tokens, hashes and the time come with the calls. Only the numbers inside an account are touched by other threads,
 * under its lock (experts-pass.h).
 */
#ifndef SKEP_SERVER_EXPERTS_SESSIONS_H
#define SKEP_SERVER_EXPERTS_SESSIONS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"

#define SKEP_REMOTE_SESSIONS 1024u
#define SKEP_REMOTE_IDLE_MS 600000u

struct skep_project;
struct skep_remote_session;
struct skep_remote_sessions;

struct skep_remote_account {
    struct skep_remote_account *next; /* in its session */
    struct skep_remote_session *session;
    struct skep_shard shard;
    size_t parameters;
    size_t users; /* tasks that are waiting or running */
    uint64_t used_ms;

    pthread_mutex_t lock; /* of all below */
    float *gradient; /* four arrays of `parameters` in one block, which begins here: the sum, */
    float *first;    /* the moments, */
    float *second;   /* */
    float *residual; /* and what was not sent yet */
    uint64_t step;   /* of AdamW */
    uint64_t calls;  /* backward passes in the sum, */
    uint64_t rows;   /* and their rows */
    bool has_base;   /* an update was made */
    uint64_t base_version; /* from this version */
};

/* Fields are to be read. */
struct skep_remote_session {
    struct skep_remote_session *next;
    const struct skep_project *project; /* only compared here */
    struct skep_peer_id caller;
    struct skep_hash token;     /* SHA-256 of it */
    struct skep_hash statement; /* SHA-256 of what opened it */
    uint64_t used_ms;
    struct skep_remote_account *accounts;
};

struct skep_remote_sessions *skep_remote_sessions_new(size_t memory_bytes);
/* No account may be in use. */
void skep_remote_sessions_free(struct skep_remote_sessions *sessions);

/* SKEP_ERR_DUPLICATE if this statement has opened one before (statements are stale long before sessions end), SKEP_ERR_STATE if there are
 * too many and none can go. */
int skep_remote_sessions_open(struct skep_remote_sessions *sessions,
                              const struct skep_remote_session *session, uint64_t now_ms,
                              struct skep_error *err);
/* The session of a token with this hash, now in use again; NULL if there is none or it has ended. The comparison takes as long for a
 * token that is nearly right. */
struct skep_remote_session *skep_remote_sessions_find(struct skep_remote_sessions *sessions,
                                                      const struct skep_hash *token,
                                                      uint64_t now_ms);
/* The caller's account for this expert, or NULL. */
struct skep_remote_account *skep_remote_account_find(const struct skep_remote_session *session,
                                                     const struct skep_shard *shard);
/* Finds it or makes it. SKEP_ERR_FULL if it takes more memory than all accounts may, SKEP_ERR_STATE if it would fit but for those in
 * use, SKEP_ERR_MEMORY. */
int skep_remote_account_get(struct skep_remote_sessions *sessions,
                            struct skep_remote_session *session, const struct skep_shard *shard,
                            size_t parameters, uint64_t now_ms,
                            struct skep_remote_account **ret_account, struct skep_error *err);
void skep_remote_account_hold(struct skep_remote_account *account);
void skep_remote_account_release(struct skep_remote_account *account, uint64_t now_ms);

/* For status and tests. */
size_t skep_remote_sessions_count(const struct skep_remote_sessions *sessions);
size_t skep_remote_sessions_bytes(const struct skep_remote_sessions *sessions);

#endif
