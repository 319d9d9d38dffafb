#include "common/crypto/cert.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "common/base/alloc.h"
#include "common/crypto/hash.h"
#include "common/crypto/must.h"
#include "common/crypto/random.h"

#define DAY_S (24L * 60 * 60)

/* RFC 5280 wants a positive serial number of at most 20 bytes; 16 random ones never meet twice. */
static void set_serial(X509 *cert)
{
    uint8_t bytes[16];
    skep_random_bytes(bytes, sizeof bytes);
    bytes[0] = (uint8_t)((bytes[0] & 0x7f) | 0x40);
    BIGNUM *number = BN_bin2bn(bytes, sizeof bytes, NULL);
    skep_must(number != NULL && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL,
              "number a certificate");
    BN_free(number);
}

/* Subject and issuer are the same: nobody else vouches. X.520 allows 64 characters; what is beyond is cut off. */
static void set_name(X509 *cert, const char *common_name)
{
    X509_NAME *name = X509_get_subject_name(cert);
    size_t length = strnlen(common_name, 64);
    skep_must(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)common_name,
                                         (int)length, -1, 0) == 1 &&
                  X509_set_issuer_name(cert, name) == 1,
              "name a certificate");
}

static void add_extension(X509 *cert, int kind, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, cert, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
    skep_must(extension != NULL && X509_add_ext(cert, extension, -1) == 1,
              "add an extension to a certificate");
    X509_EXTENSION_free(extension);
}

/* Valid from a day ago: the clocks of home computers differ. */
static X509 *make_cert(EVP_PKEY *pair, const char *common_name)
{
    X509 *cert = X509_new();
    skep_must(cert != NULL && X509_set_version(cert, X509_VERSION_3) == 1 &&
                  X509_gmtime_adj(X509_getm_notBefore(cert), -DAY_S) != NULL &&
                  X509_time_adj_ex(X509_getm_notAfter(cert), 3650, 0, NULL) != NULL &&
                  X509_set_pubkey(cert, pair) == 1,
              "start a certificate");
    set_serial(cert);
    set_name(cert, common_name);
    add_extension(cert, NID_basic_constraints, "critical,CA:FALSE");
    add_extension(cert, NID_ext_key_usage, "serverAuth");
    add_extension(cert, NID_subject_key_identifier, "hash");
    skep_must(X509_sign(cert, pair, EVP_sha256()) > 0, "sign a certificate");
    return cert;
}

static char *text_of(BIO *output)
{
    char *text = NULL;
    long size = BIO_get_mem_data(output, &text);
    skep_must(size > 0, "write PEM");
    char *copy = skep_alloc((size_t)size + 1, 1);
    memcpy(copy, text, (size_t)size);
    BIO_free(output);
    return copy;
}

void skep_cert_new(const char *common_name, char **ret_cert_pem, char **ret_key_pem)
{
    EVP_PKEY *pair = EVP_EC_gen("P-256");
    skep_must(pair != NULL, "make a P-256 key");
    X509 *cert = make_cert(pair, common_name);
    BIO *cert_output = BIO_new(BIO_s_mem());
    BIO *key_output = BIO_new(BIO_s_mem());
    skep_must(cert_output != NULL && key_output != NULL &&
                  PEM_write_bio_X509(cert_output, cert) == 1 &&
                  PEM_write_bio_PKCS8PrivateKey(key_output, pair, NULL, NULL, 0, NULL, NULL) == 1,
              "write a certificate");
    *ret_cert_pem = text_of(cert_output);
    *ret_key_pem = text_of(key_output);
    X509_free(cert);
    EVP_PKEY_free(pair);
}

/* PEM may claim to be encrypted; without this libcrypto would ask for a pass phrase on the terminal. */
static int no_pass_phrase(char *to, int size, int writing, void *context)
{
    (void)to;
    (void)size;
    (void)writing;
    (void)context;
    return -1;
}

int skep_cert_pin(const char *cert_pem, size_t size, struct skep_hash *ret_pin,
                  struct skep_error *err)
{
    BIO *input = size > INT_MAX ? NULL : BIO_new_mem_buf(cert_pem, (int)size);
    X509 *cert = input == NULL ? NULL : PEM_read_bio_X509(input, NULL, no_pass_phrase, NULL);
    BIO_free(input);
    uint8_t *public_key = NULL;
    int length = cert == NULL ? -1 : i2d_X509_PUBKEY(X509_get_X509_PUBKEY(cert), &public_key);
    X509_free(cert);
    ERR_clear_error();
    if (length <= 0) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "the certificate is not an X.509 certificate in PEM form; expected "
                              "\"-----BEGIN CERTIFICATE-----\"");
    }
    *ret_pin = skep_hash_of(public_key, (size_t)length);
    OPENSSL_free(public_key);
    return SKEP_OK;
}

void skep_pin_format(const struct skep_hash *pin, char to[64])
{
    unsigned char base64[4 * ((SKEP_ID_SIZE + 2) / 3) + 1];
    EVP_EncodeBlock(base64, pin->bytes, SKEP_ID_SIZE);
    snprintf(to, 64, "sha256//%s", (const char *)base64);
}
