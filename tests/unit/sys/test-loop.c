/* The loop: timers in order, signals, helper threads, stopping. */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/sys/clock.h"
#include "common/sys/loop.h"
#include "tests/lib/cmocka.h"

struct scene {
    struct skep_loop *loop;
    char order[16];
    int ticks;
    int signal_number;
    bool flag;
    pthread_t worker;
    pthread_t owner;
};

static void mark_late(void *user)
{
    struct scene *scene = user;
    strcat(scene->order, "l");
    skep_loop_stop(scene->loop);
}

static void mark_early(void *user)
{
    strcat(((struct scene *)user)->order, "e");
}

static void timers_fire_in_order_and_stop_ends_the_run(void **state)
{
    (void)state;
    struct scene scene = {.loop = skep_loop_new()};
    struct skep_timer *late = skep_timer_new(scene.loop, mark_late, &scene);
    struct skep_timer *early = skep_timer_new(scene.loop, mark_early, &scene);
    struct skep_timer *never = skep_timer_new(scene.loop, mark_early, &scene);
    uint64_t began = skep_loop_now_ms(scene.loop);
    skep_timer_start(late, 5, 0);
    skep_timer_start(early, 1, 0);
    skep_timer_start(never, 1, 0);
    skep_timer_stop(never);
    skep_loop_run(scene.loop);
    assert_string_equal(scene.order, "el");
    assert_true(skep_loop_now_ms(scene.loop) >= began + 4);
    skep_timer_free(late);
    skep_timer_free(early);
    skep_loop_free(scene.loop); /* `never` is closed by it */
}

static void tick(void *user)
{
    struct scene *scene = user;
    scene->flag = ++scene->ticks == 3;
}

static void a_repeating_timer_sets_a_flag_that_ends_the_wait(void **state)
{
    (void)state;
    struct scene scene = {.loop = skep_loop_new()};
    struct skep_timer *timer = skep_timer_new(scene.loop, tick, &scene);
    skep_timer_start(timer, 0, 1);
    assert_true(skep_loop_run_until(scene.loop, &scene.flag, 5000));
    assert_int_equal(scene.ticks, 3);
    skep_timer_free(timer);
    skep_loop_free(scene.loop);
}

static void set_flag(void *user)
{
    ((struct scene *)user)->flag = true;
}

/* Timers run before the loop waits: what the last of them sets must end the wait before it begins. */
static void a_flag_set_by_the_last_timer_ends_the_wait_at_once(void **state)
{
    (void)state;
    struct scene scene = {.loop = skep_loop_new()};
    struct skep_timer *timer = skep_timer_new(scene.loop, set_flag, &scene);
    skep_timer_start(timer, 0, 0);
    uint64_t began = skep_clock_monotonic_ms();
    assert_true(skep_loop_run_until(scene.loop, &scene.flag, 20000));
    assert_true(skep_clock_monotonic_ms() < began + 10000);
    skep_timer_free(timer);
    skep_loop_free(scene.loop);
}

static void a_wait_for_nothing_ends_at_its_limit(void **state)
{
    (void)state;
    struct scene scene = {.loop = skep_loop_new()};
    uint64_t began = skep_clock_monotonic_ms();
    assert_false(skep_loop_run_until(scene.loop, &scene.flag, 3));
    assert_true(skep_clock_monotonic_ms() >= began + 2);
    skep_loop_free(scene.loop);
}

static void note_signal(void *user, int signal_number)
{
    struct scene *scene = user;
    scene->signal_number = signal_number;
    skep_loop_stop(scene->loop);
}

static void a_signal_that_stops_a_wait_also_stops_the_next_run(void **state)
{
    (void)state;
    struct scene scene = {.loop = skep_loop_new()};
    skep_loop_on_signal(scene.loop, SIGUSR1, note_signal, &scene);
    kill(getpid(), SIGUSR1);
    assert_false(skep_loop_run_until(scene.loop, &scene.flag, 5000));
    assert_int_equal(scene.signal_number, SIGUSR1);
    skep_loop_run(scene.loop);
    skep_loop_free(scene.loop);
}

static void work_somewhere_else(void *user)
{
    ((struct scene *)user)->worker = pthread_self();
}

static void work_is_done(void *user)
{
    struct scene *scene = user;
    scene->owner = pthread_self();
    scene->flag = true;
}

static void work_runs_on_another_thread_and_is_done_on_ours(void **state)
{
    (void)state;
    struct scene scene = {.loop = skep_loop_new()};
    skep_loop_work(scene.loop, work_somewhere_else, work_is_done, &scene);
    assert_true(skep_loop_run_until(scene.loop, &scene.flag, 5000));
    assert_true(pthread_equal(scene.owner, pthread_self()));
    assert_false(pthread_equal(scene.worker, pthread_self()));
    scene.flag = false;
    skep_loop_work(scene.loop, work_somewhere_else, work_is_done, &scene);
    skep_loop_free(scene.loop);
    assert_true(scene.flag);
}

static void ring(void *user)
{
    skep_async_send(user);
}

static void nothing(void *user)
{
    (void)user;
}

static void a_wake_up_sent_on_another_thread_is_called_back_on_ours(void **state)
{
    (void)state;
    struct scene scene = {.loop = skep_loop_new()};
    struct skep_async *bell = skep_async_new(scene.loop, work_is_done, &scene);
    skep_loop_work(scene.loop, ring, nothing, bell);
    assert_true(skep_loop_run_until(scene.loop, &scene.flag, 5000));
    assert_true(pthread_equal(scene.owner, pthread_self()));
    scene.flag = false;
    skep_async_send(bell);
    skep_async_free(bell);
    assert_false(skep_loop_run_until(scene.loop, &scene.flag, 3));
    skep_async_new(scene.loop, work_is_done, &scene); /* closed by the loop */
    skep_loop_free(scene.loop);
}

static void the_calendar_is_past_the_year_2024(void **state)
{
    (void)state;
    assert_true(skep_clock_unix_s() > 1704067200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_fire_in_order_and_stop_ends_the_run),
        cmocka_unit_test(a_repeating_timer_sets_a_flag_that_ends_the_wait),
        cmocka_unit_test(a_flag_set_by_the_last_timer_ends_the_wait_at_once),
        cmocka_unit_test(a_wait_for_nothing_ends_at_its_limit),
        cmocka_unit_test(a_signal_that_stops_a_wait_also_stops_the_next_run),
        cmocka_unit_test(work_runs_on_another_thread_and_is_done_on_ours),
        cmocka_unit_test(a_wake_up_sent_on_another_thread_is_called_back_on_ours),
        cmocka_unit_test(the_calendar_is_past_the_year_2024),
    };
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
