/* Payloads of statements; the first byte says which: r(ecord), u(pdate), c(aller), s(eal), anything else a message. */
#include <stdlib.h>

#include "common/wire/statements.h"
#include "tests/fuzz/fuzz.h"

const char *const fuzz_sentence = "statements from strangers are refused or come back the same";

static void try_record(const uint8_t *data, size_t size)
{
    struct skep_record record = {0};
    struct skep_record again = {0};
    if (skep_record_decode(data, size, &record, NULL) == SKEP_OK) {
        char *text = skep_record_encode(&record);
        FUZZ_CHECK(skep_record_decode(text, strlen(text), &again, NULL) == SKEP_OK);
        fuzz_same_texts(text, skep_record_encode(&again));
    }
    skep_record_done(&again);
    skep_record_done(&record);
}

static void try_update(const uint8_t *data, size_t size)
{
    struct skep_update_statement update;
    struct skep_update_statement again;
    if (skep_update_statement_decode(data, size, &update, NULL) == SKEP_OK) {
        struct skep_update_part *parts = NULL;
        size_t count = 0;
        FUZZ_CHECK(skep_update_parts_decode(data, size, &parts, &count, NULL) == SKEP_OK);
        FUZZ_CHECK(count == update.part_count);
        update.parts = parts;
        char *text = skep_update_statement_encode(&update);
        FUZZ_CHECK(skep_update_statement_decode(text, strlen(text), &again, NULL) == SKEP_OK);
        again.parts = parts;
        fuzz_same_texts(text, skep_update_statement_encode(&again));
        free(parts);
    }
}

static void try_caller(const uint8_t *data, size_t size)
{
    struct skep_caller_statement caller;
    struct skep_caller_statement again;
    if (skep_caller_statement_decode(data, size, &caller, NULL) == SKEP_OK) {
        char *text = skep_caller_statement_encode(&caller);
        FUZZ_CHECK(skep_caller_statement_decode(text, strlen(text), &again, NULL) == SKEP_OK);
        fuzz_same_texts(text, skep_caller_statement_encode(&again));
    }
}

static void try_seal(const uint8_t *data, size_t size)
{
    struct skep_seal seal = {0};
    struct skep_seal again = {0};
    struct skep_seal copy = {0};
    if (skep_seal_decode(data, size, &seal, NULL) == SKEP_OK) {
        char *text = skep_seal_encode(&seal);
        FUZZ_CHECK(skep_seal_decode(text, strlen(text), &again, NULL) == SKEP_OK);
        skep_seal_copy(&again, &copy);
        fuzz_same_texts(text, skep_seal_encode(&copy));
    }
    skep_seal_done(&copy);
    skep_seal_done(&again);
    skep_seal_done(&seal);
}

static void try_message(const uint8_t *data, size_t size)
{
    struct skep_message message = {0};
    struct skep_message again = {0};
    if (skep_message_decode(data, size, &message, NULL) == SKEP_OK) {
        char *text = skep_message_encode(&message);
        FUZZ_CHECK(skep_message_decode(text, strlen(text), &again, NULL) == SKEP_OK);
        FUZZ_CHECK(again.seal_payload.size == message.seal_payload.size);
        fuzz_same_texts(text, skep_message_encode(&again));
    }
    skep_message_done(&again);
    skep_message_done(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    switch (data[0]) {
    case 'r':
        try_record(data + 1, size - 1);
        break;
    case 'u':
        try_update(data + 1, size - 1);
        break;
    case 'c':
        try_caller(data + 1, size - 1);
        break;
    case 's':
        try_seal(data + 1, size - 1);
        break;
    default:
        try_message(data + 1, size - 1);
        break;
    }
    return 0;
}
