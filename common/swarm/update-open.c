#include "common/swarm/update-open.h"

#include <stdlib.h>

#include "common/crypto/hash.h"
#include "common/swarm/statement.h"

/* The donor's statement, its signature checked before it is decoded. */
static int open_statement(const struct skep_envelope *envelope,
                          struct skep_update_statement *ret_statement, struct skep_error *err)
{
    if (envelope->signature_count != 1) {
        return skep_refuse(err, SKEP_REFUSAL_SIGNATURE,
                           "update has %zu signatures, expected its donor's alone",
                           envelope->signature_count);
    }
    struct skep_peer_id signer = envelope->signatures[0].signer;
    size_t valid = 0;
    int code = skep_statement_count(envelope, SKEP_TYPE_UPDATE, &signer, 1, &valid, err);
    if (code != 0) {
        return skep_error_reason(
            err, code, code == SKEP_ERR_SIGNATURE ? SKEP_REFUSAL_SIGNATURE : SKEP_REFUSAL_ENVELOPE);
    }
    struct skep_update_statement statement = {0};
    code = skep_update_statement_decode(envelope->payload.data, envelope->payload.size, &statement,
                                        err);
    if (code != 0) {
        return skep_error_reason(err, code, SKEP_REFUSAL_STATEMENT);
    }
    if (!skep_peer_id_equal(&signer, &statement.donor)) {
        return skep_refuse(err, SKEP_REFUSAL_SIGNATURE, "update of donor %s is signed by %s",
                           skep_id_text(statement.donor.bytes), skep_id_text(signer.bytes));
    }
    *ret_statement = statement;
    return 0;
}

int skep_update_open(const void *file, size_t size, struct skep_update_statement *ret_statement,
                     struct skep_hash *ret_hash, const uint8_t **ret_body, size_t *ret_body_size,
                     struct skep_error *err)
{
    const uint8_t *text = NULL;
    const uint8_t *body = NULL;
    size_t text_size = 0;
    size_t body_size = 0;
    int code = skep_update_file_split(file, size, &text, &text_size, &body, &body_size, err);
    if (code != 0) {
        return code;
    }
    struct skep_envelope envelope = {0};
    struct skep_update_statement statement = {0};
    code = skep_envelope_parse(text, text_size, &envelope, err);
    code = skep_error_reason(err, code, SKEP_REFUSAL_ENVELOPE);
    if (code == 0) {
        code = open_statement(&envelope, &statement, err);
        skep_envelope_done(&envelope);
    }
    if (code != 0) {
        return code;
    }
    struct skep_hash found = skep_hash_of(body, body_size);
    if (!skep_hash_equal(&found, &statement.body)) {
        return skep_refuse(err, SKEP_REFUSAL_BODY_HASH,
                           "update body of %zu bytes has hash %s, its "
                           "statement says %s",
                           body_size, skep_id_text(found.bytes),
                           skep_id_text(statement.body.bytes));
    }
    *ret_statement = statement;
    *ret_hash = skep_hash_of(file, size);
    *ret_body = body;
    *ret_body_size = body_size;
    return 0;
}

int skep_update_open_parts(const void *file, size_t size, struct skep_update_part **ret_parts,
                           size_t *ret_count, struct skep_error *err)
{
    const uint8_t *text = NULL;
    const uint8_t *body = NULL;
    size_t text_size = 0;
    size_t body_size = 0;
    struct skep_envelope envelope = {0};
    int code = skep_update_file_split(file, size, &text, &text_size, &body, &body_size, err);
    if (code == 0) {
        code = skep_envelope_parse(text, text_size, &envelope, err);
    }
    if (code == 0) {
        code = skep_update_parts_decode(envelope.payload.data, envelope.payload.size, ret_parts,
                                        ret_count, err);
        skep_envelope_done(&envelope);
    }
    return code;
}

void skep_update_seal(const struct skep_key *key, struct skep_update_statement *statement,
                      const struct skep_buffer *body, struct skep_buffer *ret_file)
{
    statement->donor = skep_key_id(key);
    statement->body = skep_hash_of(body->data, body->size);
    char *payload = skep_update_statement_encode(statement);
    char *envelope = skep_statement_sign_text(key, SKEP_TYPE_UPDATE, payload);
    skep_update_file_join(envelope, body, ret_file);
    free(envelope);
    free(payload);
}
