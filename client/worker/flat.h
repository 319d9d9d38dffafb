/*
 * Flat files of float32: AdamW moments (two arrays and a step) and error-feedback residuals (one array). They stay with the donor;
 * only their hash is published, and the bytes are shown to those who audit a job (swarm/history.h, which has the form). The hash at
 * the end also shows what a power cut left half written.
 */
#ifndef SKEP_CLIENT_WORKER_FLAT_H
#define SKEP_CLIENT_WORKER_FLAT_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* Writes `arrays` arrays of `count` floats. Like reading it gives up with SKEP_ERR_CANCELLED when skep_ops_stopped(). */
int skep_flat_write(const char *path, uint64_t step, const float *const *values, uint32_t arrays,
                    size_t count, struct skep_error *err);
/* Reads into arrays of exactly this shape. A file that does not exist leaves them and *ret_step alone; one of another shape, cut
 * off or with a number that is not finite is SKEP_ERR_FORMAT, one that has changed since it was written SKEP_ERR_HASH; the arrays are
 * then spoiled. */
int skep_flat_read(const char *path, uint64_t *ret_step, float *const *values, uint32_t arrays,
                   size_t count, struct skep_error *err);
/* Is it whole, or not there? The same refusals, without reading the numbers. */
int skep_flat_check(const char *path, uint32_t arrays, size_t count, struct skep_error *err);

#endif
