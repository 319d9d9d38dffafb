/*
 * Which rows of each layer's grid a donor fetches for one job. Route `document`: the trunk's row gate scores windows of the slice,
 * each window counts for the rows it would use, and the donor_rows rows with the most counts are taken (ties: lower row). Route
 * `token`: rows are drawn from the ticket, as every token chooses among all rows. Either way the donor does not choose.
 */
#ifndef SKEP_CLIENT_AGENT_ROWS_H
#define SKEP_CLIENT_AGENT_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/model/train.h"
#include "common/wire/manifest.h"

#define SKEP_ROWS_WINDOWS 64u /* scored at most; they are the first that will be trained on */

/* Counts one window: `scores` [layers, rows]; the best `per_window` rows of each layer get one more in `counts` [layers, rows]. */
void skep_rows_count(const float *scores, uint32_t layers, uint32_t rows, uint32_t per_window,
                     uint64_t *counts);
/* Marks the `want` rows with the highest counts of one layer. */
void skep_rows_best(const uint64_t *counts, uint32_t rows, uint32_t want, bool *ret_chosen);
/* Marks `want` different rows of one layer, drawn from the ticket. */
void skep_rows_draw(const struct skep_hash *ticket, uint32_t layer, uint32_t rows, uint32_t want,
                    bool *ret_chosen);

struct skep_rows_input {
    const struct skep_manifest *manifest;
    const float *trunk; /* parameters, layout order */
    const struct skep_slice_chunk *chunks;
    size_t chunk_count;
    const struct skep_hash *ticket;
};

/* Fills ret_chosen [layers, rows]. */
int skep_rows_choose(const struct skep_rows_input *input, bool *ret_chosen, struct skep_error *err);

#endif
