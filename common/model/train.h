/*
 * Local training: H AdamW steps (Loshchilov and Hutter, arXiv 1711.05101) of the present shards on one slice, and the measure of
 * the result.
 *
 * A slice is a few data chunks, read as one text; step h's batch is `batch` windows of `context` bytes at places drawn from the
 * ticket, so anyone who has the ticket and the base states can repeat the job. Windows do not cross the join between two chunks.
 */
#ifndef SKEP_MODEL_TRAIN_H
#define SKEP_MODEL_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/model/model.h"
#include "common/wire/manifest.h"

/* AdamW moments of one shard: they stay with the donor. Flat arrays in layout order. */
struct skep_moments {
    size_t parameters;
    uint64_t step;
    float *first;
    float *second;
};

void skep_moments_init(struct skep_moments *moments, size_t parameters);
void skep_moments_done(struct skep_moments *moments);

/* A chunk of the slice, borrowed. */
struct skep_slice_chunk {
    const uint8_t *data;
    size_t size;
};

/* One training step after forward and backward: clips the global norm over all present shards to training->clip, then AdamW on
 * every shard in `shards` with its moments; if the trunk is among them, the balancing biases of rows and columns that have a
 * present expert move by balance_step * sign(mean load - load), the mean being over those. clip 0: no limit. */
void skep_train_step(struct skep_model *model, const struct skep_training_config *training,
                     double learning_rate, const struct skep_shard *shards,
                     struct skep_moments *moments, size_t shard_count);

/* Learning rate in a job that starts from trunk version v: linear warm-up over warmup_rounds ((v + 1) /
 * (warmup_rounds + 1) of it), then constant. */
double skep_train_rate(const struct skep_training_config *training, uint64_t trunk_version);

/* Windows [batch, T] of step h of the job with this ticket. SKEP_ERR_FORMAT if no chunk holds one window. */
int skep_slice_batch(const struct skep_slice_chunk *chunks, size_t chunk_count,
                     const struct skep_hash *ticket, uint32_t step, uint32_t batch,
                     uint32_t context, uint8_t *ret_tokens, struct skep_error *err);

/* Asked between steps; true stops with SKEP_ERR_CANCELLED. */
typedef bool (*skep_train_poll)(void *user, uint32_t step, double loss_nats, uint64_t tokens);

struct skep_job_result {
    uint64_t tokens;   /* that carried loss, over all steps */
    double loss_first; /* mean of the first and last quarter of the steps, nats per token */
    double loss_last;
};

/* Runs the whole job: training->steps steps over `shards` (all present in model). */
int skep_train_job(struct skep_model *model, const struct skep_training_config *training,
                   double learning_rate, const struct skep_shard *shards,
                   struct skep_moments *moments, size_t shard_count,
                   const struct skep_slice_chunk *chunks, size_t chunk_count,
                   const struct skep_hash *ticket, skep_train_poll poll, void *user,
                   struct skep_job_result *ret_result, struct skep_error *err);

/* Bits per byte of `text`: windows of T bytes every T - prefix bytes, so that each byte but the first `prefix` is predicted once;
 * the last window is moved back to end with the text and counts only bytes not yet counted. */
int skep_eval_text(struct skep_model *model, const uint8_t *text, size_t size,
                   double *ret_bits_per_byte, uint64_t *ret_tokens, struct skep_error *err);

/* Draws `length` bytes after `prompt`, by temperature and top-p from a seed; calls `emit` for each byte until it returns false. */
int skep_generate(struct skep_model *model, const uint8_t *prompt, size_t prompt_size,
                  size_t length, double temperature, double top_p, uint64_t seed,
                  bool (*emit)(void *user, uint8_t byte), void *user, struct skep_error *err);

#endif
