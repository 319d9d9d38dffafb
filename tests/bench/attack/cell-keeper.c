#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/crypto/hash.h"
#include "common/merge/mask.h"
#include "tests/bench/attack/cell.h"

/* As keepers order a round: by the head and the donor. */
static struct skep_hash place_of(const struct cell *cell, size_t d)
{
    uint8_t bytes[8 + SKEP_ID_SIZE];
    skep_put_u64(bytes, cell->lab.version);
    memcpy(bytes + 8, cell->lab.donors[d].id.bytes, SKEP_ID_SIZE);
    return skep_hash_of(bytes, sizeof bytes);
}

/* The body as the keeper reads it, if it may be merged. */
static bool admits(const struct cell *cell, size_t shard, const struct skep_update_body *sent,
                   struct skep_update_body *ret_body)
{
    const struct lab_shard *kept = &cell->lab.shards[shard];
    struct skep_hash mask = lab_mask(&cell->lab, shard);
    struct skep_buffer bytes = {0};
    skep_update_body_encode(sent, &bytes);
    bool good =
        skep_update_body_decode(bytes.data, bytes.size, kept->tilings, kept->layout.tensor_count,
                                cell->manifest.update.scale_ceiling, ret_body, NULL) == 0;
    if (good && cell->manifest.update.mask == SKEP_MASK_COMMON) {
        good = skep_mask_check(&mask, ret_body, NULL) == 0;
    }
    skep_buffer_done(&bytes);
    return good;
}

static void take_in(struct cell *cell, size_t shard, struct cell_intake *intake)
{
    intake->count = 0;
    for (size_t d = 0; d < cell->donors; d++) {
        struct skep_update_body *body = &intake->bodies[intake->count];
        if (cell->bodies[d][shard].tensors == NULL) {
            continue;
        }
        *body = (struct skep_update_body){0};
        if (admits(cell, shard, &cell->bodies[d][shard], body)) {
            intake->donors[intake->count] = d;
            intake->inputs[intake->count] =
                (struct skep_merge_input){.body = body, .hash = place_of(cell, d)};
            intake->count++;
        } else {
            skep_update_body_done(body);
            cell->refused++;
        }
    }
}

/* Donors of bad standing are left out. */
static void judge(const struct cell *cell, size_t shard, struct cell_intake *intake)
{
    struct skep_peer_id donors[LAB_DONORS];
    bool left_out[LAB_DONORS];
    for (size_t i = 0; i < intake->count; i++) {
        donors[i] = cell->lab.donors[intake->donors[i]].id;
    }
    skep_standings_judge(cell->standings[shard], donors, intake->count, left_out);
    for (size_t i = 0; i < intake->count; i++) {
        intake->inputs[i].left_out = left_out[i] && !cell->forgets;
    }
}

void cell_merge(struct cell *cell, size_t shard, struct cell_intake *intake, uint32_t halvings,
                float *parameters)
{
    const struct lab_shard *kept = &cell->lab.shards[shard];
    const struct skep_merge_shard state = {.parameters = parameters,
                                           .offsets = kept->offsets,
                                           .tensor_count = kept->layout.tensor_count};
    struct skep_merge_options options = {.config = &cell->manifest.merge, .halvings = halvings};
    struct skep_error err = {0};
    take_in(cell, shard, intake);
    judge(cell, shard, intake);
    options.norm_limit = cell->forgets ? 0 : skep_standings_norm_limit(cell->standings[shard]);
    if (skep_merge(&state, intake->inputs, intake->count, &options, &intake->report, &err) != 0) {
        cell_die(&err);
    }
}

void cell_let_go(struct cell_intake *intake)
{
    for (size_t i = 0; i < intake->count; i++) {
        skep_update_body_done(&intake->bodies[i]);
    }
    intake->count = 0;
}

void cell_make_version(struct cell *cell, size_t shard, struct cell_intake *intake)
{
    struct skep_receipt receipts[LAB_DONORS];
    if (cell->gates) {
        cell_merge_gated(cell, shard, intake);
    } else {
        cell_merge(cell, shard, intake, 0, cell->lab.shards[shard].parameters);
    }
    for (size_t i = 0; i < intake->count; i++) {
        const struct skep_merge_verdict *verdict = &intake->report.inputs[i];
        receipts[i] = (struct skep_receipt){.donor = cell->lab.donors[intake->donors[i]].id,
                                            .merged = verdict->merged,
                                            .copy = verdict->copy_of != SKEP_MERGE_NO_COPY,
                                            .agreement_permille = verdict->agreement_permille};
    }
    struct skep_seal seal = {.shard = cell->lab.shards[shard].shard,
                             .version = cell->lab.version + 1,
                             .norm = intake->report.median_norm,
                             .receipt_count = intake->count,
                             .receipts = receipts};
    skep_standings_push(cell->standings[shard], &seal);
}
