/* Deadlines of a server's visitors, with time passed in and socket pairs in place of clients. */
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/sys/visits.h"
#include "tests/lib/cmocka.h"

#define COUNT 3

struct scene {
    struct skep_visits visits;
    struct skep_visit *visit[COUNT];
    int far[COUNT]; /* the client's end of each socket */
};

static int open_scene(void **state)
{
    static struct scene scene;
    scene = (struct scene){.visits = {.patience_ms = 10000}};
    for (int i = 0; i < COUNT; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
            return 1;
        }
        scene.far[i] = pair[1];
        scene.visit[i] = skep_visits_add(&scene.visits, pair[0], 1000);
    }
    *state = &scene;
    return 0;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < COUNT; i++) {
        close(scene->far[i]);
    }
    while (scene->visits.first != NULL) {
        close(scene->visits.first->fd);
        skep_visits_remove(&scene->visits, scene->visits.first);
    }
    return 0;
}

static bool hung_up(const struct scene *scene, int i)
{
    char byte;
    return recv(scene->far[i], &byte, 1, MSG_DONTWAIT) == 0;
}

static void headers_that_drip_are_cut_at_twice_the_patience(void **state)
{
    struct scene *scene = *state;
    skep_visit_expect_headers(&scene->visits, scene->visit[1], 3000);
    skep_visits_sweep(&scene->visits, 21000);
    assert_false(hung_up(scene, 0));
    skep_visits_sweep(&scene->visits, 22001);
    assert_true(hung_up(scene, 0));
    assert_false(hung_up(scene, 1));
    assert_true(hung_up(scene, 2));
}

static void bytes_have_the_patience_and_a_millisecond_each(void **state)
{
    struct scene *scene = *state;
    skep_visit_expect_bytes(&scene->visits, scene->visit[0], 50000, 2000);
    skep_visit_expect_bytes(&scene->visits, scene->visit[1], 60000, 2000);
    skep_visits_sweep(&scene->visits, 62001);
    assert_true(hung_up(scene, 0));
    assert_false(hung_up(scene, 1));
}

static void a_sweep_comes_at_most_once_a_second(void **state)
{
    struct scene *scene = *state;
    skep_visits_sweep(&scene->visits, 20500);
    skep_visits_sweep(&scene->visits, 21499);
    assert_false(hung_up(scene, 0));
    skep_visits_sweep(&scene->visits, 21500);
    assert_true(hung_up(scene, 0));
}

static void who_has_left_is_not_looked_at(void **state)
{
    struct scene *scene = *state;
    int fd = scene->visit[1]->fd;
    skep_visits_remove(&scene->visits, scene->visit[1]);
    skep_visits_sweep(&scene->visits, 99999);
    assert_false(hung_up(scene, 1));
    assert_true(hung_up(scene, 0));
    assert_true(hung_up(scene, 2));
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(headers_that_drip_are_cut_at_twice_the_patience, open_scene,
                                        close_scene),
        cmocka_unit_test_setup_teardown(bytes_have_the_patience_and_a_millisecond_each, open_scene,
                                        close_scene),
        cmocka_unit_test_setup_teardown(a_sweep_comes_at_most_once_a_second, open_scene,
                                        close_scene),
        cmocka_unit_test_setup_teardown(who_has_left_is_not_looked_at, open_scene, close_scene),
    };
    return cmocka_run_group_tests_name("visits", tests, NULL, NULL);
}
