/* Merging: identities, permutation, clipping, trimming, staleness, extremes, and golden bits. */
#include "common/merge/merge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/base/rng.h"
#include "common/merge/compress.h"
#include "common/merge/fixed.h"
#include "tests/lib/cmocka.h"

#define MOST_INPUTS 16

static const struct skep_merge_config mean = {
    .rule = SKEP_MERGE_MEAN, .clip_permille = 1000, .step_permille = 1000};
static const struct skep_merge_config trimmed = {.rule = SKEP_MERGE_TRIMMED_MEAN,
                                                 .liars_permille = 250,
                                                 .clip_permille = 1000,
                                                 .step_permille = 1000};

/* A shard of two tensors with updates for it. */
enum { ROWS = 64, COLUMNS = 128, MATRIX = ROWS * COLUMNS, VECTOR = 96, TOTAL = MATRIX + VECTOR };
static const size_t offsets[3] = {0, MATRIX, TOTAL};

static int merge_onto(float *parameters, const size_t *ends, size_t tensor_count,
                      const struct skep_merge_input *inputs, size_t count,
                      const struct skep_merge_config *config, struct skep_error *err)
{
    const struct skep_merge_shard shard = {parameters, ends, tensor_count};
    const struct skep_merge_options options = {.config = config};
    struct skep_merge_input hashed[100] = {0};
    for (size_t i = 0; i < count; i++) {
        hashed[i] = inputs[i];
        hashed[i].hash.bytes[0] = (uint8_t)i;
    }
    return skep_merge(&shard, hashed, count, &options, NULL, err);
}

struct shard {
    float parameters[TOTAL];
    struct skep_update_body bodies[MOST_INPUTS];
    struct skep_merge_input inputs[MOST_INPUTS];
};

static float normal(struct skep_rng *rng)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        sum += skep_rng_unit(rng);
    }
    return (float)sum;
}

/* An update that compresses `direction` plus noise, times `size`. */
static void update_init(struct skep_update_body *body, uint64_t seed, float size,
                        const float *direction)
{
    struct skep_rng rng = skep_rng_of(seed);
    struct skep_tiling tilings[2] = {
        skep_tiling_of((const uint32_t[]){ROWS, COLUMNS}, 2, 256),
        skep_tiling_of((const uint32_t[]){VECTOR}, 1, 256),
    };
    static float delta[TOTAL];
    static float residual[TOTAL];
    for (size_t i = 0; i < TOTAL; i++) {
        delta[i] = size * (normal(&rng) + (direction == NULL ? 0 : direction[i]));
    }
    memset(residual, 0, sizeof residual);
    body->tensor_count = 2;
    body->tensors = skep_alloc(2, sizeof *body->tensors);
    for (size_t t = 0; t < 2; t++) {
        assert_int_equal(skep_compress_tensor(&tilings[t], 0, delta + offsets[t],
                                              residual + offsets[t], &body->tensors[t], NULL),
                         SKEP_OK);
    }
}

static struct shard *shard_new(uint64_t seed, float size, const float *direction)
{
    struct shard *shard = skep_alloc(1, sizeof *shard);
    struct skep_rng rng = skep_rng_of(seed);
    for (size_t i = 0; i < TOTAL; i++) {
        shard->parameters[i] = 0.05f * normal(&rng);
    }
    for (size_t i = 0; i < MOST_INPUTS; i++) {
        update_init(&shard->bodies[i], seed + 1 + i, size, direction);
        shard->inputs[i].body = &shard->bodies[i];
    }
    return shard;
}

static void shard_free(struct shard *shard)
{
    for (size_t i = 0; i < MOST_INPUTS; i++) {
        skep_update_body_done(&shard->bodies[i]);
    }
    free(shard);
}

/* The state after merging; the shard's own stays. */
static void merge_to(const struct shard *shard, const struct skep_merge_input *inputs, size_t count,
                     const struct skep_merge_config *config, float *ret_parameters)
{
    struct skep_error err = {0};
    memcpy(ret_parameters, shard->parameters, sizeof shard->parameters);
    assert_int_equal(merge_onto(ret_parameters, offsets, 2, inputs, count, config, &err), SKEP_OK);
    assert_string_equal(err.text, "");
}

static double distance(const float *a, const float *b)
{
    double sum = 0;
    for (size_t i = 0; i < TOTAL; i++) {
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    }
    return sqrt(sum);
}

/* FNV-1a over the bits, least significant byte first. */
static uint64_t fingerprint(const float *values)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < TOTAL; i++) {
        uint8_t bytes[4];
        skep_put_f32(bytes, values[i]);
        for (int b = 0; b < 4; b++) {
            hash = (hash ^ bytes[b]) * 0x100000001b3u;
        }
    }
    return hash;
}

static void scale_codebooks(struct skep_update_body *body, float factor)
{
    for (size_t t = 0; t < body->tensor_count; t++) {
        for (int code = 0; code < 4; code++) {
            body->tensors[t].codebook[code] *= factor;
        }
    }
}

static void fixed_point_is_exact_where_it_can_be(void **state)
{
    (void)state;
    assert_true(skep_fixed_from_float(1.0f) == (int64_t)1 << 32);
    assert_true(skep_fixed_from_float(-0.5f) == -((int64_t)1 << 31));
    assert_true(skep_fixed_from_float(0x1p-32f) == 1);
    assert_true(skep_fixed_from_float(0x1p30f) == (int64_t)1 << 62);
    assert_true(skep_fixed_from_float(-0.0f) == 0);
    struct skep_rng rng = skep_rng_of(7);
    for (int i = 0; i < 100000; i++) {
        /* 24 significant bits from 2^-8 up, so the last of them is 2^-32 or more. */
        float value =
            ldexpf((float)(skep_rng_next(&rng) >> 40), (int)skep_rng_below(&rng, 38) - 32);
        value = value < 0x1p-8f || value > 0x1p30f ? 1.0f : value;
        assert_true(skep_fixed_to_float(skep_fixed_from_float(value)) == value);
        assert_true(skep_fixed_to_float(skep_fixed_from_float(-value)) == -value);
    }
}

/* The machine's own conversions round to nearest, ties to even, and serve as the reference. */
static void fixed_point_rounds_to_nearest_ties_to_even(void **state)
{
    (void)state;
    assert_true(skep_fixed_from_float(0x1.8p-32f) == 2);
    assert_true(skep_fixed_from_float(0x1p-33f) == 0);
    assert_true(skep_fixed_from_float(0x1.000002p-33f) == 1);
    assert_true(skep_fixed_from_float(-0x1.4p-31f) == -2);
    assert_true(skep_fixed_from_float(1e-40f) == 0);
    struct skep_rng rng = skep_rng_of(8);
    for (int i = 0; i < 200000; i++) {
        int64_t whole = (int64_t)(skep_rng_next(&rng) >> skep_rng_below(&rng, 64));
        whole = i % 3 == 0 ? whole & ~(int64_t)0xff : whole;
        assert_true(skep_fixed_to_float(whole) == (float)whole * 0x1p-32f);
        float small =
            ldexpf((float)(skep_rng_next(&rng) >> 40), -24 - (int)skep_rng_below(&rng, 40));
        assert_true(skep_fixed_from_float(small) == llrintf(small * 0x1p32f));
    }
    assert_true(skep_fixed_to_float(INT64_MIN) == -0x1p31f);
    assert_true(skep_fixed_to_float(INT64_MAX) == 0x1p31f);
}

static void fixed_point_saturates(void **state)
{
    (void)state;
    assert_true(skep_fixed_from_float(0x1.000002p30f) == (int64_t)1 << 62);
    assert_true(skep_fixed_from_float(-3e38f) == -((int64_t)1 << 62));
    assert_true(skep_fixed_from_float(INFINITY) == (int64_t)1 << 62);
    assert_true(skep_fixed_from_float(-INFINITY) == -((int64_t)1 << 62));
    assert_true(skep_fixed_from_float(NAN) == 0);
}

static void no_updates_change_nothing(void **state)
{
    (void)state;
    struct shard *shard = shard_new(1, 0.01f, NULL);
    static float merged[TOTAL];
    shard->parameters[3] = -0.0f;
    shard->parameters[4] = 1e-42f;
    merge_to(shard, NULL, 0, &trimmed, merged);
    assert_memory_equal(merged, shard->parameters, sizeof merged);
    shard_free(shard);
}

static void one_fresh_update_is_applied_as_it_is(void **state)
{
    (void)state;
    struct shard *shard = shard_new(2, 0.01f, NULL);
    static float merged[TOTAL];
    static float sent[TOTAL];
    merge_to(shard, shard->inputs, 1, &trimmed, merged);
    memset(sent, 0, sizeof sent);
    for (size_t t = 0; t < 2; t++) {
        skep_decompress_add(&shard->bodies[0].tensors[t], 1, sent + offsets[t]);
    }
    for (size_t i = 0; i < TOTAL; i++) {
        int64_t expected =
            skep_fixed_from_float(shard->parameters[i]) - skep_fixed_from_float(sent[i]);
        float whole = sent[i] == 0 ? shard->parameters[i] : skep_fixed_to_float(expected);
        assert_memory_equal(&merged[i], &whole, sizeof whole);
        assert_true(fabsf(merged[i] - (shard->parameters[i] - sent[i])) < 1e-8f);
    }
    shard_free(shard);
}

static void equal_updates_are_as_good_as_one(void **state)
{
    (void)state;
    struct shard *shard = shard_new(3, 0.01f, NULL);
    struct skep_merge_input same[8];
    for (size_t i = 0; i < 8; i++) {
        same[i] = shard->inputs[0];
    }
    static float one[TOTAL];
    static float eight[TOTAL];
    merge_to(shard, shard->inputs, 1, &trimmed, one);
    merge_to(shard, same, 8, &trimmed, eight);
    assert_memory_equal(one, eight, sizeof one);
    shard_free(shard);
}

static void the_outer_step_scales_what_is_applied(void **state)
{
    (void)state;
    struct shard *shard = shard_new(4, 0.01f, NULL);
    struct skep_merge_config half = mean;
    half.step_permille = 500;
    static float whole[TOTAL];
    static float halved[TOTAL];
    merge_to(shard, shard->inputs, 1, &mean, whole);
    merge_to(shard, shard->inputs, 1, &half, halved);
    double ratio = distance(halved, shard->parameters) / distance(whole, shard->parameters);
    assert_true(fabs(ratio - 0.5) < 1e-6);
    half.step_permille = 0;
    merge_to(shard, shard->inputs, 1, &half, halved);
    assert_memory_equal(halved, shard->parameters, sizeof halved);
    shard_free(shard);
}

static void the_order_of_updates_does_not_matter(void **state)
{
    (void)state;
    struct shard *shard = shard_new(5, 0.01f, NULL);
    const struct skep_merge_config *configs[2] = {&mean, &trimmed};
    for (size_t i = 0; i < MOST_INPUTS; i++) {
        shard->inputs[i].staleness = (uint32_t)i % 3;
        scale_codebooks(&shard->bodies[i], 1.0f + (float)(i % 5));
    }
    struct skep_rng rng = skep_rng_of(9);
    for (size_t c = 0; c < 2; c++) {
        static float first[TOTAL];
        static float again[TOTAL];
        merge_to(shard, shard->inputs, MOST_INPUTS, configs[c], first);
        assert_true(distance(first, shard->parameters) > 0);
        for (int round = 0; round < 5; round++) {
            for (size_t i = MOST_INPUTS - 1; i > 0; i--) {
                size_t other = skep_rng_below(&rng, i + 1);
                struct skep_merge_input held = shard->inputs[i];
                shard->inputs[i] = shard->inputs[other];
                shard->inputs[other] = held;
            }
            merge_to(shard, shard->inputs, MOST_INPUTS, configs[c], again);
            assert_memory_equal(first, again, sizeof first);
        }
    }
    shard_free(shard);
}

static void stale_updates_weigh_less(void **state)
{
    (void)state;
    struct shard *shard = shard_new(6, 0.01f, NULL);
    static float fresh[TOTAL];
    static float stale[TOTAL];
    merge_to(shard, shard->inputs, 1, &mean, fresh);
    for (uint32_t s = 1; s <= 2; s++) {
        shard->inputs[0].staleness = s;
        merge_to(shard, shard->inputs, 1, &mean, stale);
        double ratio = distance(stale, shard->parameters) / distance(fresh, shard->parameters);
        assert_true(fabs(ratio - 1 / sqrt(1.0 + s)) < 1e-4);
    }
    shard_free(shard);
}

static void an_update_too_stale_is_refused(void **state)
{
    (void)state;
    struct shard *shard = shard_new(6, 0.01f, NULL);
    shard->inputs[1].staleness = 3;
    struct skep_error err = {0};
    assert_int_equal(merge_onto(shard->parameters, offsets, 2, shard->inputs, 2, &mean, &err),
                     SKEP_ERR_STALE);
    assert_string_equal(err.text, "update 1 is 3 versions old; allowed: up to 2");
    shard_free(shard);
}

static void a_liar_a_thousand_times_larger_changes_little(void **state)
{
    (void)state;
    static float direction[TOTAL];
    struct skep_rng rng = skep_rng_of(10);
    for (size_t i = 0; i < TOTAL; i++) {
        direction[i] = 3 * normal(&rng);
    }
    struct shard *shard = shard_new(7, 0.01f, direction);
    const struct skep_merge_config *configs[2] = {&mean, &trimmed};
    for (size_t c = 0; c < 2; c++) {
        static float honest[TOTAL];
        static float lied[TOTAL];
        merge_to(shard, shard->inputs, 8, configs[c], honest);
        scale_codebooks(&shard->bodies[7], -1000);
        /* The codebook is no longer sorted, which only the decoder minds. */
        merge_to(shard, shard->inputs, 8, configs[c], lied);
        scale_codebooks(&shard->bodies[7], -0.001f);
        double step = distance(honest, shard->parameters);
        double moved = distance(honest, lied) / step;
        /* Clipped to the median and one of 8: 2/8 for a reversed one, times at most 2 by the rescale. */
        assert_true(moved < 0.5);
        assert_true(moved > 0);
    }
    shard_free(shard);
}

/* With trimming a value that one of eight sends alone is nothing; divided by contributors it would own its coordinate. */
static void a_coordinate_sent_by_few_is_trimmed_away(void **state)
{
    (void)state;
    struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){8}, 1, 512);
    assert_int_equal(tiling.kept, 1);
    uint16_t index[8] = {5, 5, 5, 5, 5, 5, 5, 2};
    uint8_t code[1] = {3};
    struct skep_update_tensor tensors[8];
    struct skep_update_body bodies[8];
    struct skep_merge_input inputs[8];
    for (size_t i = 0; i < 8; i++) {
        tensors[i] = (struct skep_update_tensor){
            .tiling = tiling, .codebook = {0, 0, 0, 1}, .indices = &index[i], .codes = code};
        bodies[i] = (struct skep_update_body){.tensor_count = 1, .tensors = &tensors[i]};
        inputs[i] = (struct skep_merge_input){.body = &bodies[i]};
    }
    const size_t ends[2] = {0, 8};
    float parameters[8] = {0};
    assert_int_equal(merge_onto(parameters, ends, 1, inputs, 8, &trimmed, NULL), SKEP_OK);
    /* f = 2 of 8: sorted 0 1 1 1 1 1 1 1 without two at each end is 1. */
    const float expected[8] = {0, 0, 0, 0, 0, -1, 0, 0};
    assert_memory_equal(parameters, expected, sizeof expected);
    memset(parameters, 0, sizeof parameters);
    assert_int_equal(merge_onto(parameters, ends, 1, inputs, 8, &mean, NULL), SKEP_OK);
    /* Mean 7/8 and 1/8, rescaled from norm sqrt(50)/8 to the median norm 1. */
    assert_true(fabsf(parameters[5] + 7 / sqrtf(50)) < 1e-6f);
    assert_true(fabsf(parameters[2] + 1 / sqrtf(50)) < 1e-6f);
}

/* Against a mean over sorted columns written the obvious way, in doubles. */
static void trimming_agrees_with_sorting_whole_columns(void **state)
{
    (void)state;
    struct shard *shard = shard_new(8, 0.5f, NULL);
    enum { N = 9, F = 2 };
    static float sent[N][TOTAL];
    static double combined[TOTAL];
    double norms[N];
    for (size_t i = 0; i < N; i++) {
        memset(sent[i], 0, sizeof sent[i]);
        norms[i] = 0;
        for (size_t t = 0; t < 2; t++) {
            skep_decompress_add(&shard->bodies[i].tensors[t], 1, sent[i] + offsets[t]);
        }
        for (size_t p = 0; p < TOTAL; p++) {
            norms[i] += pow((double)sent[i][p], 2);
        }
        norms[i] = sqrt(norms[i]);
    }
    double median = 0;
    for (size_t i = 0; i < N; i++) {
        size_t below = 0;
        for (size_t j = 0; j < N; j++) {
            below += norms[j] < norms[i];
        }
        median = below == N / 2 ? norms[i] : median;
    }
    double square = 0;
    for (size_t p = 0; p < TOTAL; p++) {
        double column[N];
        for (size_t i = 0; i < N; i++) {
            double value = (double)sent[i][p] * fmin(1, median / norms[i]);
            size_t at = i;
            for (; at > 0 && column[at - 1] > value; at--) {
                column[at] = column[at - 1];
            }
            column[at] = value;
        }
        combined[p] = 0;
        for (size_t i = F; i < N - F; i++) {
            combined[p] += column[i] / (N - 2 * F);
        }
        square += combined[p] * combined[p];
    }
    double factor = fmin(2, fmax(1, median / sqrt(square)));
    static float merged[TOTAL];
    struct skep_merge_config config = trimmed;
    config.liars_permille = 222; /* f = 2 of 9 */
    merge_to(shard, shard->inputs, N, &config, merged);
    for (size_t p = 0; p < TOTAL; p++) {
        double expected = (double)shard->parameters[p] - factor * combined[p];
        assert_true(fabs((double)merged[p] - expected) < 1e-6);
    }
    shard_free(shard);
}

static void fewer_than_five_updates_are_not_trimmed(void **state)
{
    (void)state;
    struct shard *shard = shard_new(9, 0.01f, NULL);
    struct skep_merge_config most = trimmed;
    most.liars_permille = 499;
    static float with_mean[TOTAL];
    static float with_trim[TOTAL];
    merge_to(shard, shard->inputs, 4, &mean, with_mean);
    merge_to(shard, shard->inputs, 4, &most, with_trim);
    assert_memory_equal(with_mean, with_trim, sizeof with_mean);
    merge_to(shard, shard->inputs, 5, &mean, with_mean);
    merge_to(shard, shard->inputs, 5, &most, with_trim);
    assert_true(distance(with_mean, with_trim) > 0);
    shard_free(shard);
}

static void an_update_of_zeros_neither_stops_nor_clips_the_others(void **state)
{
    (void)state;
    struct shard *shard = shard_new(11, 0.01f, NULL);
    static float alone[TOTAL];
    static float beside[TOTAL];
    merge_to(shard, shard->inputs, 1, &mean, alone);
    scale_codebooks(&shard->bodies[1], 0);
    merge_to(shard, shard->inputs, 2, &mean, beside);
    /* Half of it, and the rescale gives the median norm back. */
    assert_true(distance(alone, beside) < 1e-6 * distance(alone, shard->parameters));
    scale_codebooks(&shard->bodies[0], 0);
    merge_to(shard, shard->inputs, 2, &mean, beside);
    assert_memory_equal(beside, shard->parameters, sizeof beside);
    shard_free(shard);
}

static void opposite_updates_leave_the_state_and_its_negative_zeros(void **state)
{
    (void)state;
    struct shard *shard = shard_new(12, 0.01f, NULL);
    skep_update_body_done(&shard->bodies[1]);
    update_init(&shard->bodies[1], 13, 0.01f, NULL);
    scale_codebooks(&shard->bodies[1], -1);
    for (size_t i = 0; i < TOTAL; i++) {
        shard->parameters[i] = i % 2 == 0 ? -0.0f : 1e-30f;
    }
    static float merged[TOTAL];
    merge_to(shard, shard->inputs, 2, &mean, merged);
    assert_memory_equal(merged, shard->parameters, sizeof merged);
    shard_free(shard);
}

static void extreme_codebooks_are_held_and_do_not_overflow(void **state)
{
    (void)state;
    struct shard *shard = shard_new(14, 1.0f, NULL);
    for (size_t i = 0; i < MOST_INPUTS; i++) {
        for (size_t t = 0; t < 2; t++) {
            const float extreme[4] = {-3e38f, -0x1p17f, 0x1p17f, INFINITY};
            memcpy(shard->bodies[i].tensors[t].codebook, extreme, sizeof extreme);
        }
    }
    const struct skep_merge_config *configs[2] = {&mean, &trimmed};
    for (size_t c = 0; c < 2; c++) {
        static float merged[TOTAL];
        merge_to(shard, shard->inputs, MOST_INPUTS, configs[c], merged);
        for (size_t i = 0; i < TOTAL; i++) {
            assert_true(fabsf(merged[i] - shard->parameters[i]) <= 0x1p18f);
        }
    }
    shard_free(shard);
}

static void refuse_state(struct shard *shard, float value, uint32_t step_permille, const char *part)
{
    static float before[TOTAL];
    struct skep_merge_config config = mean;
    config.step_permille = step_permille;
    float held = shard->parameters[17];
    shard->parameters[17] = value;
    memcpy(before, shard->parameters, sizeof before);
    struct skep_error err = {0};
    assert_int_equal(merge_onto(shard->parameters, offsets, 2, shard->inputs, 3, &config, &err),
                     SKEP_ERR_NUMERIC);
    if (strstr(err.text, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    }
    assert_memory_equal(shard->parameters, before, sizeof before);
    shard->parameters[17] = held;
}

static void a_state_out_of_range_is_refused_and_untouched(void **state)
{
    (void)state;
    struct shard *shard = shard_new(15, 0.01f, NULL);
    refuse_state(shard, NAN, 1000, "state value 17 is ");
    refuse_state(shard, INFINITY, 1000, "state value 17 is inf; allowed: -2^30 .. 2^30");
    refuse_state(shard, -0x1.1p30f, 1000, "state value 17 is -1.14085e+09");
    refuse_state(shard, 0x1p30f, 1000, "could leave -2^30 .. 2^30");
    scale_codebooks(&shard->bodies[0], 1e8f);
    scale_codebooks(&shard->bodies[1], 1e8f);
    scale_codebooks(&shard->bodies[2], 1e8f);
    refuse_state(shard, 0, UINT32_MAX, "could leave -2^30 .. 2^30");
    shard_free(shard);
}

static void inputs_that_do_not_fit_the_shard_are_refused(void **state)
{
    (void)state;
    struct shard *shard = shard_new(16, 0.01f, NULL);
    struct skep_error err = {0};
    shard->bodies[2].tensor_count = 1;
    assert_int_equal(merge_onto(shard->parameters, offsets, 2, shard->inputs, 3, &mean, &err),
                     SKEP_ERR_FORMAT);
    assert_string_equal(err.text, "update 2 has 1 tensors; the shard has 2");
    shard->bodies[2].tensor_count = 2;
    const size_t other[3] = {0, MATRIX - 1, TOTAL};
    assert_int_equal(merge_onto(shard->parameters, other, 2, shard->inputs, 3, &mean, &err),
                     SKEP_ERR_FORMAT);
    assert_string_equal(err.text, "update 0 cuts tensor 0 of 8191 values as 64 x 128; all updates "
                                  "of a round must fit the shard and each other");
    struct skep_merge_input many[SKEP_LIMIT_UPDATES_PER_ROUND + 1];
    for (size_t i = 0; i < SKEP_LIMIT_UPDATES_PER_ROUND + 1; i++) {
        many[i] = shard->inputs[0];
    }
    assert_int_equal(merge_onto(shard->parameters, offsets, 2, many,
                                SKEP_LIMIT_UPDATES_PER_ROUND + 1, &mean, &err),
                     SKEP_ERR_TOO_LARGE);
    assert_int_equal(
        merge_onto(shard->parameters, offsets, 2, many, SKEP_LIMIT_UPDATES_PER_ROUND, &mean, &err),
        SKEP_OK);
    shard_free(shard);
}

/* Inputs made of integers alone, so that these bits depend on nothing but the merge. test-reference.py computes the same. */
static void golden_body(struct skep_update_body *body, uint64_t seed)
{
    struct skep_rng rng = skep_rng_of(seed);
    struct skep_tiling tilings[2] = {
        skep_tiling_of((const uint32_t[]){ROWS, COLUMNS}, 2, 512),
        skep_tiling_of((const uint32_t[]){VECTOR}, 1, 512),
    };
    body->tensor_count = 2;
    body->tensors = skep_alloc(2, sizeof *body->tensors);
    for (size_t t = 0; t < 2; t++) {
        struct skep_update_tensor *tensor = &body->tensors[t];
        tensor->tiling = tilings[t];
        uint32_t kept = tilings[t].kept;
        uint32_t gap = tilings[t].tile_rows * tilings[t].tile_columns / kept;
        tensor->indices = skep_alloc((size_t)tilings[t].blocks * kept, sizeof *tensor->indices);
        tensor->codes = skep_alloc((size_t)tilings[t].blocks * kept, 1);
        for (uint32_t i = 0; i < tilings[t].blocks * kept; i++) {
            tensor->indices[i] = (uint16_t)((i % kept) * gap + skep_rng_below(&rng, gap));
            tensor->codes[i] = (uint8_t)skep_rng_below(&rng, 4);
        }
        for (int code = 0; code < 4; code++) {
            int64_t place = (code < 2 ? code - 2 : code - 1) * 40000 + (int64_t)(seed * 1000);
            tensor->codebook[code] =
                (float)(place + (int64_t)skep_rng_below(&rng, 9999)) * 0x1p-24f;
        }
    }
}

static void a_merge_has_the_golden_bits(void **state)
{
    (void)state;
    static float parameters[TOTAL];
    struct skep_update_body bodies[11];
    struct skep_merge_input inputs[11];
    struct skep_rng rng = skep_rng_of(99);
    for (size_t i = 0; i < TOTAL; i++) {
        parameters[i] = (float)((int64_t)skep_rng_below(&rng, 1u << 24) - (1 << 23)) * 0x1p-27f;
    }
    for (size_t i = 0; i < 11; i++) {
        golden_body(&bodies[i], i);
        inputs[i] = (struct skep_merge_input){.body = &bodies[i], .staleness = (uint32_t)i % 3};
    }
    struct skep_merge_config config = trimmed;
    config.step_permille = 700;
    config.liars_permille = 181; /* f = 2 of 11 */
    assert_true(fingerprint(parameters) == 0x64b2867a25b73d37u);
    assert_int_equal(merge_onto(parameters, offsets, 2, inputs, 11, &config, NULL), SKEP_OK);
    assert_true(fingerprint(parameters) == 0xb0f1c693070dc5e9u);
    config.rule = SKEP_MERGE_MEAN;
    assert_int_equal(merge_onto(parameters, offsets, 2, inputs, 11, &config, NULL), SKEP_OK);
    assert_true(fingerprint(parameters) == 0x260529a47520f5a0u);
    for (size_t i = 0; i < 11; i++) {
        skep_update_body_done(&bodies[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_point_is_exact_where_it_can_be),
        cmocka_unit_test(fixed_point_rounds_to_nearest_ties_to_even),
        cmocka_unit_test(fixed_point_saturates),
        cmocka_unit_test(no_updates_change_nothing),
        cmocka_unit_test(one_fresh_update_is_applied_as_it_is),
        cmocka_unit_test(equal_updates_are_as_good_as_one),
        cmocka_unit_test(the_outer_step_scales_what_is_applied),
        cmocka_unit_test(the_order_of_updates_does_not_matter),
        cmocka_unit_test(stale_updates_weigh_less),
        cmocka_unit_test(an_update_too_stale_is_refused),
        cmocka_unit_test(a_liar_a_thousand_times_larger_changes_little),
        cmocka_unit_test(a_coordinate_sent_by_few_is_trimmed_away),
        cmocka_unit_test(trimming_agrees_with_sorting_whole_columns),
        cmocka_unit_test(fewer_than_five_updates_are_not_trimmed),
        cmocka_unit_test(an_update_of_zeros_neither_stops_nor_clips_the_others),
        cmocka_unit_test(opposite_updates_leave_the_state_and_its_negative_zeros),
        cmocka_unit_test(extreme_codebooks_are_held_and_do_not_overflow),
        cmocka_unit_test(a_state_out_of_range_is_refused_and_untouched),
        cmocka_unit_test(inputs_that_do_not_fit_the_shard_are_refused),
        cmocka_unit_test(a_merge_has_the_golden_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
