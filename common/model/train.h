/*
 * Local training: H AdamW steps (Loshchilov and Hutter, arXiv 1711.05101) of the present shards on one slice, and the measure of
 * the result.
 *
 * A slice is a few data chunks, read as one text; step h's batch is `batch` windows at places drawn from the ticket, so anyone who
 * has the ticket and the base states can repeat the job. A window of an lm is `context` bytes from anywhere in a chunk; a
 * classifier's is one whole record, and its chunks hold whole records. Windows do not cross the join between two chunks.
 *
 * A job can be stopped and taken up again, in another process too, and ends with the same bits as if it had not been:
 *
 *     forward -> backward -> update -> next step
 *        a step stopped before its update has changed nothing: it is thrown away and done again
 *        an update runs in pieces of at most SKEP_TRAIN_PIECE parameters; stopped between two of them, the position says how far
 *        it came, and the gradients that are still to be used belong to what has to be kept
 *
 * What a caller keeps of a stopped job: the position, the parameters (skep_model_get) and moments of every shard of the job, and, if
 * position.updating, the gradients (skep_model_get_gradients) of the shards from number position.shard on. To go on it makes the
 * same model and job, puts all this back and calls skep_train_run() with that position. The same bits come only from the same table
 * of operations and number of threads.
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

/* Parameters that one piece of an update moves at most: some 3 ms on a slow core. */
#define SKEP_TRAIN_PIECE ((size_t)1 << 20)

/* AdamW moments of one shard: they stay with the donor. Flat arrays in layout order, where the model's table keeps its memory. */
struct skep_moments {
    const struct skep_ops *ops;
    size_t parameters;
    uint64_t step;
    float *first;
    float *second;
};

/* All 0; `ops` NULL means skep_ops_cpu(). SKEP_ERR_MEMORY, and then there is nothing to free. */
int skep_moments_init(struct skep_moments *moments, const struct skep_ops *ops, size_t parameters,
                      struct skep_error *err);
void skep_moments_done(struct skep_moments *moments);
/* In from host arrays of `parameters` values, and out. `step` is the caller's to set and read. */
void skep_moments_set(struct skep_moments *moments, const float *first, const float *second);
void skep_moments_get(const struct skep_moments *moments, float *ret_first, float *ret_second);

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

/* Windows [batch, skep_model_config_window()] of step h of the job with this ticket. SKEP_ERR_FORMAT if no chunk holds one window, and
 * for a classifier if a chunk does not hold whole records or a record's class is not below `classes`. */
int skep_slice_batch(const struct skep_model_config *config, const struct skep_slice_chunk *chunks,
                     size_t chunk_count, const struct skep_hash *ticket, uint32_t step,
                     uint32_t batch, uint8_t *ret_windows, struct skep_error *err);

/* Asked after each step; true stops with SKEP_ERR_CANCELLED. */
typedef bool (*skep_train_poll)(void *user, uint32_t step, double loss_nats, uint64_t tokens);

/* What is trained on what; everything is borrowed. All shards are present in the model; the trunk, if there, comes first. */
struct skep_train_job {
    const struct skep_training_config *training;
    double learning_rate;
    const struct skep_shard *shards;
    struct skep_moments *moments; /* one a shard, in the model's table */
    size_t shard_count;
    const struct skep_slice_chunk *chunks;
    size_t chunk_count;
    const struct skep_hash *ticket;
    skep_train_poll poll; /* NULL: never asked */
    void *user;
};

/* How far a job is. All 0 is its beginning; step == training->steps its end. Plain numbers, so that they can be written down. */
struct skep_train_position {
    uint32_t step;   /* steps done */
    uint64_t tokens; /* that carried loss, in those steps */
    double
        loss_first; /* share so far of the mean over the first quarter of the steps, nats per token, */
    double loss_last; /* and over the last */
    /* The update of step `step`; all 0 unless it was stopped inside. */
    bool updating;
    double step_loss; /* mean nats per token of that step, */
    uint64_t step_tokens;
    double clip;     /* what its gradients are multiplied by, */
    uint32_t shard;  /* and where it goes on: number of the shard in job->shards, */
    uint64_t offset; /* parameter of that shard */
};

/*
 * Runs the job from *position to its end, or until skep_ops_stopped() or poll say stop (SKEP_ERR_CANCELLED), or something is wrong;
 * *position always says where it stands. A position that the job cannot have is refused with SKEP_ERR_FORMAT.
 */
int skep_train_run(struct skep_model *model, const struct skep_train_job *job,
                   struct skep_train_position *position, struct skep_error *err);

struct skep_eval {
    uint64_t tokens; /* predicted bytes of an lm, records of a classifier */
    double nats;     /* mean cross-entropy; divided by log(2) an lm's bits per byte */
    double
        accuracy; /* share of the records whose class got the largest logit; 0 for an lm, which does not count them */
};

/* An lm: windows of T bytes every T - prefix bytes, so that each byte but the first `prefix` is predicted once; the last window is
 * moved back to end with the text and counts only bytes not yet counted. A classifier: every record of `text`, which holds whole ones. */
int skep_eval_text(struct skep_model *model, const uint8_t *text, size_t size,
                   struct skep_eval *ret_eval, struct skep_error *err);

/* Draws `length` bytes after `prompt` from an lm, by temperature and top-p from a seed; calls `emit` for each byte until it returns
 * false. */
int skep_generate(struct skep_model *model, const uint8_t *prompt, size_t prompt_size,
                  size_t length, double temperature, double top_p, uint64_t seed,
                  bool (*emit)(void *user, uint8_t byte), void *user, struct skep_error *err);

#endif
