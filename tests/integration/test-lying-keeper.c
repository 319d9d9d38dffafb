/*
 * What the client's caller of experts (client/network/experts.h) believes: a keeper made of one HTTPS server answers what each test tells it to.
 * A wrong answer is silence, and nothing is signed that was not asked for.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "client/network/experts-internal.h"
#include "common/base/alloc.h"
#include "common/crypto/cert.h"
#include "common/crypto/hash.h"
#include "common/model/model.h"
#include "common/swarm/update-open.h"
#include "common/sys/clock.h"
#include "common/sys/http-server.h"
#include "common/wire/base64.h"
#include "common/wire/json.h"
#include "common/wire/safetensors.h"
#include "tests/lib/cmocka.h"

#define DIM 8u

enum lie {
    HONEST,
    LEAVES_ONE_OUT,
    LEAVES_ALL_OUT,
    TOO_FEW_ROWS,
    NOT_A_NUMBER,
    NO_TENSORS,
    BUSY,
    BROKEN,
    SAYS_NOTHING, /* until the test ends */
    NO_SESSION,   /* 401, always */
    OTHER_DONOR,
    OTHER_SHARD,
    OTHER_PROJECT,
    OTHER_BODY,
    SHARD_NOT_ASKED,
    UPDATE_TWICE,
    VERSION_FAR_AHEAD,
    NO_STATEMENT,
};

struct scene {
    pthread_t thread; /* of the keeper */
    struct skep_loop *loop;
    struct skep_http_server *server;
    struct skep_async *end;
    _Atomic enum lie lie;
    atomic_int asked;    /* requests for experts */
    atomic_int sessions; /* and for sessions */
    atomic_int taken;    /* update files handed in */
    struct skep_http_held *held;
    char *cert;
    char *key_pem;
    struct skep_key *key;
    struct skep_manifest manifest;
    struct skep_record record;
    struct skep_caller *caller;
    struct skep_caller_line *line;
    struct skep_expert_calls calls;
};

/* ---- the keeper ---- */

/* Twice each row: of all tensors but gradients, named by the expert. */
static void reply_rows(const struct scene *scene, const struct skep_http_exchange *exchange,
                       struct skep_http_reply *reply)
{
    struct skep_tensor_view *views = NULL;
    struct skep_tensor_view answers[8];
    const float *values[8];
    size_t count = 0;
    size_t answer_count = 0;
    skep_safetensors_read(exchange->body, exchange->body_size, &views, &count, NULL);
    for (size_t i = 0; i < count && answer_count < 8; i++) {
        char *end = strstr(views[i].name, ".x");
        if (strstr(views[i].name, ".dy") != NULL || scene->lie == LEAVES_ALL_OUT ||
            (scene->lie == LEAVES_ONE_OUT && i == 0)) {
            continue;
        }
        float *twice = skep_alloc(views[i].count, sizeof *twice);
        skep_get_floats(views[i].data, views[i].count, twice);
        for (size_t j = 0; j < views[i].count; j++) {
            twice[j] *= 2;
        }
        twice[views[i].count - 1] = scene->lie == NOT_A_NUMBER ? NAN : twice[views[i].count - 1];
        answers[answer_count] = views[i];
        if (end != NULL) {
            answers[answer_count].name[end - views[i].name] = 0;
        }
        if (scene->lie == TOO_FEW_ROWS) {
            answers[answer_count].dims[0]--;
            answers[answer_count].count -= DIM;
        }
        values[answer_count++] = twice;
    }
    reply->status = 200;
    reply->content_type = "application/octet-stream";
    if (scene->lie == NO_TENSORS) {
        skep_buffer_append_text(&reply->body, "nothing of the kind");
    } else {
        skep_safetensors_write(answers, values, answer_count, &reply->body);
    }
    for (size_t i = 0; i < answer_count; i++) {
        free((float *)values[i]);
    }
    free(views);
}

static void reply_updates(const struct scene *scene, struct skep_http_reply *reply)
{
    struct skep_update_statement statement = {.project = scene->manifest.project,
                                              .shard = {SKEP_SHARD_FFN, 0, 0, 0},
                                              .donor = skep_key_id(scene->key),
                                              .base_version =
                                                  scene->lie == VERSION_FAR_AHEAD ? 1000000 : 5,
                                              .body = skep_hash_of("body", 4)};
    statement.donor.bytes[0] ^= scene->lie == OTHER_DONOR;
    statement.project.bytes[0] ^= scene->lie == OTHER_PROJECT;
    statement.body.bytes[0] ^= scene->lie == OTHER_BODY;
    statement.shard.column = scene->lie == OTHER_SHARD;
    char *text = skep_update_statement_encode(&statement);
    char *base64 = skep_base64_encode("body", 4);
    struct skep_json *list = skep_json_array_new();
    for (int i = 0; i < (scene->lie == UPDATE_TWICE ? 2 : 1); i++) {
        struct skep_json *item = skep_json_object_new();
        skep_json_set_text(item, "shard",
                           scene->lie == SHARD_NOT_ASKED ? "ffn.0.0.1" : "ffn.0.0.0");
        skep_json_set_text(item, "statement", scene->lie == NO_STATEMENT ? "{}" : text);
        skep_json_set_text(item, "body", base64);
        skep_json_push_take(list, item);
    }
    struct skep_json *root = skep_json_object_new();
    skep_json_set_take(root, "updates", list);
    skep_json_set_take(root, "early", skep_json_array_new());
    char *answer = skep_json_write(root, false);
    reply->status = 200;
    skep_buffer_append_text(&reply->body, answer);
    free(answer);
    skep_json_free(root);
    free(base64);
    free(text);
}

static void handle(void *user, const struct skep_http_exchange *exchange,
                   struct skep_http_reply *reply)
{
    struct scene *scene = user;
    const char *what = strrchr(exchange->path, '/');
    if (strcmp(what, "/sessions") == 0) {
        scene->sessions++;
        reply->status = 201;
        skep_buffer_append_text(&reply->body, "{\"token\":\"");
        for (int i = 0; i < 32; i++) {
            skep_buffer_append_text(&reply->body, "ab");
        }
        skep_buffer_append_text(&reply->body, "\",\"idle_s\":600}");
    } else if (strcmp(exchange->path + strlen(exchange->path) - 16, "/experts/updates") == 0) {
        reply_updates(scene, reply);
    } else if (strcmp(what, "/updates") == 0) {
        scene->taken++;
        reply->status = 201;
        skep_buffer_append_text(&reply->body, "{}");
    } else {
        scene->asked++;
        if (scene->lie == SAYS_NOTHING) {
            scene->held = skep_http_hold(exchange);
        } else if (scene->lie == BUSY || scene->lie == BROKEN || scene->lie == NO_SESSION) {
            reply->status = scene->lie == BUSY ? 503 : scene->lie == BROKEN ? 500 : 401;
            skep_buffer_append_text(&reply->body, "{}");
        } else {
            reply_rows(scene, exchange, reply);
        }
    }
}

static void on_end(void *user)
{
    struct scene *scene = user;
    skep_loop_stop(scene->loop);
}

static void *run_keeper(void *user)
{
    struct scene *scene = user;
    skep_loop_run(scene->loop);
    if (scene->held != NULL) {
        struct skep_http_reply reply = {.status = 500};
        skep_http_answer(scene->held, &reply);
    }
    skep_http_server_close(scene->server);
    skep_async_free(scene->end);
    skep_loop_free(scene->loop);
    return NULL;
}

/* ---- the caller ---- */

static void fill_manifest(struct skep_manifest *manifest, const struct skep_peer_id *keeper)
{
    skep_manifest_defaults(manifest);
    manifest->model = (struct skep_model_config){.kind = SKEP_MODEL_CLASSIFIER,
                                                 .inputs = 1,
                                                 .classes = 2,
                                                 .dim = DIM,
                                                 .hidden = 8,
                                                 .layers = 1,
                                                 .rows = 1,
                                                 .columns = 2,
                                                 .experts_per_token = 1};
    skep_model_config_imply(&manifest->model);
    manifest->keeper_count = 1;
    manifest->keepers = skep_alloc(1, sizeof *manifest->keepers);
    manifest->keepers[0] = *keeper;
}

static int open_scene(void **state)
{
    struct scene *scene = skep_alloc(1, sizeof *scene);
    *state = scene;
    scene->loop = skep_loop_new();
    scene->end = skep_async_new(scene->loop, on_end, scene);
    skep_cert_new("keeper", &scene->cert, &scene->key_pem);
    const struct skep_http_server_options server = {.host = "127.0.0.1",
                                                    .cert_pem = scene->cert,
                                                    .key_pem = scene->key_pem,
                                                    .body_limit = 100000,
                                                    .connections = 8,
                                                    .timeout_s = 10};
    if (skep_http_server_open(scene->loop, &server, handle, scene, &scene->server, NULL) != 0) {
        return 1;
    }
    struct skep_record *record = &scene->record;
    *record = (struct skep_record){
        .keeper = {{7}}, .host = "127.0.0.1", .port = skep_http_server_port(scene->server)};
    skep_cert_pin(scene->cert, strlen(scene->cert), &record->tls_pin, NULL);
    fill_manifest(&scene->manifest, &record->keeper);
    scene->key = skep_key_new();
    const struct skep_caller_options options = {.manifest = &scene->manifest,
                                                .records = record,
                                                .record_count = 1,
                                                .key = scene->key,
                                                .timeout_ms = 5000};
    scene->caller = skep_caller_new(&options);
    scene->line = skep_caller_line_new(scene->caller);
    scene->calls = skep_caller_line_calls(scene->line);
    pthread_create(&scene->thread, NULL, run_keeper, scene);
    return 0;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    skep_async_send(scene->end);
    pthread_join(scene->thread, NULL);
    skep_caller_line_free(scene->line);
    skep_caller_free(scene->caller);
    skep_manifest_done(&scene->manifest);
    skep_key_free(scene->key);
    free(scene->cert);
    free(scene->key_pem);
    free(scene);
    return 0;
}

/* Two rows to each of both experts. */
static const struct skep_expert_group groups[2] = {{0, 0, 2}, {1, 2, 2}};

struct answers {
    float y[4 * DIM];
    bool answered[2];
};

static struct answers call(struct scene *scene, bool back)
{
    struct answers answers = {.answered = {true, true}};
    struct skep_error err = {0};
    float x[4 * DIM];
    for (size_t i = 0; i < 4 * DIM; i++) {
        x[i] = (float)i;
        answers.y[i] = -1;
    }
    int rc = back ? scene->calls.backward(scene->calls.user, 0, groups, 2, x, x, answers.y,
                                          answers.answered, &err)
                  : scene->calls.forward(scene->calls.user, 0, groups, 2, x, answers.y,
                                         answers.answered, &err);
    assert_int_equal(rc, SKEP_OK);
    return answers;
}

static void rows_come_back_to_their_places(void **state)
{
    struct scene *scene = *state;
    for (int back = 0; back < 2; back++) {
        struct answers answers = call(scene, back);
        assert_true(answers.answered[0] && answers.answered[1]);
        for (size_t i = 0; i < 4 * DIM; i++) {
            assert_true(answers.y[i] == 2 * (float)i);
        }
    }
    assert_int_equal(scene->asked, 2); /* one request for both experts */
    assert_int_equal(scene->sessions, 1);
}

static void an_expert_that_is_left_out_did_not_answer(void **state)
{
    struct scene *scene = *state;
    scene->lie = LEAVES_ONE_OUT;
    struct answers answers = call(scene, false);
    assert_false(answers.answered[0]);
    assert_true(answers.answered[1]);
    assert_true(answers.y[0] == 0 && answers.y[2 * DIM] == 4 * DIM);
    assert_int_equal(scene->caller->keepers[0].aside_until_ms, 0);
}

static void what_no_keeper_would_say_is_silence(void **state)
{
    static const enum lie lies[] = {TOO_FEW_ROWS, NOT_A_NUMBER, NO_TENSORS, BROKEN, LEAVES_ALL_OUT};
    struct scene *scene = *state;
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        scene->lie = lies[i];
        struct answers answers = call(scene, i % 2);
        assert_false(answers.answered[0] || answers.answered[1]);
        assert_true(answers.y[0] == 0 && answers.y[4 * DIM - 1] == 0);
        assert_true(scene->caller->keepers[0].aside_until_ms > 0);
        scene->caller->keepers[0].aside_until_ms = 0;
    }
}

static void a_busy_keeper_is_asked_again_next_time(void **state)
{
    struct scene *scene = *state;
    scene->lie = BUSY;
    struct answers answers = call(scene, false);
    assert_false(answers.answered[0]);
    assert_int_equal(scene->caller->keepers[0].aside_until_ms, 0);
}

static void silence_ends_after_the_time_it_is_given(void **state)
{
    struct scene *scene = *state;
    scene->lie = SAYS_NOTHING;
    scene->caller->timeout_ms = 100;
    struct answers answers = call(scene, false);
    assert_false(answers.answered[0]);
    scene->lie = HONEST;
    scene->caller->timeout_ms = 5000;
    answers = call(scene, false);
    assert_true(answers.answered[0]);
}

static void a_session_that_is_refused_is_opened_again_once(void **state)
{
    struct scene *scene = *state;
    scene->lie = NO_SESSION;
    struct answers answers = call(scene, true);
    assert_false(answers.answered[0]);
    assert_int_equal(scene->sessions, 2);
    assert_int_equal(scene->asked, 2);
    assert_true(scene->caller->keepers[0].aside_until_ms > 0); /* the next one's turn */
}

static void only_what_was_asked_for_is_signed(void **state)
{
    static const struct {
        enum lie lie;
        int result;
    } cases[] = {
        {OTHER_DONOR, SKEP_ERR_REFUSED},   {OTHER_SHARD, SKEP_ERR_REFUSED},
        {OTHER_PROJECT, SKEP_ERR_REFUSED}, {OTHER_BODY, SKEP_ERR_HASH},
        {NO_STATEMENT, SKEP_ERR_FORMAT},   {SHARD_NOT_ASKED, SKEP_ERR_REFUSED},
    };
    const struct skep_shard shard = {.kind = SKEP_SHARD_FFN};
    struct scene *scene = *state;
    enum skep_caller_outcome outcome;
    struct skep_error err = {0};
    (void)call(scene, true); /* opens the session */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scene->lie = cases[i].lie;
        assert_int_equal(skep_caller_line_update(scene->line, &shard, 1, 1, 1, &outcome, &err),
                         cases[i].result);
        assert_int_equal(outcome, SKEP_CALLER_FAILED);
        assert_int_equal(scene->taken, 0);
    }
    scene->lie = HONEST;
    assert_int_equal(skep_caller_line_update(scene->line, &shard, 1, 1, 1, &outcome, &err),
                     SKEP_OK);
    assert_int_equal(outcome, SKEP_CALLER_PUBLISHED);
    assert_int_equal(scene->taken, 1);
    assert_int_equal(skep_caller_line_update(scene->line, &shard, 1, 1, 1, &outcome, &err),
                     SKEP_ERR_STALE); /* the same version again */
    assert_int_equal(scene->taken, 1);
}

/* Whoever opens a session with a keeper that is slow keeps nobody waiting who has one. */
static void a_session_that_is_there_is_not_waited_for(void **state)
{
    struct scene *scene = *state;
    (void)call(scene, true);
    pthread_mutex_lock(&scene->caller->keepers[0].opening);
    struct answers answers = call(scene, true);
    pthread_mutex_unlock(&scene->caller->keepers[0].opening);
    assert_true(answers.answered[0]);
    assert_int_equal(scene->sessions, 1);
}

static void a_shard_is_signed_once_in_an_answer(void **state)
{
    const struct skep_shard shards[2] = {{.kind = SKEP_SHARD_FFN},
                                         {.kind = SKEP_SHARD_FFN, .column = 1}};
    struct scene *scene = *state;
    enum skep_caller_outcome outcomes[2];
    (void)call(scene, true);
    scene->lie = UPDATE_TWICE;
    assert_int_equal(skep_caller_line_update(scene->line, shards, 2, 1, 1, outcomes, NULL),
                     SKEP_ERR_REFUSED);
    assert_int_equal(outcomes[0], SKEP_CALLER_PUBLISHED);
    assert_int_equal(outcomes[1], SKEP_CALLER_FAILED);
    assert_int_equal(scene->taken, 1);
}

/* The experts are another keeper's too, at this port; calls go to the first. */
static void add_keeper(struct scene *scene, uint16_t port)
{
    struct skep_record records[2] = {scene->record, scene->record};
    records[1].keeper.bytes[0]++;
    records[1].port = port;
    scene->manifest.keepers = skep_realloc(scene->manifest.keepers, 2, sizeof(struct skep_peer_id));
    scene->manifest.keepers[scene->manifest.keeper_count++] = records[1].keeper;
    skep_caller_line_free(scene->line);
    skep_caller_free(scene->caller);
    const struct skep_caller_options options = {
        .manifest = &scene->manifest, .records = records, .record_count = 2, .key = scene->key};
    scene->caller = skep_caller_new(&options);
    scene->line = skep_caller_line_new(scene->caller);
    scene->calls = skep_caller_line_calls(scene->line);
    assert_int_equal(scene->caller->routes[1].count, 2);
    scene->caller->routes[1].keepers[0] = 0;
    scene->caller->routes[1].keepers[1] = 1;
}

static enum skep_caller_outcome update(struct scene *scene)
{
    const struct skep_shard shard = {.kind = SKEP_SHARD_FFN};
    enum skep_caller_outcome outcome = SKEP_CALLER_EMPTY;
    (void)skep_caller_line_update(scene->line, &shard, 1, 1, 1, &outcome, NULL);
    return outcome;
}

static void a_version_that_only_its_keeper_knows_stops_nothing(void **state)
{
    struct scene *scene = *state;
    add_keeper(scene, 1); /* nobody listens */
    (void)call(scene, true);
    scene->lie = VERSION_FAR_AHEAD;
    assert_int_equal(update(scene), SKEP_CALLER_PUBLISHED);
    scene->lie = HONEST;
    assert_int_equal(update(scene), SKEP_CALLER_PUBLISHED);
    assert_int_equal(scene->taken, 2);
}

static void updates_are_not_handed_to_a_keeper_that_was_silent_lately(void **state)
{
    struct scene *scene = *state;
    add_keeper(scene, scene->record.port);
    (void)call(scene, true);
    scene->caller->keepers[1].aside_until_ms = UINT64_MAX;
    assert_int_equal(update(scene), SKEP_CALLER_PUBLISHED);
    assert_int_equal(scene->taken, 1);
    scene->caller->keepers[0].aside_until_ms = UINT64_MAX; /* but if all were, they are asked */
    assert_int_equal(update(scene), SKEP_CALLER_PUBLISHED);
    assert_int_equal(scene->taken, 3);
}

static void a_keeper_that_cannot_be_handed_an_update_was_silent(void **state)
{
    struct scene *scene = *state;
    add_keeper(scene, 1);
    scene->caller->keepers[1].aside_until_ms = UINT64_MAX;
    (void)call(scene, true); /* opens the session */
    scene->caller->keepers[1].aside_until_ms = 0;
    assert_int_equal(update(scene), SKEP_CALLER_PUBLISHED);
    assert_true(scene->caller->keepers[1].aside_until_ms > 0);
    assert_int_equal(scene->caller->keepers[0].aside_until_ms, 0);
}

static void a_keeper_that_stays_silent_is_tried_less_and_less_by_one_call(void **state)
{
    struct scene *scene = *state;
    add_keeper(scene, scene->record.port);
    struct skep_caller_keeper *keeper = &scene->caller->keepers[0];
    uint64_t now_ms = skep_clock_monotonic_ms();
    skep_caller_set_aside(scene->caller, 0);
    skep_caller_set_aside(scene->caller, 0); /* the same silence */
    assert_int_equal(keeper->silences, 1);
    keeper->silent_ms -= SKEP_CALLER_ASIDE_MS;
    skep_caller_set_aside(scene->caller, 0);
    assert_true(keeper->aside_until_ms >= now_ms + 2 * SKEP_CALLER_ASIDE_MS);
    assert_int_equal(skep_caller_choose(scene->caller, 1), 1);
    keeper->aside_until_ms = 0;
    assert_int_equal(skep_caller_choose(scene->caller, 1), 0); /* this one tries */
    assert_int_equal(skep_caller_choose(scene->caller, 1), 1);
    keeper->aside_until_ms = 0;
    assert_true(call(scene, false).answered[0]);
    assert_int_equal(keeper->silences, 0);
    assert_int_equal(skep_caller_choose(scene->caller, 1), 0);
    assert_int_equal(skep_caller_choose(scene->caller, 1), 0);
}

static void without_a_session_there_is_nothing_to_ask_for(void **state)
{
    const struct skep_shard shards[2] = {{.kind = SKEP_SHARD_FFN}, {.kind = SKEP_SHARD_TRUNK}};
    struct scene *scene = *state;
    enum skep_caller_outcome outcomes[2];
    assert_int_equal(skep_caller_line_update(scene->line, shards, 2, 1, 1, outcomes, NULL),
                     SKEP_OK);
    assert_int_equal(outcomes[0], SKEP_CALLER_EMPTY);
    assert_int_equal(outcomes[1], SKEP_CALLER_EMPTY);
    assert_int_equal(scene->sessions, 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_scene, close_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(rows_come_back_to_their_places),
        CASE(an_expert_that_is_left_out_did_not_answer),
        CASE(what_no_keeper_would_say_is_silence),
        CASE(a_busy_keeper_is_asked_again_next_time),
        CASE(silence_ends_after_the_time_it_is_given),
        CASE(a_session_that_is_refused_is_opened_again_once),
        CASE(only_what_was_asked_for_is_signed),
        CASE(a_session_that_is_there_is_not_waited_for),
        CASE(a_shard_is_signed_once_in_an_answer),
        CASE(updates_are_not_handed_to_a_keeper_that_was_silent_lately),
        CASE(a_keeper_that_cannot_be_handed_an_update_was_silent),
        CASE(a_version_that_only_its_keeper_knows_stops_nothing),
        CASE(a_keeper_that_stays_silent_is_tried_less_and_less_by_one_call),
        CASE(without_a_session_there_is_nothing_to_ask_for),
    };
    return cmocka_run_group_tests_name("lying-keeper", tests, NULL, NULL);
}
