/* The folder half of file.h. */
#include "common/sys/file.h"

#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/alloc.h"

static int system_error(struct skep_error *err, const char *what, const char *path, int number)
{
    return skep_error_set(err, skep_err_from_errno(number), "cannot %s the folder %s: %s", what,
                          path, strerror(number));
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

int skep_folder_make(const char *path, struct skep_error *err)
{
    int result = 0;
    char *part = skep_strdup(path);
    /* Each prefix that ends before a slash, then the whole. */
    for (size_t i = 1; part[0] != 0; i++) {
        char end = part[i];
        if (end != '/' && end != 0) {
            continue;
        }
        part[i] = 0;
        if (mkdir(part, 0700) != 0) {
            int number = errno;
            if (!is_folder(part)) {
                result = system_error(err, "make", part, number == EEXIST ? ENOTDIR : number);
                break;
            }
        }
        part[i] = end;
        if (end == 0) {
            break;
        }
    }
    free(part);
    return result;
}

static int remove_entry(const FTSENT *entry)
{
    switch (entry->fts_info) {
    case FTS_D:
        return 0; /* comes again as FTS_DP, when it is empty */
    case FTS_DP:
        return rmdir(entry->fts_accpath);
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        errno = entry->fts_errno;
        return errno == ENOENT ? 0 : -1;
    default:
        return unlink(entry->fts_accpath);
    }
}

int skep_folder_remove(const char *path, struct skep_error *err)
{
    char *roots[] = {(char *)path, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    if (walk == NULL) {
        return system_error(err, "remove", path, errno);
    }
    int result = 0;
    FTSENT *entry;
    while (result == 0 && (entry = fts_read(walk)) != NULL) {
        if (remove_entry(entry) != 0) {
            result = system_error(err, "remove", path, errno);
        }
    }
    fts_close(walk);
    return result;
}

/* alphasort() follows the locale; the order of bytes is the same for everybody. */
static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int no_dots(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

int skep_folder_list(const char *path, void (*each)(void *user, const char *name), void *user,
                     struct skep_error *err)
{
    struct dirent **names = NULL;
    int count = scandir(path, &names, no_dots, by_bytes);
    if (count < 0) {
        return system_error(err, "read", path, errno);
    }
    for (int i = 0; i < count; i++) {
        each(user, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return 0;
}

char *skep_folder_default(void)
{
    const char *data = getenv("XDG_DATA_HOME");
    if (data != NULL && data[0] == '/') { /* the XDG rules: relative paths are ignored */
        return skep_format("%s/skep", data);
    }
    const char *home = getenv("HOME");
    if (home == NULL || home[0] == 0) {
        const struct passwd *user = getpwuid(getuid());
        home = user != NULL ? user->pw_dir : "/";
    }
    return skep_format("%s/.local/share/skep", home);
}
