/* Which tensors a shard has, and the bits of version 0. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/model/layout.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/model/model-fixture.h"

static const struct skep_hash SEED = {{1, 2, 3}};

static float *seeded(const struct skep_model_config *config, const struct skep_shard *shard,
                     struct skep_layout *layout)
{
    skep_layout_of(config, shard, layout);
    float *values = skep_alloc(layout->parameters, sizeof *values);
    skep_layout_seed(layout, config, &SEED, values);
    return values;
}

/* FNV-1a over the little-endian bits. The expected sums come from a second implementation of layout.h, written in Python. */
static uint64_t checksum(const float *values, size_t count)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[4];
        skep_put_f32(bytes, values[i]);
        for (int j = 0; j < 4; j++) {
            hash = (hash ^ bytes[j]) * 0x100000001b3u;
        }
    }
    return hash;
}

static void tensors_lie_one_after_the_other_in_the_order_of_the_header(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 1);
    struct skep_layout layout;
    skep_layout_of(&config, &FIXTURE_TRUNK, &layout);
    assert_int_equal(layout.tensor_count, 4 + 8 * 2);
    assert_string_equal(layout.tensors[0].name, "embed.token");
    assert_string_equal(layout.tensors[4].name, "layer.0.attention.qkv");
    assert_int_equal(layout.tensors[4].dims[0], 24);
    assert_int_equal(layout.tensors[4].dims[1], 8);
    assert_string_equal(layout.tensors[17].name, "layer.1.balance.column");
    assert_true(layout.tensors[17].balance && !layout.tensors[17].decayed);
    assert_true(layout.tensors[4].decayed && !layout.tensors[4].balance);
    assert_string_equal(layout.tensors[19].name, "final.norm.bias");
    size_t offset = 0;
    for (size_t i = 0; i < layout.tensor_count; i++) {
        assert_int_equal(layout.tensors[i].offset, offset);
        offset += layout.tensors[i].count;
    }
    assert_int_equal(layout.parameters, offset);
    skep_layout_done(&layout);
}

static void version_zero_has_the_same_bits_everywhere(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 1);
    struct skep_layout trunk;
    struct skep_layout expert;
    struct skep_shard shard = fixture_expert(1, 2, 0);
    float *trunk_values = seeded(&config, &FIXTURE_TRUNK, &trunk);
    float *expert_values = seeded(&config, &shard, &expert);
    assert_true(checksum(trunk_values, trunk.parameters) == UINT64_C(0x897bd108da71c524));
    assert_true(checksum(expert_values, expert.parameters) == UINT64_C(0xcc20b6bc3951eaa9));
    free(trunk_values);
    free(expert_values);
    skep_layout_done(&trunk);
    skep_layout_done(&expert);
}

static double variance(const float *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    return sum / (double)count;
}

static void version_zero_has_the_variances_of_the_header(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 1);
    config.dim = 64;
    config.hidden = 256;
    struct skep_layout layout;
    struct skep_shard shard = fixture_expert(0, 0, 0);
    float *values = seeded(&config, &shard, &layout);
    assert_true(values[0] == 1.0f && values[64] == 0.0f);
    /* 16384 draws: the variance is known to about 1 %. */
    double up = variance(values + layout.tensors[2].offset, layout.tensors[2].count);
    double down = variance(values + layout.tensors[4].offset, layout.tensors[4].count);
    assert_true(fabs(up * 64 - 1) < 0.05);
    assert_true(fabs(down * 256 * 4 - 1) < 0.05);
    free(values);
    skep_layout_done(&layout);
    values = seeded(&config, &FIXTURE_TRUNK, &layout);
    double embedding = variance(values, layout.tensors[0].count);
    assert_true(fabs(embedding * 2500 - 1) < 0.1);
    free(values);
    skep_layout_done(&layout);
}

static void every_shard_and_seed_has_values_of_its_own(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 1);
    struct skep_layout layout;
    struct skep_shard one = fixture_expert(0, 1, 2);
    struct skep_shard other = fixture_expert(0, 2, 1);
    float *first = seeded(&config, &one, &layout);
    skep_layout_done(&layout);
    float *second = seeded(&config, &other, &layout);
    size_t size = layout.parameters * sizeof *first;
    assert_memory_not_equal(first, second, size);
    struct skep_hash seed = {{9}};
    skep_layout_seed(&layout, &config, &seed, first);
    assert_memory_not_equal(first, second, size);
    skep_layout_done(&layout);
    free(first);
    free(second);
}

static void the_cost_of_a_token_counts_what_it_touches(void **state)
{
    (void)state;
    struct skep_model_config config = fixture_config(SKEP_ROUTE_DOCUMENT, 1);
    struct skep_layout layout;
    struct skep_shard shard = fixture_expert(0, 0, 0);
    skep_layout_of(&config, &shard, &layout);
    assert_int_equal(skep_layout_flops_per_token(&layout, &config), 6 * layout.parameters);
    skep_layout_done(&layout);
    skep_layout_of(&config, &FIXTURE_TRUNK, &layout);
    /* all but 8 of the 9 positions of width 8; 2 layers attending to 9 places of width 8 */
    assert_int_equal(skep_layout_flops_per_token(&layout, &config),
                     6 * (layout.parameters - 8 * 8 + 2 * 9 * 8));
    skep_layout_done(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_lie_one_after_the_other_in_the_order_of_the_header),
        cmocka_unit_test(version_zero_has_the_same_bits_everywhere),
        cmocka_unit_test(version_zero_has_the_variances_of_the_header),
        cmocka_unit_test(every_shard_and_seed_has_values_of_its_own),
        cmocka_unit_test(the_cost_of_a_token_counts_what_it_touches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
