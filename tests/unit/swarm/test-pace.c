/* Updates that come too fast, on a clock that the test turns; and the table of donors that the pace is kept in. */
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/swarm/donors.h"
#include "common/swarm/pace.h"
#include "tests/lib/cmocka.h"

/* A model whose job takes a second at the speed of SKEP_LIMIT_DONOR_FLOPS, to within a few parts of a thousand: 8192 experts wide. */
static struct skep_manifest slow_manifest(void)
{
    struct skep_manifest manifest = {.model.kind = SKEP_MODEL_LM};
    skep_manifest_defaults(&manifest);
    manifest.model.dim = 4096;
    manifest.model.hidden = 16384;
    manifest.model.heads = 32;
    manifest.training.steps = 50;
    manifest.training.batch = 32;
    return manifest;
}

static struct skep_update_statement update_of(uint8_t donor, uint64_t trunk_version)
{
    return (struct skep_update_statement){
        .donor = {{donor}}, .base_version = trunk_version, .trunk_version = trunk_version};
}

static enum skep_refusal admit(struct skep_pace *pace, struct skep_update_statement statement,
                               uint64_t sealed_ms, uint64_t now_ms)
{
    struct skep_error err = {0};
    int rc = skep_pace_admit(pace, &statement, sealed_ms, now_ms, &err);
    assert_int_equal(rc, err.reason == SKEP_REFUSAL_NONE ? SKEP_OK : SKEP_ERR_STATE);
    return err.reason;
}

/* The least time after its base at which a job's update is taken, by bisection. */
static uint64_t least_ms(struct skep_pace *pace)
{
    uint64_t low = 0;
    uint64_t high = 1 << 20;
    for (uint8_t donor = 100; low < high; donor++) {
        uint64_t middle = (low + high) / 2;
        if (admit(pace, update_of(donor, 0), 1000000, 1000000 + middle) == SKEP_REFUSAL_NONE) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static void a_job_takes_as_long_as_its_operations(void **state)
{
    (void)state;
    struct skep_manifest manifest = slow_manifest();
    struct skep_pace *pace = skep_pace_new(&manifest, 1);
    /* 50 * 32 * 128 tokens; experts 6 * 2 * 4096 * 16384 * 2 in two layers, of 4 of whose 8 experts a job has the use:
     * all of a token's operations; trunk 6 * (256 * d + 2 * (4 d^2 + 6 d)) + 2 * 6 d * 129 */
    double tokens = 50.0 * 32 * 128;
    double experts = 2 * 6.0 * 2 * 4096 * 16384 * 2;
    double trunk =
        6.0 * (256.0 * 4096 + 2 * (4.0 * 4096 * 4096 + 6.0 * 4096)) + 2 * 6.0 * 4096 * 129;
    double expected_ms = tokens * (experts + trunk) / SKEP_LIMIT_DONOR_FLOPS * 1000;
    assert_true(expected_ms > 1000);
    double found_ms = (double)least_ms(pace);
    assert_true(found_ms > expected_ms - 2 && found_ms < expected_ms + 2);
    skep_pace_free(pace);
}

static void what_is_not_timed_is_not_too_fast(void **state)
{
    (void)state;
    struct skep_manifest manifest = slow_manifest();
    struct skep_pace *pace = skep_pace_new(&manifest, 1);
    assert_int_equal(admit(pace, update_of(1, 0), 500, 501), SKEP_REFUSAL_TOO_FAST);
    /* a base that was here before the keeper started; calls, which are no job */
    assert_int_equal(admit(pace, update_of(1, 0), UINT64_MAX, 502), SKEP_REFUSAL_NONE);
    struct skep_update_statement calls = update_of(2, 0);
    calls.remote = true;
    assert_int_equal(admit(pace, calls, 500, 501), SKEP_REFUSAL_NONE);
    skep_pace_free(pace);
}

static void a_donor_has_one_ticket_in_work(void **state)
{
    (void)state;
    struct skep_manifest manifest = slow_manifest();
    struct skep_pace *pace = skep_pace_new(&manifest, 1);
    uint64_t job_ms = least_ms(pace);
    uint64_t now_ms = 100000000;
    assert_int_equal(admit(pace, update_of(1, 5), 0, now_ms), SKEP_REFUSAL_NONE);
    /* other shards of the job, and what was left of an older one */
    assert_int_equal(admit(pace, update_of(1, 5), 0, now_ms + 1), SKEP_REFUSAL_NONE);
    assert_int_equal(admit(pace, update_of(1, 4), 0, now_ms + 1), SKEP_REFUSAL_NONE);
    /* the next job */
    assert_int_equal(admit(pace, update_of(1, 6), 0, now_ms + job_ms - 1), SKEP_REFUSAL_TOO_FAST);
    assert_int_equal(admit(pace, update_of(2, 6), 0, now_ms + 1), SKEP_REFUSAL_NONE);
    assert_int_equal(admit(pace, update_of(1, 6), 0, now_ms + job_ms), SKEP_REFUSAL_NONE);
    assert_int_equal(admit(pace, update_of(1, 7), 0, now_ms + job_ms + 1), SKEP_REFUSAL_TOO_FAST);
    skep_pace_free(pace);
}

static void more_updates_than_a_donor_can_make_are_refused(void **state)
{
    (void)state;
    struct skep_manifest manifest = {.model.kind = SKEP_MODEL_LM};
    skep_manifest_defaults(&manifest);
    uint64_t shards = skep_manifest_shard_count(&manifest);
    struct skep_pace *pace = skep_pace_new(&manifest, 1);
    uint64_t now_ms = 5000;
    for (uint64_t i = 0; i < shards * SKEP_PACE_WINDOWS; i++) {
        assert_int_equal(admit(pace, update_of(1, 0), UINT64_MAX, now_ms), SKEP_REFUSAL_NONE);
    }
    assert_int_equal(admit(pace, update_of(1, 0), UINT64_MAX, now_ms), SKEP_REFUSAL_RATE);
    assert_int_equal(admit(pace, update_of(2, 0), UINT64_MAX, now_ms), SKEP_REFUSAL_NONE);
    /* a window later there is room for two rounds of all shards, or one fewer for what was rounded */
    now_ms += SKEP_PACE_WINDOW_MS;
    uint64_t taken = 0;
    while (admit(pace, update_of(1, 0), UINT64_MAX, now_ms) == SKEP_REFUSAL_NONE) {
        taken++;
    }
    assert_in_range(taken, 2 * shards - 1, 2 * shards);
    skep_pace_free(pace);
}

static void the_table_forgets_the_donor_seen_longest_ago(void **state)
{
    (void)state;
    struct skep_donors *donors = skep_donors_new(SKEP_DONORS_WAYS, sizeof(uint64_t), 7);
    for (uint8_t i = 0; i < SKEP_DONORS_WAYS; i++) {
        struct skep_peer_id donor = {{i}};
        assert_null(skep_donors_find(donors, &donor));
        uint64_t *value = skep_donors_take(donors, &donor);
        assert_int_equal(*value, 0);
        *value = 1000u + i;
    }
    struct skep_peer_id first = {{0}};
    assert_int_equal(*(uint64_t *)skep_donors_find(donors, &first), 1000); /* seen again */
    struct skep_peer_id another = {{200}};
    assert_int_equal(*(uint64_t *)skep_donors_take(donors, &another), 0);
    assert_int_equal(*(uint64_t *)skep_donors_take(donors, &first), 1000);
    struct skep_peer_id second = {{1}};
    assert_null(skep_donors_find(donors, &second));
    skep_donors_free(donors);
}

static void the_table_holds_what_it_was_made_for(void **state)
{
    (void)state;
    struct skep_donors *donors = skep_donors_new(1024, 3, 99);
    size_t there = 0;
    for (uint32_t i = 0; i < 256; i++) {
        struct skep_peer_id donor = {{(uint8_t)i, 1}};
        memcpy(skep_donors_take(donors, &donor), &i, 3);
    }
    for (uint32_t i = 0; i < 256; i++) {
        struct skep_peer_id donor = {{(uint8_t)i, 1}};
        const void *value = skep_donors_find(donors, &donor);
        there += value != NULL && memcmp(value, &i, 3) == 0;
    }
    /* 256 keys in 128 sets of 8: that one set is asked to hold more is a matter of one in a thousand sets */
    assert_true(there >= 250);
    skep_donors_free(donors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_takes_as_long_as_its_operations),
        cmocka_unit_test(what_is_not_timed_is_not_too_fast),
        cmocka_unit_test(a_donor_has_one_ticket_in_work),
        cmocka_unit_test(more_updates_than_a_donor_can_make_are_refused),
        cmocka_unit_test(the_table_forgets_the_donor_seen_longest_ago),
        cmocka_unit_test(the_table_holds_what_it_was_made_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
