#include "client/worker/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/crypto/hash.h"
#include "common/sys/file.h"
#include "common/tensor/ops.h"

#define PIECE_BYTES ((size_t)1 << 16)
#define PIECE_FLOATS (PIECE_BYTES / 4)

static int failure(struct skep_error *err, const char *what, const char *path, int number)
{
    enum skep_err code = number == EFBIG ? SKEP_ERR_FULL : skep_err_from_errno(number);
    return skep_error_set(err, code, "cannot %s %s: %s", what, path, strerror(number));
}

/* ---- out ---- */

struct skep_stream_out {
    char *path;
    char *unfinished;
    int file;
    int bad; /* errno of the first failure */
    struct skep_hasher *hasher;
    size_t used;
    uint8_t piece[PIECE_BYTES];
};

int skep_stream_create(const char *path, struct skep_stream_out **ret_out, struct skep_error *err)
{
    char *unfinished = skep_format("%s" SKEP_FILE_UNFINISHED, path);
    int file = open(unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) {
        int rc = failure(err, "write", unfinished, errno);
        free(unfinished);
        return rc;
    }
    struct skep_stream_out *out = skep_alloc(1, sizeof *out);
    out->path = skep_strdup(path);
    out->unfinished = unfinished;
    out->file = file;
    out->hasher = skep_hasher_new();
    *ret_out = out;
    return 0;
}

/* Past the piece: to the hash and to the file. */
static void send(struct skep_stream_out *out, const uint8_t *data, size_t size)
{
    skep_hasher_add(out->hasher, data, size);
    while (size > 0 && out->bad == 0) {
        ssize_t n = write(out->file, data, size);
        if (n < 0 && errno != EINTR) {
            out->bad = errno;
        } else if (n > 0) {
            data += n;
            size -= (size_t)n;
        }
    }
}

static void flush(struct skep_stream_out *out)
{
    send(out, out->piece, out->used);
    out->used = 0;
}

void skep_stream_put(struct skep_stream_out *out, const void *data, size_t size)
{
    if (size > PIECE_BYTES - out->used) {
        flush(out);
    }
    if (size > PIECE_BYTES) {
        send(out, data, size);
        return;
    }
    if (size > 0) {
        memcpy(out->piece + out->used, data, size);
        out->used += size;
    }
}

void skep_stream_put_u32(struct skep_stream_out *out, uint32_t value)
{
    uint8_t bytes[4];
    skep_put_u32(bytes, value);
    skep_stream_put(out, bytes, sizeof bytes);
}

void skep_stream_put_u64(struct skep_stream_out *out, uint64_t value)
{
    uint8_t bytes[8];
    skep_put_u64(bytes, value);
    skep_stream_put(out, bytes, sizeof bytes);
}

void skep_stream_put_f64(struct skep_stream_out *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    skep_stream_put_u64(out, bits);
}

void skep_stream_put_floats(struct skep_stream_out *out, const float *values, size_t count)
{
    flush(out);
    for (size_t done = 0; done < count && out->bad == 0;) {
        size_t some = count - done < PIECE_FLOATS ? count - done : PIECE_FLOATS;
        skep_put_floats(out->piece, values + done, some);
        out->used = some * sizeof *values;
        flush(out);
        done += some;
    }
}

void skep_stream_put_hash(struct skep_stream_out *out)
{
    flush(out);
    struct skep_hash hash = skep_hasher_finish(out->hasher);
    skep_stream_put(out, hash.bytes, sizeof hash.bytes);
}

static void out_free(struct skep_stream_out *out)
{
    skep_hasher_free(out->hasher);
    free(out->path);
    free(out->unfinished);
    free(out);
}

/* A new name is on the disk when its folder is. Some file systems cannot do this; then there is nothing to do. */
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder =
        slash == NULL ? skep_strdup(".") : skep_format("%.*s/", (int)(slash - path), path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(folder);
}

int skep_stream_commit(struct skep_stream_out *out, bool durable, struct skep_error *err)
{
    flush(out);
    if (out->bad == 0 && durable && fsync(out->file) != 0) {
        out->bad = errno;
    }
    if (close(out->file) != 0 && out->bad == 0) {
        out->bad = errno;
    }
    if (out->bad == 0 && rename(out->unfinished, out->path) != 0) {
        out->bad = errno;
    }
    int rc = 0;
    if (out->bad != 0) {
        rc = failure(err, "write", out->path, out->bad);
        (void)unlink(out->unfinished);
    } else if (durable) {
        sync_folder(out->path);
    }
    out_free(out);
    return rc;
}

void skep_stream_abandon(struct skep_stream_out *out)
{
    if (out != NULL) {
        close(out->file);
        (void)unlink(out->unfinished);
        out_free(out);
    }
}

/* ---- in ---- */

struct skep_stream_in {
    char *path;
    int file;
    uint64_t size;
};

int skep_stream_open(const char *path, struct skep_stream_in **ret_in, struct skep_error *err)
{
    struct stat info;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return failure(err, "read", path, errno);
    }
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(file);
        return skep_error_set(err, SKEP_ERR_IO, "cannot read %s: it is not a regular file", path);
    }
    struct skep_stream_in *in = skep_alloc(1, sizeof *in);
    *in = (struct skep_stream_in){skep_strdup(path), file, (uint64_t)info.st_size};
    *ret_in = in;
    return 0;
}

void skep_stream_close(struct skep_stream_in *in)
{
    if (in != NULL) {
        close(in->file);
        free(in->path);
        free(in);
    }
}

uint64_t skep_stream_size(const struct skep_stream_in *in)
{
    return in->size;
}

int skep_stream_get(struct skep_stream_in *in, void *to, size_t size, struct skep_error *err)
{
    uint8_t *at = to;
    while (size > 0) {
        ssize_t n = read(in->file, at, size);
        if (n < 0 && errno != EINTR) {
            return failure(err, "read", in->path, errno);
        }
        if (n == 0) {
            return skep_error_set(err, SKEP_ERR_FORMAT, "%s ends %zu bytes too early", in->path,
                                  size);
        }
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int skep_stream_get_u32(struct skep_stream_in *in, uint32_t *ret_value, struct skep_error *err)
{
    uint8_t bytes[4];
    int rc = skep_stream_get(in, bytes, sizeof bytes, err);
    if (rc == 0) {
        *ret_value = skep_get_u32(bytes);
    }
    return rc;
}

int skep_stream_get_u64(struct skep_stream_in *in, uint64_t *ret_value, struct skep_error *err)
{
    uint8_t bytes[8];
    int rc = skep_stream_get(in, bytes, sizeof bytes, err);
    if (rc == 0) {
        *ret_value = skep_get_u64(bytes);
    }
    return rc;
}

int skep_stream_get_f64(struct skep_stream_in *in, double *ret_value, struct skep_error *err)
{
    uint64_t bits = 0;
    int rc = skep_stream_get_u64(in, &bits, err);
    if (rc == 0) {
        memcpy(ret_value, &bits, sizeof bits);
    }
    return rc;
}

static int stopped(const struct skep_stream_in *in, struct skep_error *err)
{
    return skep_ops_stopped()
               ? skep_error_set(err, SKEP_ERR_CANCELLED, "%s was not read to its end", in->path)
               : 0;
}

int skep_stream_get_floats(struct skep_stream_in *in, float *values, size_t count,
                           struct skep_error *err)
{
    uint8_t piece[PIECE_BYTES];
    for (size_t done = 0; done < count;) {
        size_t some = count - done < PIECE_FLOATS ? count - done : PIECE_FLOATS;
        int rc = stopped(in, err);
        if (rc == 0) {
            rc = skep_stream_get(in, piece, some * 4, err);
        }
        if (rc != 0) {
            return rc;
        }
        skep_get_floats(piece, some, values + done);
        for (size_t i = 0; i < some; i++) {
            if (!isfinite(values[done + i])) {
                return skep_error_set(err, SKEP_ERR_FORMAT, "%s: number %zu is not finite",
                                      in->path, done + i);
            }
        }
        done += some;
    }
    return 0;
}

int skep_stream_check(struct skep_stream_in *in, struct skep_error *err)
{
    uint8_t piece[PIECE_BYTES];
    struct skep_hash stored;
    if (in->size < sizeof stored.bytes) {
        return skep_error_set(err, SKEP_ERR_HASH, "%s has %llu bytes and ends before its hash",
                              in->path, (unsigned long long)in->size);
    }
    struct skep_hasher *hasher = skep_hasher_new();
    int rc = 0;
    for (uint64_t left = in->size - sizeof stored.bytes; left > 0 && rc == 0;) {
        size_t some = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        rc = stopped(in, err);
        if (rc == 0) {
            rc = skep_stream_get(in, piece, some, err);
        }
        skep_hasher_add(hasher, piece, rc == 0 ? some : 0);
        left -= some;
    }
    struct skep_hash found = skep_hasher_finish(hasher);
    skep_hasher_free(hasher);
    if (rc == 0) {
        rc = skep_stream_get(in, stored.bytes, sizeof stored.bytes, err);
    }
    if (rc == 0 && !skep_hash_equal(&found, &stored)) {
        rc = skep_error_set(err, SKEP_ERR_HASH, "%s has hash %.16s and says %.16s", in->path,
                            skep_id_text(found.bytes), skep_id_text(stored.bytes));
    }
    if (rc == 0 && lseek(in->file, 0, SEEK_SET) != 0) {
        rc = failure(err, "read", in->path, errno);
    }
    return rc;
}
