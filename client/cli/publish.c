#include "client/cli/publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/agent/identity.h"
#include "client/cli/dataset.h"
#include "client/network/transport.h"
#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/crypto/random.h"
#include "common/discovery/directory.h"
#include "common/swarm/statement.h"
#include "common/sys/clock.h"
#include "common/sys/file.h"
#include "common/wire/task.h"

#define CALL_MS 20000u
#define COPIES 2u /* keepers that get each chunk from us; the others fetch it from them */

struct keeper {
    struct skep_address address;
    struct skep_record record;
};

struct publishing {
    const struct skep_publish_options *options;
    struct skep_http_client *http;
    struct skep_task task;
    struct skep_buffer train;
    struct skep_buffer heldout;
    struct keeper *keepers;
    size_t keeper_count;
    struct skep_key *key;
    char *envelope;
};

/* One request to a keeper; 2xx or an error. */
static int call(struct publishing *publishing, const struct keeper *keeper, bool pinned,
                struct skep_http_request *request, struct skep_http_answer *ret_answer,
                struct skep_error *err)
{
    struct skep_error failure = {0};
    char *what = skep_format("keeper %s:%u", keeper->address.host, keeper->address.port);
    request->host = keeper->address.host;
    request->port = keeper->address.port;
    request->pin = pinned ? &keeper->record.tls_pin : NULL;
    request->timeout_ms = CALL_MS;
    int rc = skep_http_call(publishing->http, request, ret_answer, &failure);
    rc = skep_answer_check(rc, rc == 0 ? ret_answer : NULL, &failure, what, err);
    free(what);
    return rc;
}

static int read_task(struct publishing *publishing, struct skep_error *err)
{
    const char *path = publishing->options->task_path;
    int rc = skep_task_load(path, &publishing->task, err);
    if (rc == 0) {
        rc = skep_dataset_read(path, &publishing->task, &publishing->train, &publishing->heldout,
                               err);
    }
    return rc;
}

/* First contact: the record the keeper shows of itself, its signature checked. */
static int meet(struct publishing *publishing, const char *address, struct keeper *keeper,
                struct skep_error *err)
{
    struct skep_http_request request = {.method = "GET", .path = "/v1/record"};
    struct skep_http_answer answer = {0};
    struct skep_envelope envelope = {0};
    if (!skep_address_parse(address, &keeper->address)) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "--keeper is \"%.80s\"; expected: numeric address and port, such as "
                              "192.0.2.7:7420",
                              address);
    }
    int rc = call(publishing, keeper, false, &request, &answer, err);
    if (rc == 0) {
        rc = skep_envelope_parse(answer.body.data, answer.body.size, &envelope, err);
    }
    if (rc == 0) {
        rc = skep_record_open(&envelope, skep_clock_unix_s(), &keeper->record, err);
    }
    skep_envelope_done(&envelope);
    skep_http_answer_done(&answer);
    return rc;
}

static int compare_keepers(const void *a, const void *b)
{
    const struct keeper *left = a;
    const struct keeper *right = b;
    return memcmp(left->record.keeper.bytes, right->record.keeper.bytes, SKEP_ID_SIZE);
}

static int meet_all(struct publishing *publishing, struct skep_error *err)
{
    const struct skep_publish_options *options = publishing->options;
    struct skep_manifest *manifest = &publishing->task.manifest;
    publishing->keepers = skep_alloc(options->keeper_count, sizeof *publishing->keepers);
    for (size_t i = 0; i < options->keeper_count; i++) {
        publishing->keeper_count = i + 1;
        int rc = meet(publishing, options->keepers[i], &publishing->keepers[i], err);
        if (rc != 0) {
            return rc;
        }
    }
    qsort(publishing->keepers, publishing->keeper_count, sizeof *publishing->keepers,
          compare_keepers);
    manifest->keeper_count = publishing->keeper_count;
    manifest->keepers = skep_alloc(manifest->keeper_count, sizeof *manifest->keepers);
    for (size_t i = 0; i < manifest->keeper_count; i++) {
        manifest->keepers[i] = publishing->keepers[i].record.keeper;
        if (i > 0 && skep_peer_id_equal(&manifest->keepers[i - 1], &manifest->keepers[i])) {
            return skep_error_set(err, SKEP_ERR_ARGUMENT, "keeper %.8s is named twice",
                                  skep_id_text(manifest->keepers[i].bytes));
        }
    }
    return 0;
}

/* The manifest of an earlier publishing with this key, if it says the same as ours; then its text is used again. */
static int repeat(struct publishing *publishing, const char *path, struct skep_error *err)
{
    struct skep_manifest *manifest = &publishing->task.manifest;
    struct skep_manifest before = {0};
    struct skep_buffer text = {0};
    int rc = skep_file_read(path, SKEP_LIMIT_STATEMENT_BYTES, &text, err);
    if (rc == 0) {
        rc = skep_manifest_open(text.data, text.size, &manifest->project, &before, NULL, err);
    }
    if (rc == 0) {
        manifest->seed = before.seed;
        manifest->created_s = before.created_s;
        char *ours = skep_manifest_encode(manifest);
        char *theirs = skep_manifest_encode(&before);
        if (strcmp(ours, theirs) != 0) {
            rc = skep_error_set(err, SKEP_ERR_STATE,
                                "%s was published with another task, data or keepers; a manifest "
                                "never changes, so choose another --key for a new project",
                                path);
        }
        free(ours);
        free(theirs);
    }
    if (rc == 0) {
        publishing->envelope = skep_format("%.*s", (int)text.size, (const char *)text.data);
    }
    skep_manifest_done(&before);
    skep_buffer_done(&text);
    return rc;
}

static int sign(struct publishing *publishing, struct skep_error *err)
{
    struct skep_manifest *manifest = &publishing->task.manifest;
    char *path = skep_format("%s.manifest", publishing->options->key_path);
    int rc = skep_identity_load(publishing->options->key_path, true, &publishing->key, NULL, err);
    if (rc != 0) {
        free(path);
        return rc;
    }
    struct skep_peer_id id = skep_key_id(publishing->key);
    memcpy(manifest->project.bytes, id.bytes, SKEP_ID_SIZE);
    manifest->created_s = skep_clock_unix_s();
    skep_random_bytes(manifest->seed.bytes, sizeof manifest->seed.bytes);
    rc = skep_manifest_check(manifest, err);
    if (rc == 0 && skep_file_exists(path)) {
        rc = repeat(publishing, path, err);
    } else if (rc == 0) {
        char *payload = skep_manifest_encode(manifest);
        publishing->envelope =
            skep_statement_sign_text(publishing->key, SKEP_TYPE_MANIFEST, payload);
        rc = skep_file_write(path, 0644, publishing->envelope, strlen(publishing->envelope), err);
        free(payload);
    }
    free(path);
    return rc;
}

static int post_manifest(struct publishing *publishing, struct skep_error *err)
{
    for (size_t i = 0; i < publishing->keeper_count; i++) {
        struct skep_http_request request = {.method = "POST",
                                            .path = "/v1/projects",
                                            .body = publishing->envelope,
                                            .body_size = strlen(publishing->envelope)};
        struct skep_http_answer answer = {0};
        int rc = call(publishing, &publishing->keepers[i], true, &request, &answer, err);
        skep_http_answer_done(&answer);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* Gives one chunk to COPIES keepers, beginning at another one each time; enough if one took it. */
static int upload_chunk(struct publishing *publishing, const struct skep_hash *hash,
                        const uint8_t *data, size_t size, size_t turn)
{
    size_t copies = 0;
    struct skep_error err = {0};
    char *path = skep_format("/v1/blobs/%s", skep_id_text(hash->bytes));
    for (size_t n = 0; n < publishing->keeper_count && copies < COPIES; n++) {
        struct skep_http_request request = {.method = "PUT",
                                            .path = path,
                                            .content_type = "application/octet-stream",
                                            .body = data,
                                            .body_size = size};
        struct skep_http_answer answer = {0};
        const struct keeper *keeper = &publishing->keepers[(turn + n) % publishing->keeper_count];
        int rc = call(publishing, keeper, true, &request, &answer, &err);
        skep_http_answer_done(&answer);
        copies += rc == 0;
    }
    free(path);
    if (copies == 0) {
        fprintf(stderr, "skep: %s\n", err.text);
    }
    return copies > 0 ? 0 : err.code;
}

static int upload(struct publishing *publishing, const char *what, const struct skep_data_set *set,
                  const struct skep_buffer *text, struct skep_error *err)
{
    uint32_t chunk_bytes = publishing->task.manifest.chunk_bytes;
    bool show = isatty(STDERR_FILENO) != 0;
    for (size_t i = 0; i < set->chunk_count; i++) {
        size_t first = i * chunk_bytes;
        size_t left = text->size - first;
        size_t size = left < chunk_bytes ? left : chunk_bytes;
        int rc = upload_chunk(publishing, &set->chunks[i], text->data + first, size, i);
        if (rc != 0) {
            return skep_error_set(err, (enum skep_err)rc,
                                  "chunk %zu of %zu of the %s data was taken by no keeper; publish "
                                  "again to go on",
                                  i + 1, set->chunk_count, what);
        }
        if (show) {
            fprintf(stderr, "\ruploading the %s data: %zu of %zu chunks", what, i + 1,
                    set->chunk_count);
        }
    }
    if (show && set->chunk_count > 0) {
        fputc('\n', stderr);
    }
    return 0;
}

static void publishing_done(struct publishing *publishing)
{
    for (size_t i = 0; i < publishing->keeper_count; i++) {
        skep_record_done(&publishing->keepers[i].record);
    }
    free(publishing->keepers);
    free(publishing->envelope);
    skep_key_free(publishing->key);
    skep_buffer_done(&publishing->train);
    skep_buffer_done(&publishing->heldout);
    skep_task_done(&publishing->task);
    skep_http_client_free(publishing->http);
}

int skep_publish(const struct skep_publish_options *options, struct skep_project_id *ret_project,
                 struct skep_error *err)
{
    struct publishing publishing = {.options = options};
    publishing.http = skep_http_client_new(NULL, 1);
    const struct skep_manifest *manifest = &publishing.task.manifest;
    int rc = read_task(&publishing, err);
    if (rc == 0) {
        rc = meet_all(&publishing, err);
    }
    if (rc == 0) {
        rc = sign(&publishing, err);
    }
    if (rc == 0) {
        rc = post_manifest(&publishing, err);
    }
    if (rc == 0) {
        rc = upload(&publishing, "training", &manifest->train, &publishing.train, err);
    }
    if (rc == 0) {
        rc = upload(&publishing, "held-out", &manifest->heldout, &publishing.heldout, err);
    }
    if (rc == 0) {
        *ret_project = manifest->project;
    }
    publishing_done(&publishing);
    return rc;
}
