/*
 * scrypt (RFC 7914): a hash that costs memory as well as time, so that a machine built for hashing gains little over a home
 * computer. One call with the numbers below takes 16 MiB and some 50 ms of one core.
 */
#ifndef SKEP_CRYPTO_SCRYPT_H
#define SKEP_CRYPTO_SCRYPT_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define SKEP_SCRYPT_N 16384u /* 128 * N * r bytes: 16 MiB */
#define SKEP_SCRYPT_R 8u
#define SKEP_SCRYPT_P 1u

/* 32 bytes of scrypt(password, salt) with N, r and p as above. SKEP_ERR_MEMORY if the 16 MiB cannot be had. */
int skep_scrypt(const void *password, size_t password_size, const void *salt, size_t salt_size,
                uint8_t ret_bytes[32], struct skep_error *err);

/* Frees what libcrypto keeps for the calling thread: for threads that outlive their use of it, such as a loop's helpers. */
void skep_scrypt_leave(void);

#endif
