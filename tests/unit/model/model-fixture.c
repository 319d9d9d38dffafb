#include "tests/unit/model/model-fixture.h"

#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "tests/lib/cmocka.h"

const struct skep_shard FIXTURE_TRUNK = {.kind = SKEP_SHARD_TRUNK};

struct skep_model_config fixture_config(enum skep_route route, uint32_t rows_per_token)
{
    return (struct skep_model_config){.vocabulary = 11,
                                      .dim = 8,
                                      .hidden = 12,
                                      .heads = 2,
                                      .layers = 2,
                                      .context = 9,
                                      .prefix = 3,
                                      .rows = 3,
                                      .columns = 3,
                                      .experts_per_token = 2,
                                      .rows_per_token = rows_per_token,
                                      .route = route};
}

struct skep_model_config fixture_classifier(enum skep_expert_kind expert, uint32_t rows_per_token)
{
    return (struct skep_model_config){.kind = SKEP_MODEL_CLASSIFIER,
                                      .expert = expert,
                                      .inputs = 5,
                                      .classes = 4,
                                      .dim = 8,
                                      .hidden = 12,
                                      .layers = 2,
                                      .context = 1,
                                      .rows = 3,
                                      .columns = 3,
                                      .experts_per_token = 2,
                                      .rows_per_token = rows_per_token,
                                      .route = SKEP_ROUTE_TOKEN};
}

struct skep_shard fixture_expert(uint32_t layer, uint32_t row, uint32_t column)
{
    return (struct skep_shard){SKEP_SHARD_FFN, (uint16_t)layer, (uint16_t)row, (uint16_t)column};
}

static void set_random(struct skep_model *lm, const struct skep_shard *shard, struct skep_rng *rng)
{
    struct skep_layout layout;
    skep_layout_of(skep_model_config(lm), shard, &layout);
    float *values = skep_alloc(layout.parameters, sizeof *values);
    for (size_t i = 0; i < layout.tensor_count; i++) {
        const struct skep_tensor_spec *spec = &layout.tensors[i];
        double range = spec->balance ? 0.1 : 0.7;
        for (size_t j = 0; j < spec->count; j++) {
            values[spec->offset + j] = (float)((skep_rng_unit(rng) * 2 - 1) * range);
        }
    }
    assert_int_equal(skep_model_set(lm, shard, values), SKEP_OK);
    free(values);
    skep_layout_done(&layout);
}

struct skep_model *fixture_lm(const struct skep_model_config *config, uint32_t batch, uint64_t seed)
{
    struct skep_model_options options = {.batch = batch};
    return fixture_model(config, &options, seed);
}

struct skep_model *fixture_model(const struct skep_model_config *config,
                                 const struct skep_model_options *options, uint64_t seed)
{
    struct skep_model *lm;
    assert_int_equal(skep_model_new(config, options, &lm, NULL), SKEP_OK);
    struct skep_rng rng = skep_rng_of(seed);
    set_random(lm, &FIXTURE_TRUNK, &rng);
    for (uint32_t l = 0; l < config->layers; l++) {
        for (uint32_t r = 0; r < config->rows; r++) {
            for (uint32_t c = 0; c < config->columns; c++) {
                struct skep_shard shard = fixture_expert(l, r, c);
                set_random(lm, &shard, &rng);
            }
        }
    }
    return lm;
}

void fixture_tokens(const struct skep_model_config *config, uint64_t seed, uint8_t *tokens,
                    size_t count)
{
    struct skep_rng rng = skep_rng_of(seed);
    for (size_t i = 0; i < count; i++) {
        uint32_t limit = config->kind == SKEP_MODEL_LM                ? config->vocabulary
                         : i % (config->inputs + 1) == config->inputs ? config->classes
                                                                      : 256;
        tokens[i] = (uint8_t)skep_rng_below(&rng, limit);
    }
}
