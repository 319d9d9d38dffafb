/* Projects: taking one, its manifest, heads and receipts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/api.h"
#include "server/api/reply.h"
#include "server/shard.h"

#define RECEIPTS_MOST 500u
#define RECEIPTS_DEFAULT 100u

SKEP_API_HANDLER(skep_api_get_projects)
{
    (void)exchange;
    (void)parts;
    (void)err;
    const struct skep_host *host = user;
    struct skep_json *list = skep_json_array_new();
    for (size_t i = 0; i < host->project_count; i++) {
        skep_json_push_hex(list, host->projects[i]->manifest.project.bytes, SKEP_ID_SIZE);
    }
    struct skep_json *root = skep_json_object_new();
    skep_json_set_take(root, "projects", list);
    skep_reply_json(reply, 200, root);
    return SKEP_OK;
}

SKEP_API_HANDLER(skep_api_post_projects)
{
    (void)parts;
    struct skep_project *project = NULL;
    bool is_new = false;
    int result =
        skep_project_take(user, exchange->body, exchange->body_size, &project, &is_new, err);
    if (result == SKEP_OK) {
        struct skep_json *root = skep_json_object_new();
        skep_json_set_hex(root, "project", project->manifest.project.bytes, SKEP_ID_SIZE);
        skep_reply_json(reply, is_new ? 201 : 200, root);
    }
    return result;
}

SKEP_API_HANDLER(skep_api_get_manifest)
{
    (void)exchange;
    struct skep_project *project = NULL;
    int result = skep_api_project(user, parts, &project, err);
    if (result == SKEP_OK) {
        skep_reply_text(reply, 200, project->envelope);
    }
    return result;
}

SKEP_API_HANDLER(skep_api_get_head)
{
    (void)exchange;
    struct skep_project *project = NULL;
    int result = skep_api_project(user, parts, &project, err);
    if (result != SKEP_OK) {
        return result;
    }
    struct skep_json *shards = skep_json_object_new();
    for (size_t i = 0; i < project->shard_count; i++) {
        const struct skep_kept_shard *shard = project->shards[i];
        if (shard != NULL && shard->has_state) {
            const struct skep_kept_version *head = skep_kept_shard_head(shard);
            struct skep_json *object = skep_json_object_new();
            skep_json_set_integer(object, "version", (int64_t)head->version);
            skep_json_set_hex(object, "root", head->root.bytes, SKEP_ID_SIZE);
            skep_json_set_hex(object, "payload", head->payload.bytes, SKEP_ID_SIZE);
            skep_json_set_take(shards, shard->text, object);
        }
    }
    struct skep_json *root = skep_json_object_new();
    skep_json_set_take(root, "shards", shards);
    skep_reply_json(reply, 200, root);
    return SKEP_OK;
}

/* A decimal query parameter within bounds; `value` stays if it is absent. */
static int read_number(const struct skep_http_exchange *exchange, const char *key, int64_t least,
                       int64_t most, int64_t *value, struct skep_error *err)
{
    const char *text = skep_http_query(exchange, key);
    if (text == NULL) {
        return SKEP_OK;
    }
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0' || errno != 0 || number < least || number > most) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "%s is \"%.40s\"; it must be a whole number from %lld to %lld", key,
                              text, (long long)least, (long long)most);
    }
    *value = number;
    return SKEP_OK;
}

/* What the database hands over, as JSON. */
static int push_receipt(void *user, int64_t row, const char *seal)
{
    struct skep_json *list = user;
    struct skep_json *value = NULL;
    if (skep_json_parse(seal, strlen(seal), "seal", &value, NULL) == SKEP_OK) {
        struct skep_json *object = skep_json_object_new();
        skep_json_set_integer(object, "row", row);
        skep_json_set_take(object, "seal", value);
        skep_json_push_take(list, object);
    }
    return SKEP_OK;
}

SKEP_API_HANDLER(skep_api_get_receipts)
{
    struct skep_host *host = user;
    struct skep_project *project = NULL;
    int64_t after = 0;
    int64_t most = RECEIPTS_DEFAULT;
    struct skep_hash hash;
    const char *donor = skep_http_query(exchange, "donor");
    int result = skep_api_project(host, parts, &project, err);
    if (result == SKEP_OK) {
        result = skep_api_hash("donor", donor != NULL ? donor : "", &hash, err);
    }
    if (result == SKEP_OK) {
        result = read_number(exchange, "after", 0, INT64_MAX, &after, err);
    }
    if (result == SKEP_OK) {
        result = read_number(exchange, "most", 1, RECEIPTS_MOST, &most, err);
    }
    if (result != SKEP_OK) {
        return result;
    }
    struct skep_peer_id id;
    memcpy(id.bytes, hash.bytes, SKEP_ID_SIZE);
    struct skep_json *list = skep_json_array_new();
    result = skep_keeper_db_each_receipt_seal(host->db, &project->manifest.project, &id, after,
                                              (size_t)most, push_receipt, list, err);
    struct skep_json *root = skep_json_object_new();
    skep_json_set_take(root, "receipts", list);
    if (result == SKEP_OK) {
        skep_reply_json(reply, 200, root);
    } else {
        skep_json_free(root);
    }
    return result;
}
