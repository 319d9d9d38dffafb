/*
 * The model: what a manifest describes, forward and backward, on any table of operations (common/tensor/ops.h; compiled a second time
 * in float64 for the gradient tests, skep_real is the number type). Two kinds share all but their ends:
 *
 *   lm           a byte-level causal Transformer whose feed-forward blocks are DMoE layers (arXiv 2002.04013)
 *   classifier   a stack of DMoE layers over records of bytes (the same paper, section 4.2); it has no attention
 *
 * One layer, for x [B*T, d]:
 *   x <- x + out(attention(norm(x)))                         lm only: causal, `heads` heads
 *   x <- x + sum over chosen experts e of w_e * expert_e(x)  common/model/expert.h has both kinds
 * The ends of an lm: x = embed.token + embed.position; logits = embed.token . norm(x). Of a classifier, in which a record is what a
 * token is in an lm (T = 1): x = embed.weight . (bytes / 127.5 - 1) + embed.bias; logits = head.weight . norm(x) + head.bias.
 *
 * Head i = 0 .. heads-1 subtracts 2^(-8 i / heads) times the distance from its attention scores (ALiBi, arXiv 2108.12409, one step
 * steeper), so that some heads look at the last few bytes from the first step on. Without it a model spends its first million tokens
 * finding the byte before. Mean training loss on the King James Bible (2 layers, d = 128, learning rate 0.002), bits per byte:
 *   tokens so far          269,000  448,000  896,000
 *   no slopes                 3.37     3.32     3.25
 *   slopes from 2^(-8/heads)  2.98     2.74     2.45
 *   slopes from 1             2.82        -        -
 *
 * The gate. Scores are additive over the grid: g(r, c) = row score + column score. Columns: score_c = gate.column . norm(x_token).
 * Rows, route `document`: gate.row . (mean over the sequence's first `prefix` tokens of embed.token + embed.position); route
 * `token` (always for a classifier): gate.row . norm(x_token). The balancing biases are added for the choice only. The best
 * rows_per_token rows among those that have any present expert, then the best experts_per_token experts among the present ones below
 * those rows (ties: lower index); w = softmax of g over the chosen. A layer without any present expert passes x through. So missing
 * experts are dropped and the softmax is taken over those that answer.
 *
 * Loss: mean cross-entropy in nats, of an lm over the tokens at places prefix .. T-1 of each sequence (predicting the byte at that
 * place from those before it), of a classifier over the records; plus z_loss * mean(logsumexp(scores)^2) of both gates: the means
 * over tokens (over sequences for rows chosen by document) of the rows' and the columns' are added, and averaged over layers.
 * norm(x_token) of the gate is the layer's own norm, applied once more after the attention.
 *
 * What the gate learns from: w is a softmax over the chosen, so a score that all chosen share cancels. With one row per token the
 * row gate has no gradient but the z-loss's, with one expert per token neither has the column gate; then only the balancing
 * biases move the choice.
 *
 * Memory. `recompute` keeps the input of each layer and runs it again on the way back, all but the last: the same bits for a third more
 * work at most. Measured with 2 layers of d = 256 and 8 sequences of 256 (tests/bench/lm-step): 0.80 of the tokens a second, a job
 * of 251 MB instead of 320 MB. It pays with depth: the activations of 8 layers of d = 512 and 8 sequences of 512 are 464 MB, not
 * 2424 MB.
 *
 * Stopping: the flag of skep_ops_set_stop() is looked at after each layer; a pass that was stopped ends with SKEP_ERR_CANCELLED and has
 * changed no parameter. A back end that broke ends it with its error.
 */
#ifndef SKEP_MODEL_MODEL_H
#define SKEP_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/tensor/ops.h"
#include "common/tensor/real.h"
#include "common/wire/model-config.h"

/* A model of which some experts may be missing; opaque. Holds parameters, gradients and the activations of one batch. */
struct skep_model;

/* A run of rows that chose the same expert: rows first .. first + count - 1 of the gathered matrix. */
struct skep_expert_group {
    uint32_t expert; /* row * columns + column */
    size_t first;
    size_t count;
};

/*
 * Experts computed elsewhere (the paper's remote mode). Called once a layer and pass with all groups of that layer; blocks until the
 * answers are there or given up. Host memory. `answered` has one entry a group, true on entry; a group that did not answer is set
 * to false. Forward: its rows are dropped and the softmax is taken over those that answered. Backward: its gradient of x is 0. An
 * error ends the pass, as does an answer that is not finite. The groups of backward are those that answered forward, with the same x.
 */
struct skep_expert_calls {
    void *user;
    /* x, y, dy, dx [M, d] */
    int (*forward)(void *user, uint32_t layer, const struct skep_expert_group *groups,
                   size_t group_count, const skep_real *x, skep_real *y, bool *answered,
                   struct skep_error *err);
    int (*backward)(void *user, uint32_t layer, const struct skep_expert_group *groups,
                    size_t group_count, const skep_real *x, const skep_real *dy, skep_real *dx,
                    bool *answered, struct skep_error *err);
};

struct skep_model_options {
    uint32_t batch;    /* sequences (records) at most in one pass */
    bool recompute;    /* keep only each layer's input, run it again on the way back */
    bool forward_only; /* no gradients and no scratch of the way back: evaluation, generation */
    const struct skep_ops *ops; /* NULL: skep_ops_cpu() */
    /* NULL: experts are those set with skep_model_set(); else all are present and are called. Borrowed while the model lives. */
    const struct skep_expert_calls *calls;
};

/* SKEP_ERR_MEMORY when it does not fit, SKEP_ERR_ARGUMENT for options or a config that make no sense. */
int skep_model_new(const struct skep_model_config *config, const struct skep_model_options *options,
                   struct skep_model **ret_model, struct skep_error *err);
void skep_model_free(struct skep_model *model);
const struct skep_model_config *skep_model_config(const struct skep_model *model);
const struct skep_ops *skep_model_ops(const struct skep_model *model);

/* Bytes that skep_model_new() and skep_model_set() of `experts` experts will ask for, and the moments of the trunk and those. */
struct skep_model_memory {
    uint64_t parameters;
    uint64_t gradients;
    uint64_t activations; /* and scratch, and tables */
    uint64_t moments;
};
void skep_model_memory_of(const struct skep_model_config *config,
                          const struct skep_model_options *options, size_t experts,
                          struct skep_model_memory *ret_memory);

/* Copies a shard's flat parameters (layout order) in and marks an expert present. SKEP_ERR_MEMORY, or SKEP_ERR_ARGUMENT for a shard that
 * the model does not have. */
int skep_model_set(struct skep_model *model, const struct skep_shard *shard,
                   const float *parameters);
/* Marks an expert missing and frees its memory. */
void skep_model_drop(struct skep_model *model, const struct skep_shard *shard);
bool skep_model_has(const struct skep_model *model, const struct skep_shard *shard);
/* Copies a present shard's flat parameters, or the gradients of the last backward pass, out. */
void skep_model_get(const struct skep_model *model, const struct skep_shard *shard,
                    float *ret_parameters);
void skep_model_get_gradients(const struct skep_model *model, const struct skep_shard *shard,
                              float *ret_gradients);
/* Puts gradients in the place of the last backward pass's, also where their norm is asked for: to go on with a stopped update (train.h), or
 * to step by gradients of several passes. */
void skep_model_set_gradients(struct skep_model *model, const struct skep_shard *shard,
                              const float *gradients);

struct skep_model_loss {
    double sum_nats; /* summed cross-entropy */
    uint64_t tokens; /* over so many predicted tokens */
    uint64_t
        correct; /* classifier: records whose class got the largest logit (the first of equals) */
    double z;    /* the mean squared log-sum-exp, unweighted */
};

/* records [batch, skep_model_config_window(config)] bytes, batch <= the limit given at creation. An lm's targets are the same bytes,
 * shifted. */
int skep_model_forward(struct skep_model *model, const uint8_t *records, uint32_t batch,
                       struct skep_model_loss *ret_loss, struct skep_error *err);
/* Gradients of the mean loss of the last forward (plus z_loss), written over (not added to) all present shards' gradients.
 * SKEP_ERR_NUMERIC if one is not finite. */
int skep_model_backward(struct skep_model *model, double z_loss, struct skep_error *err);

/* How many tokens of the last forward chose each row / column of layer l (arrays of rows / columns); a token counts once for each
 * row and column in which it chose an expert. */
void skep_model_loads(const struct skep_model *model, uint32_t layer, uint64_t *ret_rows,
                      uint64_t *ret_columns);

/* Logits of the byte that follows `tokens`. lm: [V], 1 <= count <= T; choice of rows from the first min(count, prefix) tokens.
 * Training never asks place T - 1 for a prediction, so count = T is allowed but untrained. Classifier: [classes], count = inputs.
 * Ends the last forward: no backward may follow. */
int skep_model_next(struct skep_model *model, const uint8_t *tokens, uint32_t count,
                    float *ret_logits, struct skep_error *err);

/* Row scores (with balance) of each layer from the trunk alone, mean over `count` windows [count, window]: [layers, rows]. What a donor
 * uses to decide which rows to fetch before it has any expert. Exact for route `document` and one window; for `token` an estimate: the mean
 * over the prefix (over the records) of the gate's scores of the embeddings as they enter the model. Ends the last forward. */
int skep_model_score_rows(struct skep_model *model, const uint8_t *windows, uint32_t count,
                          float *ret_scores, struct skep_error *err);

#endif
