/* Files, folders and locks, in a folder of its own below the system's temporary one. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "common/sys/file.h"
#include "tests/lib/cmocka.h"

static char folder[] = "/tmp/skep-test-file-XXXXXX";

static char *in_folder(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    return skep_folder_remove(folder, NULL) != 0 || skep_file_exists(folder);
}

static void what_is_written_is_read_with_its_mode(void **state)
{
    (void)state;
    struct skep_error err = {0};
    struct stat info;
    struct skep_buffer data = {0};
    const char *path = in_folder("key");
    assert_int_equal(skep_file_write(path, 0600, "old", 3, &err), 0);
    assert_int_equal(skep_file_write(path, 0600, "a key", 5, &err), 0);
    assert_int_equal(skep_file_read(path, 5, &data, &err), 0);
    assert_int_equal(data.size, 5);
    assert_string_equal((char *)data.data, "a key");
    skep_buffer_done(&data);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(skep_file_size(path), 5);
}

static void a_file_above_the_limit_is_refused(void **state)
{
    (void)state;
    struct skep_error err = {0};
    struct skep_buffer data = {0};
    const char *path = in_folder("big");
    assert_int_equal(skep_file_write_quick(path, 0644, "12345", 5, &err), 0);
    assert_int_equal(skep_file_read(path, 4, &data, &err), SKEP_ERR_TOO_LARGE);
    assert_non_null(strstr(err.text, "has 5 bytes and at most 4"));
    assert_null(data.data);
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    struct skep_error err = {0};
    struct skep_buffer data = {0};
    assert_int_equal(skep_file_read(in_folder("none"), 9, &data, &err), SKEP_ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, in_folder("none")));
    assert_int_equal(skep_file_size(in_folder("none")), -1);
    assert_false(skep_file_exists(in_folder("none")));
}

static void a_piece_must_lie_inside_the_file(void **state)
{
    (void)state;
    struct skep_error err = {0};
    char piece[4] = "";
    const char *path = in_folder("pieces");
    assert_int_equal(skep_file_write_quick(path, 0644, "0123456789", 10, &err), 0);
    assert_int_equal(skep_file_read_at(path, 3, piece, 4, &err), 0);
    assert_memory_equal(piece, "3456", 4);
    assert_int_equal(skep_file_read_at(path, 8, piece, 4, &err), SKEP_ERR_IO);
    assert_non_null(strstr(err.text, "ends at byte 10 and should have 12"));
}

static void count_name(void *user, const char *name)
{
    (void)name;
    ++*(int *)user;
}

static void a_full_disk_keeps_the_old_file_and_leaves_nothing_else(void **state)
{
    (void)state;
    struct skep_error err = {0};
    struct rlimit old;
    struct skep_buffer data = {0};
    static char large[8192];
    int names = 0;
    assert_int_equal(skep_folder_make(in_folder("full"), &err), 0);
    const char *path = in_folder("full/kept");
    assert_int_equal(skep_file_write(path, 0644, "kept", 4, &err), 0);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 4096, .rlim_max = old.rlim_max});
    int result = skep_file_write(path, 0644, large, sizeof large, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(result, SKEP_ERR_FULL);
    assert_non_null(strstr(err.text, "no space left"));
    assert_non_null(strstr(err.text, path));
    assert_int_equal(skep_file_read(path, 9, &data, &err), 0);
    assert_string_equal((char *)data.data, "kept");
    skep_buffer_done(&data);
    assert_int_equal(skep_folder_list(in_folder("full"), count_name, &names, &err), 0);
    assert_int_equal(names, 1);
}

static void join_names(void *user, const char *name)
{
    strcat(strcat(user, name), " ");
}

static void folders_are_made_listed_in_order_and_removed_without_following_links(void **state)
{
    (void)state;
    struct skep_error err = {0};
    char names[100] = "";
    assert_int_equal(skep_folder_make(in_folder("a/b//c"), &err), 0);
    assert_int_equal(skep_folder_make(in_folder("a/b/c"), &err), 0);
    assert_int_equal(skep_file_write(in_folder("a/b/z"), 0644, "", 0, &err), 0);
    assert_int_equal(skep_file_write(in_folder("a/b/B"), 0644, "", 0, &err), 0);
    assert_int_equal(skep_file_write(in_folder("outside"), 0644, "", 0, &err), 0);
    assert_int_equal(symlink(folder, in_folder("a/b/c/link")), 0);
    assert_int_equal(skep_folder_list(in_folder("a/b"), join_names, names, &err), 0);
    assert_string_equal(names, "B c z ");
    assert_int_equal(skep_folder_remove(in_folder("a"), &err), 0);
    assert_false(skep_file_exists(in_folder("a")));
    assert_true(skep_file_exists(in_folder("outside")));
    assert_int_equal(skep_folder_remove(in_folder("a"), &err), 0);
}

static void a_file_in_the_way_of_a_folder_is_named(void **state)
{
    (void)state;
    struct skep_error err = {0};
    assert_int_equal(skep_file_write(in_folder("way"), 0644, "", 0, &err), 0);
    assert_int_equal(skep_folder_make(in_folder("way/below"), &err), SKEP_ERR_IO);
    assert_non_null(strstr(err.text, "/way: Not a directory"));
}

static void a_lock_is_held_once(void **state)
{
    (void)state;
    struct skep_error err = {0};
    int lock = -1;
    int second = -1;
    assert_int_equal(skep_lock_take(in_folder("lock"), "skepd", &lock, &err), 0);
    assert_int_equal(skep_lock_take(in_folder("lock"), "skepd", &second, &err), SKEP_ERR_IN_USE);
    assert_non_null(strstr(err.text, "another skepd is running with /tmp/skep-test-file-"));
    assert_int_equal(second, -1);
    close(lock);
    assert_int_equal(skep_lock_take(in_folder("lock"), "skepd", &lock, &err), 0);
    close(lock);
}

static void the_default_folder_follows_xdg(void **state)
{
    (void)state;
    setenv("XDG_DATA_HOME", "/data", 1);
    char *path = skep_folder_default();
    assert_string_equal(path, "/data/skep");
    free(path);
    unsetenv("XDG_DATA_HOME");
    setenv("HOME", "/home/somebody", 1);
    path = skep_folder_default();
    assert_string_equal(path, "/home/somebody/.local/share/skep");
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_with_its_mode),
        cmocka_unit_test(a_file_above_the_limit_is_refused),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(a_piece_must_lie_inside_the_file),
        cmocka_unit_test(a_full_disk_keeps_the_old_file_and_leaves_nothing_else),
        cmocka_unit_test(folders_are_made_listed_in_order_and_removed_without_following_links),
        cmocka_unit_test(a_file_in_the_way_of_a_folder_is_named),
        cmocka_unit_test(a_lock_is_held_once),
        cmocka_unit_test(the_default_folder_follows_xdg),
    };
    return cmocka_run_group_tests_name("file", tests, make_folder, remove_folder);
}
