/*
 * For this folder alone: what libcrypto cannot refuse unless it is broken or memory is gone. Never for anything that depends on
 * bytes from outside.
 */
#ifndef SKEP_CRYPTO_MUST_H
#define SKEP_CRYPTO_MUST_H

#include <stdbool.h>

/* Stops the program with libcrypto's own words unless `ok`; `what` completes "cannot ...". */
void skep_must(bool ok, const char *what);

#endif
