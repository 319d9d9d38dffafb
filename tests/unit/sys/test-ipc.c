/* The control socket, with the caller on a helper thread of the loop that listens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/sys/file.h"
#include "common/sys/ipc.h"
#include "tests/lib/cmocka.h"

struct scene {
    char folder[64];
    char path[96];
    struct skep_loop *loop;
    struct skep_ipc_server *server;
    const char *request;
    uint64_t timeout_ms;
    int result;
    struct skep_buffer answer;
    struct skep_error err;
    bool done;
    size_t answer_size; /* 0: the request comes back */
};

static int open_scene(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    strcpy(scene->folder, "/tmp/skep-test-ipc-XXXXXX");
    if (mkdtemp(scene->folder) == NULL) {
        return 1;
    }
    snprintf(scene->path, sizeof scene->path, "%s/socket", scene->folder);
    scene->loop = skep_loop_new();
    scene->timeout_ms = 10000;
    *state = scene;
    return 0;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    skep_ipc_server_close(scene->server);
    skep_loop_free(scene->loop);
    skep_folder_remove(scene->folder, NULL);
    skep_buffer_done(&scene->answer);
    free(scene);
    return 0;
}

static void reply(void *user, const char *request, size_t size, struct skep_buffer *ret_answer)
{
    struct scene *scene = user;
    assert_int_equal(strlen(request), size);
    for (size_t i = 0; i < scene->answer_size; i++) {
        skep_buffer_append_u8(ret_answer, 'x');
    }
    if (scene->answer_size == 0) {
        skep_buffer_append_text(ret_answer, "got ");
        skep_buffer_append(ret_answer, request, size);
    }
}

static void call(void *user)
{
    struct scene *scene = user;
    scene->result =
        skep_ipc_call(scene->path, scene->request, scene->timeout_ms, &scene->answer, &scene->err);
}

static void call_done(void *user)
{
    ((struct scene *)user)->done = true;
}

static void ask(struct scene *scene, const char *request)
{
    skep_buffer_done(&scene->answer);
    scene->request = request;
    scene->done = false;
    skep_loop_work(scene->loop, call, call_done, scene);
    assert_true(skep_loop_run_until(scene->loop, &scene->done, 20000));
}

static void listen_there(struct scene *scene)
{
    assert_int_equal(
        skep_ipc_server_open(scene->loop, scene->path, reply, scene, &scene->server, &scene->err),
        0);
}

static void a_request_gets_its_answer_again_and_again(void **state)
{
    struct scene *scene = *state;
    struct stat info;
    listen_there(scene);
    assert_int_equal(stat(scene->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    for (int i = 0; i < 3; i++) {
        ask(scene, "{\"what\":\"status\"}");
        assert_int_equal(scene->result, 0);
        assert_string_equal((char *)scene->answer.data, "got {\"what\":\"status\"}");
    }
}

static void large_answers_arrive_whole(void **state)
{
    struct scene *scene = *state;
    listen_there(scene);
    scene->answer_size = 3000000;
    ask(scene, "much");
    assert_int_equal(scene->result, 0);
    assert_int_equal(scene->answer.size, 3000000);
}

static void a_request_above_the_limit_is_hung_up_on(void **state)
{
    struct scene *scene = *state;
    char *large = calloc(1, SKEP_IPC_REQUEST + 2);
    memset(large, 'a', SKEP_IPC_REQUEST + 1);
    listen_there(scene);
    ask(scene, large);
    assert_int_equal(scene->result, SKEP_ERR_NETWORK);
    assert_non_null(strstr(scene->err.text, "hung up"));
    ask(scene, "still there");
    assert_int_equal(scene->result, 0);
    free(large);
}

static void nobody_listening_is_said(void **state)
{
    struct scene *scene = *state;
    ask(scene, "hello");
    assert_int_equal(scene->result, SKEP_ERR_NOT_FOUND);
    assert_non_null(strstr(scene->err.text, scene->path));
}

/* A socket bound to the scene's path; listening or, like a crashed program's, not. */
static int foreign_socket(struct scene *scene, bool listening)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, scene->path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    if (listening) {
        assert_int_equal(listen(fd, 1), 0);
    }
    return fd;
}

static void a_silent_listener_is_not_waited_for_longer_than_asked(void **state)
{
    struct scene *scene = *state;
    int fd = foreign_socket(scene, true);
    scene->timeout_ms = 5;
    ask(scene, "hello");
    assert_int_equal(scene->result, SKEP_ERR_NETWORK);
    assert_non_null(strstr(scene->err.text, "did not answer in time"));
    close(fd);
}

static void a_socket_left_by_a_crash_is_replaced(void **state)
{
    struct scene *scene = *state;
    close(foreign_socket(scene, false));
    listen_there(scene);
    ask(scene, "hello");
    assert_int_equal(scene->result, 0);
}

static void a_socket_in_use_or_another_file_is_left_alone(void **state)
{
    struct scene *scene = *state;
    int fd = foreign_socket(scene, true);
    assert_int_equal(
        skep_ipc_server_open(scene->loop, scene->path, reply, scene, &scene->server, &scene->err),
        SKEP_ERR_IN_USE);
    close(fd);
    unlink(scene->path);
    assert_int_equal(skep_file_write(scene->path, 0600, "mine", 4, NULL), 0);
    assert_int_equal(
        skep_ipc_server_open(scene->loop, scene->path, reply, scene, &scene->server, &scene->err),
        SKEP_ERR_IN_USE);
    assert_non_null(strstr(scene->err.text, "is in the way"));
    assert_int_equal(skep_file_size(scene->path), 4);
}

static void a_path_too_long_for_a_socket_is_refused(void **state)
{
    struct scene *scene = *state;
    char path[300];
    memset(path, 'p', sizeof path);
    path[sizeof path - 1] = 0;
    assert_int_equal(
        skep_ipc_server_open(scene->loop, path, reply, scene, &scene->server, &scene->err),
        SKEP_ERR_ARGUMENT);
    assert_int_equal(skep_ipc_call(path, "x", 1, &scene->answer, &scene->err), SKEP_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_gets_its_answer_again_and_again, open_scene,
                                        close_scene),
        cmocka_unit_test_setup_teardown(large_answers_arrive_whole, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(a_request_above_the_limit_is_hung_up_on, open_scene,
                                        close_scene),
        cmocka_unit_test_setup_teardown(nobody_listening_is_said, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(a_silent_listener_is_not_waited_for_longer_than_asked,
                                        open_scene, close_scene),
        cmocka_unit_test_setup_teardown(a_socket_left_by_a_crash_is_replaced, open_scene,
                                        close_scene),
        cmocka_unit_test_setup_teardown(a_socket_in_use_or_another_file_is_left_alone, open_scene,
                                        close_scene),
        cmocka_unit_test_setup_teardown(a_path_too_long_for_a_socket_is_refused, open_scene,
                                        close_scene),
    };
    return cmocka_run_group_tests_name("ipc", tests, NULL, NULL);
}
