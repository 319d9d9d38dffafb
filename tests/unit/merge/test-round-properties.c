/* What must hold of every merge, whatever its rule: order, threads, padding, ties, extremes; and copies, limits, report, refusals. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/merge/fixed.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/merge/merge-scene.h"

static struct scene scene;
static float merged[SCENE_TOTAL];
static float again[SCENE_TOTAL];
static struct skep_merge_report report;
static struct skep_merge_report report_again;

static double distance(const float *a, const float *b)
{
    double sum = 0;
    for (size_t p = 0; p < SCENE_TOTAL; p++) {
        sum += ((double)a[p] - (double)b[p]) * ((double)a[p] - (double)b[p]);
    }
    return sqrt(sum);
}

/* Default settings, this rule and a search for copies. */
static struct skep_merge_config searching(enum skep_merge_rule rule)
{
    struct skep_merge_config config = scene_config(rule);
    config.overlap_permille = 400;
    return config;
}

static void merge_as(const struct skep_merge_config *config, float *ret_state,
                     struct skep_merge_report *ret_report)
{
    const struct skep_merge_options options = {.config = config};
    scene_merge(&scene, &options, ret_state, ret_report);
}

/* ---- the same bits ---- */

/* Swaps inputs at random; ret_from[i] is where input i was. */
static void shuffle(struct skep_rng *rng, struct scene *shuffled, size_t *ret_from)
{
    for (size_t i = 0; i < shuffled->n; i++) {
        ret_from[i] = i;
    }
    for (size_t left = shuffled->n; left > 1; left--) {
        size_t i = left - 1;
        size_t k = (size_t)skep_rng_below(rng, left);
        struct skep_merge_input held = shuffled->inputs[i];
        shuffled->inputs[i] = shuffled->inputs[k];
        shuffled->inputs[k] = held;
        size_t from = ret_from[i];
        ret_from[i] = ret_from[k];
        ret_from[k] = from;
    }
}

/* Both reports say the same of every update; from[i] is where input i of report_again stands in report. */
static void assert_reports_agree(const size_t *from)
{
    for (size_t i = 0; i < scene.n; i++) {
        const struct skep_merge_verdict *expected = &report.inputs[from[i]];
        const struct skep_merge_verdict *found = &report_again.inputs[i];
        bool copy = found->copy_of != SKEP_MERGE_NO_COPY;
        assert_int_equal(copy ? from[found->copy_of] : SKEP_MERGE_NO_COPY, expected->copy_of);
        assert_true(found->norm == expected->norm);
        assert_int_equal(found->merged, expected->merged);
        assert_int_equal(found->clip_ratio, expected->clip_ratio);
        assert_int_equal(found->cosine_permille, expected->cosine_permille);
        assert_int_equal(found->agreement_permille, expected->agreement_permille);
    }
    assert_true(report.median_norm == report_again.median_norm);
    assert_true(report.step_norm == report_again.step_norm);
    assert_int_equal(report.counted, report_again.counted);
}

static void no_order_of_arrival_matters(void **state)
{
    (void)state;
    struct skep_rng rng = skep_rng_of(31);
    for (enum skep_merge_rule rule = 0; rule < SKEP_MERGE_RULES; rule++) {
        scene_init(&scene, 100 + rule, 7 + rule, 256, SCENE_CROWDED, true);
        scene_copy(&scene, 2, 5);
        struct skep_merge_config config = searching(rule);
        merge_as(&config, merged, &report);
        assert_true(distance(merged, scene.state) > 0);
        assert_int_equal(report.counted, scene.n - 1);
        for (int round = 0; round < 4; round++) {
            size_t from[SCENE_MOST] = {0};
            struct skep_merge_input before[SCENE_MOST];
            memcpy(before, scene.inputs, sizeof before);
            shuffle(&rng, &scene, from);
            merge_as(&config, again, &report_again);
            assert_memory_equal(again, merged, sizeof merged);
            assert_reports_agree(from);
            memcpy(scene.inputs, before, sizeof before);
        }
        scene_done(&scene);
    }
}

static void no_number_of_threads_matters(void **state)
{
    (void)state;
    const size_t counts[] = {1, 2, 4, 5, 7, 8, 64};
    size_t same[SCENE_MOST];
    for (size_t i = 0; i < SCENE_MOST; i++) {
        same[i] = i;
    }
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        scene_init(&scene, 200 + c, counts[c], 300, SCENE_CROWDED, true);
        for (enum skep_merge_rule rule = 0; rule < SKEP_MERGE_RULES; rule++) {
            struct skep_merge_config config = searching(rule);
            merge_as(&config, merged, &report);
            for (uint32_t threads = 1; threads <= 5; threads++) {
                const struct skep_merge_options options = {.config = &config, .threads = threads};
                scene_merge(&scene, &options, again, &report_again);
                assert_memory_equal(again, merged, sizeof merged);
                assert_reports_agree(same);
            }
        }
        scene_done(&scene);
    }
}

/* A shard with one more tensor, of which all send zeros: the others do not notice. */
static void tensors_that_get_zeros_change_nothing(void **state)
{
    (void)state;
    scene_init(&scene, 300, 11, 256, SCENE_CROWDED, true);
    struct skep_update_body bodies[11];
    struct skep_update_tensor tensors[11][SCENE_TENSORS - 1];
    struct skep_merge_input inputs[11];
    size_t size = scene.offsets[2] - scene.offsets[1];
    for (size_t i = 0; i < 11; i++) {
        memset(scene.bodies[i].tensors[1].codebook, 0, sizeof scene.bodies[i].tensors[1].codebook);
        tensors[i][0] = scene.bodies[i].tensors[0];
        tensors[i][1] = scene.bodies[i].tensors[2];
        tensors[i][2] = scene.bodies[i].tensors[3];
        bodies[i] = (struct skep_update_body){SCENE_TENSORS - 1, tensors[i]};
        inputs[i] = scene.inputs[i];
        inputs[i].body = &bodies[i];
    }
    const size_t offsets[SCENE_TENSORS] = {0, scene.offsets[1], scene.offsets[3] - size,
                                           scene.offsets[4] - size};
    for (enum skep_merge_rule rule = 0; rule < SKEP_MERGE_RULES; rule++) {
        struct skep_merge_config config = searching(rule);
        const struct skep_merge_options options = {.config = &config};
        merge_as(&config, merged, NULL);
        memcpy(again, scene.state, offsets[1] * sizeof *again);
        memcpy(again + offsets[1], scene.state + scene.offsets[2],
               (SCENE_TOTAL - scene.offsets[2]) * sizeof *again);
        const struct skep_merge_shard shard = {again, offsets, SCENE_TENSORS - 1};
        assert_int_equal(skep_merge(&shard, inputs, 11, &options, NULL, NULL), SKEP_OK);
        assert_memory_equal(again, merged, offsets[1] * sizeof *again);
        assert_memory_equal(again + offsets[1], merged + scene.offsets[2],
                            (SCENE_TOTAL - scene.offsets[2]) * sizeof *again);
    }
    scene_done(&scene);
}

static void equal_updates_are_as_good_as_one(void **state)
{
    (void)state;
    const size_t counts[] = {2, 5, 8, 64};
    for (size_t c = 0; c < 4; c++) {
        scene_init(&scene, 400, counts[c], 256, SCENE_APART, false);
        for (size_t i = 1; i < scene.n; i++) {
            scene_copy(&scene, i, 0);
        }
        struct skep_merge_config config = scene_config(SKEP_MERGE_MEAN);
        scene.n = 1;
        merge_as(&config, merged, NULL);
        scene.n = counts[c];
        for (enum skep_merge_rule rule = 0; rule < SKEP_MERGE_RULES; rule++) {
            config = scene_config(rule);
            merge_as(&config, again, NULL);
            for (size_t p = 0; p < SCENE_TOTAL; p++) {
                /* Centred clipping starts from 0 and has 3 pulls at most: it may not have come all the way. */
                double off = fabs((double)merged[p] - (double)again[p]);
                assert_true(off <= (rule == SKEP_MERGE_CENTERED_CLIP ? 1e-3 : 2e-8));
            }
        }
        scene_done(&scene);
    }
}

/* ---- extremes ---- */

static void extreme_codebooks_neither_overflow_nor_escape(void **state)
{
    (void)state;
    static const float books[3][4] = {
        {-3e38f, -0x1p17f, 0x1p17f, INFINITY},
        {-0x1p17f, -1e-45f, 1e-45f, 0x1p17f},
        {-1e-40f, -0.0f, 0x1p-32f, 0x1p-33f},
    };
    for (size_t n = 1; n <= 64; n = n < 8 ? n + 3 : n + 28) {
        scene_init(&scene, 500 + n, n, 1024, SCENE_SAME, n % 2 == 0);
        for (size_t i = 0; i < n; i++) {
            for (size_t t = 0; t < SCENE_TENSORS; t++) {
                memcpy(scene.bodies[i].tensors[t].codebook, books[(i + t) % 3], sizeof books[0]);
            }
        }
        for (enum skep_merge_rule rule = 0; rule < SKEP_MERGE_RULES; rule++) {
            struct skep_merge_config config = searching(rule);
            config.clip_permille = n % 2 == 0 ? 10000 : 0;
            merge_as(&config, merged, &report);
            for (size_t p = 0; p < SCENE_TOTAL; p++) {
                assert_true(fabsf(merged[p]) <= 0x1.01p18f);
            }
            for (size_t i = 0; i < n; i++) {
                assert_true(abs(report.inputs[i].cosine_permille) <= 1000);
            }
        }
        scene_done(&scene);
    }
}

static void updates_of_zeros_are_not_merged_and_leave_every_bit(void **state)
{
    (void)state;
    scene_init(&scene, 600, 9, 256, SCENE_CROWDED, false);
    for (size_t p = 0; p < SCENE_TOTAL; p++) {
        scene.state[p] = p % 2 == 0 ? -0.0f : 1e-42f;
    }
    for (size_t i = 0; i < 9; i++) {
        scene_scale(&scene, i, i % 2 == 0 ? 0.0f : -0.0f);
    }
    for (enum skep_merge_rule rule = 0; rule < SKEP_MERGE_RULES; rule++) {
        struct skep_merge_config config = searching(rule);
        merge_as(&config, merged, &report);
        assert_memory_equal(merged, scene.state, sizeof merged);
        assert_int_equal(report.counted, 0);
        assert_true(report.median_norm == 0 && report.step_norm == 0);
    }
    scene_done(&scene);
}

/* ---- copies ---- */

static void copies_count_once_and_are_named(void **state)
{
    (void)state;
    scene_init(&scene, 700, 9, 128, SCENE_APART, false);
    scene_copy(&scene, 3, 1);
    scene_copy(&scene, 8, 1);
    scene_scale(&scene, 8, 0.7f); /* what it sends of it does not matter */
    scene.inputs[1].hash = (struct skep_hash){{1}};
    scene.inputs[3].hash = (struct skep_hash){{2}};
    struct skep_merge_config config = searching(SKEP_MERGE_NNM_TRIMMED_MEAN);
    merge_as(&config, merged, &report);
    assert_int_equal(report.counted, 7);
    for (size_t i = 0; i < 9; i++) {
        bool copy = i == 3 || i == 8;
        assert_int_equal(report.inputs[i].copy_of, copy ? 1 : SKEP_MERGE_NO_COPY);
        assert_true(report.inputs[i].norm > 0);
    }
    /* As if they had not been sent. */
    scene.n = 8;
    struct skep_merge_input third = scene.inputs[3];
    scene.inputs[3] = scene.inputs[7];
    scene.n = 7;
    merge_as(&config, again, &report_again);
    assert_memory_equal(again, merged, sizeof merged);
    assert_true(report.median_norm == report_again.median_norm);
    scene.inputs[3] = third;
    scene.n = 9;
    config.overlap_permille = 0;
    merge_as(&config, again, &report_again);
    assert_int_equal(report_again.counted, 9);
    assert_true(distance(again, merged) > 0);
    scene_done(&scene);
}

static void of_copies_the_first_in_the_rounds_order_stays(void **state)
{
    (void)state;
    scene_init(&scene, 800, 6, 128, SCENE_APART, false);
    scene_copy(&scene, 0, 5);
    scene_copy(&scene, 1, 5);
    scene.inputs[0].staleness = 2;
    scene.inputs[1].staleness = 1;
    scene.inputs[5].staleness = 1;
    scene.inputs[0].hash = (struct skep_hash){{0}};
    scene.inputs[1].hash = (struct skep_hash){{2}};
    scene.inputs[5].hash = (struct skep_hash){{1}};
    struct skep_merge_config config = searching(SKEP_MERGE_MEAN);
    merge_as(&config, merged, &report);
    assert_int_equal(report.counted, 4);
    assert_int_equal(report.inputs[0].copy_of, SKEP_MERGE_NO_COPY);
    assert_int_equal(report.inputs[1].copy_of, 0);
    assert_int_equal(report.inputs[5].copy_of, 0);
    /* but not if it is not merged anyway */
    scene.inputs[0].left_out = true;
    merge_as(&config, merged, &report);
    assert_int_equal(report.counted, 4);
    assert_int_equal(report.inputs[0].copy_of, 5);
    assert_int_equal(report.inputs[1].copy_of, 5);
    assert_int_equal(report.inputs[5].copy_of, SKEP_MERGE_NO_COPY);
    scene_done(&scene);
}

/* Else a liar could have any update thrown out that he has seen. */
static void the_reverse_of_an_update_is_no_copy_of_it(void **state)
{
    (void)state;
    scene_init(&scene, 900, 6, 128, SCENE_APART, false);
    scene_copy(&scene, 2, 4);
    scene_scale(&scene, 2, -1);
    struct skep_merge_config config = searching(SKEP_MERGE_MEAN);
    merge_as(&config, merged, &report);
    assert_int_equal(report.counted, 6);
    scene_done(&scene);
}

/* Dense tensors overlap by themselves. */
static void updates_that_send_most_of_a_block_are_no_copies(void **state)
{
    (void)state;
    scene_init(&scene, 1000, 6, 3000, SCENE_APART, false);
    struct skep_merge_config config = searching(SKEP_MERGE_MEAN);
    merge_as(&config, merged, &report);
    assert_int_equal(report.counted, 6);
    scene_done(&scene);
}

/* ---- limits and the report ---- */

static void norms_are_clipped_to_the_median_or_the_limit(void **state)
{
    (void)state;
    scene_init(&scene, 1100, 3, 256, SCENE_APART, false);
    scene_scale(&scene, 2, 1000);
    struct skep_merge_config config = searching(SKEP_MERGE_MEAN);
    merge_as(&config, merged, &report);
    double ratio = (double)report.inputs[2].clip_ratio * 0x1p-30;
    double expected = (double)report.median_norm / (double)report.inputs[2].norm;
    assert_true(fabs(ratio - expected) < 1e-8);
    double median = (double)report.median_norm;
    assert_true(fabs((double)report.step_norm - median) < 1e-6 * median);
    assert_true(fabs(distance(merged, scene.state) * 0x1p32 - median) < 1e-4 * median);
    const struct skep_merge_options limited = {.config = &config,
                                               .norm_limit = report.median_norm / 4};
    scene_merge(&scene, &limited, again, &report_again);
    for (size_t i = 0; i < 3; i++) {
        assert_true(report_again.inputs[i].clip_ratio < 1u << 30);
    }
    assert_true(report_again.median_norm == report.median_norm);
    assert_true(fabs((double)report_again.step_norm - median / 4) < 1e-4 * median);
    config.clip_permille = 0; /* the limit holds without the median */
    scene_merge(&scene, &limited, again, &report_again);
    assert_true(report_again.inputs[2].clip_ratio < 1u << 30);
    const struct skep_merge_options unlimited = {.config = &config};
    scene_merge(&scene, &unlimited, again, &report_again);
    assert_int_equal(report_again.inputs[2].clip_ratio, 1 << 30);
    scene_done(&scene);
}

/* All of a norm on a few values: the norm says nothing about it. */
static void peaks_are_flattened_to_twice_the_median_one(void **state)
{
    (void)state;
    scene_init(&scene, 1150, 6, 256, SCENE_APART, false);
    struct skep_update_tensor *tensor = &scene.bodies[1].tensors[0];
    size_t sent = (size_t)tensor->tiling.blocks * tensor->tiling.kept;
    float peak = tensor->codebook[3];
    memset(tensor->codes, 1, sent);
    tensor->codes[7] = 3;
    memcpy(tensor->codebook, (const float[4]){0, 0, 0, 1000 * peak}, sizeof tensor->codebook);
    struct skep_merge_config config = searching(SKEP_MERGE_MEAN);
    merge_as(&config, merged, &report);
    double loud = (double)report.inputs[1].norm * 0x1p-32;
    assert_true(loud < 20 * (double)peak);
    scene.n = 4; /* too few to vote */
    merge_as(&config, merged, &report);
    assert_true((double)report.inputs[1].norm * 0x1p-32 > 900 * (double)peak);
    scene.n = 6;
    config.clip_permille = 0; /* nothing is clipped */
    merge_as(&config, merged, &report);
    assert_true((double)report.inputs[1].norm * 0x1p-32 > 900 * (double)peak);
    scene_done(&scene);
}

static void the_report_tells_friends_from_liars(void **state)
{
    (void)state;
    scene_init(&scene, 1200, 8, 1024, SCENE_SAME, false);
    for (size_t i = 1; i < 8; i++) {
        scene_copy(&scene, i, 0);
        scene.bodies[i].tensors[0].codebook[1] *= 1.0f + 0.01f * (float)i;
    }
    scene_scale(&scene, 6, -1);
    struct skep_merge_config config = scene_config(SKEP_MERGE_NNM_TRIMMED_MEAN);
    merge_as(&config, merged, &report);
    assert_int_equal(report.liars, 2);
    for (size_t i = 0; i < 8; i++) {
        int32_t cosine = report.inputs[i].cosine_permille;
        assert_true(i == 6 ? cosine < -990 : cosine > 990);
    }
    scene_done(&scene);
}

static void halvings_halve_the_step(void **state)
{
    (void)state;
    scene_init(&scene, 1300, 8, 256, SCENE_APART, false);
    struct skep_merge_config config = searching(SKEP_MERGE_NNM_TRIMMED_MEAN);
    merge_as(&config, merged, &report);
    const struct skep_merge_options quarter = {.config = &config, .halvings = 2};
    scene_merge(&scene, &quarter, again, &report_again);
    double ratio = distance(again, scene.state) / distance(merged, scene.state);
    assert_true(fabs(ratio - 0.25) < 1e-4);
    assert_true(report_again.step_norm - report.step_norm / 4 <= 1);
    scene_done(&scene);
}

static void the_norm_limit_is_three_times_the_median_of_the_last_rounds(void **state)
{
    (void)state;
    uint64_t medians[40] = {0};
    assert_true(skep_merge_norm_limit(medians, 40) == 0);
    const uint64_t few[5] = {9, 0, 5, 7, 6};
    assert_true(skep_merge_norm_limit(few, 4) == 0); /* one of them was none */
    assert_true(skep_merge_norm_limit(few, 5) == 18);
    for (uint64_t i = 0; i < 40; i++) {
        medians[i] = i + 1;
    }
    assert_true(skep_merge_norm_limit(medians, 40) == 3 * 32); /* of 25 .. 40 */
    for (size_t i = 0; i < 40; i++) {
        medians[i] = (uint64_t)1 << 62;
    }
    assert_true(skep_merge_norm_limit(medians, 40) == (uint64_t)3 << 62);
}

static void liars_are_a_share_rounded_up_and_less_than_half(void **state)
{
    (void)state;
    assert_int_equal(skep_merge_liars(4, 499), 0);
    assert_int_equal(skep_merge_liars(5, 250), 2);
    assert_int_equal(skep_merge_liars(5, 0), 0);
    assert_int_equal(skep_merge_liars(8, 250), 2);
    assert_int_equal(skep_merge_liars(9, 250), 3);
    assert_int_equal(skep_merge_liars(16, 250), 4);
    assert_int_equal(skep_merge_liars(8, 499), 3);
    assert_int_equal(skep_merge_liars(64, 499), 31);
}

/* ---- refusals ---- */

static void refuse(const struct skep_merge_options *options, int code, const char *text)
{
    struct skep_error err = {0};
    memset(&report, 0x5a, sizeof report);
    memcpy(&report_again, &report, sizeof report);
    memcpy(merged, scene.state, sizeof merged);
    const struct skep_merge_shard shard = {merged, scene.offsets, SCENE_TENSORS};
    assert_int_equal(skep_merge(&shard, scene.inputs, scene.n, options, &report, &err), code);
    assert_string_equal(err.text, text);
    assert_memory_equal(merged, scene.state, sizeof merged);
    assert_memory_equal(&report, &report_again, sizeof report);
}

static void what_is_out_of_range_is_refused(void **state)
{
    (void)state;
    scene_init(&scene, 1400, 3, 256, SCENE_APART, false);
    struct skep_merge_config config = searching(SKEP_MERGE_MEAN);
    struct skep_merge_options options = {.config = &config};
    options.halvings = 17;
    refuse(&options, SKEP_ERR_ARGUMENT, "17 halvings of a step; allowed: up to 16");
    options.halvings = 0;
    options.threads = 65;
    refuse(&options, SKEP_ERR_ARGUMENT, "65 threads in one merge; allowed: up to 64");
    options.threads = 64;
    config.liars_permille = 500;
    refuse(&options, SKEP_ERR_ARGUMENT,
           "liars_permille is 500, which is half or more; allowed: 0 to 499");
    config.liars_permille = 250;
    config.rule = SKEP_MERGE_RULES;
    refuse(&options, SKEP_ERR_ARGUMENT, "merge rule 9 is unknown; allowed: 0 to 8");
    config.rule = SKEP_MERGE_MEAN;
    scene.inputs[2].hash = scene.inputs[0].hash = (struct skep_hash){{0xab, 0xcd}};
    refuse(&options, SKEP_ERR_FORMAT, "update abcd00000000 is given twice; allowed: once");
    scene.inputs[2].hash.bytes[31] = 1;
    scene_merge(&scene, &options, merged, &report);
    scene_done(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_order_of_arrival_matters),
        cmocka_unit_test(no_number_of_threads_matters),
        cmocka_unit_test(tensors_that_get_zeros_change_nothing),
        cmocka_unit_test(equal_updates_are_as_good_as_one),
        cmocka_unit_test(extreme_codebooks_neither_overflow_nor_escape),
        cmocka_unit_test(updates_of_zeros_are_not_merged_and_leave_every_bit),
        cmocka_unit_test(copies_count_once_and_are_named),
        cmocka_unit_test(of_copies_the_first_in_the_rounds_order_stays),
        cmocka_unit_test(the_reverse_of_an_update_is_no_copy_of_it),
        cmocka_unit_test(updates_that_send_most_of_a_block_are_no_copies),
        cmocka_unit_test(norms_are_clipped_to_the_median_or_the_limit),
        cmocka_unit_test(peaks_are_flattened_to_twice_the_median_one),
        cmocka_unit_test(the_report_tells_friends_from_liars),
        cmocka_unit_test(halvings_halve_the_step),
        cmocka_unit_test(the_norm_limit_is_three_times_the_median_of_the_last_rounds),
        cmocka_unit_test(liars_are_a_share_rounded_up_and_less_than_half),
        cmocka_unit_test(what_is_out_of_range_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
