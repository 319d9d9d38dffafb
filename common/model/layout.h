/*
 * The layout of a model's shards: which tensors each has, their shapes, and the weights of version 0.
 *
 * trunk tensors of an lm, in order:  embed.token [V,d]  embed.position [T,d]
 *   per layer l:  layer.<l>.norm.gain [d]  .norm.bias [d]  .attention.qkv [3d,d]  .attention.out [d,d]
 *                 .gate.row [R,d]  .gate.column [C,d]  .balance.row [R]  .balance.column [C]
 *   final.norm.gain [d]  final.norm.bias [d]      (the head is embed.token, tied)
 * of a classifier:  embed.weight [d,inputs]  embed.bias [d]  layers without the attention's two
 *   final.norm.gain [d]  final.norm.bias [d]  head.weight [classes,d]  head.bias [classes]
 * expert tensors:
 *   ffn        norm.gain [d]  norm.bias [d]  up.weight [h,d]  up.bias [h]  down.weight [d,h]  down.bias [d]
 *   paper_ffn  first.weight [h,d]  first.bias [h]  norm1.gain [h]  norm1.bias [h]  second.weight [h,h]  second.bias [h]
 *              norm2.gain [h]  norm2.bias [h]  third.weight [d,h]  third.bias [d]
 *
 * Weights are [outputs, inputs], as in PyTorch. Version 0 is drawn with integers only from (seed, shard, tensor), as multiples of
 * 2^-32 that float32 holds exactly or rounds in one way, so every machine starts from the same bits: uniform in [-a, a] with
 * variance 0.02^2 for an lm's embeddings and 1/inputs for matrices (scaled by 1/sqrt(2 * layers) for those that write to the residual
 * stream: attention.out, down.weight, third.weight), 1 for gains, 0 for biases.
 */
#ifndef SKEP_MODEL_LAYOUT_H
#define SKEP_MODEL_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/limits.h"
#include "common/wire/model-config.h"

struct skep_tensor_spec {
    char name[SKEP_LIMIT_TENSOR_NAME];
    uint32_t dims[SKEP_LIMIT_TENSOR_DIMS];
    uint32_t dim_count;
    size_t count;  /* product of dims */
    size_t offset; /* first float in the shard's flat parameter array */
    bool decayed;  /* weight decay applies (matrices) */
    bool balance;  /* a balancing bias: moved by u * sign, not by AdamW */
};

/* All tensors of one shard, one after the other in a flat array of `parameters` floats. Free with skep_layout_done(). */
struct skep_layout {
    struct skep_shard shard;
    size_t tensor_count;
    struct skep_tensor_spec *tensors;
    size_t parameters;
};

void skep_layout_of(const struct skep_model_config *config, const struct skep_shard *shard,
                    struct skep_layout *ret_layout);
void skep_layout_done(struct skep_layout *layout);

/* Version 0 of the shard into `parameters` (layout->parameters floats). */
void skep_layout_seed(const struct skep_layout *layout, const struct skep_model_config *config,
                      const struct skep_hash *seed, float *parameters);

/* The shard's state as a canonical safetensors file, and back (names, order and shapes must be the layout's; values finite). */
void skep_state_write(const struct skep_layout *layout, const float *parameters,
                      struct skep_buffer *ret_file);
int skep_state_read(const struct skep_layout *layout, const void *file, size_t size,
                    float *parameters, struct skep_error *err);

/* Multiply-adds times two of one token through this shard, forward and backward (6 x parameters that a token touches; for an
 * expert: as if every token used it). Attention over the context included in an lm's trunk's figure. Of a classifier: of one record. */
uint64_t skep_layout_flops_per_token(const struct skep_layout *layout,
                                     const struct skep_model_config *config);

#endif
