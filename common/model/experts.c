#include "common/model/experts.h"

#include <math.h>
#include <string.h>

#include "common/model/gate.h"

#define ALIGN ((size_t)16) /* values in a cache line */
/* How often the work of one group is rounded up to lines: as a whole, and for the two scales of a paper_ffn. */
#define ROUNDINGS 3

size_t skep_experts_work(const struct skep_model_config *config,
                         const struct skep_model_options *options, size_t tokens)
{
    struct skep_expert_shape shape = skep_expert_shape_of(config);
    if (options->calls != NULL) {
        return 0;
    }
    if (options->forward_only) {
        return skep_expert_work(shape, tokens); /* no token chooses an expert twice */
    }
    size_t grid = (size_t)config->rows * config->columns;
    return skep_expert_work(shape, tokens * config->experts_per_token) + ROUNDINGS * ALIGN * grid;
}

/* Nothing reads what the last layer makes of tokens before the first output, so no expert need work on them. */
static bool is_needed(const struct skep_model *model, uint32_t layer, size_t token)
{
    return layer + 1 < model->config.layers || token % model->length >= model->first_output;
}

/* Sorts the (token, expert) pairs by expert: a counting sort, so tokens stay in order. */
static void sort_pairs(struct skep_model *model, uint32_t layer)
{
    struct skep_model_kept *kept = &model->kept[layer];
    size_t grid = skep_model_grid(model);
    size_t k = model->config.experts_per_token;
    size_t places = skep_model_tokens(model) * k;
    memset(kept->first, 0, (grid + 1) * sizeof *kept->first);
    for (size_t i = 0; i < places; i++) {
        if (kept->chosen[i] != SKEP_NO_EXPERT && is_needed(model, layer, i / k)) {
            kept->first[kept->chosen[i]]++;
        }
    }
    size_t end = 0;
    for (size_t e = 0; e <= grid; e++) {
        end += kept->first[e];
        kept->first[e] = end;
    }
    for (size_t i = places; i-- > 0;) {
        if (kept->chosen[i] != SKEP_NO_EXPERT && is_needed(model, layer, i / k)) {
            size_t pair = --kept->first[kept->chosen[i]];
            kept->pair_place[pair] = (uint32_t)i;
        }
    }
}

static size_t pair_count(const struct skep_model *model, uint32_t layer)
{
    return model->kept[layer].first[skep_model_grid(model)];
}

/* Fills model->groups; returns how many. */
static size_t list_groups(struct skep_model *model, uint32_t layer)
{
    const size_t *first = model->kept[layer].first;
    size_t count = 0;
    for (size_t e = 0; e < skep_model_grid(model); e++) {
        if (first[e + 1] > first[e]) {
            model->groups[count++] =
                (struct skep_expert_group){(uint32_t)e, first[e], first[e + 1] - first[e]};
        }
    }
    return count;
}

/* Sorts and tells the table which token each pair belongs to. */
static void group(struct skep_model *model, uint32_t layer)
{
    struct skep_model_kept *kept = &model->kept[layer];
    size_t k = model->config.experts_per_token;
    sort_pairs(model, layer);
    size_t pairs = pair_count(model, layer);
    for (size_t i = 0; i < pairs; i++) {
        model->index[i] = (uint32_t)(kept->pair_place[i] / k);
        model->pair_reals[i] = kept->weight[kept->pair_place[i]];
    }
    model->ops->copy_in(kept->pair_token, model->index, pairs * sizeof *model->index);
    model->ops->copy_in(kept->pair_weight, model->pair_reals, pairs * sizeof *model->pair_reals);
}

/* Where the work of a group lies, given that of the one before ended at *used. */
static skep_real *take_work(const struct skep_model *model, uint32_t layer, size_t count,
                            size_t *used)
{
    size_t at = model->options.forward_only ? 0 : *used;
    *used = at + (skep_expert_work(model->shape, count) + ALIGN - 1) / ALIGN * ALIGN;
    return model->kept[layer].inner.work + at;
}

void skep_experts_again(struct skep_model *model, uint32_t layer)
{
    const struct skep_model_kept *kept = &model->kept[layer];
    size_t d = model->config.dim;
    size_t count = model->options.calls != NULL ? 0 : list_groups(model, layer);
    size_t used = 0;
    for (size_t i = 0; i < count && !skep_ops_stopped(); i++) {
        const struct skep_expert_group *group = &model->groups[i];
        skep_expert_forward(
            model->ops, model->shape, skep_model_expert_at(model, layer, group->expert)->values,
            (struct skep_rows){group->count, d, kept->pair_token + group->first}, model->x,
            take_work(model, layer, group->count, &used), kept->expert_out + group->first * d);
    }
}

/* Takes the experts of silent groups out of the choice and the rows of their pairs out of x and y. */
static void drop_silent(struct skep_model *model, uint32_t layer, size_t group_count, skep_real *x,
                        skep_real *y)
{
    struct skep_model_kept *kept = &model->kept[layer];
    size_t d = model->config.dim;
    size_t kept_rows = 0;
    for (size_t g = 0; g < group_count; g++) {
        const struct skep_expert_group *group = &model->groups[g];
        if (!model->answered[g]) {
            for (size_t i = group->first; i < group->first + group->count; i++) {
                kept->chosen[kept->pair_place[i]] = SKEP_NO_EXPERT;
            }
            continue;
        }
        memmove(x + kept_rows * d, x + group->first * d, group->count * d * sizeof *x);
        memmove(y + kept_rows * d, y + group->first * d, group->count * d * sizeof *y);
        kept_rows += group->count;
    }
    skep_gate_weigh_again(model, layer);
}

static int check_answers(const struct skep_model *model, uint32_t layer, size_t group_count,
                         const skep_real *values, const char *pass, struct skep_error *err)
{
    size_t d = model->config.dim;
    for (size_t g = 0; g < group_count; g++) {
        const struct skep_expert_group *group = &model->groups[g];
        for (size_t i = group->first * d;
             model->answered[g] && i < (group->first + group->count) * d; i++) {
            if (!isfinite((double)values[i])) {
                return skep_error_set(
                    err, SKEP_ERR_NUMERIC,
                    "%s pass: expert %u.%u.%u answered with %f, expected finite numbers", pass,
                    layer, group->expert / model->config.columns,
                    group->expert % model->config.columns, (double)values[i]);
            }
        }
    }
    return SKEP_OK;
}

/* What a stopped pass or a broken back end made is nobody else's to compute with. */
static int check_ours(const char *pass, const struct skep_model *model, struct skep_error *err)
{
    int rc = model->ops->status(err);
    return rc != SKEP_OK ? rc : skep_model_stopped(pass, err);
}

static int call_forward(struct skep_model *model, uint32_t layer, struct skep_error *err)
{
    const struct skep_expert_calls *calls = model->options.calls;
    struct skep_model_kept *kept = &model->kept[layer];
    size_t d = model->config.dim;
    size_t pairs = pair_count(model, layer);
    size_t count = list_groups(model, layer);
    size_t size = d * sizeof *model->x;
    bool all = true;
    model->ops->rows_gather((struct skep_rows){pairs, d, kept->pair_token}, model->x,
                            kept->expert_out);
    model->ops->copy_out(kept->called_x, kept->expert_out, pairs * size);
    int rc = check_ours("forward", model, err);
    for (size_t g = 0; g < count; g++) {
        model->answered[g] = true;
    }
    if (rc == SKEP_OK && count > 0) {
        rc = calls->forward(calls->user, layer, model->groups, count, kept->called_x,
                            model->called_y, model->answered, err);
    }
    if (rc == SKEP_OK) {
        rc = check_answers(model, layer, count, model->called_y, "forward", err);
    }
    if (rc != SKEP_OK) {
        return rc;
    }
    for (size_t g = 0; g < count; g++) {
        all &= model->answered[g];
    }
    if (!all) {
        drop_silent(model, layer, count, kept->called_x, model->called_y);
        group(model, layer);
    }
    model->ops->copy_in(kept->expert_out, model->called_y, pair_count(model, layer) * size);
    return SKEP_OK;
}

int skep_experts_forward(struct skep_model *model, uint32_t layer, struct skep_error *err)
{
    struct skep_model_kept *kept = &model->kept[layer];
    size_t d = model->config.dim;
    group(model, layer);
    if (model->options.calls != NULL) {
        int rc = call_forward(model, layer, err);
        if (rc != SKEP_OK) {
            return rc;
        }
    } else {
        skep_experts_again(model, layer);
    }
    size_t count = list_groups(model, layer);
    for (size_t i = 0; i < count; i++) {
        size_t first = model->groups[i].first;
        struct skep_rows rows = {model->groups[i].count, d, kept->pair_token + first};
        model->ops->rows_combine(rows, kept->expert_out + first * d, kept->pair_weight + first,
                                 model->x);
    }
    return SKEP_OK;
}

static void expert_backward(struct skep_model *model, uint32_t layer,
                            const struct skep_expert_group *group, skep_real *work)
{
    struct skep_model_expert *expert = skep_model_expert_at(model, layer, group->expert);
    size_t d = model->config.dim;
    struct skep_expert_backward pass = {.x = model->x,
                                        .dy = model->dpair + group->first * d,
                                        .work = work,
                                        .scratch = model->dexpert,
                                        .dx = model->dx,
                                        .dparameters = expert->gradients};
    struct skep_rows rows = {group->count, d, model->kept[layer].pair_token + group->first};
    skep_expert_backward(model->ops, model->shape, expert->values, rows, &pass);
    expert->gradient_squares = model->ops->sum_squares(expert->gradients, model->expert_parameters);
    expert->gradient_zero = false;
}

static void experts_backward(struct skep_model *model, uint32_t layer, size_t group_count)
{
    const size_t *first = model->kept[layer].first;
    size_t used = 0;
    for (size_t i = 0; i < group_count && !skep_ops_stopped(); i++) {
        skep_real *work = take_work(model, layer, model->groups[i].count, &used);
        expert_backward(model, layer, &model->groups[i], work);
    }
    for (size_t e = 0; e < skep_model_grid(model); e++) {
        struct skep_model_expert *expert = skep_model_expert_at(model, layer, e);
        if (first[e + 1] > first[e] || expert->values == NULL) {
            continue;
        }
        if (!expert->gradient_zero) {
            model->ops->fill(model->expert_parameters, 0, expert->gradients);
        }
        expert->gradient_squares = 0;
        expert->gradient_zero = !skep_ops_stopped();
    }
}

static int call_backward(struct skep_model *model, uint32_t layer, size_t group_count,
                         struct skep_error *err)
{
    const struct skep_expert_calls *calls = model->options.calls;
    const struct skep_model_kept *kept = &model->kept[layer];
    size_t d = model->config.dim;
    size_t pairs = pair_count(model, layer);
    size_t size = d * sizeof *model->dx;
    model->ops->copy_out(model->called_y, model->dpair, pairs * size);
    for (size_t g = 0; g < group_count; g++) {
        model->answered[g] = true;
    }
    int rc = check_ours("backward", model, err);
    if (rc == SKEP_OK && group_count > 0) {
        rc = calls->backward(calls->user, layer, model->groups, group_count, kept->called_x,
                             model->called_y, model->called_dx, model->answered, err);
    }
    if (rc == SKEP_OK) {
        rc = check_answers(model, layer, group_count, model->called_dx, "backward", err);
    }
    if (rc != SKEP_OK) {
        return rc;
    }
    for (size_t g = 0; g < group_count; g++) {
        if (!model->answered[g]) {
            memset(model->called_dx + model->groups[g].first * d, 0, model->groups[g].count * size);
        }
    }
    model->ops->copy_in(model->dpair, model->called_dx, pairs * size);
    model->ops->rows_scatter_add((struct skep_rows){pairs, d, kept->pair_token}, model->dpair,
                                 model->dx);
    return SKEP_OK;
}

int skep_experts_backward(struct skep_model *model, uint32_t layer, struct skep_error *err)
{
    const struct skep_model_kept *kept = &model->kept[layer];
    size_t pairs = pair_count(model, layer);
    size_t places = skep_model_tokens(model) * model->config.experts_per_token;
    size_t group_count = list_groups(model, layer);
    struct skep_rows rows = {pairs, model->config.dim, kept->pair_token};
    /* All pairs before any expert: the experts add to dx. */
    model->ops->rows_combine_backward(rows, model->dx, kept->expert_out, kept->pair_weight,
                                      model->dpair, model->dpair_weight);
    model->ops->copy_out(model->pair_reals, model->dpair_weight, pairs * sizeof *model->pair_reals);
    memset(model->dweight, 0, places * sizeof *model->dweight);
    for (size_t i = 0; i < pairs; i++) {
        model->dweight[kept->pair_place[i]] = model->pair_reals[i];
    }
    if (model->options.calls != NULL) {
        return call_backward(model, layer, group_count, err);
    }
    experts_backward(model, layer, group_count);
    return SKEP_OK;
}
