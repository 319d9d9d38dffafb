/*
 * What a model holds, shared by the files that compute its parts (ends.c, attention.c, gate.c, experts.c) and by their tests.
 * Private to common/model.
 *
 * One forward pass runs over `batch` sequences of `length` places; N = batch * length is the number of tokens (of a classifier:
 * records, length is 1), counted sequence after sequence. The residual stream `x` is changed in place from layer to layer; what the
 * way back needs is kept per layer.
 *
 * Memory is of two sorts: that of the table of operations, touched through `ops` only, and the host's, where the gate chooses and pairs
 * are grouped. Fields are the table's unless they are said to be the host's.
 */
#ifndef SKEP_MODEL_STATE_H
#define SKEP_MODEL_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/model/expert.h"
#include "common/model/model.h"
#include "common/tensor/ops.h"

#define SKEP_NO_EXPERT UINT32_MAX
#define SKEP_NO_LAYER UINT32_MAX

/* The trunk's tensors of one layer inside a flat array (of values or of gradients). */
struct skep_model_layer {
    struct skep_affine norm; /* [d], [d] */
    skep_real *qkv;          /* [3d, d], lm only */
    skep_real *out;          /* [d, d], lm only */
    skep_real *gate_row;     /* [R, d] */
    skep_real *gate_column;  /* [C, d] */
    skep_real *balance_row;  /* [R] */
    skep_real *balance_column;
};

struct skep_model_trunk {
    skep_real *values;   /* the flat array, layout order */
    skep_real *token;    /* lm: [V, d], */
    skep_real *position; /* [T, d] */
    skep_real *embed;    /* classifier: [d, inputs], */
    skep_real *embed_bias;
    struct skep_model_layer *layers; /* host */
    struct skep_affine final;
    skep_real *head;      /* [V or classes, d]; an lm's is `token` */
    skep_real *head_bias; /* [classes]; NULL for an lm */
};

/* values is NULL while the expert is missing. */
struct skep_model_expert {
    skep_real *values;
    skep_real *gradients;    /* NULL in a model that only runs forward */
    double gradient_squares; /* sum over the gradients, as they are now */
    bool gradient_zero;      /* the gradients are all zero, so need not be cleared */
};

/* What a layer computes for its way back. Layers share one of these when it is computed again or not needed. M <= N * k is the number
 * of (token, expert) pairs. */
struct skep_model_inner {
    skep_real *in_hat; /* [N, d] normalised input of the attention, */
    skep_real *in_scale;
    skep_real *in_norm; /* [N, d] and scaled */
    skep_real *qkv;     /* [N, 3d] */
    skep_real *
        probability; /* [batch, heads] of attention.c's blocks; one block if it is not needed again */
    skep_real *attended; /* [N, d] */
    skep_real *mid_hat;  /* [N, d] normalised input of the gate, */
    skep_real *mid_scale;
    skep_real *mid_norm; /* [N, d] and scaled */
    skep_real
        *work; /* of the experts, one after the other; of one expert if it is not needed again */
};

/* What layer l keeps of a forward pass. k = experts_per_token. */
struct skep_model_kept {
    skep_real *row_scores;    /* host: [batch, R] by document, [N, R] by token */
    skep_real *column_scores; /* host: [N, C] */
    uint32_t *chosen;         /* host: [N, k] expert row * C + column, or SKEP_NO_EXPERT */
    skep_real *weight;        /* host: [N, k] */
    size_t *first; /* host: [R * C + 1]: pairs of expert e are first[e] .. first[e + 1] - 1 */
    uint32_t *pair_place;   /* host: [M] the pair's place in chosen and weight */
    uint32_t *pair_token;   /* [M] token of the pair */
    skep_real *pair_weight; /* [M] and its weight */
    skep_real *x;           /* [N, d] the layer's input, where it is recomputed */
    skep_real *expert_out;  /* [M, d]; shared like `inner` unless experts are called */
    skep_real *called_x;    /* host: [M, d] what the experts were called with */
    struct skep_model_inner inner;
};

struct skep_model {
    struct skep_model_config config;
    struct skep_model_options options;
    const struct skep_ops *ops;
    struct skep_expert_shape shape;
    struct skep_model_trunk trunk;
    struct skep_model_trunk trunk_gradient;
    size_t trunk_parameters;
    double trunk_gradient_squares;
    size_t expert_parameters;
    struct skep_model_expert *experts; /* host: [layers, R, C] */

    /* the last forward pass */
    uint32_t batch;
    uint32_t length;       /* input tokens of each sequence */
    uint32_t prefix;       /* of which so many chose the rows */
    uint32_t first_output; /* logits exist for places first_output .. length - 1 */
    bool complete;         /* it had targets: a backward pass may follow */
    uint32_t inner_layer;  /* whose `inner` the shared one is, or SKEP_NO_LAYER */

    struct skep_model_kept *kept; /* host: [layers] */
    skep_real *inputs;            /* classifier: [N, inputs] */
    uint32_t *token_index;        /* lm: [N] */
    uint32_t *position_index;     /* lm: [N] */
    uint32_t *output_index;       /* [outputs] tokens that have logits */
    uint32_t *targets;            /* [outputs] */
    skep_real *x;                 /* [N, d] */
    skep_real *prefix_mean;       /* [batch, d] */
    skep_real *row_scores;        /* [batch or N, R] */
    skep_real *column_scores;     /* [N, C] */
    skep_real *final_hat;         /* [outputs, d] */
    skep_real *final_scale;
    skep_real *final_norm;
    skep_real *logits;    /* [outputs, V or classes]; after backward their gradients */
    skep_real *logsumexp; /* [outputs] */
    skep_real *nats_there;
    skep_real *nats; /* host: [outputs] cross-entropy */

    /* scratch of the way back */
    skep_real *dx;      /* [N, d] */
    skep_real *dprefix; /* [batch, d] */
    skep_real *dnarrow; /* [N, d] */
    skep_real *dwide;   /* [N, 3d] */
    skep_real *dscores; /* [a block of rows, length] */
    skep_real *dpair;   /* [M, d] */
    skep_real *dpair_weight;
    skep_real *dexpert; /* scratch of one expert */

    /* scratch of the host */
    uint32_t *index;                  /* [M] */
    skep_real *reals;                 /* [N, inputs] of a classifier, then [outputs, classes] */
    skep_real *pair_reals;            /* [M] */
    skep_real *drow;                  /* [batch or N, R] */
    skep_real *dcolumn;               /* [N, C] */
    skep_real *dweight;               /* [N, k] */
    skep_real *called_y;              /* [M, d], if experts are called */
    skep_real *called_dx;             /* [M, d], if experts are called */
    struct skep_expert_group *groups; /* [R * C] */
    bool *answered;                   /* [R * C] */
    skep_real *balance_row;           /* [R] of the layer at work */
    skep_real *balance_column;        /* [C] */
    uint8_t *row_present;             /* [R] the row has an expert */
    skep_real *choice_scores;         /* [max(R, k)] */
    uint32_t *choice_rows;            /* [R] */

    void *memory;      /* the table's: all activations and scratch above, */
    void *host_memory; /* and the host's */
};

/* Query rows of one attention block: of a causal matrix only the columns up to the block's end are computed. */
#define SKEP_ATTENTION_BLOCK 64

static inline bool skep_model_is_lm(const struct skep_model *model)
{
    return model->config.kind == SKEP_MODEL_LM;
}

static inline size_t skep_model_tokens(const struct skep_model *model)
{
    return (size_t)model->batch * model->length;
}

static inline size_t skep_model_outputs(const struct skep_model *model)
{
    return (size_t)model->batch * (model->length - model->first_output);
}

/* Width of the logits. */
static inline size_t skep_model_answers(const struct skep_model_config *config)
{
    return config->kind == SKEP_MODEL_LM ? config->vocabulary : config->classes;
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

static inline bool skep_model_present(const struct skep_model *model, uint32_t layer, size_t index)
{
    return model->options.calls != NULL ||
           skep_model_expert_at(model, layer, index)->values != NULL;
}

/* Layers share one `inner`: it is computed again on the way back, or there is no way back. */
static inline bool skep_model_shares(const struct skep_model_options *options)
{
    return options->recompute || options->forward_only;
}

/* Runs the model over `batch` sequences of `length` bytes (records of `inputs` bytes), `stride` bytes from one to the next, up to the
 * logits of places first_output .. length - 1. */
struct skep_model_pass {
    const uint8_t *records;
    size_t stride;
    uint32_t batch;
    uint32_t length;
    uint32_t first_output;
};
int skep_model_run(struct skep_model *model, const struct skep_model_pass *pass, double *ret_z,
                   struct skep_error *err);

/* SKEP_ERR_FORMAT if an lm has no embedding for one of the bytes: only a vocabulary below 256 leaves any without. */
int skep_model_check_bytes(const struct skep_model *model, const uint8_t *tokens, size_t count,
                           struct skep_error *err);

/* SKEP_ERR_CANCELLED if the pass (named for the sentence) was told to stop. */
int skep_model_stopped(const char *pass, struct skep_error *err);

/* Borrowed flat arrays of the shard (NULL if it is missing), in the table's memory. */
skep_real *skep_model_parameters(const struct skep_model *model, const struct skep_shard *shard);
skep_real *skep_model_gradients(const struct skep_model *model, const struct skep_shard *shard);

/* Host floats to and from the table's reals. */
void skep_model_copy_in(const struct skep_ops *ops, const float *from, size_t count, skep_real *to);
void skep_model_copy_out(const struct skep_ops *ops, const skep_real *from, size_t count,
                         float *to);

/* `size` bytes of the table's memory become 0. */
void skep_model_clear(const struct skep_ops *ops, size_t size, void *memory);
/* Frees what the expert has; it is missing then. */
void skep_model_free_expert(const struct skep_model *model, struct skep_model_expert *expert);

/* Sum of the squares of all present shards' gradients after a backward pass. */
double skep_model_gradient_squares(const struct skep_model *model);

#endif
