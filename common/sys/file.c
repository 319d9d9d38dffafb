#include "common/sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/alloc.h"

/* What errno says about `path`, as one sentence. EFBIG is the process's own limit on file sizes: for whoever wants to write
 * it is the same as a full disk. */
static int system_error(struct skep_error *err, const char *what, const char *path, int number)
{
    enum skep_err code = number == EFBIG ? SKEP_ERR_FULL : skep_err_from_errno(number);
    if (code == SKEP_ERR_FULL) {
        return skep_error_set(err, code, "no space left to %s %s (%s): free some space and retry",
                              what, path, strerror(number));
    }
    return skep_error_set(err, code, "cannot %s %s: %s", what, path, strerror(number));
}

/* Reads until `size` bytes or the end of the file; the number read or -1 with errno. */
static ssize_t read_fully(int fd, void *to, size_t size, uint64_t offset)
{
    size_t got = 0;
    while (got < size) {
        ssize_t n = pread(fd, (uint8_t *)to + got, size - got, (off_t)(offset + got));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            break;
        }
        got += (size_t)n;
    }
    return (ssize_t)got;
}

int skep_file_read(const char *path, size_t limit, struct skep_buffer *ret_data,
                   struct skep_error *err)
{
    int result = 0;
    uint8_t *data = NULL;
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        result = system_error(err, "read", path, errno);
        goto out;
    }
    if (!S_ISREG(info.st_mode)) {
        result = skep_error_set(err, SKEP_ERR_IO, "cannot read %s: it is not a regular file", path);
        goto out;
    }
    if ((uint64_t)info.st_size > limit) {
        result =
            skep_error_set(err, SKEP_ERR_TOO_LARGE, "%s has %lld bytes and at most %zu are allowed",
                           path, (long long)info.st_size, limit);
        goto out;
    }
    size_t size = (size_t)info.st_size;
    data = calloc(size + 1, 1);
    if (data == NULL) {
        result =
            skep_error_set(err, SKEP_ERR_MEMORY, "no memory for the %zu bytes of %s", size, path);
        goto out;
    }
    ssize_t got = read_fully(fd, data, size, 0);
    if (got < 0) {
        result = system_error(err, "read", path, errno);
        goto out;
    }
    *ret_data = (struct skep_buffer){.data = data, .size = (size_t)got, .capacity = size + 1};
    data = NULL;
out:
    free(data);
    if (fd >= 0) {
        close(fd);
    }
    return result;
}

int skep_file_read_at(const char *path, uint64_t offset, void *to, size_t size,
                      struct skep_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return system_error(err, "read", path, errno);
    }
    int result = 0;
    ssize_t got = read_fully(fd, to, size, offset);
    if (got < 0) {
        result = system_error(err, "read", path, errno);
    } else if ((size_t)got != size) {
        result = skep_error_set(err, SKEP_ERR_IO, "%s ends at byte %llu and should have %llu bytes",
                                path, (unsigned long long)offset + (size_t)got,
                                (unsigned long long)offset + size);
    }
    close(fd);
    return result;
}

/* 0, or -1 with errno. */
static int write_fully(int fd, const void *data, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = write(fd, (const uint8_t *)data + done, size - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -1;
        }
        done += (size_t)n;
    }
    return 0;
}

/* The folder that `path` lies in; the caller frees. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return skep_strdup(".");
    }
    if (slash == path) {
        return skep_strdup("/");
    }
    return skep_format("%.*s", (int)(slash - path), path);
}

/* A rename is on the disk only when the folder is. 0, or -1 with errno. */
static int sync_folder_of(const char *path)
{
    char *folder = folder_of(path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    if (fd < 0) {
        return -1;
    }
    int result = fsync(fd);
    int number = errno;
    close(fd);
    errno = number;
    return result;
}

/* Fills the open temporary file `fd` and closes it. 0, or -1 with errno. */
static int fill(int fd, mode_t mode, const void *data, size_t size, bool durable)
{
    int number = 0;
    if (fchmod(fd, mode) != 0 || write_fully(fd, data, size) != 0 || (durable && fsync(fd) != 0)) {
        number = errno;
    }
    if (close(fd) != 0 && number == 0) {
        number = errno;
    }
    errno = number;
    return number == 0 ? 0 : -1;
}

static int replace(const char *path, mode_t mode, const void *data, size_t size, bool durable,
                   struct skep_error *err)
{
    int result = 0;
    char *temporary = skep_format("%s.XXXXXX" SKEP_FILE_UNFINISHED, path);
    int fd = mkostemps(temporary, (int)strlen(SKEP_FILE_UNFINISHED), O_CLOEXEC);
    if (fd < 0) {
        result = system_error(err, "write", path, errno);
        goto out;
    }
    if (fill(fd, mode, data, size, durable) != 0 || rename(temporary, path) != 0) {
        result = system_error(err, "write", path, errno);
        unlink(temporary);
        goto out;
    }
    if (durable && sync_folder_of(path) != 0) {
        result = system_error(err, "write", path, errno);
    }
out:
    free(temporary);
    return result;
}

int skep_file_write(const char *path, mode_t mode, const void *data, size_t size,
                    struct skep_error *err)
{
    return replace(path, mode, data, size, true, err);
}

int skep_file_write_quick(const char *path, mode_t mode, const void *data, size_t size,
                          struct skep_error *err)
{
    return replace(path, mode, data, size, false, err);
}

bool skep_file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

int64_t skep_file_size(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (int64_t)info.st_size : -1;
}

int skep_lock_take(const char *path, const char *name, int *ret_lock, struct skep_error *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return system_error(err, "open", path, errno);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        *ret_lock = fd;
        return 0;
    }
    int result = SKEP_ERR_IN_USE;
    if (errno == EWOULDBLOCK) {
        char *folder = folder_of(path);
        skep_error_set(err, SKEP_ERR_IN_USE,
                       "another %s is running with %s: stop it or name another folder", name,
                       folder);
        free(folder);
    } else {
        result = system_error(err, "lock", path, errno);
    }
    close(fd);
    return result;
}
