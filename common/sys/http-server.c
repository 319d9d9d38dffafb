#include "common/sys/http-server.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/sys/loop-internal.h"
#include "common/sys/visits.h"

/* Request line, headers and the piece of a body being read, per connection. */
#define CONNECTION_MEMORY 32768
/* GnuTLS's own choice of ciphers. */
#define TLS_VERSIONS "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

struct skep_http_server {
    struct MHD_Daemon *daemon;
    uv_poll_t *watch; /* of the daemon's epoll descriptor; freed when libuv has closed it */
    struct skep_timer *timer;
    skep_http_handler handler;
    void *user;
    size_t body_limit;
    size_t bodies_size; /* of all bodies under way */
    size_t held_count;
    struct skep_visits visits;
    uint16_t port;
    char complaint[200]; /* what libmicrohttpd logged last */
};

/* One request from its headers to the end of its answer. To the outside it is struct skep_http_held while it is held. */
struct request {
    struct skep_http_server *server;
    struct MHD_Connection *connection;
    struct skep_buffer body;
    uint64_t seen; /* bytes of the body that came, kept or not */
    int refused;   /* 413 or 503: the rest of the body is not kept */
    bool held;
    bool answered; /* after it was held: `reply` goes out */
    struct skep_http_reply reply;
};

/* ---- answers ---- */

static struct MHD_Response *response_of(struct skep_http_reply *reply)
{
    if (reply->has_file) {
        return MHD_create_response_from_fd_at_offset64(reply->file_size, reply->file,
                                                       reply->file_first);
    }
    return MHD_create_response_from_buffer(reply->body.size, reply->body.data,
                                           MHD_RESPMEM_MUST_FREE);
}

static void add_headers(struct MHD_Response *response, const struct skep_http_reply *reply)
{
    const char *type = reply->content_type != NULL ? reply->content_type : "application/json";
    char range[96];
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (reply->retry_after_s != 0) {
        snprintf(range, sizeof range, "%u", reply->retry_after_s);
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, range);
    }
    if (!reply->has_range) {
        return;
    }
    if (reply->status == MHD_HTTP_RANGE_NOT_SATISFIABLE) {
        snprintf(range, sizeof range, "bytes */%llu", (unsigned long long)reply->range_total);
    } else {
        snprintf(range, sizeof range, "bytes %llu-%llu/%llu",
                 (unsigned long long)reply->range_first, (unsigned long long)reply->range_last,
                 (unsigned long long)reply->range_total);
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_RANGE, range);
}

static uint64_t now_ms(void)
{
    return uv_hrtime() / 1000000;
}

static struct skep_visit *visit_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info->socket_context;
}

/* Sends and takes over what the reply holds. */
static enum MHD_Result queue(struct skep_http_server *server, struct MHD_Connection *connection,
                             struct skep_http_reply *reply)
{
    skep_visit_expect_bytes(&server->visits, visit_of(connection),
                            reply->has_file ? reply->file_size : reply->body.size, now_ms());
    struct MHD_Response *response = response_of(reply);
    if (response == NULL) {
        skep_buffer_done(&reply->body);
        if (reply->has_file) {
            close(reply->file);
        }
        return MHD_NO;
    }
    add_headers(response, reply);
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)reply->status, response);
    reply->body = (struct skep_buffer){0};
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result queue_refusal(struct skep_http_server *server,
                                     struct MHD_Connection *connection, int status)
{
    struct skep_http_reply reply = {0};
    char sentence[160];
    if (status == MHD_HTTP_CONTENT_TOO_LARGE) {
        snprintf(sentence, sizeof sentence, "the body has more than the %zu bytes allowed",
                 server->body_limit);
        skep_http_reply_error(&reply, status, "too-large", sentence);
    } else {
        skep_http_reply_error(&reply, status, "memory",
                              "too many bodies are under way: try again later");
    }
    return queue(server, connection, &reply);
}

/* ---- requests ---- */

/* Decimal digits that fit 64 bits; advances *at. */
static bool take_number(const char **at, uint64_t *ret_number)
{
    uint64_t number = 0;
    const char *from = *at;
    while (**at >= '0' && **at <= '9') {
        unsigned digit = (unsigned)(**at - '0');
        if (number > (UINT64_MAX - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
        ++*at;
    }
    *ret_number = number;
    return *at != from;
}

/* RFC 9110, 14.1.2: what is not a single range of the two forms served here is ignored. */
static void parse_range(const char *text, struct skep_http_exchange *exchange)
{
    uint64_t first;
    uint64_t last = UINT64_MAX;
    if (text == NULL || strncmp(text, "bytes=", 6) != 0) {
        return;
    }
    text += 6;
    if (!take_number(&text, &first) || *text++ != '-') {
        return;
    }
    if (*text != 0 && (!take_number(&text, &last) || *text != 0 || last < first)) {
        return;
    }
    exchange->ranged = true;
    exchange->range_first = first;
    exchange->range_last = last;
}

static void format_peer(struct MHD_Connection *connection, char to[INET6_ADDRSTRLEN])
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info != NULL ? info->client_addr : NULL;
    to[0] = 0;
    if (address != NULL && address->sa_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)address)->sin_addr, to,
                  INET6_ADDRSTRLEN);
    } else if (address != NULL && address->sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, to,
                  INET6_ADDRSTRLEN);
    }
}

const char *skep_http_query(const struct skep_http_exchange *exchange, const char *key)
{
    return MHD_lookup_connection_value(exchange->query, MHD_GET_ARGUMENT_KIND, key);
}

const char *skep_http_header(const struct skep_http_exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->query, MHD_HEADER_KIND, name);
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* Headers are there. A body announced as too large is answered before it is sent if its sender waits for that or if it is so
 * large that taking it in for nothing would be worse than hanging up in the middle. */
static enum MHD_Result begin(struct skep_http_server *server, struct MHD_Connection *connection,
                             void **ret_request)
{
    struct request *request = skep_alloc(1, sizeof *request);
    request->server = server;
    request->connection = connection;
    *ret_request = request;
    const char *length = header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t size = 0;
    bool announced = length != NULL && take_number(&length, &size);
    skep_visit_expect_bytes(&server->visits, visit_of(connection),
                            announced && size < server->body_limit ? size : server->body_limit,
                            now_ms());
    if (!announced || size <= server->body_limit) {
        return MHD_YES;
    }
    request->refused = MHD_HTTP_CONTENT_TOO_LARGE;
    if (header(connection, MHD_HTTP_HEADER_EXPECT) != NULL || size / 2 > server->body_limit) {
        return queue_refusal(server, connection, request->refused);
    }
    return MHD_YES;
}

static void drop_body(struct skep_http_server *server, struct request *request)
{
    server->bodies_size -= request->body.size;
    skep_buffer_done(&request->body);
}

/* A piece of the body. What is refused is read on for a while, because a client that is still sending would not see the
 * answer; after as much again as is allowed it is hung up on. */
static enum MHD_Result take_piece(struct skep_http_server *server, struct request *request,
                                  const char *data, size_t size)
{
    request->seen += size;
    if (request->refused == 0 && request->seen > server->body_limit) {
        request->refused = MHD_HTTP_CONTENT_TOO_LARGE;
    } else if (request->refused == 0 &&
               server->bodies_size + size > SKEP_HTTP_BODIES * server->body_limit) {
        request->refused = MHD_HTTP_SERVICE_UNAVAILABLE;
    }
    if (request->refused != 0) {
        drop_body(server, request);
        return request->seen / 2 > server->body_limit ? MHD_NO : MHD_YES;
    }
    skep_buffer_append(&request->body, data, size);
    server->bodies_size += size;
    return MHD_YES;
}

struct skep_http_held *skep_http_hold(const struct skep_http_exchange *exchange)
{
    struct request *request = exchange->request;
    assert(!request->held);
    request->held = true;
    request->server->held_count++;
    return (struct skep_http_held *)request;
}

/* libmicrohttpd asks for the answer when it runs next, which nothing but the timer makes it do. */
void skep_http_answer(struct skep_http_held *held, struct skep_http_reply *reply)
{
    struct request *request = (struct request *)held;
    assert(request->held && !request->answered);
    request->answered = true;
    request->reply = *reply;
    *reply = (struct skep_http_reply){0};
    request->server->held_count--;
    drop_body(request->server, request);
    MHD_resume_connection(request->connection);
    skep_timer_start(request->server->timer, 0, 0);
}

/* The request is complete. */
static enum MHD_Result answer(struct skep_http_server *server, struct MHD_Connection *connection,
                              struct request *request, const char *method, const char *path)
{
    if (request->refused != 0) {
        return queue_refusal(server, connection, request->refused);
    }
    char peer[INET6_ADDRSTRLEN];
    format_peer(connection, peer);
    struct skep_http_exchange exchange = {
        .method = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0 ? MHD_HTTP_METHOD_GET : method,
        .path = path,
        .body = request->body.data,
        .body_size = request->body.size,
        .peer = peer,
        .query = connection,
        .request = request,
    };
    parse_range(header(connection, MHD_HTTP_HEADER_RANGE), &exchange);
    struct skep_http_reply reply = {.status = MHD_HTTP_INTERNAL_SERVER_ERROR};
    server->handler(server->user, &exchange, &reply);
    if (request->held) {
        skep_buffer_done(&reply.body);
        skep_visit_wait(visit_of(connection));
        MHD_suspend_connection(connection);
        return MHD_YES;
    }
    drop_body(server, request);
    return queue(server, connection, &reply);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **request)
{
    struct skep_http_server *server = cls;
    (void)version;
    if (*request == NULL) {
        return begin(server, connection, request);
    }
    struct request *known = *request;
    if (known->answered) {
        return queue(server, connection, &known->reply);
    }
    if (*size != 0) {
        enum MHD_Result result = take_piece(server, *request, data, *size);
        *size = 0;
        return result;
    }
    return answer(server, connection, *request, method, path);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **at,
                         enum MHD_RequestTerminationCode how)
{
    struct skep_http_server *server = cls;
    (void)how;
    skep_visit_expect_headers(&server->visits, visit_of(connection), now_ms());
    if (*at != NULL) {
        struct request *request = *at;
        drop_body(server, request);
        skep_buffer_done(&request->reply.body); /* if it never came to be sent */
        free(request);
        *at = NULL;
    }
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **visit,
                          enum MHD_ConnectionNotificationCode what)
{
    struct skep_http_server *server = cls;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *visit = skep_visits_add(&server->visits, info->connect_fd, now_ms());
    } else {
        skep_visits_remove(&server->visits, *visit);
        *visit = NULL;
    }
}

/* ---- the loop ---- */

/* Lets libmicrohttpd do what it can and asks when it wants to be called without an event: time limits, and bytes that TLS
 * has already taken from the socket, which no epoll tells of. */
static void drive(void *user)
{
    struct skep_http_server *server = user;
    MHD_UNSIGNED_LONG_LONG wait_ms;
    skep_visits_sweep(&server->visits, now_ms());
    MHD_run(server->daemon);
    if (MHD_get_timeout(server->daemon, &wait_ms) == MHD_YES) {
        skep_timer_start(server->timer, wait_ms, 0);
    } else {
        skep_timer_stop(server->timer);
    }
}

static void on_readable(uv_poll_t *watch, int status, int events)
{
    (void)status;
    (void)events;
    drive(watch->data);
}

static void on_watch_closed(uv_handle_t *handle)
{
    free(handle);
}

__attribute__((format(printf, 2, 0))) static void on_complaint(void *cls, const char *format,
                                                               va_list args)
{
    struct skep_http_server *server = cls;
    vsnprintf(server->complaint, sizeof server->complaint, format, args);
    server->complaint[strcspn(server->complaint, "\n")] = 0;
    skep_log(SKEP_LOG_DEBUG, "http server: %s", server->complaint);
}

/* ---- opening ---- */

static socklen_t make_address(const char *host, uint16_t port, struct sockaddr_storage *address)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        return sizeof *v4;
    }
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        return sizeof *v6;
    }
    return 0;
}

static int bind_error(const char *host, uint16_t port, int number, struct skep_error *err)
{
    switch (number) {
    case EADDRINUSE:
        return skep_error_set(err, SKEP_ERR_IN_USE,
                              "%s:%u is in use by another program: stop it or choose another port",
                              host, port);
    case EADDRNOTAVAIL:
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "cannot listen on %s:%u: this machine has no such address", host,
                              port);
    default:
        return skep_error_set(err, skep_err_from_errno(number), "cannot listen on %s:%u: %s", host,
                              port, strerror(number));
    }
}

/* A listening socket and the port it got. */
static int listen_on(const char *host, uint16_t port, int *ret_socket, uint16_t *ret_port,
                     struct skep_error *err)
{
    struct sockaddr_storage address;
    socklen_t size = make_address(host, port, &address);
    if (size == 0) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "cannot listen on '%s': a numeric address is expected, as 127.0.0.1",
                              host);
    }
    int on = 1;
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return bind_error(host, port, errno, err);
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
        int number = errno;
        close(fd);
        return bind_error(host, port, number, err);
    }
    /* The port stands at the same place in both families. */
    *ret_port = ntohs(((struct sockaddr_in *)&address)->sin_port);
    *ret_socket = fd;
    return 0;
}

static struct MHD_Daemon *start_daemon(struct skep_http_server *server, int listener,
                                       const struct skep_http_server_options *options)
{
    bool tls = options->cert_pem != NULL;
    struct MHD_OptionItem items[] = {
        {MHD_OPTION_LISTEN_SOCKET, listener, NULL},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, server},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, server},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)options->connections, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, (intptr_t)options->timeout_s, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY, NULL},
        {tls ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, 0, (void *)options->cert_pem},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)options->key_pem},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_VERSIONS},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned flags =
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | (tls ? MHD_USE_TLS : 0);
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, server, MHD_OPTION_EXTERNAL_LOGGER,
                            on_complaint, server, MHD_OPTION_ARRAY, items, MHD_OPTION_END);
}

int skep_http_server_open(struct skep_loop *loop, const struct skep_http_server_options *options,
                          skep_http_handler handler, void *user,
                          struct skep_http_server **ret_server, struct skep_error *err)
{
    int listener = -1;
    uint16_t port = 0;
    int result = listen_on(options->host, options->port, &listener, &port, err);
    if (result != 0) {
        return result;
    }
    struct skep_http_server *server = skep_alloc(1, sizeof *server);
    server->handler = handler;
    server->user = user;
    server->body_limit = options->body_limit;
    server->visits.patience_ms = (uint64_t)options->timeout_s * 1000;
    server->port = port;
    server->daemon = start_daemon(server, listener, options);
    if (server->daemon == NULL) {
        result = skep_error_set(err, SKEP_ERR_IO, "cannot start the HTTP server on %s:%u: %s",
                                options->host, port, server->complaint);
        free(server); /* libmicrohttpd has closed the socket */
        return result;
    }
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    server->timer = skep_timer_new(loop, drive, server);
    server->watch = skep_alloc(1, sizeof *server->watch);
    server->watch->data = server;
    uv_poll_init(skep_loop_uv(loop), server->watch, info->epoll_fd);
    uv_poll_start(server->watch, UV_READABLE, on_readable);
    *ret_server = server;
    return 0;
}

uint16_t skep_http_server_port(const struct skep_http_server *server)
{
    return server->port;
}

void skep_http_server_close(struct skep_http_server *server)
{
    if (server == NULL) {
        return;
    }
    assert(server->held_count == 0);
    uv_poll_stop(server->watch); /* before libmicrohttpd closes the descriptor below it */
    uv_close((uv_handle_t *)server->watch, on_watch_closed);
    skep_timer_free(server->timer);
    MHD_stop_daemon(server->daemon);
    free(server);
}
