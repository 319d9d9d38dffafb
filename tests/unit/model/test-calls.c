/*
 * Experts that live elsewhere: with the same answers the model is the same as with local ones, and it stands silence. In float64
 * (libskep-model64.a); sums are taken in another order, so numbers agree to rounding: 1e-9.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/model/expert.h"
#include "common/model/model-state.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/model/model-fixture.h"

#define BATCH 3
#define NEAR 1e-9

/* Answers with the experts of a local model. */
struct remote {
    struct skep_model *home;
    size_t forward_calls;
    size_t backward_calls;
    uint32_t silent; /* expert of layer 0 that does not answer, or SKEP_NO_EXPERT */
    bool all_silent;
    bool silent_back; /* only on the way back */
    bool broken;      /* answers NaN */
    int rc;
    double *gradients[2 * 9];
};

static size_t groups_end(const struct skep_expert_group *groups, size_t count)
{
    return groups[count - 1].first + groups[count - 1].count;
}

static void check_groups(const struct skep_expert_group *groups, size_t count)
{
    assert_true(count > 0);
    size_t first = 0;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(groups[i].first, first);
        assert_true(groups[i].count > 0);
        assert_true(i == 0 || groups[i].expert > groups[i - 1].expert);
        first += groups[i].count;
    }
}

static bool is_silent(const struct remote *remote, uint32_t layer, uint32_t expert)
{
    return remote->all_silent || (layer == 0 && expert == remote->silent);
}

static int forward(void *user, uint32_t layer, const struct skep_expert_group *groups, size_t count,
                   const skep_real *x, skep_real *y, bool *answered, struct skep_error *err)
{
    struct remote *remote = user;
    struct skep_expert_shape shape = remote->home->shape;
    size_t d = shape.dim;
    remote->forward_calls++;
    check_groups(groups, count);
    for (size_t g = 0; g < count; g++) {
        assert_true(answered[g]);
        if (is_silent(remote, layer, groups[g].expert) && !remote->silent_back) {
            answered[g] = false;
            continue;
        }
        skep_real *work = skep_alloc(skep_expert_work(shape, groups[g].count), sizeof *work);
        skep_expert_forward(remote->home->ops, shape,
                            skep_model_expert_at(remote->home, layer, groups[g].expert)->values,
                            (struct skep_rows){groups[g].count, d, NULL}, x + groups[g].first * d,
                            work, y + groups[g].first * d);
        free(work);
    }
    if (remote->broken) {
        y[groups_end(groups, count) * d - 1] = NAN;
    }
    return remote->rc == 0 ? 0 : skep_error_set(err, SKEP_ERR_NETWORK, "nobody is there");
}

static int backward(void *user, uint32_t layer, const struct skep_expert_group *groups,
                    size_t count, const skep_real *x, const skep_real *dy, skep_real *dx,
                    bool *answered, struct skep_error *err)
{
    struct remote *remote = user;
    struct skep_expert_shape shape = remote->home->shape;
    size_t d = shape.dim;
    (void)err;
    remote->backward_calls++;
    check_groups(groups, count);
    for (size_t g = 0; g < count; g++) {
        size_t n = groups[g].count;
        size_t at = groups[g].first * d;
        const skep_real *values =
            skep_model_expert_at(remote->home, layer, groups[g].expert)->values;
        if (is_silent(remote, layer, groups[g].expert)) {
            assert_true(remote->silent_back); /* the others were not asked again */
            answered[g] = false;
            continue;
        }
        skep_real *work = skep_alloc(skep_expert_work(shape, n), sizeof *work);
        skep_real *scratch = skep_alloc(skep_expert_scratch(shape, n), sizeof *scratch);
        skep_real *y = skep_alloc(n * d, sizeof *y);
        double **gradient = &remote->gradients[layer * 9 + groups[g].expert];
        if (*gradient == NULL) {
            *gradient = skep_alloc(skep_expert_parameters(shape), sizeof **gradient);
        }
        struct skep_rows rows = {n, d, NULL};
        memset(dx + at, 0, n * d * sizeof *dx);
        skep_expert_forward(remote->home->ops, shape, values, rows, x + at, work, y);
        skep_expert_backward(remote->home->ops, shape, values, rows,
                             &(struct skep_expert_backward){.x = x + at,
                                                            .dy = dy + at,
                                                            .work = work,
                                                            .scratch = scratch,
                                                            .dx = dx + at,
                                                            .dparameters = *gradient});
        free(work);
        free(scratch);
        free(y);
    }
    return remote->rc;
}

/* A model whose trunk is that of `home` and whose experts are called there. */
struct pair {
    struct skep_model_config config;
    struct remote remote;
    struct skep_expert_calls calls;
    struct skep_model *away;
    uint8_t *tokens;
    uint32_t batch;
};

static void pair_init(struct pair *pair, const struct skep_model_config *config, bool recompute)
{
    *pair = (struct pair){.config = *config, .remote = {.silent = SKEP_NO_EXPERT}};
    pair->batch = config->kind == SKEP_MODEL_LM ? BATCH : 24;
    pair->remote.home = fixture_lm(config, pair->batch, 61);
    pair->calls = (struct skep_expert_calls){&pair->remote, forward, backward};
    struct skep_model_options options = {
        .batch = pair->batch, .recompute = recompute, .calls = &pair->calls};
    assert_int_equal(skep_model_new(config, &options, &pair->away, NULL), SKEP_OK);
    memcpy(pair->away->trunk.values, pair->remote.home->trunk.values,
           pair->away->trunk_parameters * sizeof(skep_real));
    size_t size = pair->batch * skep_model_config_window(config);
    pair->tokens = skep_alloc(size, 1);
    fixture_tokens(config, 9, pair->tokens, size);
}

static void pair_done(struct pair *pair)
{
    for (size_t i = 0; i < 18; i++) {
        free(pair->remote.gradients[i]);
    }
    skep_model_free(pair->away);
    skep_model_free(pair->remote.home);
    free(pair->tokens);
}

static double loss_of(struct pair *pair, struct skep_model *model)
{
    struct skep_model_loss loss = {0};
    assert_int_equal(skep_model_forward(model, pair->tokens, pair->batch, &loss, NULL), SKEP_OK);
    return loss.sum_nats / (double)loss.tokens + 0.1 * loss.z;
}

static void assert_near(const double *a, const double *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!(fabs(a[i] - b[i]) <= NEAR)) {
            fail_msg("value %zu: %.12g and %.12g", i, a[i], b[i]);
        }
    }
}

static void check_same(const struct skep_model_config *config, bool recompute)
{
    struct pair pair;
    pair_init(&pair, config, recompute);
    struct skep_model *home = pair.remote.home;
    assert_true(fabs(loss_of(&pair, home) - loss_of(&pair, pair.away)) < NEAR);
    assert_int_equal(pair.remote.forward_calls, config->layers);
    assert_int_equal(skep_model_backward(home, 0.1, NULL), SKEP_OK);
    assert_int_equal(skep_model_backward(pair.away, 0.1, NULL), SKEP_OK);
    assert_int_equal(pair.remote.forward_calls, config->layers);
    assert_int_equal(pair.remote.backward_calls, config->layers);
    assert_near(home->trunk_gradient.values, pair.away->trunk_gradient.values,
                home->trunk_parameters);
    for (size_t i = 0; i < 18; i++) {
        if (pair.remote.gradients[i] != NULL) {
            assert_near(pair.remote.gradients[i], home->experts[i].gradients,
                        home->expert_parameters);
        }
    }
    pair_done(&pair);
}

static void called_experts_give_what_local_ones_give(void **state)
{
    (void)state;
    struct skep_model_config lm = fixture_config(SKEP_ROUTE_DOCUMENT, 2);
    struct skep_model_config classifier = fixture_classifier(SKEP_EXPERT_PAPER_FFN, 3);
    check_same(&lm, false);
    check_same(&lm, true);
    check_same(&classifier, false);
    check_same(&classifier, true);
}

/* The expert most pairs of layer 0 go to. */
static uint32_t busiest(const struct skep_model *model)
{
    const size_t *first = model->kept[0].first;
    uint32_t best = 0;
    for (uint32_t e = 1; e < 9; e++) {
        best = first[e + 1] - first[e] > first[best + 1] - first[best] ? e : best;
    }
    return best;
}

static void check_weights(const struct skep_model *model, uint32_t silent)
{
    const struct skep_model_kept *kept = &model->kept[0];
    size_t dropped = 0;
    for (size_t n = 0; n < skep_model_tokens(model); n++) {
        double sum = 0;
        for (size_t i = 0; i < 2; i++) {
            uint32_t expert = kept->chosen[n * 2 + i];
            assert_true(expert != silent);
            sum += kept->weight[n * 2 + i];
            dropped += expert == SKEP_NO_EXPERT;
        }
        assert_true(fabs(sum - 1) < NEAR || kept->chosen[n * 2] == SKEP_NO_EXPERT);
    }
    assert_true(dropped > 0);
}

/* Trunk gradients of a model with a silent expert against finite differences; every 7th value. */
static void silent_experts_are_dropped_and_the_gradients_still_hold(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_TOKEN, 2);
    struct pair pair;
    pair_init(&pair, &config, false);
    loss_of(&pair, pair.away);
    pair.remote.silent = busiest(pair.away);
    double loss = loss_of(&pair, pair.away);
    check_weights(pair.away, pair.remote.silent);
    assert_int_equal(skep_model_backward(pair.away, 0.1, NULL), SKEP_OK);
    size_t count = pair.away->trunk_parameters;
    double *gradients = skep_alloc(count, sizeof *gradients);
    memcpy(gradients, pair.away->trunk_gradient.values, count * sizeof *gradients);
    for (size_t i = 0; i < count; i += 7) {
        double *value = &pair.away->trunk.values[i];
        double before = *value;
        *value = before + 1e-5;
        double up = loss_of(&pair, pair.away);
        *value = before - 1e-5;
        double down = loss_of(&pair, pair.away);
        *value = before;
        double numeric = (up - down) / 2e-5;
        if (!(fabs(numeric - gradients[i]) <=
              1e-6 * fmax(fabs(numeric), fabs(gradients[i])) + 1e-9)) {
            fail_msg("value %zu: gradient %.12g, finite difference %.12g", i, gradients[i],
                     numeric);
        }
    }
    assert_true(loss == loss_of(&pair, pair.away));
    free(gradients);
    pair_done(&pair);
}

static void when_nobody_answers_layers_pass_x_through(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 1);
    struct pair pair;
    pair_init(&pair, &config, false);
    pair.remote.all_silent = true;
    double loss = loss_of(&pair, pair.away);
    assert_int_equal(skep_model_backward(pair.away, 0, NULL), SKEP_OK);
    assert_int_equal(pair.remote.backward_calls, 0);
    for (uint32_t e = 0; e < 18; e++) {
        struct skep_shard shard = fixture_expert(e / 9, e / 3 % 3, e % 3);
        skep_model_drop(pair.remote.home, &shard);
    }
    assert_true(fabs(loss - loss_of(&pair, pair.remote.home)) < NEAR);
    pair_done(&pair);
}

static void silence_on_the_way_back_counts_as_no_gradient(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_classifier(SKEP_EXPERT_FFN, 3);
    struct pair pair;
    pair_init(&pair, &config, false);
    pair.remote.all_silent = pair.remote.silent_back = true;
    loss_of(&pair, pair.away);
    assert_int_equal(skep_model_backward(pair.away, 0, NULL), SKEP_OK);
    /* dx of each layer then is what passes it by, and the gate's: without that (one column and row, no z-loss) it is the head's. */
    for (size_t i = 0; i < (size_t)24 * 8; i++) {
        assert_true(isfinite(pair.away->dx[i]));
    }
    double squares = skep_model_gradient_squares(pair.away);
    pair.remote.all_silent = false;
    loss_of(&pair, pair.away);
    assert_int_equal(skep_model_backward(pair.away, 0, NULL), SKEP_OK);
    assert_true(fabs(squares - skep_model_gradient_squares(pair.away)) > 1e-6);
    pair_done(&pair);
}

static void an_error_or_a_broken_answer_ends_the_pass(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 2);
    struct pair pair;
    struct skep_error err = {0};
    struct skep_model_loss loss;
    pair_init(&pair, &config, false);
    pair.remote.rc = SKEP_ERR_NETWORK;
    assert_int_equal(skep_model_forward(pair.away, pair.tokens, BATCH, &loss, &err),
                     SKEP_ERR_NETWORK);
    assert_string_equal(err.text, "nobody is there");
    pair.remote.rc = 0;
    pair.remote.broken = true;
    assert_int_equal(skep_model_forward(pair.away, pair.tokens, BATCH, &loss, &err),
                     SKEP_ERR_NUMERIC);
    assert_non_null(strstr(err.text, "forward pass: expert 0."));
    assert_int_equal(skep_model_backward(pair.away, 0, &err), SKEP_ERR_STATE);
    pair_done(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(called_experts_give_what_local_ones_give),
        cmocka_unit_test(silent_experts_are_dropped_and_the_gradients_still_hold),
        cmocka_unit_test(when_nobody_answers_layers_pass_x_through),
        cmocka_unit_test(silence_on_the_way_back_counts_as_no_gradient),
        cmocka_unit_test(an_error_or_a_broken_answer_ends_the_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
