#include "common/crypto/random.h"

#include <stdint.h>

#include <openssl/rand.h>

#include "common/crypto/must.h"

void skep_random_bytes(void *to, size_t size)
{
    /* RAND_bytes counts in int. */
    for (uint8_t *at = to; size > 0;) {
        int piece = size > (1u << 20) ? 1 << 20 : (int)size;
        skep_must(RAND_bytes(at, piece) == 1, "give random bytes");
        at += piece;
        size -= (size_t)piece;
    }
}

uint64_t skep_random_u64(void)
{
    uint64_t number = 0;
    skep_random_bytes(&number, sizeof number);
    return number;
}
