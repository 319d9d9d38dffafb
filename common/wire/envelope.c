#include "common/wire/envelope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/wire/base64.h"

#define WHAT "envelope"
#define TYPE_SIZE_MOST                                                                             \
    127u /* RFC 6838 section 4.2: a media type's two names have at most 127 letters each */
#define SIGNATURE_SIZE 64u

void skep_envelope_init(struct skep_envelope *envelope, const char *type, const void *payload,
                        size_t size)
{
    *envelope = (struct skep_envelope){.type = skep_strdup(type)};
    skep_buffer_append(&envelope->payload, payload, size);
}

void skep_envelope_done(struct skep_envelope *envelope)
{
    free(envelope->type);
    skep_buffer_done(&envelope->payload);
    free(envelope->signatures);
    *envelope = (struct skep_envelope){0};
}

static bool has_signer(const struct skep_envelope *envelope, const struct skep_peer_id *signer)
{
    for (size_t i = 0; i < envelope->signature_count; i++) {
        if (skep_peer_id_equal(&envelope->signatures[i].signer, signer)) {
            return true;
        }
    }
    return false;
}

void skep_envelope_add(struct skep_envelope *envelope, const struct skep_peer_id *signer,
                       const uint8_t signature[64])
{
    if (has_signer(envelope, signer)) {
        return;
    }
    size_t count = envelope->signature_count + 1;
    envelope->signatures = skep_realloc(envelope->signatures, count, sizeof *envelope->signatures);
    struct skep_envelope_signature *added = &envelope->signatures[count - 1];
    added->signer = *signer;
    memcpy(added->bytes, signature, SIGNATURE_SIZE);
    envelope->signature_count = count;
}

/* --- reading --- */

static int read_type(const struct skep_json *value, struct skep_envelope *envelope,
                     struct skep_error *err)
{
    const char *type = NULL;
    int rc = skep_json_get_text(value, WHAT, "payloadType", &type, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    size_t size = strlen(type);
    bool printable = size > 0 && size <= TYPE_SIZE_MOST;
    for (size_t i = 0; printable && i < size; i++) {
        printable = type[i] > ' ' && type[i] < 0x7f;
    }
    if (!printable) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              WHAT ": payloadType has %zu bytes or a letter that is not printable "
                                   "ASCII; allowed: a media type of 1 to %u letters",
                              size, TYPE_SIZE_MOST);
    }
    envelope->type = skep_strdup(type);
    return SKEP_OK;
}

static int read_payload(const struct skep_json *value, struct skep_envelope *envelope,
                        struct skep_error *err)
{
    const char *text = NULL;
    int rc = skep_json_get_text(value, WHAT, "payload", &text, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    size_t size = strlen(text);
    if (size > SKEP_LIMIT_STATEMENT_BYTES) {
        return skep_error_set(err, SKEP_ERR_TOO_LARGE,
                              WHAT ": payload has %zu letters; at most %u allowed", size,
                              SKEP_LIMIT_STATEMENT_BYTES);
    }
    if (!skep_base64_decode(text, size, &envelope->payload)) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              WHAT ": payload of %zu letters is not canonical base64 (RFC 4648 "
                                   "section 4, padded, no line breaks)",
                              size);
    }
    return SKEP_OK;
}

static int read_signature(const struct skep_json *item, struct skep_envelope *envelope,
                          struct skep_error *err)
{
    static const char *const keys[] = {"keyid", "sig", NULL};
    static const char what[] = WHAT ".signatures";
    struct skep_peer_id signer;
    const char *text = NULL;
    int rc = skep_json_allow(item, what, keys, err);
    if (rc == SKEP_OK) {
        rc = skep_json_get_hex(item, what, "keyid", signer.bytes, sizeof signer.bytes, err);
    }
    if (rc == SKEP_OK) {
        rc = skep_json_get_text(item, what, "sig", &text, err);
    }
    if (rc != SKEP_OK) {
        return rc;
    }
    struct skep_buffer bytes = {.limit = SIGNATURE_SIZE};
    bool decoded = skep_base64_decode(text, strlen(text), &bytes) && bytes.size == SIGNATURE_SIZE;
    if (!decoded) {
        rc = skep_error_set(err, SKEP_ERR_FORMAT,
                            "%s: sig of %s is not canonical base64 of %u bytes", what,
                            skep_id_text(signer.bytes), SIGNATURE_SIZE);
    } else if (has_signer(envelope, &signer)) {
        rc = skep_error_set(err, SKEP_ERR_FORMAT, "%s: %s signed twice; allowed: once", what,
                            skep_id_text(signer.bytes));
    } else {
        skep_envelope_add(envelope, &signer, bytes.data);
    }
    skep_buffer_done(&bytes);
    return rc;
}

static int read_signatures(const struct skep_json *value, struct skep_envelope *envelope,
                           struct skep_error *err)
{
    const struct skep_json *array = NULL;
    int rc = skep_json_get_array(value, WHAT, "signatures", SKEP_LIMIT_SIGNATURES, &array, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    if (skep_json_array_size(array) == 0) {
        return skep_error_set(err, SKEP_ERR_SIGNATURE,
                              WHAT ": signatures is empty; expected 1 to %u",
                              SKEP_LIMIT_SIGNATURES);
    }
    for (size_t i = 0; rc == SKEP_OK && i < skep_json_array_size(array); i++) {
        rc = read_signature(skep_json_array_at(array, i), envelope, err);
    }
    return rc;
}

int skep_envelope_from_json(const struct skep_json *value, struct skep_envelope *ret_envelope,
                            struct skep_error *err)
{
    static const char *const keys[] = {"payload", "payloadType", "signatures", NULL};
    struct skep_envelope envelope = {0};
    int rc = skep_json_allow(value, WHAT, keys, err);
    if (rc == SKEP_OK) {
        rc = read_type(value, &envelope, err);
    }
    if (rc == SKEP_OK) {
        rc = read_payload(value, &envelope, err);
    }
    if (rc == SKEP_OK) {
        rc = read_signatures(value, &envelope, err);
    }
    if (rc != SKEP_OK) {
        skep_envelope_done(&envelope);
        return rc;
    }
    *ret_envelope = envelope;
    return SKEP_OK;
}

int skep_envelope_parse(const void *text, size_t size, struct skep_envelope *ret_envelope,
                        struct skep_error *err)
{
    if (size > SKEP_LIMIT_STATEMENT_BYTES) {
        return skep_error_set(err, SKEP_ERR_TOO_LARGE,
                              WHAT " is %zu bytes long; at most %u allowed", size,
                              SKEP_LIMIT_STATEMENT_BYTES);
    }
    struct skep_json *root = NULL;
    int rc = skep_json_parse(text, size, WHAT, &root, err);
    if (rc == SKEP_OK) {
        rc = skep_envelope_from_json(root, ret_envelope, err);
    }
    skep_json_free(root);
    return rc;
}

/* --- writing --- */

static void set_base64(struct skep_json *object, const char *key, const void *data, size_t size)
{
    char *text = skep_base64_encode(data, size);
    skep_json_set_text(object, key, text);
    free(text);
}

struct skep_json *skep_envelope_to_json(const struct skep_envelope *envelope)
{
    struct skep_json *object = skep_json_object_new();
    set_base64(object, "payload", envelope->payload.data, envelope->payload.size);
    skep_json_set_text(object, "payloadType", envelope->type);
    struct skep_json *signatures = skep_json_array_new();
    for (size_t i = 0; i < envelope->signature_count; i++) {
        const struct skep_envelope_signature *signature = &envelope->signatures[i];
        struct skep_json *item = skep_json_object_new();
        skep_json_set_hex(item, "keyid", signature->signer.bytes, sizeof signature->signer.bytes);
        set_base64(item, "sig", signature->bytes, sizeof signature->bytes);
        skep_json_push_take(signatures, item);
    }
    skep_json_set_take(object, "signatures", signatures);
    return object;
}

char *skep_envelope_write(const struct skep_envelope *envelope)
{
    struct skep_json *object = skep_envelope_to_json(envelope);
    char *text = skep_json_write(object, false);
    skep_json_free(object);
    return text;
}

void skep_envelope_pae(const char *type, const void *payload, size_t size,
                       struct skep_buffer *ret_bytes)
{
    char *head = skep_format("DSSEv1 %zu %s %zu ", strlen(type), type, size);
    skep_buffer_append_text(ret_bytes, head);
    skep_buffer_append(ret_bytes, payload, size);
    free(head);
}
