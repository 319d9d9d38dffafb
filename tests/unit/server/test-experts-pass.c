/* The arithmetic of remote mode: batches give what their tasks alone would, and accounts get what is theirs. */
#include "server/experts-pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/merge/compress.h"
#include "common/model/layout.h"
#include "common/model/train.h"
#include "tests/lib/cmocka.h"

#define DIM 16u
#define ROWS_MOST 8u

struct scene {
    struct skep_manifest manifest;
    struct skep_shape shape;
    struct skep_remote_parameters parameters;
    struct skep_remote_desk desk;
    struct skep_remote_sessions *sessions;
    struct skep_remote_account *accounts[2];
    struct skep_rng rng;
};

/* A task with bytes of its own. */
struct job {
    struct skep_remote_task task;
    uint8_t x[ROWS_MOST * DIM * 4];
    uint8_t dy[ROWS_MOST * DIM * 4];
    uint8_t answer[ROWS_MOST * DIM * 4];
};

static int open_scene(void **state)
{
    const struct skep_shard shard = {.kind = SKEP_SHARD_FFN};
    struct scene *scene = skep_alloc(1, sizeof *scene);
    *state = scene;
    skep_manifest_defaults(&scene->manifest);
    scene->manifest.model.dim = DIM;
    scene->manifest.model.hidden = 32;
    skep_shape_init(&scene->shape, &scene->manifest, &shard);
    size_t count = scene->shape.layout.parameters;
    scene->parameters.shape = &scene->shape;
    scene->parameters.values = skep_alloc(count, sizeof(float));
    skep_layout_seed(&scene->shape.layout, &scene->manifest.model, &scene->manifest.seed,
                     scene->parameters.values);
    scene->desk.ops = skep_ops_cpu();
    scene->sessions = skep_remote_sessions_new((size_t)1 << 20);
    for (uint8_t i = 0; i < 2; i++) {
        const struct skep_remote_session session = {.token = {{i}}, .statement = {{i}}};
        skep_remote_sessions_open(scene->sessions, &session, 0, NULL);
        skep_remote_account_get(scene->sessions,
                                skep_remote_sessions_find(scene->sessions, &session.token, 0),
                                &shard, count, 0, &scene->accounts[i], NULL);
    }
    scene->rng = skep_rng_of(5);
    return 0;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    skep_remote_desk_done(&scene->desk);
    skep_remote_sessions_free(scene->sessions);
    free(scene->parameters.values);
    skep_shape_done(&scene->shape);
    skep_manifest_done(&scene->manifest);
    free(scene);
    return 0;
}

static void fill(struct scene *scene, uint8_t *to, size_t count, float scale)
{
    for (size_t i = 0; i < count; i++) {
        skep_put_f32(to + 4 * i, scale * (float)(2 * skep_rng_unit(&scene->rng) - 1));
    }
}

/* Of caller 0 or 1; -1: a forward pass. */
static void job_init(struct scene *scene, struct job *job, int caller, size_t rows)
{
    *job = (struct job){0};
    job->task =
        (struct skep_remote_task){.pass = caller < 0 ? SKEP_REMOTE_FORWARD : SKEP_REMOTE_BACKWARD,
                                  .parameters = &scene->parameters,
                                  .account = caller < 0 ? NULL : scene->accounts[caller],
                                  .rows = rows,
                                  .x = job->x,
                                  .dy = job->dy,
                                  .answer = job->answer};
    fill(scene, job->x, rows * DIM, 1);
    fill(scene, job->dy, rows * DIM, 1);
}

static void run(struct scene *scene, struct job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        jobs[i].task.next = i + 1 < count ? &jobs[i + 1].task : NULL;
    }
    skep_remote_desk_run(&scene->desk, &jobs[0].task);
}

static bool near(const float *a, const float *b, size_t count)
{
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        good = good && fabsf(a[i] - b[i]) <= 1e-5f * (1 + fabsf(b[i]));
    }
    return good;
}

static bool same_answer(const struct job *a, const struct job *b)
{
    float first[ROWS_MOST * DIM];
    float second[ROWS_MOST * DIM];
    skep_get_floats(a->answer, a->task.rows * DIM, first);
    skep_get_floats(b->answer, b->task.rows * DIM, second);
    return near(first, second, a->task.rows * DIM);
}

/* The task again, alone, with an account that is empty. */
static struct job alone(struct scene *scene, const struct job *job)
{
    struct job copy = *job;
    struct skep_remote_account *account = scene->accounts[1];
    memset(account->gradient, 0, account->parameters * sizeof(float));
    copy.task.x = copy.x;
    copy.task.dy = copy.dy;
    copy.task.answer = copy.answer;
    copy.task.account = job->task.account != NULL ? account : NULL;
    copy.task.next = NULL;
    skep_remote_desk_run(&scene->desk, &copy.task);
    assert_int_equal(copy.task.result, SKEP_OK);
    return copy;
}

static void a_batch_forward_is_its_tasks_one_by_one(void **state)
{
    struct scene *scene = *state;
    struct job jobs[3];
    for (size_t i = 0; i < 3; i++) {
        job_init(scene, &jobs[i], -1, 1 + 3 * i);
    }
    run(scene, jobs, 3);
    for (size_t i = 0; i < 3; i++) {
        struct job one = alone(scene, &jobs[i]);
        assert_int_equal(jobs[i].task.result, SKEP_OK);
        assert_true(same_answer(&jobs[i], &one));
    }
}

static void each_callers_gradient_is_the_sum_of_his_own(void **state)
{
    struct scene *scene = *state;
    struct job jobs[4];
    size_t count = scene->shape.layout.parameters;
    float *sum = skep_alloc(count, sizeof *sum);
    for (size_t i = 0; i < 4; i++) {
        job_init(scene, &jobs[i], i % 2 == 0 ? 0 : 1, 1 + i); /* callers take turns */
    }
    run(scene, jobs, 4);
    assert_int_equal(scene->accounts[0]->calls, 2);
    assert_int_equal(scene->accounts[0]->rows, 1 + 3);
    assert_int_equal(scene->accounts[1]->rows, 2 + 4);
    for (size_t i = 0; i < 4; i++) {
        struct job one = alone(scene, &jobs[i]);
        assert_int_equal(jobs[i].task.result, SKEP_OK);
        assert_true(same_answer(&jobs[i], &one));
        for (size_t p = 0; i % 2 == 0 && p < count; p++) {
            sum[p] += scene->accounts[1]->gradient[p];
        }
    }
    assert_true(near(scene->accounts[0]->gradient, sum, count));
    free(sum);
}

static void a_task_that_is_not_finite_fails_alone(void **state)
{
    struct scene *scene = *state;
    struct job jobs[3];
    for (size_t i = 0; i < 3; i++) {
        job_init(scene, &jobs[i], 0, 2);
    }
    fill(scene, jobs[1].dy, 2 * DIM, 3e38f);
    run(scene, jobs, 3);
    assert_int_equal(jobs[0].task.result, SKEP_OK);
    assert_int_equal(jobs[1].task.result, SKEP_ERR_NUMERIC);
    assert_non_null(strstr(jobs[1].task.err.text, "not finite"));
    assert_int_equal(jobs[2].task.result, SKEP_OK);
    assert_int_equal(scene->accounts[0]->calls, 2);
    assert_true(isfinite(scene->desk.ops->sum_squares(scene->accounts[0]->gradient,
                                                      scene->accounts[0]->parameters)));
    assert_ptr_equal(jobs[0].task.next, &jobs[1].task); /* the batch is whole again */
    assert_ptr_equal(jobs[1].task.next, &jobs[2].task);
    assert_null(jobs[2].task.next);
}

static struct skep_remote_task update(struct scene *scene)
{
    struct skep_remote_task task = {.pass = SKEP_REMOTE_UPDATE,
                                    .parameters = &scene->parameters,
                                    .account = scene->accounts[0]};
    skep_remote_desk_run(&scene->desk, &task);
    assert_int_equal(task.result, SKEP_OK);
    return task;
}

static void an_update_is_made_once_for_each_version(void **state)
{
    struct scene *scene = *state;
    struct skep_remote_account *account = scene->accounts[0];
    struct job job;
    assert_int_equal(update(scene).step.outcome, SKEP_REMOTE_EMPTY);
    job_init(scene, &job, 0, 4);
    run(scene, &job, 1);
    struct skep_remote_task made = update(scene);
    assert_int_equal(made.step.outcome, SKEP_REMOTE_MADE);
    assert_int_equal(made.step.rows, 4);
    assert_int_equal(account->step, 1);
    assert_int_equal(
        skep_shape_check_body(&scene->shape, 0, made.step.body.data, made.step.body.size, NULL),
        SKEP_OK);
    skep_buffer_done(&made.step.body);
    assert_int_equal(update(scene).step.outcome, SKEP_REMOTE_EMPTY);
    run(scene, &job, 1);
    assert_int_equal(update(scene).step.outcome, SKEP_REMOTE_EARLY);
    assert_int_equal(account->calls, 1); /* it stays */
    scene->parameters.version = 1;
    made = update(scene);
    assert_int_equal(made.step.outcome, SKEP_REMOTE_MADE);
    assert_int_equal(account->calls, 0);
    skep_buffer_done(&made.step.body);
}

/* What is sent and what is kept for later are together AdamW's first step: the rate in each place, against the gradient's sign, and weight
 * decay. */
static void an_update_and_its_residual_are_one_adamw_step(void **state)
{
    struct scene *scene = *state;
    const struct skep_training_config *training = &scene->manifest.training;
    struct skep_remote_account *account = scene->accounts[0];
    size_t count = account->parameters;
    float *gradient = skep_alloc(count, sizeof *gradient);
    struct job job;
    job_init(scene, &job, 0, 8);
    run(scene, &job, 1);
    memcpy(gradient, account->gradient, count * sizeof *gradient);
    struct skep_remote_task made = update(scene);
    struct skep_update_body body = {0};
    assert_int_equal(skep_update_body_decode(made.step.body.data, made.step.body.size,
                                             scene->shape.tilings, scene->shape.layout.tensor_count,
                                             scene->manifest.update.scale_ceiling, &body, NULL),
                     SKEP_OK);
    for (size_t t = 0; t < body.tensor_count; t++) {
        skep_decompress_add(&body.tensors[t], 1, account->residual + scene->shape.offsets[t]);
    }
    double rate = skep_train_rate(training, 0);
    for (size_t t = 0; t < scene->shape.layout.tensor_count; t++) {
        const struct skep_tensor_spec *spec = &scene->shape.layout.tensors[t];
        double decay = spec->decayed ? training->weight_decay : 0;
        for (size_t p = spec->offset; p < spec->offset + spec->count; p++) {
            double step = rate * ((gradient[p] > 0) - (gradient[p] < 0)) +
                          rate * decay * (double)scene->parameters.values[p];
            if (fabsf(gradient[p]) > 1e-3f) { /* epsilon counts below */
                assert_true(fabs(account->residual[p] - step) < 1e-3 * rate);
            }
        }
    }
    skep_update_body_done(&body);
    skep_buffer_done(&made.step.body);
    free(gradient);
}

static void what_is_finite_is_seen_in_bytes(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    uint8_t *bytes = skep_alloc(COUNT, 4);
    assert_true(skep_remote_finite(bytes, COUNT));
    skep_put_f32(bytes + 4 * (COUNT - 1), INFINITY);
    assert_false(skep_remote_finite(bytes, COUNT));
    assert_true(skep_remote_finite(bytes, COUNT - 1));
    skep_put_f32(bytes + 4 * 1500, NAN);
    assert_false(skep_remote_finite(bytes, COUNT - 1));
    free(bytes);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_scene, close_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_batch_forward_is_its_tasks_one_by_one),
        CASE(each_callers_gradient_is_the_sum_of_his_own),
        CASE(a_task_that_is_not_finite_fails_alone),
        CASE(an_update_is_made_once_for_each_version),
        CASE(an_update_and_its_residual_are_one_adamw_step),
        cmocka_unit_test(what_is_finite_is_seen_in_bytes),
    };
    return cmocka_run_group_tests_name("experts-pass", tests, NULL, NULL);
}
