/* The common mask: the same places for all donors of a version, others for every other, and each place as often as any. */
#include <stdlib.h>
#include <string.h>

#include "common/merge/compress.h"
#include "common/merge/mask.h"
#include "tests/lib/cmocka.h"

static const struct skep_project_id project = {{7}};

static struct skep_hash seed_of(uint64_t version)
{
    struct skep_shard shard = {SKEP_SHARD_FFN, 0, 1, 2};
    return skep_mask_seed(&project, &shard, version);
}

/* Recorded from the prose of mask.h written in Python: another choice would make every update of a project with a common mask inadmissible. */
static void the_mask_is_the_recorded_one(void **state)
{
    (void)state;
    static const uint16_t recorded[8] = {325, 609, 1267, 1965, 2664, 2677, 2698, 4064};
    struct skep_hash seed = seed_of(5);
    const struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){64, 64}, 2, 8);
    uint16_t indices[8];
    skep_mask_of(&seed, 3, 2, &tiling, indices);
    assert_memory_equal(indices, recorded, sizeof recorded);
}

static void seeds_differ_by_project_shard_and_version(void **state)
{
    (void)state;
    struct skep_shard trunk = {.kind = SKEP_SHARD_TRUNK};
    struct skep_shard expert = {SKEP_SHARD_FFN, 0, 1, 2};
    struct skep_project_id other = {{8}};
    struct skep_hash seeds[4] = {
        skep_mask_seed(&project, &expert, 5), skep_mask_seed(&project, &expert, 6),
        skep_mask_seed(&project, &trunk, 5), skep_mask_seed(&other, &expert, 5)};
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_false(skep_hash_equal(&seeds[i], &seeds[k]));
        }
    }
}

static void places_rise_and_each_is_drawn_as_often_as_any(void **state)
{
    (void)state;
    enum { BLOCKS = 4000, PLACES = 64, KEPT = 4 };
    const struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){8, 8}, 2, 256);
    unsigned drawn[PLACES] = {0};
    struct skep_hash seed = seed_of(1);
    assert_int_equal(tiling.kept, KEPT);
    for (uint32_t block = 0; block < BLOCKS; block++) {
        uint16_t indices[KEPT];
        skep_mask_of(&seed, block % 3, block / 3, &tiling, indices);
        for (uint32_t i = 0; i < KEPT; i++) {
            assert_true(indices[i] < PLACES && (i == 0 || indices[i] > indices[i - 1]));
            drawn[indices[i]]++;
        }
    }
    /* 250 of each with a standard deviation of 15.3: five of them either way */
    for (size_t i = 0; i < PLACES; i++) {
        assert_in_range(drawn[i], 250 - 77, 250 + 77);
    }
}

static void a_mask_of_everything_is_everything(void **state)
{
    (void)state;
    const struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){4, 3}, 2, 4096);
    struct skep_hash seed = seed_of(1);
    uint16_t indices[12];
    skep_mask_of(&seed, 0, 0, &tiling, indices);
    for (uint16_t i = 0; i < 12; i++) {
        assert_int_equal(indices[i], i);
    }
}

enum { ROWS = 128, COLUMNS = 64, COUNT = ROWS * COLUMNS };

static void fill(float *values, unsigned seed)
{
    for (size_t i = 0; i < COUNT; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
    }
}

static void donors_of_one_version_send_the_same_places_and_keep_the_rest(void **state)
{
    (void)state;
    static float delta[COUNT];
    static float residual[COUNT];
    const struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){ROWS, COLUMNS}, 2, 64);
    struct skep_hash seed = seed_of(5);
    struct skep_hash next = seed_of(6);
    const struct skep_compress_options options = {.decay = 0.5f, .mask = &seed};
    struct skep_update_body bodies[2] = {{0}};
    struct skep_error err = {0};
    for (unsigned donor = 0; donor < 2; donor++) {
        fill(delta, donor + 1);
        memset(residual, 0, sizeof residual);
        assert_int_equal(
            skep_compress_shard_with(&options, &tiling, 1, delta, residual, &bodies[donor], NULL),
            SKEP_OK);
        assert_int_equal(skep_mask_check(&seed, &bodies[donor], NULL), SKEP_OK);
        /* sent and kept add up */
        skep_decompress_add(&bodies[donor].tensors[0], 1, residual);
        for (size_t i = 0; i < COUNT; i++) {
            assert_float_equal(residual[i], delta[i], 1e-6f);
        }
    }
    size_t sent = (size_t)tiling.blocks * tiling.kept;
    assert_memory_equal(bodies[0].tensors[0].indices, bodies[1].tensors[0].indices,
                        sent * sizeof(uint16_t));
    assert_int_equal(skep_mask_check(&next, &bodies[0], &err), SKEP_ERR_REFUSED);
    assert_int_equal(err.reason, SKEP_REFUSAL_MASK);
    /* one place beside the mask, in the last block */
    uint16_t *last = &bodies[0].tensors[0].indices[sent - 1];
    *last = *last == 4095 ? 0 : 4095;
    assert_int_equal(skep_mask_check(&seed, &bodies[0], &err), SKEP_ERR_REFUSED);
    assert_non_null(strstr(err.text, "tensor 0: value 63 of block 1"));
    skep_update_body_done(&bodies[0]);
    skep_update_body_done(&bodies[1]);
}

/* What is never drawn in one version is drawn in another: error feedback sends everything in the end. */
static void error_feedback_sends_every_place_in_time(void **state)
{
    (void)state;
    enum { SIDE = 16, SMALL = SIDE * SIDE };
    float delta[SMALL] = {0};
    float residual[SMALL] = {0};
    float sum[SMALL] = {0};
    const struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){SIDE, SIDE}, 2, 512);
    for (size_t i = 0; i < SMALL; i++) {
        residual[i] = i % 2 == 0 ? 1.0f : -1.0f;
    }
    for (uint64_t version = 0; version < 100; version++) {
        struct skep_hash seed = seed_of(version);
        const struct skep_compress_options options = {.decay = 1, .mask = &seed};
        struct skep_update_body body = {0};
        assert_int_equal(
            skep_compress_shard_with(&options, &tiling, 1, delta, residual, &body, NULL), SKEP_OK);
        skep_decompress_add(&body.tensors[0], 1, sum);
        skep_update_body_done(&body);
    }
    for (size_t i = 0; i < SMALL; i++) {
        float whole = i % 2 == 0 ? 1.0f : -1.0f;
        assert_float_equal(sum[i], whole, 0.05f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mask_is_the_recorded_one),
        cmocka_unit_test(seeds_differ_by_project_shard_and_version),
        cmocka_unit_test(places_rise_and_each_is_drawn_as_often_as_any),
        cmocka_unit_test(a_mask_of_everything_is_everything),
        cmocka_unit_test(donors_of_one_version_send_the_same_places_and_keep_the_rest),
        cmocka_unit_test(error_feedback_sends_every_place_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
