/* Signatures that anyone could forge, a hundred times faster than Ed25519: the simulation's keepers crash, they do not lie. These
 * symbols stand in for crypto/key.c, whose object the linker then leaves out. */
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/crypto/hash.h"
#include "common/crypto/key.h"

struct skep_key {
    struct skep_peer_id id;
};

struct skep_key *skep_key_from_seed(const uint8_t seed[32])
{
    struct skep_key *key = skep_alloc(1, sizeof(*key));
    struct skep_hash hash = skep_hash_of(seed, 32);
    memcpy(key->id.bytes, hash.bytes, sizeof(key->id.bytes));
    return key;
}

void skep_key_free(struct skep_key *key)
{
    free(key);
}

struct skep_peer_id skep_key_id(const struct skep_key *key)
{
    return key->id;
}

static struct skep_signature signature_of(const struct skep_peer_id *signer, const void *data,
                                          size_t size)
{
    struct skep_hash hash = skep_hash_of(data, size);
    struct skep_signature signature;
    memcpy(signature.bytes, hash.bytes, SKEP_ID_SIZE);
    memcpy(signature.bytes + SKEP_ID_SIZE, signer->bytes, SKEP_ID_SIZE);
    return signature;
}

struct skep_signature skep_key_sign(const struct skep_key *key, const void *data, size_t size)
{
    return signature_of(&key->id, data, size);
}

bool skep_signature_verify(const struct skep_peer_id *signer, const void *data, size_t size,
                           const struct skep_signature *signature)
{
    struct skep_signature expected = signature_of(signer, data, size);
    return memcmp(expected.bytes, signature->bytes, sizeof(expected.bytes)) == 0;
}
