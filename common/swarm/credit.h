/*
 * Credit: what a merged update earns, from the job's own size and nothing the donor claims. 200 credits are one day at
 * 1 GFLOPS (BOINC's cobblestone): 4.32e11 floating-point operations each. Counted in millionths, whole numbers.
 *
 * The trunk's update earns the trunk's operations for all tokens of the job; an expert's update earns its layer's expert
 * operations shared over the donor_rows * columns experts a job may touch. Missing pieces earn nothing.
 */
#ifndef SKEP_SWARM_CREDIT_H
#define SKEP_SWARM_CREDIT_H

#include <stdint.h>

#include "common/base/id.h"
#include "common/wire/manifest.h"

/* Floating-point operations of one job credited to its update of this shard. */
uint64_t skep_job_flops(const struct skep_manifest *manifest, const struct skep_shard *shard);
/* The same as millionths of a credit. */
uint64_t skep_credit_micro(const struct skep_manifest *manifest, const struct skep_shard *shard);

#endif
