/*
 * The `lm`: a byte-level causal Transformer whose feed-forward blocks are DMoE layers (arXiv 2002.04013), forward and backward
 * on CPU in float32 over CBLAS (compiled a second time in float64 for the gradient tests; skep_real is the number type).
 *
 * One layer, for x [B*T, d]:
 *   x <- x + out(attention(norm(x)))                     causal, `heads` heads
 *   x <- x + sum over chosen experts e of w_e * FFN_e(x)    FFN_e(x) = down(gelu(up(norm_e(x))))
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
 * `token`: gate.row . norm(x_token). The balancing biases are added for the choice only. The best rows_per_token rows among those
 * that have any present expert, then the best experts_per_token experts among the present ones below those rows (ties: lower
 * index); w = softmax of g over the chosen. A layer without any present expert passes x through. So missing experts are dropped
 * and the softmax is taken over those that answer.
 *
 * Loss: mean cross-entropy in nats over the tokens at places prefix .. T-1 of each sequence (predicting the byte at that place from
 * those before it), plus z_loss * mean(logsumexp(scores)^2) of both gates: the means over tokens (over sequences for rows
 * chosen by document) of the rows' and the columns' are added, and averaged over layers. norm(x_token) of the gate is the layer's
 * own norm, applied once more after the attention.
 *
 * What the gate learns from: w is a softmax over the chosen, so a score that all chosen share cancels. With one row per token the
 * row gate has no gradient but the z-loss's, with one expert per token neither has the column gate; then only the balancing
 * biases move the choice.
 */
#ifndef SKEP_MODEL_MODEL_H
#define SKEP_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/tensor/real.h"
#include "common/wire/model-config.h"

/* A model of which some experts may be missing; opaque. Holds parameters, gradients and the activations of one batch. */
struct skep_model;

/* Room for batches of up to `batch` sequences. Never NULL for a checked config; SKEP_ERR_MEMORY when it does not fit. */
int skep_model_new(const struct skep_model_config *config, uint32_t batch,
                   struct skep_model **ret_lm, struct skep_error *err);
void skep_model_free(struct skep_model *lm);
const struct skep_model_config *skep_model_config(const struct skep_model *lm);

/* Copies a shard's flat parameters (layout order) in and marks an expert present. */
void skep_model_set(struct skep_model *lm, const struct skep_shard *shard, const float *parameters);
/* Marks an expert missing and frees its memory. */
void skep_model_drop(struct skep_model *lm, const struct skep_shard *shard);
bool skep_model_has(const struct skep_model *lm, const struct skep_shard *shard);
/* Borrowed flat arrays of the shard (NULL if it is missing), changed in place by training. */
skep_real *skep_model_parameters(struct skep_model *lm, const struct skep_shard *shard);
skep_real *skep_model_gradients(struct skep_model *lm, const struct skep_shard *shard);

struct skep_model_loss {
    double sum_nats; /* summed cross-entropy */
    uint64_t tokens; /* over so many predicted tokens */
    double z;        /* the mean squared log-sum-exp, unweighted */
};

/* tokens [batch, T] bytes, batch <= the limit given at creation. Targets are the same bytes, shifted. */
int skep_model_forward(struct skep_model *lm, const uint8_t *tokens, uint32_t batch,
                       struct skep_model_loss *ret_loss, struct skep_error *err);
/* Gradients of the mean loss of the last forward (plus z_loss), written over (not added to) all present shards' gradients.
 * SKEP_ERR_NUMERIC if one is not finite. */
int skep_model_backward(struct skep_model *lm, double z_loss, struct skep_error *err);

/* How many tokens of the last forward chose each row / column of layer l (arrays of rows / columns); a token counts once for each
 * row and column in which it chose an expert. */
void skep_model_loads(const struct skep_model *lm, uint32_t layer, uint64_t *ret_rows,
                      uint64_t *ret_columns);

/* Logits [V] of the byte that follows `tokens` (1 <= count <= T; choice of rows from the first min(count, prefix) tokens). Training
 * never asks place T - 1 for a prediction, so count = T is allowed but untrained. Ends the last forward: no backward may follow. */
int skep_model_next(struct skep_model *lm, const uint8_t *tokens, uint32_t count, float *ret_logits,
                    struct skep_error *err);

/* Row scores (with balance) of each layer for a sequence's prefix, from the trunk alone: [layers, rows]. What a donor uses to
 * decide which rows to fetch before it has any expert. Exact for route `document`; for `token` an estimate: the mean over the prefix
 * of the gate's scores of the embeddings as they enter the model. */
void skep_model_score_rows(const struct skep_model *lm, const uint8_t *tokens, float *ret_scores);

#endif
