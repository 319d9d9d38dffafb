/* The order in which experts are computed: a queue and no threads. */
#include "server/experts-queue.h"
#include "tests/lib/cmocka.h"

/* Two experts; only their addresses count. */
static char places[2];
#define EXPERT(i) ((struct skep_remote_parameters *)(void *)&places[i])

struct scene {
    struct skep_remote_queue queue;
    struct skep_remote_task tasks[16];
    size_t count;
};

static void scene_init(struct scene *scene)
{
    *scene = (struct scene){.queue.limit = 16};
}

static struct skep_remote_task *come(struct scene *scene, enum skep_remote_pass pass, int expert,
                                     size_t rows)
{
    struct skep_remote_task *task = &scene->tasks[scene->count++];
    *task = (struct skep_remote_task){.pass = pass, .parameters = EXPERT(expert), .rows = rows};
    assert_true(skep_remote_queue_push(&scene->queue, task, 1));
    return task;
}

/* Takes a batch and checks that it is exactly these tasks (by their places), in this order. */
static void takes(struct scene *scene, size_t rows, const int *places_of_tasks, size_t count)
{
    const struct skep_remote_task *task = skep_remote_queue_take(&scene->queue, rows);
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(task, &scene->tasks[places_of_tasks[i]]);
        task = task->next;
    }
    assert_null(task);
}
#define TAKES(scene, rows, ...)                                                                    \
    takes(scene, rows, (const int[]){__VA_ARGS__}, sizeof((int[]){__VA_ARGS__}) / sizeof(int))

static void the_oldest_goes_first_with_all_of_its_kind(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    come(&scene, SKEP_REMOTE_FORWARD, 0, 10);  /* 0 */
    come(&scene, SKEP_REMOTE_FORWARD, 1, 10);  /* 1 */
    come(&scene, SKEP_REMOTE_BACKWARD, 0, 10); /* 2 */
    come(&scene, SKEP_REMOTE_FORWARD, 0, 10);  /* 3 */
    come(&scene, SKEP_REMOTE_FORWARD, 0, 10);  /* 4 */
    TAKES(&scene, 100, 0, 3, 4);
    assert_int_equal(scene.queue.count, 2);
    TAKES(&scene, 100, 1);
    TAKES(&scene, 100, 2);
    assert_null(skep_remote_queue_take(&scene.queue, 100));
    assert_int_equal(scene.queue.count, 0);
}

static void a_batch_ends_before_the_one_that_does_not_fit(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    come(&scene, SKEP_REMOTE_FORWARD, 0, 60); /* 0 */
    come(&scene, SKEP_REMOTE_FORWARD, 0, 50); /* 1: too large now, and it is not overtaken */
    come(&scene, SKEP_REMOTE_FORWARD, 0, 10); /* 2 */
    TAKES(&scene, 100, 0);
    TAKES(&scene, 100, 1, 2);
}

static void one_that_is_larger_than_a_batch_goes_alone(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    come(&scene, SKEP_REMOTE_FORWARD, 0, 500);
    come(&scene, SKEP_REMOTE_FORWARD, 0, 1);
    TAKES(&scene, 100, 0);
    TAKES(&scene, 100, 1);
}

static void updates_go_one_by_one(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    come(&scene, SKEP_REMOTE_UPDATE, 0, 0);
    come(&scene, SKEP_REMOTE_UPDATE, 0, 0);
    TAKES(&scene, 100, 0);
    TAKES(&scene, 100, 1);
}

static void what_comes_after_a_batch_still_goes_to_the_end(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    come(&scene, SKEP_REMOTE_FORWARD, 0, 1); /* 0 */
    come(&scene, SKEP_REMOTE_FORWARD, 1, 1); /* 1 */
    come(&scene, SKEP_REMOTE_FORWARD, 0, 1); /* 2: the last leaves with the first */
    TAKES(&scene, 100, 0, 2);
    come(&scene, SKEP_REMOTE_BACKWARD, 0, 1); /* 3 */
    come(&scene, SKEP_REMOTE_FORWARD, 1, 1);  /* 4 */
    TAKES(&scene, 100, 1, 4);
    TAKES(&scene, 100, 3);
}

static void a_request_that_does_not_fit_whole_does_not_wait_in_part(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.queue.limit = 3;
    for (int i = 0; i < 4; i++) {
        scene.tasks[i] =
            (struct skep_remote_task){.pass = SKEP_REMOTE_FORWARD, .parameters = EXPERT(i % 2)};
    }
    assert_true(skep_remote_queue_push(&scene.queue, scene.tasks, 2));
    assert_false(skep_remote_queue_push(&scene.queue, scene.tasks + 2, 2));
    assert_int_equal(scene.queue.count, 2);
    TAKES(&scene, 100, 0);
    assert_true(skep_remote_queue_push(&scene.queue, scene.tasks + 2, 2));
    TAKES(&scene, 100, 1, 3);
    TAKES(&scene, 100, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_goes_first_with_all_of_its_kind),
        cmocka_unit_test(a_batch_ends_before_the_one_that_does_not_fit),
        cmocka_unit_test(one_that_is_larger_than_a_batch_goes_alone),
        cmocka_unit_test(updates_go_one_by_one),
        cmocka_unit_test(what_comes_after_a_batch_still_goes_to_the_end),
        cmocka_unit_test(a_request_that_does_not_fit_whole_does_not_wait_in_part),
    };
    return cmocka_run_group_tests_name("experts-queue", tests, NULL, NULL);
}
