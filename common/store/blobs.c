#include "common/store/blobs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/crypto/hash.h"
#include "common/sys/file.h"

#define UNFINISHED_AGE_S 3600

struct skep_blobs {
    char *folder;
};

static bool ends_unfinished(const char *name)
{
    const size_t end = strlen(SKEP_FILE_UNFINISHED);
    return strlen(name) > end && strcmp(name + strlen(name) - end, SKEP_FILE_UNFINISHED) == 0;
}

/* The command line and the daemon of a donor share a folder: what is young may be a write under way. */
static void remove_unfinished(void *user, const char *name)
{
    if (!ends_unfinished(name)) {
        return;
    }
    char *path = skep_format("%s/%s", (const char *)user, name);
    struct stat info;
    if (stat(path, &info) == 0 && info.st_mtime + UNFINISHED_AGE_S < time(NULL)) {
        unlink(path);
    }
    free(path);
}

/* Makes the folder of one first byte if it is not there, and removes what a crash left in it. */
static int prepare_part(const char *folder, unsigned first, struct skep_error *err)
{
    char *part = skep_format("%s/%02x", folder, first);
    int result = skep_folder_make(part, err);
    if (result == SKEP_OK) {
        result = skep_folder_list(part, remove_unfinished, part, err);
    }
    free(part);
    return result;
}

/* A file is safe only when the folder above its own is on the disk too. */
static int sync_folder(const char *folder, struct skep_error *err)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int number = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
    }
    return number == 0 ? SKEP_OK
                       : skep_error_set(err, skep_err_from_errno(number),
                                        "cannot write the folder %s: %s", folder, strerror(number));
}

int skep_blobs_open(const char *folder, struct skep_blobs **ret_blobs, struct skep_error *err)
{
    int result = skep_folder_make(folder, err);
    for (unsigned first = 0; result == SKEP_OK && first < 256; first++) {
        result = prepare_part(folder, first, err);
    }
    if (result == SKEP_OK) {
        result = sync_folder(folder, err);
    }
    if (result != SKEP_OK) {
        return result;
    }
    struct skep_blobs *blobs = skep_alloc(1, sizeof *blobs);
    blobs->folder = skep_strdup(folder);
    *ret_blobs = blobs;
    return SKEP_OK;
}

void skep_blobs_close(struct skep_blobs *blobs)
{
    if (blobs != NULL) {
        free(blobs->folder);
        free(blobs);
    }
}

/* The first two digits make 256 folders, so that none grows too long. */
char *skep_blobs_path(const struct skep_blobs *blobs, const struct skep_hash *hash)
{
    return skep_format("%s/%02x/%s", blobs->folder, hash->bytes[0], skep_id_text(hash->bytes));
}

int skep_blobs_put(struct skep_blobs *blobs, const void *data, size_t size,
                   const struct skep_hash *expected, struct skep_hash *ret_hash,
                   struct skep_error *err)
{
    struct skep_hash hash = skep_hash_of(data, size);
    if (expected != NULL && !skep_hash_equal(&hash, expected)) {
        return skep_error_set(err, SKEP_ERR_HASH, "%zu bytes have SHA-256 %s, expected %s", size,
                              skep_id_text(hash.bytes), skep_id_text(expected->bytes));
    }
    char *path = skep_blobs_path(blobs, &hash);
    int result = SKEP_OK;
    /* A file of that name and size is these bytes; a cut one is written again. */
    if (skep_file_size(path) != (int64_t)size) {
        result = skep_file_write(path, 0600, data, size, err);
    }
    if (result == SKEP_OK && ret_hash != NULL) {
        *ret_hash = hash;
    }
    free(path);
    return result;
}

bool skep_blobs_has(const struct skep_blobs *blobs, const struct skep_hash *hash)
{
    char *path = skep_blobs_path(blobs, hash);
    bool has = skep_file_exists(path);
    free(path);
    return has;
}

int skep_blobs_get(struct skep_blobs *blobs, const struct skep_hash *hash,
                   struct skep_buffer *ret_data, struct skep_error *err)
{
    char *path = skep_blobs_path(blobs, hash);
    struct skep_buffer data = {0};
    int result = SKEP_OK;
    if (!skep_file_exists(path)) {
        result = skep_error_set(err, SKEP_ERR_NOT_FOUND, "no bytes are stored under %s",
                                skep_id_text(hash->bytes));
        goto out;
    }
    result = skep_file_read(path, SKEP_LIMIT_STATE_BYTES, &data, err);
    if (result != SKEP_OK) {
        goto out;
    }
    struct skep_hash found = skep_hash_of(data.data, data.size);
    if (!skep_hash_equal(&found, hash)) {
        unlink(path);
        result = skep_error_set(err, SKEP_ERR_HASH,
                                "%s holds bytes with SHA-256 %s: the disk changed them; the file "
                                "was removed",
                                path, skep_id_text(found.bytes));
        goto out;
    }
    skep_buffer_done(ret_data);
    *ret_data = data;
    data = (struct skep_buffer){0};
out:
    skep_buffer_done(&data);
    free(path);
    return result;
}

void skep_blobs_remove(struct skep_blobs *blobs, const struct skep_hash *hash)
{
    char *path = skep_blobs_path(blobs, hash);
    unlink(path);
    free(path);
}
