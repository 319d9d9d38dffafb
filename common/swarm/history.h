/*
 * What a donor's update depends on besides its job: the history of the shard at this donor, AdamW's moments and the residual of error
 * feedback. It is private, and given up it costs too much (ARCHITECTURE.md has the measurement), so the donor commits to it: each update
 * statement names the history before and after the job by hash, and whoever audits the job asks for the bytes.
 *
 * The bytes are the two flat files that the worker writes anyway (client/worker/flat.h), moments first:
 *
 *   flat file:  "SKFL" u32 arrays  u64 step  u64 count  arrays * count float32  SHA-256 of all before        all little-endian
 *   history  =  SHA-256("skep-history" || hash of the moments' file || hash of the residual's)
 *
 * where a file's hash is the one it ends with, so that naming a history costs no second reading. A donor that begins has neither file: that
 * is the zero hash. A history goes over the wire as the two files, one after the other: 12 bytes a parameter and 112.
 */
#ifndef SKEP_SWARM_HISTORY_H
#define SKEP_SWARM_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"

#define SKEP_FLAT_MARK "SKFL"
#define SKEP_FLAT_HEADER_BYTES 24u
#define SKEP_FLAT_FRAME_BYTES (SKEP_FLAT_HEADER_BYTES + SKEP_ID_SIZE)
#define SKEP_MOMENT_ARRAYS 2u
#define SKEP_RESIDUAL_ARRAYS 1u

/* Of a flat file. */
uint64_t skep_flat_bytes(uint32_t arrays, uint64_t count);
/* Of both. */
uint64_t skep_history_bytes(uint64_t parameters);

/* The hashes that the two files end with; NULL or zeros: there is no such file. */
struct skep_hash skep_history_of(const struct skep_hash *moments, const struct skep_hash *residual);
bool skep_history_is_new(const struct skep_hash *history);

/* A history in bytes that are borrowed. The arrays are little-endian float32, `parameters` each. */
struct skep_history {
    struct skep_hash hash;
    uint64_t step;
    const uint8_t *first;
    const uint8_t *second;
    const uint8_t *residual;
    size_t moments_bytes; /* of the first file: where the second begins */
};

/* Both files of a shard of so many parameters. SKEP_ERR_FORMAT for another shape or size or a number that is not finite, SKEP_ERR_HASH for
 * a file that does not end with its hash. */
int skep_history_open(const void *data, size_t size, size_t parameters,
                      struct skep_history *ret_history, struct skep_error *err);

#endif
