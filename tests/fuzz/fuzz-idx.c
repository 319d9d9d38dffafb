/* IDX files, plain or in gzip: what is read lies within the file, and makes records of one size and classes in range. */
#include "common/wire/gzip.h"
#include "common/wire/idx.h"
#include "tests/fuzz/fuzz.h"

#define UNPACKED_MOST (1u << 20)
#define CLASSES 10u

const char *const fuzz_sentence = "IDX files are refused by name or make whole records";

/* The file as labels of inputs that fit it, and as inputs of labels that do. */
static void make_records(const struct skep_idx *idx)
{
    struct skep_buffer records = {0};
    struct skep_error err = {0};
    struct skep_idx inputs = {.name = "inputs",
                              .values = idx->values,
                              .count = idx->count,
                              .item_bytes = 1,
                              .dim_count = 1};
    if (skep_idx_records(&inputs, idx, 1, CLASSES, &records, &err) == SKEP_OK) {
        FUZZ_CHECK(records.size == 2 * idx->count);
        for (size_t i = 1; i < records.size; i += 2) {
            FUZZ_CHECK(records.data[i] < CLASSES);
        }
    } else {
        FUZZ_CHECK(err.text[0] != '\0' && records.size == 0);
    }
    skep_buffer_done(&records);
}

static void parse(const uint8_t *data, size_t size)
{
    struct skep_idx idx = {0};
    struct skep_error err = {0};
    if (skep_idx_parse("file", data, size, &idx, &err) != SKEP_OK) {
        FUZZ_CHECK(strncmp(err.text, "file ", 5) == 0 && idx.values == NULL);
        return;
    }
    FUZZ_CHECK(idx.dim_count >= 1 && idx.dim_count <= SKEP_IDX_DIMS);
    FUZZ_CHECK(idx.values >= data &&
               idx.count * idx.item_bytes == (size_t)(data + size - idx.values));
    if (idx.dim_count == 1) {
        make_records(&idx);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *exact = fuzz_text(data, size);
    parse((const uint8_t *)exact, size);
    if (skep_gzip_is(exact, size)) {
        struct skep_buffer text = {0};
        struct skep_error err = {0};
        if (skep_gzip_unpack("file", exact, size, UNPACKED_MOST, &text, &err) == SKEP_OK) {
            FUZZ_CHECK(text.size <= UNPACKED_MOST);
            parse(text.data, text.size);
        } else {
            FUZZ_CHECK(strncmp(err.text, "file ", 5) == 0 && text.data == NULL);
        }
        skep_buffer_done(&text);
    }
    free(exact);
    return 0;
}
