/* Compression: the exact k largest, ties, the codebook, and error feedback that loses nothing. */
#include "common/merge/compress.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "tests/lib/cmocka.h"

static void free_tensor(struct skep_update_tensor *tensor)
{
    free(tensor->indices);
    free(tensor->codes);
}

static void fill(float *values, size_t count, uint64_t seed)
{
    struct skep_rng rng = skep_rng_of(seed);
    for (size_t i = 0; i < count; i++) {
        double sum = -6;
        for (int j = 0; j < 12; j++) {
            sum += skep_rng_unit(&rng);
        }
        values[i] = (float)sum;
    }
}

static struct skep_update_tensor compress(const struct skep_tiling *tiling, float decay,
                                          const float *delta, float *residual)
{
    struct skep_update_tensor tensor = {0};
    struct skep_error err = {0};
    assert_int_equal(skep_compress_tensor(tiling, decay, delta, residual, &tensor, &err), SKEP_OK);
    assert_string_equal(err.text, "");
    return tensor;
}

static void exactly_the_largest_of_each_block_are_sent(void **state)
{
    (void)state;
    enum { ROWS = 128, COLUMNS = 192, COUNT = ROWS * COLUMNS };
    static float delta[COUNT];
    static float residual[COUNT];
    fill(delta, COUNT, 1);
    memset(residual, 0, sizeof residual);
    struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){ROWS, COLUMNS}, 2, 64);
    struct skep_update_tensor tensor = compress(&tiling, 0.95f, delta, residual);
    for (uint32_t block = 0; block < tiling.blocks; block++) {
        bool chosen[SKEP_BLOCK_SIZE] = {false};
        float least_sent = INFINITY;
        float most_kept = 0;
        for (uint32_t i = 0; i < 64; i++) {
            uint16_t index = tensor.indices[block * 64 + i];
            assert_true(i == 0 || index > tensor.indices[block * 64 + i - 1]);
            chosen[index] = true;
        }
        for (uint32_t index = 0; index < SKEP_BLOCK_SIZE; index++) {
            float size = fabsf(delta[skep_tiling_place(&tiling, block, index)]);
            if (chosen[index]) {
                least_sent = fminf(least_sent, size);
            } else {
                most_kept = fmaxf(most_kept, size);
            }
        }
        assert_true(least_sent >= most_kept);
    }
    free_tensor(&tensor);
}

static void ties_go_to_the_lower_index(void **state)
{
    (void)state;
    float delta[64];
    float residual[64] = {0};
    for (int i = 0; i < 64; i++) {
        delta[i] = i % 2 != 0 ? 1.0f : -1.0f;
    }
    delta[50] = 3;
    struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){64}, 1, 256);
    assert_int_equal(tiling.kept, 4);
    struct skep_update_tensor tensor = compress(&tiling, 1, delta, residual);
    const uint16_t expected[4] = {0, 1, 2, 50};
    assert_memory_equal(tensor.indices, expected, sizeof expected);
    free_tensor(&tensor);
}

static void what_is_sent_and_what_is_kept_add_up(void **state)
{
    (void)state;
    enum { COUNT = 64 * 128 };
    static float delta[COUNT];
    static float residual[COUNT];
    static float before[COUNT];
    fill(delta, COUNT, 2);
    fill(residual, COUNT, 3);
    memcpy(before, residual, sizeof before);
    struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){64, 128}, 2, 100);
    struct skep_update_tensor tensor = compress(&tiling, 0.95f, delta, residual);
    skep_decompress_add(&tensor, 1, residual);
    for (size_t i = 0; i < COUNT; i++) {
        float whole = 0.95f * before[i] + delta[i];
        /* Taking a value out and putting it back rounds twice in float32. */
        assert_true(fabsf(residual[i] - whole) <= 1e-6f);
    }
    free_tensor(&tensor);
}

static void two_bits_lose_little_of_what_is_sent(void **state)
{
    (void)state;
    enum { COUNT = 256 * 256 };
    static float delta[COUNT];
    static float residual[COUNT];
    fill(delta, COUNT, 4);
    memset(residual, 0, sizeof residual);
    struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){256, 256}, 2, 64);
    struct skep_update_tensor tensor = compress(&tiling, 0, delta, residual);
    double sent = 0;
    double lost = 0;
    for (size_t block = 0, at = 0; block < tiling.blocks; block++) {
        for (uint32_t i = 0; i < tiling.kept; i++, at++) {
            size_t place = skep_tiling_place(&tiling, (uint32_t)block, tensor.indices[at]);
            sent += (double)delta[place] * (double)delta[place];
            lost += (double)residual[place] * (double)residual[place];
        }
    }
    for (int i = 1; i < 4; i++) {
        assert_true(tensor.codebook[i] >= tensor.codebook[i - 1]);
    }
    /* The 64 largest of 4096 normal values lie at +-2.4 sigma and beyond, so their energy is in the sign and mean size. */
    assert_true(lost < 0.03 * sent);
    free_tensor(&tensor);
}

static void error_feedback_sends_everything_in_the_end(void **state)
{
    (void)state;
    enum { COUNT = 64 * 64 };
    static float delta[COUNT];
    static float residual[COUNT];
    static float received[COUNT];
    fill(delta, COUNT, 5);
    memset(residual, 0, sizeof residual);
    memset(received, 0, sizeof received);
    struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){64, 64}, 2, 256);
    const int rounds = 200;
    for (int round = 0; round < rounds; round++) {
        struct skep_update_tensor tensor = compress(&tiling, 1, delta, residual);
        skep_decompress_add(&tensor, 1.0f / (float)rounds, received);
        free_tensor(&tensor);
    }
    double wrong = 0;
    double whole = 0;
    for (size_t i = 0; i < COUNT; i++) {
        wrong += pow((double)received[i] - (double)delta[i], 2);
        whole += pow((double)delta[i], 2);
    }
    assert_true(wrong < 0.02 * whole);
}

static void equal_and_zero_values_have_a_codebook_that_is_admitted(void **state)
{
    (void)state;
    const float wholes[] = {0.0f, -0.0f, 0.1f, -3.5f, 1e-42f};
    for (size_t w = 0; w < 5; w++) {
        float delta[64];
        float residual[64] = {0};
        for (int i = 0; i < 64; i++) {
            delta[i] = wholes[w];
        }
        struct skep_update_body body = {.tensor_count = 1};
        struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){8, 8}, 2, 512);
        struct skep_update_tensor tensor = compress(&tiling, 1, delta, residual);
        body.tensors = &tensor;
        struct skep_buffer bytes = {0};
        skep_update_body_encode(&body, &bytes);
        struct skep_update_body back = {0};
        struct skep_error err = {0};
        double ceiling = fabs((double)wholes[w]) * 1.000001;
        skep_update_body_decode(bytes.data, bytes.size, &tiling, 1, ceiling, &back, &err);
        assert_string_equal(err.text, "");
        assert_true(fabsf(residual[0]) <= fabsf(wholes[w]) * 1e-6f);
        skep_update_body_done(&back);
        skep_buffer_done(&bytes);
        free_tensor(&tensor);
    }
}

static void unused_entries_stay_within_the_values_sent(void **state)
{
    (void)state;
    float delta[64] = {0};
    float residual[64] = {0};
    for (int i = 0; i < 4; i++) {
        delta[i] = i < 2 ? -1.0f : 1.0f; /* sigma 1: nothing reaches the outer bins at 1.5 */
    }
    struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){64}, 1, 256);
    struct skep_update_tensor tensor = compress(&tiling, 1, delta, residual);
    const float expected[4] = {-1, -1, 1, 1};
    assert_memory_equal(tensor.codebook, expected, sizeof expected);
    free_tensor(&tensor);
}

static void what_is_not_finite_is_refused_and_the_residual_kept(void **state)
{
    (void)state;
    const float wrong[] = {NAN, INFINITY, -INFINITY, 3e38f};
    for (size_t w = 0; w < 4; w++) {
        float delta[64] = {0};
        float residual[64];
        float before[64];
        for (int i = 0; i < 64; i++) {
            residual[i] = i == 63 ? 3e38f : (float)i;
        }
        memcpy(before, residual, sizeof before);
        delta[63] = wrong[w];
        struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){64}, 1, 256);
        struct skep_update_tensor tensor = {0};
        struct skep_error err = {0};
        assert_int_equal(skep_compress_tensor(&tiling, 1, delta, residual, &tensor, &err),
                         SKEP_ERR_NUMERIC);
        assert_non_null(strstr(err.text, "place 63 of the pseudo-gradient is "));
        assert_memory_equal(residual, before, sizeof before);
        assert_null(tensor.indices);
    }
}

static void a_shard_is_its_tensors_one_after_the_other(void **state)
{
    (void)state;
    enum { FIRST = 128 * 64, SECOND = 64, COUNT = FIRST + SECOND };
    static float delta[COUNT];
    static float residual[COUNT];
    static float apart[COUNT];
    fill(delta, COUNT, 7);
    fill(residual, COUNT, 8);
    memcpy(apart, residual, sizeof apart);
    const struct skep_tiling tilings[] = {skep_tiling_of((const uint32_t[]){128, 64}, 2, 64),
                                          skep_tiling_of((const uint32_t[]){64}, 1, 64)};
    struct skep_update_body body = {0};
    struct skep_error err = {0};
    assert_int_equal(skep_compress_shard(tilings, 2, 0.95f, delta, residual, &body, &err), 0);
    struct skep_update_tensor alone[] = {
        compress(&tilings[0], 0.95f, delta, apart),
        compress(&tilings[1], 0.95f, delta + FIRST, apart + FIRST),
    };
    struct skep_buffer joined = {0};
    struct skep_buffer expected = {0};
    skep_update_body_encode(&body, &joined);
    skep_update_body_encode(&(struct skep_update_body){2, alone}, &expected);
    assert_int_equal(joined.size, expected.size);
    assert_memory_equal(joined.data, expected.data, joined.size);
    assert_memory_equal(residual, apart, sizeof apart);
    skep_update_body_done(&body);
    delta[FIRST + 3] = NAN;
    assert_int_equal(skep_compress_shard(tilings, 2, 0.95f, delta, residual, &body, &err),
                     SKEP_ERR_NUMERIC);
    assert_non_null(strstr(err.text, "tensor 1: place 3 of the pseudo-gradient is "));
    assert_null(body.tensors);
    skep_buffer_done(&joined);
    skep_buffer_done(&expected);
    free_tensor(&alone[0]);
    free_tensor(&alone[1]);
}

static unsigned blocks_left;

static bool no_blocks_left(void)
{
    return blocks_left-- == 0;
}

static void a_shard_is_given_up_between_two_blocks(void **state)
{
    (void)state;
    enum { COUNT = 192 * 64 };
    static float delta[COUNT];
    static float residual[COUNT];
    const struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){192, 64}, 2, 64);
    assert_int_equal(tiling.blocks, 3);
    const struct skep_compress_options options = {.decay = 1, .stopped = no_blocks_left};
    fill(delta, COUNT, 9);
    for (unsigned blocks = 0; blocks <= 3; blocks++) {
        struct skep_update_body body = {0};
        struct skep_error err = {0};
        memset(residual, 0, sizeof residual);
        blocks_left = blocks;
        int rc = skep_compress_shard_with(&options, &tiling, 1, delta, residual, &body, &err);
        assert_int_equal(rc, blocks < 3 ? SKEP_ERR_CANCELLED : SKEP_OK);
        assert_int_equal(body.tensor_count, blocks < 3 ? 0 : 1);
        skep_update_body_done(&body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_the_largest_of_each_block_are_sent),
        cmocka_unit_test(ties_go_to_the_lower_index),
        cmocka_unit_test(what_is_sent_and_what_is_kept_add_up),
        cmocka_unit_test(two_bits_lose_little_of_what_is_sent),
        cmocka_unit_test(error_feedback_sends_everything_in_the_end),
        cmocka_unit_test(equal_and_zero_values_have_a_codebook_that_is_admitted),
        cmocka_unit_test(unused_entries_stay_within_the_values_sent),
        cmocka_unit_test(what_is_not_finite_is_refused_and_the_residual_kept),
        cmocka_unit_test(a_shard_is_its_tensors_one_after_the_other),
        cmocka_unit_test(a_shard_is_given_up_between_two_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
