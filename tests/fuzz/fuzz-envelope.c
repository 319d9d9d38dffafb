/* Envelopes: what is read is written and read again the same. */
#include "common/base/limits.h"
#include "common/wire/envelope.h"
#include "tests/fuzz/fuzz.h"

const char *const fuzz_sentence = "envelopes from strangers are refused or come back the same";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct skep_envelope envelope = {0};
    struct skep_error err = {0};
    if (skep_envelope_parse(data, size, &envelope, &err) != SKEP_OK) {
        FUZZ_CHECK(err.text[0] != '\0' && envelope.type == NULL);
        return 0;
    }
    FUZZ_CHECK(envelope.signature_count > 0 && envelope.signature_count <= SKEP_LIMIT_SIGNATURES);
    char *text = skep_envelope_write(&envelope);
    struct skep_envelope again = {0};
    FUZZ_CHECK(skep_envelope_parse(text, strlen(text), &again, &err) == SKEP_OK);
    FUZZ_CHECK(again.payload.size == envelope.payload.size);
    FUZZ_CHECK(again.payload.size == 0 ||
               memcmp(again.payload.data, envelope.payload.data, again.payload.size) == 0);
    fuzz_same_texts(text, skep_envelope_write(&again));
    skep_envelope_done(&again);
    skep_envelope_done(&envelope);
    return 0;
}
