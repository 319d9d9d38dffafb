/* Update files: tiling, the bit coding, and everything that a decoder must refuse. */
#include "common/wire/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/base/rng.h"
#include "tests/lib/cmocka.h"
#include "tests/lib/vectors.h"

/* Offsets in the golden body. */
enum {
    FIRST_CODEBOOK = 4,
    FIRST_BLOCKS = 20,
    FIRST_BITS_SIZE = 24,
    FIRST_BITS = 28,
    SECOND_CODEBOOK = 29,
    SECOND_BITS_SIZE = 49,
    SECOND_BITS = 53,
    BODY_SIZE = 56,
};

static void golden_tilings(struct skep_tiling tilings[2])
{
    tilings[0] = skep_tiling_of((const uint32_t[]){2, 4}, 2, 64);
    tilings[1] = skep_tiling_of((const uint32_t[]){128}, 1, 64);
}

static int decode_golden(const void *data, size_t size, struct skep_error *err)
{
    struct skep_tiling tilings[2];
    golden_tilings(tilings);
    struct skep_update_body body = {0};
    int rc = skep_update_body_decode(data, size, tilings, 2, 4.0, &body, err);
    if (rc != SKEP_OK) {
        assert_null(body.tensors);
    }
    skep_update_body_done(&body);
    return rc;
}

/* The golden body with one byte replaced must be refused with `code` and a sentence that has `part` in it. */
static void refuse_changed(size_t at, uint8_t byte, enum skep_refusal reason, const char *part)
{
    struct skep_buffer bytes = {0};
    skep_test_vector_read("update-body.hex", &bytes);
    bytes.data[at] = byte;
    struct skep_error err = {0};
    assert_int_equal(decode_golden(bytes.data, bytes.size, &err), skep_refusal_code(reason));
    assert_int_equal(err.reason, reason);
    if (strstr(err.text, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    }
    skep_buffer_done(&bytes);
}

static void matrices_are_cut_into_tiles_by_their_largest_divisors(void **state)
{
    (void)state;
    struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){256, 192}, 2, 64);
    assert_int_equal(tiling.tile_rows, 64);
    assert_int_equal(tiling.tile_columns, 64);
    assert_int_equal(tiling.blocks, 12);
    assert_int_equal(tiling.kept, 64);
    tiling = skep_tiling_of((const uint32_t[]){67, 100}, 2, 64);
    assert_int_equal(tiling.tile_rows, 1);
    assert_int_equal(tiling.tile_columns, 50);
    assert_int_equal(tiling.blocks, 67 * 2);
    assert_int_equal(tiling.kept, 1);
    tiling = skep_tiling_of((const uint32_t[]){4, 3, 5}, 3, 4096);
    assert_int_equal(tiling.rows, 4);
    assert_int_equal(tiling.columns, 15);
    assert_int_equal(tiling.kept, 60);
    tiling = skep_tiling_of((const uint32_t[]){256}, 1, 1u << 31);
    assert_int_equal(tiling.tile_rows, 1);
    assert_int_equal(tiling.tile_columns, 64);
    assert_int_equal(tiling.kept, 64);
}

static void tiles_cover_a_tensor_once(void **state)
{
    (void)state;
    struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){12, 130}, 2, 64);
    uint8_t seen[12 * 130] = {0};
    for (uint32_t block = 0; block < tiling.blocks; block++) {
        for (uint32_t i = 0; i < tiling.tile_rows * tiling.tile_columns; i++) {
            size_t place = skep_tiling_place(&tiling, block, i);
            assert_true(place < sizeof seen);
            seen[place]++;
        }
    }
    for (size_t i = 0; i < sizeof seen; i++) {
        assert_int_equal(seen[i], 1);
    }
    assert_int_equal(skep_tiling_place(&tiling, 1, 0), tiling.tile_columns);
}

static void the_encoder_writes_the_golden_bytes(void **state)
{
    (void)state;
    uint16_t first_index[] = {6};
    uint8_t first_code[] = {3};
    uint16_t second_indices[] = {40, 63};
    uint8_t second_codes[] = {2, 1};
    struct skep_update_tensor tensors[2] = {
        {.codebook = {-0.5f, -0.25f, 0.25f, 0.5f}, .indices = first_index, .codes = first_code},
        {.codebook = {-1, 0, 0, 2}, .indices = second_indices, .codes = second_codes},
    };
    struct skep_tiling tilings[2];
    golden_tilings(tilings);
    tensors[0].tiling = tilings[0];
    tensors[1].tiling = tilings[1];
    struct skep_update_body body = {.tensor_count = 2, .tensors = tensors};
    struct skep_buffer bytes = {0};
    struct skep_buffer golden = {0};
    skep_update_body_encode(&body, &bytes);
    skep_test_vector_read("update-body.hex", &golden);
    assert_int_equal(golden.size, BODY_SIZE);
    assert_int_equal(bytes.size, golden.size);
    assert_memory_equal(bytes.data, golden.data, golden.size);
    skep_buffer_done(&bytes);
    skep_buffer_done(&golden);
}

static void the_decoder_reads_the_golden_bytes(void **state)
{
    (void)state;
    struct skep_buffer golden = {0};
    skep_test_vector_read("update-body.hex", &golden);
    struct skep_tiling tilings[2];
    golden_tilings(tilings);
    struct skep_update_body body = {0};
    struct skep_error err = {0};
    /* 2.0 is the largest value in it, and a ceiling is inclusive. */
    assert_int_equal(
        skep_update_body_decode(golden.data, golden.size, tilings, 2, 2.0, &body, &err), SKEP_OK);
    assert_int_equal(body.tensors[0].indices[0], 6);
    assert_int_equal(body.tensors[0].codes[0], 3);
    assert_int_equal(body.tensors[1].indices[0], 40);
    assert_int_equal(body.tensors[1].codes[0], 2);
    assert_int_equal(body.tensors[1].indices[1], 63);
    assert_int_equal(body.tensors[1].codes[1], 1);
    assert_true(body.tensors[1].codebook[3] == 2);
    skep_update_body_done(&body);
    skep_buffer_done(&golden);
}

/* A body of random choices over the given dims; the caller frees it. */
static void random_body(struct skep_rng *rng, const struct skep_tiling *tilings, size_t count,
                        struct skep_update_body *ret_body)
{
    ret_body->tensor_count = count;
    ret_body->tensors = skep_alloc(count, sizeof *ret_body->tensors);
    for (size_t t = 0; t < count; t++) {
        struct skep_update_tensor *tensor = &ret_body->tensors[t];
        tensor->tiling = tilings[t];
        uint32_t size = tilings[t].tile_rows * tilings[t].tile_columns;
        uint32_t kept = tilings[t].kept;
        tensor->indices = skep_alloc((size_t)tilings[t].blocks * kept, sizeof *tensor->indices);
        tensor->codes = skep_alloc((size_t)tilings[t].blocks * kept, 1);
        size_t at = 0;
        for (uint32_t block = 0; block < tilings[t].blocks; block++) {
            uint32_t wanted = kept;
            for (uint32_t i = 0; i < size; i++) {
                if (skep_rng_below(rng, size - i) < wanted) {
                    tensor->codes[at] = (uint8_t)skep_rng_below(rng, 4);
                    tensor->indices[at++] = (uint16_t)i;
                    wanted--;
                }
            }
        }
        for (int i = 0; i < 4; i++) {
            tensor->codebook[i] = (float)(i - 1) * 0.125f;
        }
    }
}

static void what_is_encoded_comes_back_and_is_as_small_as_designed(void **state)
{
    (void)state;
    struct skep_rng rng = skep_rng_of(1);
    const uint32_t keeps[] = {1, 7, 64, 1000, 4096};
    for (size_t k = 0; k < 5; k++) {
        struct skep_tiling tilings[3] = {
            skep_tiling_of((const uint32_t[]){256, 320}, 2, keeps[k]),
            skep_tiling_of((const uint32_t[]){37, 6}, 2, keeps[k]),
            skep_tiling_of((const uint32_t[]){192}, 1, keeps[k]),
        };
        struct skep_update_body body = {0};
        random_body(&rng, tilings, 3, &body);
        struct skep_buffer bytes = {0};
        skep_update_body_encode(&body, &bytes);
        struct skep_update_body back = {0};
        struct skep_error err = {0};
        int rc = skep_update_body_decode(bytes.data, bytes.size, tilings, 3, 1, &back, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(rc, SKEP_OK);
        for (size_t t = 0; t < 3; t++) {
            size_t count = (size_t)tilings[t].blocks * tilings[t].kept;
            assert_memory_equal(back.tensors[t].indices, body.tensors[t].indices, 2 * count);
            assert_memory_equal(back.tensors[t].codes, body.tensors[t].codes, count);
        }
        if (keeps[k] == 64) {
            /* 9.5 bits for each of 20 * 64 values of the large tensor (DESIGN.md section 5), within 2 %. */
            size_t bits = 8u * skep_get_u32(bytes.data + 4 + 20);
            assert_in_range(bits, 20 * 64 * 93 / 10, 20 * 64 * 97 / 10);
        }
        skep_update_body_done(&back);
        skep_update_body_done(&body);
        skep_buffer_done(&bytes);
    }
}

static void every_truncation_and_every_addition_is_refused(void **state)
{
    (void)state;
    struct skep_buffer bytes = {0};
    skep_test_vector_read("update-body.hex", &bytes);
    for (size_t size = 0; size < bytes.size; size++) {
        /* A copy of exact size, so that a sanitizer sees any read beyond it. */
        uint8_t *cut = skep_alloc(size + 1, 1);
        memcpy(cut, bytes.data, size);
        struct skep_error err = {0};
        assert_int_equal(decode_golden(cut, size, &err), SKEP_ERR_FORMAT);
        assert_true(err.text[0] != '\0');
        free(cut);
    }
    skep_buffer_append_u8(&bytes, 0);
    struct skep_error err = {0};
    assert_int_equal(decode_golden(bytes.data, bytes.size, &err), SKEP_ERR_FORMAT);
    assert_string_equal(err.text, "update body: 1 bytes follow the last of its 2 tensors");
    skep_buffer_done(&bytes);
}

static void counts_that_the_layout_does_not_have_are_refused(void **state)
{
    (void)state;
    refuse_changed(0, 3, SKEP_REFUSAL_TENSOR_COUNT, "has 3 tensors; the layout has 2");
    refuse_changed(FIRST_BLOCKS, 2, SKEP_REFUSAL_BLOCK_COUNT,
                   "tensor 0: it has 2 blocks where the layout has 1");
    refuse_changed(FIRST_BITS_SIZE, 0, SKEP_REFUSAL_VALUE_COUNT,
                   "0 bytes of bits cannot hold 1 values");
    refuse_changed(FIRST_BITS_SIZE + 3, 0xff, SKEP_REFUSAL_TRUNCATED,
                   "the body ends inside this tensor");
    refuse_changed(SECOND_BITS_SIZE, 2, SKEP_REFUSAL_TRUNCATED,
                   "tensor 1: the bits end inside block 1 of 2");
}

static void places_beyond_the_block_are_refused(void **state)
{
    (void)state;
    /* Gap 8 in a block of 8 places; a unary part without end; gap 64 in a block of 64. */
    refuse_changed(FIRST_BITS, 8 << 1, SKEP_REFUSAL_INDEX_RANGE,
                   "value 0 of block 0 lies beyond the block's 8 places");
    refuse_changed(FIRST_BITS, 0xff, SKEP_REFUSAL_INDEX_RANGE, "lies beyond the block's 8 places");
    refuse_changed(SECOND_BITS, 0x23, SKEP_REFUSAL_INDEX_RANGE,
                   "lies beyond the block's 64 places");
}

static void codebooks_that_no_encoder_writes_are_refused(void **state)
{
    (void)state;
    refuse_changed(FIRST_CODEBOOK + 15, 0x7f, SKEP_REFUSAL_CODEBOOK_CEILING,
                   "codebook value 3 is ");
    refuse_changed(FIRST_CODEBOOK + 15, 0xbf, SKEP_REFUSAL_CODEBOOK_ORDER,
                   "codebook value 3 is -0.5, less than 0.25 before it");
    refuse_changed(SECOND_CODEBOOK + 7, 0x80, SKEP_REFUSAL_NOT_CANONICAL, "codebook value 1 is -0");
    refuse_changed(SECOND_CODEBOOK + 15, 0x41, SKEP_REFUSAL_CODEBOOK_CEILING,
                   "tensor 1: codebook value 3 is 8; allowed: -4 .. 4");
    const float wrong[] = {INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < 3; i++) {
        struct skep_buffer bytes = {0};
        skep_test_vector_read("update-body.hex", &bytes);
        skep_put_f32(bytes.data + SECOND_CODEBOOK + 12, wrong[i]);
        struct skep_error err = {0};
        assert_int_equal(decode_golden(bytes.data, bytes.size, &err), SKEP_ERR_NUMERIC);
        assert_int_equal(err.reason, SKEP_REFUSAL_CODEBOOK_NOT_FINITE);
        skep_buffer_done(&bytes);
    }
}

static void unused_bits_must_be_zero_and_none_too_many(void **state)
{
    (void)state;
    refuse_changed(SECOND_BITS + 2, 0x81, SKEP_REFUSAL_NOT_CANONICAL,
                   "the unused bits of the last byte are not zero");
    struct skep_buffer bytes = {0};
    skep_test_vector_read("update-body.hex", &bytes);
    skep_buffer_append_u8(&bytes, 0);
    bytes.data[SECOND_BITS_SIZE] = 4;
    struct skep_error err = {0};
    assert_int_equal(decode_golden(bytes.data, bytes.size, &err), SKEP_ERR_FORMAT);
    assert_string_equal(err.text, "update body, tensor 1: bits take 4 bytes where 3 suffice");
    skep_buffer_done(&bytes);
}

/* Canonical: whatever the decoder takes, the encoder gives back byte for byte. */
static void what_is_accepted_has_one_encoding(void **state)
{
    (void)state;
    struct skep_rng rng = skep_rng_of(2);
    struct skep_tiling tilings[2];
    golden_tilings(tilings);
    struct skep_buffer golden = {0};
    skep_test_vector_read("update-body.hex", &golden);
    size_t accepted = 0;
    for (int i = 0; i < 20000; i++) {
        uint8_t changed[BODY_SIZE];
        memcpy(changed, golden.data, BODY_SIZE);
        for (int flips = 1 + i % 3; flips > 0; flips--) {
            changed[skep_rng_below(&rng, BODY_SIZE)] ^= (uint8_t)(1u << skep_rng_below(&rng, 8));
        }
        struct skep_update_body body = {0};
        if (skep_update_body_decode(changed, BODY_SIZE, tilings, 2, 4, &body, NULL) == SKEP_OK) {
            struct skep_buffer again = {0};
            skep_update_body_encode(&body, &again);
            assert_int_equal(again.size, BODY_SIZE);
            assert_memory_equal(again.data, changed, BODY_SIZE);
            skep_buffer_done(&again);
            accepted++;
        }
        skep_update_body_done(&body);
    }
    assert_true(accepted > 100);
    skep_buffer_done(&golden);
}

static void a_file_is_joined_and_split(void **state)
{
    (void)state;
    struct skep_buffer body = {0};
    struct skep_buffer golden = {0};
    struct skep_buffer file = {0};
    skep_test_vector_read("update-body.hex", &body);
    skep_test_vector_read("update-file.hex", &golden);
    skep_update_file_join("{}", &body, &file);
    assert_int_equal(file.size, golden.size);
    assert_memory_equal(file.data, golden.data, golden.size);
    const uint8_t *envelope;
    const uint8_t *rest;
    size_t envelope_size;
    size_t rest_size;
    assert_int_equal(skep_update_file_split(file.data, file.size, &envelope, &envelope_size, &rest,
                                            &rest_size, NULL),
                     SKEP_OK);
    assert_int_equal(envelope_size, 2);
    assert_memory_equal(envelope, "{}", 2);
    assert_int_equal(rest_size, body.size);
    assert_memory_equal(rest, body.data, body.size);
    skep_buffer_done(&body);
    skep_buffer_done(&golden);
    skep_buffer_done(&file);
}

static void refuse_file(const void *data, size_t size, enum skep_refusal reason,
                        const char *sentence)
{
    const uint8_t *envelope;
    const uint8_t *body;
    size_t envelope_size;
    size_t body_size;
    struct skep_error err = {0};
    assert_int_equal(
        skep_update_file_split(data, size, &envelope, &envelope_size, &body, &body_size, &err),
        skep_refusal_code(reason));
    assert_int_equal(err.reason, reason);
    assert_string_equal(err.text, sentence);
}

static void a_file_with_a_wrong_head_is_refused_with_its_reason(void **state)
{
    (void)state;
    refuse_file("SKUP\1\0\0\0\2\0\0", 11, SKEP_REFUSAL_TRUNCATED,
                "update file has 11 bytes; its head alone has 12");
    refuse_file("PK\3\4\1\0\0\0\2\0\0\0{}", 14, SKEP_REFUSAL_MAGIC,
                "update file begins with 504b0304 instead of SKUP");
    refuse_file("SKUP\2\0\0\0\2\0\0\0{}", 14, SKEP_REFUSAL_FORMAT_VERSION,
                "update file has format 2; known: 1");
    refuse_file("SKUP\1\0\1\0\2\0\0\0{}", 14, SKEP_REFUSAL_RESERVED,
                "update file has 000100 in bytes 5 to 7 instead of zeros");
    refuse_file("SKUP\1\0\0\0\3\0\0\0{}", 14, SKEP_REFUSAL_TRUNCATED,
                "update file of 14 bytes ends inside its envelope of 3 bytes");
    refuse_file("SKUP\1\0\0\0\0\0\0\0{}", 14, SKEP_REFUSAL_ENVELOPE_SIZE,
                "update file says its envelope has 0 bytes; allowed: 1 .. 4194304");
    refuse_file("SKUP\1\0\0\0\0\0\0\x80{}", 14, SKEP_REFUSAL_ENVELOPE_SIZE,
                "update file says its envelope has 2147483648 bytes; allowed: 1 .. 4194304");
    refuse_file("", SKEP_LIMIT_UPDATE_BYTES + 1, SKEP_REFUSAL_FILE_SIZE,
                "update file has 67108865 bytes; allowed: up to 67108864");
}

/* ---- memory ---- */

static size_t allocated; /* bytes, since it was set to 0 */

/* NOLINTBEGIN(bugprone-reserved-identifier): the names that the linker's --wrap gives */
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    allocated += count * size;
    return __real_calloc(count, size);
}
void *__wrap_malloc(size_t size)
{
    allocated += size;
    return __real_malloc(size);
}
void *__wrap_realloc(void *old, size_t size)
{
    allocated += size;
    return __real_realloc(old, size);
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* What the layout says that there is: an index of two bytes and a code for each value, and one of each more. */
static size_t layout_memory(const struct skep_tiling *tilings, size_t count)
{
    size_t bytes = (count + 1) * sizeof(struct skep_update_tensor);
    for (size_t i = 0; i < count; i++) {
        bytes += 3 * ((size_t)tilings[i].blocks * tilings[i].kept + 1);
    }
    return bytes;
}

static size_t decoding_takes(const void *data, size_t size, const struct skep_tiling *tilings,
                             size_t count, struct skep_error *err)
{
    struct skep_update_body body = {0};
    allocated = 0;
    (void)skep_update_body_decode(data, size, tilings, count, 4.0, &body, err);
    size_t taken = allocated;
    skep_update_body_done(&body);
    return taken;
}

static void whatever_the_bytes_say_decoding_takes_no_more_than_the_layout(void **state)
{
    (void)state;
    struct skep_tiling tilings[2];
    struct skep_buffer bytes = {0};
    golden_tilings(tilings);
    skep_test_vector_read("update-body.hex", &bytes);
    assert_int_equal(decoding_takes(bytes.data, bytes.size, tilings, 2, NULL),
                     layout_memory(tilings, 2));
    for (size_t at = 0; at < bytes.size; at++) {
        uint8_t right = bytes.data[at];
        for (unsigned wrong = 0; wrong < 256; wrong++) {
            bytes.data[at] = (uint8_t)wrong;
            assert_true(decoding_takes(bytes.data, bytes.size, tilings, 2, NULL) <=
                        layout_memory(tilings, 2));
        }
        bytes.data[at] = right;
    }
    skep_buffer_done(&bytes);
}

static void a_few_bytes_never_cost_the_memory_of_a_large_layout(void **state)
{
    (void)state;
    /* 16 million values of which 67 million bytes would be kept; the body of 28 bytes says what it likes */
    const struct skep_tiling tiling = skep_tiling_of((const uint32_t[]){4096, 4096}, 2, 4096);
    const uint32_t sizes[] = {0, 1, 1000000, UINT32_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t body[28] = {1};
        struct skep_error err = {0};
        skep_put_u32(body + 20, tiling.blocks);
        skep_put_u32(body + 24, sizes[i]);
        assert_int_equal(decoding_takes(body, sizeof body, &tiling, 1, &err),
                         2 * sizeof(struct skep_update_tensor));
        assert_int_equal(err.reason, i == 0 ? SKEP_REFUSAL_VALUE_COUNT : SKEP_REFUSAL_TRUNCATED);
    }
    /* and another number of tensors nothing at all */
    uint8_t body[28] = {0xff, 0xff, 0xff, 0xff};
    assert_int_equal(decoding_takes(body, sizeof body, &tiling, 1, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_are_cut_into_tiles_by_their_largest_divisors),
        cmocka_unit_test(tiles_cover_a_tensor_once),
        cmocka_unit_test(the_encoder_writes_the_golden_bytes),
        cmocka_unit_test(the_decoder_reads_the_golden_bytes),
        cmocka_unit_test(what_is_encoded_comes_back_and_is_as_small_as_designed),
        cmocka_unit_test(every_truncation_and_every_addition_is_refused),
        cmocka_unit_test(counts_that_the_layout_does_not_have_are_refused),
        cmocka_unit_test(places_beyond_the_block_are_refused),
        cmocka_unit_test(codebooks_that_no_encoder_writes_are_refused),
        cmocka_unit_test(unused_bits_must_be_zero_and_none_too_many),
        cmocka_unit_test(what_is_accepted_has_one_encoding),
        cmocka_unit_test(whatever_the_bytes_say_decoding_takes_no_more_than_the_layout),
        cmocka_unit_test(a_few_bytes_never_cost_the_memory_of_a_large_layout),
        cmocka_unit_test(a_file_is_joined_and_split),
        cmocka_unit_test(a_file_with_a_wrong_head_is_refused_with_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
