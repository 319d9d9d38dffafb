/* Keys in files: read, or made the first time (PEM, mode 0600). Used for the donor's and for a project's key. */
#ifndef SKEP_CLIENT_AGENT_IDENTITY_H
#define SKEP_CLIENT_AGENT_IDENTITY_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/crypto/key.h"

/* *ret_made (may be NULL) tells whether the key is new. SKEP_ERR_NOT_FOUND if there is none and `make` is false. */
int skep_identity_load(const char *path, bool make, struct skep_key **ret_key, bool *ret_made,
                       struct skep_error *err);

#endif
