/*
 * The control socket between skepd and skep: a Unix socket (mode 0600) on which each connection carries one request line and one
 * answer line of JSON text. Who may open the socket's file may ask; there is no other check.
 */
#ifndef SKEP_SYS_IPC_H
#define SKEP_SYS_IPC_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/sys/loop.h"

#define SKEP_IPC_REQUEST (1u << 20) /* bytes; whoever sends more is hung up on */
#define SKEP_IPC_ANSWER (64u << 20)
#define SKEP_IPC_CONNECTIONS 64u

struct skep_ipc_server;

/* Called with one request (without newline); appends the answer (one line, without newline) to ret_answer. */
typedef void (*skep_ipc_handler)(void *user, const char *request, size_t size,
                                 struct skep_buffer *ret_answer);

/* A socket left behind by a program that is gone is replaced; SKEP_ERR_IN_USE if somebody answers on it, SKEP_ERR_ARGUMENT if
 * the path is too long for a socket (107 characters). */
int skep_ipc_server_open(struct skep_loop *loop, const char *path, skep_ipc_handler handler,
                         void *user, struct skep_ipc_server **ret_server, struct skep_error *err);
void skep_ipc_server_close(struct skep_ipc_server *server);

/* Sends one request and waits for its answer. SKEP_ERR_NOT_FOUND when nobody listens, SKEP_ERR_NETWORK when no
 * answer comes in time. The caller frees *ret_answer, which is a fresh buffer; one zero byte follows its data. */
int skep_ipc_call(const char *path, const char *request, uint64_t timeout_ms,
                  struct skep_buffer *ret_answer, struct skep_error *err);

#endif
