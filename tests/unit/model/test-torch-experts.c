/*
 * Both kinds of experts against recorded PyTorch results: output, gradient of the input and of all parameters. Compiled in float64, where
 * only the recording's rounding to float32 remains (6e-8 of a value), and in float32, which adds that of sums of up to 24 products
 * through up to eight operations.
 */
#include "common/model/expert.h"

#include <stdlib.h>

#include "common/base/alloc.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/model/torch-results.h"

#ifdef SKEP_REAL_DOUBLE
#define TOLERANCE 2e-7
#else
#define TOLERANCE 3e-6
#endif

static size_t count_of(const struct torch_results *torch, const char *kind, const char *name)
{
    const struct skep_tensor_view *view = torch_find(torch, kind, name);
    assert_non_null(view);
    return view->count;
}

static skep_real *reals(const struct torch_results *torch, const char *kind, const char *name)
{
    size_t count = count_of(torch, kind, name);
    float *values = torch_values(torch, kind, name);
    skep_real *copy = skep_alloc(count, sizeof *copy);
    for (size_t i = 0; i < count; i++) {
        copy[i] = (skep_real)values[i];
    }
    free(values);
    return copy;
}

static void near(const struct torch_results *torch, const char *kind, const char *name,
                 const skep_real *found)
{
    size_t count = count_of(torch, kind, name);
    float *floats = skep_alloc(count, sizeof *floats);
    for (size_t i = 0; i < count; i++) {
        floats[i] = (float)found[i];
    }
    torch_assert_near(torch, kind, name, floats, TOLERANCE);
    free(floats);
}

static void check(const struct torch_results *torch, const char *kind,
                  struct skep_expert_shape shape, const struct skep_ops *ops)
{
    struct skep_rows rows = {count_of(torch, kind, "x") / shape.dim, shape.dim, NULL};
    size_t count = skep_expert_parameters(shape);
    assert_int_equal(count, count_of(torch, kind, "parameters"));
    skep_real *parameters = reals(torch, kind, "parameters");
    skep_real *x = reals(torch, kind, "x");
    skep_real *dy = reals(torch, kind, "dy");
    skep_real *y = skep_alloc(rows.count * rows.dim, sizeof *y);
    skep_real *dx = skep_alloc(rows.count * rows.dim, sizeof *dx);
    skep_real *gradient = skep_alloc(count, sizeof *gradient);
    struct skep_expert_backward pass = {.x = x, .dy = dy, .dx = dx, .dparameters = gradient};
    pass.work = skep_alloc(skep_expert_work(shape, rows.count), sizeof *pass.work);
    pass.scratch = skep_alloc(skep_expert_scratch(shape, rows.count) + 1, sizeof *pass.scratch);
    skep_expert_forward(ops, shape, parameters, rows, x, pass.work, y);
    near(torch, kind, "y", y);
    skep_expert_backward(ops, shape, parameters, rows, &pass);
    near(torch, kind, "dx", dx);
    near(torch, kind, "dparameters", gradient);
    free(parameters);
    free(x);
    free(dy);
    free(y);
    free(dx);
    free(gradient);
    free(pass.work);
    free(pass.scratch);
}

static void an_expert_computes_what_pytorch_does(const char *name, enum skep_expert_kind kind)
{
    struct torch_results torch;
    torch_open(&torch, "experts");
    float *numbers = torch_values(&torch, name, "shape");
    struct skep_expert_shape shape = {kind, (size_t)numbers[0], (size_t)numbers[1]};
    free(numbers);
    check(&torch, name, shape, skep_ops_reference());
    check(&torch, name, shape, skep_ops_cpu());
    torch_close(&torch);
}

static void ffn_computes_what_pytorch_does(void **state)
{
    (void)state;
    an_expert_computes_what_pytorch_does("ffn", SKEP_EXPERT_FFN);
}

static void paper_ffn_computes_what_pytorch_does(void **state)
{
    (void)state;
    an_expert_computes_what_pytorch_does("paper_ffn", SKEP_EXPERT_PAPER_FFN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ffn_computes_what_pytorch_does),
        cmocka_unit_test(paper_ffn_computes_what_pytorch_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
