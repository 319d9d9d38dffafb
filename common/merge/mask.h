/*
 * The common mask: all donors of one base version of a shard send the same places of each block, chosen by a seed that nobody can
 * choose (RoSDHB, "Reconciling Communication Compression and Byzantine-Robustness", arXiv 2508.17129: with a coordinated random
 * mask, robust aggregation sees full columns instead of disjoint ones). In return a place is sent because it was drawn and not because
 * it matters: what is not sent stays in the error feedback. An option of the manifest (update.mask: common) for projects under attack.
 *
 *   seed         = SHA-256("skep-mask" || project || shard's text || base version as 8 bytes, little-endian)
 *   block (t, b) = selection sampling (Knuth, TAOCP 3.4.2, algorithm S) of k places with skep_rng_of_bytes(seed || t || b), t and b as
 *                  4 bytes, little-endian: each set of k places is equally likely
 *
 * Cost: one draw for each place of a block.
 */
#ifndef SKEP_MERGE_MASK_H
#define SKEP_MERGE_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/wire/update.h"

/* The seed of all masks of one base version of a shard. */
struct skep_hash skep_mask_seed(const struct skep_project_id *project,
                                const struct skep_shard *shard, uint64_t base_version);

/* The `tiling->kept` places of block `block` of tensor `tensor`, rising. */
void skep_mask_of(const struct skep_hash *seed, uint32_t tensor, uint32_t block,
                  const struct skep_tiling *tiling, uint16_t *ret_indices);

/* Are these the places of the mask? SKEP_ERR_REFUSED (reason "mask") names the first that is not. */
int skep_mask_check(const struct skep_hash *seed, const struct skep_update_body *body,
                    struct skep_error *err);

#endif
