/* Updates: handed in by donors, fetched by other keepers. */
#include "server/api/api.h"
#include "server/api/reply.h"
#include "server/audit.h"
#include "server/intake.h"

SKEP_API_HANDLER(skep_api_post_update)
{
    struct skep_project *project = NULL;
    struct skep_hash hash;
    bool is_new = false;
    int result = skep_api_project(user, parts, &project, err);
    if (result == SKEP_OK) {
        result =
            skep_intake_update(project, exchange->body, exchange->body_size, &hash, &is_new, err);
    }
    if (result == SKEP_OK) {
        struct skep_json *root = skep_json_object_new();
        skep_json_set_hex(root, "update", hash.bytes, SKEP_ID_SIZE);
        if (skep_audit_asks(project, &hash)) {
            skep_json_set_text(root, "evidence", "wanted");
        }
        unsigned passed = 0;
        /* one that is known costs whoever sends it again nothing, so it is not to cost us a look into the database either */
        if (is_new && skep_audit_tells(project, &hash, &passed)) {
            skep_json_set_integer(root, "audits_passed", passed);
        }
        skep_reply_json(reply, is_new ? 201 : 200, root);
    }
    return result;
}

SKEP_API_HANDLER(skep_api_get_update)
{
    (void)exchange;
    struct skep_host *host = user;
    struct skep_hash hash;
    struct skep_buffer data = {0};
    int result = skep_api_hash("the update", parts->text[0], &hash, err);
    if (result == SKEP_OK) {
        result = skep_blobs_get(host->blobs, &hash, &data, err);
    }
    if (result == SKEP_OK) {
        reply->status = 200;
        reply->content_type = "application/octet-stream";
        reply->body = data;
    }
    return result;
}
