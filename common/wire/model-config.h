/*
 * What a manifest says about the model: enough to lay out every shard. Plain values, checked by skep_model_config_check().
 */
#ifndef SKEP_WIRE_MODEL_CONFIG_H
#define SKEP_WIRE_MODEL_CONFIG_H

#include <stdint.h>

#include "common/base/error.h"
#include "common/wire/json.h"

enum skep_route {
    SKEP_ROUTE_DOCUMENT, /* the row is chosen per sequence from its prefix, the column per token */
    SKEP_ROUTE_TOKEN,    /* row and column are both chosen per token */
};

/* kind `lm`: a byte-level causal Transformer whose feed-forward blocks are DMoE layers of kind `ffn`. */
struct skep_model_config {
    uint32_t vocabulary; /* 256: bytes */
    uint32_t dim;        /* d, width of the residual stream */
    uint32_t hidden;     /* width inside an expert, 4d by default */
    uint32_t heads;      /* dim is a multiple of it */
    uint32_t layers;
    uint32_t context; /* tokens in a sequence */
    uint32_t prefix;  /* first tokens of a sequence: they choose its rows and carry no loss */
    uint32_t rows;    /* the grid of each layer */
    uint32_t columns;
    uint32_t experts_per_token; /* top-k */
    uint32_t rows_per_token;    /* rows a sequence (document) or token may use at once; 1 .. rows */
    enum skep_route route;
};

/* SKEP_ERR_FORMAT with a sentence naming the field, its value and what is allowed. */
int skep_model_config_check(const struct skep_model_config *config, struct skep_error *err);

/* As the manifest writes it; reading checks. */
int skep_model_config_from_json(const struct skep_json *object,
                                struct skep_model_config *ret_config, struct skep_error *err);
struct skep_json *skep_model_config_to_json(const struct skep_model_config *config);

/* An upper bound of the largest shard's safetensors file. */
uint64_t skep_model_config_state_bytes(const struct skep_model_config *config);

#endif
