/*
 * What a model holds, shared by the files that compute its parts (attention.c, gate.c, expert.c, head.c) and by their tests.
 * Private to common/model.
 *
 * One forward pass runs over `batch` sequences of `length` input bytes; N = batch * length is the number of tokens, counted sequence
 * after sequence. The residual stream `x` is changed in place from layer to layer; what the way back needs is kept per layer.
 */
#ifndef SKEP_MODEL_STATE_H
#define SKEP_MODEL_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/model/model.h"
#include "common/tensor/ops.h"

#define SKEP_NO_EXPERT UINT32_MAX

/* The trunk's tensors of one layer inside a flat array (of values or of gradients). */
struct skep_model_layer {
    struct skep_affine norm; /* [d], [d] */
    skep_real *qkv;          /* [3d, d] */
    skep_real *out;          /* [d, d] */
    skep_real *gate_row;     /* [R, d] */
    skep_real *gate_column;  /* [C, d] */
    skep_real *balance_row;  /* [R] */
    skep_real *balance_column;
};

struct skep_model_trunk {
    skep_real *values; /* the flat array, layout order */
    skep_real *token;  /* [V, d] */
    skep_real *position;
    struct skep_model_layer *layers;
    struct skep_affine final;
};

/* values is NULL while the expert is missing. */
struct skep_model_expert {
    skep_real *values;
    skep_real *gradients;
    double gradient_squares; /* sum over the gradients, from the last backward */
    bool gradient_zero;      /* the gradients are all zero, so need not be cleared */
};

/* The tensors of one expert inside its flat array. */
struct skep_model_ffn {
    struct skep_affine norm;
    skep_real *up; /* [h, d] */
    skep_real *up_bias;
    skep_real *down; /* [d, h] */
    skep_real *down_bias;
};

/* What layer l keeps of a forward pass. k = experts_per_token, M <= N * k the number of (token, expert) pairs. */
struct skep_model_kept {
    skep_real *in_hat; /* [N, d] normalised input of the attention, */
    skep_real *in_scale;
    skep_real *in_norm;     /* [N, d] and scaled */
    skep_real *qkv;         /* [N, 3d] */
    skep_real *probability; /* [batch, heads, length, length] */
    skep_real *attended;    /* [N, d] */
    skep_real *mid_hat;     /* [N, d] normalised input of gate and experts, */
    skep_real *mid_scale;
    skep_real *mid_norm;      /* [N, d] and scaled for the gate */
    skep_real *row_scores;    /* [batch, R] by document, [N, R] by token */
    skep_real *column_scores; /* [N, C] */
    uint32_t *chosen;         /* [N, k] expert row * C + column, or SKEP_NO_EXPERT */
    skep_real *weight;        /* [N, k] */
    size_t *first;            /* [R * C + 1]: pairs of expert e are first[e] .. first[e + 1] - 1 */
    uint32_t *pair_token;     /* [M] token of the pair, */
    uint32_t *pair_place;     /* [M] its place in chosen and weight, */
    skep_real *pair_weight;   /* [M] and its weight */
    skep_real *expert_in;     /* [M, d] */
    skep_real *slope;         /* [M, h] gelu' */
    skep_real *active;        /* [M, h] gelu */
    skep_real *expert_out;    /* [M, d] */
};

struct skep_model {
    struct skep_model_config config;
    uint32_t batch_limit;
    struct skep_model_trunk trunk;
    struct skep_model_trunk trunk_gradient;
    size_t trunk_parameters;
    double trunk_gradient_squares;
    size_t expert_parameters;
    struct skep_model_expert *experts; /* [layers, R, C] */

    /* the last forward pass */
    uint32_t batch;
    uint32_t length;       /* input tokens of each sequence */
    uint32_t prefix;       /* of which so many chose the rows */
    uint32_t first_output; /* logits exist for places first_output .. length - 1 */
    bool complete;         /* it had targets: a backward pass may follow */
    uint8_t *inputs;       /* [N] */
    uint8_t *targets;      /* [batch, length - first_output] */
    double *nats;          /* [batch, length - first_output] cross-entropy */

    struct skep_model_kept *kept; /* [layers] */
    skep_real *x;                 /* [N, d] */
    skep_real *prefix_mean;       /* [batch, d] */
    skep_real *final_hat;         /* [batch * outputs, d] */
    skep_real *final_scale;
    skep_real *final_norm;
    skep_real *logits;    /* [batch * outputs, V]; after backward their gradients */
    skep_real *logsumexp; /* [batch * outputs] */

    /* scratch of the way back */
    skep_real *dx;       /* [N, d] */
    skep_real *dprefix;  /* [batch, d] */
    skep_real *dhat;     /* [N, d] */
    skep_real *dwide;    /* [N, 3d] */
    skep_real *dnarrow;  /* [N, d] */
    skep_real *dscores;  /* [a block of rows, length] */
    skep_real *drow;     /* [N, R] */
    skep_real *dcolumn;  /* [N, C] */
    skep_real *dweight;  /* [N, k] */
    skep_real *dpair;    /* [M, d] */
    skep_real *dpair_in; /* [M, d] */
    skep_real *dactive;  /* [M, h] */
    skep_real *dpair_weight;

    /* scratch of the choice */
    uint8_t *row_present;     /* [layers, R] the row has an expert */
    skep_real *choice_scores; /* [max(R, k)] */
    uint32_t *choice_rows;    /* [R] */
    void *memory;             /* all activations and scratch above */
};

/* Query rows of one attention block: of a causal matrix only the columns up to the block's end are computed. */
#define SKEP_ATTENTION_BLOCK 64

static inline size_t skep_model_tokens(const struct skep_model *model)
{
    return (size_t)model->batch * model->length;
}

static inline size_t skep_model_outputs(const struct skep_model *model)
{
    return (size_t)model->batch * (model->length - model->first_output);
}

static inline size_t skep_model_grid(const struct skep_model *model)
{
    return (size_t)model->config.rows * model->config.columns;
}

static inline struct skep_model_expert *skep_model_expert_at(const struct skep_model *model,
                                                             uint32_t layer, size_t index)
{
    return &model->experts[layer * skep_model_grid(model) + index];
}

/* Runs the model over `batch` sequences of `length` input bytes, `stride` bytes from one to the next, up to the logits of places
 * first_output .. length - 1. */
struct skep_model_pass {
    const uint8_t *tokens;
    size_t stride;
    uint32_t batch;
    uint32_t length;
    uint32_t first_output;
};
void skep_model_run(struct skep_model *model, const struct skep_model_pass *pass);

/* Sum of the squares of all present shards' gradients after a backward pass. */
double skep_model_gradient_squares(const struct skep_model *model);

#endif
