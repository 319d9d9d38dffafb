#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "tests/bench/attack/cell.h"

#define PUBLIC_RECORDS 256u

/* Public records (of a text: windows), drawn anew for every shard and version. */
static uint8_t *draw_records(const struct cell *cell, size_t shard, size_t *ret_size)
{
    const struct skep_model_config *model = &cell->manifest.model;
    bool lm = model->kind == SKEP_MODEL_LM;
    size_t each = lm ? model->context + 1 : model->inputs + 1;
    size_t places = cell->data.train_size / each;
    struct skep_rng rng = skep_rng_of(
        cell->seed + cell->rounds * (cell->lab.version * cell->lab.shard_count + shard));
    uint8_t *records = skep_alloc(PUBLIC_RECORDS, each);
    for (size_t i = 0; i < PUBLIC_RECORDS; i++) {
        size_t place = skep_rng_below(&rng, places);
        memcpy(records + i * each, cell->data.train + place * each, each);
    }
    *ret_size = PUBLIC_RECORDS * each;
    return records;
}

static int64_t loss_of(struct cell *cell, const uint8_t *records, size_t size)
{
    struct skep_eval eval = {0};
    if (lab_measure(&cell->lab, records, size, &eval, NULL) != 0 || !isfinite(eval.nats)) {
        return SKEP_LOSS_GATE_NOT_FINITE;
    }
    return (int64_t)(eval.nats * 1e6);
}

void cell_merge_gated(struct cell *cell, size_t shard, struct cell_intake *intake)
{
    float *state = cell->lab.shards[shard].parameters;
    size_t bytes = cell->lab.shards[shard].layout.parameters * sizeof(float);
    struct skep_loss_gate_history *history = &cell->gate_histories[shard];
    enum skep_loss_gate_decision decision = SKEP_LOSS_GATE_MEASURE;
    int64_t losses[SKEP_LOSS_GATE_TRIES] = {0};
    size_t size = 0;
    uint8_t *records = draw_records(cell, shard, &size);
    float *before = skep_alloc(1, bytes);
    memcpy(before, state, bytes);
    int64_t loss_before = loss_of(cell, records, size);
    uint64_t refused = cell->refused;
    for (uint32_t tried = 0; decision == SKEP_LOSS_GATE_MEASURE; tried++) {
        memcpy(state, before, bytes);
        cell_let_go(intake);
        cell->refused = refused;
        cell_merge(cell, shard, intake, tried, state);
        losses[tried] = loss_of(cell, records, size);
        decision = skep_loss_gate_decide(history, loss_before, losses, tried + 1);
    }
    if (decision == SKEP_LOSS_GATE_SKIP) {
        memcpy(state, before, bytes);
    } else {
        skep_loss_gate_push(history, loss_before, losses[decision]);
    }
    cell->held_back += decision != SKEP_LOSS_GATE_FULL;
    free(before);
    free(records);
}
