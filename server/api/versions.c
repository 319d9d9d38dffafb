/* Versions of shards: what was sealed, and the state itself. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/api.h"
#include "server/api/reply.h"
#include "server/shard.h"

/* The shard and version that the path names. */
static int read_path(struct skep_host *host, const struct skep_route_parts *parts,
                     struct skep_kept_shard **ret_shard, uint64_t *ret_version,
                     struct skep_error *err)
{
    struct skep_project *project = NULL;
    int result = skep_api_project(host, parts, &project, err);
    if (result != SKEP_OK) {
        return result;
    }
    struct skep_shard shard;
    if (!skep_shard_parse(parts->text[1], &shard)) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "the shard is \"%s\"; it must be trunk or ffn.<layer>.<row>.<column>",
                              parts->text[1]);
    }
    struct skep_kept_shard *kept = skep_project_shard(project, &shard, err);
    if (kept == NULL) {
        return SKEP_ERR_NOT_FOUND;
    }
    const char *text = parts->text[2];
    uint64_t version = skep_kept_shard_head(kept)->version;
    if (strcmp(text, "latest") != 0) {
        char *end = NULL;
        errno = 0;
        version = strtoull(text, &end, 10);
        if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || version > INT64_MAX) {
            return skep_error_set(err, SKEP_ERR_ARGUMENT,
                                  "the version is \"%s\"; it must be a number or latest", text);
        }
    }
    *ret_shard = kept;
    *ret_version = version;
    return SKEP_OK;
}

static int set_seal(struct skep_json *root, const char *seal, struct skep_error *err)
{
    if (seal == NULL) {
        skep_json_set_null(root, "seal");
        return SKEP_OK;
    }
    struct skep_json *value = NULL;
    int result = skep_json_parse(seal, strlen(seal), "seal", &value, err);
    if (result == SKEP_OK) {
        skep_json_set_take(root, "seal", value);
    }
    return result;
}

SKEP_API_HANDLER(skep_api_get_version)
{
    (void)exchange;
    struct skep_host *host = user;
    struct skep_kept_shard *shard = NULL;
    uint64_t version = 0;
    int result = read_path(host, parts, &shard, &version, err);
    if (result != SKEP_OK) {
        return result;
    }
    assert(shard != NULL);
    struct skep_version_row row = {0};
    result = skep_keeper_db_get_version(host->db, &shard->project->manifest.project, &shard->shard,
                                        version, &row, err);
    if (result != SKEP_OK) {
        return result;
    }
    struct skep_json *root = skep_json_object_new();
    const struct skep_chunks *chunks = NULL;
    skep_json_set_integer(root, "version", (int64_t)version);
    skep_json_set_hex(root, "root", row.root.bytes, SKEP_ID_SIZE);
    skep_json_set_hex(root, "payload", row.payload_hash.bytes, SKEP_ID_SIZE);
    result = set_seal(root, row.seal, err);
    if (skep_kept_shard_chunks(shard, version, &chunks, NULL) == SKEP_OK) {
        skep_json_set_take(root, "chunks", skep_chunks_to_json(chunks));
    } else {
        skep_json_set_null(root, "chunks");
    }
    free((void *)row.seal);
    if (result == SKEP_OK) {
        skep_reply_json(reply, 200, root);
    } else {
        skep_json_free(root);
    }
    return result;
}

SKEP_API_HANDLER(skep_api_get_state)
{
    struct skep_kept_shard *shard = NULL;
    uint64_t version = 0;
    int result = read_path(user, parts, &shard, &version, err);
    if (result != SKEP_OK) {
        return result;
    }
    struct skep_buffer room = {0};
    const struct skep_buffer *data = NULL;
    result = skep_kept_shard_state(shard, version, &room, &data, err);
    if (result == SKEP_OK) {
        skep_http_reply_ranged(exchange, data->data, data->size, reply);
        if (reply->status != 416) {
            reply->content_type = "application/octet-stream";
        }
    }
    skep_buffer_done(&room);
    return result;
}
