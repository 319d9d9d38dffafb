/* Text into training and held-out chunks. */
#include <stdlib.h>
#include <string.h>

#include "client/cli/split.h"
#include "common/crypto/hash.h"
#include "tests/lib/cmocka.h"

static void every_third_line_is_held_out_and_no_byte_is_lost(void **state)
{
    (void)state;
    static const char text[] = "1\n2\n3\n4\n5\n6\n\nlast";
    struct skep_buffer train = {0};
    struct skep_buffer heldout = {0};
    skep_split_lines(text, strlen(text), 3, &train, &heldout);
    assert_int_equal(train.size, strlen("1\n2\n4\n5\n\nlast"));
    assert_memory_equal(train.data, "1\n2\n4\n5\n\nlast", train.size);
    assert_int_equal(heldout.size, 4);
    assert_memory_equal(heldout.data, "3\n6\n", 4);
    skep_buffer_done(&train);
    skep_buffer_done(&heldout);
}

static void without_holdout_all_is_trained_on(void **state)
{
    (void)state;
    struct skep_buffer train = {0};
    struct skep_buffer heldout = {0};
    skep_split_lines("a\nb\n", 4, 0, &train, &heldout);
    assert_int_equal(train.size, 4);
    assert_int_equal(heldout.size, 0);
    skep_buffer_done(&train);
}

static void chunks_are_named_by_their_bytes(void **state)
{
    (void)state;
    struct skep_buffer text = {0};
    struct skep_data_set set = {0};
    skep_buffer_append(&text, "0123456789", 10);
    assert_int_equal(skep_split_chunks(&text, 4, &set, NULL), 0);
    assert_int_equal(set.chunk_count, 3);
    assert_int_equal(set.size_bytes, 10);
    struct skep_hash last = skep_hash_of("89", 2);
    assert_true(skep_hash_equal(&last, &set.chunks[2]));
    free(set.chunks);
    skep_buffer_done(&text);
}

static void every_second_record_is_held_out_whole(void **state)
{
    (void)state;
    struct skep_buffer train = {0};
    struct skep_buffer heldout = {0};
    skep_split_records("aaabbbcccddd\n\n\n", 15, 3, 2, &train, &heldout);
    assert_int_equal(train.size, 9);
    assert_memory_equal(train.data, "aaaccc\n\n\n", 9);
    assert_int_equal(heldout.size, 6);
    assert_memory_equal(heldout.data, "bbbddd", 6);
    skep_buffer_done(&train);
    skep_buffer_done(&heldout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_third_line_is_held_out_and_no_byte_is_lost),
        cmocka_unit_test(without_holdout_all_is_trained_on),
        cmocka_unit_test(every_second_record_is_held_out_whole),
        cmocka_unit_test(chunks_are_named_by_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
