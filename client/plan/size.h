/* Amounts of bytes as people write and read them: "2GiB", "3.4 GiB". Powers of 1024. */
#ifndef SKEP_CLIENT_PLAN_SIZE_H
#define SKEP_CLIENT_PLAN_SIZE_H

#include <stdint.h>

#include "common/base/error.h"

#define SKEP_SIZE_TEXT 24u

/* A number, which may have a fraction, and B, KiB, MiB, GiB or TiB (the iB may be left out; one space may stand between). SKEP_ERR_ARGUMENT
 * names `name`. */
int skep_size_parse(const char *name, const char *text, uint64_t *ret_bytes,
                    struct skep_error *err);
/* "512 B", "3.4 GiB": one digit after the point. */
void skep_size_format(uint64_t bytes, char ret_text[SKEP_SIZE_TEXT]);

#endif
