/* Histories: the hash that a donor commits to, and the bytes that have it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/base/limits.h"
#include "common/crypto/hash.h"
#include "common/swarm/history.h"
#include "common/wire/manifest.h"
#include "tests/lib/cmocka.h"

#define COUNT 5u

static void put_flat(struct skep_buffer *to, uint32_t arrays, uint64_t step, float value)
{
    size_t begin = to->size;
    skep_buffer_append(to, SKEP_FLAT_MARK, 4);
    skep_buffer_append_u32(to, arrays);
    skep_buffer_append_u64(to, step);
    skep_buffer_append_u64(to, COUNT);
    for (uint32_t i = 0; i < arrays * COUNT; i++) {
        uint8_t bytes[4];
        skep_put_f32(bytes, value * (float)(i + 1));
        skep_buffer_append(to, bytes, sizeof bytes);
    }
    struct skep_hash hash = skep_hash_of(to->data + begin, to->size - begin);
    skep_buffer_append(to, hash.bytes, sizeof hash.bytes);
}

static struct skep_buffer both(float value)
{
    struct skep_buffer bytes = {0};
    put_flat(&bytes, SKEP_MOMENT_ARRAYS, 7, value);
    put_flat(&bytes, SKEP_RESIDUAL_ARRAYS, 0, -value);
    return bytes;
}

static void a_history_is_read_back_and_has_the_hash_of_its_files(void **state)
{
    (void)state;
    struct skep_buffer bytes = both(0.5f);
    struct skep_history history = {0};
    struct skep_hash moments;
    struct skep_hash residual;
    assert_int_equal(bytes.size, skep_history_bytes(COUNT));
    assert_int_equal(skep_history_open(bytes.data, bytes.size, COUNT, &history, NULL), 0);
    assert_int_equal(history.step, 7);
    assert_true(skep_get_f32(history.second) == 0.5f * (float)(COUNT + 1));
    assert_true(skep_get_f32(history.residual + 4) == -1.0f);
    memcpy(moments.bytes, bytes.data + history.moments_bytes - SKEP_ID_SIZE, SKEP_ID_SIZE);
    memcpy(residual.bytes, bytes.data + bytes.size - SKEP_ID_SIZE, SKEP_ID_SIZE);
    struct skep_hash expected = skep_history_of(&moments, &residual);
    assert_true(skep_hash_equal(&history.hash, &expected));
    skep_buffer_done(&bytes);
}

static void no_files_are_the_zero_hash_and_one_file_is_not(void **state)
{
    (void)state;
    struct skep_hash some = skep_hash_of("x", 1);
    struct skep_hash none = skep_history_of(NULL, NULL);
    struct skep_hash moments = skep_history_of(&some, NULL);
    struct skep_hash residual = skep_history_of(NULL, &some);
    assert_true(skep_history_is_new(&none));
    assert_false(skep_history_is_new(&moments));
    assert_false(skep_hash_equal(&moments, &residual));
}

static void a_changed_byte_another_size_and_what_is_no_number_are_refused(void **state)
{
    (void)state;
    struct skep_buffer bytes = both(1);
    struct skep_buffer endless = both(INFINITY);
    struct skep_history history = {0};
    assert_int_equal(skep_history_open(bytes.data, bytes.size - 1, COUNT, &history, NULL),
                     SKEP_ERR_FORMAT);
    assert_int_equal(skep_history_open(bytes.data, bytes.size, COUNT + 1, &history, NULL),
                     SKEP_ERR_FORMAT);
    for (size_t i = 0; i < bytes.size; i++) {
        bytes.data[i] ^= 1;
        int rc = skep_history_open(bytes.data, bytes.size, COUNT, &history, NULL);
        assert_true(rc == SKEP_ERR_FORMAT || rc == SKEP_ERR_HASH);
        bytes.data[i] ^= 1;
    }
    assert_int_equal(skep_history_open(endless.data, endless.size, COUNT, &history, NULL),
                     SKEP_ERR_FORMAT);
    assert_true(skep_history_is_new(&history.hash));
    skep_buffer_done(&bytes);
    skep_buffer_done(&endless);
}

/* The manifest's folder may not include history.h, so it has a formula of its own. */
static void a_manifest_lets_in_audits_up_to_the_largest_history_that_a_request_holds(void **state)
{
    (void)state;
    struct skep_manifest manifest = {0};
    size_t allowed = 0;
    skep_manifest_defaults(&manifest);
    manifest.name = skep_strdup("x");
    manifest.trust = (struct skep_trust_config){.audits = true};
    manifest.model.dim = 512;
    for (uint32_t hidden = 5440; hidden < 5470; hidden++) {
        manifest.model.hidden = hidden;
        uint64_t parameters = skep_model_config_shard_parameters(&manifest.model);
        bool fits = skep_history_bytes(parameters) <= SKEP_LIMIT_HTTP_BODY;
        assert_int_equal(skep_manifest_check_settings(&manifest, NULL) == SKEP_OK, fits);
        allowed += fits;
    }
    assert_int_equal(allowed, 15); /* hidden 5440 to 5454: both kinds of answer were seen */
    skep_manifest_done(&manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_history_is_read_back_and_has_the_hash_of_its_files),
        cmocka_unit_test(no_files_are_the_zero_hash_and_one_file_is_not),
        cmocka_unit_test(a_manifest_lets_in_audits_up_to_the_largest_history_that_a_request_holds),
        cmocka_unit_test(a_changed_byte_another_size_and_what_is_no_number_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
