#include "common/crypto/hash.h"

#include <stdlib.h>

#include <openssl/evp.h>

#include "common/base/alloc.h"
#include "common/crypto/must.h"

/* SHA-1 and SHA-256 of memory cannot fail for any input; if they do, libcrypto itself is broken. */

struct skep_hasher {
    EVP_MD_CTX *context;
};

struct skep_hash skep_hash_of(const void *data, size_t size)
{
    struct skep_hash hash;
    skep_must(EVP_Digest(data, size, hash.bytes, NULL, EVP_sha256(), NULL) == 1,
              "hash with SHA-256");
    return hash;
}

static void start(struct skep_hasher *hasher)
{
    skep_must(EVP_DigestInit_ex(hasher->context, EVP_sha256(), NULL) == 1, "start SHA-256");
}

struct skep_hasher *skep_hasher_new(void)
{
    struct skep_hasher *hasher = skep_alloc(1, sizeof *hasher);
    hasher->context = EVP_MD_CTX_new();
    skep_must(hasher->context != NULL, "allocate a hash");
    start(hasher);
    return hasher;
}

void skep_hasher_free(struct skep_hasher *hasher)
{
    if (hasher != NULL) {
        EVP_MD_CTX_free(hasher->context);
        free(hasher);
    }
}

void skep_hasher_add(struct skep_hasher *hasher, const void *data, size_t size)
{
    skep_must(EVP_DigestUpdate(hasher->context, data, size) == 1, "continue SHA-256");
}

struct skep_hash skep_hasher_finish(struct skep_hasher *hasher)
{
    struct skep_hash hash;
    skep_must(EVP_DigestFinal_ex(hasher->context, hash.bytes, NULL) == 1, "finish SHA-256");
    start(hasher);
    return hash;
}

void skep_sha1_of(const void *data, size_t size, unsigned char to[20])
{
    skep_must(EVP_Digest(data, size, to, NULL, EVP_sha1(), NULL) == 1, "hash with SHA-1");
}
