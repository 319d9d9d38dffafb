/*
 * The control socket between skepd and skep: a Unix socket (mode 0600) on which each connection carries one request line and one
 * answer line of JSON text.
 */
#ifndef SKEP_SYS_IPC_H
#define SKEP_SYS_IPC_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/sys/loop.h"

struct skep_ipc_server;

/* Called with one request (without newline); appends the answer (without newline) to ret_answer. */
typedef void (*skep_ipc_handler)(void *user, const char *request, size_t size,
                                 struct skep_buffer *ret_answer);

int skep_ipc_server_open(struct skep_loop *loop, const char *path, skep_ipc_handler handler,
                         void *user, struct skep_ipc_server **ret_server, struct skep_error *err);
void skep_ipc_server_close(struct skep_ipc_server *server);

/* Sends one request and waits for its answer. SKEP_ERR_NOT_FOUND when nobody listens. */
int skep_ipc_call(const char *path, const char *request, uint64_t timeout_ms,
                  struct skep_buffer *ret_answer, struct skep_error *err);

#endif
