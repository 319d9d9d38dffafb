/* The HTTP client against our server, and against peers that misbehave. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/cmocka.h"
#include "tests/unit/sys/http-scene.h"

static void the_pinned_key_is_accepted_and_the_connection_kept(void **state)
{
    struct http_scene *scene = *state;
    for (int i = 0; i < 20; i++) {
        http_ask(scene);
        assert_int_equal(scene->result, 0);
        assert_int_equal(scene->status, 200);
    }
    assert_int_equal(scene->handled, 20);
}

/* Also when a connection that was opened without a pin is still there to be reused. */
static void another_key_is_refused_by_name(void **state)
{
    struct http_scene *scene = *state;
    struct skep_hash wrong = scene->pin;
    char expected[100];
    wrong.bytes[31] ^= 1;
    snprintf(expected, sizeof expected, "127.0.0.1:%u shows another key than its record",
             scene->request.port);
    for (int i = 0; i < 2; i++) {
        scene->request.pin = &wrong;
        http_ask(scene);
        assert_int_equal(scene->result, SKEP_ERR_NETWORK);
        assert_string_equal(scene->err.text, expected);
        assert_int_equal(scene->handled, i);
        scene->request.pin = NULL;
        http_ask(scene);
        assert_int_equal(scene->result, 0);
    }
}

static void the_blocking_call(void *user)
{
    struct http_scene *scene = user;
    struct skep_http_client *client = skep_http_client_new(NULL, 1);
    for (int i = 0; i < 5 && scene->result == 0; i++) {
        struct skep_http_answer answer = {0};
        scene->result = skep_http_call(client, &scene->request, &answer, &scene->err);
        scene->status = answer.status;
        skep_http_answer_done(&answer);
    }
    skep_http_client_free(client);
}

static void call_is_done(void *user)
{
    ((struct http_scene *)user)->done = true;
}

static void blocking_calls_check_the_key_too(void **state)
{
    struct http_scene *scene = *state;
    skep_loop_work(scene->loop, the_blocking_call, call_is_done, scene);
    assert_true(skep_loop_run_until(scene->loop, &scene->done, 20000));
    assert_int_equal(scene->result, 0);
    assert_int_equal(scene->status, 200);
    assert_int_equal(scene->handled, 5);
    scene->done = false;
    scene->pin.bytes[0] ^= 1;
    skep_loop_work(scene->loop, the_blocking_call, call_is_done, scene);
    assert_true(skep_loop_run_until(scene->loop, &scene->done, 20000));
    assert_int_equal(scene->result, SKEP_ERR_NETWORK);
    assert_non_null(strstr(scene->err.text, "shows another key"));
}

static void an_answer_above_its_limit_is_refused(void **state)
{
    struct http_scene *scene = *state;
    scene->request.path = "/bytes";
    scene->request.limit = 10;
    http_ask(scene);
    assert_int_equal(scene->result, 0);
    scene->request.limit = 9;
    http_ask(scene);
    assert_int_equal(scene->result, SKEP_ERR_TOO_LARGE);
    assert_non_null(strstr(scene->err.text, "more than the 9 bytes allowed"));
    assert_true(scene->body.size <= 9);
}

static void proxies_of_the_environment_are_ignored(void **state)
{
    struct http_scene *scene = *state;
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
    http_ask(scene);
    unsetenv("http_proxy");
    unsetenv("ALL_PROXY");
    assert_int_equal(scene->result, 0);
}

struct count {
    struct http_scene *scene;
    int answers;
    int cancelled;
    bool all;
};

static void count_answer(void *user, int result, const struct skep_http_answer *answer,
                         const struct skep_error *err)
{
    struct count *count = user;
    (void)answer;
    (void)err;
    count->answers += result == 0;
    count->cancelled += result == SKEP_ERR_CANCELLED;
    count->all = count->answers == 50;
}

static void more_requests_than_may_run_at_once_are_all_answered(void **state)
{
    struct http_scene *scene = *state;
    struct count count = {.scene = scene};
    for (int i = 0; i < 50; i++) {
        skep_http_send(scene->client, &scene->request, count_answer, &count);
    }
    assert_true(skep_loop_run_until(scene->loop, &count.all, 20000));
    assert_int_equal(scene->handled, 50);
}

static void freeing_cancels_what_runs_and_what_waits(void **state)
{
    struct http_scene *scene = *state;
    struct count count = {.scene = scene};
    for (int i = 0; i < 10; i++) {
        skep_http_send(scene->client, &scene->request, count_answer, &count);
    }
    skep_loop_run_until(scene->loop, &count.all, 0);
    skep_http_client_free(scene->client);
    scene->client = NULL;
    assert_int_equal(count.answers + count.cancelled, 10);
    assert_true(count.cancelled > 0);
}

/* A peer of our own making: takes one connection, reads a request, says `text` and hangs up. */
struct peer {
    int listener;
    const char *text;
};

static struct peer peer_open(struct http_scene *scene)
{
    struct peer peer = {.listener = socket(AF_INET, SOCK_STREAM, 0)};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    assert_int_equal(bind(peer.listener, (struct sockaddr *)&address, size), 0);
    listen(peer.listener, 5);
    getsockname(peer.listener, (struct sockaddr *)&address, &size);
    scene->request.port = ntohs(address.sin_port);
    return peer;
}

static void serve_once(void *user)
{
    struct peer *peer = user;
    char request[4096];
    int fd = accept(peer->listener, NULL, NULL);
    if (recv(fd, request, sizeof request, 0) > 0) {
        send(fd, peer->text, strlen(peer->text), MSG_NOSIGNAL);
    }
    close(fd);
}

static void nothing_more(void *user)
{
    (void)user;
}

static void an_answer_that_is_cut_off_hands_over_what_came(void **state)
{
    struct http_scene *scene = *state;
    struct peer peer = peer_open(scene);
    peer.text = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123";
    skep_loop_work(scene->loop, serve_once, nothing_more, &peer);
    http_ask(scene);
    assert_int_equal(scene->result, SKEP_ERR_NETWORK);
    assert_int_equal(scene->status, 200);
    assert_string_equal((char *)scene->body.data, "0123");
    close(peer.listener);
}

static void redirects_are_not_followed(void **state)
{
    struct http_scene *scene = *state;
    struct peer peer = peer_open(scene);
    char text[200];
    snprintf(text, sizeof text,
             "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%u/\r\nContent-Length: 0\r\n\r\n",
             skep_http_server_port(scene->server));
    peer.text = text;
    skep_loop_work(scene->loop, serve_once, nothing_more, &peer);
    http_ask(scene);
    assert_int_equal(scene->status, 302);
    assert_int_equal(scene->handled, 0);
    close(peer.listener);
}

static void a_silent_peer_is_given_up_in_time(void **state)
{
    struct http_scene *scene = *state;
    struct peer peer = peer_open(scene);
    scene->request.timeout_ms = 20;
    http_ask(scene);
    assert_int_equal(scene->result, SKEP_ERR_NETWORK);
    assert_non_null(strstr(scene->err.text, "did not answer in time"));
    close(peer.listener);
}

static void a_peer_that_is_not_there_is_named(void **state)
{
    struct http_scene *scene = *state;
    struct peer peer = peer_open(scene);
    char expected[64];
    close(peer.listener); /* the port is free now */
    snprintf(expected, sizeof expected, "127.0.0.1:%u does not answer", scene->request.port);
    http_ask(scene);
    assert_int_equal(scene->result, SKEP_ERR_NETWORK);
    assert_non_null(strstr(scene->err.text, expected));
}

static void a_plain_peer_is_no_https_peer(void **state)
{
    struct http_scene *scene = *state;
    scene->request.plain = false;
    http_ask(scene);
    assert_int_equal(scene->result, SKEP_ERR_NETWORK);
    assert_int_equal(scene->handled, 0);
}

#define PLAIN(test) cmocka_unit_test_setup_teardown(test, http_scene_plain, http_scene_close)
#define TLS(test) cmocka_unit_test_setup_teardown(test, http_scene_tls, http_scene_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TLS(the_pinned_key_is_accepted_and_the_connection_kept),
        TLS(another_key_is_refused_by_name),
        TLS(blocking_calls_check_the_key_too),
        PLAIN(an_answer_above_its_limit_is_refused),
        PLAIN(proxies_of_the_environment_are_ignored),
        PLAIN(more_requests_than_may_run_at_once_are_all_answered),
        TLS(more_requests_than_may_run_at_once_are_all_answered),
        TLS(freeing_cancels_what_runs_and_what_waits),
        PLAIN(an_answer_that_is_cut_off_hands_over_what_came),
        PLAIN(redirects_are_not_followed),
        PLAIN(a_silent_peer_is_given_up_in_time),
        PLAIN(a_peer_that_is_not_there_is_named),
        PLAIN(a_plain_peer_is_no_https_peer),
    };
    return cmocka_run_group_tests_name("http-client", tests, NULL, NULL);
}
