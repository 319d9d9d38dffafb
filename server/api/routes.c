/* The table of routes, and what is common to all of them. */
#include <string.h>

#include "common/base/log.h"
#include "server/api/api.h"
#include "server/api/reply.h"

static const struct skep_route_entry routes[] = {
    {"GET", "/v1/health", skep_api_get_health},
    {"GET", "/v1/record", skep_api_get_record},
    {"GET", "/v1/status", skep_api_get_status},
    {"GET", "/metrics", skep_api_get_metrics},
    {"GET", "/v1/directory", skep_api_get_directory},
    {"POST", "/v1/directory", skep_api_post_directory},
    {"GET", "/v1/projects", skep_api_get_projects},
    {"POST", "/v1/projects", skep_api_post_projects},
    {"GET", "/v1/projects/{project}/manifest", skep_api_get_manifest},
    {"GET", "/v1/projects/{project}/head", skep_api_get_head},
    {"GET", "/v1/projects/{project}/receipts", skep_api_get_receipts},
    {"GET", "/v1/projects/{project}/shards/{shard}/versions/{version}", skep_api_get_version},
    {"GET", "/v1/projects/{project}/shards/{shard}/versions/{version}/state", skep_api_get_state},
    {"POST", "/v1/projects/{project}/updates", skep_api_post_update},
    {"GET", "/v1/projects/{project}/evidence", skep_api_get_evidence},
    {"GET", "/v1/projects/{project}/audits", skep_api_get_audits},
    {"POST", "/v1/projects/{project}/messages", skep_api_post_messages},
    {"POST", "/v1/projects/{project}/experts/forward", skep_api_post_expert_forward},
    {"POST", "/v1/projects/{project}/experts/backward", skep_api_post_expert_backward},
    {"POST", "/v1/projects/{project}/experts/sessions", skep_api_post_expert_session},
    {"POST", "/v1/projects/{project}/experts/updates", skep_api_post_expert_updates},
    {"GET", "/v1/updates/{hash}", skep_api_get_update},
    {"PUT", "/v1/evidence/{history}", skep_api_put_evidence},
    {"GET", "/v1/blobs/{hash}", skep_api_get_blob},
    {"PUT", "/v1/blobs/{hash}", skep_api_put_blob},
};

const struct skep_route_entry *skep_api_routes(size_t *ret_count)
{
    *ret_count = sizeof routes / sizeof routes[0];
    return routes;
}

int skep_api_hash(const char *what, const char *text, struct skep_hash *ret_hash,
                  struct skep_error *err)
{
    if (!skep_hex_decode(text, ret_hash->bytes, SKEP_ID_SIZE)) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "%s is \"%.72s\"; it must be 64 lower-case hexadecimal digits", what,
                              text);
    }
    return SKEP_OK;
}

int skep_api_project(struct skep_host *host, const struct skep_route_parts *parts,
                     struct skep_project **ret_project, struct skep_error *err)
{
    struct skep_project_id id;
    struct skep_hash hash;
    int result = skep_api_hash("the project", parts->text[0], &hash, err);
    if (result != SKEP_OK) {
        return result;
    }
    memcpy(id.bytes, hash.bytes, SKEP_ID_SIZE);
    struct skep_project *project = skep_host_project(host, &id);
    if (project == NULL) {
        return skep_error_set(err, SKEP_ERR_NOT_FOUND, "this keeper has no project %s",
                              parts->text[0]);
    }
    *ret_project = project;
    return SKEP_OK;
}

void skep_api_handle(void *user, const struct skep_http_exchange *exchange,
                     struct skep_http_reply *reply)
{
    struct skep_host *host = user;
    struct skep_error err = {0};
    if (host->leaving) {
        skep_error_set(&err, SKEP_ERR_STATE, "this keeper is leaving; ask another one");
        skep_reply_error(reply, 503, &err);
        return;
    }
    const struct skep_route_entry *entry = NULL;
    struct skep_route_parts parts;
    enum skep_route_match match =
        skep_route_find(routes, sizeof routes / sizeof routes[0], exchange->method, exchange->path,
                        &entry, &parts, &err);
    if (match != SKEP_ROUTE_FOUND) {
        skep_reply_error(reply, match == SKEP_ROUTE_NO_PATH ? 404 : 405, &err);
    } else {
        int result = entry->handler(host, exchange, &parts, reply, &err);
        if (result != SKEP_OK) {
            err.code = (enum skep_err)result;
            skep_reply_error(reply, skep_reply_status_of(err.code), &err);
        }
    }
    if (reply->status == SKEP_API_LATER) {
        skep_log(SKEP_LOG_DEBUG, "%s %s %s waits", exchange->peer, exchange->method,
                 exchange->path);
        return;
    }
    skep_log(reply->status >= 500 ? SKEP_LOG_WARNING : SKEP_LOG_DEBUG, "%s %s %s: %d%s%s",
             exchange->peer != NULL ? exchange->peer : "-", exchange->method, exchange->path,
             reply->status, err.text[0] != '\0' ? " " : "", err.text);
}
