#include "tests/lib/real-keepers.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/swarm/statement.h"
#include "common/sys/clock.h"
#include "common/sys/file.h"

#define READY_MS 20000u
#define OPTIONS_MOST 8u

/* Whose processes must not outlive this program, however it ends. */
static struct real_keepers *alive;

static void kill_alive(void)
{
    for (size_t i = 0; alive != NULL && i < alive->count; i++) {
        if (alive->processes[i] != NULL && skep_process_running(alive->processes[i])) {
            kill(skep_process_id(alive->processes[i]), SIGKILL);
        }
    }
}

static void die(const char *what, const char *reason)
{
    fprintf(stderr, "real keepers: %s: %s\n", what, reason);
    exit(1);
}

static void on_line(void *user, const char *line)
{
    struct real_keepers *keepers = user;
    if (strstr(line, " listening on ") != NULL) {
        keepers->ready = true;
    }
}

static void on_exit_status(void *user, int status)
{
    struct real_keepers *keepers = user;
    keepers->ended++;
    if (status != 0 && status != -SIGKILL) {
        fprintf(stderr, "real keepers: one ended with %d\n", status);
    }
}

static char *program(void)
{
    const char *build = getenv("SKEP_BUILD");
    if (build != NULL) {
        return skep_format("%s/server/skep-keeper", build);
    }
    char *folder = skep_process_own_folder();
    char *path = skep_format("%s/../../server/skep-keeper", folder);
    free(folder);
    return path;
}

/* DIR/address says where it listens. */
static char *read_address(const char *dir)
{
    char *path = skep_format("%s/address", dir);
    struct skep_buffer text = {0};
    struct skep_error err = {0};
    if (skep_file_read(path, 200, &text, &err) != SKEP_OK) {
        die("address", err.text);
    }
    skep_buffer_append_u8(&text, 0);
    free(path);
    text.data[strcspn((char *)text.data, "\n")] = 0;
    return (char *)text.data;
}

/* First contact: the record tells the rest. */
static void read_record(struct real_keepers *keepers, size_t i, const char *address)
{
    struct skep_record *record = &keepers->records[i];
    struct skep_http_answer answer = {0};
    struct skep_envelope envelope = {0};
    struct skep_error err = {0};
    const char *colon = strrchr(address, ':');
    char host[SKEP_HOST_TEXT_SIZE];
    snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    struct skep_http_request request = {
        .method = "GET", .host = host, .port = (uint16_t)atoi(colon + 1), .path = "/v1/record"};
    if (skep_http_call(keepers->http, &request, &answer, &err) != SKEP_OK ||
        skep_envelope_parse(answer.body.data, answer.body.size, &envelope, &err) != SKEP_OK ||
        skep_record_open(&envelope, skep_clock_unix_s(), record, &err) != SKEP_OK) {
        die("record", err.text);
    }
    skep_record_done(&(struct skep_record){.projects = record->projects});
    record->projects = NULL;
    record->project_count = 0;
    skep_envelope_done(&envelope);
    skep_http_answer_done(&answer);
}

static void start_one(struct real_keepers *keepers, size_t i, const char *const *options,
                      char **addresses)
{
    char *path = program();
    char *dir = skep_format("%s/keeper-%zu", keepers->dir, i);
    char *log = skep_format("%s/keeper-%zu.log", keepers->dir, i);
    const char *words[6 + OPTIONS_MOST + 2 * REAL_KEEPERS_MOST + 1] = {
        path, "--no-dht", "--listen", "127.0.0.1:0", "--dir", dir};
    size_t count = 6;
    for (size_t n = 0; options != NULL && options[n] != NULL && n < OPTIONS_MOST; n++) {
        words[count++] = options[n];
    }
    for (size_t n = 0; n < i; n++) {
        words[count++] = "--peer";
        words[count++] = addresses[n];
    }
    struct skep_error err = {0};
    const struct skep_process_options start = {.arguments = words,
                                               .stderr_path = log,
                                               .on_line = on_line,
                                               .on_exit = on_exit_status,
                                               .user = keepers};
    keepers->ready = false;
    if (skep_process_start(keepers->loop, &start, &keepers->processes[i], &err) != SKEP_OK) {
        die(path, err.text);
    }
    if (!skep_loop_run_until(keepers->loop, &keepers->ready, READY_MS)) {
        die(path, "is not ready in time");
    }
    addresses[i] = read_address(dir);
    read_record(keepers, i, addresses[i]);
    free(log);
    free(dir);
    free(path);
}

void real_keepers_start(struct real_keepers *keepers, size_t count, const char *const *options)
{
    *keepers = (struct real_keepers){.count = count};
    if (alive == NULL) {
        atexit(kill_alive);
    }
    alive = keepers;
    char *addresses[REAL_KEEPERS_MOST];
    char template[] = "/tmp/skep-keepers-XXXXXX";
    if (mkdtemp(template) == NULL) {
        die(template, "cannot be made");
    }
    keepers->dir = skep_strdup(template);
    keepers->loop = skep_loop_new();
    keepers->http = skep_http_client_new(NULL, 1);
    for (size_t i = 0; i < count; i++) {
        start_one(keepers, i, options, addresses);
    }
    for (size_t i = 0; i < count; i++) {
        free(addresses[i]);
    }
}

int real_keepers_ask(struct real_keepers *keepers, size_t i, const char *method, const char *path,
                     const char *body, struct skep_http_answer *ret_answer)
{
    const struct skep_record *record = &keepers->records[i];
    struct skep_http_request request = {.method = method,
                                        .host = record->host,
                                        .port = record->port,
                                        .pin = &record->tls_pin,
                                        .path = path,
                                        .body = body,
                                        .body_size = body != NULL ? strlen(body) : 0};
    struct skep_error err = {0};
    return skep_http_call(keepers->http, &request, ret_answer, &err) == SKEP_OK ? ret_answer->status
                                                                                : 0;
}

static void fill_in(struct real_keepers *keepers)
{
    struct skep_manifest *manifest = &keepers->manifest;
    struct skep_peer_id admin = skep_key_id(keepers->admin);
    manifest->name = skep_strdup("real keepers");
    memcpy(manifest->project.bytes, admin.bytes, SKEP_ID_SIZE);
    manifest->created_s = skep_clock_unix_s();
    manifest->train.size_bytes = manifest->chunk_bytes;
    manifest->train.chunk_count = 1;
    manifest->train.chunks = skep_alloc(1, sizeof *manifest->train.chunks);
    manifest->heldout = manifest->train;
    manifest->heldout.chunks = skep_alloc(1, sizeof *manifest->heldout.chunks);
    manifest->keeper_count = keepers->count;
    manifest->keepers = skep_alloc(keepers->count, sizeof *manifest->keepers);
    for (size_t i = 0; i < keepers->count; i++) {
        manifest->keepers[i] = keepers->records[i].keeper;
    }
}

void real_keepers_publish(struct real_keepers *keepers, const struct skep_manifest *manifest)
{
    struct skep_error err = {0};
    skep_manifest_done(&keepers->manifest);
    skep_key_free(keepers->admin);
    keepers->manifest = *manifest;
    keepers->admin = skep_key_new();
    fill_in(keepers);
    if (skep_manifest_check(&keepers->manifest, &err) != SKEP_OK) {
        die("manifest", err.text);
    }
    char *payload = skep_manifest_encode(&keepers->manifest);
    char *envelope = skep_statement_sign_text(keepers->admin, SKEP_TYPE_MANIFEST, payload);
    for (size_t i = 0; i < keepers->count; i++) {
        struct skep_http_answer answer = {0};
        if (real_keepers_ask(keepers, i, "POST", "/v1/projects", envelope, &answer) != 201) {
            skep_buffer_append_u8(&answer.body, 0);
            die("publishing", (char *)answer.body.data);
        }
        skep_http_answer_done(&answer);
    }
    free(envelope);
    free(payload);
}

void real_keepers_kill(struct real_keepers *keepers, size_t i)
{
    size_t before = keepers->ended;
    skep_process_signal(keepers->processes[i], SIGKILL);
    for (bool never = false; keepers->ended == before;) {
        skep_loop_run_until(keepers->loop, &never, 10);
    }
}

void real_keepers_stop(struct real_keepers *keepers)
{
    struct skep_error err = {0};
    for (size_t i = 0; i < keepers->count; i++) {
        if (skep_process_running(keepers->processes[i])) {
            skep_process_signal(keepers->processes[i], SIGTERM);
        }
    }
    uint64_t end_ms = skep_clock_monotonic_ms() + READY_MS;
    for (bool never = false; keepers->ended < keepers->count;) {
        skep_loop_run_until(keepers->loop, &never, 10);
        if (skep_clock_monotonic_ms() > end_ms) {
            die("stopping", "takes too long");
        }
    }
    for (size_t i = 0; i < keepers->count; i++) {
        skep_process_free(keepers->processes[i]);
    }
    alive = NULL;
    skep_http_client_free(keepers->http);
    skep_loop_free(keepers->loop);
    if (skep_folder_remove(keepers->dir, &err) != SKEP_OK) {
        die(keepers->dir, err.text);
    }
    free(keepers->dir);
    skep_manifest_done(&keepers->manifest);
    skep_key_free(keepers->admin);
}
