#include "tests/unit/sys/http-scene.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/crypto/cert.h"
#include "tests/lib/cmocka.h"

/* Answers what was held last, one turn of the loop later. */
static void answer_held(void *user)
{
    struct http_scene *scene = user;
    struct skep_http_reply reply = {.status = 200};
    skep_buffer_append(&reply.body, scene->held_body, scene->held_size);
    skep_http_answer(scene->held, &reply);
    scene->held = NULL;
}

/* /bytes serves ten digits, /echo the body, /file the file that the query names, /later the body when answer_held()
 * is called, /busy a wish to come again, /secret the header Authorization; all else an empty object. */
static void handle(void *user, const struct skep_http_exchange *exchange,
                   struct skep_http_reply *reply)
{
    struct http_scene *scene = user;
    const char *query = skep_http_query(exchange, "key");
    scene->handled++;
    snprintf(scene->seen, sizeof scene->seen, "%s %s key=%s size=%zu from %s", exchange->method,
             exchange->path, query != NULL ? query : "-", exchange->body_size, exchange->peer);
    if (strcmp(exchange->path, "/bytes") == 0) {
        skep_http_reply_ranged(exchange, "0123456789", 10, reply);
    } else if (strcmp(exchange->path, "/file") == 0) {
        struct skep_error err = {0};
        if (skep_http_reply_file(exchange, query, reply, &err) != 0) {
            skep_http_reply_error(reply, 404, skep_err_name(err.code), err.text);
        }
    } else if (strcmp(exchange->path, "/echo") == 0) {
        reply->status = 200;
        skep_buffer_append(&reply->body, exchange->body, exchange->body_size);
    } else if (strcmp(exchange->path, "/later") == 0) {
        scene->held = skep_http_hold(exchange);
        scene->held_body = exchange->body;
        scene->held_size = exchange->body_size;
        skep_timer_start(scene->later, scene->later_ms, 0);
    } else if (strcmp(exchange->path, "/busy") == 0) {
        skep_http_reply_error(reply, 503, "state", "come again");
        reply->retry_after_s = 7;
    } else if (strcmp(exchange->path, "/secret") == 0) {
        const char *secret = skep_http_header(exchange, "Authorization");
        reply->status = 200;
        skep_buffer_append_text(&reply->body, secret != NULL ? secret : "-");
    } else if (strcmp(exchange->path, "/nothing") != 0) {
        reply->status = 200;
        skep_buffer_append_text(&reply->body, "{}");
    }
}

static int open_scene(void **state, bool tls)
{
    struct http_scene *scene = calloc(1, sizeof *scene);
    *state = scene;
    scene->loop = skep_loop_new();
    scene->client = skep_http_client_new(scene->loop, 4);
    scene->later = skep_timer_new(scene->loop, answer_held, scene);
    if (tls) {
        skep_cert_new("test", &scene->cert, &scene->key);
        skep_cert_pin(scene->cert, strlen(scene->cert), &scene->pin, NULL);
    }
    struct skep_http_server_options options = {
        .host = "127.0.0.1",
        .cert_pem = scene->cert,
        .key_pem = scene->key,
        .body_limit = SCENE_BODY_LIMIT,
        .connections = 32,
        .timeout_s = 10,
    };
    if (skep_http_server_open(scene->loop, &options, handle, scene, &scene->server, &scene->err) !=
        0) {
        fprintf(stderr, "%s\n", scene->err.text);
        return 1;
    }
    scene->request = (struct skep_http_request){
        .method = "GET",
        .host = "127.0.0.1",
        .port = skep_http_server_port(scene->server),
        .path = "/",
        .pin = tls ? &scene->pin : NULL,
        .plain = !tls,
        .timeout_ms = 10000,
    };
    return 0;
}

int http_scene_plain(void **state)
{
    return open_scene(state, false);
}

int http_scene_tls(void **state)
{
    return open_scene(state, true);
}

int http_scene_close(void **state)
{
    struct http_scene *scene = *state;
    skep_http_client_free(scene->client);
    if (scene->held != NULL) {
        answer_held(scene);
    }
    skep_http_server_close(scene->server);
    skep_loop_free(scene->loop);
    skep_buffer_done(&scene->body);
    skep_buffer_done(&scene->raw_answer);
    free(scene->cert);
    free(scene->key);
    free(scene);
    return 0;
}

void http_answered(void *user, int result, const struct skep_http_answer *answer,
                   const struct skep_error *err)
{
    struct http_scene *scene = user;
    scene->result = result;
    scene->status = answer->status;
    skep_buffer_done(&scene->body);
    skep_buffer_append(&scene->body, answer->body.data, answer->body.size);
    skep_buffer_append_u8(&scene->body, 0);
    scene->body.size--;
    scene->err = *err;
    scene->done = true;
}

void http_ask(struct http_scene *scene)
{
    scene->done = false;
    skep_http_send(scene->client, &scene->request, http_answered, scene);
    assert_false(scene->done);
    assert_true(skep_loop_run_until(scene->loop, &scene->done, 20000));
}

int http_connect(const struct http_scene *scene)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(skep_http_server_port(scene->server)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? fd : -1;
}

static void exchange_raw(void *user)
{
    struct http_scene *scene = user;
    char chunk[4096];
    ssize_t got;
    int fd = http_connect(scene);
    send(fd, scene->raw, scene->raw_size, MSG_NOSIGNAL);
    while ((got = recv(fd, chunk, sizeof chunk, 0)) > 0) {
        skep_buffer_append(&scene->raw_answer, chunk, (size_t)got);
    }
    skep_buffer_append_u8(&scene->raw_answer, 0);
    close(fd);
}

static void raw_is_done(void *user)
{
    ((struct http_scene *)user)->done = true;
}

const char *http_raw(struct http_scene *scene, const void *bytes, size_t size)
{
    skep_buffer_done(&scene->raw_answer);
    scene->raw = bytes;
    scene->raw_size = size;
    scene->done = false;
    skep_loop_work(scene->loop, exchange_raw, raw_is_done, scene);
    assert_true(skep_loop_run_until(scene->loop, &scene->done, 20000));
    return (const char *)scene->raw_answer.data;
}
