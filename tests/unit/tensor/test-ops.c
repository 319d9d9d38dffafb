/*
 * The fast operations against those of reference.h. Inputs are of size 1, so a sum of n float32 products differs by at most about
 * n * 2^-24 in the worst case and sqrt(n) * 2^-24 on average; the tolerance is 2e-5 for the sizes here (n <= 200).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/tensor/reference.h"
#include "tests/lib/cmocka.h"

#define TOLERANCE 2e-5
#define COUNT 13
#define DIM 37 /* not a multiple of any vector width */

/* `count` values uniform in [-range, range]; free() them. */
static float *random_values(size_t count, uint64_t seed, double range)
{
    struct skep_rng rng = skep_rng_of(seed);
    float *values = skep_alloc(count, sizeof *values);
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)((skep_rng_unit(&rng) * 2 - 1) * range);
    }
    return values;
}

static float *copy(const float *values, size_t count)
{
    float *same = skep_alloc(count, sizeof *same);
    memcpy(same, values, count * sizeof *same);
    return same;
}

static void assert_near(const float *found, const float *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double most = fmax(1, fabs((double)expected[i]));
        if (!(fabs((double)found[i] - (double)expected[i]) <= TOLERANCE * most)) {
            fail_msg("value %zu is %.9g, the reference has %.9g", i, (double)found[i],
                     (double)expected[i]);
        }
    }
}

static const uint32_t INDEX[COUNT] = {3, 0, 7, 12, 5, 1, 2, 11, 10, 4, 6, 9, 8};
static const struct skep_rows PLAIN = {COUNT, DIM, NULL};
static const struct skep_rows GATHERED = {COUNT, DIM, INDEX};
#define SIZE ((size_t)COUNT * DIM)

static void check_gemm(bool a_transposed, bool b_transposed, float beta)
{
    struct skep_gemm_size size = {7, 11, 19};
    float *a = random_values(40 * 40, 1, 1);
    float *b = random_values(40 * 40, 2, 1);
    float *c = random_values(40 * 40, 3, 1);
    float *expected = copy(c, 40 * 40);
    struct skep_matrix left = {a, 40, a_transposed};
    struct skep_matrix right = {b, 33, b_transposed};
    skep_gemm(size, left, right, beta, c, 23);
    skep_gemm_reference(size, left, right, beta, expected, 23);
    assert_near(c, expected, 40 * 40);
    free(a);
    free(b);
    free(c);
    free(expected);
}

static void matrix_products_follow_strides_and_transposes(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        check_gemm(i & 1, i & 2, i & 4 ? 1.0f : 0.0f);
    }
}

static void a_linear_map_and_its_gradients_are_matrix_products(void **state)
{
    (void)state;
    float x[] = {1, 2};             /* [1, 2] */
    float w[] = {1, 2, 3, 4, 5, 6}; /* [3, 2] */
    float dy[] = {1, 0, -1};
    float y[3] = {NAN, NAN, NAN};
    float dx[2] = {1, 1};
    float dw[6];
    struct skep_linear shape = {1, 2, 3};
    skep_cblas_linear_forward(shape, x, w, 0, y);
    skep_cblas_linear_inputs(shape, dy, w, 1, dx);
    skep_cblas_linear_weights(shape, dy, x, 0, dw);
    assert_near(y, (float[]){5, 11, 17}, 3);
    assert_near(dx, (float[]){-3, -3}, 2);
    assert_near(dw, (float[]){1, 2, 0, 0, -1, -2}, 6);
}

static void normalisation_matches_its_reference(void **state)
{
    (void)state;
    float *x = random_values(SIZE, 4, 3);
    float *hat = skep_alloc(SIZE, sizeof *hat);
    float *expected = skep_alloc(SIZE, sizeof *expected);
    float scale[COUNT];
    float expected_scale[COUNT];
    skep_normalise(PLAIN, x, hat, scale);
    skep_normalise_reference(PLAIN, x, expected, expected_scale);
    assert_near(hat, expected, SIZE);
    assert_near(scale, expected_scale, COUNT);
    float *dhat = random_values(SIZE, 5, 1);
    float *dx = random_values(SIZE, 6, 1);
    float *expected_dx = copy(dx, SIZE);
    skep_normalise_backward(PLAIN, dhat, hat, scale, dx);
    skep_normalise_backward_reference(PLAIN, dhat, hat, scale, expected_dx);
    assert_near(dx, expected_dx, SIZE);
    free(x);
    free(hat);
    free(expected);
    free(dhat);
    free(dx);
    free(expected_dx);
}

static void a_constant_row_normalises_to_zero(void **state)
{
    (void)state;
    float x[5] = {2, 2, 2, 2, 2};
    float hat[5];
    float scale;
    skep_normalise((struct skep_rows){1, 5, NULL}, x, hat, &scale);
    assert_near(hat, (float[]){0, 0, 0, 0, 0}, 5);
    assert_true(isfinite(scale));
}

static void check_affine(struct skep_rows rows)
{
    float *hat = random_values(SIZE, 7, 1);
    float *gain = random_values(DIM, 8, 1);
    float *bias = random_values(DIM, 9, 1);
    struct skep_affine affine = {gain, bias};
    float *y = skep_alloc(SIZE, sizeof *y);
    float *expected = skep_alloc(SIZE, sizeof *expected);
    skep_affine_forward(rows, hat, affine, y);
    skep_affine_forward_reference(rows, hat, affine, expected);
    assert_near(y, expected, SIZE);
    float *sums = skep_alloc(4 * DIM, sizeof *sums);
    float *dhat = random_values(SIZE, 10, 1);
    float *expected_dhat = copy(dhat, SIZE);
    skep_affine_backward(rows, y, hat, affine, dhat, (struct skep_affine){sums, sums + DIM});
    skep_affine_backward_reference(rows, y, hat, affine, expected_dhat,
                                   (struct skep_affine){sums + 2 * DIM, sums + 3 * DIM});
    assert_near(dhat, expected_dhat, SIZE);
    assert_near(sums, sums + 2 * DIM, 2 * DIM);
    free(hat);
    free(gain);
    free(bias);
    free(y);
    free(expected);
    free(sums);
    free(dhat);
    free(expected_dhat);
}

static void scaling_matches_its_reference_plain_and_gathered(void **state)
{
    (void)state;
    check_affine(PLAIN);
    check_affine(GATHERED);
}

static void combining_rows_matches_its_reference(void **state)
{
    (void)state;
    float *y = random_values(SIZE, 11, 1);
    float *x = random_values(SIZE, 12, 1);
    float *bias = random_values(DIM, 13, 1);
    float *weight = random_values(COUNT, 14, 1);
    float *expected_y = copy(y, SIZE);
    float *expected_x = copy(x, SIZE);
    skep_rows_combine(GATHERED, y, bias, weight, x);
    skep_rows_combine_reference(GATHERED, expected_y, bias, weight, expected_x);
    assert_near(y, expected_y, SIZE);
    assert_near(x, expected_x, SIZE);
    float dweight[COUNT];
    float expected_dweight[COUNT];
    skep_rows_combine_backward(GATHERED, x, y, weight, expected_y, dweight);
    float *dy = copy(expected_y, SIZE);
    skep_rows_combine_backward_reference(GATHERED, x, y, weight, expected_y, expected_dweight);
    assert_near(dy, expected_y, SIZE);
    assert_near(dweight, expected_dweight, COUNT);
    skep_rows_sum(PLAIN, x, bias);
    float *expected_sum = random_values(DIM, 13, 1);
    skep_rows_sum_reference(PLAIN, x, expected_sum);
    assert_near(bias, expected_sum, DIM);
    free(y);
    free(x);
    free(bias);
    free(weight);
    free(expected_y);
    free(expected_x);
    free(dy);
    free(expected_sum);
}

static void gelu_and_its_slope_match_tanh_from_minus_forty_to_forty(void **state)
{
    (void)state;
    float *pre = random_values(SIZE, 15, 40);
    pre[0] = 0;
    pre[1] = 1e-20f;
    float *bias = random_values(DIM, 16, 0.5);
    float *out = skep_alloc(SIZE, sizeof *out);
    float *expected_pre = copy(pre, SIZE);
    float *expected_out = skep_alloc(SIZE, sizeof *out);
    skep_gelu(PLAIN, pre, bias, out);
    skep_gelu_reference(PLAIN, expected_pre, bias, expected_out);
    assert_near(out, expected_out, SIZE);
    assert_near(pre, expected_pre, SIZE);
    free(pre);
    free(bias);
    free(out);
    free(expected_pre);
    free(expected_out);
}

static void causal_softmax_matches_its_reference_and_is_zero_behind_its_place(void **state)
{
    (void)state;
    struct skep_rows rows = {COUNT, DIM - 4, NULL};
    float *scores = random_values(SIZE, 17, 60);
    float *expected = copy(scores, SIZE);
    skep_softmax_causal(rows, 5, DIM, 0.5f, 0.25f, scores);
    skep_softmax_causal_reference(rows, 5, DIM, 0.5f, 0.25f, expected);
    assert_near(scores, expected, SIZE);
    assert_true(scores[6] == 0 && scores[5] > 0);
    float *dscores = random_values(SIZE, 18, 1);
    float *expected_d = copy(dscores, SIZE);
    skep_softmax_causal_backward(rows, DIM, 0.5f, scores, dscores);
    skep_softmax_causal_backward_reference(rows, DIM, 0.5f, scores, expected_d);
    assert_near(dscores, expected_d, SIZE);
    free(scores);
    free(expected);
    free(dscores);
    free(expected_d);
}

static void cross_entropy_matches_its_reference(void **state)
{
    (void)state;
    float *logits = random_values(DIM, 19, 30);
    float *expected = copy(logits, DIM);
    float total = skep_logsumexp(logits, DIM);
    assert_near(&total, (float[]){skep_logsumexp_reference(logits, DIM)}, 1);
    skep_cross_entropy_backward(logits, DIM, 5, total, 0.25f);
    skep_cross_entropy_backward_reference(expected, DIM, 5, total, 0.25f);
    assert_near(logits, expected, DIM);
    free(logits);
    free(expected);
}

static void a_sum_of_squares_does_not_lose_what_is_small(void **state)
{
    (void)state;
    size_t count = 20001;
    float *values = random_values(count, 20, 1);
    double expected = skep_sum_squares_reference(values, count);
    assert_true(fabs(skep_sum_squares(values, count) - expected) < 1e-5 * expected);
    values[3] = NAN;
    assert_false(isfinite(skep_sum_squares(values, count)));
    free(values);
}

static void adamw_matches_its_reference_over_several_steps(void **state)
{
    (void)state;
    float *values = random_values(DIM, 21, 1);
    float *expected = copy(values, DIM);
    float *moments = skep_alloc(4 * DIM, sizeof *moments);
    for (int step = 1; step <= 5; step++) {
        struct skep_adamw adamw = {1e-2, 0.9, 0.95, 1e-8, 0.1, 0.5, 0, 0};
        adamw.correction1 = 1 / (1 - pow(0.9, step));
        adamw.correction2 = 1 / (1 - pow(0.95, step));
        float *gradient = random_values(DIM, 30 + (uint64_t)step, 1);
        skep_adamw_update(&adamw, DIM, gradient, moments, moments + DIM, values);
        skep_adamw_update_reference(&adamw, DIM, gradient, moments + 2 * DIM, moments + 3 * DIM,
                                    expected);
        free(gradient);
    }
    assert_near(values, expected, DIM);
    assert_near(moments, moments + 2 * DIM, 2 * DIM);
    free(values);
    free(expected);
    free(moments);
}

static void the_number_of_threads_can_be_set(void **state)
{
    (void)state;
    /* False only where the CBLAS in use is not OpenBLAS; the products stay right either way. */
    (void)skep_gemm_set_threads(1);
    check_gemm(false, true, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrix_products_follow_strides_and_transposes),
        cmocka_unit_test(a_linear_map_and_its_gradients_are_matrix_products),
        cmocka_unit_test(normalisation_matches_its_reference),
        cmocka_unit_test(a_constant_row_normalises_to_zero),
        cmocka_unit_test(scaling_matches_its_reference_plain_and_gathered),
        cmocka_unit_test(combining_rows_matches_its_reference),
        cmocka_unit_test(gelu_and_its_slope_match_tanh_from_minus_forty_to_forty),
        cmocka_unit_test(causal_softmax_matches_its_reference_and_is_zero_behind_its_place),
        cmocka_unit_test(cross_entropy_matches_its_reference),
        cmocka_unit_test(a_sum_of_squares_does_not_lose_what_is_small),
        cmocka_unit_test(adamw_matches_its_reference_over_several_steps),
        cmocka_unit_test(the_number_of_threads_can_be_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
