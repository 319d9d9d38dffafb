/* Every rule against the obvious way to compute it: whole columns, written out and sorted. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/merge/fixed.h"
#include "common/merge/weights.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/merge/merge-scene.h"

/* ---- the reference ---- */

struct reference {
    size_t n;
    size_t f;
    uint64_t target; /* median norm after clipping */
    int64_t (*columns)[SCENE_TOTAL];
    int64_t aggregate[SCENE_TOTAL];
};

static uint64_t norm_of(const int64_t *values)
{
    unsigned __int128 square = 0;
    for (size_t p = 0; p < SCENE_TOTAL; p++) {
        square += (unsigned __int128)((__int128)values[p] * values[p]);
    }
    return skep_fixed_root(square);
}

static int64_t toward_zero(__int128 numerator, __int128 denominator)
{
    assert(denominator > 0);
    return (int64_t)(numerator / denominator);
}

static uint64_t lower_median(const struct reference *reference)
{
    uint64_t norms[SCENE_MOST];
    for (size_t i = 0; i < reference->n; i++) {
        norms[i] = norm_of(reference->columns[i]);
    }
    return skep_fixed_median(norms, reference->n);
}

/* No value of a tensor beyond twice the median of the columns' largest. */
static void flatten(struct reference *reference, size_t first, size_t end)
{
    uint64_t peaks[SCENE_MOST] = {0};
    for (size_t i = 0; i < reference->n; i++) {
        for (size_t p = first; p < end; p++) {
            int64_t value = reference->columns[i][p];
            uint64_t magnitude = (uint64_t)(value < 0 ? -value : value);
            peaks[i] = magnitude > peaks[i] ? magnitude : peaks[i];
        }
    }
    int64_t limit = 2 * (int64_t)skep_fixed_median(peaks, reference->n);
    for (size_t i = 0; i < reference->n && reference->n >= 5 && limit > 0; i++) {
        for (size_t p = first; p < end; p++) {
            int64_t *value = &reference->columns[i][p];
            *value = *value > limit ? limit : *value;
            *value = *value < -limit ? -limit : *value;
        }
    }
}

/* Updates in order of hash, flattened, clipped to their median norm and weighted by age. */
static void load(const struct scene *scene, struct reference *reference)
{
    static const int64_t weights[3] = {65536, 46341, 37837};
    size_t n = scene->n;
    reference->n = n;
    reference->columns = skep_alloc(n, sizeof *reference->columns);
    uint32_t ages[SCENE_MOST];
    for (size_t i = 0; i < n; i++) {
        size_t rank = 0;
        for (size_t j = 0; j < n; j++) {
            rank += skep_hash_compare(&scene->inputs[j].hash, &scene->inputs[i].hash) < 0;
        }
        scene_dense(scene, i, reference->columns[rank]);
        ages[rank] = scene->inputs[i].staleness;
    }
    for (size_t t = 0; t < SCENE_TENSORS; t++) {
        flatten(reference, scene->offsets[t], scene->offsets[t + 1]);
    }
    uint64_t median = lower_median(reference);
    for (size_t i = 0; i < n; i++) {
        uint64_t norm = norm_of(reference->columns[i]);
        __int128 ratio = norm <= median ? (__int128)1 << 30 : ((__int128)median << 30) / norm;
        for (size_t p = 0; p < SCENE_TOTAL; p++) {
            int64_t *value = &reference->columns[i][p];
            *value = toward_zero(*value * ratio * weights[ages[i]], (__int128)1 << 46);
        }
    }
    reference->target = lower_median(reference);
}

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

/* Per place: all n values sorted, f dropped at each end, their sum divided. */
static void trim(struct reference *reference, size_t f, size_t divisor)
{
    size_t n = reference->n;
    for (size_t p = 0; p < SCENE_TOTAL; p++) {
        int64_t column[SCENE_MOST];
        for (size_t i = 0; i < n; i++) {
            column[i] = reference->columns[i][p];
        }
        qsort(column, n, sizeof *column, compare);
        __int128 sum = 0;
        for (size_t i = f; i < n - f; i++) {
            sum += column[i];
        }
        reference->aggregate[p] = toward_zero(sum, (__int128)divisor * (n - 2 * f));
    }
}

static double distance_of(const struct reference *reference, size_t i, size_t j)
{
    double sum = 0;
    for (size_t p = 0; p < SCENE_TOTAL; p++) {
        double off = (double)(reference->columns[i][p] - reference->columns[j][p]);
        sum += off * off;
    }
    return sum;
}

/* Column i becomes the sum (not the mean) of its q nearest. */
static void mix(struct reference *reference, size_t q)
{
    size_t n = reference->n;
    int64_t(*mixed)[SCENE_TOTAL] = skep_alloc(n, sizeof *mixed);
    for (size_t i = 0; i < n; i++) {
        double distances[SCENE_MOST];
        for (size_t j = 0; j < n; j++) {
            distances[j] = i == j ? -1 : distance_of(reference, i, j);
        }
        for (size_t j = 0; j < n; j++) {
            size_t nearer = 0;
            for (size_t k = 0; k < n; k++) {
                nearer += distances[k] < distances[j] || (distances[k] == distances[j] && k < j);
            }
            for (size_t p = 0; p < SCENE_TOTAL && nearer < q; p++) {
                mixed[i][p] += reference->columns[j][p];
            }
        }
    }
    free(reference->columns);
    reference->columns = mixed;
}

static void gram_of(const struct reference *reference, struct skep_gram *gram)
{
    gram->n = reference->n;
    for (size_t i = 0; i < gram->n; i++) {
        for (size_t j = 0; j < gram->n; j++) {
            __int128 product = 0;
            for (size_t p = 0; p < SCENE_TOTAL; p++) {
                product += (__int128)reference->columns[i][p] * reference->columns[j][p];
            }
            gram->products[i * gram->n + j] = product;
        }
    }
}

/* sum of w_i * column i / (2^30 * divisor), with the weights that weights.h finds for these columns. */
static void weigh(struct reference *reference, enum skep_merge_rule rule, size_t divisor)
{
    static struct skep_gram gram;
    int64_t weights[SCENE_MOST];
    gram_of(reference, &gram);
    if (rule == SKEP_MERGE_KRUM) {
        skep_weights_krum(&gram, reference->f, weights);
    } else if (rule == SKEP_MERGE_MULTI_KRUM) {
        skep_weights_multi_krum(&gram, reference->f, weights);
    } else if (rule == SKEP_MERGE_CENTERED_CLIP) {
        skep_weights_centered_clip(&gram, reference->f, weights);
    } else {
        skep_weights_geometric_median(&gram, reference->f, weights);
    }
    for (size_t p = 0; p < SCENE_TOTAL; p++) {
        __int128 sum = 0;
        for (size_t i = 0; i < reference->n; i++) {
            sum += (__int128)weights[i] * reference->columns[i][p];
        }
        reference->aggregate[p] = toward_zero(sum, (__int128)divisor << 30);
    }
}

static void combine(struct reference *reference, enum skep_merge_rule rule)
{
    size_t n = reference->n;
    reference->f = skep_merge_liars(n, 250);
    bool mixes = rule == SKEP_MERGE_NNM_TRIMMED_MEAN || rule == SKEP_MERGE_NNM_GEOMETRIC_MEDIAN;
    if (rule == SKEP_MERGE_MEAN || n == 1 || (mixes && reference->f == 0)) {
        trim(reference, 0, 1);
    } else if (rule == SKEP_MERGE_COORDINATE_MEDIAN) {
        trim(reference, (n - 1) / 2, 1);
    } else if (rule == SKEP_MERGE_TRIMMED_MEAN) {
        trim(reference, reference->f, 1);
    } else if (!mixes) {
        weigh(reference, rule, 1);
    } else {
        size_t q = n - reference->f;
        mix(reference, q);
        if (rule == SKEP_MERGE_NNM_TRIMMED_MEAN && n >= 8) {
            trim(reference, reference->f, q);
        } else {
            weigh(reference, SKEP_MERGE_GEOMETRIC_MEDIAN, q);
        }
    }
}

static void step(const struct reference *reference, const float *state, float *ret_state)
{
    uint64_t norm = norm_of(reference->aggregate);
    __int128 ratio = norm == 0 ? (__int128)1 << 30 : ((__int128)reference->target << 30) / norm;
    ratio = ratio < (__int128)1 << 30 ? (__int128)1 << 30 : ratio;
    ratio = ratio > (__int128)1 << 31 ? (__int128)1 << 31 : ratio;
    for (size_t p = 0; p < SCENE_TOTAL; p++) {
        int64_t off = toward_zero(reference->aggregate[p] * ratio, (__int128)1 << 30);
        ret_state[p] =
            off == 0 ? state[p] : skep_fixed_to_float(skep_fixed_from_float(state[p]) - off);
    }
}

/* ---- the comparison ---- */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Rules per place must give the same bits. Weights come from inner products that were scaled in another order, so rules with weights
 * may be off by what their last bits make of it. */
static void compare_with_reference(const struct scene *scene, enum skep_merge_rule rule)
{
    static float expected[SCENE_TOTAL];
    static float merged[SCENE_TOTAL];
    struct reference *reference = skep_alloc(1, sizeof *reference);
    load(scene, reference);
    combine(reference, rule);
    step(reference, scene->state, expected);
    free(reference->columns);
    free(reference);
    struct skep_merge_config config = scene_config(rule);
    const struct skep_merge_options options = {.config = &config};
    scene_merge(scene, &options, merged, NULL);
    bool weighted =
        rule >= SKEP_MERGE_KRUM && !(rule == SKEP_MERGE_NNM_TRIMMED_MEAN && scene->n >= 8);
    for (size_t p = 0; p < SCENE_TOTAL; p++) {
        double off = (double)merged[p] - (double)expected[p];
        if (weighted ? off > 1e-7 || off < -1e-7 : bits_of(merged[p]) != bits_of(expected[p])) {
            fail_msg("rule %d, %zu updates: place %zu is %.9g, expected %.9g", (int)rule, scene->n,
                     p, (double)merged[p], (double)expected[p]);
        }
    }
}

static void compare_all(size_t n, uint32_t keep, enum scene_places places, bool stale)
{
    static struct scene scene;
    scene_init(&scene, 1000 * n + keep, n, keep, places, stale);
    for (enum skep_merge_rule rule = 0; rule < SKEP_MERGE_RULES; rule++) {
        compare_with_reference(&scene, rule);
    }
    scene_done(&scene);
}

static void rules_agree_with_whole_columns_for_few_updates(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 8; n++) {
        compare_all(n, 300, SCENE_APART, n % 2 == 0);
    }
}

static void rules_agree_with_whole_columns_for_many_updates(void **state)
{
    (void)state;
    compare_all(16, 256, SCENE_CROWDED, false);
    compare_all(17, 64, SCENE_APART, true);
    compare_all(SCENE_MOST, 200, SCENE_CROWDED, false);
}

static void rules_agree_with_whole_columns_where_all_send_the_same_places(void **state)
{
    (void)state;
    compare_all(9, 512, SCENE_SAME, false);
    compare_all(13, 4096, SCENE_SAME, true);
}

/* ---- by hand ---- */

enum { HAND = 9, HAND_PLACES = 8 };

/* Nine updates of one vector of 8 places, each sending one place. */
static void merge_by_hand(enum skep_merge_rule rule, const uint16_t *places, const float *values,
                          float *ret_state)
{
    struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){HAND_PLACES}, 1, 512);
    assert_int_equal(tiling.kept, 1);
    uint16_t indices[HAND];
    uint8_t code = 3;
    struct skep_update_tensor tensors[HAND];
    struct skep_update_body bodies[HAND];
    struct skep_merge_input inputs[HAND];
    for (size_t i = 0; i < HAND; i++) {
        indices[i] = places[i];
        tensors[i] = (struct skep_update_tensor){.tiling = tiling,
                                                 .codebook = {0, 0, 0, values[i]},
                                                 .indices = &indices[i],
                                                 .codes = &code};
        bodies[i] = (struct skep_update_body){.tensor_count = 1, .tensors = &tensors[i]};
        inputs[i] = (struct skep_merge_input){.body = &bodies[i], .hash = scene_hash(i)};
    }
    const size_t offsets[2] = {0, HAND_PLACES};
    const struct skep_merge_shard shard = {ret_state, offsets, 1};
    struct skep_merge_config config = scene_config(rule);
    config.clip_permille = 0;
    config.liars_permille = 222; /* f = 2 of 9 */
    const struct skep_merge_options options = {.config = &config};
    memset(ret_state, 0, HAND_PLACES * sizeof *ret_state);
    assert_int_equal(skep_merge(&shard, inputs, HAND, &options, NULL, NULL), SKEP_OK);
}

/* Nine values at one place: 1 .. 8 and a liar's 1000. The median norm, 5, is what the aggregate may be stretched to. */
static void small_cases_come_out_as_by_hand(void **state)
{
    (void)state;
    const uint16_t places[HAND] = {4, 4, 4, 4, 4, 4, 4, 4, 4};
    const float values[HAND] = {3, 1, 2, 1000, 4, 8, 6, 7, 5};
    float merged[HAND_PLACES];
    merge_by_hand(SKEP_MERGE_MEAN, places, values, merged);
    assert_true(merged[4] < -115.11f && merged[4] > -115.12f); /* 1036 / 9 */
    merge_by_hand(SKEP_MERGE_COORDINATE_MEDIAN, places, values, merged);
    assert_true(merged[4] == -5);
    merge_by_hand(SKEP_MERGE_TRIMMED_MEAN, places, values, merged);
    assert_true(merged[4] == -5); /* 3 4 5 6 7 */
    merge_by_hand(SKEP_MERGE_KRUM, places, values, merged);
    assert_true(merged[4] <= -4 && merged[4] >= -6);
    merge_by_hand(SKEP_MERGE_MULTI_KRUM, places, values, merged);
    assert_true(merged[4] <= -4 && merged[4] >= -5);
    merge_by_hand(SKEP_MERGE_GEOMETRIC_MEDIAN, places, values, merged);
    assert_true(merged[4] < -5.503f && merged[4] > -5.505f); /* 8 steps from the mean, 115.1 */
    merge_by_hand(SKEP_MERGE_CENTERED_CLIP, places, values, merged);
    assert_true(merged[4] <= -4 && merged[4] >= -7);
    merge_by_hand(SKEP_MERGE_NNM_TRIMMED_MEAN, places, values, merged);
    assert_true(merged[4] <= -4 && merged[4] >= -5.5f);
    merge_by_hand(SKEP_MERGE_NNM_GEOMETRIC_MEDIAN, places, values, merged);
    assert_true(merged[4] <= -4 && merged[4] >= -5.5f);
}

/*
 * Eight equal updates and one that sends another place. All eight are at distance 0 of each other, so their mixes are themselves, and
 * the ninth's is of himself and six of them: at the common place 8 mixes have 1 and one 6/7, at his one has 1/7 and the rest 0.
 */
static void a_mixed_place_that_one_liar_owns_is_trimmed_away(void **state)
{
    (void)state;
    const uint16_t places[HAND] = {4, 4, 4, 4, 2, 4, 4, 4, 4};
    const float values[HAND] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    float merged[HAND_PLACES];
    merge_by_hand(SKEP_MERGE_NNM_TRIMMED_MEAN, places, values, merged);
    const float expected[HAND_PLACES] = {0, 0, 0, 0, -1, 0, 0, 0};
    assert_memory_equal(merged, expected, sizeof expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_agree_with_whole_columns_for_few_updates),
        cmocka_unit_test(rules_agree_with_whole_columns_for_many_updates),
        cmocka_unit_test(rules_agree_with_whole_columns_where_all_send_the_same_places),
        cmocka_unit_test(small_cases_come_out_as_by_hand),
        cmocka_unit_test(a_mixed_place_that_one_liar_owns_is_trimmed_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
