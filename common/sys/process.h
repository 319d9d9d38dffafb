/* Child processes on the loop: started with arguments and environment, their output read line by line or sent to a file. */
#ifndef SKEP_SYS_PROCESS_H
#define SKEP_SYS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/sys/loop.h"

#define SKEP_PROCESS_LINE 65536u

struct skep_process;

typedef void (*skep_process_line)(void *user, const char *line);
/* exit_status >= 0, or -signal. Called once, after the last line. It may free the process. */
typedef void (*skep_process_exit)(void *user, int exit_status);

struct skep_process_options {
    const char *const
        *arguments; /* NULL-terminated; [0] is the program, looked up in PATH if it has no slash */
    const char *const *environment; /* NULL-terminated extra NAME=value, may be NULL */
    const char *stderr_path;        /* file to append stderr to; NULL: inherited */
    bool
        apart; /* in a session of its own: Ctrl-C in our terminal is for us; the child may follow us */
    /* stdout lines, without the newline, cut at SKEP_PROCESS_LINE; NULL: stdout goes where stderr goes */
    skep_process_line on_line;
    skep_process_exit on_exit;
    void *user;
};

/* SKEP_ERR_NOT_FOUND if there is no such program, else SKEP_ERR_IO; the sentence names it. stdin is /dev/null. */
int skep_process_start(struct skep_loop *loop, const struct skep_process_options *options,
                       struct skep_process **ret_process, struct skep_error *err);
pid_t skep_process_id(const struct skep_process *process);
bool skep_process_running(const struct skep_process *process);
void skep_process_signal(struct skep_process *process, int signal_number);
/* Forgets it; a child still running is killed (SIGKILL) and its end is awaited by the loop. No more callbacks. */
void skep_process_free(struct skep_process *process);

/* For a program that may have been started apart: SIGTERM when whoever started it ends, however that comes about. Without effect on
 * programs started otherwise. To be called before other threads begin. */
void skep_process_follow(void);

/* Folder of the running executable; the caller frees. */
char *skep_process_own_folder(void);
/* Full path of one of Skep's programs, or of its plug-in for GPUs, by name; the caller frees. Looked for beside us, in the build
 * tree's folders of programs, in the folders of the installation. If it is nowhere the name itself comes back, to be looked up in PATH. */
char *skep_process_find(const char *name);

#endif
