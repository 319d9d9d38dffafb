/* The directory: records of keepers, asked for by key and handed in by gossip. */
#include <string.h>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/swarm/replicas.h"
#include "server/api/api.h"
#include "server/api/reply.h"
#include "server/peers.h"

/* Does this keeper hold one of the key's shards, or serve the project at all? */
static bool has_key(const struct skep_project *project, const struct skep_project_key *key,
                    const struct skep_peer_id *keeper)
{
    if (key->whole_project) {
        return skep_project_names(project, keeper);
    }
    for (size_t i = 0; i < key->shard_count; i++) {
        struct skep_shard shard = skep_manifest_shard(&project->manifest, key->first_shard + i);
        struct skep_replicas replicas = skep_replicas_of(&project->manifest, &shard);
        if (skep_replicas_has(&replicas, keeper)) {
            return true;
        }
    }
    return false;
}

static bool has_project(const struct skep_record *record, const struct skep_project *project)
{
    for (size_t i = 0; i < record->project_count; i++) {
        if (memcmp(record->projects[i].bytes, project->manifest.project.bytes, SKEP_ID_SIZE) == 0) {
            return true;
        }
    }
    return false;
}

static void push_key(const struct skep_host *host, const struct skep_project *project,
                     const struct skep_project_key *key, struct skep_json *list)
{
    if (key->whole_project || key->ours) {
        skep_json_push_take(list, skep_envelope_to_json(skep_peers_own(host->peers)));
    }
    for (size_t i = 0; i < skep_peers_count(host->peers); i++) {
        const struct skep_record *record = skep_peers_at(host->peers, i);
        if (has_project(record, project) && has_key(project, key, &record->keeper)) {
            skep_json_push_take(list,
                                skep_envelope_to_json(skep_peers_envelope_at(host->peers, i)));
        }
    }
}

static void push_all(const struct skep_host *host, struct skep_json *list)
{
    skep_json_push_take(list, skep_envelope_to_json(skep_peers_own(host->peers)));
    for (size_t i = 0; i < skep_peers_count(host->peers) && i + 1 < SKEP_LIMIT_RECORDS; i++) {
        skep_json_push_take(list, skep_envelope_to_json(skep_peers_envelope_at(host->peers, i)));
    }
}

static void push_known(const struct skep_host *host, const struct skep_directory_key *wanted,
                       struct skep_json *list)
{
    for (size_t i = 0; i < host->project_count; i++) {
        const struct skep_project *project = host->projects[i];
        for (size_t j = 0; j < project->key_count; j++) {
            if (memcmp(project->keys[j].key.bytes, wanted->bytes, sizeof wanted->bytes) == 0) {
                push_key(host, project, &project->keys[j], list);
                return;
            }
        }
    }
}

SKEP_API_HANDLER(skep_api_get_directory)
{
    (void)parts;
    const struct skep_host *host = user;
    struct skep_directory_key key;
    const char *text = skep_http_query(exchange, "key");
    if (text != NULL && !skep_hex_decode(text, key.bytes, sizeof key.bytes)) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "key is \"%.50s\"; it must be 40 lower-case hexadecimal digits",
                              text);
    }
    struct skep_json *list = skep_json_array_new();
    if (text == NULL) {
        push_all(host, list);
    } else {
        push_known(host, &key, list);
    }
    struct skep_json *root = skep_json_object_new();
    skep_json_set_take(root, "records", list);
    skep_reply_json(reply, 200, root);
    return SKEP_OK;
}

SKEP_API_HANDLER(skep_api_post_directory)
{
    (void)parts;
    const struct skep_host *host = user;
    struct skep_json *root = NULL;
    const struct skep_json *list = NULL;
    int result = skep_json_parse(exchange->body, exchange->body_size, "directory", &root, err);
    if (result == SKEP_OK) {
        result = skep_json_get_array(root, "directory", "records", SKEP_LIMIT_RECORDS, &list, err);
    }
    size_t accepted = 0;
    for (size_t i = 0; result == SKEP_OK && i < skep_json_array_size(list); i++) {
        struct skep_envelope envelope = {0};
        struct skep_error reason = {0};
        bool is_new = false;
        if (skep_envelope_from_json(skep_json_array_at(list, i), &envelope, &reason) == SKEP_OK &&
            skep_peers_add(host->peers, &envelope, &is_new, &reason) == SKEP_OK) {
            accepted++;
        } else {
            skep_log(SKEP_LOG_DEBUG, "a record is refused: %s", reason.text);
        }
        skep_envelope_done(&envelope);
    }
    skep_json_free(root);
    if (result == SKEP_OK) {
        root = skep_json_object_new();
        skep_json_set_integer(root, "accepted", (int64_t)accepted);
        skep_reply_json(reply, 200, root);
    }
    return result;
}
