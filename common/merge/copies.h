/*
 * Near-copies: updates that repeat another's work, or one donor's work under many keys. Which places an update sends (the k largest of each
 * block) is a fingerprint of the gradient it was made from: two donors with data of their own share few, a copy with some noise
 * on it shares most. Gauntlet (arXiv 2505.21684) cuts the reward of peers whose top-k sets overlap by 0.4 and more; here an
 * update that nearly equals another is not merged, so that copying a thousand times counts once.
 *
 *   j is a near-copy of i   if   |S_i & S_j| / |S_i | S_j| >= overlap_permille / 1000   and   cos(x_i, x_j) >= 1/2
 *                           or   cos(x_i, x_j) >= 1/4 + 2 * the round's usual cosine, if that is not below 0
 *
 * The second line is for those who know the first: an update of which half is another's and half noise shares too few places and still
 * points the same way. How alike honest updates are depends on the model, the data and how long it has trained (measured on MNIST, 120
 * pairs a round: median 0.08 .. 0.17 in the first ten rounds, 0.01 .. 0.04 later, the largest of thousands then 0.17; disguised copies
 * of one update 0.74 with it and 0.42 among each other), so they are held against the median of all pairs of their round, the lower one; those
 * left out and those of zeros do not count for it. A majority of copies can raise the median and so pass; that is for audits.
 *
 * S_i: the informative places of update i. A place is informative in tensors of which at most an eighth is sent, and where the value
 * sent is not 0. Small 1-D tensors send a large share of each tile and so overlap by themselves, and updates of zeros (an expert
 * that saw no token) all send the first k of each block. By chance alone sets of density p overlap by p / (2 - p): 0.008 at 64 of
 * 4096, 0.03 at 256 and 0.07 at an eighth, far below any threshold in use, so nothing is subtracted for chance.
 *
 * The angle (60 degrees and less) keeps a liar from having an honest update thrown out by sending its places with other values: what
 * remains in its stead points nearly the same way. Without it one identity could silence one donor a round.
 *
 * Of near-copies those of donors in good standing go first, so that nobody is silenced by one whose work is not merged anyway, then those
 * early in the round's order (merge.h). Not the freshest, nor the oldest: a copier can claim either. Updates are gone through in that order,
 * and one is left out if it is a near-copy of one that stays. (Joining chains of near-copies into groups would let one update near two
 * honest ones join them, and gains nothing: a Sybil whose updates are not near each other could have sent just those.) So a copier takes
 * the place of its victim in half of the rounds, until an audit finds that the work was not its own.
 *
 * What remains possible: making new places costs no training. An update with random places is no copy of anything; that is for audits.
 */
#ifndef SKEP_MERGE_COPIES_H
#define SKEP_MERGE_COPIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/merge/pairs.h"
#include "common/wire/update.h"

/* Whether what is sent of such a tensor tells updates apart. */
bool skep_copies_informative(const struct skep_tiling *tiling);

/* ret_copy_of[j] = i if j is left out as a near-copy of i, which stays; j itself if it is no copy. Updates are numbered in the round's order.
 * overlap_permille 0: all stay. */
void skep_copies_find(const struct skep_pairs *pairs, const bool *left_out,
                      uint32_t overlap_permille, size_t *ret_copy_of);

#endif
