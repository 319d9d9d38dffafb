/* The asking half of ipc.h: plain blocking sockets, because `skep` asks one thing and ends. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/sys/clock.h"
#include "common/sys/ipc.h"

struct call {
    int fd;
    const char *path;
    uint64_t deadline_ms;
    struct skep_error *err;
};

static int call_failed(const struct call *call, int number)
{
    return skep_error_set(call->err, SKEP_ERR_NETWORK, "the program that listens on %s hung up: %s",
                          call->path, strerror(number));
}

/* Waits for the socket to be ready for `events`. */
static int wait_for(const struct call *call, short events)
{
    for (;;) {
        uint64_t now_ms = skep_clock_monotonic_ms();
        uint64_t left_ms = now_ms < call->deadline_ms ? call->deadline_ms - now_ms : 0;
        struct pollfd watched = {.fd = call->fd, .events = events};
        int ready = poll(&watched, 1, left_ms > 3600000 ? 3600000 : (int)left_ms);
        if (ready > 0) {
            return 0;
        }
        if (ready < 0 && errno != EINTR) {
            return call_failed(call, errno);
        }
        if (left_ms == 0) {
            return skep_error_set(call->err, SKEP_ERR_NETWORK,
                                  "the program that listens on %s did not answer in time",
                                  call->path);
        }
    }
}

static int open_socket(struct call *call)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(call->path) >= sizeof address.sun_path) {
        return skep_error_set(call->err, SKEP_ERR_ARGUMENT,
                              "the socket's path %s has %zu characters and at most %zu are allowed",
                              call->path, strlen(call->path), sizeof address.sun_path - 1);
    }
    memcpy(address.sun_path, call->path, strlen(call->path) + 1);
    call->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (call->fd >= 0 && connect(call->fd, (struct sockaddr *)&address, sizeof address) == 0) {
        return 0;
    }
    if (errno == ENOENT || errno == ECONNREFUSED) {
        return skep_error_set(call->err, SKEP_ERR_NOT_FOUND,
                              "nobody listens on %s: is the daemon running?", call->path);
    }
    return skep_error_set(call->err, skep_err_from_errno(errno), "cannot reach %s: %s", call->path,
                          strerror(errno));
}

static int send_all(const struct call *call, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(call->fd, data, size, MSG_NOSIGNAL);
        if (sent > 0) {
            data += sent;
            size -= (size_t)sent;
            continue;
        }
        if (errno != EAGAIN && errno != EINTR) {
            return call_failed(call, errno);
        }
        int result = wait_for(call, POLLOUT);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

/* Reads up to the newline, which is left out. */
static int receive_line(const struct call *call, struct skep_buffer *answer)
{
    char chunk[16384];
    for (;;) {
        int result = wait_for(call, POLLIN);
        if (result != 0) {
            return result;
        }
        ssize_t got = recv(call->fd, chunk, sizeof chunk, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            continue;
        }
        if (got <= 0) {
            return call_failed(call, got == 0 ? ECONNRESET : errno);
        }
        const char *end = memchr(chunk, '\n', (size_t)got);
        size_t size = end != NULL ? (size_t)(end - chunk) : (size_t)got;
        if (skep_buffer_append(answer, chunk, size) != 0) {
            return skep_error_set(call->err, SKEP_ERR_TOO_LARGE,
                                  "the answer of %s has more than the %u bytes allowed", call->path,
                                  SKEP_IPC_ANSWER);
        }
        if (end != NULL) {
            return 0;
        }
    }
}

int skep_ipc_call(const char *path, const char *request, uint64_t timeout_ms,
                  struct skep_buffer *ret_answer, struct skep_error *err)
{
    struct call call = {
        .fd = -1, .path = path, .deadline_ms = skep_clock_monotonic_ms() + timeout_ms, .err = err};
    struct skep_buffer answer = {.limit = SKEP_IPC_ANSWER};
    int result = open_socket(&call);
    if (result == 0) {
        result = send_all(&call, request, strlen(request));
    }
    if (result == 0) {
        result = send_all(&call, "\n", 1);
    }
    if (result == 0) {
        result = receive_line(&call, &answer);
    }
    if (call.fd >= 0) {
        close(call.fd);
    }
    if (result != 0) {
        skep_buffer_done(&answer);
        return result;
    }
    answer.limit = 0;
    skep_buffer_append_u8(&answer, 0);
    answer.size--;
    *ret_answer = answer;
    return 0;
}
