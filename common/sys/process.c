#include "common/sys/process.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <unistd.h>
#include <uv.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/sys/loop-internal.h"

/* Read after a child's end at most: a grandchild may go on writing. Far more than a pipe holds. */
#define DRAIN_BYTES (1u << 20)
/* Tells a child that is started apart whom to follow. */
#define PARENT_VARIABLE "SKEP_PARENT"

extern char **environ;

/*
 * Lives until libuv has closed both handles: the child's, which is closed when its end was seen (else it would stay a zombie),
 * and the pipe's. `forgotten` says that the owner has freed it.
 */
struct skep_process {
    uv_process_t uv;
    uv_pipe_t pipe;
    bool has_pipe;
    int open_handles;
    bool running;
    bool forgotten;
    bool calling; /* a callback of the owner is on the stack */
    struct skep_buffer line;
    char chunk[4096];
    skep_process_line on_line;
    skep_process_exit on_exit;
    void *user;
};

/* ---- the end ---- */

static void free_if_over(struct skep_process *process)
{
    if (process->forgotten && process->open_handles == 0 && !process->calling) {
        skep_buffer_done(&process->line);
        free(process);
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct skep_process *process = handle->data;
    process->open_handles--;
    free_if_over(process);
}

static void close_pipe(struct skep_process *process)
{
    if (process->has_pipe) {
        process->has_pipe = false;
        uv_close((uv_handle_t *)&process->pipe, on_closed);
    }
}

/* ---- lines ---- */

static void emit_line(struct skep_process *process)
{
    skep_buffer_append_u8(&process->line, 0);
    if (!process->forgotten) {
        process->on_line(process->user, (const char *)process->line.data);
    }
    process->line.size = 0;
}

static void take_output(struct skep_process *process, const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (data[i] == '\n') {
            emit_line(process);
            continue;
        }
        skep_buffer_append_u8(&process->line, (uint8_t)data[i]);
        if (process->line.size == SKEP_PROCESS_LINE) {
            emit_line(process);
        }
    }
}

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    struct skep_process *process = handle->data;
    (void)suggested;
    *ret_buffer = uv_buf_init(process->chunk, sizeof process->chunk);
}

static void on_output(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    struct skep_process *process = stream->data;
    if (size < 0) {
        close_pipe(process);
        return;
    }
    process->calling = true;
    take_output(process, buffer->base, (size_t)size);
    process->calling = false;
    free_if_over(process);
}

/* The child has ended: what it wrote is in the pipe already, so read it now. Waiting for the pipe's end instead could take
 * for ever when a grandchild keeps it open. */
static void drain(struct skep_process *process)
{
    uv_os_fd_t fd;
    if (!process->has_pipe || uv_fileno((uv_handle_t *)&process->pipe, &fd) != 0) {
        return;
    }
    size_t left = DRAIN_BYTES;
    while (process->has_pipe && left > 0) { /* a callback may have freed the process */
        ssize_t got = read(fd, process->chunk, sizeof process->chunk);
        if (got <= 0) {
            break;
        }
        take_output(process, process->chunk, (size_t)got);
        left -= (size_t)got < left ? (size_t)got : left;
    }
}

static void on_end(uv_process_t *handle, int64_t status, int signal_number)
{
    struct skep_process *process = handle->data;
    process->running = false;
    process->calling = true;
    drain(process);
    if (process->line.size != 0) {
        emit_line(process);
    }
    close_pipe(process);
    uv_close((uv_handle_t *)handle, on_closed);
    if (!process->forgotten && process->on_exit != NULL) {
        process->on_exit(process->user, signal_number != 0 ? -signal_number : (int)status);
    }
    process->calling = false;
    free_if_over(process);
}

/* ---- the start ---- */

/* "NAME=" of `setting` starts `other` too. */
static bool same_name(const char *setting, const char *other)
{
    size_t length = strcspn(setting, "=");
    return strncmp(setting, other, length) == 0 && other[length] == '=';
}

static bool is_set_in(const char *const *settings, const char *other)
{
    for (size_t i = 0; settings[i] != NULL; i++) {
        if (same_name(settings[i], other)) {
            return true;
        }
    }
    return false;
}

static size_t count_of(char *const *settings)
{
    size_t count = 0;
    while (settings[count] != NULL) {
        count++;
    }
    return count;
}

/* Our environment with the extra settings put over it, and one more unless it is NULL: an array to free, of borrowed strings. */
static char **merge_environment(const char *const *extra, char *more)
{
    static const char *const none[] = {NULL};
    extra = extra != NULL ? extra : none;
    char **merged =
        skep_alloc(count_of(environ) + count_of((char *const *)extra) + 2, sizeof *merged);
    size_t count = 0;
    if (more != NULL) {
        merged[count++] = more;
    }
    for (size_t i = 0; environ[i] != NULL; i++) {
        if (!is_set_in(extra, environ[i])) {
            merged[count++] = environ[i];
        }
    }
    for (size_t i = 0; extra[i] != NULL; i++) {
        merged[count++] = (char *)extra[i];
    }
    return merged;
}

/* Libraries open sockets that a child would inherit (the DHT's): it could outlive us and keep our port from our successor. */
static void keep_to_ourselves(void)
{
#ifdef CLOSE_RANGE_CLOEXEC
    close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
#endif
}

static int spawn(struct skep_loop *loop, const struct skep_process_options *options, int stderr_fd,
                 struct skep_process *process)
{
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = stderr_fd},
        {.flags = UV_INHERIT_FD, .data.fd = stderr_fd},
    };
    if (options->on_line != NULL) {
        uv_pipe_init(skep_loop_uv(loop), &process->pipe, 0);
        process->pipe.data = process;
        process->has_pipe = true;
        process->open_handles++;
        stdio[1].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
        stdio[1].data.stream = (uv_stream_t *)&process->pipe;
    }
    char *parent = options->apart ? skep_format(PARENT_VARIABLE "=%ld", (long)getpid()) : NULL;
    char **environment = merge_environment(options->environment, parent);
    uv_process_options_t how = {
        .exit_cb = on_end,
        .flags = options->apart ? UV_PROCESS_DETACHED : 0,
        .file = options->arguments[0],
        .args = (char **)options->arguments,
        .env = environment,
        .stdio = stdio,
        .stdio_count = 3,
    };
    keep_to_ourselves();
    process->uv.data = process;
    process->open_handles++;
    int bad = uv_spawn(skep_loop_uv(loop), &process->uv, &how);
    free(environment);
    free(parent);
    return bad;
}

int skep_process_start(struct skep_loop *loop, const struct skep_process_options *options,
                       struct skep_process **ret_process, struct skep_error *err)
{
    int stderr_fd = STDERR_FILENO;
    if (options->stderr_path != NULL) {
        stderr_fd = open(options->stderr_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (stderr_fd < 0) {
            return skep_error_set(err, skep_err_from_errno(errno), "cannot write %s: %s",
                                  options->stderr_path, strerror(errno));
        }
    }
    struct skep_process *process = skep_alloc(1, sizeof *process);
    process->on_line = options->on_line;
    process->on_exit = options->on_exit;
    process->user = options->user;
    int bad = spawn(loop, options, stderr_fd, process);
    if (stderr_fd != STDERR_FILENO) {
        close(stderr_fd);
    }
    if (bad != 0) {
        close_pipe(process);
        uv_close((uv_handle_t *)&process->uv, on_closed);
        process->forgotten = true;
        return skep_error_set(err, skep_err_from_errno(-bad), "cannot start %s: %s",
                              options->arguments[0], uv_strerror(bad));
    }
    process->running = true;
    if (process->has_pipe) {
        uv_read_start((uv_stream_t *)&process->pipe, on_allocate, on_output);
    }
    *ret_process = process;
    return 0;
}

pid_t skep_process_id(const struct skep_process *process)
{
    return process->uv.pid;
}

bool skep_process_running(const struct skep_process *process)
{
    return process->running;
}

void skep_process_signal(struct skep_process *process, int signal_number)
{
    if (process->running) {
        uv_process_kill(&process->uv, signal_number);
    }
}

void skep_process_free(struct skep_process *process)
{
    if (process == NULL) {
        return;
    }
    process->forgotten = true;
    skep_process_signal(process, SIGKILL);
    close_pipe(process);
    free_if_over(process);
}

void skep_process_follow(void)
{
    const char *parent = getenv(PARENT_VARIABLE);
    if (parent == NULL) {
        return;
    }
    long id = strtol(parent, NULL, 10);
    unsetenv(PARENT_VARIABLE); /* our own children follow nobody unless we say so */
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
    if (getppid() != id) {
        raise(SIGTERM); /* it ended before we asked to be told */
    }
}

/* ---- finding programs ---- */

char *skep_process_own_folder(void)
{
    char path[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    assert(size > 0 && "/proc is not mounted");
    path[size] = 0;
    *strrchr(path, '/') = 0;
    return skep_strdup(path[0] != 0 ? path : "/");
}

char *skep_process_find(const char *name)
{
    /* Relative to our own folder unless absolute. */
    static const char *const places[] = {
        ".",
        "../client",
        "../server",
        "../common/gpu",
        "../../common/gpu",
        "../libexec/skep",
        "../../bin",
        SKEP_LIBEXEC_FOLDER,
        SKEP_BIN_FOLDER,
    };
    char *own = skep_process_own_folder();
    char *found = NULL;
    for (size_t i = 0; i < sizeof places / sizeof places[0] && found == NULL; i++) {
        char *path = places[i][0] == '/' ? skep_format("%s/%s", places[i], name)
                                         : skep_format("%s/%s/%s", own, places[i], name);
        found = access(path, X_OK) == 0 ? realpath(path, NULL) : NULL;
        free(path);
    }
    free(own);
    return found != NULL ? found : skep_strdup(name);
}
