#include "tests/unit/client/fake-keepers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/swarm/statement.h"
#include "common/sys/clock.h"
#include "common/sys/file.h"
#include "tests/lib/cmocka.h"
#include "tests/lib/tiny-model.h"

static void set_text(struct skep_http_answer *answer, const char *text)
{
    answer->status = 200;
    skep_buffer_append_text(&answer->body, text);
}

static void give_record(const struct fake_keepers *fakes, size_t keeper,
                        struct skep_http_answer *answer)
{
    struct skep_project_id project = fakes->session.project;
    struct skep_record record = {.keeper = skep_key_id(fakes->keys[keeper]),
                                 .host = "127.0.0.1",
                                 .port = (uint16_t)(keeper + 1),
                                 .sequence = 1,
                                 .expires_s = skep_clock_unix_s() + 600,
                                 .project_count = 1,
                                 .projects = &project};
    char *payload = skep_record_encode(&record);
    char *text = skep_statement_sign_text(fakes->keys[keeper], SKEP_TYPE_RECORD, payload);
    set_text(answer, text);
    free(payload);
    free(text);
}

static void fake_send(void *user, const struct skep_http_request *request,
                      skep_http_callback callback, void *callback_user)
{
    struct fake_keepers *fakes = user;
    struct skep_http_answer answer = {0};
    struct skep_error err = {0};
    int result = 0;
    assert_true(request->port >= 1 && request->port <= FAKE_KEEPERS);
    size_t keeper = request->port - 1u;
    if (strcmp(request->path, "/v1/record") == 0) {
        give_record(fakes, keeper, &answer);
    } else if (strncmp(request->path, "/v1/directory", 13) == 0) {
        set_text(&answer, "{\"records\":[]}");
    } else {
        result = fakes->answer(fakes->user, keeper, request, &answer, &err);
    }
    callback(callback_user, result, &answer, &err);
    skep_buffer_done(&answer.body);
}

static void ignore_end(void *user, int result, const struct skep_error *err)
{
    (void)user;
    (void)result;
    (void)err;
}

static void init_manifest(struct fake_keepers *fakes)
{
    struct skep_manifest *manifest = &fakes->session.manifest;
    skep_test_tiny_manifest(manifest);
    manifest->name = skep_strdup("test");
    manifest->project = fakes->session.project;
    manifest->model.vocabulary = 16;
    manifest->replicas = FAKE_KEEPERS;
    manifest->keeper_count = FAKE_KEEPERS;
    manifest->keepers = skep_alloc(FAKE_KEEPERS, sizeof *manifest->keepers);
    for (size_t i = 0; i < FAKE_KEEPERS; i++) {
        uint8_t seed[32] = {(uint8_t)(i + 1)};
        fakes->keys[i] = skep_key_from_seed(seed);
        manifest->keepers[i] = skep_key_id(fakes->keys[i]);
    }
    fakes->session.has_manifest = true;
}

void fake_keepers_init(struct fake_keepers *fakes, fake_answer answer, void *user)
{
    struct skep_session *session = &fakes->session;
    *fakes = (struct fake_keepers){.answer = answer, .user = user};
    snprintf(fakes->folder, sizeof fakes->folder, "/tmp/skep-client-XXXXXX");
    assert_non_null(mkdtemp(fakes->folder));
    fakes->loop = skep_loop_new();
    memset(session->project.bytes, 7, SKEP_ID_SIZE);
    session->loop = fakes->loop;
    session->folder = fakes->folder;
    session->transport = (struct skep_transport){.send = fake_send, .user = fakes};
    init_manifest(fakes);
    assert_int_equal(skep_heads_init(&session->heads, &session->manifest, NULL), 0);
    session->sealed = skep_alloc(session->heads.count, sizeof *session->sealed);
    char *states = skep_format("%s/states", fakes->folder);
    assert_int_equal(skep_folder_make(states, NULL), 0);
    free(states);
    struct skep_peers_options options = {.project = session->project,
                                         .bootstrap =
                                             "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:4"};
    assert_int_equal(
        skep_peers_new(fakes->loop, &session->transport, &options, &session->peers, NULL), 0);
    /* all answer at once, so their records are there; the search itself would end on the loop */
    skep_peers_find(session->peers, ignore_end, NULL);
    assert_int_equal(skep_peers_count(session->peers), FAKE_KEEPERS);
}

void fake_keepers_done(struct fake_keepers *fakes)
{
    struct skep_session *session = &fakes->session;
    skep_peers_free(session->peers);
    skep_heads_done(&session->heads);
    skep_manifest_done(&session->manifest);
    free(session->sealed);
    skep_loop_free(fakes->loop);
    for (size_t i = 0; i < FAKE_KEEPERS; i++) {
        skep_key_free(fakes->keys[i]);
    }
    (void)skep_folder_remove(fakes->folder, NULL);
}
