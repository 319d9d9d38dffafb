/* Child processes, with /bin/sh as the child. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/sys/file.h"
#include "common/sys/process.h"
#include "tests/lib/cmocka.h"

struct scene {
    struct skep_loop *loop;
    struct skep_process *process;
    char lines[256];
    int exits;
    int status;
    bool over;
};

static int open_scene(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    scene->loop = skep_loop_new();
    *state = scene;
    return 0;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    skep_process_free(scene->process);
    skep_loop_free(scene->loop);
    free(scene);
    return 0;
}

static void note_line(void *user, const char *line)
{
    struct scene *scene = user;
    if (strlen(scene->lines) + strlen(line) + 2 < sizeof scene->lines) {
        strcat(strcat(scene->lines, line), "|");
    }
}

static void note_exit(void *user, int status)
{
    struct scene *scene = user;
    scene->exits++;
    scene->status = status;
    scene->over = true;
}

static void start_shell(struct scene *scene, const char *script, const char *const *environment,
                        const char *stderr_path)
{
    struct skep_error err = {0};
    const char *const arguments[] = {"/bin/sh", "-c", script, NULL};
    struct skep_process_options options = {
        .arguments = arguments,
        .environment = environment,
        .stderr_path = stderr_path,
        .on_line = note_line,
        .on_exit = note_exit,
        .user = scene,
    };
    assert_int_equal(skep_process_start(scene->loop, &options, &scene->process, &err), 0);
    assert_true(skep_process_running(scene->process));
}

static void lines_come_before_the_exit_status(void **state)
{
    struct scene *scene = *state;
    start_shell(scene, "echo one; echo; printf 'last, no newline'; exit 3", NULL, NULL);
    assert_true(skep_loop_run_until(scene->loop, &scene->over, 10000));
    assert_string_equal(scene->lines, "one||last, no newline|");
    assert_int_equal(scene->status, 3);
    assert_int_equal(scene->exits, 1);
    assert_false(skep_process_running(scene->process));
}

static void settings_are_added_to_our_environment_and_replace_it(void **state)
{
    struct scene *scene = *state;
    const char *const extra[] = {"SKEP_A=new", "SKEP_B=b", NULL};
    setenv("SKEP_A", "old", 1);
    setenv("SKEP_AB", "kept", 1);
    start_shell(scene, "echo $SKEP_A $SKEP_B $SKEP_AB", extra, NULL);
    assert_true(skep_loop_run_until(scene->loop, &scene->over, 10000));
    assert_string_equal(scene->lines, "new b kept|");
}

static void a_signal_ends_a_child_and_is_told(void **state)
{
    struct scene *scene = *state;
    start_shell(scene, "exec tail -f /dev/null", NULL, NULL);
    assert_true(skep_process_id(scene->process) > 0);
    skep_process_signal(scene->process, SIGTERM);
    assert_true(skep_loop_run_until(scene->loop, &scene->over, 10000));
    assert_int_equal(scene->status, -SIGTERM);
}

static void a_grandchild_that_keeps_the_output_open_does_not_hide_the_end(void **state)
{
    struct scene *scene = *state;
    start_shell(scene, "tail -f /dev/null & echo $!", NULL, NULL);
    assert_true(skep_loop_run_until(scene->loop, &scene->over, 10000));
    long grandchild = strtol(scene->lines, NULL, 10);
    assert_true(grandchild > 1);
    assert_int_equal(kill((pid_t)grandchild, SIGKILL), 0);
    assert_int_equal(scene->status, 0);
}

static void a_freed_child_is_killed_and_says_nothing(void **state)
{
    struct scene *scene = *state;
    start_shell(scene, "exec tail -f /dev/null", NULL, NULL);
    pid_t id = skep_process_id(scene->process);
    skep_process_free(scene->process);
    scene->process = NULL;
    skep_loop_free(scene->loop); /* waits for its end */
    scene->loop = skep_loop_new();
    assert_int_equal(scene->exits, 0);
    assert_int_equal(kill(id, 0), -1);
}

static void free_at_exit(void *user, int status)
{
    struct scene *scene = user;
    note_exit(user, status);
    skep_process_free(scene->process);
    scene->process = NULL;
}

static void an_exit_callback_may_free_the_process(void **state)
{
    struct scene *scene = *state;
    const char *const arguments[] = {"true", NULL};
    struct skep_process_options options = {
        .arguments = arguments, .on_line = note_line, .on_exit = free_at_exit, .user = scene};
    assert_int_equal(skep_process_start(scene->loop, &options, &scene->process, NULL), 0);
    assert_true(skep_loop_run_until(scene->loop, &scene->over, 10000));
    assert_int_equal(scene->status, 0);
    assert_null(scene->process);
}

static void free_at_line(void *user, const char *line)
{
    struct scene *scene = user;
    note_line(user, line);
    skep_process_free(scene->process);
    scene->process = NULL;
    scene->over = true;
}

static void a_line_callback_may_free_the_process(void **state)
{
    struct scene *scene = *state;
    const char *const arguments[] = {"sh", "-c", "echo one; echo two", NULL};
    struct skep_process_options options = {
        .arguments = arguments, .on_line = free_at_line, .on_exit = note_exit, .user = scene};
    assert_int_equal(skep_process_start(scene->loop, &options, &scene->process, NULL), 0);
    assert_true(skep_loop_run_until(scene->loop, &scene->over, 10000));
    assert_string_equal(scene->lines, "one|");
    assert_int_equal(scene->exits, 0);
}

static void a_program_that_is_not_there_is_named(void **state)
{
    struct scene *scene = *state;
    struct skep_error err = {0};
    const char *const arguments[] = {"/nowhere/skep-worker", NULL};
    struct skep_process_options options = {
        .arguments = arguments, .on_line = note_line, .on_exit = note_exit, .user = scene};
    assert_int_equal(skep_process_start(scene->loop, &options, &scene->process, &err),
                     SKEP_ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "cannot start /nowhere/skep-worker"));
    assert_null(scene->process);
}

static void errors_are_appended_to_the_file(void **state)
{
    struct scene *scene = *state;
    char path[] = "/tmp/skep-test-process-XXXXXX";
    struct skep_buffer text = {0};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "before ", 7), 7);
    close(fd);
    start_shell(scene, "echo trouble >&2", NULL, path);
    assert_true(skep_loop_run_until(scene->loop, &scene->over, 10000));
    assert_int_equal(skep_file_read(path, 100, &text, NULL), 0);
    assert_string_equal((char *)text.data, "before trouble\n");
    skep_buffer_done(&text);
    unlink(path);
}

static void a_child_started_apart_leads_its_own_group_and_knows_whom_to_follow(void **state)
{
    struct scene *scene = *state;
    const char *const arguments[] = {
        "sh", "-c",
        "read -r pid name state parent group rest </proc/$$/stat; "
        "[ $group = $$ ] && echo leads; [ $SKEP_PARENT = $PPID ] && echo follows",
        NULL};
    struct skep_process_options options = {.arguments = arguments,
                                           .on_line = note_line,
                                           .on_exit = note_exit,
                                           .user = scene,
                                           .apart = true};
    assert_int_equal(skep_process_start(scene->loop, &options, &scene->process, NULL), 0);
    assert_true(skep_loop_run_until(scene->loop, &scene->over, 10000));
    assert_string_equal(scene->lines, "leads|follows|");
}

static volatile sig_atomic_t ended;

static void note_end(int number)
{
    (void)number;
    ended++;
}

static void whoever_started_us_is_asked_about_once(void **state)
{
    (void)state;
    char parent[32];
    snprintf(parent, sizeof parent, "%ld", (long)getppid());
    setenv("SKEP_PARENT", parent, 1);
    skep_process_follow();
    assert_null(getenv("SKEP_PARENT"));
    skep_process_follow(); /* no effect without it */
    ended = 0;
    signal(SIGTERM, note_end);
    setenv("SKEP_PARENT", "1999999999", 1); /* no such process: it has ended before we could ask */
    skep_process_follow();
    signal(SIGTERM, SIG_DFL);
    assert_int_equal(ended, 1);
}

static void programs_are_found_beside_us_or_left_to_the_path(void **state)
{
    (void)state;
    char *own = skep_process_own_folder();
    char *found = skep_process_find("test-process");
    assert_int_equal(strncmp(found, own, strlen(own)), 0);
    assert_string_equal(found + strlen(own), "/test-process");
    free(found);
    found = skep_process_find("no-such-program");
    assert_string_equal(found, "no-such-program");
    free(found);
    free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_come_before_the_exit_status, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(settings_are_added_to_our_environment_and_replace_it,
                                        open_scene, close_scene),
        cmocka_unit_test_setup_teardown(a_signal_ends_a_child_and_is_told, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(
            a_grandchild_that_keeps_the_output_open_does_not_hide_the_end, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(a_freed_child_is_killed_and_says_nothing, open_scene,
                                        close_scene),
        cmocka_unit_test_setup_teardown(an_exit_callback_may_free_the_process, open_scene,
                                        close_scene),
        cmocka_unit_test_setup_teardown(a_line_callback_may_free_the_process, open_scene,
                                        close_scene),
        cmocka_unit_test_setup_teardown(a_program_that_is_not_there_is_named, open_scene,
                                        close_scene),
        cmocka_unit_test_setup_teardown(errors_are_appended_to_the_file, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(
            a_child_started_apart_leads_its_own_group_and_knows_whom_to_follow, open_scene,
            close_scene),
        cmocka_unit_test(whoever_started_us_is_asked_about_once),
        cmocka_unit_test(programs_are_found_beside_us_or_left_to_the_path),
    };
    return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
