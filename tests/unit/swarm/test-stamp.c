/* Stamps of keys: found, checked, and remembered by a keeper that is flooded. Each try takes some 50 ms, so the stamps are cheap. */
#include <stdio.h>
#include <string.h>

#include "common/swarm/stamp.h"
#include "tests/lib/cmocka.h"

/* Recorded: see stamps_are_the_ones_that_others_compute(). */
#define GOOD_NONCE 144u
#define GOOD_BITS 6u

static struct skep_project_id project = {{1, 2, 3}};
static struct skep_peer_id donor = {{4, 5, 6}};

static struct skep_stamp_search search_of(uint32_t bits)
{
    struct skep_stamp_search search;
    skep_stamp_begin(&search, &project, &donor, bits);
    return search;
}

static bool is_stamp(uint32_t bits, uint64_t nonce)
{
    struct skep_error err = {0};
    int rc = skep_stamp_check(&project, &donor, bits, nonce, &err);
    assert_true(rc == SKEP_OK || err.reason == SKEP_REFUSAL_STAMP);
    return rc == SKEP_OK;
}

static void a_stamp_is_found_and_is_the_donors_for_this_project_alone(void **state)
{
    (void)state;
    struct skep_stamp_search search = search_of(2);
    struct skep_error err = {0};
    uint64_t first = search.nonce;
    assert_int_equal(skep_stamp_find(&search, NULL, NULL, &err), SKEP_OK);
    assert_true(search.found);
    assert_int_equal(search.nonce, first + search.tries - 1);
    assert_true(is_stamp(2, search.nonce));
    assert_true(is_stamp(1, search.nonce));
    /* it was the first: those tried before are none */
    if (search.tries > 1) {
        assert_false(is_stamp(2, search.nonce - 1));
    }
    /* others must search for their own, and this one is no better than it is */
    struct skep_stamp_search other;
    skep_stamp_begin(&other, &project, &(struct skep_peer_id){{4, 5, 7}}, 2);
    assert_int_not_equal(other.nonce, first);
    assert_false(is_stamp(12, search.nonce));
    assert_int_equal(skep_stamp_check(&project, &other.donor, 12, search.nonce, &err),
                     SKEP_ERR_REFUSED);
    assert_non_null(strstr(err.text, "this project asks for 12"));
}

/* The definition, by hand: recorded from Python's hashlib.scrypt(b"skep-stamp" + bytes([1, 2, 3]) + bytes(29) + bytes([4, 5, 6]) +
 * bytes(29), salt=(N).to_bytes(8, "little"), n=16384, r=8, p=1, dklen=32). */
static void stamps_are_the_ones_that_others_compute(void **state)
{
    (void)state;
    assert_true(is_stamp(GOOD_BITS, GOOD_NONCE));
    assert_false(is_stamp(GOOD_BITS + 1, GOOD_NONCE));
}

static bool stop_at_once(void *user)
{
    (*(unsigned *)user)++;
    return true;
}

static void no_bits_cost_nothing_and_a_search_can_be_stopped(void **state)
{
    (void)state;
    struct skep_stamp_search search = search_of(0);
    struct skep_error err = {0};
    unsigned asked = 0;
    assert_true(search.found);
    assert_int_equal(skep_stamp_find(&search, stop_at_once, &asked, &err), SKEP_OK);
    assert_int_equal(search.nonce, 0);
    assert_int_equal(search.tries, 0);
    assert_true(is_stamp(0, 77));
    search = search_of(32);
    assert_int_equal(skep_stamp_find(&search, stop_at_once, &asked, &err), SKEP_ERR_CANCELLED);
    assert_int_equal(asked, 1);
    assert_int_equal(skep_stamp_try(&search, &err), SKEP_OK);
    assert_int_equal(search.tries, 1);
}

/* ---- a keeper ---- */

struct scene {
    struct skep_manifest manifest;
    struct skep_update_statement statement;
    struct skep_stamps *stamps;
};

static enum skep_refusal admit(struct scene *scene, uint64_t now_ms)
{
    struct skep_error err = {0};
    int rc = skep_stamps_admit(scene->stamps, &scene->manifest, &scene->statement, now_ms, &err);
    assert_int_equal(rc, err.reason == SKEP_REFUSAL_NONE ? SKEP_OK : skep_refusal_code(err.reason));
    return err.reason;
}

static void a_flood_of_bad_stamps_takes_a_bounded_time_and_known_donors_do_not_notice(void **state)
{
    (void)state;
    struct scene scene = {.manifest = {.project = project, .trust.stamp_bits = GOOD_BITS},
                          .statement = {.donor = donor, .stamp = GOOD_NONCE},
                          .stamps = skep_stamps_new(3)};
    assert_int_equal(admit(&scene, 1000), SKEP_REFUSAL_NONE);
    /* the known donor's statement needs no good stamp any more, and takes none of the time there is for others */
    scene.statement.stamp++;
    assert_int_equal(admit(&scene, 1000), SKEP_REFUSAL_NONE);
    scene.manifest.trust.stamp_bits = 32; /* nobody has that */
    unsigned checked = 0;
    unsigned busy = 0;
    for (uint8_t i = 0; i < 100; i++) {
        scene.statement.donor.bytes[9] = i + 1;
        enum skep_refusal reason = admit(&scene, 1000);
        checked += reason == SKEP_REFUSAL_STAMP;
        busy += reason == SKEP_REFUSAL_BUSY;
    }
    assert_int_equal(checked, SKEP_STAMP_BURST - 1);
    assert_int_equal(busy, 100 - checked);
    assert_int_equal(admit(&scene, 1000 + SKEP_STAMP_GAP_MS), SKEP_REFUSAL_STAMP);
    assert_int_equal(admit(&scene, 1000 + SKEP_STAMP_GAP_MS), SKEP_REFUSAL_BUSY);
    /* what the agreement waits for is checked whatever the time */
    assert_int_equal(admit(&scene, UINT64_MAX), SKEP_REFUSAL_STAMP);
    scene.statement.donor = donor;
    assert_int_equal(admit(&scene, 1000 + SKEP_STAMP_GAP_MS), SKEP_REFUSAL_NONE);
    /* it is known for this project alone */
    scene.manifest.project.bytes[0]++;
    assert_int_equal(admit(&scene, 1000 + SKEP_STAMP_GAP_MS), SKEP_REFUSAL_BUSY);
    scene.manifest.trust.stamp_bits = 0;
    assert_int_equal(admit(&scene, 1000 + SKEP_STAMP_GAP_MS), SKEP_REFUSAL_NONE);
    skep_stamps_free(scene.stamps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stamp_is_found_and_is_the_donors_for_this_project_alone),
        cmocka_unit_test(stamps_are_the_ones_that_others_compute),
        cmocka_unit_test(no_bits_cost_nothing_and_a_search_can_be_stopped),
        cmocka_unit_test(a_flood_of_bad_stamps_takes_a_bounded_time_and_known_donors_do_not_notice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
