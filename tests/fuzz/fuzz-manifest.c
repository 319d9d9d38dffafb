/* Manifests: what is read passes its own check, and is written and read again the same. */
#include "common/wire/manifest.h"
#include "tests/fuzz/fuzz.h"

const char *const fuzz_sentence = "manifests from strangers are refused or come back the same";

static void check_shards(const struct skep_manifest *manifest)
{
    size_t count = skep_manifest_shard_count(manifest);
    size_t step = count / 16 + 1;
    for (size_t i = 0; i < count; i += step) {
        struct skep_shard shard = skep_manifest_shard(manifest, i);
        FUZZ_CHECK(skep_manifest_shard_index(manifest, &shard) == i);
    }
    FUZZ_CHECK(skep_model_config_state_bytes(&manifest->model) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct skep_manifest manifest = {0};
    struct skep_error err = {0};
    if (skep_manifest_decode(data, size, &manifest, &err) != SKEP_OK) {
        FUZZ_CHECK(err.text[0] != '\0' && manifest.name == NULL);
        return 0;
    }
    FUZZ_CHECK(skep_manifest_check(&manifest, NULL) == SKEP_OK);
    check_shards(&manifest);
    char *text = skep_manifest_encode(&manifest);
    struct skep_manifest again = {0};
    FUZZ_CHECK(skep_manifest_decode(text, strlen(text), &again, &err) == SKEP_OK);
    fuzz_same_texts(text, skep_manifest_encode(&again));
    skep_manifest_done(&again);
    skep_manifest_done(&manifest);
    return 0;
}
