/* The donor's stamp in its folder: searched for without stopping the loop, kept, and checked when it is read back. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/agent/stamp.h"
#include "common/base/alloc.h"
#include "common/sys/file.h"
#include "tests/lib/cmocka.h"

/* The linker puts this in place of skep_stamp_try(). */
/* NOLINTBEGIN(bugprone-reserved-identifier): the names that the linker's --wrap gives */
int __real_skep_stamp_try(struct skep_stamp_search *search, struct skep_error *err);
int __wrap_skep_stamp_try(struct skep_stamp_search *search, struct skep_error *err);

static atomic_uint wanting; /* tries that find no memory */

int __wrap_skep_stamp_try(struct skep_stamp_search *search, struct skep_error *err)
{
    if (wanting > 0) {
        wanting--;
        return skep_error_set(err, SKEP_ERR_MEMORY, "no 16 MiB can be had");
    }
    return __real_skep_stamp_try(search, err);
}
/* NOLINTEND(bugprone-reserved-identifier) */

struct scene {
    char folder[64];
    struct skep_loop *loop;
    struct skep_stamp_search begun;
};

static int set_up(void **state)
{
    struct scene *scene = skep_alloc(1, sizeof *scene);
    strcpy(scene->folder, "/tmp/skep-stamp-XXXXXX");
    assert_non_null(mkdtemp(scene->folder));
    scene->loop = skep_loop_new();
    skep_stamp_begin(&scene->begun, &(struct skep_project_id){{1}}, &(struct skep_peer_id){{2}}, 2);
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    skep_loop_free(scene->loop);
    skep_folder_remove(scene->folder, NULL);
    free(scene);
    return 0;
}

static void on_found(void *user)
{
    skep_loop_stop(((struct scene *)user)->loop);
}

/* Searched for to the end; the nonce. */
static uint64_t find(struct scene *scene)
{
    uint64_t nonce = 0;
    struct skep_stamper *stamper =
        skep_stamper_open(scene->loop, scene->folder, &scene->begun, on_found, scene);
    if (!skep_stamper_found(stamper, &nonce)) {
        skep_loop_run(scene->loop);
    }
    assert_true(skep_stamper_found(stamper, &nonce));
    skep_stamper_close(stamper);
    return nonce;
}

static void write_stamp(const struct scene *scene, const char *text)
{
    char *path = skep_format("%s/stamp", scene->folder);
    assert_int_equal(skep_file_write(path, 0600, text, strlen(text), NULL), SKEP_OK);
    free(path);
}

static bool is_kept(const struct scene *scene, uint64_t *ret_nonce)
{
    struct skep_stamp_search search = scene->begun;
    skep_stamp_load(scene->folder, &search);
    *ret_nonce = search.nonce;
    return search.found;
}

static void a_stamp_is_found_on_the_loop_and_kept(void **state)
{
    struct scene *scene = *state;
    uint64_t kept = 0;
    assert_false(is_kept(scene, &kept));
    uint64_t nonce = find(scene);
    assert_int_equal(skep_stamp_check(&scene->begun.project, &scene->begun.donor, 2, nonce, NULL),
                     SKEP_OK);
    assert_true(is_kept(scene, &kept));
    assert_int_equal(kept, nonce);
    /* the next time it is there at once: no callback, no run of the loop */
    struct skep_stamper *stamper =
        skep_stamper_open(scene->loop, scene->folder, &scene->begun, NULL, NULL);
    assert_true(skep_stamper_found(stamper, &kept));
    assert_int_equal(kept, nonce);
    skep_stamper_close(stamper);
    /* but another donor's it is not */
    scene->begun.donor.bytes[0]++;
    scene->begun.bits = 14;
    assert_false(is_kept(scene, &kept));
}

static void what_is_no_stamp_is_not_believed(void **state)
{
    struct scene *scene = *state;
    static const char *const texts[] = {"", "\n", "12", "-1\n", "1 2\n", "99999999999999999999\n"};
    uint64_t nonce = 0;
    scene->begun.bits = 14; /* a number would be one by chance once in 16,384 times */
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_stamp(scene, texts[i]);
        assert_false(is_kept(scene, &nonce));
    }
}

static void a_search_can_be_given_up_in_the_middle(void **state)
{
    struct scene *scene = *state;
    uint64_t nonce = 0;
    scene->begun.bits = 20;
    struct skep_stamper *stamper =
        skep_stamper_open(scene->loop, scene->folder, &scene->begun, on_found, scene);
    assert_false(skep_stamper_found(stamper, &nonce));
    skep_stamper_close(stamper); /* freed once the try under way has ended: skep_loop_free() */
    assert_false(skep_stamper_found(NULL, &nonce));
    skep_stamper_close(NULL);
}

static void a_search_without_memory_goes_on_later(void **state)
{
    struct scene *scene = *state;
    uint64_t nonce = 0;
    wanting = 3;
    struct skep_stamper *stamper =
        skep_stamper_open(scene->loop, scene->folder, &scene->begun, on_found, scene);
    struct skep_timer *timer = skep_timer_new(scene->loop, skep_stamper_retry, stamper);
    skep_timer_start(timer, 1, 1); /* in place of the minute's */
    skep_loop_run(scene->loop);
    assert_int_equal(wanting, 0);
    assert_true(skep_stamper_found(stamper, &nonce));
    assert_int_equal(skep_stamp_check(&scene->begun.project, &scene->begun.donor, 2, nonce, NULL),
                     SKEP_OK);
    skep_timer_free(timer);
    skep_stamper_close(stamper);
}

static void a_search_that_waits_for_memory_can_be_given_up(void **state)
{
    struct scene *scene = *state;
    uint64_t nonce = 0;
    bool never = false;
    wanting = 1;
    struct skep_stamper *stamper =
        skep_stamper_open(scene->loop, scene->folder, &scene->begun, on_found, scene);
    while (wanting > 0) {
        (void)skep_loop_run_until(scene->loop, &never, 1);
    }
    assert_false(skep_stamper_found(stamper, &nonce));
    skep_stamper_close(stamper);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_stamp_is_found_on_the_loop_and_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_stamp_is_not_believed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_search_can_be_given_up_in_the_middle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_search_without_memory_goes_on_later, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_search_that_waits_for_memory_can_be_given_up, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
