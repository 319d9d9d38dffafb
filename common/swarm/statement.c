#include "common/swarm/statement.h"

#include <stdlib.h>
#include <string.h>

#include "common/crypto/hash.h"
#include "common/swarm/replicas.h"

void skep_statement_sign(const struct skep_key *key, const char *type, const char *payload,
                         struct skep_envelope *ret_envelope)
{
    struct skep_buffer signed_bytes = {0};
    skep_envelope_pae(type, payload, strlen(payload), &signed_bytes);
    struct skep_signature signature = skep_key_sign(key, signed_bytes.data, signed_bytes.size);
    skep_buffer_done(&signed_bytes);
    struct skep_peer_id signer = skep_key_id(key);
    skep_envelope_init(ret_envelope, type, payload, strlen(payload));
    skep_envelope_add(ret_envelope, &signer, signature.bytes);
}

char *skep_statement_sign_text(const struct skep_key *key, const char *type, const char *payload)
{
    struct skep_envelope envelope = {0};
    skep_statement_sign(key, type, payload, &envelope);
    char *text = skep_envelope_write(&envelope);
    skep_envelope_done(&envelope);
    return text;
}

static bool is_among(const struct skep_peer_id *id, const struct skep_peer_id *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (skep_peer_id_equal(id, &ids[i])) {
            return true;
        }
    }
    return false;
}

/* Whether an earlier signature of the envelope has the same signer: nobody counts twice. */
static bool signed_before(const struct skep_envelope *envelope, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        if (skep_peer_id_equal(&envelope->signatures[i].signer, &envelope->signatures[at].signer)) {
            return true;
        }
    }
    return false;
}

int skep_statement_count(const struct skep_envelope *envelope, const char *type,
                         const struct skep_peer_id *signers, size_t signer_count, size_t *ret_valid,
                         struct skep_error *err)
{
    if (envelope->type == NULL || strcmp(envelope->type, type) != 0) {
        return skep_error_set(err, SKEP_ERR_FORMAT, "envelope has type \"%.80s\", expected \"%s\"",
                              envelope->type != NULL ? envelope->type : "", type);
    }
    struct skep_buffer bytes = {0};
    skep_envelope_pae(type, envelope->payload.data, envelope->payload.size, &bytes);
    size_t valid = 0;
    int code = 0;
    for (size_t i = 0; i < envelope->signature_count && code == 0; i++) {
        const struct skep_envelope_signature *one = &envelope->signatures[i];
        if (!is_among(&one->signer, signers, signer_count) || signed_before(envelope, i)) {
            continue;
        }
        struct skep_signature signature;
        memcpy(signature.bytes, one->bytes, sizeof(signature.bytes));
        if (skep_signature_verify(&one->signer, bytes.data, bytes.size, &signature)) {
            valid++;
        } else {
            code = skep_error_set(err, SKEP_ERR_SIGNATURE,
                                  "signature of %s does not verify over this %s",
                                  skep_id_text(one->signer.bytes), type);
        }
    }
    skep_buffer_done(&bytes);
    if (code == 0) {
        *ret_valid = valid;
    }
    return code;
}

/* The one signer of an envelope that must have exactly one, its signature checked. Whether it is the right one only the payload
 * tells, which nobody has looked at yet. */
static int single_signer(const struct skep_envelope *envelope, const char *type,
                         struct skep_peer_id *ret_signer, struct skep_error *err)
{
    if (envelope->signature_count != 1) {
        return skep_error_set(err, SKEP_ERR_SIGNATURE, "%s has %zu signatures, expected one", type,
                              envelope->signature_count);
    }
    struct skep_peer_id signer = envelope->signatures[0].signer;
    size_t valid = 0;
    int code = skep_statement_count(envelope, type, &signer, 1, &valid, err);
    if (code == 0) {
        *ret_signer = signer;
    }
    return code;
}

static int wrong_signer(const char *type, const struct skep_peer_id *found, const uint8_t *expected,
                        struct skep_error *err)
{
    return skep_error_set(err, SKEP_ERR_SIGNATURE, "%s is signed by %s, expected %s", type,
                          skep_id_text(found->bytes), skep_id_text(expected));
}

int skep_manifest_open(const void *envelope, size_t size, const struct skep_project_id *project,
                       struct skep_manifest *ret_manifest, struct skep_hash *ret_hash,
                       struct skep_error *err)
{
    struct skep_envelope parsed = {0};
    struct skep_peer_id signer;
    struct skep_manifest manifest = {0};
    int code = skep_envelope_parse(envelope, size, &parsed, err);
    if (code == 0) {
        code = single_signer(&parsed, SKEP_TYPE_MANIFEST, &signer, err);
    }
    if (code == 0 && project != NULL && memcmp(signer.bytes, project->bytes, SKEP_ID_SIZE) != 0) {
        code = wrong_signer(SKEP_TYPE_MANIFEST, &signer, project->bytes, err);
    }
    if (code == 0) {
        code = skep_manifest_decode(parsed.payload.data, parsed.payload.size, &manifest, err);
    }
    if (code == 0 && memcmp(signer.bytes, manifest.project.bytes, SKEP_ID_SIZE) != 0) {
        code = wrong_signer(SKEP_TYPE_MANIFEST, &signer, manifest.project.bytes, err);
        skep_manifest_done(&manifest);
    }
    if (code == 0) {
        *ret_manifest = manifest;
        if (ret_hash != NULL) {
            *ret_hash = skep_hash_of(parsed.payload.data, parsed.payload.size);
        }
    }
    skep_envelope_done(&parsed);
    return code;
}

int skep_record_open(const struct skep_envelope *envelope, int64_t now_s,
                     struct skep_record *ret_record, struct skep_error *err)
{
    struct skep_peer_id signer;
    int code = single_signer(envelope, SKEP_TYPE_RECORD, &signer, err);
    if (code != 0) {
        return code;
    }
    struct skep_record record = {0};
    code = skep_record_decode(envelope->payload.data, envelope->payload.size, &record, err);
    if (code != 0) {
        return code;
    }
    if (!skep_peer_id_equal(&signer, &record.keeper)) {
        code = wrong_signer(SKEP_TYPE_RECORD, &signer, record.keeper.bytes, err);
    } else if (record.expires_s <= now_s) {
        code = skep_error_set(
            err, SKEP_ERR_STALE, "record of keeper %s expired at %lld, it is %lld now",
            skep_id_text(record.keeper.bytes), (long long)record.expires_s, (long long)now_s);
    }
    if (code != 0) {
        skep_record_done(&record);
        return code;
    }
    *ret_record = record;
    return 0;
}

/* Is it meant for us, and now? */
static int check_caller(const struct skep_caller_statement *statement,
                        const struct skep_project_id *project, const struct skep_peer_id *keeper,
                        int64_t now_s, struct skep_error *err)
{
    if (memcmp(statement->project.bytes, project->bytes, SKEP_ID_SIZE) != 0) {
        return skep_error_set(err, SKEP_ERR_REFUSED, "the session is for project %s, not %s",
                              skep_id_text(statement->project.bytes), skep_id_text(project->bytes));
    }
    if (!skep_peer_id_equal(&statement->keeper, keeper)) {
        return skep_error_set(err, SKEP_ERR_REFUSED, "the session is for keeper %s, not %s",
                              skep_id_text(statement->keeper.bytes), skep_id_text(keeper->bytes));
    }
    if (statement->time_s < now_s - SKEP_CALLER_FRESH_S ||
        statement->time_s > now_s + SKEP_CALLER_FRESH_S) {
        return skep_error_set(err, SKEP_ERR_STALE,
                              "the session was signed at %lld, it is %lld now; allowed: %d s of "
                              "difference (is the clock right?)",
                              (long long)statement->time_s, (long long)now_s, SKEP_CALLER_FRESH_S);
    }
    return 0;
}

int skep_caller_open(const struct skep_envelope *envelope, const struct skep_project_id *project,
                     const struct skep_peer_id *keeper, int64_t now_s,
                     struct skep_caller_statement *ret_statement, struct skep_error *err)
{
    struct skep_peer_id signer;
    struct skep_caller_statement statement;
    int code = single_signer(envelope, SKEP_TYPE_CALLER, &signer, err);
    if (code == 0) {
        code = skep_caller_statement_decode(envelope->payload.data, envelope->payload.size,
                                            &statement, err);
    }
    if (code == 0 && !skep_peer_id_equal(&signer, &statement.caller)) {
        code = wrong_signer(SKEP_TYPE_CALLER, &signer, statement.caller.bytes, err);
    }
    if (code == 0) {
        code = check_caller(&statement, project, keeper, now_s, err);
    }
    if (code == 0) {
        *ret_statement = statement;
    }
    return code;
}

int skep_message_open(const struct skep_envelope *envelope, struct skep_message *ret_message,
                      struct skep_error *err)
{
    struct skep_peer_id signer;
    int code = single_signer(envelope, SKEP_TYPE_MESSAGE, &signer, err);
    if (code != 0) {
        return code;
    }
    struct skep_message message = {0};
    code = skep_message_decode(envelope->payload.data, envelope->payload.size, &message, err);
    if (code != 0) {
        return code;
    }
    if (!skep_peer_id_equal(&signer, &message.from)) {
        code = wrong_signer(SKEP_TYPE_MESSAGE, &signer, message.from.bytes, err);
        skep_message_done(&message);
        return code;
    }
    *ret_message = message;
    return 0;
}

/* Signatures of keepers of the shard's replica set; all of them were verified before. */
static int check_quorum(const struct skep_envelope *envelope, const struct skep_manifest *manifest,
                        const struct skep_shard *shard, struct skep_error *err)
{
    struct skep_replicas replicas = skep_replicas_of(manifest, shard);
    size_t count = 0;
    for (size_t i = 0; i < envelope->signature_count; i++) {
        if (skep_replicas_has(&replicas, &envelope->signatures[i].signer) &&
            !signed_before(envelope, i)) {
            count++;
        }
    }
    if (count < skep_replicas_quorum(&replicas)) {
        char text[SKEP_SHARD_TEXT_SIZE];
        skep_shard_format(shard, text);
        return skep_error_set(err, SKEP_ERR_SIGNATURE,
                              "seal of %s has %zu signatures of its %zu keepers, expected %zu",
                              text, count, replicas.count, skep_replicas_quorum(&replicas));
    }
    return 0;
}

static int check_seal(const struct skep_envelope *envelope, const struct skep_manifest *manifest,
                      const struct skep_seal *seal, struct skep_error *err)
{
    if (memcmp(&seal->project, &manifest->project, sizeof(seal->project)) != 0) {
        return skep_error_set(err, SKEP_ERR_REFUSED, "seal is of project %s, expected %s",
                              skep_id_text(seal->project.bytes),
                              skep_id_text(manifest->project.bytes));
    }
    if (skep_manifest_shard_index(manifest, &seal->shard) == SIZE_MAX) {
        char text[SKEP_SHARD_TEXT_SIZE];
        skep_shard_format(&seal->shard, text);
        return skep_error_set(err, SKEP_ERR_NOT_FOUND,
                              "seal is of shard %s, which the model of "
                              "%s does not have",
                              text, manifest->name);
    }
    return check_quorum(envelope, manifest, &seal->shard, err);
}

struct skep_hash skep_seal_hash(const struct skep_seal *seal)
{
    struct skep_seal link = *seal; /* borrows the receipts */
    link.attempt = 0;
    char *text = skep_seal_encode(&link);
    struct skep_hash hash = skep_hash_of(text, strlen(text));
    free(text);
    return hash;
}

int skep_seal_open(const struct skep_envelope *envelope, const struct skep_manifest *manifest,
                   struct skep_seal *ret_seal, struct skep_hash *ret_hash, struct skep_error *err)
{
    /* The payload says which keepers must sign, so the signatures of all keepers are checked before it is read. */
    size_t valid = 0;
    int code = skep_statement_count(envelope, SKEP_TYPE_SEAL, manifest->keepers,
                                    manifest->keeper_count, &valid, err);
    if (code != 0) {
        return code;
    }
    if (valid == 0) {
        return skep_error_set(err, SKEP_ERR_SIGNATURE,
                              "seal has no signature of the project's %zu keepers",
                              manifest->keeper_count);
    }
    struct skep_seal seal = {0};
    code = skep_seal_decode(envelope->payload.data, envelope->payload.size, &seal, err);
    if (code != 0) {
        return code;
    }
    code = check_seal(envelope, manifest, &seal, err);
    if (code != 0) {
        skep_seal_done(&seal);
        return code;
    }
    *ret_seal = seal;
    if (ret_hash != NULL) {
        *ret_hash = skep_seal_hash(ret_seal);
    }
    return 0;
}
