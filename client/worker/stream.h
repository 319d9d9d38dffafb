/*
 * Large files in pieces: what a job leaves behind has gigabytes at times, and a second copy of it in memory would count against the
 * donor's limit. Both directions keep a SHA-256 of what has passed, so that a file can end with its own hash.
 *
 * Writing goes to PATH.unfinished, which takes PATH's name when all of it is there; a crash leaves the file of before. The first
 * failure is kept and told by commit, so that those who write need not look after every piece.
 */
#ifndef SKEP_CLIENT_WORKER_STREAM_H
#define SKEP_CLIENT_WORKER_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"

struct skep_stream_out;

int skep_stream_create(const char *path, struct skep_stream_out **ret_out, struct skep_error *err);
void skep_stream_put(struct skep_stream_out *out, const void *data, size_t size);
void skep_stream_put_u32(struct skep_stream_out *out, uint32_t value);
void skep_stream_put_u64(struct skep_stream_out *out, uint64_t value);
/* float64 as its IEEE-754 bits, little-endian */
void skep_stream_put_f64(struct skep_stream_out *out, double value);
/* float32, little-endian */
void skep_stream_put_floats(struct skep_stream_out *out, const float *values, size_t count);
/* The hash of all that was put so far, as the last 32 bytes of the file. */
void skep_stream_put_hash(struct skep_stream_out *out);
/* Gives the file its name, or says what went wrong, and frees. `durable`: on the disk before this returns. */
int skep_stream_commit(struct skep_stream_out *out, bool durable, struct skep_error *err);
/* Leaves everything as it was, and frees; NULL is allowed. */
void skep_stream_abandon(struct skep_stream_out *out);

struct skep_stream_in;

/* SKEP_ERR_NOT_FOUND if there is no such file. What reads long gives up with SKEP_ERR_CANCELLED when skep_ops_stopped(). */
int skep_stream_open(const char *path, struct skep_stream_in **ret_in, struct skep_error *err);
void skep_stream_close(struct skep_stream_in *in);
uint64_t skep_stream_size(const struct skep_stream_in *in);
/* Exactly `size` bytes; SKEP_ERR_FORMAT at the file's end. */
int skep_stream_get(struct skep_stream_in *in, void *to, size_t size, struct skep_error *err);
int skep_stream_get_u32(struct skep_stream_in *in, uint32_t *ret_value, struct skep_error *err);
int skep_stream_get_u64(struct skep_stream_in *in, uint64_t *ret_value, struct skep_error *err);
int skep_stream_get_f64(struct skep_stream_in *in, double *ret_value, struct skep_error *err);
/* SKEP_ERR_FORMAT for a number that is not finite. */
int skep_stream_get_floats(struct skep_stream_in *in, float *values, size_t count,
                           struct skep_error *err);
/* Reads the whole file once: is its end the hash of the rest? SKEP_ERR_HASH if not. The next get begins at the start again. */
int skep_stream_check(struct skep_stream_in *in, struct skep_error *err);

#endif
