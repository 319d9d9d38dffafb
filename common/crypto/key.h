/*
 * Ed25519 identities (RFC 8032). The public key is the name of a keeper, donor or project; the private key never leaves
 * the file it is kept in (PEM, PKCS#8, mode 0600: sys/file.h writes it).
 */
#ifndef SKEP_CRYPTO_KEY_H
#define SKEP_CRYPTO_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"

#define SKEP_SIGNATURE_SIZE 64

struct skep_signature {
    uint8_t bytes[SKEP_SIGNATURE_SIZE];
};

/* A private key; opaque. */
struct skep_key;

/* A new random key; never NULL. */
struct skep_key *skep_key_new(void);
/* The key whose 32-byte RFC 8032 seed is given: for tests and vectors. */
struct skep_key *skep_key_from_seed(const uint8_t seed[32]);
/* Reads PEM text; SKEP_ERR_FORMAT with a sentence if it is not an unencrypted Ed25519 private key. */
int skep_key_from_pem(const char *pem, size_t size, struct skep_key **ret_key,
                      struct skep_error *err);
/* PEM text the caller frees. */
char *skep_key_to_pem(const struct skep_key *key);
void skep_key_free(struct skep_key *key);

/* The public half. */
struct skep_peer_id skep_key_id(const struct skep_key *key);
struct skep_signature skep_key_sign(const struct skep_key *key, const void *data, size_t size);
bool skep_signature_verify(const struct skep_peer_id *signer, const void *data, size_t size,
                           const struct skep_signature *signature);

#endif
