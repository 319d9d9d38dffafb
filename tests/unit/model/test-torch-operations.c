/*
 * Every operation that PyTorch has too, forward and back, against recorded results (tests/data/torch/make.py), with the plain reference
 * and every CPU table that this machine can run.
 *
 * Tolerance, as a share of a tensor's largest value: sums of at most 40 float32 values are right to 40 * 2^-24 = 2.4e-6 at worst; a
 * fast exp may be wrong by 1e-7 of its value, and its argument, up to 16 here, by 16 * 2^-24 = 1e-6.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/tensor/ops.h"
#include "tests/lib/cmocka.h"
#include "tests/lib/model-numbers.h"
#include "tests/unit/model/torch-results.h"

#define TOLERANCE 3e-6
#define MOST_ARRAYS 32

/* One operation of one table: its recorded tensors, and whatever was allocated for it. */
struct trial {
    const struct skep_ops *ops;
    const struct torch_results *torch;
    const char *operation;
    size_t array_count;
    float *arrays[MOST_ARRAYS];
};

static float *keep(struct trial *trial, float *array)
{
    assert_true(trial->array_count < MOST_ARRAYS);
    trial->arrays[trial->array_count++] = array;
    return array;
}

static float *recorded(struct trial *trial, const char *name)
{
    return keep(trial, torch_values(trial->torch, trial->operation, name));
}

static float *zeros(struct trial *trial, size_t count)
{
    return keep(trial, skep_alloc(count, sizeof(float)));
}

static void near(struct trial *trial, const char *name, const float *found)
{
    float *expected = recorded(trial, name);
    double difference =
        torch_difference(found, expected, torch_find(trial->torch, trial->operation, name)->count);
    if (!(difference <= TOLERANCE)) {
        fail_msg("table %s, %s.%s: differs from PyTorch's by %.3g of its largest value",
                 trial->ops->name, trial->operation, name, difference);
    }
}

/* Rows and columns of a recorded matrix. */
static struct skep_rows rows_of(const struct trial *trial, const char *name)
{
    const struct skep_tensor_view *view = torch_find(trial->torch, trial->operation, name);
    return (struct skep_rows){view->dims[0], view->dim_count > 1 ? view->dims[1] : 1, NULL};
}

static uint32_t *integers(struct trial *trial, const char *name)
{
    const float *values = recorded(trial, name);
    size_t count = rows_of(trial, name).count;
    uint32_t *index = (uint32_t *)(void *)zeros(trial, count);
    for (size_t i = 0; i < count; i++) {
        index[i] = (uint32_t)values[i];
    }
    return index;
}

static void try_norm(struct trial *trial, bool relu)
{
    const struct skep_ops *ops = trial->ops;
    struct skep_rows rows = rows_of(trial, "x");
    size_t count = rows.count * rows.dim;
    struct skep_affine affine = {recorded(trial, "gain"), recorded(trial, "bias")};
    struct skep_affine gradient = {zeros(trial, rows.dim), zeros(trial, rows.dim)};
    float *hat = zeros(trial, count);
    float *scale = zeros(trial, rows.count);
    float *y = zeros(trial, count);
    ops->normalise(rows, recorded(trial, "x"), hat, scale);
    (relu ? ops->affine_relu : ops->affine)(rows, hat, affine, y);
    near(trial, "y", y);
    float *dhat = zeros(trial, count);
    float *dx = zeros(trial, count);
    if (relu) {
        ops->affine_relu_backward(rows, recorded(trial, "dy"), y, hat, affine, dhat, gradient);
    } else {
        ops->affine_backward(rows, recorded(trial, "dy"), hat, affine, dhat, gradient);
    }
    ops->normalise_backward(rows, dhat, hat, scale, dx);
    near(trial, "dx", dx);
    near(trial, "dgain", gradient.gain);
    near(trial, "dbias", gradient.bias);
}

static void norm(struct trial *trial)
{
    try_norm(trial, false);
}

static void norm_relu(struct trial *trial)
{
    try_norm(trial, true);
}

static void gelu(struct trial *trial)
{
    struct skep_rows rows = rows_of(trial, "x");
    float *slope = recorded(trial, "x");
    float *y = zeros(trial, rows.count * rows.dim);
    float *dbias = zeros(trial, rows.dim);
    float *dx = recorded(trial, "dy");
    trial->ops->gelu(rows, slope, recorded(trial, "bias"), y);
    near(trial, "y", y);
    trial->ops->gelu_backward(rows, slope, dx, dbias);
    near(trial, "dx", dx);
    near(trial, "dbias", dbias);
}

static void softmax(struct trial *trial)
{
    struct skep_rows rows = rows_of(trial, "x");
    const float *settings = recorded(trial, "settings");
    struct skep_causal causal = {.first = (size_t)settings[0],
                                 .stride = rows.dim,
                                 .scale = settings[1],
                                 .slope = settings[2]};
    float *y = recorded(trial, "x");
    float *dx = recorded(trial, "dy");
    trial->ops->softmax_causal(rows, causal, y);
    near(trial, "y", y);
    trial->ops->softmax_causal_backward(rows, causal, y, dx);
    near(trial, "dx", dx);
}

static void cross_entropy(struct trial *trial)
{
    struct skep_rows rows = rows_of(trial, "x");
    const uint32_t *target = integers(trial, "target");
    float *logits = recorded(trial, "x");
    float *logsumexp = zeros(trial, rows.count);
    float *nats = zeros(trial, rows.count);
    trial->ops->cross_entropy(rows, logits, target, logsumexp, nats);
    near(trial, "logsumexp", logsumexp);
    near(trial, "nats", nats);
    trial->ops->cross_entropy_backward(rows, target, logsumexp, recorded(trial, "settings")[0],
                                       logits);
    near(trial, "dx", logits);
}

static void linear(struct trial *trial)
{
    struct skep_linear shape = {rows_of(trial, "x").count, rows_of(trial, "x").dim,
                                rows_of(trial, "w").count};
    const float *x = recorded(trial, "x");
    const float *w = recorded(trial, "w");
    const float *dy = recorded(trial, "dy");
    float *y = zeros(trial, shape.rows * shape.outputs);
    float *dx = zeros(trial, shape.rows * shape.inputs);
    float *dw = zeros(trial, shape.outputs * shape.inputs);
    skep_linear_forward(trial->ops, shape, x, w, 0, y);
    skep_linear_inputs(trial->ops, shape, dy, w, 0, dx);
    skep_linear_weights(trial->ops, shape, dy, x, 0, dw);
    near(trial, "y", y);
    near(trial, "dx", dx);
    near(trial, "dw", dw);
}

static void rows(struct trial *trial)
{
    struct skep_rows indexed = rows_of(trial, "x");
    indexed.index = integers(trial, "index");
    float *y = recorded(trial, "y");
    trial->ops->rows_scatter_add(indexed, recorded(trial, "x"), y);
    near(trial, "scattered", y);
    float *gathered = zeros(trial, indexed.count * indexed.dim);
    trial->ops->rows_gather(indexed, recorded(trial, "y"), gathered);
    near(trial, "gathered", gathered);
    struct skep_rows once = {rows_of(trial, "once").count, indexed.dim, integers(trial, "once")};
    float *combined = recorded(trial, "y");
    trial->ops->rows_combine(once, recorded(trial, "x"), recorded(trial, "weight"), combined);
    near(trial, "combined", combined);
}

static void adamw(struct trial *trial)
{
    struct skep_training_config training = skep_test_training(recorded(trial, "training"));
    struct skep_rows steps = rows_of(trial, "gradients");
    float *values = recorded(trial, "x");
    float *after = zeros(trial, steps.count * steps.dim);
    float *first = zeros(trial, steps.dim);
    float *second = zeros(trial, steps.dim);
    for (size_t i = 0; i < steps.count; i++) {
        const float *gradient = recorded(trial, "gradients") + i * steps.dim;
        double size = sqrt(trial->ops->sum_squares(gradient, steps.dim));
        struct skep_adamw step = {
            .rate = training.learning_rate,
            .beta1 = training.beta1,
            .beta2 = training.beta2,
            .epsilon = training.epsilon,
            .decay = training.weight_decay,
            .gradient = size > training.clip ? training.clip / size : 1,
            .correction1 = 1 / (1 - pow(training.beta1, (double)i + 1)),
            .correction2 = 1 / (1 - pow(training.beta2, (double)i + 1)),
        };
        trial->ops->adamw(&step, steps.dim, gradient, first, second, values);
        memcpy(after + i * steps.dim, values, steps.dim * sizeof *values);
    }
    near(trial, "after", after);
    near(trial, "first", first);
    near(trial, "second", second);
}

static struct torch_results torch;

static void try_all_tables(const char *operation, void (*run)(struct trial *trial))
{
    const struct skep_ops *tables[8] = {skep_ops_reference()};
    size_t count = 1 + skep_ops_cpu_tables(tables + 1, 7);
    assert_true(count > 1);
    for (size_t i = 0; i < count; i++) {
        struct trial trial = {.ops = tables[i], .torch = &torch, .operation = operation};
        run(&trial);
        struct skep_error err = {0};
        assert_int_equal(trial.ops->status(&err), SKEP_OK);
        for (size_t j = 0; j < trial.array_count; j++) {
            free(trial.arrays[j]);
        }
    }
}

struct operation {
    const char *title;
    const char *name;
    void (*run)(struct trial *trial);
};

static struct operation operations[] = {
    {"layer normalisation is PyTorch's", "norm", norm},
    {"layer normalisation and ReLU are PyTorch's", "norm_relu", norm_relu},
    {"GELU is PyTorch's", "gelu", gelu},
    {"causal softmax with ALiBi is PyTorch's", "softmax", softmax},
    {"cross-entropy is PyTorch's", "cross_entropy", cross_entropy},
    {"linear maps are PyTorch's", "linear", linear},
    {"gathering and scattering rows are PyTorch's", "rows", rows},
    {"AdamW with clipping is PyTorch's", "adamw", adamw},
    {"AdamW with clipping and decay is PyTorch's", "adamw_decay", adamw},
};
#define OPERATION_COUNT (sizeof operations / sizeof operations[0])

static void every_table_computes_what_pytorch_does(void **state)
{
    const struct operation *operation = *state;
    try_all_tables(operation->name, operation->run);
}

static int open_results(void **state)
{
    (void)state;
    torch_open(&torch, "operations");
    return 0;
}

static int close_results(void **state)
{
    (void)state;
    torch_close(&torch);
    return 0;
}

int main(void)
{
    struct CMUnitTest tests[OPERATION_COUNT];
    for (size_t i = 0; i < OPERATION_COUNT; i++) {
        tests[i] = (struct CMUnitTest){.name = operations[i].title,
                                       .test_func = every_table_computes_what_pytorch_does,
                                       .initial_state = &operations[i]};
    }
    return cmocka_run_group_tests(tests, open_results, close_results);
}
