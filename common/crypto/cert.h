/*
 * Self-signed TLS certificates (ECDSA P-256, X.509 v3, valid ten years). Nobody's name is vouched for: a keeper's signed
 * record carries the SHA-256 of the certificate's public key (RFC 7469's pin), and readers accept that key only.
 */
#ifndef SKEP_CRYPTO_CERT_H
#define SKEP_CRYPTO_CERT_H

#include <stddef.h>

#include "common/base/error.h"
#include "common/base/id.h"

/* PEM texts the caller frees: certificate for `common_name` and its private key. */
void skep_cert_new(const char *common_name, char **ret_cert_pem, char **ret_key_pem);

/* SHA-256 of the certificate's SubjectPublicKeyInfo. */
int skep_cert_pin(const char *cert_pem, size_t size, struct skep_hash *ret_pin,
                  struct skep_error *err);

/* libcurl's form, `sha256//<base64>`; `to` holds 64 characters. */
void skep_pin_format(const struct skep_hash *pin, char to[64]);

#endif
