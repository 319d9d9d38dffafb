/* Standings over chains of seals: the window, and that only the head counts. */
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/merge/merge.h"
#include "common/merge/standings.h"
#include "tests/lib/cmocka.h"

#define DONORS 6
#define CHAIN 150 /* versions: more than two windows */

/* Version i + 1 of a chain in which donor 0 lies from version LIES on; sometimes somebody is not there, copies, or is alone. */
struct chain {
    struct skep_receipt receipts[CHAIN][DONORS];
    struct skep_seal seals[CHAIN];
};

#define LIES 40

static struct skep_peer_id donor_of(size_t number)
{
    return (struct skep_peer_id){{(uint8_t)(number + 1)}};
}

static void fill_seal(struct chain *chain, size_t i, struct skep_rng *rng)
{
    struct skep_seal *seal = &chain->seals[i];
    *seal = (struct skep_seal){
        .version = i + 1, .norm = 1000 + skep_rng_below(rng, 500), .receipts = chain->receipts[i]};
    size_t most = skep_rng_below(rng, 10) == 0 ? 1 : DONORS;
    for (size_t d = 0; d < most; d++) {
        if (skep_rng_below(rng, 8) == 0) {
            continue;
        }
        bool copy = skep_rng_below(rng, 12) == 0;
        int64_t noise = (int64_t)skep_rng_below(rng, 200) - 100;
        seal->receipts[seal->receipt_count++] =
            (struct skep_receipt){.donor = donor_of(d),
                                  .merged = !copy,
                                  .copy = copy,
                                  .agreement_permille = noise + (d == 0 && i >= LIES ? -300 : 200)};
    }
}

static int set_up(void **state)
{
    struct chain *chain = calloc(1, sizeof *chain);
    struct skep_rng rng = skep_rng_of(7);
    for (size_t i = 0; i < CHAIN; i++) {
        fill_seal(chain, i, &rng);
    }
    *state = chain;
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

/* Versions first .. last, from nothing. */
static struct skep_standings *from_seals(const struct chain *chain, uint64_t first, uint64_t last)
{
    struct skep_standings *standings = skep_standings_new();
    for (uint64_t v = first; v <= last; v++) {
        skep_standings_push(standings, &chain->seals[v - 1]);
    }
    return standings;
}

static void judge(const struct skep_standings *standings, bool *ret_left_out)
{
    struct skep_peer_id donors[DONORS];
    for (size_t d = 0; d < DONORS; d++) {
        donors[d] = donor_of(d);
    }
    skep_standings_judge(standings, donors, DONORS, ret_left_out);
}

static void assert_same(const struct skep_standings *a, const struct skep_standings *b)
{
    bool of_a[DONORS];
    bool of_b[DONORS];
    judge(a, of_a);
    judge(b, of_b);
    assert_memory_equal(of_a, of_b, sizeof of_a);
    assert_true(skep_standings_norm_limit(a) == skep_standings_norm_limit(b));
    assert_true(skep_standings_version(a) == skep_standings_version(b));
    for (size_t d = 0; d < DONORS; d++) {
        struct skep_peer_id donor = donor_of(d);
        struct skep_standing one = skep_standings_of(a, &donor);
        struct skep_standing other = skep_standings_of(b, &donor);
        assert_int_equal(one.mean, other.mean);
        assert_int_equal(one.seen, other.seen);
    }
}

static void whoever_has_the_same_head_judges_alike_however_it_came_there(void **state)
{
    const struct chain *chain = *state;
    struct skep_standings *always = skep_standings_new();
    for (uint64_t v = 1; v <= CHAIN; v++) {
        skep_standings_push(always, &chain->seals[v - 1]);
        assert_true(skep_standings_whole(always));
        uint64_t start = v > SKEP_STANDINGS_SEALS ? v - SKEP_STANDINGS_SEALS + 1 : 1;
        struct skep_standings *restarted = from_seals(chain, start, v);
        assert_true(skep_standings_whole(restarted));
        assert_same(always, restarted);
        skep_standings_free(restarted);
    }
    /* One that stood still at version 20, then jumped: its pages of before do not mix with those after. */
    struct skep_standings *jumped = from_seals(chain, 1, 20);
    for (uint64_t v = CHAIN - SKEP_STANDINGS_SEALS + 1; v <= CHAIN; v++) {
        skep_standings_push(jumped, &chain->seals[v - 1]);
    }
    assert_true(skep_standings_whole(jumped));
    assert_same(always, jumped);
    skep_standings_free(jumped);
    skep_standings_free(always);
}

static void a_liar_is_left_out_after_some_rounds_and_comes_back_when_it_agrees(void **state)
{
    const struct chain *chain = *state;
    bool left_out[DONORS];
    struct skep_standings *standings = from_seals(chain, 1, LIES);
    judge(standings, left_out);
    for (size_t d = 0; d < DONORS; d++) {
        assert_false(left_out[d]);
    }
    for (uint64_t v = LIES + 1; v <= LIES + 20; v++) {
        skep_standings_push(standings, &chain->seals[v - 1]);
    }
    judge(standings, left_out);
    for (size_t d = 0; d < DONORS; d++) {
        assert_int_equal(left_out[d], d == 0);
    }
    for (uint64_t v = LIES + 21; left_out[0]; v++) {
        assert_true(v < LIES + 50);
        struct skep_receipt receipts[2] = {
            {.donor = donor_of(0), .agreement_permille = 200},
            {.donor = donor_of(1), .agreement_permille = 200, .merged = true}};
        struct skep_seal seal = {.version = v, .receipt_count = 2, .receipts = receipts};
        skep_standings_push(standings, &seal);
        judge(standings, left_out);
    }
    skep_standings_free(standings);
}

static void copies_lone_updates_and_zeros_say_nothing_of_their_donor(void **state)
{
    (void)state;
    struct skep_peer_id donor = donor_of(0);
    struct skep_standings *standings = skep_standings_new();
    struct skep_receipt receipts[2] = {{.donor = donor, .copy = true, .agreement_permille = 900},
                                       {.donor = donor_of(1), .merged = true}};
    struct skep_seal seal = {.version = 1, .receipt_count = 2, .receipts = receipts};
    skep_standings_push(standings, &seal);
    assert_int_equal(skep_standings_of(standings, &donor).seen, 0);
    struct skep_receipt alone = {.donor = donor, .merged = true};
    seal = (struct skep_seal){.version = 2, .receipt_count = 1, .receipts = &alone};
    skep_standings_push(standings, &seal);
    assert_int_equal(skep_standings_of(standings, &donor).seen, 0);
    receipts[0] = (struct skep_receipt){.donor = donor}; /* zeros */
    seal = (struct skep_seal){.version = 3, .receipt_count = 2, .receipts = receipts};
    skep_standings_push(standings, &seal);
    assert_int_equal(skep_standings_of(standings, &donor).seen, 0);
    receipts[0].agreement_permille = -100; /* left out, and another one is merged */
    seal.version = 4;
    skep_standings_push(standings, &seal);
    assert_int_equal(skep_standings_of(standings, &donor).seen, 1);
    skep_standings_free(standings);
}

static void two_donors_who_disagree_are_both_merged(void **state)
{
    (void)state;
    struct skep_standings *standings = skep_standings_new();
    struct skep_peer_id donors[2] = {donor_of(0), donor_of(1)};
    bool left_out[2] = {true, true};
    struct skep_receipt receipts[2] = {
        {.donor = donors[0], .merged = true, .agreement_permille = -300},
        {.donor = donors[1], .merged = true, .agreement_permille = -300}};
    for (uint64_t v = 1; v < 30; v++) {
        struct skep_seal seal = {.version = v, .receipt_count = 2, .receipts = receipts};
        skep_standings_push(standings, &seal);
    }
    skep_standings_judge(standings, donors, 2, left_out);
    assert_false(left_out[0] || left_out[1]);
    skep_standings_free(standings);
}

static void a_gap_begins_a_new_window_that_is_not_whole(void **state)
{
    const struct chain *chain = *state;
    struct skep_standings *standings = from_seals(chain, 1, 30);
    assert_true(skep_standings_whole(standings));
    skep_standings_push(standings, &chain->seals[31]); /* 31 is missing */
    assert_false(skep_standings_whole(standings));
    for (uint64_t v = 33; v < 32 + SKEP_STANDINGS_SEALS; v++) {
        assert_false(skep_standings_whole(standings));
        skep_standings_push(standings, &chain->seals[v - 1]);
    }
    assert_true(skep_standings_whole(standings));
    skep_standings_free(standings);
}

static void the_norm_limit_follows_the_last_sixteen_seals(void **state)
{
    const struct chain *chain = *state;
    struct skep_standings *standings = skep_standings_new();
    assert_true(skep_standings_norm_limit(standings) == 0);
    uint64_t norms[CHAIN];
    for (size_t i = 0; i < CHAIN; i++) {
        norms[i] = chain->seals[i].norm;
        skep_standings_push(standings, &chain->seals[i]);
        assert_true(skep_standings_norm_limit(standings) == skep_merge_norm_limit(norms, i + 1));
    }
    skep_standings_free(standings);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(whoever_has_the_same_head_judges_alike_however_it_came_there),
        CASE(a_liar_is_left_out_after_some_rounds_and_comes_back_when_it_agrees),
        CASE(copies_lone_updates_and_zeros_say_nothing_of_their_donor),
        CASE(two_donors_who_disagree_are_both_merged),
        CASE(a_gap_begins_a_new_window_that_is_not_whole),
        CASE(the_norm_limit_follows_the_last_sixteen_seals),
    };
    return cmocka_run_group_tests_name("standings", tests, NULL, NULL);
}
