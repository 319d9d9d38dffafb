/*
 * How requests leave: one function, so that finding and fetching can be tested with peers that live in memory. The real one is
 * the HTTPS client of common/sys. A transport may call back before send() returns.
 */
#ifndef SKEP_CLIENT_NETWORK_TRANSPORT_H
#define SKEP_CLIENT_NETWORK_TRANSPORT_H

#include "common/base/error.h"
#include "common/sys/http-client.h"
#include "common/wire/json.h"

struct skep_transport {
    void (*send)(void *user, const struct skep_http_request *request, skep_http_callback callback,
                 void *callback_user);
    void *user;
};

/* 0 if an answer of status 2xx came. Else the keeper's own error (code and sentence of its JSON body) or what the network said,
 * with `what` ("the manifest") in front. */
int skep_answer_check(int result, const struct skep_http_answer *answer,
                      const struct skep_error *failure, const char *what, struct skep_error *err);
/* The same, and the answer's body as JSON; the caller frees the root. */
int skep_answer_json(int result, const struct skep_http_answer *answer,
                     const struct skep_error *failure, const char *what,
                     struct skep_json **ret_root, struct skep_error *err);

#endif
