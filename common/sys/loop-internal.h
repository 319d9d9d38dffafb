/* For the .c files of this folder only: the libuv loop (uv_loop_t *) inside a loop, as a void pointer because no header includes
 * a third-party one. */
#ifndef SKEP_SYS_LOOP_INTERNAL_H
#define SKEP_SYS_LOOP_INTERNAL_H

#include "common/sys/loop.h"

void *skep_loop_uv(struct skep_loop *loop);

#endif
