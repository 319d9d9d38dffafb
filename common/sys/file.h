/*
 * Files: whole reads with a limit, and writes that are either there completely or not at all (temporary file, fsync, rename,
 * fsync of the folder). Error sentences name the path and what the system said; a full disk is SKEP_ERR_FULL, and so is the
 * process's own limit on file size (RLIMIT_FSIZE; skep_loop_new() ignores its signal). A file that a crash left unfinished
 * has a name ending in SKEP_FILE_UNFINISHED and may be deleted.
 */
#ifndef SKEP_SYS_FILE_H
#define SKEP_SYS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

#define SKEP_FILE_UNFINISHED ".unfinished"

/* The whole file into a fresh buffer that the caller frees (what *ret_data held is not looked at); one zero byte follows the
 * data, so that text can be used as a string. SKEP_ERR_NOT_FOUND, SKEP_ERR_TOO_LARGE if it has more than `limit` bytes,
 * SKEP_ERR_MEMORY, SKEP_ERR_IO. */
int skep_file_read(const char *path, size_t limit, struct skep_buffer *ret_data,
                   struct skep_error *err);
/* `size` bytes from `offset` (must all be there). */
int skep_file_read_at(const char *path, uint64_t offset, void *to, size_t size,
                      struct skep_error *err);
/* Replaces path with data, mode as given (0600 for keys). */
int skep_file_write(const char *path, mode_t mode, const void *data, size_t size,
                    struct skep_error *err);
/* The same without the fsyncs, for what can be made again. */
int skep_file_write_quick(const char *path, mode_t mode, const void *data, size_t size,
                          struct skep_error *err);
bool skep_file_exists(const char *path);
int64_t skep_file_size(const char *path); /* -1 if there is none */
/* Makes the folder and its parents (mode 0700 if new). */
int skep_folder_make(const char *path, struct skep_error *err);
/* Removes a folder and everything in it; links are not followed. A folder that is not there is no error. */
int skep_folder_remove(const char *path, struct skep_error *err);
/* Calls back with each name in the folder (not . and ..), sorted by bytes. The folder is read before the first call, so
 * `each` may change it. */
int skep_folder_list(const char *path, void (*each)(void *user, const char *name), void *user,
                     struct skep_error *err);

/* Takes an exclusive lock that lives as long as the process (or until closed): SKEP_ERR_IN_USE with the sentence "another NAME is
 * running with FOLDER" if somebody has it. *ret_lock is a descriptor. */
int skep_lock_take(const char *path, const char *name, int *ret_lock, struct skep_error *err);

/* $XDG_DATA_HOME/skep, or ~/.local/share/skep; the caller frees. */
char *skep_folder_default(void);

#endif
