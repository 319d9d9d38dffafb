/*
 * The keeper's HTTP API (schemas/openapi.yaml describes it): each file beside this one holds the handlers of one subject,
 * routes.c the table. Handlers get the host as `user`.
 */
#ifndef SKEP_SERVER_API_API_H
#define SKEP_SERVER_API_API_H

#include "common/sys/http-server.h"
#include "server/api/router.h"
#include "server/host.h"
#include "server/project.h"

/* The status that a handler leaves in its reply when it holds the exchange and answers later. */
#define SKEP_API_LATER 0

/* The server's handler; user is the host. */
void skep_api_handle(void *user, const struct skep_http_exchange *exchange,
                     struct skep_http_reply *reply);

/* The table, for the test that holds it against schemas/openapi.yaml. */
const struct skep_route_entry *skep_api_routes(size_t *ret_count);

/* The project named by part 0, or SKEP_ERR_NOT_FOUND. */
int skep_api_project(struct skep_host *host, const struct skep_route_parts *parts,
                     struct skep_project **ret_project, struct skep_error *err);
/* 64 hexadecimal digits, or SKEP_ERR_ARGUMENT with a sentence naming `what`. */
int skep_api_hash(const char *what, const char *text, struct skep_hash *ret_hash,
                  struct skep_error *err);

#define SKEP_API_HANDLER(name)                                                                     \
    int name(void *user, const struct skep_http_exchange *exchange,                                \
             const struct skep_route_parts *parts, struct skep_http_reply *reply,                  \
             struct skep_error *err)

SKEP_API_HANDLER(skep_api_get_health);
SKEP_API_HANDLER(skep_api_get_record);
SKEP_API_HANDLER(skep_api_get_status);
SKEP_API_HANDLER(skep_api_get_metrics);
SKEP_API_HANDLER(skep_api_get_directory);
SKEP_API_HANDLER(skep_api_post_directory);
SKEP_API_HANDLER(skep_api_get_projects);
SKEP_API_HANDLER(skep_api_post_projects);
SKEP_API_HANDLER(skep_api_get_manifest);
SKEP_API_HANDLER(skep_api_get_head);
SKEP_API_HANDLER(skep_api_get_receipts);
SKEP_API_HANDLER(skep_api_get_version);
SKEP_API_HANDLER(skep_api_get_state);
SKEP_API_HANDLER(skep_api_post_update);
SKEP_API_HANDLER(skep_api_get_update);
SKEP_API_HANDLER(skep_api_put_blob);
SKEP_API_HANDLER(skep_api_get_blob);
SKEP_API_HANDLER(skep_api_get_evidence);
SKEP_API_HANDLER(skep_api_put_evidence);
SKEP_API_HANDLER(skep_api_get_audits);
SKEP_API_HANDLER(skep_api_post_messages);
SKEP_API_HANDLER(skep_api_post_expert_session);
SKEP_API_HANDLER(skep_api_post_expert_forward);
SKEP_API_HANDLER(skep_api_post_expert_backward);
SKEP_API_HANDLER(skep_api_post_expert_updates);

#endif
