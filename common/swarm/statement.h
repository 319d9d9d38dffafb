/*
 * Signing and believing statements: the only way from envelope bytes to a decoded statement. Signatures are checked before the
 * payload is looked at; each function says whose signatures it wants.
 */
#ifndef SKEP_SWARM_STATEMENT_H
#define SKEP_SWARM_STATEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/crypto/key.h"
#include "common/wire/envelope.h"
#include "common/wire/manifest.h"
#include "common/wire/statements.h"

/* A signed envelope around `payload` (text) of `type`; the caller frees the envelope. */
void skep_statement_sign(const struct skep_key *key, const char *type, const char *payload,
                         struct skep_envelope *ret_envelope);
/* The same as JSON text the caller frees. */
char *skep_statement_sign_text(const struct skep_key *key, const char *type, const char *payload);

/* How many of the envelope's signatures verify and come from one of `signers`; a signature of theirs that does not verify is
 * SKEP_ERR_SIGNATURE, signatures of others are not looked at. SKEP_ERR_FORMAT if the type is not `type`. */
int skep_statement_count(const struct skep_envelope *envelope, const char *type,
                         const struct skep_peer_id *signers, size_t signer_count, size_t *ret_valid,
                         struct skep_error *err);

/* Verified and decoded. The manifest must be signed by `project`, or by the project it names if NULL. *ret_hash (may be NULL)
 * is SHA-256 of the payload. */
int skep_manifest_open(const void *envelope, size_t size, const struct skep_project_id *project,
                       struct skep_manifest *ret_manifest, struct skep_hash *ret_hash,
                       struct skep_error *err);
/* Signed by the keeper it names; expired records are refused at `now_s`. */
int skep_record_open(const struct skep_envelope *envelope, int64_t now_s,
                     struct skep_record *ret_record, struct skep_error *err);
#define SKEP_CALLER_FRESH_S 300

/* Signed by the caller it names, for this project and keeper, within SKEP_CALLER_FRESH_S of `now_s`. That it comes for the first time
 * is the keeper's to see. */
int skep_caller_open(const struct skep_envelope *envelope, const struct skep_project_id *project,
                     const struct skep_peer_id *keeper, int64_t now_s,
                     struct skep_caller_statement *ret_statement, struct skep_error *err);
/* Signed by the sender it names. */
int skep_message_open(const struct skep_envelope *envelope, struct skep_message *ret_message,
                      struct skep_error *err);
/* A seal's name in the hash chain (`previous` of the next one, the beacon of tickets): SHA-256 of its payload with `attempt` written
 * as 0. The agreement may seal the same list in two attempts, when the first majority was not heard of: two payloads, one link. */
struct skep_hash skep_seal_hash(const struct skep_seal *seal);
/* Signed by at least a majority of the shard's replica set under this manifest. *ret_hash (may be NULL) is skep_seal_hash(): use
 * it, not SHA-256 of the payload, wherever a version's payload hash is stored or compared. */
int skep_seal_open(const struct skep_envelope *envelope, const struct skep_manifest *manifest,
                   struct skep_seal *ret_seal, struct skep_hash *ret_hash, struct skep_error *err);
#endif
