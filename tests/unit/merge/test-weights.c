/* Rules of weights against the same formulas in float64 over the vectors themselves; hand cases; liars. */
#include "common/merge/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "tests/lib/cmocka.h"

#define MOST SKEP_GRAM_MOST
#define DIM 96
#define ONE ((int64_t)1 << SKEP_WEIGHT_BITS)
/* The weights are rounded to 2^-30 in each of up to 8 steps and the matrix to 2^-62 of its largest entry; a step can
 * magnify what came before by the ratio of the distances, which is below 100 wherever this tolerance is used. */
#define TOLERANCE 1e-6

typedef void (*rule_function)(const struct skep_gram *, size_t, int64_t *);

struct round {
    size_t n;
    int64_t updates[MOST][DIM]; /* units of 2^-32 */
};

static double unit_of(int64_t value)
{
    return (double)value / 4294967296.0;
}

static double normal(struct skep_rng *rng)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        sum += skep_rng_unit(rng);
    }
    return sum;
}

/* Honest updates: a common direction, and noise of twice its length, as pseudo-gradients have. */
static struct round *round_new(uint64_t seed, size_t n, double size)
{
    struct round *round = skep_alloc(1, sizeof *round);
    struct skep_rng rng = skep_rng_of(seed);
    double direction[DIM];
    round->n = n;
    for (size_t k = 0; k < DIM; k++) {
        direction[k] = normal(&rng);
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < DIM; k++) {
            round->updates[i][k] =
                (int64_t)(size * (direction[k] + 2 * normal(&rng)) * 4294967296.0);
        }
    }
    return round;
}

/* The last `liars` updates become `factor` times the first one. */
static void lie(struct round *round, size_t liars, int64_t factor)
{
    for (size_t i = round->n - liars; i < round->n; i++) {
        for (size_t k = 0; k < DIM; k++) {
            round->updates[i][k] = factor * round->updates[0][k];
        }
    }
}

static struct skep_gram *gram_of(const struct round *round)
{
    struct skep_gram *gram = skep_alloc(1, sizeof *gram);
    gram->n = round->n;
    for (size_t i = 0; i < round->n; i++) {
        for (size_t j = 0; j < round->n; j++) {
            for (size_t k = 0; k < DIM; k++) {
                gram->products[i * round->n + j] +=
                    (__int128)round->updates[i][k] * round->updates[j][k];
            }
        }
    }
    return gram;
}

/* n numbers on a line. */
static struct skep_gram *gram_of_line(const int64_t *places, size_t n)
{
    struct round *round = skep_alloc(1, sizeof *round);
    round->n = n;
    for (size_t i = 0; i < n; i++) {
        round->updates[i][0] = places[i];
    }
    struct skep_gram *gram = gram_of(round);
    free(round);
    return gram;
}

static void assert_near(double found, double expected, double tolerance)
{
    assert_true(fabs(found - expected) <= tolerance);
}

static int64_t sum_of(const int64_t *weights, size_t first, size_t end)
{
    int64_t sum = 0;
    for (size_t i = first; i < end; i++) {
        sum += weights[i];
    }
    return sum;
}

/* ---- the reference: float64, over the vectors ---- */

static double distance_to(const struct round *round, size_t i, const double *centre)
{
    double sum = 0;
    for (size_t k = 0; k < DIM; k++) {
        double difference = unit_of(round->updates[i][k]) - centre[k];
        sum += difference * difference;
    }
    return sqrt(sum);
}

static void centre_of(const struct round *round, const double *weights, double *ret_centre)
{
    for (size_t k = 0; k < DIM; k++) {
        ret_centre[k] = 0;
        for (size_t i = 0; i < round->n; i++) {
            ret_centre[k] += weights[i] * unit_of(round->updates[i][k]);
        }
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const double *values, size_t count)
{
    double sorted[MOST];
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_value);
    return sorted[(count - 1) / 2];
}

static double score_of(const struct round *round, size_t i, size_t f)
{
    double own[DIM];
    double squares[MOST];
    size_t others = 0;
    for (size_t k = 0; k < DIM; k++) {
        own[k] = unit_of(round->updates[i][k]);
    }
    for (size_t j = 0; j < round->n; j++) {
        if (j != i) {
            squares[others++] = pow(distance_to(round, j, own), 2);
        }
    }
    qsort(squares, others, sizeof *squares, by_value);
    double score = 0;
    for (size_t k = 0; k < round->n - f - 2; k++) {
        score += squares[k];
    }
    return score;
}

static void reference_geometric_median(const struct round *round, double *weights)
{
    double centre[DIM] = {0};
    double distances[MOST];
    for (size_t i = 0; i < round->n; i++) {
        weights[i] = 1 / (double)round->n;
        distances[i] = distance_to(round, i, centre);
    }
    double smallest = median_of(distances, round->n) / 65536;
    for (int step = 0; step < 8; step++) {
        double sum = 0;
        centre_of(round, weights, centre);
        for (size_t i = 0; i < round->n; i++) {
            weights[i] = 1 / fmax(smallest, distance_to(round, i, centre));
            sum += weights[i];
        }
        for (size_t i = 0; i < round->n; i++) {
            weights[i] /= sum;
        }
    }
}

/* Keeps the centre itself, as the paper writes it, and not its weights. */
static void reference_centered_clip(const struct round *round, double *ret_centre)
{
    memset(ret_centre, 0, DIM * sizeof *ret_centre);
    for (int step = 0; step < 3; step++) {
        double distances[MOST];
        double move[DIM] = {0};
        for (size_t i = 0; i < round->n; i++) {
            distances[i] = distance_to(round, i, ret_centre);
        }
        double radius = median_of(distances, round->n);
        for (size_t i = 0; i < round->n; i++) {
            double clip = fmin(1, radius / distances[i]) / (double)round->n;
            for (size_t k = 0; k < DIM; k++) {
                move[k] += clip * (unit_of(round->updates[i][k]) - ret_centre[k]);
            }
        }
        for (size_t k = 0; k < DIM; k++) {
            ret_centre[k] += move[k];
        }
    }
}

/* ---- tests ---- */

static const size_t sizes[] = {1, 2, 4, 5, 7, 8, 16, 33, 64};
static const rule_function rules[] = {skep_weights_krum, skep_weights_multi_krum,
                                      skep_weights_geometric_median, skep_weights_centered_clip};

static void krum_takes_the_update_of_the_least_score(void **state)
{
    (void)state;
    for (size_t s = 3; s < sizeof sizes / sizeof *sizes; s++) {
        struct round *round = round_new(s, sizes[s], 0.01);
        struct skep_gram *gram = gram_of(round);
        size_t f = sizes[s] / 4;
        int64_t weights[MOST];
        skep_weights_krum(gram, f, weights);
        size_t best = 0;
        for (size_t i = 1; i < round->n; i++) {
            best = score_of(round, i, f) < score_of(round, best, f) ? i : best;
        }
        for (size_t i = 0; i < round->n; i++) {
            assert_int_equal(weights[i], i == best ? ONE : 0);
        }
        free(gram);
        free(round);
    }
}

static void multi_krum_shares_among_the_n_minus_f_best(void **state)
{
    (void)state;
    struct round *round = round_new(3, 16, 0.01);
    struct skep_gram *gram = gram_of(round);
    int64_t weights[MOST];
    skep_weights_multi_krum(gram, 3, weights);
    double worst_chosen = 0;
    double best_left = 1e300;
    size_t chosen = 0;
    for (size_t i = 0; i < 16; i++) {
        double score = score_of(round, i, 3);
        if (weights[i] != 0) {
            chosen++;
            worst_chosen = fmax(worst_chosen, score);
            assert_true(llabs(weights[i] - ONE / 13) <= 13);
        } else {
            best_left = fmin(best_left, score);
        }
    }
    assert_int_equal(chosen, 13);
    assert_true(worst_chosen < best_left);
    assert_int_equal(sum_of(weights, 0, 16), ONE);
    free(gram);
    free(round);
}

static void geometric_median_is_weiszfeld_of_the_reference(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct round *round = round_new(10 + s, sizes[s], 0.001);
        lie(round, sizes[s] / 4, -3);
        struct skep_gram *gram = gram_of(round);
        int64_t weights[MOST];
        double expected[MOST];
        skep_weights_geometric_median(gram, 0, weights);
        reference_geometric_median(round, expected);
        for (size_t i = 0; i < round->n; i++) {
            assert_near((double)weights[i] / (double)ONE, expected[i], TOLERANCE);
        }
        assert_int_equal(sum_of(weights, 0, round->n), ONE);
        free(gram);
        free(round);
    }
}

static void centered_clip_is_the_centre_of_the_reference(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct round *round = round_new(20 + s, sizes[s], 0.001);
        lie(round, sizes[s] / 4, -3);
        struct skep_gram *gram = gram_of(round);
        int64_t weights[MOST];
        double shares[MOST];
        double centre[DIM];
        double expected[DIM];
        skep_weights_centered_clip(gram, 0, weights);
        for (size_t i = 0; i < round->n; i++) {
            assert_true(weights[i] >= 0);
            shares[i] = (double)weights[i] / (double)ONE;
        }
        assert_true(sum_of(weights, 0, round->n) <= ONE);
        centre_of(round, shares, centre);
        reference_centered_clip(round, expected);
        double largest = 0;
        for (size_t k = 0; k < DIM; k++) {
            largest = fmax(largest, fabs(expected[k]));
        }
        for (size_t k = 0; k < DIM; k++) {
            assert_near(centre[k], expected[k], TOLERANCE * largest);
        }
        free(gram);
        free(round);
    }
}

static void three_points_on_a_line_give_the_middle_one(void **state)
{
    (void)state;
    struct skep_gram *gram = gram_of_line((const int64_t[]){0, 10 << 20, 1000 << 20}, 3);
    int64_t weights[MOST];
    skep_weights_krum(gram, 0, weights); /* 1 nearest: 0 and 10 are equally near to each other */
    assert_int_equal(weights[0], ONE);
    assert_int_equal(sum_of(weights, 1, 3), 0);
    skep_weights_geometric_median(gram, 0, weights);
    double centre = (10 * (double)weights[1] + 1000 * (double)weights[2]) / (double)ONE;
    assert_true(centre > 5 && centre < 40); /* the mean is 337, the median 10; 8 steps come close */
    free(gram);
}

static void centered_clip_on_a_line_is_done_by_hand(void **state)
{
    (void)state;
    /* Norms 1, 2, 8: radius 2, clips 1, 1, 1/4 and centre (1 + 2 + 2) / 3 = 5/3. Distances 2/3, 1/3, 19/3: radius 2/3, clips 1,
     * 1, 2/19, centre 5/3 + (-2/3 + 1/3 + 2/3) / 3 = 16/9. Distances 7/9, 2/9, 56/9: radius 7/9, 16/9 + (-7 + 2 + 7) / 27. */
    struct skep_gram *gram = gram_of_line((const int64_t[]){1 << 24, 2 << 24, 8 << 24}, 3);
    int64_t weights[MOST];
    skep_weights_centered_clip(gram, 0, weights);
    double centre =
        ((double)weights[0] + 2 * (double)weights[1] + 8 * (double)weights[2]) / (double)ONE;
    assert_near(centre, 16.0 / 9 + 2.0 / 27, 1e-7);
    free(gram);
}

static void one_update_gets_all_the_weight(void **state)
{
    (void)state;
    struct skep_gram *gram = gram_of_line((const int64_t[]){-12345}, 1);
    for (size_t r = 0; r < 4; r++) {
        for (size_t f = 0; f < 3; f++) {
            int64_t weights[MOST] = {0};
            rules[r](gram, f, weights);
            assert_int_equal(weights[0], ONE);
        }
    }
    uint64_t set = 0;
    skep_gram_nearest(gram, 1, &set);
    assert_int_equal(set, 1);
    free(gram);
}

static void updates_of_zeros_and_identical_ones_weigh_the_same(void **state)
{
    (void)state;
    for (int64_t value = 0; value <= 77; value += 77) {
        const int64_t places[] = {value, value, value, value, value};
        struct skep_gram *gram = gram_of_line(places, 5);
        int64_t weights[MOST];
        skep_weights_krum(gram, 1, weights);
        assert_int_equal(weights[0], ONE); /* ties go to the lower index */
        skep_weights_multi_krum(gram, 1, weights);
        assert_int_equal(weights[0], ONE / 4);
        assert_int_equal(weights[4], 0);
        for (size_t r = 2; r < 4; r++) {
            rules[r](gram, 1, weights);
            for (size_t i = 0; i < 5; i++) {
                assert_true(llabs(weights[i] - ONE / 5) <= 8);
            }
            assert_true(r == 3 || weights[0] == ONE - 4 * (ONE / 5)); /* with what is left over */
        }
        free(gram);
    }
}

static void any_f_is_allowed(void **state)
{
    (void)state;
    struct round *round = round_new(30, 7, 0.01);
    struct skep_gram *gram = gram_of(round);
    for (size_t r = 0; r < 4; r++) {
        for (size_t f = 0; f <= 100; f++) {
            int64_t weights[MOST];
            rules[r](gram, f, weights);
            int64_t sum = sum_of(weights, 0, 7);
            assert_true(sum <= ONE && sum >= (r < 3 ? ONE : 0));
        }
    }
    free(gram);
    free(round);
}

static void permuted_updates_get_permuted_weights(void **state)
{
    (void)state;
    struct round *round = round_new(40, 33, 0.01);
    struct round *other = round_new(40, 33, 0.01);
    size_t places[33];
    for (size_t i = 0; i < 33; i++) {
        places[i] = i * 10 % 33;
        memcpy(other->updates[places[i]], round->updates[i], sizeof round->updates[i]);
    }
    struct skep_gram *gram = gram_of(round);
    struct skep_gram *permuted = gram_of(other);
    for (size_t r = 0; r < 4; r++) {
        int64_t weights[MOST];
        int64_t others[MOST];
        rules[r](gram, 8, weights);
        rules[r](permuted, 8, others);
        for (size_t i = 0; i < 33; i++) {
            assert_int_equal(weights[i], others[places[i]]);
        }
    }
    free(permuted);
    free(gram);
    free(other);
    free(round);
}

static void other_units_give_the_same_weights(void **state)
{
    (void)state;
    struct round *round = round_new(50, 16, 0.0005);
    struct skep_gram *gram = gram_of(round);
    struct skep_gram *larger = gram_of(round);
    for (size_t i = 0; i < 256; i++) {
        larger->products[i] *= (__int128)1 << 58; /* up to about 2^123 */
    }
    for (size_t r = 0; r < 4; r++) {
        int64_t weights[MOST];
        int64_t others[MOST];
        rules[r](gram, 4, weights);
        rules[r](larger, 4, others);
        assert_memory_equal(weights, others, 16 * sizeof *weights);
    }
    free(larger);
    free(gram);
    free(round);
}

/* All entries as large as they may be: a sanitized build would stop at the first overflow. */
static void the_largest_products_do_not_overflow(void **state)
{
    (void)state;
    struct skep_gram *gram = skep_alloc(1, sizeof *gram);
    struct skep_gram *mixed = skep_alloc(1, sizeof *mixed);
    const __int128 largest = ((__int128)1 << 126) - 1;
    uint64_t sets[MOST];
    gram->n = MOST;
    for (size_t i = 0; i < MOST * MOST; i++) {
        /* Half point one way, half the other. */
        gram->products[i] = (i / MOST + i % MOST) % 2 == 0 ? largest : -largest;
    }
    for (size_t r = 0; r < 4; r++) {
        int64_t weights[MOST];
        rules[r](gram, 16, weights);
        assert_in_range(sum_of(weights, 0, MOST), 0, ONE);
    }
    skep_gram_nearest(gram, 32, sets);
    for (size_t i = 0; i < MOST; i++) {
        assert_true(sets[i] == (i % 2 == 0 ? 0x5555555555555555u : 0xaaaaaaaaaaaaaaaau));
    }
    skep_gram_mix(gram, sets, mixed);
    assert_true(mixed->products[0] > largest - ((__int128)1 << 14));
    assert_true(mixed->products[1] == -mixed->products[0]);
    free(mixed);
    free(gram);
}

/* ---- liars: what theory says of their weights ---- */

static void far_liars_up_to_f_get_no_weight_from_krum(void **state)
{
    (void)state;
    static const size_t liars[][2] = {{8, 2}, {16, 4}, {33, 9}, {64, 19}}; /* n, f: 25 to 30 % */
    for (size_t c = 0; c < 4; c++) {
        struct round *round = round_new(60 + c, liars[c][0], 0.001);
        lie(round, liars[c][1], -10); /* all at one place: nearest to each other */
        struct skep_gram *gram = gram_of(round);
        size_t honest = liars[c][0] - liars[c][1];
        for (size_t r = 0; r < 2; r++) {
            int64_t weights[MOST];
            rules[r](gram, liars[c][1], weights);
            assert_int_equal(sum_of(weights, 0, honest), ONE);
        }
        free(gram);
        free(round);
    }
}

/* At distance R the geometric median's weight goes down as 1/R, and the clipped one as radius/R: what a liar moves the centre is bounded. */
static void far_liars_get_weight_as_one_over_their_distance(void **state)
{
    (void)state;
    for (int64_t factor = -10; factor >= -10000; factor *= 10) {
        struct round *round = round_new(70, 16, 0.001);
        lie(round, 4, factor);
        struct skep_gram *gram = gram_of(round);
        for (size_t r = 2; r < 4; r++) {
            int64_t weights[MOST];
            rules[r](gram, 4, weights);
            double honest = (double)sum_of(weights, 0, 12) / 12;
            for (size_t i = 12; i < 16; i++) {
                double share = (double)weights[i] / honest * (double)-factor;
                assert_true(share > 0.2 && share < 2);
            }
        }
        free(gram);
        free(round);
    }
}

static void more_than_half_liars_carry_the_geometric_median_away(void **state)
{
    (void)state;
    struct round *round = round_new(80, 16, 0.001);
    lie(round, 9, -100);
    struct skep_gram *gram = gram_of(round);
    int64_t weights[MOST];
    skep_weights_geometric_median(gram, 7, weights);
    assert_true(sum_of(weights, 7, 16) > ONE / 10 * 9);
    free(gram);
    free(round);
}

static void an_update_is_mixed_with_its_nearest(void **state)
{
    (void)state;
    struct skep_gram *gram = gram_of_line((const int64_t[]){0, 1, 2, 10, 12}, 5);
    uint64_t sets[5];
    skep_gram_nearest(gram, 2, sets);
    assert_int_equal(sets[0], 0x03);
    assert_int_equal(sets[1], 0x03); /* 0 and 2 are equally near */
    assert_int_equal(sets[2], 0x06);
    assert_int_equal(sets[3], 0x18);
    assert_int_equal(sets[4], 0x18);
    skep_gram_nearest(gram, 5, sets);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(sets[i], 0x1f);
    }
    free(gram);
}

static void an_update_is_in_its_own_set_before_its_copies(void **state)
{
    (void)state;
    struct skep_gram *gram = gram_of_line((const int64_t[]){5, 5, 5, 5}, 4);
    uint64_t sets[4];
    skep_gram_nearest(gram, 1, sets);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(sets[i], 1 << i);
    }
    free(gram);
}

static void honest_updates_are_not_mixed_with_far_liars(void **state)
{
    (void)state;
    struct round *round = round_new(90, 33, 0.001);
    lie(round, 9, -20);
    struct skep_gram *gram = gram_of(round);
    uint64_t sets[MOST];
    skep_gram_nearest(gram, 24, sets);
    for (size_t i = 0; i < 24; i++) {
        assert_int_equal(sets[i] >> 24, 0);
    }
    for (size_t i = 24; i < 33; i++) {
        /* A liar finds 9 of its own and is mixed with 15 honest ones. */
        assert_int_equal(__builtin_popcountll(sets[i] & 0xffffff), 15);
    }
    free(gram);
    free(round);
}

/* The mixed matrix is that of the mixed vectors: products times (set size)^2 are exact. */
static void mixed_products_are_those_of_mixed_updates(void **state)
{
    (void)state;
    struct round *round = round_new(100, 16, 0.001);
    struct round *mixed = round_new(100, 16, 0.001);
    struct skep_gram *gram = gram_of(round);
    struct skep_gram *result = skep_alloc(1, sizeof *result);
    uint64_t sets[MOST];
    skep_gram_nearest(gram, 12, sets);
    for (size_t i = 0; i < 16; i++) {
        for (size_t k = 0; k < DIM; k++) {
            mixed->updates[i][k] = 0;
            for (size_t j = 0; j < 16; j++) {
                mixed->updates[i][k] += (sets[i] >> j & 1) != 0 ? round->updates[j][k] : 0;
            }
        }
    }
    struct skep_gram *expected = gram_of(mixed);
    skep_gram_mix(gram, sets, result);
    assert_int_equal(result->n, 16);
    for (size_t i = 0; i < 256; i++) {
        assert_true(result->products[i] == expected->products[i] / 144);
    }
    free(expected);
    free(result);
    free(gram);
    free(mixed);
    free(round);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(krum_takes_the_update_of_the_least_score),
        cmocka_unit_test(multi_krum_shares_among_the_n_minus_f_best),
        cmocka_unit_test(geometric_median_is_weiszfeld_of_the_reference),
        cmocka_unit_test(centered_clip_is_the_centre_of_the_reference),
        cmocka_unit_test(three_points_on_a_line_give_the_middle_one),
        cmocka_unit_test(centered_clip_on_a_line_is_done_by_hand),
        cmocka_unit_test(one_update_gets_all_the_weight),
        cmocka_unit_test(updates_of_zeros_and_identical_ones_weigh_the_same),
        cmocka_unit_test(any_f_is_allowed),
        cmocka_unit_test(permuted_updates_get_permuted_weights),
        cmocka_unit_test(other_units_give_the_same_weights),
        cmocka_unit_test(the_largest_products_do_not_overflow),
        cmocka_unit_test(far_liars_up_to_f_get_no_weight_from_krum),
        cmocka_unit_test(far_liars_get_weight_as_one_over_their_distance),
        cmocka_unit_test(more_than_half_liars_carry_the_geometric_median_away),
        cmocka_unit_test(an_update_is_mixed_with_its_nearest),
        cmocka_unit_test(an_update_is_in_its_own_set_before_its_copies),
        cmocka_unit_test(honest_updates_are_not_mixed_with_far_liars),
        cmocka_unit_test(mixed_products_are_those_of_mixed_updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
