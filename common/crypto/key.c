#include "common/crypto/key.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "common/base/alloc.h"
#include "common/crypto/must.h"

struct skep_key {
    EVP_PKEY *pair;
    struct skep_peer_id id;
};

static struct skep_key *key_take(EVP_PKEY *take_pair)
{
    struct skep_key *key = skep_alloc(1, sizeof *key);
    key->pair = take_pair;
    size_t size = sizeof key->id.bytes;
    skep_must(EVP_PKEY_get_raw_public_key(take_pair, key->id.bytes, &size) == 1 &&
                  size == sizeof key->id.bytes,
              "give the public half of an Ed25519 key");
    return key;
}

struct skep_key *skep_key_new(void)
{
    EVP_PKEY *pair = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    skep_must(pair != NULL, "make an Ed25519 key");
    return key_take(pair);
}

struct skep_key *skep_key_from_seed(const uint8_t seed[32])
{
    EVP_PKEY *pair = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, 32);
    skep_must(pair != NULL, "make an Ed25519 key from its seed");
    return key_take(pair);
}

/* A pass phrase is never asked for: an encrypted file is refused. */
static int no_pass_phrase(char *to, int size, int writing, void *context)
{
    (void)to;
    (void)size;
    (void)writing;
    (void)context;
    return -1;
}

int skep_key_from_pem(const char *pem, size_t size, struct skep_key **ret_key,
                      struct skep_error *err)
{
    BIO *input = size > INT_MAX ? NULL : BIO_new_mem_buf(pem, (int)size);
    EVP_PKEY *pair =
        input == NULL ? NULL : PEM_read_bio_PrivateKey(input, NULL, no_pass_phrase, NULL);
    BIO_free(input);
    ERR_clear_error();
    if (pair == NULL) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "the key is not an unencrypted private key in PEM form; expected "
                              "\"-----BEGIN PRIVATE KEY-----\" with an Ed25519 key");
    }
    if (!EVP_PKEY_is_a(pair, "ED25519")) {
        const char *name = EVP_PKEY_get0_type_name(pair);
        skep_error_set(err, SKEP_ERR_FORMAT, "the private key is of type %s; expected ED25519",
                       name == NULL ? "unknown" : name);
        EVP_PKEY_free(pair);
        return SKEP_ERR_FORMAT;
    }
    *ret_key = key_take(pair);
    return SKEP_OK;
}

char *skep_key_to_pem(const struct skep_key *key)
{
    BIO *output = BIO_new(BIO_s_mem());
    skep_must(output != NULL, "allocate a buffer");
    skep_must(PEM_write_bio_PKCS8PrivateKey(output, key->pair, NULL, NULL, 0, NULL, NULL) == 1,
              "write an Ed25519 key");
    char *text = NULL;
    long size = BIO_get_mem_data(output, &text);
    skep_must(size > 0, "write an Ed25519 key");
    char *copy = skep_alloc((size_t)size + 1, 1);
    memcpy(copy, text, (size_t)size);
    BIO_free(output);
    return copy;
}

void skep_key_free(struct skep_key *key)
{
    if (key != NULL) {
        EVP_PKEY_free(key->pair);
        free(key);
    }
}

struct skep_peer_id skep_key_id(const struct skep_key *key)
{
    return key->id;
}

struct skep_signature skep_key_sign(const struct skep_key *key, const void *data, size_t size)
{
    struct skep_signature signature = {0};
    size_t length = sizeof signature.bytes;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    skep_must(context != NULL, "allocate a signature");
    skep_must(EVP_DigestSignInit(context, NULL, NULL, NULL, key->pair) == 1 &&
                  EVP_DigestSign(context, signature.bytes, &length, data, size) == 1 &&
                  length == sizeof signature.bytes,
              "sign with Ed25519");
    EVP_MD_CTX_free(context);
    return signature;
}

bool skep_signature_verify(const struct skep_peer_id *signer, const void *data, size_t size,
                           const struct skep_signature *signature)
{
    EVP_PKEY *public_key =
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, signer->bytes, sizeof signer->bytes);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool valid =
        public_key != NULL && context != NULL &&
        EVP_DigestVerifyInit(context, NULL, NULL, NULL, public_key) == 1 &&
        EVP_DigestVerify(context, signature->bytes, sizeof signature->bytes, data, size) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(public_key);
    ERR_clear_error();
    return valid;
}
