/* Opening an update file: signature first, then body hash, then the body itself against the shard's tilings. */
#ifndef SKEP_SWARM_UPDATE_OPEN_H
#define SKEP_SWARM_UPDATE_OPEN_H

#include <stddef.h>

#include "common/base/error.h"
#include "common/crypto/key.h"
#include "common/wire/manifest.h"
#include "common/wire/statements.h"
#include "common/wire/update.h"

/* The statement of the file and its hash, signature and body hash checked; *ret_body points into `file`. */
int skep_update_open(const void *file, size_t size, struct skep_update_statement *ret_statement,
                     struct skep_hash *ret_hash, const uint8_t **ret_body, size_t *ret_body_size,
                     struct skep_error *err);

/* The other shards of the job that a trunk's update names; of a file that skep_update_open() has taken. The caller frees. */
int skep_update_open_parts(const void *file, size_t size, struct skep_update_part **ret_parts,
                           size_t *ret_count, struct skep_error *err);

/* Signs a statement about `body` (statement->donor and statement->body are filled in) and writes the file. */
void skep_update_seal(const struct skep_key *key, struct skep_update_statement *statement,
                      const struct skep_buffer *body, struct skep_buffer *ret_file);

#endif
