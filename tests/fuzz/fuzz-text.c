/* Small texts; the first byte says which: 4 base64, x hexadecimal, s shard name, anything else an address. */
#include "common/base/bytes.h"
#include "common/base/id.h"
#include "common/discovery/directory.h"
#include "common/wire/base64.h"
#include "tests/fuzz/fuzz.h"

const char *const fuzz_sentence =
    "base64, hexadecimal, shard names and addresses have one spelling";

static void try_base64(const char *text, size_t size)
{
    struct skep_buffer bytes = {.limit = 3000};
    if (skep_base64_decode(text, size, &bytes)) {
        char *again = skep_base64_encode(bytes.data, bytes.size);
        FUZZ_CHECK(strlen(again) == size && memcmp(again, text, size) == 0);
        free(again);
    } else {
        FUZZ_CHECK(bytes.size == 0);
    }
    skep_buffer_done(&bytes);
}

static void try_hex(const char *text, size_t size)
{
    uint8_t bytes[64];
    char again[2 * sizeof bytes + 1];
    size_t half = size / 2 < sizeof bytes ? size / 2 : sizeof bytes;
    if (skep_hex_decode(text, bytes, half)) {
        skep_hex_encode(bytes, half, again);
        FUZZ_CHECK(strcmp(again, text) == 0);
    }
}

static void try_shard(const char *text)
{
    struct skep_shard shard;
    if (skep_shard_parse(text, &shard)) {
        char again[SKEP_SHARD_TEXT_SIZE];
        skep_shard_format(&shard, again);
        FUZZ_CHECK(strcmp(again, text) == 0);
    }
}

/* The parsed host is in its one spelling: parsing it again changes nothing. */
static void try_address(const char *text)
{
    struct skep_address address;
    struct skep_address again;
    if (!skep_address_parse(text, &address)) {
        return;
    }
    FUZZ_CHECK(memchr(address.host, '\0', sizeof address.host) != NULL && address.port > 0);
    char canonical[SKEP_ADDRESS_TEXT_SIZE + 16];
    const char *form = strchr(address.host, ':') != NULL ? "[%s]:%u" : "%s:%u";
    snprintf(canonical, sizeof canonical, form, address.host, address.port);
    FUZZ_CHECK(skep_address_parse(canonical, &again));
    FUZZ_CHECK(strcmp(again.host, address.host) == 0 && again.port == address.port);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    char *text = fuzz_text(data + 1, size - 1);
    switch (data[0]) {
    case '4':
        try_base64(text, size - 1);
        break;
    case 'x':
        try_hex(text, size - 1);
        break;
    case 's':
        try_shard(text);
        break;
    default:
        try_address(text);
        break;
    }
    free(text);
    return 0;
}
