/* Unpredictable bytes from the operating system, for keys, nonces and tokens. */
#ifndef SKEP_CRYPTO_RANDOM_H
#define SKEP_CRYPTO_RANDOM_H

#include <stddef.h>
#include <stdint.h>

void skep_random_bytes(void *to, size_t size);
uint64_t skep_random_u64(void);

#endif
