/*
 * Bytes named by their SHA-256, one file each: DIR/ab/abcdef... Written whole or not at all, checked when written. The same bytes
 * are stored once.
 */
#ifndef SKEP_STORE_BLOBS_H
#define SKEP_STORE_BLOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/id.h"

struct skep_blobs;

/* Makes the 256 folders and removes what a crash left unfinished (older than an hour: another process may be writing). */
int skep_blobs_open(const char *folder, struct skep_blobs **ret_blobs, struct skep_error *err);
void skep_blobs_close(struct skep_blobs *blobs);
/* Stores bytes under their hash (durably); *ret_hash may be NULL. If `expected` is given and differs: SKEP_ERR_HASH. */
int skep_blobs_put(struct skep_blobs *blobs, const void *data, size_t size,
                   const struct skep_hash *expected, struct skep_hash *ret_hash,
                   struct skep_error *err);
bool skep_blobs_has(const struct skep_blobs *blobs, const struct skep_hash *hash);
/* Reads back and checks; what *ret_data held is freed, so it must be initialised. SKEP_ERR_NOT_FOUND, or SKEP_ERR_HASH (and the broken file is removed) if the disk lied. */
int skep_blobs_get(struct skep_blobs *blobs, const struct skep_hash *hash,
                   struct skep_buffer *ret_data, struct skep_error *err);
/* Where it lies or would lie, for whoever wants a second name for it; the caller frees. */
char *skep_blobs_path(const struct skep_blobs *blobs, const struct skep_hash *hash);
void skep_blobs_remove(struct skep_blobs *blobs, const struct skep_hash *hash);

#endif
