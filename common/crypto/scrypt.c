#include "common/crypto/scrypt.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

/* What libcrypto may allocate: the 128 * N * r bytes of the large array and some for the rest. */
#define MEMORY_MOST (128ul * SKEP_SCRYPT_N * SKEP_SCRYPT_R + (1ul << 20))

int skep_scrypt(const void *password, size_t password_size, const void *salt, size_t salt_size,
                uint8_t ret_bytes[32], struct skep_error *err)
{
    /* With these constants and any password and salt it fails only for want of memory. */
    if (EVP_PBE_scrypt(password, password_size, salt, salt_size, SKEP_SCRYPT_N, SKEP_SCRYPT_R,
                       SKEP_SCRYPT_P, MEMORY_MOST, ret_bytes, 32) != 1) {
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory for scrypt: it takes %lu MiB",
                              MEMORY_MOST >> 20);
    }
    return SKEP_OK;
}

void skep_scrypt_leave(void)
{
    OPENSSL_thread_stop();
}
