/* Comparing a recomputed body with the published one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/swarm/audit.h"
#include "tests/lib/cmocka.h"

#define KEPT 4u
#define BLOCKS 2u

/* One tensor of two blocks of 64 values, four kept in each. */
struct fixture {
    struct skep_update_body body;
    struct skep_update_tensor tensor;
    uint16_t indices[BLOCKS * KEPT];
    uint8_t codes[BLOCKS * KEPT];
};

static void make(struct fixture *f)
{
    static const uint16_t indices[] = {1, 5, 9, 60, 0, 2, 4, 63};
    static const uint8_t codes[] = {0, 3, 1, 2, 3, 0, 2, 1};
    *f = (struct fixture){
        .tensor = {.tiling = {1, 128, 1, 64, BLOCKS, KEPT}, .codebook = {-3, -1, 1, 3}}};
    memcpy(f->indices, indices, sizeof indices);
    memcpy(f->codes, codes, sizeof codes);
    f->tensor.indices = f->indices;
    f->tensor.codes = f->codes;
    f->body = (struct skep_update_body){.tensor_count = 1, .tensors = &f->tensor};
}

static struct skep_audit_likeness compare(const struct fixture *a, const struct fixture *b)
{
    struct skep_audit_likeness likeness = {-1, -1};
    assert_int_equal(skep_audit_compare(&a->body, &b->body, &likeness, NULL), SKEP_OK);
    return likeness;
}

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) < 1e-9)) {
        fail_msg("%.12f is not %.12f", value, expected);
    }
}

static void the_same_body_is_valid(void **state)
{
    (void)state;
    struct fixture a;
    struct fixture b;
    make(&a);
    make(&b);
    struct skep_audit_likeness likeness = compare(&a, &b);
    assert_near(likeness.distance, 0);
    assert_near(likeness.overlap, 1);
    assert_true(skep_audit_valid(&likeness));
}

static void a_swap_at_the_edge_costs_its_two_values(void **state)
{
    (void)state;
    struct fixture a;
    struct fixture b;
    make(&a);
    make(&b);
    b.indices[2] = 10; /* -1 at 9 against -1 at 10; squares of each body: 4 * 9 + 4 * 1 */
    struct skep_audit_likeness likeness = compare(&a, &b);
    assert_near(likeness.distance, sqrt(2.0 / 40));
    assert_near(likeness.overlap, 15.0 / 17);
    assert_near(compare(&b, &a).distance, likeness.distance);
}

static void a_changed_code_costs_the_step_between_the_entries(void **state)
{
    (void)state;
    struct fixture a;
    struct fixture b;
    make(&a);
    make(&b);
    b.codes[2] = 2; /* -1 becomes 1 */
    struct skep_audit_likeness likeness = compare(&a, &b);
    assert_near(likeness.distance, sqrt(4.0 / 40));
    assert_near(likeness.overlap, 1);
}

static void codes_mean_what_their_codebook_says(void **state)
{
    (void)state;
    struct fixture a;
    struct fixture b;
    make(&a);
    make(&b);
    float up[4] = {-3, -3, -1, 1}; /* other codes, mostly the same values */
    memcpy(b.tensor.codebook, up, sizeof up);
    for (size_t i = 0; i < BLOCKS * KEPT; i++) {
        b.codes[i] = (uint8_t)(a.codes[i] == 3 ? 3 : a.codes[i] + 1);
    }
    struct skep_audit_likeness likeness = compare(&a, &b);
    assert_near(likeness.distance, sqrt((2 * 4.0) / 40)); /* the two 3s are 1s in b */
}

static void ties_between_zeros_do_not_count(void **state)
{
    (void)state;
    struct fixture a;
    struct fixture b;
    make(&a);
    make(&b);
    a.tensor.codebook[1] = b.tensor.codebook[1] = 0;
    b.indices[2] = 10;
    b.indices[7] = 62;
    struct skep_audit_likeness likeness = compare(&a, &b);
    assert_near(likeness.distance, 0);
    assert_near(likeness.overlap, 1);
    memset(a.tensor.codebook, 0, sizeof a.tensor.codebook);
    memset(b.tensor.codebook, 0, sizeof b.tensor.codebook);
    likeness = compare(&a, &b);
    assert_true(skep_audit_valid(&likeness));
}

static void another_body_is_invalid(void **state)
{
    (void)state;
    struct fixture a;
    struct fixture b;
    make(&a);
    make(&b);
    for (size_t i = 0; i < BLOCKS * KEPT; i++) {
        b.codes[i] = (uint8_t)(3 - a.codes[i]);
    }
    struct skep_audit_likeness likeness = compare(&a, &b);
    assert_near(likeness.distance, 2);
    assert_false(skep_audit_valid(&likeness));
    memset(b.tensor.codebook, 0, sizeof b.tensor.codebook); /* a free-rider's zeros */
    likeness = compare(&a, &b);
    assert_near(likeness.distance, 1);
    assert_near(likeness.overlap, 0);
    assert_false(skep_audit_valid(&likeness));
    make(&b);
    for (size_t i = 0; i < 4; i++) { /* the same direction, but longer */
        b.tensor.codebook[i] *= 2;
    }
    likeness = compare(&a, &b);
    assert_near(likeness.distance, 0.5);
    assert_false(skep_audit_valid(&likeness));
}

static void other_shapes_are_refused(void **state)
{
    (void)state;
    struct fixture a;
    struct fixture b;
    make(&a);
    make(&b);
    struct skep_audit_likeness likeness = {-1, -1};
    struct skep_error err = {0};
    b.tensor.tiling.kept = 3;
    assert_int_equal(skep_audit_compare(&a.body, &b.body, &likeness, &err), SKEP_ERR_FORMAT);
    assert_string_equal(err.text,
                        "tensor 0 of the update is 1 x 128 with 4 kept, of the recomputed "
                        "one 1 x 128 with 3");
    b.body.tensor_count = 0;
    assert_int_equal(skep_audit_compare(&a.body, &b.body, &likeness, &err), SKEP_ERR_FORMAT);
    assert_near(likeness.distance, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_body_is_valid),
        cmocka_unit_test(a_swap_at_the_edge_costs_its_two_values),
        cmocka_unit_test(a_changed_code_costs_the_step_between_the_entries),
        cmocka_unit_test(codes_mean_what_their_codebook_says),
        cmocka_unit_test(ties_between_zeros_do_not_count),
        cmocka_unit_test(another_body_is_invalid),
        cmocka_unit_test(other_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
