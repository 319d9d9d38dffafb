/* Both kinds of experts, forward and backward, on any table of operations. */
#include "common/model/expert.h"

#include <assert.h>

#define ALIGN ((size_t)16) /* values in a cache line */

static size_t rounded(size_t count)
{
    return (count + ALIGN - 1) / ALIGN * ALIGN;
}

struct skep_expert_shape skep_expert_shape_of(const struct skep_model_config *config)
{
    return (struct skep_expert_shape){config->expert, config->dim, config->hidden};
}

size_t skep_expert_parameters(struct skep_expert_shape shape)
{
    size_t d = shape.dim;
    size_t h = shape.hidden;
    if (shape.kind == SKEP_EXPERT_PAPER_FFN) {
        return h * d + h + 2 * h + h * h + h + 2 * h + d * h + d;
    }
    return 2 * d + h * d + h + d * h + d;
}

size_t skep_expert_work(struct skep_expert_shape shape, size_t rows)
{
    size_t d = shape.dim;
    size_t h = shape.hidden;
    if (shape.kind == SKEP_EXPERT_PAPER_FFN) {
        return rows * (d + 4 * h) + 2 * rounded(rows);
    }
    return rows * (2 * d + 2 * h) + rounded(rows);
}

size_t skep_expert_scratch(struct skep_expert_shape shape, size_t rows)
{
    size_t d = shape.dim;
    size_t h = shape.hidden;
    return rows * (shape.kind == SKEP_EXPERT_PAPER_FFN ? h + (h > d ? h : d) : h + d);
}

uint64_t skep_expert_flops(struct skep_expert_shape shape)
{
    uint64_t d = shape.dim;
    uint64_t h = shape.hidden;
    return shape.kind == SKEP_EXPERT_PAPER_FFN ? 2 * (2 * d * h + h * h) : 4 * d * h;
}

/* Gradients of vectors are only ever added to: makes `values` beta times what they are. */
static void begin(const struct skep_ops *ops, skep_real beta, size_t count, skep_real *values)
{
    if (beta == 0) {
        ops->fill(count, 0, values);
    } else if (beta != 1) {
        ops->scale(count, beta, values);
    }
}

/* y = x w^T + bias; nothing if y is NULL */
static void linear(const struct skep_ops *ops, struct skep_linear shape, const skep_real *x,
                   const skep_real *w, const skep_real *bias, skep_real *y)
{
    if (y != NULL) {
        ops->rows_set((struct skep_rows){shape.rows, shape.outputs, NULL}, bias, y);
        skep_linear_forward(ops, shape, x, w, 1, y);
    }
}

/* The tensors of an ffn inside its flat array, layout order; and what it keeps. */
struct ffn {
    struct skep_affine norm;
    skep_real *up; /* [h, d] */
    skep_real *up_bias;
    skep_real *down; /* [d, h] */
    skep_real *down_bias;
};

struct ffn_work {
    skep_real *hat;    /* [n, d] normalised rows, */
    skep_real *in;     /* [n, d] and scaled */
    skep_real *slope;  /* [n, h] gelu' */
    skep_real *active; /* [n, h] gelu */
    skep_real *scale;  /* [n] */
};

static struct ffn ffn_of(struct skep_expert_shape shape, const skep_real *flat)
{
    size_t d = shape.dim;
    size_t h = shape.hidden;
    skep_real *values = (skep_real *)flat; /* read only where the caller's array is */
    struct ffn ffn = {.norm = {values, values + d}, .up = values + 2 * d};
    ffn.up_bias = ffn.up + h * d;
    ffn.down = ffn.up_bias + h;
    ffn.down_bias = ffn.down + d * h;
    return ffn;
}

static struct ffn_work ffn_work_of(struct skep_expert_shape shape, size_t rows, skep_real *work)
{
    struct ffn_work parts = {.hat = work, .in = work + rows * shape.dim};
    parts.slope = parts.in + rows * shape.dim;
    parts.active = parts.slope + rows * shape.hidden;
    parts.scale = parts.active + rows * shape.hidden;
    return parts;
}

static void ffn_forward(const struct skep_ops *ops, struct skep_expert_shape shape,
                        const skep_real *parameters, struct skep_rows rows, const skep_real *x,
                        skep_real *work, skep_real *y)
{
    size_t d = shape.dim;
    size_t h = shape.hidden;
    struct ffn ffn = ffn_of(shape, parameters);
    struct ffn_work parts = ffn_work_of(shape, rows.count, work);
    ops->normalise(rows, x, parts.hat, parts.scale);
    ops->affine((struct skep_rows){rows.count, d, NULL}, parts.hat, ffn.norm, parts.in);
    skep_linear_forward(ops, (struct skep_linear){rows.count, d, h}, parts.in, ffn.up, 0,
                        parts.slope);
    ops->gelu((struct skep_rows){rows.count, h, NULL}, parts.slope, ffn.up_bias, parts.active);
    linear(ops, (struct skep_linear){rows.count, h, d}, parts.active, ffn.down, ffn.down_bias, y);
}

static void ffn_backward(const struct skep_ops *ops, struct skep_expert_shape shape,
                         const skep_real *parameters, struct skep_rows rows,
                         const struct skep_expert_backward *pass)
{
    size_t d = shape.dim;
    size_t h = shape.hidden;
    struct ffn ffn = ffn_of(shape, parameters);
    struct ffn gradient = ffn_of(shape, pass->dparameters);
    struct ffn_work parts = ffn_work_of(shape, rows.count, pass->work);
    struct skep_rows narrow = {rows.count, d, NULL};
    struct skep_rows wide = {rows.count, h, NULL};
    struct skep_linear up = {rows.count, d, h};
    struct skep_linear down = {rows.count, h, d};
    skep_real *dactive = pass->scratch;
    skep_real *din = pass->scratch + rows.count * h;
    begin(ops, pass->beta, 2 * d, gradient.norm.gain);
    begin(ops, pass->beta, h, gradient.up_bias);
    begin(ops, pass->beta, d, gradient.down_bias);
    ops->rows_sum(narrow, pass->dy, gradient.down_bias);
    skep_linear_weights(ops, down, pass->dy, parts.active, pass->beta, gradient.down);
    skep_linear_inputs(ops, down, pass->dy, ffn.down, 0, dactive);
    ops->gelu_backward(wide, parts.slope, dactive, gradient.up_bias);
    skep_linear_weights(ops, up, dactive, parts.in, pass->beta, gradient.up);
    skep_linear_inputs(ops, up, dactive, ffn.up, 0, din);
    ops->affine_backward(narrow, din, parts.hat, ffn.norm, din, gradient.norm);
    if (pass->dx != NULL) {
        ops->normalise_backward(rows, din, parts.hat, parts.scale, pass->dx);
    }
}

/* The tensors of a paper_ffn, and what it keeps. */
struct stage {
    skep_real *weight; /* [h, inputs] */
    skep_real *bias;
    struct skep_affine norm;
};

struct paper {
    struct stage stages[2];
    skep_real *third; /* [d, h] */
    skep_real *third_bias;
};

struct paper_work {
    skep_real *x;         /* [n, d] the rows, gathered */
    skep_real *hat[2];    /* [n, h] normalised, */
    skep_real *active[2]; /* [n, h] scaled and through the ReLU */
    skep_real *scale[2];  /* [n] */
};

static struct stage stage_of(skep_real *values, size_t inputs, size_t h)
{
    struct stage stage = {.weight = values, .bias = values + h * inputs};
    stage.norm = (struct skep_affine){stage.bias + h, stage.bias + 2 * h};
    return stage;
}

static struct paper paper_of(struct skep_expert_shape shape, const skep_real *flat)
{
    size_t d = shape.dim;
    size_t h = shape.hidden;
    struct paper paper;
    paper.stages[0] = stage_of((skep_real *)flat, d, h);
    paper.stages[1] = stage_of(paper.stages[0].norm.bias + h, h, h);
    paper.third = paper.stages[1].norm.bias + h;
    paper.third_bias = paper.third + d * h;
    return paper;
}

static struct paper_work paper_work_of(struct skep_expert_shape shape, size_t rows, skep_real *work)
{
    size_t wide = rows * shape.hidden;
    struct paper_work parts = {.x = work};
    skep_real *at = work + rows * shape.dim;
    for (int i = 0; i < 2; i++) {
        parts.hat[i] = at;
        parts.active[i] = at + wide;
        at += 2 * wide;
    }
    parts.scale[0] = at;
    parts.scale[1] = at + rounded(rows);
    return parts;
}

static void paper_forward(const struct skep_ops *ops, struct skep_expert_shape shape,
                          const skep_real *parameters, struct skep_rows rows, const skep_real *x,
                          skep_real *work, skep_real *y)
{
    size_t n = rows.count;
    size_t h = shape.hidden;
    struct paper paper = paper_of(shape, parameters);
    struct paper_work parts = paper_work_of(shape, n, work);
    struct skep_rows wide = {n, h, NULL};
    ops->rows_gather(rows, x, parts.x);
    for (int i = 0; i < 2; i++) {
        const struct stage *stage = &paper.stages[i];
        size_t inputs = i == 0 ? shape.dim : h;
        linear(ops, (struct skep_linear){n, inputs, h}, i == 0 ? parts.x : parts.active[0],
               stage->weight, stage->bias, parts.active[i]);
        ops->normalise(wide, parts.active[i], parts.hat[i], parts.scale[i]);
        ops->affine_relu(wide, parts.hat[i], stage->norm, parts.active[i]);
    }
    linear(ops, (struct skep_linear){n, h, shape.dim}, parts.active[1], paper.third,
           paper.third_bias, y);
}

struct paper_back {
    const struct skep_ops *ops;
    struct skep_rows wide;
    struct paper paper;
    struct paper gradient;
    struct paper_work parts;
    skep_real *dactive; /* [n, h] gradient of a stage's result, then spoiled, */
    skep_real *dpre;    /* [n, h] and of its product with the weights */
};

/* From dactive to dpre. */
static void stage_backward(const struct paper_back *back, int i)
{
    const struct skep_ops *ops = back->ops;
    const struct paper_work *parts = &back->parts;
    ops->affine_relu_backward(back->wide, back->dactive, parts->active[i], parts->hat[i],
                              back->paper.stages[i].norm, back->dactive,
                              back->gradient.stages[i].norm);
    ops->fill(back->wide.count * back->wide.dim, 0, back->dpre);
    ops->normalise_backward(back->wide, back->dactive, parts->hat[i], parts->scale[i], back->dpre);
    ops->rows_sum(back->wide, back->dpre, back->gradient.stages[i].bias);
}

static void paper_backward(const struct skep_ops *ops, struct skep_expert_shape shape,
                           const skep_real *parameters, struct skep_rows rows,
                           const struct skep_expert_backward *pass)
{
    size_t n = rows.count;
    size_t d = shape.dim;
    size_t h = shape.hidden;
    struct skep_linear first = {n, d, h};
    struct skep_linear second = {n, h, h};
    struct skep_linear third = {n, h, d};
    struct paper_back back = {.ops = ops,
                              .wide = {n, h, NULL},
                              .paper = paper_of(shape, parameters),
                              .gradient = paper_of(shape, pass->dparameters),
                              .parts = paper_work_of(shape, n, pass->work),
                              .dactive = pass->scratch + n * h,
                              .dpre = pass->scratch};
    const struct paper *paper = &back.paper;
    const struct paper *gradient = &back.gradient;
    begin(ops, pass->beta, 3 * h, gradient->stages[0].bias);
    begin(ops, pass->beta, 3 * h, gradient->stages[1].bias);
    begin(ops, pass->beta, d, gradient->third_bias);
    ops->rows_sum((struct skep_rows){n, d, NULL}, pass->dy, gradient->third_bias);
    skep_linear_weights(ops, third, pass->dy, back.parts.active[1], pass->beta, gradient->third);
    skep_linear_inputs(ops, third, pass->dy, paper->third, 0, back.dactive);
    stage_backward(&back, 1);
    skep_linear_weights(ops, second, back.dpre, back.parts.active[0], pass->beta,
                        gradient->stages[1].weight);
    skep_linear_inputs(ops, second, back.dpre, paper->stages[1].weight, 0, back.dactive);
    stage_backward(&back, 0);
    skep_linear_weights(ops, first, back.dpre, back.parts.x, pass->beta,
                        gradient->stages[0].weight);
    if (pass->dx != NULL) {
        skep_linear_inputs(ops, first, back.dpre, paper->stages[0].weight, 0, back.dactive);
        ops->rows_scatter_add(rows, back.dactive, pass->dx);
    }
}

void skep_expert_forward(const struct skep_ops *ops, struct skep_expert_shape shape,
                         const skep_real *parameters, struct skep_rows rows, const skep_real *x,
                         skep_real *work, skep_real *y)
{
    assert(rows.dim == shape.dim);
    if (shape.kind == SKEP_EXPERT_PAPER_FFN) {
        paper_forward(ops, shape, parameters, rows, x, work, y);
    } else {
        ffn_forward(ops, shape, parameters, rows, x, work, y);
    }
}

void skep_expert_backward(const struct skep_ops *ops, struct skep_expert_shape shape,
                          const skep_real *parameters, struct skep_rows rows,
                          const struct skep_expert_backward *pass)
{
    assert(rows.dim == shape.dim);
    if (shape.kind == SKEP_EXPERT_PAPER_FFN) {
        paper_backward(ops, shape, parameters, rows, pass);
    } else {
        ffn_backward(ops, shape, parameters, rows, pass);
    }
}
