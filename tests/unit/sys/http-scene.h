/* What the tests of the HTTP server and client share: a server and a client on one loop, a handler that tells what it saw, and
 * raw bytes sent from a helper thread. */
#ifndef SKEP_TESTS_UNIT_SYS_HTTP_SCENE_H
#define SKEP_TESTS_UNIT_SYS_HTTP_SCENE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/sys/http-client.h"
#include "common/sys/http-server.h"

#define SCENE_BODY_LIMIT 100000u

struct http_scene {
    struct skep_loop *loop;
    struct skep_http_server *server;
    struct skep_http_client *client;
    char *cert;
    char *key;
    struct skep_hash pin;
    struct skep_http_request request; /* to the server, to be changed before asking */
    /* what the handler saw last */
    int handled;
    char seen[256];
    /* an exchange that is answered after later_ms, or when the scene closes */
    struct skep_http_held *held;
    const uint8_t *held_body;
    size_t held_size;
    struct skep_timer *later;
    uint64_t later_ms;
    /* what came back last */
    int result;
    int status;
    struct skep_buffer body;
    struct skep_error err;
    bool done;
    /* for raw exchanges */
    const char *raw;
    size_t raw_size;
    struct skep_buffer raw_answer;
};

/* Setup and teardown for cmocka: plain or TLS. */
int http_scene_plain(void **state);
int http_scene_tls(void **state);
int http_scene_close(void **state);

/* Sends scene->request and waits; result, status, body and err are then set. */
void http_ask(struct http_scene *scene);
/* The callback that fills them in. */
void http_answered(void *user, int result, const struct skep_http_answer *answer,
                   const struct skep_error *err);
/* Sends the bytes to the server over TCP and collects all that comes until it hangs up, as a string. */
const char *http_raw(struct http_scene *scene, const void *bytes, size_t size);
/* A blocking connection to the server, for tests that hold several. */
int http_connect(const struct http_scene *scene);

#endif
