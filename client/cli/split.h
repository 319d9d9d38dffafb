/* A text, or records, cut into what is trained on and what is held out, and each into content-addressed chunks. Pure. */
#ifndef SKEP_CLIENT_CLI_SPLIT_H
#define SKEP_CLIENT_CLI_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/wire/manifest.h"

/* Appends every holdout_every-th line (with its newline; 0: none) to ret_heldout and the others to ret_train. */
void skep_split_lines(const void *text, size_t size, uint32_t holdout_every,
                      struct skep_buffer *ret_train, struct skep_buffer *ret_heldout);
/* The same for records of `record` bytes. */
void skep_split_records(const void *records, size_t size, size_t record, uint32_t holdout_every,
                        struct skep_buffer *ret_train, struct skep_buffer *ret_heldout);
/* The chunk list of `text`; SKEP_ERR_TOO_LARGE above SKEP_LIMIT_CHUNKS. The set's chunks are freed with the manifest. */
int skep_split_chunks(const struct skep_buffer *text, uint32_t chunk_bytes,
                      struct skep_data_set *ret_set, struct skep_error *err);

#endif
