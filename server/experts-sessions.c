#include "server/experts-sessions.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"

#define ARRAYS 4u /* of an account */

struct skep_remote_sessions {
    struct skep_remote_session *first;
    size_t count;
    size_t bytes;
    size_t bytes_limit;
};

static size_t bytes_of(size_t parameters)
{
    return ARRAYS * parameters * sizeof(float);
}

struct skep_remote_sessions *skep_remote_sessions_new(size_t memory_bytes)
{
    struct skep_remote_sessions *sessions = skep_alloc(1, sizeof *sessions);
    sessions->bytes_limit = memory_bytes;
    return sessions;
}

/* Takes the account out of its session and frees it. */
static void account_end(struct skep_remote_sessions *sessions, struct skep_remote_account *account)
{
    struct skep_remote_account **link = &account->session->accounts;
    assert(account->users == 0);
    while (*link != account) {
        link = &(*link)->next;
    }
    *link = account->next;
    sessions->bytes -= bytes_of(account->parameters);
    pthread_mutex_destroy(&account->lock);
    free(account->gradient);
    free(account);
}

static void session_end(struct skep_remote_sessions *sessions, struct skep_remote_session *session)
{
    struct skep_remote_session **link = &sessions->first;
    while (session->accounts != NULL) {
        account_end(sessions, session->accounts);
    }
    while (*link != session) {
        link = &(*link)->next;
    }
    *link = session->next;
    sessions->count--;
    free(session);
}

void skep_remote_sessions_free(struct skep_remote_sessions *sessions)
{
    if (sessions == NULL) {
        return;
    }
    while (sessions->first != NULL) {
        session_end(sessions, sessions->first);
    }
    free(sessions);
}

static bool in_use(const struct skep_remote_session *session)
{
    for (const struct skep_remote_account *a = session->accounts; a != NULL; a = a->next) {
        if (a->users > 0) {
            return true;
        }
    }
    return false;
}

static void end_idle(struct skep_remote_sessions *sessions, uint64_t now_ms)
{
    struct skep_remote_session *next = NULL;
    for (struct skep_remote_session *s = sessions->first; s != NULL; s = next) {
        next = s->next;
        if (now_ms - s->used_ms >= SKEP_REMOTE_IDLE_MS && !in_use(s)) {
            session_end(sessions, s);
        }
    }
}

/* Which of two gives way to a new session: rather one in which nothing was left (opening them costs a stranger next to nothing), then
 * the one that was not used for longest. */
static bool gives_way(const struct skep_remote_session *session,
                      const struct skep_remote_session *other)
{
    if ((session->accounts == NULL) != (other->accounts == NULL)) {
        return session->accounts == NULL;
    }
    return session->used_ms < other->used_ms;
}

/* The session that can end and does so first, or NULL. */
static struct skep_remote_session *oldest_session(const struct skep_remote_sessions *sessions)
{
    struct skep_remote_session *oldest = NULL;
    for (struct skep_remote_session *s = sessions->first; s != NULL; s = s->next) {
        if (!in_use(s) && (oldest == NULL || gives_way(s, oldest))) {
            oldest = s;
        }
    }
    return oldest;
}

int skep_remote_sessions_open(struct skep_remote_sessions *sessions,
                              const struct skep_remote_session *session, uint64_t now_ms,
                              struct skep_error *err)
{
    end_idle(sessions, now_ms);
    for (const struct skep_remote_session *s = sessions->first; s != NULL; s = s->next) {
        if (skep_hash_equal(&s->statement, &session->statement)) {
            return skep_error_set(err, SKEP_ERR_DUPLICATE,
                                  "this statement has opened a session already; sign a new one");
        }
    }
    if (sessions->count >= SKEP_REMOTE_SESSIONS) {
        struct skep_remote_session *oldest = oldest_session(sessions);
        if (oldest == NULL) {
            return skep_error_set(err, SKEP_ERR_STATE,
                                  "all %u sessions of this keeper are at work; try again later",
                                  SKEP_REMOTE_SESSIONS);
        }
        session_end(sessions, oldest);
    }
    struct skep_remote_session *added = skep_alloc(1, sizeof *added);
    *added = *session;
    added->used_ms = now_ms;
    added->accounts = NULL;
    added->next = sessions->first;
    sessions->first = added;
    sessions->count++;
    return SKEP_OK;
}

struct skep_remote_session *skep_remote_sessions_find(struct skep_remote_sessions *sessions,
                                                      const struct skep_hash *token,
                                                      uint64_t now_ms)
{
    struct skep_remote_session *found = NULL;
    end_idle(sessions, now_ms);
    for (struct skep_remote_session *s = sessions->first; s != NULL; s = s->next) {
        if (skep_bytes_equal_constant_time(s->token.bytes, token->bytes, SKEP_ID_SIZE)) {
            found = s;
        }
    }
    if (found != NULL) {
        found->used_ms = now_ms;
    }
    return found;
}

struct skep_remote_account *skep_remote_account_find(const struct skep_remote_session *session,
                                                     const struct skep_shard *shard)
{
    for (struct skep_remote_account *a = session->accounts; a != NULL; a = a->next) {
        if (skep_shard_equal(&a->shard, shard)) {
            return a;
        }
    }
    return NULL;
}

/* The account that was not used for longest and can go, or NULL. */
static struct skep_remote_account *oldest_account(const struct skep_remote_sessions *sessions)
{
    struct skep_remote_account *oldest = NULL;
    for (const struct skep_remote_session *s = sessions->first; s != NULL; s = s->next) {
        for (struct skep_remote_account *a = s->accounts; a != NULL; a = a->next) {
            /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): those that ended have left the list */
            if (a->users == 0 && (oldest == NULL || a->used_ms < oldest->used_ms)) {
                oldest = a;
            }
        }
    }
    return oldest;
}

static int make_room(struct skep_remote_sessions *sessions, const struct skep_shard *shard,
                     size_t bytes, struct skep_error *err)
{
    char text[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(shard, text);
    if (bytes > sessions->bytes_limit) {
        return skep_error_set(err, SKEP_ERR_FULL,
                              "the gradients of %s take %zu bytes; this keeper allows %zu to all "
                              "its callers (--remote-memory)",
                              text, bytes, sessions->bytes_limit);
    }
    while (sessions->bytes > sessions->bytes_limit - bytes) {
        struct skep_remote_account *oldest = oldest_account(sessions);
        if (oldest == NULL) {
            return skep_error_set(err, SKEP_ERR_STATE,
                                  "there is no room for the gradients of %s until others are done; "
                                  "try again later",
                                  text);
        }
        account_end(sessions, oldest);
    }
    return SKEP_OK;
}

int skep_remote_account_get(struct skep_remote_sessions *sessions,
                            struct skep_remote_session *session, const struct skep_shard *shard,
                            size_t parameters, uint64_t now_ms,
                            struct skep_remote_account **ret_account, struct skep_error *err)
{
    struct skep_remote_account *account = skep_remote_account_find(session, shard);
    if (account == NULL) {
        int result = make_room(sessions, shard, bytes_of(parameters), err);
        if (result != SKEP_OK) {
            return result;
        }
        float *block = calloc(parameters, ARRAYS * sizeof *block);
        if (block == NULL) {
            return skep_error_set(err, SKEP_ERR_MEMORY, "no memory for %zu parameters", parameters);
        }
        account = skep_alloc(1, sizeof *account);
        *account = (struct skep_remote_account){.session = session,
                                                .next = session->accounts,
                                                .shard = *shard,
                                                .parameters = parameters,
                                                .gradient = block,
                                                .first = block + parameters,
                                                .second = block + 2 * parameters,
                                                .residual = block + 3 * parameters};
        pthread_mutex_init(&account->lock, NULL);
        session->accounts = account;
        sessions->bytes += bytes_of(parameters);
    }
    account->used_ms = now_ms;
    *ret_account = account;
    return SKEP_OK;
}

void skep_remote_account_hold(struct skep_remote_account *account)
{
    account->users++;
}

void skep_remote_account_release(struct skep_remote_account *account, uint64_t now_ms)
{
    assert(account->users > 0);
    account->users--;
    account->used_ms = now_ms;
    account->session->used_ms = now_ms;
}

size_t skep_remote_sessions_count(const struct skep_remote_sessions *sessions)
{
    return sessions->count;
}

size_t skep_remote_sessions_bytes(const struct skep_remote_sessions *sessions)
{
    return sessions->bytes;
}
