/* Merging update files onto a shard's state file, with a tiny model. */
#include <stdlib.h>
#include <string.h>

#include "common/merge/compress.h"
#include "common/swarm/chunk-hash.h"
#include "common/swarm/update-open.h"
#include "server/shape.h"
#include "tests/lib/cmocka.h"
#include "tests/lib/tiny-model.h"

/* A trunk of a few hundred parameters. */
struct fixture {
    struct skep_manifest manifest;
    struct skep_shape shape;
    struct skep_buffer state;
    struct skep_standings *standings;
    struct skep_round_outcome outcome; /* of the last merge */
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct skep_manifest *manifest = &fixture->manifest;
    skep_test_tiny_manifest(manifest);
    manifest->model.vocabulary = 16;
    manifest->seed.bytes[0] = 7;
    fixture->standings = skep_standings_new();
    struct skep_shard trunk = {.kind = SKEP_SHARD_TRUNK};
    skep_shape_init(&fixture->shape, manifest, &trunk);
    assert_int_equal(skep_shape_seed(&fixture->shape, &fixture->state, NULL), SKEP_OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    skep_buffer_done(&fixture->state);
    skep_standings_free(fixture->standings);
    skep_shape_done(&fixture->shape);
    skep_manifest_done(&fixture->manifest);
    free(fixture);
    return 0;
}

/* An update of the donor with this seed: every tensor moved by `scale`, more at its end. */
static void make_update(const struct fixture *fixture, uint8_t donor, uint64_t base, float scale,
                        struct skep_buffer *ret_file)
{
    const struct skep_layout *layout = &fixture->shape.layout;
    struct skep_update_body body = {.tensor_count = layout->tensor_count,
                                    .tensors = calloc(layout->tensor_count, sizeof *body.tensors)};
    float *delta = calloc(layout->parameters, sizeof *delta);
    float *residual = calloc(layout->parameters, sizeof *residual);
    for (size_t i = 0; i < layout->parameters; i++) {
        delta[i] = scale * (1.0f + (float)(i % 13));
    }
    for (size_t i = 0; i < layout->tensor_count; i++) {
        size_t offset = layout->tensors[i].offset;
        assert_int_equal(skep_compress_tensor(&fixture->shape.tilings[i], 0.95f, delta + offset,
                                              residual + offset, &body.tensors[i], NULL),
                         SKEP_OK);
    }
    struct skep_buffer bytes = {0};
    skep_update_body_encode(&body, &bytes);
    uint8_t seed[32] = {donor};
    struct skep_key *key = skep_key_from_seed(seed);
    struct skep_update_statement statement = {
        .base_version = base, .tokens = 1, .loss_first = 1, .loss_last = 1};
    skep_update_seal(key, &statement, &bytes, ret_file);
    skep_key_free(key);
    skep_buffer_done(&bytes);
    skep_update_body_done(&body);
    free(delta);
    free(residual);
}

static bool same(const struct skep_buffer *a, const struct skep_buffer *b)
{
    return a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

static int merge(struct fixture *fixture, uint64_t version, const struct skep_buffer *files,
                 size_t count, struct skep_buffer *ret_file)
{
    const struct skep_shape_round round = {.version = version,
                                           .state_file = &fixture->state,
                                           .files = files,
                                           .count = count,
                                           .standings = fixture->standings};
    return skep_shape_merge(&fixture->shape, &round, ret_file, &fixture->outcome, NULL);
}

static void version_0_follows_from_the_seed(void **state)
{
    struct fixture *fixture = *state;
    struct skep_buffer again = {0};
    assert_int_equal(skep_shape_seed(&fixture->shape, &again, NULL), SKEP_OK);
    assert_true(same(&again, &fixture->state));
    assert_int_equal(skep_shape_check_state(&fixture->shape, again.data, again.size, NULL),
                     SKEP_OK);
    skep_buffer_done(&again);
    fixture->manifest.seed.bytes[0] = 8;
    assert_int_equal(skep_shape_seed(&fixture->shape, &again, NULL), SKEP_OK);
    assert_false(same(&again, &fixture->state));
    skep_buffer_done(&again);
}

static void merging_nothing_changes_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct skep_buffer merged = {0};
    assert_int_equal(merge(fixture, 0, NULL, 0, &merged), SKEP_OK);
    assert_true(same(&merged, &fixture->state));
    skep_buffer_done(&merged);
}

static void the_order_of_updates_does_not_matter(void **state)
{
    struct fixture *fixture = *state;
    struct skep_buffer files[2] = {{0}, {0}};
    make_update(fixture, 1, 0, 0.001f, &files[0]);
    make_update(fixture, 2, 0, 0.002f, &files[1]);
    struct skep_buffer one_way = {0};
    struct skep_buffer other_way = {0};
    assert_int_equal(merge(fixture, 0, files, 2, &one_way), SKEP_OK);
    struct skep_buffer swapped[2] = {files[1], files[0]};
    assert_int_equal(merge(fixture, 0, swapped, 2, &other_way), SKEP_OK);
    assert_false(same(&one_way, &fixture->state));
    assert_true(same(&one_way, &other_way));
    assert_int_equal(skep_shape_check_state(&fixture->shape, one_way.data, one_way.size, NULL),
                     SKEP_OK);
    skep_buffer_done(&one_way);
    skep_buffer_done(&other_way);
    skep_buffer_done(&files[0]);
    skep_buffer_done(&files[1]);
}

#define HONEST 4

/* One round of HONEST donors and one who sends the opposite, onto the fixture's state, sealed: both move on to the next version.
 * Returns whether the liar was merged. */
static bool seal_round(struct fixture *fixture, uint64_t version)
{
    struct skep_buffer files[HONEST + 1] = {{0}};
    struct skep_buffer merged = {0};
    struct skep_receipt receipts[HONEST + 1];
    memset(receipts, 0, sizeof receipts);
    for (uint8_t i = 0; i <= HONEST; i++) {
        uint8_t seed[32] = {(uint8_t)(i + 1)};
        struct skep_key *key = skep_key_from_seed(seed);
        receipts[i].donor = skep_key_id(key);
        skep_key_free(key);
        make_update(fixture, (uint8_t)(i + 1), version, i == HONEST ? -0.001f : 0.001f, &files[i]);
    }
    assert_int_equal(merge(fixture, version, files, HONEST + 1, &merged), SKEP_OK);
    for (size_t i = 0; i <= HONEST; i++) {
        receipts[i].merged = fixture->outcome.updates[i].merged;
        receipts[i].agreement_permille = fixture->outcome.updates[i].agreement_permille;
        assert_true(i == HONEST || receipts[i].merged);
        assert_true(i == HONEST ? receipts[i].agreement_permille < -900
                                : receipts[i].agreement_permille > 900);
        assert_false(fixture->outcome.updates[i].copy);
    }
    bool lied_with = receipts[HONEST].merged;
    if (!lied_with) { /* then the state is what the honest ones alone make */
        struct skep_buffer honest = {0};
        assert_int_equal(merge(fixture, version, files, HONEST, &honest), SKEP_OK);
        assert_true(same(&honest, &merged));
        skep_buffer_done(&honest);
    }
    struct skep_seal seal = {.version = version + 1,
                             .norm = fixture->outcome.norm,
                             .receipt_count = HONEST + 1,
                             .receipts = receipts};
    skep_standings_push(fixture->standings, &seal);
    skep_buffer_done(&fixture->state);
    fixture->state = merged;
    for (size_t i = 0; i <= HONEST; i++) {
        skep_buffer_done(&files[i]);
    }
    return lied_with;
}

static void a_donor_whose_updates_pull_against_the_others_is_left_out_in_the_end(void **state)
{
    struct fixture *fixture = *state;
    fixture->manifest.merge.overlap_permille = 0; /* these updates are nearly the same */
    for (uint64_t version = 0; version < 8; version++) {
        assert_int_equal(seal_round(fixture, version), version < SKEP_STANDING_LEAST_SEEN);
        assert_true(fixture->outcome.norm > 0);
    }
}

static void of_two_updates_that_are_nearly_the_same_one_is_called_a_copy(void **state)
{
    struct fixture *fixture = *state;
    struct skep_buffer files[2] = {{0}, {0}};
    struct skep_buffer merged = {0};
    make_update(fixture, 1, 0, 0.001f, &files[0]);
    make_update(fixture, 2, 0, 0.001f, &files[1]);
    assert_int_equal(merge(fixture, 0, files, 2, &merged), SKEP_OK);
    const struct skep_round_fate *fates = fixture->outcome.updates;
    assert_true(fates[0].merged != fates[1].merged);
    assert_true(fates[0].copy == fates[1].merged && fates[1].copy == fates[0].merged);
    skep_buffer_done(&merged);
    skep_buffer_done(&files[0]);
    skep_buffer_done(&files[1]);
}

static void the_outcome_names_the_root_of_the_new_state(void **state)
{
    struct fixture *fixture = *state;
    struct skep_buffer file = {0};
    struct skep_buffer merged = {0};
    struct skep_chunks chunks = {0};
    make_update(fixture, 1, 0, 0.001f, &file);
    assert_int_equal(merge(fixture, 0, &file, 1, &merged), SKEP_OK);
    skep_chunks_of(merged.data, merged.size, fixture->manifest.chunk_bytes, &chunks);
    struct skep_hash root = skep_chunks_root(&chunks);
    assert_true(skep_hash_equal(&root, &fixture->outcome.root));
    assert_true(fixture->outcome.updates[0].merged);
    skep_chunks_done(&chunks);
    skep_buffer_done(&merged);
    skep_buffer_done(&file);
}

static void an_update_from_too_old_a_base_spoils_the_merge(void **state)
{
    struct fixture *fixture = *state;
    struct skep_buffer file = {0};
    struct skep_buffer merged = {0};
    make_update(fixture, 1, 4, 0.001f, &file);
    assert_int_equal(merge(fixture, 6, &file, 1, &merged), SKEP_OK);
    skep_buffer_done(&merged);
    merged = (struct skep_buffer){0};
    assert_int_equal(merge(fixture, 7, &file, 1, &merged), SKEP_ERR_STALE);
    assert_int_equal(merge(fixture, 3, &file, 1, &merged), SKEP_ERR_STALE);
    assert_int_equal(merged.size, 0);
    skep_buffer_done(&file);
}

static void a_broken_file_spoils_the_merge(void **state)
{
    struct fixture *fixture = *state;
    struct skep_buffer file = {0};
    struct skep_buffer merged = {0};
    make_update(fixture, 1, 0, 0.001f, &file);
    file.data[file.size - 1] ^= 1;
    assert_int_equal(merge(fixture, 0, &file, 1, &merged), SKEP_ERR_HASH);
    assert_int_equal(merged.size, 0);
    skep_buffer_done(&file);
}

static void the_state_of_another_shard_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct skep_shape expert;
    struct skep_shard shard = {.kind = SKEP_SHARD_FFN};
    struct skep_buffer file = {0};
    struct skep_error err = {0};
    skep_shape_init(&expert, &fixture->manifest, &shard);
    assert_int_equal(skep_shape_seed(&expert, &file, NULL), SKEP_OK);
    assert_int_not_equal(skep_shape_check_state(&fixture->shape, file.data, file.size, &err),
                         SKEP_OK);
    assert_true(strlen(err.text) > 0);
    skep_buffer_done(&file);
    skep_shape_done(&expert);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(version_0_follows_from_the_seed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(merging_nothing_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_order_of_updates_does_not_matter, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_donor_whose_updates_pull_against_the_others_is_left_out_in_the_end, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            of_two_updates_that_are_nearly_the_same_one_is_called_a_copy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_outcome_names_the_root_of_the_new_state, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_update_from_too_old_a_base_spoils_the_merge, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_broken_file_spoils_the_merge, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_state_of_another_shard_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
