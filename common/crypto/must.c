#include "common/crypto/must.h"

#include <stdio.h>
#include <stdlib.h>

#include <openssl/err.h>

void skep_must(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "skep: libcrypto cannot %s\n", what);
        ERR_print_errors_fp(stderr);
        abort();
    }
}
