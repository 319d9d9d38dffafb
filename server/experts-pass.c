#include "server/experts-pass.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/merge/compress.h"
#include "common/model/expert.h"
#include "common/model/train.h"

#define LINE_FLOATS 16u /* a cache line */
#define CHECK_FLOATS 1024u

void skep_remote_desk_done(struct skep_remote_desk *desk)
{
    if (desk->memory != NULL) {
        desk->ops->memory_free(desk->memory);
    }
    *desk = (struct skep_remote_desk){.ops = desk->ops};
}

/* ---- memory ---- */

/* Pieces of the desk, one after the other. The first walk, without memory, only counts. */
struct pieces {
    float *memory;
    size_t used;
};

static float *piece(struct pieces *pieces, size_t count)
{
    float *at = pieces->memory != NULL ? pieces->memory + pieces->used : NULL;
    pieces->used += (count + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
    return at;
}

static bool reserve(struct skep_remote_desk *desk, size_t count)
{
    if (count <= desk->size) {
        return true;
    }
    skep_remote_desk_done(desk);
    desk->memory = desk->ops->memory_new(count * sizeof(float));
    desk->size = desk->memory != NULL ? count : 0;
    return desk->memory != NULL;
}

/* ---- batches ---- */

static size_t rows_of(const struct skep_remote_task *batch)
{
    size_t rows = 0;
    for (const struct skep_remote_task *task = batch; task != NULL; task = task->next) {
        rows += task->rows;
    }
    return rows;
}

static void fail_all(struct skep_remote_task *batch, enum skep_err code, const char *sentence)
{
    for (struct skep_remote_task *task = batch; task != NULL; task = task->next) {
        task->result = skep_error_set(&task->err, code, "%s", sentence);
    }
}

/* Are all exponent bits set in one of them (IEEE 754: infinite or not a number)? Blocks of fixed size, because compilers take several at
 * once then, and an expert's gradient is looked at after every backward pass. */
static bool block_finite(const float values[CHECK_FLOATS])
{
    uint32_t bad = 0;
    for (size_t i = 0; i < CHECK_FLOATS; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

static bool all_finite(const float *values, size_t count)
{
    size_t done = 0;
    bool good = true;
    for (; done + CHECK_FLOATS <= count && good; done += CHECK_FLOATS) {
        good = block_finite(values + done);
    }
    for (; done < count && good; done++) {
        good = isfinite(values[done]);
    }
    return good;
}

bool skep_remote_finite(const uint8_t *bytes, size_t count)
{
    float values[CHECK_FLOATS];
    bool good = true;
    for (size_t done = 0; done < count && good;) {
        size_t part = count - done < CHECK_FLOATS ? count - done : CHECK_FLOATS;
        skep_get_floats(bytes + 4 * done, part, values);
        good = all_finite(values, part);
        done += part;
    }
    return good;
}

/* Hands each task its rows of a result; those that are not finite fail. */
static void answer_rows(struct skep_remote_task *batch, const float *values, size_t dim,
                        const char *what)
{
    for (struct skep_remote_task *task = batch; task != NULL; task = task->next) {
        size_t count = task->rows * dim;
        if (all_finite(values, count)) {
            skep_put_floats(task->answer, values, count);
        } else {
            char name[SKEP_SHARD_TEXT_SIZE];
            skep_shard_format(&task->parameters->shape->layout.shard, name);
            task->result =
                skep_error_set(&task->err, SKEP_ERR_NUMERIC,
                               "%s of %s is not finite: its input is too large", what, name);
        }
        values += count;
    }
}

static void run_forward(struct skep_remote_desk *desk, struct skep_remote_task *batch)
{
    const struct skep_shape *shape = batch->parameters->shape;
    struct skep_expert_shape expert = skep_expert_shape_of(&shape->manifest->model);
    struct skep_rows rows = {.count = rows_of(batch), .dim = expert.dim};
    struct pieces pieces = {0};
    float *x = NULL;
    float *y = NULL;
    float *work = NULL;
    for (int walk = 0; walk < 2; walk++) {
        x = piece(&pieces, rows.count * rows.dim);
        y = piece(&pieces, rows.count * rows.dim);
        work = piece(&pieces, skep_expert_work(expert, rows.count));
        if (walk == 0 && !reserve(desk, pieces.used)) {
            fail_all(batch, SKEP_ERR_MEMORY, "no memory for a batch of this size");
            return;
        }
        pieces = (struct pieces){.memory = desk->memory};
    }
    float *at = x;
    for (const struct skep_remote_task *task = batch; task != NULL; task = task->next) {
        skep_get_floats(task->x, task->rows * rows.dim, at);
        at += task->rows * rows.dim;
    }
    skep_expert_forward(desk->ops, expert, batch->parameters->values, rows, x, work, y);
    assert(y != NULL);
    answer_rows(batch, y, rows.dim, "the output");
}

/* ---- backward ---- */

/* The arrays of one caller's backward pass. */
struct back {
    float *x;
    float *dy;
    float *dx;
    float *work;
    float *scratch;
    float *gradient;
};

static bool lay_out_back(struct skep_remote_desk *desk, struct skep_expert_shape expert,
                         size_t rows, struct back *back)
{
    struct pieces pieces = {0};
    for (int walk = 0; walk < 2; walk++) {
        back->x = piece(&pieces, rows * expert.dim);
        back->dy = piece(&pieces, rows * expert.dim);
        back->dx = piece(&pieces, rows * expert.dim);
        back->work = piece(&pieces, skep_expert_work(expert, rows));
        back->scratch = piece(&pieces, skep_expert_scratch(expert, rows));
        back->gradient = piece(&pieces, skep_expert_parameters(expert));
        if (walk == 0 && !reserve(desk, pieces.used)) {
            return false;
        }
        pieces = (struct pieces){.memory = desk->memory};
    }
    return true;
}

/* Adds what a caller's tasks gave to his account. */
static void account_add(struct skep_remote_desk *desk, struct skep_remote_task *tasks,
                        const float *gradient)
{
    struct skep_remote_account *account = tasks->account;
    pthread_mutex_lock(&account->lock);
    desk->ops->add(gradient, account->parameters, account->gradient);
    account->rows += rows_of(tasks);
    for (const struct skep_remote_task *task = tasks; task != NULL; task = task->next) {
        account->calls++;
    }
    pthread_mutex_unlock(&account->lock);
}

/* One caller's tasks. True if all went well; else nothing was added and each has its error. */
static bool run_caller(struct skep_remote_desk *desk, struct skep_remote_task *tasks)
{
    const struct skep_ops *ops = desk->ops;
    const float *parameters = tasks->parameters->values;
    struct skep_expert_shape expert =
        skep_expert_shape_of(&tasks->parameters->shape->manifest->model);
    struct skep_rows rows = {.count = rows_of(tasks), .dim = expert.dim};
    struct back back;
    if (!lay_out_back(desk, expert, rows.count, &back)) {
        fail_all(tasks, SKEP_ERR_MEMORY, "no memory for a batch of this size");
        return false;
    }
    size_t done = 0;
    for (const struct skep_remote_task *task = tasks; task != NULL; task = task->next) {
        skep_get_floats(task->x, task->rows * rows.dim, back.x + done);
        skep_get_floats(task->dy, task->rows * rows.dim, back.dy + done);
        done += task->rows * rows.dim;
    }
    skep_expert_forward(ops, expert, parameters, rows, back.x, back.work, NULL);
    ops->fill(rows.count * rows.dim, 0, back.dx);
    const struct skep_expert_backward pass = {.x = back.x,
                                              .dy = back.dy,
                                              .work = back.work,
                                              .scratch = back.scratch,
                                              .dx = back.dx,
                                              .dparameters = back.gradient,
                                              .beta = 0};
    skep_expert_backward(ops, expert, parameters, rows, &pass);
    assert(back.gradient != NULL && back.dx != NULL);
    if (!all_finite(back.gradient, skep_expert_parameters(expert))) {
        fail_all(tasks, SKEP_ERR_NUMERIC,
                 "the gradient of the parameters is not finite: the input is too large");
        return false;
    }
    answer_rows(tasks, back.dx, rows.dim, "the gradient of the input");
    for (const struct skep_remote_task *task = tasks; task != NULL; task = task->next) {
        if (task->result != SKEP_OK) {
            return false;
        }
    }
    account_add(desk, tasks, back.gradient);
    return true;
}

/* Cuts the tasks of the first one's caller out of the batch; returns the rest. */
static struct skep_remote_task *split_caller(struct skep_remote_task *batch)
{
    struct skep_remote_task *rest = NULL;
    struct skep_remote_task **rest_end = &rest;
    struct skep_remote_task *end = batch;
    struct skep_remote_task *next = NULL;
    for (struct skep_remote_task *task = batch->next; task != NULL; task = next) {
        next = task->next;
        if (task->account == batch->account) {
            end->next = task;
            end = task;
        } else {
            *rest_end = task;
            rest_end = &task->next;
        }
    }
    end->next = NULL;
    *rest_end = NULL;
    return rest;
}

/* Each task alone: one of them spoiled the common pass. */
static void run_one_by_one(struct skep_remote_desk *desk, struct skep_remote_task *tasks)
{
    struct skep_remote_task *next = NULL;
    for (struct skep_remote_task *task = tasks; task != NULL; task = next) {
        next = task->next;
        task->next = NULL;
        task->result = SKEP_OK;
        (void)run_caller(desk, task);
        task->next = next;
    }
}

static void run_backward(struct skep_remote_desk *desk, struct skep_remote_task *batch)
{
    struct skep_remote_task *end = NULL; /* of what is done, so that the batch stays one list */
    while (batch != NULL) {
        struct skep_remote_task *rest = split_caller(batch);
        if (!run_caller(desk, batch) && batch->next != NULL) {
            run_one_by_one(desk, batch);
        }
        if (end != NULL) {
            end->next = batch;
        }
        for (end = batch; end->next != NULL;) {
            end = end->next;
        }
        batch = rest;
    }
}

/* ---- updates ---- */

static double clip_factor(double clip, double norm)
{
    return clip > 0 && norm > clip ? clip / norm : 1;
}

/* AdamW along the account's mean gradient: `end` becomes the parameters after the step. */
static void step(const struct skep_ops *ops, const struct skep_remote_parameters *parameters,
                 struct skep_remote_account *account, double norm, float *end)
{
    const struct skep_training_config *training = &parameters->shape->manifest->training;
    const struct skep_layout *layout = &parameters->shape->layout;
    account->step++;
    struct skep_adamw adamw = {
        .rate = skep_train_rate(training, parameters->version),
        .beta1 = training->beta1,
        .beta2 = training->beta2,
        .epsilon = training->epsilon,
        .gradient = clip_factor(training->clip, norm) / (double)account->calls,
        .correction1 = 1 / (1 - pow(training->beta1, (double)account->step)),
        .correction2 = 1 / (1 - pow(training->beta2, (double)account->step))};
    memcpy(end, parameters->values, layout->parameters * sizeof *end);
    for (size_t i = 0; i < layout->tensor_count; i++) {
        const struct skep_tensor_spec *spec = &layout->tensors[i];
        adamw.decay = spec->decayed ? training->weight_decay : 0;
        ops->adamw(&adamw, spec->count, account->gradient + spec->offset,
                   account->first + spec->offset, account->second + spec->offset,
                   end + spec->offset);
    }
}

static void clear_gradient(struct skep_remote_account *account)
{
    memset(account->gradient, 0, account->parameters * sizeof *account->gradient);
    account->calls = 0;
    account->rows = 0;
}

static int make_update(struct skep_remote_desk *desk, struct skep_remote_task *task,
                       struct skep_error *err)
{
    struct skep_remote_account *account = task->account;
    const struct skep_remote_parameters *parameters = task->parameters;
    const struct skep_shape *shape = parameters->shape;
    double squares = desk->ops->sum_squares(account->gradient, account->parameters);
    if (!isfinite(squares)) {
        clear_gradient(account);
        return skep_error_set(err, SKEP_ERR_NUMERIC,
                              "the sum of the gradients is not finite; it was dropped");
    }
    if (!reserve(desk, account->parameters)) {
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory for %zu parameters",
                              account->parameters);
    }
    float *delta = desk->memory;
    step(desk->ops, parameters, account, sqrt(squares) / (double)account->calls, delta);
    for (size_t i = 0; i < account->parameters; i++) {
        delta[i] = parameters->values[i] - delta[i];
    }
    struct skep_update_body body = {0};
    int result =
        skep_shape_compress(shape, parameters->version, delta, account->residual, &body, err);
    if (result == SKEP_OK) {
        skep_update_body_encode(&body, &task->step.body);
        task->step.outcome = SKEP_REMOTE_MADE;
        task->step.rows = account->rows;
        account->has_base = true;
        account->base_version = parameters->version;
    }
    skep_update_body_done(&body);
    clear_gradient(account);
    return result;
}

static void run_update(struct skep_remote_desk *desk, struct skep_remote_task *task)
{
    struct skep_remote_account *account = task->account;
    if (account == NULL) {
        task->step.outcome = SKEP_REMOTE_EMPTY;
        return;
    }
    pthread_mutex_lock(&account->lock);
    if (account->calls == 0) {
        task->step.outcome = SKEP_REMOTE_EMPTY;
    } else if (account->has_base && account->base_version >= task->parameters->version) {
        task->step.outcome = SKEP_REMOTE_EARLY;
    } else {
        task->result = make_update(desk, task, &task->err);
    }
    pthread_mutex_unlock(&account->lock);
}

void skep_remote_desk_run(struct skep_remote_desk *desk, struct skep_remote_task *batch)
{
    assert(desk->ops->on_host);
    switch (batch->pass) {
    case SKEP_REMOTE_FORWARD:
        run_forward(desk, batch);
        break;
    case SKEP_REMOTE_BACKWARD:
        run_backward(desk, batch);
        break;
    case SKEP_REMOTE_UPDATE:
        run_update(desk, batch);
        break;
    }
}
