/*
 * What a manifest says about the model: enough to lay out every shard. Plain values, checked by skep_model_config_check().
 */
#ifndef SKEP_WIRE_MODEL_CONFIG_H
#define SKEP_WIRE_MODEL_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/wire/json.h"

enum skep_model_kind {
    SKEP_MODEL_LM, /* a byte-level causal Transformer whose feed-forward blocks are DMoE layers */
    SKEP_MODEL_CLASSIFIER, /* a stack of DMoE layers over records of bytes (arXiv 2002.04013, section 4.2) */
};

/* What an expert computes; common/model/expert.h has the formulas. */
enum skep_expert_kind {
    SKEP_EXPERT_FFN,       /* norm, dim -> hidden, GELU, hidden -> dim */
    SKEP_EXPERT_PAPER_FFN, /* dim -> hidden, norm, ReLU, hidden -> hidden, norm, ReLU, hidden -> dim */
};

enum skep_route {
    SKEP_ROUTE_DOCUMENT, /* the row is chosen per sequence from its prefix, the column per token */
    SKEP_ROUTE_TOKEN,    /* row and column are both chosen per token */
};

/*
 * A classifier reads records of `inputs` + 1 bytes: the inputs, each 0 .. 255, then the class, 0 .. classes - 1. In it a record is
 * what a token is in an lm: `context` is 1, `prefix` 0, `heads` 0, `vocabulary` 0, `route` is token and rows_per_token is `rows`;
 * the manifest does not write those. An lm has `inputs` and `classes` 0.
 */
struct skep_model_config {
    enum skep_model_kind kind;
    enum skep_expert_kind expert;
    uint32_t inputs;     /* classifier: bytes of one input */
    uint32_t classes;    /* classifier: 2 .. 256 */
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

/* As the manifest writes it. */
const char *skep_model_kind_name(enum skep_model_kind kind);
const char *skep_expert_kind_name(enum skep_expert_kind kind);

/* SKEP_ERR_FORMAT (SKEP_ERR_TOO_LARGE for a shard beyond its limit) with a sentence naming the field, its value and what is allowed. */
int skep_model_config_check(const struct skep_model_config *config, struct skep_error *err);

/* Sets the fields that a model of this kind does not write, from those it does. */
void skep_model_config_imply(struct skep_model_config *config);

/* As the manifest writes it, with the fields of its kind and no others; reading fills the implied ones and checks. */
int skep_model_config_from_json(const struct skep_json *object,
                                struct skep_model_config *ret_config, struct skep_error *err);
struct skep_json *skep_model_config_to_json(const struct skep_model_config *config);

/* The table (fields.h) of the fields that a model of this kind writes. Task files are read by the same tables. */
struct skep_field;
const struct skep_field *skep_model_config_fields(enum skep_model_kind kind, size_t *ret_count);

/* Bytes that one training example takes in the data set: `context` of an lm, inputs + 1 of a classifier. */
size_t skep_model_config_window(const struct skep_model_config *config);

/* Of the largest shard. */
uint64_t skep_model_config_shard_parameters(const struct skep_model_config *config);
/* An upper bound of the largest shard's safetensors file. */
uint64_t skep_model_config_state_bytes(const struct skep_model_config *config);

#endif
