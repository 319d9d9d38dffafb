/*
 * HTTPS requests (libcurl), either one at a time or many at once on the loop. Connections are kept and reused per peer.
 * Certificates are not checked against any authority: if `pin` is given the server's public key must be exactly that one
 * (RFC 7469 pin from the keeper's signed record); without a pin the answer proves nothing and only signed content may be believed.
 * Never through a proxy, never following redirects, TLS 1.2 or newer; a connection must stand within 5 s.
 */
#ifndef SKEP_SYS_HTTP_CLIENT_H
#define SKEP_SYS_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/id.h"
#include "common/sys/loop.h"

struct skep_http_client;

struct skep_http_request {
    const char *method; /* "GET", "POST", "PUT" */
    const char *host;   /* numeric address */
    uint16_t port;
    const char *path;            /* with query, starting with / */
    const struct skep_hash *pin; /* may be NULL */
    const char *content_type;    /* of the body; NULL: application/json */
    const char *authorization;   /* value of that header; NULL for none */
    const void *body;            /* copied; NULL for none */
    size_t body_size;
    bool body_stays; /* the body is not copied: it stays where it is until the callback */
    bool ranged;     /* ask for bytes range_first .. range_last (inclusive) */
    uint64_t range_first;
    uint64_t range_last;
    uint64_t
        timeout_ms; /* whole exchange, from when it starts (not while it waits for its turn); 0: 30 s */
    size_t limit; /* largest answer; 0: SKEP_LIMIT_HTTP_BODY */
    bool plain;   /* HTTP without TLS, for unit tests and loopback only; pin must be NULL */
};

struct skep_http_answer {
    int status; /* e.g. 200 */
    struct skep_buffer body;
};

void skep_http_answer_done(struct skep_http_answer *answer);

/* `result` is 0 when an answer of any status came, else SKEP_ERR_NETWORK (with *err), SKEP_ERR_TOO_LARGE or SKEP_ERR_CANCELLED.
 * The answer is borrowed. Even a cut-off transfer hands over the bytes that came, with result SKEP_ERR_NETWORK. */
typedef void (*skep_http_callback)(void *user, int result, const struct skep_http_answer *answer,
                                   const struct skep_error *err);

/* A client on a loop (NULL loop: only skep_http_call() may be used). At most `parallel` transfers run at once per client. */
struct skep_http_client *skep_http_client_new(struct skep_loop *loop, unsigned parallel);
/* Cancels what runs (callbacks come with SKEP_ERR_CANCELLED) and frees. */
void skep_http_client_free(struct skep_http_client *client);
/* Starts a request; `request` and all it points to are copied (the body unless it stays). The callback comes exactly once and never from inside this call;
 * it may send again (except after SKEP_ERR_CANCELLED), but not free the client. */
void skep_http_send(struct skep_http_client *client, const struct skep_http_request *request,
                    skep_http_callback callback, void *user);
/* One request, waiting for its answer, which the caller frees. The client may be used by one thread at a time. */
int skep_http_call(struct skep_http_client *client, const struct skep_http_request *request,
                   struct skep_http_answer *ret_answer, struct skep_error *err);

#endif
