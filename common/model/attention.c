#include "common/model/attention.h"

#include <math.h>

/* One head of one sequence: a slice of the qkv matrix, read with its stride. */
struct head {
    const struct skep_ops *ops;
    size_t length;
    size_t width;       /* values of one head */
    size_t wide;        /* stride of qkv: 3d */
    size_t narrow;      /* stride of attended: d */
    skep_real scale;    /* 1 / sqrt(width), Vaswani et al. 2017 */
    skep_real slope;    /* what a place loses for each place it is away */
    const skep_real *q; /* [length, width], stride wide */
    const skep_real *k;
    const skep_real *v;
    skep_real *probability; /* blocks of rows, each as wide as its last row sees; */
    bool kept;              /* or room for one block, when there is no way back */
};

/* Values of the blocks before the one that begins at row `start`. */
static size_t blocks_before(size_t start)
{
    return start * (start + SKEP_ATTENTION_BLOCK) / 2;
}

size_t skep_attention_probabilities(size_t length)
{
    size_t last = (length - 1) / SKEP_ATTENTION_BLOCK * SKEP_ATTENTION_BLOCK;
    return blocks_before(last) + (length - last) * length;
}

static struct head head_of(const struct skep_model *model, uint32_t layer, uint32_t sequence,
                           uint32_t index)
{
    const struct skep_model_config *config = &model->config;
    const struct skep_model_inner *inner = &model->kept[layer].inner;
    size_t d = config->dim;
    struct head head = {.ops = model->ops,
                        .length = model->length,
                        .width = d / config->heads,
                        .wide = 3 * d,
                        .narrow = d,
                        .kept = !model->options.forward_only};
    head.scale = (skep_real)(1 / sqrt((double)head.width));
    head.slope = (skep_real)exp2(-8.0 * index / config->heads);
    head.q = inner->qkv + (size_t)sequence * model->length * head.wide + index * head.width;
    head.k = head.q + d;
    head.v = head.k + d;
    head.probability = inner->probability;
    if (head.kept) {
        head.probability +=
            ((size_t)sequence * config->heads + index) * skep_attention_probabilities(head.length);
    }
    return head;
}

static size_t block_rows(const struct head *head, size_t start)
{
    size_t left = head->length - start;
    return left < SKEP_ATTENTION_BLOCK ? left : SKEP_ATTENTION_BLOCK;
}

/* `seen` columns are computed, and lie row after row. */
static struct skep_causal causal_of(const struct head *head, size_t start, size_t seen)
{
    return (struct skep_causal){start, seen, head->scale, head->slope};
}

static void head_forward(const struct head *head, skep_real *attended)
{
    for (size_t start = 0; start < head->length; start += SKEP_ATTENTION_BLOCK) {
        size_t rows = block_rows(head, start);
        size_t seen = start + rows;
        skep_real *p = head->probability + (head->kept ? blocks_before(start) : 0);
        head->ops->gemm((struct skep_gemm_size){rows, seen, head->width},
                        (struct skep_matrix){head->q + start * head->wide, head->wide, false},
                        (struct skep_matrix){head->k, head->wide, true}, 0, p, seen);
        head->ops->softmax_causal((struct skep_rows){rows, seen, NULL},
                                  causal_of(head, start, seen), p);
        head->ops->gemm((struct skep_gemm_size){rows, head->width, seen},
                        (struct skep_matrix){p, seen, false},
                        (struct skep_matrix){head->v, head->wide, false}, 0,
                        attended + start * head->narrow, head->narrow);
    }
}

/* dqkv points at the head's dq; dk and dv lie d and 2d behind it and are added to block by block. */
static void head_backward(const struct head *head, const skep_real *dattended, skep_real *dscores,
                          skep_real *dqkv)
{
    skep_real *dk = dqkv + head->narrow;
    skep_real *dv = dk + head->narrow;
    for (size_t start = 0; start < head->length; start += SKEP_ATTENTION_BLOCK) {
        size_t rows = block_rows(head, start);
        size_t seen = start + rows;
        const skep_real *p = head->probability + blocks_before(start);
        struct skep_matrix dout = {dattended + start * head->narrow, head->narrow, false};
        head->ops->gemm((struct skep_gemm_size){seen, head->width, rows},
                        (struct skep_matrix){p, seen, true}, dout, 1, dv, head->wide);
        head->ops->gemm((struct skep_gemm_size){rows, seen, head->width}, dout,
                        (struct skep_matrix){head->v, head->wide, true}, 0, dscores, seen);
        head->ops->softmax_causal_backward((struct skep_rows){rows, seen, NULL},
                                           causal_of(head, start, seen), p, dscores);
        head->ops->gemm((struct skep_gemm_size){rows, head->width, seen},
                        (struct skep_matrix){dscores, seen, false},
                        (struct skep_matrix){head->k, head->wide, false}, 0,
                        dqkv + start * head->wide, head->wide);
        head->ops->gemm((struct skep_gemm_size){seen, head->width, rows},
                        (struct skep_matrix){dscores, seen, true},
                        (struct skep_matrix){head->q + start * head->wide, head->wide, false}, 1,
                        dk, head->wide);
    }
}

void skep_attention_forward(struct skep_model *model, uint32_t layer)
{
    const struct skep_ops *ops = model->ops;
    const struct skep_model_layer *trunk = &model->trunk.layers[layer];
    struct skep_model_inner *inner = &model->kept[layer].inner;
    size_t d = model->config.dim;
    struct skep_rows rows = {skep_model_tokens(model), d, NULL};
    ops->normalise(rows, model->x, inner->in_hat, inner->in_scale);
    ops->affine(rows, inner->in_hat, trunk->norm, inner->in_norm);
    skep_linear_forward(ops, (struct skep_linear){rows.count, d, 3 * d}, inner->in_norm, trunk->qkv,
                        0, inner->qkv);
    for (uint32_t b = 0; b < model->batch && !skep_ops_stopped(); b++) {
        for (uint32_t i = 0; i < model->config.heads; i++) {
            struct head head = head_of(model, layer, b, i);
            head_forward(&head, inner->attended + (size_t)b * model->length * d + i * head.width);
        }
    }
    skep_linear_forward(ops, (struct skep_linear){rows.count, d, d}, inner->attended, trunk->out, 1,
                        model->x);
}

void skep_attention_backward(struct skep_model *model, uint32_t layer)
{
    const struct skep_ops *ops = model->ops;
    const struct skep_model_layer *trunk = &model->trunk.layers[layer];
    const struct skep_model_layer *gradient = &model->trunk_gradient.layers[layer];
    const struct skep_model_inner *inner = &model->kept[layer].inner;
    size_t d = model->config.dim;
    struct skep_rows rows = {skep_model_tokens(model), d, NULL};
    struct skep_linear out = {rows.count, d, d};
    skep_linear_weights(ops, out, model->dx, inner->attended, 0, gradient->out);
    skep_linear_inputs(ops, out, model->dx, trunk->out, 0, model->dnarrow);
    ops->fill(rows.count * 3 * d, 0, model->dwide);
    for (uint32_t b = 0; b < model->batch && !skep_ops_stopped(); b++) {
        size_t first = (size_t)b * model->length;
        for (uint32_t i = 0; i < model->config.heads; i++) {
            struct head head = head_of(model, layer, b, i);
            head_backward(&head, model->dnarrow + first * d + i * head.width, model->dscores,
                          model->dwide + first * 3 * d + i * head.width);
        }
    }
    struct skep_linear qkv = {rows.count, d, 3 * d};
    skep_linear_weights(ops, qkv, model->dwide, inner->in_norm, 0, gradient->qkv);
    skep_linear_inputs(ops, qkv, model->dwide, trunk->qkv, 0, model->dnarrow);
    ops->affine_backward(rows, model->dnarrow, inner->in_hat, trunk->norm, model->dnarrow,
                         gradient->norm);
    ops->normalise_backward(rows, model->dnarrow, inner->in_hat, inner->in_scale, model->dx);
}
