/*
 * Keepers that live in memory, and a session that knows them: what the tests of the client's network and outbox stand on. The
 * session has no HTTP client; its transport answers every request before send() returns, with what the keeper's `manner` and the
 * test's `answer` say. Keeper i has port i + 1 and place i in the manifest. Its folder is a fresh one below /tmp.
 */
#ifndef SKEP_TESTS_UNIT_CLIENT_FAKE_KEEPERS_H
#define SKEP_TESTS_UNIT_CLIENT_FAKE_KEEPERS_H

#include "client/network/session.h"
#include "common/crypto/key.h"

#define FAKE_KEEPERS 4u

struct fake_keepers;

/* Fills in status and body of the answer, or returns an error code (and the sentence) as the network would. */
typedef int (*fake_answer)(void *user, size_t keeper, const struct skep_http_request *request,
                           struct skep_http_answer *answer, struct skep_error *err);

struct fake_keepers {
    struct skep_key *keys[FAKE_KEEPERS];
    struct skep_loop *loop; /* never run */
    struct skep_session session;
    char folder[64];
    fake_answer answer;
    void *user;
};

/* A tiny model, one replica set of all keepers for every shard. */
void fake_keepers_init(struct fake_keepers *fakes, fake_answer answer, void *user);
void fake_keepers_done(struct fake_keepers *fakes);

#endif
