#include "tests/unit/tensor/ops-checks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "tests/lib/cmocka.h"

#define BEHIND 8 /* values behind the end of each array */
#define MOST_ARRAYS 12

/* at[0] lies with the table under test, at[1] with the one it is held against. */
struct array {
    size_t size; /* bytes */
    bool whole;  /* of uint32_t; else of skep_real */
    void *at[2];
};

struct lab {
    const struct skep_ops_pair *pair;
    const struct skep_ops *ops[2];
    double tolerance;
    struct array arrays[MOST_ARRAYS];
    size_t count;
    uint64_t seed;
};

static struct lab lab_of(void **state)
{
    struct lab lab = {.pair = *state, .seed = 1};
    lab.tolerance = lab.pair->tolerance;
    lab.ops[0] = lab.pair->ops;
    lab.ops[1] = lab.pair->against;
    return lab;
}

/* A CBLAS may sum in another order with other numbers of threads, so products are never held to the bits. */
static struct lab lab_of_products(void **state)
{
    struct lab lab = lab_of(state);
    lab.tolerance = fmax(lab.tolerance, SKEP_OPS_TOLERANCE);
    return lab;
}

/* Gives both tables the bytes. The arrays of `lab` stay where they are, so pointers to them are good until lab_check(). */
static struct array *lab_put(struct lab *lab, const void *bytes, size_t size, bool whole)
{
    assert_true(lab->count < MOST_ARRAYS);
    struct array *array = &lab->arrays[lab->count++];
    *array = (struct array){.size = size, .whole = whole};
    for (int side = 0; side < 2; side++) {
        array->at[side] = lab->ops[side]->memory_new(size);
        assert_non_null(array->at[side]);
        lab->ops[side]->copy_in(array->at[side], bytes, size);
    }
    return array;
}

/* `count` values uniform in [-range, range]. */
static struct array *lab_values(struct lab *lab, size_t count, double range)
{
    struct skep_rng rng = skep_rng_of(lab->seed++);
    skep_real *values = skep_alloc(count + BEHIND, sizeof *values);
    for (size_t i = 0; i < count + BEHIND; i++) {
        values[i] = (skep_real)((skep_rng_unit(&rng) * 2 - 1) * range);
    }
    struct array *array = lab_put(lab, values, (count + BEHIND) * sizeof *values, false);
    free(values);
    return array;
}

/* `count` float32, all positive: moments. */
static struct array *lab_moments(struct lab *lab, size_t count)
{
    struct skep_rng rng = skep_rng_of(lab->seed++);
    float *values = skep_alloc(count + BEHIND, sizeof *values);
    for (size_t i = 0; i < count + BEHIND; i++) {
        values[i] = (float)skep_rng_unit(&rng);
    }
    struct array *array = lab_put(lab, values, (count + BEHIND) * sizeof *values, false);
    free(values);
    return array;
}

/* `count` numbers below `limit`: any, or (count <= limit) none of them twice, out of order. */
static struct array *lab_numbers(struct lab *lab, size_t count, size_t limit, bool once)
{
    struct skep_rng rng = skep_rng_of(lab->seed++);
    size_t most = count + BEHIND > limit ? count + BEHIND : limit;
    uint32_t *numbers = skep_alloc(most, sizeof *numbers);
    for (size_t i = 0; i < most; i++) {
        numbers[i] = once ? (uint32_t)i : (uint32_t)skep_rng_below(&rng, limit > 0 ? limit : 1);
    }
    for (size_t i = 0; once && i < limit; i++) {
        size_t other = i + skep_rng_below(&rng, limit - i);
        uint32_t kept = numbers[i];
        numbers[i] = numbers[other];
        numbers[other] = kept;
    }
    struct array *array = lab_put(lab, numbers, (count + BEHIND) * sizeof *numbers, true);
    free(numbers);
    return array;
}

static void compare_values(const struct lab *lab, const skep_real *found, const skep_real *expected,
                           size_t array, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double allowed = lab->tolerance * fmax(1, fabs((double)expected[i]));
        bool both_nan = isnan(found[i]) && isnan(expected[i]);
        if (!both_nan && !(fabs((double)found[i] - (double)expected[i]) <= allowed)) {
            fail_msg("%s: value %zu of array %zu (%zu values) is %.9g, %s has %.9g",
                     lab->ops[0]->name, i, array, count - BEHIND, (double)found[i],
                     lab->ops[1]->name, (double)expected[i]);
        }
    }
}

/* Compares all arrays and lets go of them. */
static void lab_check(struct lab *lab)
{
    for (int side = 0; side < 2; side++) {
        struct skep_error err = {0};
        assert_int_equal(lab->ops[side]->status(&err), SKEP_OK);
    }
    for (size_t i = 0; i < lab->count; i++) {
        struct array *array = &lab->arrays[i];
        void *found[2];
        for (int side = 0; side < 2; side++) {
            found[side] = skep_alloc(1, array->size);
            lab->ops[side]->copy_out(found[side], array->at[side], array->size);
            lab->ops[side]->memory_free(array->at[side]);
        }
        if (array->whole) {
            assert_memory_equal(found[0], found[1], array->size);
        } else {
            compare_values(lab, found[0], found[1], i, array->size / sizeof(skep_real));
        }
        free(found[0]);
        free(found[1]);
    }
    lab->count = 0;
}

/* A double result of both. */
static void check_number(const struct lab *lab, const double result[2])
{
    assert_true(fabs(result[0] - result[1]) <= lab->tolerance * fmax(1, fabs(result[1])));
}

/* `ops` is in turn each of the two tables, `side` says which. */
#define FOR_BOTH(lab)                                                                              \
    for (int side = 0; side < 2; side++)                                                           \
        for (const struct skep_ops *ops = begin_side(lab, side); ops != NULL; ops = NULL)

static const struct skep_ops *begin_side(const struct lab *lab, int side)
{
    unsigned threads = side == 0 ? lab->pair->threads : lab->pair->against_threads;
    if (threads > 0) {
        skep_ops_set_threads(threads);
    }
    return lab->ops[side];
}

/* Rows and columns of the checks: the edges, what fits no vector, and what is cut into parts for threads. */
static const struct skep_rows SIZES[] = {
    {0, 7, NULL},    {7, 0, NULL},    {1, 1, NULL},   {3, 7, NULL},     {7, 3, NULL},
    {8, 8, NULL},    {17, 64, NULL},  {64, 17, NULL}, {1, 1000, NULL},  {1000, 1, NULL},
    {7, 1000, NULL}, {1000, 8, NULL}, {3, 64, NULL},  {200, 1000, NULL}};
/* NOLINTBEGIN(bugprone-macro-parentheses): a name that is declared takes none */
#define FOR_SIZES(rows)                                                                            \
    for (const struct skep_rows *rows = SIZES; rows < SIZES + sizeof SIZES / sizeof SIZES[0];      \
         rows++)
/* NOLINTEND(bugprone-macro-parentheses) */

static struct skep_rows gathered(const struct skep_rows *rows, const struct array *index, int side)
{
    return (struct skep_rows){rows->count, rows->dim, index == NULL ? NULL : index->at[side]};
}

static void check_gemm(struct lab *lab, struct skep_gemm_size size, int way)
{
    size_t a_stride = (way & 1 ? size.rows : size.inner) + 3;
    size_t b_stride = (way & 2 ? size.inner : size.columns) + 5;
    size_t c_stride = size.columns + 2;
    struct array *a = lab_values(lab, (way & 1 ? size.inner : size.rows) * a_stride, 1);
    struct array *b = lab_values(lab, (way & 2 ? size.columns : size.inner) * b_stride, 1);
    struct array *c = lab_values(lab, size.rows * c_stride, 1);
    FOR_BOTH(lab)
    {
        ops->gemm(size, (struct skep_matrix){a->at[side], a_stride, way & 1},
                  (struct skep_matrix){b->at[side], b_stride, way & 2}, way & 4 ? 0.5f : 0,
                  c->at[side], c_stride);
    }
    lab_check(lab);
}

static void matrix_products_follow_strides_and_transposes(void **state)
{
    /* The last ones are cut into several tiles, blocks and panels, whatever the kernel. */
    static const struct skep_gemm_size PRODUCTS[] = {
        {7, 11, 19},  {1, 1, 1},     {0, 3, 3},      {3, 0, 3},     {3, 7, 0},       {1, 64, 17},
        {64, 1, 8},   {17, 8, 64},   {64, 64, 1000}, {12, 32, 1},   {13, 33, 3},     {97, 47, 95},
        {24, 64, 96}, {23, 64, 97},  {200, 40, 64},  {37, 601, 30}, {100, 1200, 17}, {64, 50, 256},
        {12, 16, 97}, {65, 33, 257}, {100, 47, 515}, {96, 19, 300}, {97, 40, 260}};
    struct lab lab = lab_of_products(state);
    for (size_t i = 0; i < sizeof PRODUCTS / sizeof PRODUCTS[0]; i++) {
        for (int way = 0; way < 8; way++) {
            check_gemm(&lab, PRODUCTS[i], way);
        }
    }
}

static void a_product_with_beta_zero_does_not_read_what_was_there(void **state)
{
    /* The last ones have whole tiles and tiles at the edges, of short sums and of long ones. */
    static const struct skep_gemm_size PRODUCTS[] = {
        {2, 3, 0}, {2, 3, 3}, {13, 33, 3}, {13, 33, 97}};
    enum { MOST = 13 * 33 };
    struct lab lab = lab_of_products(state);
    skep_real lost[MOST];
    for (size_t i = 0; i < MOST; i++) {
        lost[i] = (skep_real)NAN;
    }
    for (size_t p = 0; p < sizeof PRODUCTS / sizeof PRODUCTS[0]; p++) {
        struct skep_gemm_size size = PRODUCTS[p];
        size_t count = size.rows * size.columns;
        struct array *a = lab_values(&lab, size.rows * size.inner, 1);
        struct array *b = lab_values(&lab, size.inner * size.columns, 1);
        struct array *c = lab_put(&lab, lost, count * sizeof *lost, false);
        FOR_BOTH(&lab)
        {
            ops->gemm(size, (struct skep_matrix){a->at[side], size.inner, false},
                      (struct skep_matrix){b->at[side], size.columns, false}, 0, c->at[side],
                      size.columns);
        }
        skep_real found[MOST];
        lab.ops[0]->copy_out(found, c->at[0], count * sizeof *found);
        for (size_t i = 0; i < count; i++) {
            assert_false(isnan(found[i]));
        }
        lab_check(&lab);
    }
}

static void linear_maps_and_their_gradients_match(void **state)
{
    struct lab lab = lab_of_products(state);
    struct skep_linear shape = {17, 8, 65};
    struct array *x = lab_values(&lab, 17 * 8, 1);
    struct array *w = lab_values(&lab, 65 * 8, 1);
    struct array *y = lab_values(&lab, 17 * 65, 1);
    struct array *dx = lab_values(&lab, 17 * 8, 1);
    struct array *dw = lab_values(&lab, 65 * 8, 1);
    FOR_BOTH(&lab)
    {
        skep_linear_forward(ops, shape, x->at[side], w->at[side], 0, y->at[side]);
        skep_linear_inputs(ops, shape, y->at[side], w->at[side], 1, dx->at[side]);
        skep_linear_weights(ops, shape, y->at[side], x->at[side], 0, dw->at[side]);
    }
    lab_check(&lab);
}

static void values_are_filled_added_multiplied_and_scaled(void **state)
{
    struct lab lab = lab_of(state);
    FOR_SIZES(rows)
    {
        size_t count = rows->count * rows->dim;
        struct array *x = lab_values(&lab, count, 1);
        struct array *sum = lab_values(&lab, count, 1);
        struct array *product = lab_values(&lab, count, 1);
        struct array *scaled = lab_values(&lab, count, 1);
        struct array *filled = lab_values(&lab, count, 1);
        FOR_BOTH(&lab)
        {
            ops->add(x->at[side], count, sum->at[side]);
            ops->multiply(x->at[side], count, product->at[side]);
            ops->scale(count, (skep_real)-1.5, scaled->at[side]);
            ops->fill(count, (skep_real)0.25, filled->at[side]);
        }
        lab_check(&lab);
    }
}

static void a_sum_of_squares_loses_nothing_small_and_nothing_broken(void **state)
{
    static const size_t COUNTS[] = {0, 1, 3, 7, 8, 17, 64, 1000, 4096, 20001, 300000};
    struct lab lab = lab_of(state);
    for (size_t i = 0; i < sizeof COUNTS / sizeof COUNTS[0]; i++) {
        struct array *x = lab_values(&lab, COUNTS[i], 1);
        double result[2] = {NAN, NAN};
        FOR_BOTH(&lab)
        {
            result[side] = ops->sum_squares(x->at[side], COUNTS[i]);
        }
        check_number(&lab, result);
        lab_check(&lab);
    }
    skep_real broken[9] = {1, 2, 3, (skep_real)NAN, 5, 6, (skep_real)INFINITY, 8, 9};
    struct array *x = lab_put(&lab, broken, sizeof broken, false);
    assert_false(isfinite(lab.ops[0]->sum_squares(x->at[0], 9)));
    assert_false(isfinite(lab.ops[0]->sum_squares((skep_real *)x->at[0] + 4, 5)));
    assert_true(isfinite(lab.ops[0]->sum_squares(x->at[0], 3)));
    broken[3] = 0;
    broken[6] = 0;
    for (int side = 0; side < 2; side++) {
        lab.ops[side]->copy_in(x->at[side], broken, sizeof broken);
    }
    lab_check(&lab);
}

static void rows_are_set_added_and_summed(void **state)
{
    struct lab lab = lab_of(state);
    FOR_SIZES(rows)
    {
        struct array *bias = lab_values(&lab, rows->dim, 1);
        struct array *set = lab_values(&lab, rows->count * rows->dim, 1);
        struct array *added = lab_values(&lab, rows->count * rows->dim, 1);
        struct array *sum = lab_values(&lab, rows->dim, 1);
        FOR_BOTH(&lab)
        {
            ops->rows_set(*rows, bias->at[side], set->at[side]);
            ops->rows_add(*rows, bias->at[side], added->at[side]);
            ops->rows_sum(*rows, added->at[side], sum->at[side]);
        }
        lab_check(&lab);
    }
}

/* With an index that repeats rows, and without one. `source` rows are there to choose from. */
static void check_gather(struct lab *lab, const struct skep_rows *rows, size_t source, bool index)
{
    struct array *which = index ? lab_numbers(lab, rows->count, source, false) : NULL;
    struct array *x = lab_values(lab, source * rows->dim, 1);
    struct array *there = lab_values(lab, rows->count * rows->dim, 1);
    struct array *added = lab_values(lab, rows->count * rows->dim, 1);
    struct array *back = lab_values(lab, source * rows->dim, 1);
    FOR_BOTH(lab)
    {
        ops->rows_gather(gathered(rows, which, side), x->at[side], there->at[side]);
        ops->rows_gather_add(gathered(rows, which, side), x->at[side], added->at[side]);
        ops->rows_scatter_add(gathered(rows, which, side), added->at[side], back->at[side]);
    }
    lab_check(lab);
}

static void rows_are_gathered_and_scattered_also_repeatedly(void **state)
{
    struct lab lab = lab_of(state);
    FOR_SIZES(rows)
    {
        check_gather(&lab, rows, rows->count, false);
        check_gather(&lab, rows, rows->count + 5, true);
        check_gather(&lab, rows, rows->count / 3 + 1, true);
    }
}

static void check_combine(struct lab *lab, const struct skep_rows *rows, bool index)
{
    size_t tokens = rows->count + (index ? 9 : 0);
    struct array *which = index ? lab_numbers(lab, rows->count, tokens, true) : NULL;
    struct array *y = lab_values(lab, rows->count * rows->dim, 1);
    struct array *weight = lab_values(lab, rows->count, 1);
    struct array *x = lab_values(lab, tokens * rows->dim, 1);
    struct array *dx = lab_values(lab, tokens * rows->dim, 1);
    struct array *dy = lab_values(lab, rows->count * rows->dim, 1);
    struct array *dweight = lab_values(lab, rows->count, 1);
    FOR_BOTH(lab)
    {
        struct skep_rows here = gathered(rows, which, side);
        ops->rows_combine(here, y->at[side], weight->at[side], x->at[side]);
        ops->rows_combine_backward(here, dx->at[side], y->at[side], weight->at[side], dy->at[side],
                                   dweight->at[side]);
    }
    lab_check(lab);
}

static void weighted_rows_are_combined_and_taken_apart(void **state)
{
    struct lab lab = lab_of(state);
    FOR_SIZES(rows)
    {
        check_combine(&lab, rows, false);
        check_combine(&lab, rows, true);
    }
}

/* Rows around 2, so that their mean matters. Rows of few values may be nearly constant, and what divides by almost nothing is
 * bounded by no tolerance: the values of a row are spread at least by its own place. */
static void check_normalise(struct lab *lab, const struct skep_rows *rows, bool index)
{
    size_t tokens = rows->count + (index ? 9 : 0);
    struct array *which = index ? lab_numbers(lab, rows->count, tokens, true) : NULL;
    struct skep_rng rng = skep_rng_of(lab->seed++);
    size_t count = tokens * rows->dim;
    skep_real *values = skep_alloc(count + BEHIND, sizeof *values);
    for (size_t i = 0; i < count; i++) {
        values[i] = (skep_real)(2 + (double)(i % rows->dim % 4) + skep_rng_unit(&rng));
    }
    struct array *x = lab_put(lab, values, (count + BEHIND) * sizeof *values, false);
    free(values);
    struct array *hat = lab_values(lab, rows->count * rows->dim, 1);
    struct array *scale = lab_values(lab, rows->count, 1);
    struct array *dhat = lab_values(lab, rows->count * rows->dim, 1);
    struct array *dx = lab_values(lab, count, 1);
    FOR_BOTH(lab)
    {
        struct skep_rows here = gathered(rows, which, side);
        ops->normalise(here, x->at[side], hat->at[side], scale->at[side]);
        ops->normalise_backward(here, dhat->at[side], hat->at[side], scale->at[side], dx->at[side]);
    }
    lab_check(lab);
}

static void normalisation_and_its_gradient_match_plain_and_gathered(void **state)
{
    struct lab lab = lab_of(state);
    FOR_SIZES(rows)
    {
        check_normalise(&lab, rows, false);
        check_normalise(&lab, rows, true);
    }
}

static void a_constant_row_normalises_to_zero(void **state)
{
    struct lab lab = lab_of(state);
    skep_real values[5] = {2, 2, 2, 2, 2};
    struct array *x = lab_put(&lab, values, sizeof values, false);
    struct array *hat = lab_values(&lab, 5, 1);
    struct array *scale = lab_values(&lab, 1, 1);
    FOR_BOTH(&lab)
    {
        ops->normalise((struct skep_rows){1, 5, NULL}, x->at[side], hat->at[side], scale->at[side]);
    }
    skep_real found[5];
    lab.ops[0]->copy_out(found, hat->at[0], sizeof found);
    for (size_t i = 0; i < 5; i++) {
        assert_true(found[i] == 0);
    }
    lab_check(&lab);
}

/* `in_place`: the gradient is written over the one it comes from. */
static void check_affine(struct lab *lab, const struct skep_rows *rows, bool relu, bool in_place)
{
    size_t count = rows->count * rows->dim;
    struct array *hat = lab_values(lab, count, 2);
    struct array *parameters = lab_values(lab, 2 * rows->dim, 1);
    struct array *gradients = lab_values(lab, 2 * rows->dim, 1);
    struct array *y = lab_values(lab, count, 1);
    struct array *dy = lab_values(lab, count, 1);
    struct array *dhat = in_place ? dy : lab_values(lab, count, 1);
    FOR_BOTH(lab)
    {
        skep_real *gain = parameters->at[side];
        skep_real *dgain = gradients->at[side];
        struct skep_affine affine = {gain, gain + rows->dim};
        struct skep_affine gradient = {dgain, dgain + rows->dim};
        if (relu) {
            ops->affine_relu(*rows, hat->at[side], affine, y->at[side]);
            ops->affine_relu_backward(*rows, dy->at[side], y->at[side], hat->at[side], affine,
                                      dhat->at[side], gradient);
        } else {
            ops->affine(*rows, hat->at[side], affine, y->at[side]);
            ops->affine_backward(*rows, dy->at[side], hat->at[side], affine, dhat->at[side],
                                 gradient);
        }
    }
    lab_check(lab);
}

static void scaling_and_its_gradient_match(void **state)
{
    struct lab lab = lab_of(state);
    FOR_SIZES(rows)
    {
        check_affine(&lab, rows, false, false);
        check_affine(&lab, rows, false, true);
    }
}

static void scaling_with_a_rectifier_matches(void **state)
{
    struct lab lab = lab_of(state);
    FOR_SIZES(rows)
    {
        check_affine(&lab, rows, true, false);
        check_affine(&lab, rows, true, true);
    }
}

static void gelu_and_its_slope_match_tanh_from_minus_forty_to_forty(void **state)
{
    struct lab lab = lab_of(state);
    FOR_SIZES(rows)
    {
        size_t count = rows->count * rows->dim;
        struct array *pre = lab_values(&lab, count, rows->count % 2 == 0 ? 40 : 3);
        struct array *bias = lab_values(&lab, rows->dim, 0.5);
        struct array *out = lab_values(&lab, count, 1);
        struct array *dpre = lab_values(&lab, count, 1);
        struct array *dbias = lab_values(&lab, rows->dim, 1);
        FOR_BOTH(&lab)
        {
            ops->gelu(*rows, pre->at[side], bias->at[side], out->at[side]);
            ops->gelu_backward(*rows, pre->at[side], dpre->at[side], dbias->at[side]);
        }
        lab_check(&lab);
    }
}

/* The columns behind a row's place come in as NaN: they may not be read. */
static void check_softmax(struct lab *lab, struct skep_rows rows, struct skep_causal causal)
{
    struct array *scores = lab_values(lab, rows.count * causal.stride, 20);
    struct array *dscores = lab_values(lab, rows.count * causal.stride, 1);
    FOR_BOTH(lab)
    {
        ops->softmax_causal(rows, causal, scores->at[side]);
        ops->softmax_causal_backward(rows, causal, scores->at[side], dscores->at[side]);
    }
    size_t count = rows.count * causal.stride;
    skep_real *found = skep_alloc(count, sizeof *found);
    lab->ops[0]->copy_out(found, scores->at[0], count * sizeof *found);
    for (size_t i = 0; i < rows.count; i++) {
        double sum = 0;
        for (size_t j = 0; j < rows.dim; j++) {
            sum += (double)found[i * causal.stride + j];
            assert_true(j <= causal.first + i || found[i * causal.stride + j] == 0);
        }
        assert_true(fabs(sum - 1) < 1e-4);
    }
    free(found);
    lab_check(lab);
}

static void causal_softmax_matches_and_is_zero_behind_its_place(void **state)
{
    static const size_t ROWS[] = {0, 1, 3, 7, 8, 17, 64, 300};
    struct lab lab = lab_of(state);
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        for (size_t first = 0; first < 20; first += 5) {
            struct skep_rows rows = {ROWS[i], ROWS[i] + first, NULL};
            struct skep_causal causal = {first, rows.dim + 3, (skep_real)0.5, (skep_real)0.25};
            check_softmax(&lab, rows, causal);
        }
    }
}

static void check_cross_entropy(struct lab *lab, const struct skep_rows *rows)
{
    struct array *logits = lab_values(lab, rows->count * rows->dim, 30);
    struct array *target = lab_numbers(lab, rows->count, rows->dim, false);
    struct array *logsumexp = lab_values(lab, rows->count, 1);
    struct array *nats = lab_values(lab, rows->count, 1);
    FOR_BOTH(lab)
    {
        ops->cross_entropy(*rows, logits->at[side], target->at[side], logsumexp->at[side],
                           nats->at[side]);
        ops->cross_entropy_backward(*rows, target->at[side], logsumexp->at[side], (skep_real)0.25,
                                    logits->at[side]);
    }
    lab_check(lab);
}

static void cross_entropy_and_its_gradient_match(void **state)
{
    struct lab lab = lab_of(state);
    FOR_SIZES(rows)
    {
        if (rows->dim > 0) { /* a target needs a column */
            check_cross_entropy(&lab, rows);
        }
    }
}

static void adamw_matches_over_several_steps(void **state)
{
    struct lab lab = lab_of(state);
    FOR_SIZES(rows)
    {
        size_t count = rows->count * rows->dim;
        struct array *first = lab_moments(&lab, count);
        struct array *second = lab_moments(&lab, count);
        struct array *values = lab_values(&lab, count, 1);
        struct array *gradient = lab_values(&lab, count, 1);
        FOR_BOTH(&lab)
        {
            for (int step = 1; step <= 3; step++) {
                struct skep_adamw adamw = {1e-2, 0.9, 0.95, 1e-8, 0.1, 0.5, 0, 0};
                adamw.correction1 = 1 / (1 - pow(0.9, step));
                adamw.correction2 = 1 / (1 - pow(0.95, step));
                ops->adamw(&adamw, count, gradient->at[side], first->at[side], second->at[side],
                           values->at[side]);
            }
        }
        lab_check(&lab);
    }
}

static const struct {
    const char *name;
    void (*check)(void **state);
} CHECKS[] = {
#define CHECK(name)                                                                                \
    {                                                                                              \
#name, name                                                                                \
    }
    CHECK(matrix_products_follow_strides_and_transposes),
    CHECK(a_product_with_beta_zero_does_not_read_what_was_there),
    CHECK(linear_maps_and_their_gradients_match),
    CHECK(values_are_filled_added_multiplied_and_scaled),
    CHECK(a_sum_of_squares_loses_nothing_small_and_nothing_broken),
    CHECK(rows_are_set_added_and_summed),
    CHECK(rows_are_gathered_and_scattered_also_repeatedly),
    CHECK(weighted_rows_are_combined_and_taken_apart),
    CHECK(normalisation_and_its_gradient_match_plain_and_gathered),
    CHECK(a_constant_row_normalises_to_zero),
    CHECK(scaling_and_its_gradient_match),
    CHECK(scaling_with_a_rectifier_matches),
    CHECK(gelu_and_its_slope_match_tanh_from_minus_forty_to_forty),
    CHECK(causal_softmax_matches_and_is_zero_behind_its_place),
    CHECK(cross_entropy_and_its_gradient_match),
    CHECK(adamw_matches_over_several_steps),
};
#define CHECK_COUNT (sizeof CHECKS / sizeof CHECKS[0])
#define NAME_SIZE 160
#define MOST_PAIRS 16

int skep_test_ops_pairs(const struct skep_ops_pair *pairs, size_t count)
{
    static char names[MOST_PAIRS * CHECK_COUNT][NAME_SIZE];
    static struct CMUnitTest tests[MOST_PAIRS * CHECK_COUNT];
    static struct skep_ops_pair states[MOST_PAIRS];
    assert_true(count <= MOST_PAIRS);
    size_t used = 0;
    for (size_t p = 0; p < count; p++) {
        states[p] = pairs[p];
        for (size_t i = 0; i < CHECK_COUNT; i++) {
            char threads[32] = "";
            if (pairs[p].threads > 0) {
                snprintf(threads, sizeof threads, ", %u threads", pairs[p].threads);
            }
            snprintf(names[used], NAME_SIZE, "%s%s: %s", pairs[p].ops->name, threads,
                     CHECKS[i].name);
            tests[used] = (struct CMUnitTest){names[used], CHECKS[i].check, NULL, NULL, &states[p]};
            used++;
        }
    }
    int failures = _cmocka_run_group_tests("operations", tests, used, NULL, NULL);
    skep_ops_set_threads(1);
    return failures;
}

int skep_test_ops(const struct skep_ops *ops)
{
    struct skep_ops_pair pair = {ops, skep_ops_reference(), SKEP_OPS_TOLERANCE, 0, 0};
    return skep_test_ops_pairs(&pair, 1);
}
