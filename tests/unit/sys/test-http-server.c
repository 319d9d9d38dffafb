/* The HTTP server: what reaches handlers, what never does, and what it says itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/sys/file.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/sys/http-scene.h"

static const char *raw_text(struct http_scene *scene, const char *text)
{
    return http_raw(scene, text, strlen(text));
}

static void a_request_reaches_the_handler_decoded(void **state)
{
    struct http_scene *scene = *state;
    scene->request.path = "/v1/a%20b?key=x%2Fy&other=1";
    http_ask(scene);
    assert_int_equal(scene->result, 0);
    assert_int_equal(scene->status, 200);
    assert_string_equal(scene->seen, "GET /v1/a b key=x/y size=0 from 127.0.0.1");
    assert_string_equal((char *)scene->body.data, "{}");
}

static void a_body_as_large_as_allowed_comes_whole(void **state)
{
    struct http_scene *scene = *state;
    uint8_t *body = malloc(SCENE_BODY_LIMIT);
    for (size_t i = 0; i < SCENE_BODY_LIMIT; i++) {
        body[i] = (uint8_t)(i * 31 >> 3);
    }
    scene->request.method = "POST";
    scene->request.path = "/echo";
    scene->request.body = body;
    scene->request.body_size = SCENE_BODY_LIMIT;
    for (int i = 0; i < 3; i++) {
        http_ask(scene);
        assert_int_equal(scene->status, 200);
        assert_int_equal(scene->body.size, SCENE_BODY_LIMIT);
        assert_memory_equal(scene->body.data, body, SCENE_BODY_LIMIT);
    }
    free(body);
}

static void a_body_above_the_limit_is_answered_413_and_never_handled(void **state)
{
    struct http_scene *scene = *state;
    static char body[SCENE_BODY_LIMIT * 3];
    scene->request.method = "PUT";
    scene->request.body = body;
    scene->request.body_size = SCENE_BODY_LIMIT + 1;
    http_ask(scene);
    assert_int_equal(scene->status, 413);
    assert_string_equal(
        (char *)scene->body.data,
        "{\"error\":{\"code\":\"too-large\",\"message\":\"the body has more than the "
        "100000 bytes allowed\"}}");
    scene->request.body_size = sizeof body;
    http_ask(scene); /* answered at once: the rest may or may not have been sent by then */
    assert_true(scene->status == 413 || scene->result == SKEP_ERR_NETWORK);
    assert_int_equal(scene->handled, 0);
    scene->request.body_size = 1;
    http_ask(scene);
    assert_int_equal(scene->status, 200);
}

static void a_client_that_asks_first_hears_413_before_sending(void **state)
{
    struct http_scene *scene = *state;
    const char *answer = raw_text(scene, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                                         "Content-Length: 100001\r\n\r\n");
    assert_int_equal(strncmp(answer, "HTTP/1.1 413", 12), 0);
    assert_int_equal(scene->handled, 0);
}

/* One chunked body: no length is announced, so only counting can stop it. */
static void a_chunked_body_is_counted_too(void **state)
{
    struct http_scene *scene = *state;
    static char text[SCENE_BODY_LIMIT + 1000];
    int head = snprintf(text, sizeof text,
                        "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                        "Transfer-Encoding: chunked\r\n\r\n%x\r\n",
                        SCENE_BODY_LIMIT + 1);
    memset(text + head, 'a', SCENE_BODY_LIMIT + 1);
    strcpy(text + head + SCENE_BODY_LIMIT + 1, "\r\n0\r\n\r\n");
    assert_int_equal(strncmp(raw_text(scene, text), "HTTP/1.1 413", 12), 0);
    assert_int_equal(scene->handled, 0);
}

/* Runs the loop until the server has hung up on `fd`. */
static void await_hang_up(struct http_scene *scene, int fd)
{
    char answer[512];
    for (int i = 0; i < 5000 && recv(fd, answer, sizeof answer, MSG_DONTWAIT) != 0; i++) {
        scene->done = false;
        skep_loop_run_until(scene->loop, &scene->done, 1);
    }
    assert_int_equal(recv(fd, answer, sizeof answer, MSG_DONTWAIT), 0);
    close(fd);
}

static void a_body_that_is_cut_off_never_reaches_the_handler(void **state)
{
    struct http_scene *scene = *state;
    const char *half = "POST /half HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n01234";
    int fd = http_connect(scene);
    assert_int_equal(send(fd, half, strlen(half), MSG_NOSIGNAL), strlen(half));
    http_ask(scene); /* by now the half has been read */
    shutdown(fd, SHUT_WR);
    await_hang_up(scene, fd);
    assert_int_equal(scene->handled, 1);
    assert_int_equal(strncmp(scene->seen, "GET / ", 6), 0);
}

static void nonsense_and_endless_headers_are_refused(void **state)
{
    struct http_scene *scene = *state;
    static char text[70000];
    int fd = http_connect(scene);
    assert_int_equal(send(fd, "\0\1\2\377\r\n\r\n", 8, MSG_NOSIGNAL), 8);
    http_ask(scene);
    shutdown(fd, SHUT_WR);
    await_hang_up(scene, fd);
    strcpy(text, "GET / HTTP/1.1\r\nHost: x\r\nX: ");
    memset(text + strlen(text), 'a', 60000);
    strcat(text, "\r\n\r\n");
    assert_int_equal(strncmp(raw_text(scene, text), "HTTP/1.1 4", 10), 0);
    assert_int_equal(scene->handled, 1);
}

/* Nine bodies, each allowed, together more than eight times the limit: the one that came last is put off. */
static void all_bodies_under_way_are_bounded_together(void **state)
{
    struct http_scene *scene = *state;
    const size_t part = SCENE_BODY_LIMIT - SCENE_BODY_LIMIT / 20;
    char *text = calloc(1, part + 200);
    int fds[8];
    int head = snprintf(text, 200, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %u\r\n\r\n",
                        SCENE_BODY_LIMIT);
    for (int i = 0; i < 8; i++) {
        fds[i] = http_connect(scene);
        size_t sent = 0;
        while (sent < part + (size_t)head) { /* the server reads while the loop runs */
            ssize_t n = send(fds[i], text + sent, part + (size_t)head - sent, MSG_DONTWAIT);
            sent += n > 0 ? (size_t)n : 0;
            scene->done = false;
            skep_loop_run_until(scene->loop, &scene->done, 1);
        }
    }
    scene->request.method = "POST";
    scene->request.body = text;
    scene->request.body_size = part;
    http_ask(scene);
    assert_int_equal(scene->status, 503);
    assert_int_equal(scene->handled, 0);
    for (int i = 0; i < 8; i++) {
        close(fds[i]);
    }
    skep_loop_run_until(scene->loop, &scene->done, 1);
    do { /* at the latest when the server has seen all eight hang up */
        http_ask(scene);
    } while (scene->status == 503);
    assert_int_equal(scene->status, 200);
    free(text);
}

struct range_case {
    const char *header;
    const char *status;
    const char *range; /* NULL: no Content-Range */
    const char *body;
};

static void ranges_are_honoured_or_ignored_as_rfc_9110_says(void **state)
{
    static const struct range_case cases[] = {
        {"bytes=2-4", "206", "bytes 2-4/10", "234"},
        {"bytes=7-", "206", "bytes 7-9/10", "789"},
        {"bytes=8-99", "206", "bytes 8-9/10", "89"},
        {"bytes=0-0", "206", "bytes 0-0/10", "0"},
        {"bytes=10-12", "416", "bytes */10", NULL},
        {"bytes=4-2", "200", NULL, "0123456789"},
        {"bytes=1-2,5-6", "200", NULL, "0123456789"},
        {"bytes=99999999999999999999-", "200", NULL, "0123456789"},
        {"bytes=-3", "200", NULL, "0123456789"},
        {"lines=1-2", "200", NULL, "0123456789"},
    };
    struct http_scene *scene = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "GET /bytes HTTP/1.1\r\nHost: x\r\nConnection: close\r\nRange: %s\r\n\r\n",
                 cases[i].header);
        const char *answer = raw_text(scene, text);
        assert_int_equal(strncmp(answer + strlen("HTTP/1.1 "), cases[i].status, 3), 0);
        const char *range = strstr(answer, "Content-Range: ");
        if (cases[i].range == NULL) {
            assert_null(range);
        } else {
            assert_non_null(range);
            range += strlen("Content-Range: ");
            assert_int_equal(strncmp(range, cases[i].range, strlen(cases[i].range)), 0);
        }
        if (cases[i].body != NULL) {
            assert_string_equal(strstr(answer, "\r\n\r\n") + 4, cases[i].body);
        }
    }
}

static void files_are_served_whole_and_in_part(void **state)
{
    struct http_scene *scene = *state;
    char path[] = "/tmp/skep-test-http-XXXXXX";
    char query[100];
    int fd = mkstemp(path);
    assert_int_equal(write(fd, "abcdefghij", 10), 10);
    close(fd);
    snprintf(query, sizeof query, "/file?key=%s", path);
    scene->request.path = query;
    http_ask(scene);
    assert_int_equal(scene->status, 200);
    assert_string_equal((char *)scene->body.data, "abcdefghij");
    scene->request.ranged = true;
    scene->request.range_first = 3;
    scene->request.range_last = 5;
    http_ask(scene);
    assert_int_equal(scene->status, 206);
    assert_string_equal((char *)scene->body.data, "def");
    unlink(path);
    http_ask(scene);
    assert_int_equal(scene->status, 404);
    assert_non_null(strstr((char *)scene->body.data, "\"code\":\"not-found\""));
}

static void head_has_the_headers_of_get_and_no_body(void **state)
{
    struct http_scene *scene = *state;
    const char *answer =
        raw_text(scene, "HEAD /bytes HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_non_null(strstr(answer, "Content-Length: 10\r\n"));
    assert_string_equal(strstr(answer, "\r\n\r\n"), "\r\n\r\n");
    assert_int_equal(strncmp(scene->seen, "GET /bytes", 10), 0);
}

static void a_handler_that_sets_nothing_answers_500(void **state)
{
    struct http_scene *scene = *state;
    scene->request.path = "/nothing";
    http_ask(scene);
    assert_int_equal(scene->status, 500);
}

static void a_port_in_use_and_a_wrong_address_are_explained(void **state)
{
    struct http_scene *scene = *state;
    struct skep_http_server *second = NULL;
    struct skep_http_server_options options = {.host = "127.0.0.1",
                                               .port = skep_http_server_port(scene->server),
                                               .connections = 1,
                                               .timeout_s = 1};
    char expected[100];
    snprintf(expected, sizeof expected, "127.0.0.1:%u is in use by another program", options.port);
    assert_int_equal(skep_http_server_open(scene->loop, &options, NULL, NULL, &second, &scene->err),
                     SKEP_ERR_IN_USE);
    assert_non_null(strstr(scene->err.text, expected));
    options.host = "localhost";
    assert_int_equal(skep_http_server_open(scene->loop, &options, NULL, NULL, &second, &scene->err),
                     SKEP_ERR_ARGUMENT);
    options.host = "127.0.0.1";
    options.port = 0;
    options.cert_pem = "no certificate";
    options.key_pem = "no key";
    assert_int_equal(skep_http_server_open(scene->loop, &options, NULL, NULL, &second, &scene->err),
                     SKEP_ERR_IO);
    assert_null(second);
}

static void a_held_exchange_is_answered_later_on_the_same_connection(void **state)
{
    struct http_scene *scene = *state;
    static char body[SCENE_BODY_LIMIT];
    memset(body, 'x', sizeof body);
    scene->request.method = "POST";
    scene->request.path = "/later";
    scene->request.body = body;
    scene->request.body_size = sizeof body;
    for (int i = 0; i < 3; i++) {
        http_ask(scene);
        assert_int_equal(scene->status, 200);
        assert_int_equal(scene->body.size, sizeof body);
        assert_memory_equal(scene->body.data, body, sizeof body);
    }
}

static void a_client_that_leaves_while_it_is_held_costs_nothing(void **state)
{
    struct http_scene *scene = *state;
    scene->later_ms = 50;
    scene->request.path = "/later";
    scene->request.timeout_ms = 20;
    http_ask(scene);
    assert_int_equal(scene->result, SKEP_ERR_NETWORK);
    scene->done = false;
    while (scene->held != NULL) { /* answered into the void */
        skep_loop_run_until(scene->loop, &scene->done, 10);
    }
    scene->request.path = "/bytes";
    scene->request.timeout_ms = 10000;
    http_ask(scene);
    assert_int_equal(scene->status, 200);
}

static void a_server_may_close_as_soon_as_the_held_are_answered(void **state)
{
    struct http_scene *scene = *state;
    scene->later_ms = 60000;
    scene->request.path = "/later";
    skep_http_send(scene->client, &scene->request, http_answered, scene);
    while (scene->held == NULL) {
        skep_loop_run_until(scene->loop, &scene->done, 1);
    }
    /* http_scene_close() answers and closes */
}

static void headers_are_read_and_a_time_to_retry_is_told(void **state)
{
    struct http_scene *scene = *state;
    scene->request.path = "/secret";
    scene->request.authorization = "Bearer abc";
    http_ask(scene);
    assert_string_equal((char *)scene->body.data, "Bearer abc");
    scene->request.authorization = NULL;
    http_ask(scene);
    assert_string_equal((char *)scene->body.data, "-");
    const char *answer =
        raw_text(scene, "GET /busy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_non_null(strstr(answer, "Retry-After: 7\r\n"));
}

#define PLAIN(test) cmocka_unit_test_setup_teardown(test, http_scene_plain, http_scene_close)
#define TLS(test) cmocka_unit_test_setup_teardown(test, http_scene_tls, http_scene_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAIN(a_request_reaches_the_handler_decoded),
        TLS(a_request_reaches_the_handler_decoded),
        PLAIN(a_body_as_large_as_allowed_comes_whole),
        TLS(a_body_as_large_as_allowed_comes_whole),
        PLAIN(a_body_above_the_limit_is_answered_413_and_never_handled),
        TLS(a_body_above_the_limit_is_answered_413_and_never_handled),
        PLAIN(a_client_that_asks_first_hears_413_before_sending),
        PLAIN(a_chunked_body_is_counted_too),
        PLAIN(a_body_that_is_cut_off_never_reaches_the_handler),
        PLAIN(nonsense_and_endless_headers_are_refused),
        PLAIN(all_bodies_under_way_are_bounded_together),
        PLAIN(ranges_are_honoured_or_ignored_as_rfc_9110_says),
        PLAIN(files_are_served_whole_and_in_part),
        TLS(files_are_served_whole_and_in_part),
        PLAIN(head_has_the_headers_of_get_and_no_body),
        PLAIN(a_handler_that_sets_nothing_answers_500),
        PLAIN(a_held_exchange_is_answered_later_on_the_same_connection),
        TLS(a_held_exchange_is_answered_later_on_the_same_connection),
        PLAIN(a_client_that_leaves_while_it_is_held_costs_nothing),
        TLS(a_client_that_leaves_while_it_is_held_costs_nothing),
        PLAIN(a_server_may_close_as_soon_as_the_held_are_answered),
        TLS(a_server_may_close_as_soon_as_the_held_are_answered),
        PLAIN(headers_are_read_and_a_time_to_retry_is_told),
        PLAIN(a_port_in_use_and_a_wrong_address_are_explained),
    };
    return cmocka_run_group_tests_name("http-server", tests, NULL, NULL);
}
