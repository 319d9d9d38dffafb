#include "client/network/transport.h"

#include <string.h>

/* The code whose short name a keeper sent; SKEP_ERR_NETWORK for names of a newer version. */
static enum skep_err code_of_name(const char *name)
{
    for (int code = SKEP_ERR_ARGUMENT; code >= SKEP_ERR_CANCELLED; code--) {
        if (strcmp(skep_err_name((enum skep_err)code), name) == 0) {
            return (enum skep_err)code;
        }
    }
    return SKEP_ERR_NETWORK;
}

static enum skep_err code_of_status(int status)
{
    switch (status) {
    case 400:
        return SKEP_ERR_FORMAT;
    case 403:
        return SKEP_ERR_REFUSED;
    case 404:
        return SKEP_ERR_NOT_FOUND;
    case 409:
        return SKEP_ERR_STATE;
    case 413:
        return SKEP_ERR_TOO_LARGE;
    case 507:
        return SKEP_ERR_FULL;
    default:
        return SKEP_ERR_NETWORK;
    }
}

/* Error bodies come from strangers: what does not parse is replaced by the status alone. */
static int error_of_body(const struct skep_http_answer *answer, const char *what,
                         struct skep_error *err)
{
    struct skep_json *root = NULL;
    const struct skep_json *error = NULL;
    const char *code = NULL;
    const char *message = NULL;
    int rc = skep_json_parse(answer->body.data, answer->body.size, "error", &root, NULL);
    if (rc == 0 && skep_json_get_object(root, "answer", "error", &error, NULL) == 0 &&
        skep_json_get_text(error, "error", "code", &code, NULL) == 0 &&
        skep_json_get_text(error, "error", "message", &message, NULL) == 0) {
        rc = skep_error_set(err, code_of_name(code), "%s: the keeper says: %.300s", what, message);
    } else {
        rc = skep_error_set(err, code_of_status(answer->status),
                            "%s: the keeper answered with status %d", what, answer->status);
    }
    skep_json_free(root);
    return rc;
}

int skep_answer_check(int result, const struct skep_http_answer *answer,
                      const struct skep_error *failure, const char *what, struct skep_error *err)
{
    if (result != 0 || answer == NULL) {
        enum skep_err code = result != 0 ? (enum skep_err)result : SKEP_ERR_NETWORK;
        return skep_error_set(err, code, "%s: %s", what,
                              failure != NULL && failure->text[0] != '\0' ? failure->text
                                                                          : "no answer");
    }
    if (answer->status < 200 || answer->status > 299) {
        return error_of_body(answer, what, err);
    }
    return 0;
}

int skep_answer_json(int result, const struct skep_http_answer *answer,
                     const struct skep_error *failure, const char *what,
                     struct skep_json **ret_root, struct skep_error *err)
{
    int rc = skep_answer_check(result, answer, failure, what, err);
    if (rc != 0) {
        return rc;
    }
    return skep_json_parse(answer->body.data, answer->body.size, what, ret_root, err);
}
