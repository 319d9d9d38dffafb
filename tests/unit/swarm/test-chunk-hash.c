/* Chunk lists: names of chunks and the root hash, against values from another SHA-256 (Python's hashlib). */
#include <string.h>

#include "common/base/bytes.h"
#include "common/crypto/hash.h"
#include "common/swarm/chunk-hash.h"
#include "tests/lib/cmocka.h"

static void assert_root(const struct skep_chunks *chunks, const char *expected)
{
    struct skep_hash root = skep_chunks_root(chunks);
    assert_string_equal(skep_id_text(root.bytes), expected);
}

static void a_file_is_cut_into_chunks_of_which_the_last_is_shorter(void **state)
{
    (void)state;
    struct skep_chunks chunks;
    skep_chunks_of("0123456789", 10, 4, &chunks);
    assert_int_equal(chunks.count, 3);
    assert_int_equal(skep_chunk_offset(&chunks, 2), 8);
    assert_int_equal(skep_chunk_size(&chunks, 1), 4);
    assert_int_equal(skep_chunk_size(&chunks, 2), 2);
    struct skep_hash last = skep_hash_of("89", 2);
    assert_true(skep_hash_equal(&chunks.hashes[2], &last));
    assert_root(&chunks, "1850b70d327379a99c6a958e7925b4c9988f4cc854e001848ef655868e21aa44");
    skep_chunks_done(&chunks);
}

static void an_empty_file_has_no_chunks_and_a_root(void **state)
{
    (void)state;
    struct skep_chunks chunks;
    skep_chunks_of("", 0, 4, &chunks);
    assert_int_equal(chunks.count, 0);
    assert_root(&chunks, "b389a6884b289d4b53e9b36853b9a933c640fa7a5abe584f859a56c6768c01ba");
    skep_chunks_done(&chunks);
}

static void the_root_depends_on_size_chunk_size_and_every_chunk(void **state)
{
    (void)state;
    struct skep_chunks chunks;
    skep_chunks_of("0123456789", 10, 4, &chunks);
    struct skep_hash root = skep_chunks_root(&chunks);
    for (int change = 0; change < 3; change++) {
        struct skep_chunks other;
        skep_chunks_of("0123456789", 10, 4, &other);
        other.size_bytes -= change == 0;
        other.chunk_bytes += change == 1;
        other.hashes[2].bytes[31] ^= change == 2;
        struct skep_hash other_root = skep_chunks_root(&other);
        assert_false(skep_hash_equal(&root, &other_root));
        skep_chunks_done(&other);
    }
    skep_chunks_done(&chunks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_cut_into_chunks_of_which_the_last_is_shorter),
        cmocka_unit_test(an_empty_file_has_no_chunks_and_a_root),
        cmocka_unit_test(the_root_depends_on_size_chunk_size_and_every_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
