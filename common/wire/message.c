/* The messages of the agreement (statements.h): a common head, then what their kind carries. */
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/wire/base64.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"
#include "common/wire/statements.h"

#define WHAT "message"
#define COUNT(table) (sizeof(table) / sizeof(table)[0])
#define FIELD(member, kind, least, most)                                                           \
    {                                                                                              \
#member, SKEP_FIELD_##kind, offsetof(struct skep_message, member), least, most, NULL       \
    }
#define OTHER(key)                                                                                 \
    {                                                                                              \
        key, SKEP_FIELD_OTHER, 0, 0, 0, NULL                                                       \
    }

/* In the order of enum skep_message_kind. */
static const char *const KINDS[] = {"prepare", "promise", "propose", "vote", "sealed", NULL};

#define HEAD_COUNT 6
#define BODY_MOST 2

static const struct skep_field HEAD[HEAD_COUNT] = {
    {"kind", SKEP_FIELD_CHOICE, offsetof(struct skep_message, kind), 0, 0, KINDS},
    FIELD(project, ID, 0, 0),
    FIELD(shard, SHARD, 0, 0),
    FIELD(version, U64, 1, SKEP_JSON_INTEGER_MOST),
    FIELD(attempt, U32, 0, UINT32_MAX),
    FIELD(from, ID, 0, 0),
};

static const struct skep_field VOTE_ATTEMPT = FIELD(vote_attempt, U32, 0, UINT32_MAX);

/* What each kind may carry besides the head. */
static const struct {
    size_t count;
    struct skep_field fields[BODY_MOST];
} BODIES[] = {
    [SKEP_MESSAGE_PREPARE] = {0, {OTHER("")}},
    [SKEP_MESSAGE_PROMISE] = {2, {OTHER("vote_attempt"), OTHER("seal")}},
    [SKEP_MESSAGE_PROPOSE] = {1, {OTHER("seal")}},
    [SKEP_MESSAGE_VOTE] = {2, {FIELD(seal_hash, ID, 0, 0), OTHER("signature")}},
    [SKEP_MESSAGE_SEALED] = {1, {OTHER("sealed")}},
};

void skep_message_done(struct skep_message *message)
{
    skep_buffer_done(&message->seal_payload);
    skep_envelope_done(&message->sealed);
    *message = (struct skep_message){0};
}

/* --- writing --- */

static void write_seal(struct skep_json *root, const struct skep_message *message)
{
    char *text = skep_base64_encode(message->seal_payload.data, message->seal_payload.size);
    skep_json_set_text(root, "seal", text);
    free(text);
}

static void write_body(struct skep_json *root, const struct skep_message *message)
{
    switch (message->kind) {
    case SKEP_MESSAGE_PREPARE:
        break;
    case SKEP_MESSAGE_PROMISE:
        if (message->has_vote) {
            skep_json_set_integer(root, "vote_attempt", message->vote_attempt);
            write_seal(root, message);
        }
        break;
    case SKEP_MESSAGE_PROPOSE:
        write_seal(root, message);
        break;
    case SKEP_MESSAGE_VOTE:
        skep_json_set_hex(root, "seal_hash", message->seal_hash.bytes, SKEP_ID_SIZE);
        skep_json_set_hex(root, "signature", message->signature, sizeof message->signature);
        break;
    case SKEP_MESSAGE_SEALED:
        skep_json_set_take(root, "sealed", skep_envelope_to_json(&message->sealed));
        break;
    }
}

char *skep_message_encode(const struct skep_message *message)
{
    struct skep_json *root = skep_json_object_new();
    skep_fields_write(HEAD, HEAD_COUNT, message, root);
    write_body(root, message);
    char *text = skep_json_write(root, false);
    skep_json_free(root);
    return text;
}

/* --- reading --- */

static int read_seal(const struct skep_json *root, struct skep_message *message,
                     struct skep_error *err)
{
    const char *text = NULL;
    int rc = skep_json_get_text(root, WHAT, "seal", &text, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    size_t size = strlen(text);
    if (size > SKEP_LIMIT_STATEMENT_BYTES) {
        return skep_error_set(err, SKEP_ERR_TOO_LARGE,
                              WHAT ": field seal has %zu letters; at most %u allowed", size,
                              SKEP_LIMIT_STATEMENT_BYTES);
    }
    if (size == 0 || !skep_base64_decode(text, size, &message->seal_payload)) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              WHAT
                              ": field seal of %zu letters is not canonical base64 of at least "
                              "one byte",
                              size);
    }
    return SKEP_OK;
}

/* The last vote is told whole or not at all. */
static int read_promise(const struct skep_json *root, struct skep_message *message,
                        struct skep_error *err)
{
    message->has_vote = skep_json_has(root, "vote_attempt") || skep_json_has(root, "seal");
    if (!message->has_vote) {
        return SKEP_OK;
    }
    int rc = skep_field_read(root, WHAT, &VOTE_ATTEMPT, message, err);
    return rc == SKEP_OK ? read_seal(root, message, err) : rc;
}

static int read_sealed(const struct skep_json *root, struct skep_message *message,
                       struct skep_error *err)
{
    const struct skep_json *sealed = NULL;
    int rc = skep_json_get_object(root, WHAT, "sealed", &sealed, err);
    return rc == SKEP_OK ? skep_envelope_from_json(sealed, &message->sealed, err) : rc;
}

static int read_message(const struct skep_json *root, struct skep_message *message,
                        struct skep_error *err)
{
    /* The kind first: it decides which fields are known. */
    int rc = skep_field_read(root, WHAT, &HEAD[0], message, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    struct skep_field fields[HEAD_COUNT + BODY_MOST];
    size_t body = BODIES[message->kind].count;
    memcpy(fields, HEAD, sizeof HEAD);
    memcpy(fields + HEAD_COUNT, BODIES[message->kind].fields, body * sizeof fields[0]);
    rc = skep_fields_read(root, WHAT, fields, HEAD_COUNT + body, message, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    switch (message->kind) {
    case SKEP_MESSAGE_PROMISE:
        return read_promise(root, message, err);
    case SKEP_MESSAGE_PROPOSE:
        return read_seal(root, message, err);
    case SKEP_MESSAGE_VOTE:
        return skep_json_get_hex(root, WHAT, "signature", message->signature,
                                 sizeof message->signature, err);
    case SKEP_MESSAGE_SEALED:
        return read_sealed(root, message, err);
    default:
        return SKEP_OK;
    }
}

int skep_message_decode(const void *payload, size_t size, struct skep_message *ret_message,
                        struct skep_error *err)
{
    struct skep_json *root = NULL;
    struct skep_message message = {0};
    int rc = skep_json_parse(payload, size, WHAT, &root, err);
    if (rc == SKEP_OK) {
        rc = read_message(root, &message, err);
    }
    if (rc == SKEP_OK) {
        *ret_message = message;
    } else {
        skep_message_done(&message);
    }
    skep_json_free(root);
    return rc;
}
