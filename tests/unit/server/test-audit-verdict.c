/* A published update beside the repeated one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/merge/compress.h"
#include "server/audit-verdict.h"
#include "tests/lib/cmocka.h"
#include "tests/lib/tiny-model.h"

#define STEP 40u

struct fixture {
    struct skep_manifest manifest;
    struct skep_shape shape;
};

/* One side of the comparison, in the bytes in which it would be on a disk. */
struct made {
    struct skep_buffer body;
    uint8_t *floats; /* first and second moments, residual */
    struct skep_history history;
};

static int set_up(void **state)
{
    struct fixture *fixture = skep_alloc(1, sizeof *fixture);
    struct skep_manifest *manifest = &fixture->manifest;
    skep_test_tiny_manifest(manifest);
    manifest->model.vocabulary = 16;
    skep_shape_init(&fixture->shape, manifest, &(struct skep_shard){.kind = SKEP_SHARD_TRUNK});
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    skep_shape_done(&fixture->shape);
    skep_manifest_done(&fixture->manifest);
    free(fixture);
    return 0;
}

/* What a donor makes of a difference that is `scale` times a fixed one, with a little noise. */
static struct made make(const struct fixture *fixture, float scale, float noise)
{
    const struct skep_shape *shape = &fixture->shape;
    size_t count = shape->layout.parameters;
    float *delta = skep_alloc(count, sizeof *delta);
    float *residual = skep_alloc(count, sizeof *residual);
    struct skep_update_body body = {0};
    struct made made = {.floats = skep_alloc(count, 12)};
    for (size_t i = 0; i < count; i++) {
        delta[i] = scale * sinf((float)i) * (1 + noise * cosf((float)(7 * i)));
        skep_put_f32(made.floats + 4 * i, delta[i]);
        skep_put_f32(made.floats + 4 * (count + i), delta[i] * delta[i]);
    }
    assert_int_equal(skep_shape_compress(shape, 0, delta, residual, &body, NULL), SKEP_OK);
    skep_update_body_encode(&body, &made.body);
    skep_put_floats(made.floats + 8 * count, residual, count);
    made.history = (struct skep_history){.step = STEP,
                                         .first = made.floats,
                                         .second = made.floats + 4 * count,
                                         .residual = made.floats + 8 * count};
    skep_update_body_done(&body);
    free(delta);
    free(residual);
    return made;
}

static void made_done(struct made *made)
{
    skep_buffer_done(&made->body);
    free(made->floats);
}

static struct skep_audit_look look(const struct fixture *fixture, const struct made *published,
                                   const struct made *repeated, bool with_history)
{
    struct skep_audit_look found = {0};
    struct skep_audit_side sides[2] = {
        {published->body.data, published->body.size, with_history ? &published->history : NULL,
         STEP + 20},
        {repeated->body.data, repeated->body.size, with_history ? &repeated->history : NULL, 0}};
    assert_int_equal(skep_audit_look_at(&fixture->shape, 0, &sides[0], &sides[1], &found, NULL),
                     SKEP_OK);
    return found;
}

static void the_same_is_valid_and_so_is_what_differs_as_machines_do(void **state)
{
    const struct fixture *fixture = *state;
    struct made a = make(fixture, 0.01f, 0);
    struct made b = make(fixture, 0.01f, 1e-6f);
    struct skep_audit_look same = look(fixture, &a, &a, true);
    struct skep_audit_look near = look(fixture, &a, &b, true);
    assert_true(same.body.distance == 0 && same.carried == 0 && same.first == 0);
    assert_true(skep_audit_look_valid(&same));
    assert_true(near.first > 0 && near.carried > 0);
    assert_true(skep_audit_look_valid(&near));
    made_done(&a);
    made_done(&b);
}

static void a_body_turned_around_is_invalid(void **state)
{
    const struct fixture *fixture = *state;
    struct made a = make(fixture, 0.01f, 0);
    struct made b = make(fixture, -0.01f, 0);
    struct skep_audit_look found = look(fixture, &b, &a, false);
    assert_false(found.has_history);
    assert_true(found.body.distance > 1.5);
    assert_false(skep_audit_look_valid(&found));
    made_done(&a);
    made_done(&b);
}

static void an_honest_body_with_an_invented_history_is_invalid(void **state)
{
    const struct fixture *fixture = *state;
    size_t count = fixture->shape.layout.parameters;
    struct made honest = make(fixture, 0.01f, 0);
    /* the lie is in the first moments, the second, and in what the next job carries on */
    for (size_t part = 0; part < 3; part++) {
        struct made lie = make(fixture, 0.01f, 0);
        for (size_t i = 0; i < count; i++) {
            skep_put_f32(lie.floats + 4 * (part * count + i), -1.0f);
        }
        struct skep_audit_look found = look(fixture, &lie, &honest, true);
        assert_true(found.body.distance == 0);
        assert_false(skep_audit_look_valid(&found));
        made_done(&lie);
    }
    made_done(&honest);
}

static void a_step_that_the_job_does_not_give_or_nobody_can_have_made_is_invalid(void **state)
{
    const struct fixture *fixture = *state;
    struct made honest = make(fixture, 0.01f, 0);
    struct made lie = make(fixture, 0.01f, 0);
    for (uint64_t step = STEP - 1; step <= STEP + 1; step++) {
        lie.history.step = step;
        struct skep_audit_look found = look(fixture, &lie, &honest, true);
        assert_int_equal(skep_audit_look_valid(&found), step == STEP);
    }
    /* begun with a lie and honestly carried on */
    for (uint64_t step = STEP + 20; step <= STEP + 21; step++) {
        lie.history.step = step;
        honest.history.step = step;
        struct skep_audit_look found = look(fixture, &lie, &honest, true);
        assert_int_equal(skep_audit_look_valid(&found), step == STEP + 20);
    }
    made_done(&lie);
    made_done(&honest);
}

static void bytes_that_are_no_body_are_refused(void **state)
{
    const struct fixture *fixture = *state;
    struct made a = make(fixture, 0.01f, 0);
    struct skep_audit_look found = {0};
    struct skep_audit_side good = {a.body.data, a.body.size, NULL, 0};
    struct skep_audit_side cut = {a.body.data, a.body.size - 1, NULL, 0};
    assert_int_equal(skep_audit_look_at(&fixture->shape, 0, &cut, &good, &found, NULL),
                     SKEP_ERR_FORMAT);
    assert_int_equal(skep_audit_look_at(&fixture->shape, 0, &good, &cut, &found, NULL),
                     SKEP_ERR_FORMAT);
    made_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_is_valid_and_so_is_what_differs_as_machines_do,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_body_turned_around_is_invalid, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_honest_body_with_an_invented_history_is_invalid, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_step_that_the_job_does_not_give_or_nobody_can_have_made_is_invalid, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(bytes_that_are_no_body_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
