#include "server/api/reply.h"

#include <stdlib.h>
#include <string.h>

int skep_reply_status_of(enum skep_err code)
{
    switch (code) {
    case SKEP_OK:
        return 200;
    case SKEP_ERR_ARGUMENT:
    case SKEP_ERR_FORMAT:
    case SKEP_ERR_SIGNATURE:
    case SKEP_ERR_HASH:
    case SKEP_ERR_NUMERIC:
        return 400;
    case SKEP_ERR_REFUSED:
        return 403;
    case SKEP_ERR_NOT_FOUND:
        return 404;
    case SKEP_ERR_DUPLICATE:
    case SKEP_ERR_STALE:
    case SKEP_ERR_STATE:
        return 409;
    case SKEP_ERR_TOO_LARGE:
        return 413;
    case SKEP_ERR_FULL:
        return 507;
    case SKEP_ERR_IO:
    case SKEP_ERR_NETWORK:
    case SKEP_ERR_IN_USE:
    case SKEP_ERR_MEMORY:
    case SKEP_ERR_CANCELLED:
        return 500;
    }
    return 500;
}

void skep_reply_text(struct skep_http_reply *reply, int status, const char *text)
{
    reply->status = status;
    reply->content_type = NULL;
    reply->body.size = 0;
    skep_buffer_append_text(&reply->body, text);
}

void skep_reply_json(struct skep_http_reply *reply, int status, struct skep_json *take_root)
{
    char *text = skep_json_write(take_root, false);
    skep_reply_text(reply, status, text);
    free(text);
    skep_json_free(take_root);
}

void skep_reply_error(struct skep_http_reply *reply, int status, const struct skep_error *err)
{
    struct skep_json *inner = skep_json_object_new();
    skep_json_set_text(inner, "code", skep_err_name(err->code));
    skep_json_set_text(inner, "message", err->text);
    if (err->reason != SKEP_REFUSAL_NONE) {
        skep_json_set_text(inner, "reason", skep_refusal_name(err->reason));
    }
    struct skep_json *root = skep_json_object_new();
    skep_json_set_take(root, "error", inner);
    skep_reply_json(reply, status, root);
}
