/* A shard's state against its layout: the first byte says which shard of a small model, even the trunk, odd an expert. */
#include <math.h>

#include "common/model/layout.h"
#include "tests/fuzz/fuzz.h"

const char *const fuzz_sentence = "states from strangers are refused or come back the same";

static const struct skep_model_config config = {.vocabulary = 8,
                                                .dim = 4,
                                                .hidden = 8,
                                                .heads = 2,
                                                .layers = 1,
                                                .context = 4,
                                                .prefix = 2,
                                                .rows = 2,
                                                .columns = 2,
                                                .experts_per_token = 1,
                                                .rows_per_token = 1};

static void try_state(const struct skep_layout *layout, const uint8_t *data, size_t size)
{
    float *values = calloc(layout->parameters, sizeof *values);
    float *again = calloc(layout->parameters, sizeof *again);
    FUZZ_CHECK(values != NULL && again != NULL);
    struct skep_error err = {0};
    struct skep_buffer file = {0};
    if (skep_state_read(layout, data, size, values, &err) == SKEP_OK) {
        for (size_t i = 0; i < layout->parameters; i++) {
            FUZZ_CHECK(isfinite(values[i]));
        }
        skep_state_write(layout, values, &file);
        FUZZ_CHECK(skep_state_read(layout, file.data, file.size, again, &err) == SKEP_OK);
        FUZZ_CHECK(memcmp(values, again, layout->parameters * sizeof *values) == 0);
    } else {
        FUZZ_CHECK(err.text[0] != '\0' && values[0] == 0);
    }
    skep_buffer_done(&file);
    free(again);
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct skep_shard shard = {.kind = data[0] % 2 == 0 ? SKEP_SHARD_TRUNK : SKEP_SHARD_FFN};
    struct skep_layout layout = {0};
    skep_layout_of(&config, &shard, &layout);
    try_state(&layout, data + 1, size - 1);
    skep_layout_done(&layout);
    return 0;
}
