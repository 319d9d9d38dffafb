/* Bytes by their hash: what is stored comes back, and nothing else does. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "common/crypto/hash.h"
#include "common/store/blobs.h"
#include "common/sys/file.h"
#include "tests/lib/cmocka.h"

struct fixture {
    char folder[64];
    struct skep_blobs *blobs;
};

static int set_up(void **state)
{
    struct fixture *fixture = skep_alloc(1, sizeof *fixture);
    strcpy(fixture->folder, "/tmp/skep-blobs-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    assert_int_equal(skep_blobs_open(fixture->folder, &fixture->blobs, NULL), SKEP_OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    skep_blobs_close(fixture->blobs);
    skep_folder_remove(fixture->folder, NULL);
    free(fixture);
    return 0;
}

static void what_is_stored_comes_back(void **state)
{
    struct fixture *fixture = *state;
    struct skep_hash hash;
    assert_int_equal(skep_blobs_put(fixture->blobs, "honey", 5, NULL, &hash, NULL), SKEP_OK);
    assert_int_equal(skep_blobs_put(fixture->blobs, "honey", 5, &hash, NULL, NULL), SKEP_OK);
    assert_true(skep_blobs_has(fixture->blobs, &hash));
    struct skep_buffer data = {0};
    assert_int_equal(skep_blobs_get(fixture->blobs, &hash, &data, NULL), SKEP_OK);
    assert_int_equal(data.size, 5);
    assert_memory_equal(data.data, "honey", 5);
    skep_buffer_done(&data);
    skep_blobs_remove(fixture->blobs, &hash);
    assert_int_equal(skep_blobs_get(fixture->blobs, &hash, &data, NULL), SKEP_ERR_NOT_FOUND);
}

static void bytes_with_another_hash_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct skep_hash promised = skep_hash_of("honey", 5);
    struct skep_error err = {0};
    assert_int_equal(skep_blobs_put(fixture->blobs, "money", 5, &promised, NULL, &err),
                     SKEP_ERR_HASH);
    assert_non_null(strstr(err.text, skep_id_text(promised.bytes)));
    assert_false(skep_blobs_has(fixture->blobs, &promised));
}

static void a_file_that_the_disk_changed_is_found_out_and_can_be_stored_again(void **state)
{
    struct fixture *fixture = *state;
    struct skep_hash hash;
    assert_int_equal(skep_blobs_put(fixture->blobs, "honey", 5, NULL, &hash, NULL), SKEP_OK);
    char *path =
        skep_format("%s/%02x/%s", fixture->folder, hash.bytes[0], skep_id_text(hash.bytes));
    assert_int_equal(skep_file_write(path, 0600, "hone?", 5, NULL), SKEP_OK);
    struct skep_buffer data = {0};
    assert_int_equal(skep_blobs_get(fixture->blobs, &hash, &data, NULL), SKEP_ERR_HASH);
    assert_int_equal(skep_blobs_put(fixture->blobs, "honey", 5, &hash, NULL, NULL), SKEP_OK);
    assert_int_equal(skep_blobs_get(fixture->blobs, &hash, &data, NULL), SKEP_OK);
    skep_buffer_done(&data);
    free(path);
}

static void what_a_crash_left_unfinished_is_removed_at_the_next_start(void **state)
{
    struct fixture *fixture = *state;
    struct skep_hash hash;
    assert_int_equal(skep_blobs_put(fixture->blobs, "honey", 5, NULL, &hash, NULL), SKEP_OK);
    char *left = skep_format("%s/%02x/left" SKEP_FILE_UNFINISHED, fixture->folder, hash.bytes[0]);
    char *young = skep_format("%s/%02x/young" SKEP_FILE_UNFINISHED, fixture->folder, hash.bytes[0]);
    assert_int_equal(skep_file_write(left, 0600, "hon", 3, NULL), SKEP_OK);
    assert_int_equal(skep_file_write(young, 0600, "hon", 3, NULL), SKEP_OK);
    assert_int_equal(utimensat(AT_FDCWD, left, (struct timespec[2]){{1, 0}, {1, 0}}, 0), 0);
    skep_blobs_close(fixture->blobs);
    assert_int_equal(skep_blobs_open(fixture->folder, &fixture->blobs, NULL), SKEP_OK);
    assert_false(skep_file_exists(left));
    assert_true(skep_file_exists(young)); /* somebody may be writing it */
    assert_true(skep_blobs_has(fixture->blobs, &hash));
    free(left);
    free(young);
}

static void a_full_disk_leaves_nothing_under_the_hash(void **state)
{
    struct fixture *fixture = *state;
    struct skep_hash hash = skep_hash_of("honey", 5);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        struct rlimit limit = {3, 3};
        setrlimit(RLIMIT_FSIZE, &limit);
        struct skep_error err = {0};
        int result = skep_blobs_put(fixture->blobs, "honey", 5, &hash, NULL, &err);
        _exit(result == SKEP_ERR_FULL && err.text[0] != 0 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_false(skep_blobs_has(fixture->blobs, &hash));
    assert_int_equal(skep_blobs_put(fixture->blobs, "honey", 5, &hash, NULL, NULL), SKEP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_stored_comes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bytes_with_another_hash_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_file_that_the_disk_changed_is_found_out_and_can_be_stored_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_crash_left_unfinished_is_removed_at_the_next_start,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_leaves_nothing_under_the_hash, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
