/*
 * The HTTPS server (GNU libmicrohttpd with GnuTLS) on the loop: one thread, epoll, slow clients time out, bodies are bounded and
 * arrive whole. Handlers run on the loop's thread. They answer at once, or hold the exchange and answer it later, from the loop's
 * thread too; meanwhile the connection waits without costing anything but the body it came with, and is not timed.
 *
 * What a client can make us hold is bounded three ways: a body by `body_limit` (413 beyond), all bodies under way together by
 * SKEP_HTTP_BODIES times that (503 beyond), request line and headers by 32 KiB (431 or 414 beyond). A body that is cut off never
 * reaches the handler. A client that sends or takes nothing for `timeout_s` is hung up on; so is one that is slow without being
 * silent: headers must come within twice that time, bodies and answers may take it and 1 ms per byte.
 */
#ifndef SKEP_SYS_HTTP_SERVER_H
#define SKEP_SYS_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/sys/loop.h"

#define SKEP_HTTP_BODIES 8u

struct skep_http_server;

/* What came. Borrowed for the duration of the handler. */
struct skep_http_exchange {
    const char *method; /* HEAD comes as GET; the server leaves the body out */
    const char *path;   /* decoded, without query */
    const uint8_t *body;
    size_t body_size;
    bool ranged; /* a single satisfiable-looking "bytes=a-b", "bytes=a-" was sent */
    uint64_t range_first;
    uint64_t range_last; /* UINT64_MAX if open */
    const char *peer;    /* numeric address */
    void *query;         /* for skep_http_query() and skep_http_header() */
    void *request;       /* for skep_http_hold() */
};

/* Value of a query parameter or NULL. */
const char *skep_http_query(const struct skep_http_exchange *exchange, const char *key);

/* Value of a header field or NULL. */
const char *skep_http_header(const struct skep_http_exchange *exchange, const char *name);

/* What goes back. Starts as status 500 without a body. The server frees the body and closes the file. */
struct skep_http_reply {
    int status;
    const char *content_type; /* static text; NULL: application/json */
    struct skep_buffer body;
    bool has_range; /* for 206: Content-Range: bytes first-last/total */
    uint64_t range_first;
    uint64_t range_last;
    uint64_t range_total;
    bool has_file; /* instead of a body: file_size bytes of this descriptor from file_first */
    int file;
    uint64_t file_first;
    uint64_t file_size;
    unsigned retry_after_s; /* not 0: the header Retry-After */
};

typedef void (*skep_http_handler)(void *user, const struct skep_http_exchange *exchange,
                                  struct skep_http_reply *reply);

/* An exchange to be answered later. */
struct skep_http_held;

/* Called by a handler: what it leaves in its reply is then not sent. The exchange's body (and nothing else of it) stays until the
 * answer and counts among the bodies under way. */
struct skep_http_held *skep_http_hold(const struct skep_http_exchange *exchange);
/* Answers and takes over what the reply holds (*reply is cleared); nothing happens if the client has gone. Each held exchange is
 * answered once, before skep_http_server_close() and not from inside a handler. */
void skep_http_answer(struct skep_http_held *held, struct skep_http_reply *reply);

/* Sets a reply that carries bytes first..last of `data` as 206, or all of it as 200, or 416 if the range is outside. */
void skep_http_reply_ranged(const struct skep_http_exchange *exchange, const void *data,
                            size_t size, struct skep_http_reply *reply);

/* The same from a file, which is read as the client takes it and so needs no memory. Later changes of the name (replace,
 * delete) do not matter. SKEP_ERR_NOT_FOUND or SKEP_ERR_IO if it cannot be opened; the reply is then untouched. */
int skep_http_reply_file(const struct skep_http_exchange *exchange, const char *path,
                         struct skep_http_reply *reply, struct skep_error *err);

/* Sets {"error":{"code":..,"message":..}}, the form of all errors of the API, with the given status. */
void skep_http_reply_error(struct skep_http_reply *reply, int status, const char *code,
                           const char *message);

struct skep_http_server_options {
    const char *host;     /* numeric address to bind */
    uint16_t port;        /* 0: any free port */
    const char *cert_pem; /* both NULL: plain HTTP (unit tests and later the loopback dashboard) */
    const char *key_pem;
    size_t body_limit;    /* larger bodies are answered with 413 by the server itself */
    unsigned connections; /* limit */
    unsigned timeout_s;   /* for idle or slow connections */
};

/* SKEP_ERR_IN_USE when the port is taken, with a sentence that names address and port and says what to do. */
int skep_http_server_open(struct skep_loop *loop, const struct skep_http_server_options *options,
                          skep_http_handler handler, void *user,
                          struct skep_http_server **ret_server, struct skep_error *err);
uint16_t skep_http_server_port(const struct skep_http_server *server);
void skep_http_server_close(struct skep_http_server *server);

#endif
