/* The listening half of ipc.h. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "common/base/alloc.h"
#include "common/sys/ipc.h"
#include "common/sys/loop-internal.h"

struct connection {
    uv_pipe_t uv; /* first: closing frees by its address */
    uv_write_t write;
    struct skep_ipc_server *server;
    struct connection *next;
    struct skep_buffer request;
    struct skep_buffer answer;
    char chunk[4096];
};

struct skep_ipc_server {
    uv_pipe_t uv; /* first, likewise */
    skep_ipc_handler handler;
    void *user;
    struct connection *connections;
    unsigned count;
};

static void on_server_closed(uv_handle_t *handle)
{
    free(handle);
}

static void on_connection_closed(uv_handle_t *handle)
{
    struct connection *connection = (struct connection *)handle;
    skep_buffer_done(&connection->request);
    skep_buffer_done(&connection->answer);
    free(connection);
}

static void hang_up(struct connection *connection)
{
    struct skep_ipc_server *server = connection->server;
    for (struct connection **at = &server->connections; *at != NULL; at = &(*at)->next) {
        if (*at == connection) {
            *at = connection->next;
            server->count--;
            uv_close((uv_handle_t *)&connection->uv, on_connection_closed);
            return;
        }
    }
}

static void on_written(uv_write_t *write, int status)
{
    struct connection *connection = write->data;
    (void)status;
    if (!uv_is_closing((uv_handle_t *)&connection->uv)) { /* else the server was closed meanwhile */
        hang_up(connection);
    }
}

static void answer(struct connection *connection, size_t size)
{
    struct skep_ipc_server *server = connection->server;
    uv_read_stop((uv_stream_t *)&connection->uv);
    server->handler(server->user, (const char *)connection->request.data, size,
                    &connection->answer);
    assert(connection->answer.size == 0 ||
           memchr(connection->answer.data, '\n', connection->answer.size) == NULL);
    skep_buffer_append_u8(&connection->answer, '\n');
    uv_buf_t out = uv_buf_init((char *)connection->answer.data, (unsigned)connection->answer.size);
    connection->write.data = connection;
    if (uv_write(&connection->write, (uv_stream_t *)&connection->uv, &out, 1, on_written) != 0) {
        hang_up(connection);
    }
}

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    struct connection *connection = (struct connection *)handle;
    (void)suggested;
    *ret_buffer = uv_buf_init(connection->chunk, sizeof connection->chunk);
}

static void on_request(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    struct connection *connection = (struct connection *)stream;
    if (size == 0) {
        return; /* nothing yet */
    }
    if (size < 0 || skep_buffer_append(&connection->request, buffer->base, (size_t)size) != 0) {
        hang_up(connection);
        return;
    }
    uint8_t *request = connection->request.data;
    uint8_t *end = memchr(request, '\n', connection->request.size);
    if (end != NULL) {
        *end = 0; /* for handlers that read it as a string */
        answer(connection, (size_t)(end - request));
    }
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct skep_ipc_server *server = (struct skep_ipc_server *)stream;
    if (status < 0) {
        return;
    }
    struct connection *connection = skep_alloc(1, sizeof *connection);
    connection->server = server;
    connection->request.limit = SKEP_IPC_REQUEST;
    uv_pipe_init(stream->loop, &connection->uv, 0);
    connection->next = server->connections;
    server->connections = connection;
    server->count++;
    if (uv_accept(stream, (uv_stream_t *)&connection->uv) != 0 ||
        server->count > SKEP_IPC_CONNECTIONS ||
        uv_read_start((uv_stream_t *)&connection->uv, on_allocate, on_request) != 0) {
        hang_up(connection);
    }
}

/* Whether somebody listens on the socket: a file that nobody listens on was left by a crash. */
static bool answers(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool result = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 || errno == EAGAIN;
    close(fd);
    return result;
}

/* Only a socket is removed: anything else there belongs to somebody else. */
static int clear_way(const char *path, struct skep_error *err)
{
    struct stat info;
    if (strlen(path) >= sizeof((struct sockaddr_un *)NULL)->sun_path) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "the socket's path %s has %zu characters and at most %zu are allowed",
                              path, strlen(path), sizeof((struct sockaddr_un *)NULL)->sun_path - 1);
    }
    if (lstat(path, &info) != 0) {
        return 0;
    }
    if (!S_ISSOCK(info.st_mode)) {
        return skep_error_set(err, SKEP_ERR_IN_USE, "%s is in the way: it is not a socket", path);
    }
    if (answers(path)) {
        return skep_error_set(err, SKEP_ERR_IN_USE, "another program is listening on %s: stop it",
                              path);
    }
    unlink(path);
    return 0;
}

int skep_ipc_server_open(struct skep_loop *loop, const char *path, skep_ipc_handler handler,
                         void *user, struct skep_ipc_server **ret_server, struct skep_error *err)
{
    int result = clear_way(path, err);
    if (result != 0) {
        return result;
    }
    struct skep_ipc_server *server = skep_alloc(1, sizeof *server);
    server->handler = handler;
    server->user = user;
    uv_pipe_init(skep_loop_uv(loop), &server->uv, 0);
    mode_t old = umask(0177); /* the socket is born with mode 0600 */
    int bad = uv_pipe_bind(&server->uv, path);
    umask(old);
    if (bad == 0) {
        bad = uv_listen((uv_stream_t *)&server->uv, 16, on_connection);
    }
    if (bad != 0) {
        uv_close((uv_handle_t *)&server->uv, on_server_closed);
        return skep_error_set(err, skep_err_from_errno(-bad), "cannot listen on %s: %s", path,
                              uv_strerror(bad));
    }
    *ret_server = server;
    return 0;
}

void skep_ipc_server_close(struct skep_ipc_server *server)
{
    if (server == NULL) {
        return;
    }
    while (server->connections != NULL) {
        hang_up(server->connections);
    }
    uv_close((uv_handle_t *)&server->uv, on_server_closed); /* also removes the file */
}
