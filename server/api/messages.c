/* Agreement messages between keepers. */
#include <string.h>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/swarm/statement.h"
#include "server/agreement.h"
#include "server/api/api.h"
#include "server/api/reply.h"
#include "server/shard.h"

/* Checks the signature and hands the message to its shard's machine. */
static int take_message(struct skep_project *project, const struct skep_json *value,
                        struct skep_error *err)
{
    struct skep_envelope envelope = {0};
    struct skep_message message = {0};
    int result = skep_envelope_from_json(value, &envelope, err);
    if (result == SKEP_OK) {
        result = skep_message_open(&envelope, &message, err);
    }
    if (result == SKEP_OK &&
        memcmp(message.project.bytes, project->manifest.project.bytes, SKEP_ID_SIZE) != 0) {
        result = skep_error_set(err, SKEP_ERR_REFUSED, "the message is of another project, %s",
                                skep_id_text(message.project.bytes));
    }
    struct skep_kept_shard *shard = NULL;
    if (result == SKEP_OK) {
        shard = skep_project_shard(project, &message.shard, err);
        result = shard == NULL ? SKEP_ERR_NOT_FOUND : SKEP_OK;
    }
    if (result == SKEP_OK && !skep_replicas_has(&shard->replicas, &message.from)) {
        result = skep_error_set(err, SKEP_ERR_REFUSED, "%s does not keep %s",
                                skep_id_text(message.from.bytes), shard->text);
    }
    if (result == SKEP_OK) {
        skep_agreement_receive(shard, &message);
    }
    skep_message_done(&message);
    skep_envelope_done(&envelope);
    return result;
}

SKEP_API_HANDLER(skep_api_post_messages)
{
    struct skep_project *project = NULL;
    struct skep_json *root = NULL;
    const struct skep_json *list = NULL;
    int result = skep_api_project(user, parts, &project, err);
    if (result == SKEP_OK) {
        result = skep_json_parse(exchange->body, exchange->body_size, "messages", &root, err);
    }
    if (result == SKEP_OK) {
        result = skep_json_get_array(root, "messages", "messages", SKEP_LIMIT_MESSAGES, &list, err);
    }
    size_t accepted = 0;
    for (size_t i = 0; result == SKEP_OK && i < skep_json_array_size(list); i++) {
        struct skep_error reason = {0};
        if (take_message(project, skep_json_array_at(list, i), &reason) == SKEP_OK) {
            accepted++;
        } else {
            skep_log(SKEP_LOG_DEBUG, "a message is refused: %s", reason.text);
        }
    }
    skep_json_free(root);
    if (result == SKEP_OK) {
        root = skep_json_object_new();
        skep_json_set_integer(root, "accepted", (int64_t)accepted);
        skep_reply_json(reply, 200, root);
    }
    return result;
}
