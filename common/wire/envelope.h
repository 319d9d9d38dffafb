/*
 * DSSE envelopes (Dead Simple Signing Envelope v1, secure-systems-lab): how every statement travels and rests.
 *
 *   {"payload": base64(bytes), "payloadType": text, "signatures": [{"keyid": hex public key, "sig": base64}, ...]}
 *
 * What is signed is PAE(type, payload) = "DSSEv1" SP len(type) SP type SP len(payload) SP payload, lengths in decimal.
 * The payload bytes are kept exactly as they came and are never serialised again. This file only takes envelopes apart
 * and puts them together; swarm/statement.h signs and verifies.
 */
#ifndef SKEP_WIRE_ENVELOPE_H
#define SKEP_WIRE_ENVELOPE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/id.h"
#include "common/wire/json.h"

struct skep_envelope_signature {
    struct skep_peer_id signer;
    uint8_t bytes[64];
};

/* Zero-initialise; free with skep_envelope_done(). */
struct skep_envelope {
    char *type;
    struct skep_buffer payload;
    struct skep_envelope_signature *signatures;
    size_t signature_count;
};

/* Copies type and payload; no signatures yet. */
void skep_envelope_init(struct skep_envelope *envelope, const char *type, const void *payload,
                        size_t size);
void skep_envelope_done(struct skep_envelope *envelope);
/* Adds one signature unless that signer has one already. */
void skep_envelope_add(struct skep_envelope *envelope, const struct skep_peer_id *signer,
                       const uint8_t signature[64]);

/* Checks shape and limits (SKEP_LIMIT_STATEMENT_BYTES; at least one and at most SKEP_LIMIT_SIGNATURES, no signer twice), not
 * signatures. */
int skep_envelope_parse(const void *text, size_t size, struct skep_envelope *ret_envelope,
                        struct skep_error *err);
int skep_envelope_from_json(const struct skep_json *value, struct skep_envelope *ret_envelope,
                            struct skep_error *err);
/* JSON text the caller frees. */
char *skep_envelope_write(const struct skep_envelope *envelope);
struct skep_json *skep_envelope_to_json(const struct skep_envelope *envelope);

/* The bytes that are signed. */
void skep_envelope_pae(const char *type, const void *payload, size_t size,
                       struct skep_buffer *ret_bytes);

#endif
