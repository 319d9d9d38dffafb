/* One shard's newest sealed state: who has it, is it sealed, then its bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/network/session.h"
#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/model/layout.h"
#include "common/swarm/chunk-hash.h"
#include "common/swarm/replicas.h"
#include "common/swarm/statement.h"
#include "common/sys/file.h"

#define VERSION_TIMEOUT_MS 8000u

struct shard_fetch {
    struct skep_session *session;
    size_t index;
    struct skep_shard shard;
    uint64_t version;
    uint64_t untried; /* bits of manifest keepers to ask for the version */
    struct skep_peer_id asked;
    struct skep_sealed sealed;
    struct skep_error err;
    skep_session_done done;
    void *user;
};

static void ask_version(struct shard_fetch *fetch);

static void shard_end(struct shard_fetch *fetch, int result)
{
    if (result == 0) {
        fetch->session->sealed[fetch->index] = fetch->sealed;
    } else {
        char name[SKEP_SHARD_TEXT_SIZE];
        skep_shard_format(&fetch->shard, name);
        result = skep_error_prefix(&fetch->err, "%s", name);
    }
    fetch->done(fetch->user, result, &fetch->err);
    free(fetch);
}

static char *path_of_root(const struct skep_session *session, const struct skep_hash *root)
{
    return skep_format("%s/states/%s", session->folder, skep_id_text(root->bytes));
}

char *skep_session_state_path(const struct skep_session *session, size_t shard)
{
    return path_of_root(session, &session->sealed[shard].root);
}

/* Version 0 needs no network: the manifest's seed gives it. */
static int make_version_0(struct shard_fetch *fetch)
{
    struct skep_session *session = fetch->session;
    const struct skep_manifest *manifest = &session->manifest;
    struct skep_layout layout = {0};
    struct skep_buffer file = {0};
    struct skep_chunks chunks = {0};
    char *path = NULL;
    int rc = 0;
    skep_layout_of(&manifest->model, &fetch->shard, &layout);
    float *parameters = calloc(layout.parameters, sizeof *parameters);
    if (parameters == NULL) {
        rc = skep_error_set(&fetch->err, SKEP_ERR_MEMORY, "no memory for %zu parameters",
                            layout.parameters);
        goto out;
    }
    skep_layout_seed(&layout, &manifest->model, &manifest->seed, parameters);
    skep_state_write(&layout, parameters, &file);
    skep_chunks_of(file.data, file.size, manifest->chunk_bytes, &chunks);
    fetch->sealed = (struct skep_sealed){.known = true,
                                         .version = 0,
                                         .root = skep_chunks_root(&chunks),
                                         .payload = session->manifest_hash};
    path = path_of_root(session, &fetch->sealed.root);
    if (!skep_file_exists(path)) {
        rc = skep_file_write(path, 0600, file.data, file.size, &fetch->err);
    }
out:
    free(path);
    free(parameters);
    skep_chunks_done(&chunks);
    skep_buffer_done(&file);
    skep_layout_done(&layout);
    return rc;
}

static int check_seal(const struct skep_manifest *manifest, const struct skep_shard *shard,
                      const struct skep_json *answer, struct skep_sealed *sealed,
                      struct skep_error *err)
{
    const struct skep_json *value = NULL;
    struct skep_envelope envelope = {0};
    struct skep_seal seal = {0};
    struct skep_hash payload;
    int rc = skep_json_get_object(answer, "version", "seal", &value, err);
    if (rc == 0) {
        rc = skep_envelope_from_json(value, &envelope, err);
    }
    if (rc == 0) {
        rc = skep_seal_open(&envelope, manifest, &seal, &payload, err);
    }
    if (rc == 0 && (memcmp(&seal.project, &manifest->project, sizeof seal.project) != 0 ||
                    !skep_shard_equal(&seal.shard, shard) || seal.version != sealed->version)) {
        rc = skep_error_set(err, SKEP_ERR_SIGNATURE,
                            "the seal is of another shard or version (version %llu found, %llu "
                            "expected)",
                            (unsigned long long)seal.version, (unsigned long long)sealed->version);
    }
    if (rc == 0) {
        sealed->root = seal.state;
        sealed->payload = payload;
    }
    skep_seal_done(&seal);
    skep_envelope_done(&envelope);
    return rc;
}

int skep_version_read(const struct skep_manifest *manifest, const struct skep_hash *manifest_hash,
                      const struct skep_shard *shard, const struct skep_json *answer,
                      struct skep_sealed *ret_sealed, struct skep_chunks *ret_chunks,
                      struct skep_error *err)
{
    struct skep_sealed sealed = {.known = true, .payload = *manifest_hash};
    struct skep_chunks chunks = {0};
    const struct skep_json *value = NULL;
    int64_t version = 0;
    int rc = skep_json_get_integer(answer, "version", "version", 0, INT64_MAX, &version, err);
    sealed.version = (uint64_t)version;
    if (rc == 0 && version == 0) {
        rc = skep_json_get_hex(answer, "version", "root", sealed.root.bytes, SKEP_ID_SIZE, err);
    } else if (rc == 0) {
        rc = check_seal(manifest, shard, answer, &sealed, err);
    }
    /* null when the state is no longer held: not an error of the keeper */
    if (rc == 0 && skep_json_get_object(answer, "version", "chunks", &value, NULL) == 0 &&
        !skep_json_is_null(value)) {
        rc = skep_chunks_from_json(value, &chunks, err);
    }
    if (rc == 0 && chunks.count > 0) {
        struct skep_hash root = skep_chunks_root(&chunks);
        if (!skep_hash_equal(&root, &sealed.root)) {
            rc = skep_error_set(err, SKEP_ERR_HASH,
                                "the chunk list has root %.16s, the seal says %.16s",
                                skep_id_text(root.bytes), skep_id_text(sealed.root.bytes));
        }
    }
    if (rc != 0) {
        skep_chunks_done(&chunks);
        return rc;
    }
    *ret_sealed = sealed;
    *ret_chunks = chunks;
    return 0;
}

static void on_aside(void *user, const struct skep_peer_id *keeper, bool lied)
{
    struct shard_fetch *fetch = user;
    if (lied) {
        skep_peers_set_aside(fetch->session->peers, keeper, true);
    }
}

static void on_state(void *user, int result, const struct skep_error *err)
{
    struct shard_fetch *fetch = user;
    fetch->err = *err;
    shard_end(fetch, result);
}

/* All keepers of the replica set that can be reached, those that said they hold this version first. */
static size_t sources_of(const struct shard_fetch *fetch, struct skep_fetch_source *ret_sources)
{
    struct skep_session *session = fetch->session;
    struct skep_replicas replicas = skep_replicas_of(&session->manifest, &fetch->shard);
    uint64_t holders = session->heads.heads[fetch->index].holders;
    size_t count = 0;
    for (int holding = 1; holding >= 0; holding--) {
        for (size_t i = 0; i < replicas.count; i++) {
            const struct skep_peer_id *keeper = &replicas.keepers[i];
            const struct skep_record *record = skep_peers_find_keeper(session->peers, keeper);
            size_t place = skep_heads_keeper_place(&session->manifest, keeper);
            if (record == NULL || place >= 64 || (int)(holders >> place & 1) != holding ||
                skep_peers_is_aside(session->peers, keeper)) {
                continue;
            }
            struct skep_fetch_source *source = &ret_sources[count++];
            *source = (struct skep_fetch_source){
                .keeper = *keeper, .port = record->port, .pin = record->tls_pin};
            snprintf(source->host, sizeof source->host, "%s", record->host);
        }
    }
    return count;
}

static void fetch_state(struct shard_fetch *fetch, const struct skep_chunks *chunks)
{
    struct skep_fetch_source sources[SKEP_LIMIT_KEEPERS];
    char name[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(&fetch->shard, name);
    char *path = path_of_root(fetch->session, &fetch->sealed.root);
    char *url = skep_format("/v1/projects/%s/shards/%s/versions/%llu/state",
                            skep_id_text(fetch->session->project.bytes), name,
                            (unsigned long long)fetch->sealed.version);
    struct skep_fetch_options options = {
        .chunks = chunks,
        .path = path,
        .url_path = url,
        .sources = sources,
        .source_count = sources_of(fetch, sources),
        .on_aside = on_aside,
        .on_done = on_state,
        .user = fetch,
    };
    skep_fetch_start(&fetch->session->transport, &options);
    free(path);
    free(url);
}

static void on_version(void *user, int result, const struct skep_http_answer *answer,
                       const struct skep_error *failure)
{
    struct shard_fetch *fetch = user;
    struct skep_session *session = fetch->session;
    struct skep_json *root = NULL;
    struct skep_chunks chunks = {0};
    int rc = skep_answer_json(result, answer, failure, "version", &root, &fetch->err);
    if (rc == 0) {
        rc = skep_version_read(&session->manifest, &session->manifest_hash, &fetch->shard, root,
                               &fetch->sealed, &chunks, &fetch->err);
        if (rc == 0 && fetch->sealed.version != fetch->version) {
            rc = skep_error_set(&fetch->err, SKEP_ERR_FORMAT,
                                "the keeper answered with version "
                                "%llu instead of %llu",
                                (unsigned long long)fetch->sealed.version,
                                (unsigned long long)fetch->version);
        }
        if (rc != 0) {
            skep_log(SKEP_LOG_WARNING, "keeper %.8s: %s", skep_id_text(fetch->asked.bytes),
                     fetch->err.text);
            skep_peers_set_aside(session->peers, &fetch->asked, true);
            skep_heads_clear(&session->heads);
        }
    } else if (rc == SKEP_ERR_NETWORK) {
        skep_peers_set_aside(session->peers, &fetch->asked, false);
    } else if (rc == SKEP_ERR_NOT_FOUND) {
        /* keepers keep all seals, so it claimed a version that it never had: others must be heard again */
        skep_log(SKEP_LOG_WARNING, "keeper %.8s: %s", skep_id_text(fetch->asked.bytes),
                 fetch->err.text);
        skep_peers_set_aside(session->peers, &fetch->asked, true);
        skep_heads_clear(&session->heads);
    }
    skep_json_free(root);
    char *path = rc == 0 ? path_of_root(session, &fetch->sealed.root) : NULL;
    if (rc == SKEP_ERR_CANCELLED) {
        shard_end(fetch, rc);
    } else if (rc != 0) {
        ask_version(fetch);
    } else if (skep_file_exists(path)) {
        shard_end(fetch, 0);
    } else if (chunks.count == 0) {
        shard_end(fetch, skep_error_set(&fetch->err, SKEP_ERR_STALE,
                                        "version %llu is no longer held by its keepers",
                                        (unsigned long long)fetch->version));
    } else {
        fetch_state(fetch, &chunks);
    }
    free(path);
    skep_chunks_done(&chunks);
}

/* Asks the next holder about the version; each donor starts at another one. */
static void ask_version(struct shard_fetch *fetch)
{
    struct skep_session *session = fetch->session;
    size_t keepers = session->manifest.keeper_count;
    const struct skep_record *record = NULL;
    size_t start = session->turn++ % keepers;
    for (size_t n = 0; n < keepers && record == NULL; n++) {
        size_t place = (start + n) % keepers;
        uint64_t bit = (uint64_t)1 << place;
        if ((fetch->untried & bit) == 0) {
            continue;
        }
        fetch->untried &= ~bit;
        fetch->asked = session->manifest.keepers[place];
        if (!skep_peers_is_aside(session->peers, &fetch->asked)) {
            record = skep_peers_find_keeper(session->peers, &fetch->asked);
        }
    }
    if (record == NULL) {
        if (fetch->err.code == 0) {
            skep_error_set(&fetch->err, SKEP_ERR_NETWORK,
                           "none of its keepers can be reached for version %llu",
                           (unsigned long long)fetch->version);
        }
        shard_end(fetch, fetch->err.code);
        return;
    }
    char name[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(&fetch->shard, name);
    char *path =
        skep_format("/v1/projects/%s/shards/%s/versions/%llu", skep_id_text(session->project.bytes),
                    name, (unsigned long long)fetch->version);
    struct skep_http_request request = {.method = "GET",
                                        .host = record->host,
                                        .port = record->port,
                                        .path = path,
                                        .pin = &record->tls_pin,
                                        .timeout_ms = VERSION_TIMEOUT_MS};
    session->transport.send(session->transport.user, &request, on_version, fetch);
    free(path);
}

/* The version we checked last is the one the keepers name, and its file is still there. */
static bool have_already(const struct skep_session *session, size_t index)
{
    const struct skep_sealed *sealed = &session->sealed[index];
    const struct skep_head *head = &session->heads.heads[index];
    if (!sealed->known || sealed->version != head->version ||
        !skep_hash_equal(&sealed->root, &head->root)) {
        return false;
    }
    char *path = path_of_root(session, &sealed->root);
    bool there = skep_file_exists(path);
    free(path);
    return there;
}

void skep_shard_fetch(struct skep_session *session, size_t shard, skep_session_done done,
                      void *user)
{
    struct shard_fetch *fetch = skep_alloc(1, sizeof *fetch);
    const struct skep_head *head = &session->heads.heads[shard];
    fetch->session = session;
    fetch->index = shard;
    fetch->shard = skep_manifest_shard(&session->manifest, shard);
    fetch->version = head->version;
    fetch->untried = head->holders;
    fetch->done = done;
    fetch->user = user;
    if (!head->known) {
        shard_end(fetch, skep_error_set(&fetch->err, SKEP_ERR_NOT_FOUND, "no keeper names it"));
    } else if (have_already(session, shard)) {
        fetch->sealed = session->sealed[shard];
        shard_end(fetch, 0);
    } else if (head->version == 0) {
        shard_end(fetch, make_version_0(fetch));
    } else {
        ask_version(fetch);
    }
}
