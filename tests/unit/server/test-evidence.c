/* Histories that donors showed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/crypto/hash.h"
#include "common/swarm/history.h"
#include "common/sys/file.h"
#include "server/audit-job.h"
#include "server/evidence.h"
#include "tests/lib/cmocka.h"

#define COUNT 3u
#define BYTES (12u * COUNT + 112u)

struct fixture {
    char folder[64];
    struct skep_evidence *evidence;
    struct skep_hash wanted;
    struct skep_hash on_probation[2];
};

static enum skep_evidence_want who_wants(void *user, const struct skep_hash *history)
{
    const struct fixture *fixture = user;
    bool on_probation = skep_hash_equal(history, &fixture->on_probation[0]) ||
                        skep_hash_equal(history, &fixture->on_probation[1]);
    return skep_hash_equal(history, &fixture->wanted) ? SKEP_EVIDENCE_WANTED
           : on_probation                             ? SKEP_EVIDENCE_PROBATION
                                                      : SKEP_EVIDENCE_UNWANTED;
}

static void reopen(struct fixture *fixture)
{
    skep_evidence_close(fixture->evidence);
    fixture->evidence = NULL;
    assert_int_equal(skep_evidence_open(fixture->folder, (uint64_t)2 * BYTES, who_wants, fixture,
                                        &fixture->evidence, NULL),
                     SKEP_OK);
}

static int set_up(void **state)
{
    struct fixture *fixture = skep_alloc(1, sizeof *fixture);
    strcpy(fixture->folder, "/tmp/skep-evidence-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    reopen(fixture);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    skep_evidence_close(fixture->evidence);
    skep_folder_remove(fixture->folder, NULL);
    free(fixture);
    return 0;
}

static void put_flat(struct skep_buffer *to, uint32_t arrays, uint8_t number)
{
    size_t begin = to->size;
    skep_buffer_append(to, SKEP_FLAT_MARK, 4);
    skep_buffer_append_u32(to, arrays);
    skep_buffer_append_u64(to, number);
    skep_buffer_append_u64(to, COUNT);
    for (uint32_t i = 0; i < arrays * COUNT; i++) {
        skep_buffer_append_u32(to, 0);
    }
    struct skep_hash hash = skep_hash_of(to->data + begin, to->size - begin);
    skep_buffer_append(to, hash.bytes, sizeof hash.bytes);
}

static struct skep_hash name_of(uint8_t number)
{
    struct skep_buffer bytes = {0};
    struct skep_history history;
    put_flat(&bytes, SKEP_MOMENT_ARRAYS, number);
    put_flat(&bytes, SKEP_RESIDUAL_ARRAYS, 0);
    assert_int_equal(skep_history_open(bytes.data, bytes.size, COUNT, &history, NULL), SKEP_OK);
    skep_buffer_done(&bytes);
    return history.hash;
}

/* Puts history number `number` and says what its name is. */
static int put(struct fixture *fixture, uint8_t number, struct skep_hash *ret_hash)
{
    struct skep_buffer bytes = {0};
    struct skep_history history;
    put_flat(&bytes, SKEP_MOMENT_ARRAYS, number);
    put_flat(&bytes, SKEP_RESIDUAL_ARRAYS, 0);
    assert_int_equal(skep_history_open(bytes.data, bytes.size, COUNT, &history, NULL), SKEP_OK);
    *ret_hash = history.hash;
    int result =
        skep_evidence_put(fixture->evidence, ret_hash, COUNT, bytes.data, bytes.size, NULL);
    skep_buffer_done(&bytes);
    return result;
}

static void a_history_comes_back_also_after_a_restart(void **state)
{
    struct fixture *fixture = *state;
    struct skep_buffer bytes = {0};
    struct skep_hash hash;
    assert_int_equal(put(fixture, 1, &hash), SKEP_OK);
    assert_int_equal(put(fixture, 1, &hash), SKEP_OK);
    reopen(fixture);
    assert_int_equal(skep_evidence_bytes(fixture->evidence), BYTES);
    assert_true(skep_evidence_has(fixture->evidence, &hash));
    assert_int_equal(skep_evidence_get(fixture->evidence, &hash, &bytes, NULL), SKEP_OK);
    assert_int_equal(bytes.size, BYTES);
    skep_buffer_done(&bytes);
}

static void another_history_than_the_one_asked_for_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct skep_buffer bytes = {0};
    struct skep_hash other = {{7}};
    put_flat(&bytes, SKEP_MOMENT_ARRAYS, 1);
    put_flat(&bytes, SKEP_RESIDUAL_ARRAYS, 0);
    assert_int_equal(
        skep_evidence_put(fixture->evidence, &other, COUNT, bytes.data, bytes.size, NULL),
        SKEP_ERR_HASH);
    assert_int_equal(skep_evidence_put(fixture->evidence, &other, COUNT, "x", 1, NULL),
                     SKEP_ERR_FORMAT);
    assert_int_equal(skep_evidence_bytes(fixture->evidence), 0);
    skep_buffer_done(&bytes);
}

static void what_was_not_used_for_longest_makes_room_unless_it_is_wanted(void **state)
{
    struct fixture *fixture = *state;
    struct skep_hash hashes[4];
    struct skep_buffer bytes = {0};
    assert_int_equal(put(fixture, 1, &hashes[0]), SKEP_OK);
    assert_int_equal(put(fixture, 2, &hashes[1]), SKEP_OK);
    assert_int_equal(skep_evidence_get(fixture->evidence, &hashes[0], &bytes, NULL), SKEP_OK);
    skep_buffer_done(&bytes);
    assert_int_equal(put(fixture, 3, &hashes[2]), SKEP_OK);
    assert_true(skep_evidence_has(fixture->evidence, &hashes[0]));
    assert_false(skep_evidence_has(fixture->evidence, &hashes[1]));
    fixture->wanted = hashes[0];
    assert_int_equal(put(fixture, 4, &hashes[3]), SKEP_OK);
    assert_true(skep_evidence_has(fixture->evidence, &hashes[0]));
    assert_false(skep_evidence_has(fixture->evidence, &hashes[2]));
}

static void what_newcomers_show_takes_half_of_the_room_and_no_more(void **state)
{
    struct fixture *fixture = *state;
    struct skep_hash hashes[4];
    fixture->on_probation[0] = name_of(1);
    fixture->on_probation[1] = name_of(2);
    fixture->wanted = name_of(3);
    assert_int_equal(put(fixture, 1, &hashes[0]), SKEP_OK);
    assert_int_equal(put(fixture, 2, &hashes[1]), SKEP_ERR_FULL);
    assert_int_equal(put(fixture, 3, &hashes[2]), SKEP_OK);
    assert_int_equal(put(fixture, 2, &hashes[1]), SKEP_ERR_FULL);
    /* nor if they want what lies here already */
    fixture->on_probation[1] = hashes[2];
    fixture->wanted = name_of(4);
    assert_int_equal(put(fixture, 4, &hashes[3]), SKEP_OK);
    assert_false(skep_evidence_has(fixture->evidence, &hashes[0])); /* not used for longest */
    assert_true(skep_evidence_has(fixture->evidence, &hashes[2]));
    fixture->wanted = name_of(5);
    assert_int_equal(put(fixture, 5, &hashes[0]), SKEP_OK); /* instead of 4 */
    assert_true(skep_evidence_has(fixture->evidence, &hashes[2]));
    /* but half of it is theirs */
    assert_int_equal(put(fixture, 6, &hashes[1]), SKEP_ERR_FULL);
}

static void a_file_that_is_gone_is_said_so_and_asked_for_again(void **state)
{
    struct fixture *fixture = *state;
    struct skep_hash hash;
    struct skep_buffer bytes = {0};
    assert_int_equal(put(fixture, 1, &hash), SKEP_OK);
    char *path = skep_format("%s/%s", fixture->folder, skep_id_text(hash.bytes));
    assert_int_equal(remove(path), 0);
    free(path);
    assert_int_equal(skep_evidence_get(fixture->evidence, &hash, &bytes, NULL), SKEP_ERR_NOT_FOUND);
    assert_false(skep_evidence_has(fixture->evidence, &hash));
    assert_int_equal(skep_evidence_bytes(fixture->evidence), 0);
}

static void a_file_that_the_disk_has_changed_is_not_taken_for_what_was_shown(void **state)
{
    struct fixture *fixture = *state;
    struct skep_hash hash;
    struct skep_buffer bytes = {0};
    assert_int_equal(put(fixture, 1, &hash), SKEP_OK);
    assert_int_equal(skep_evidence_size(fixture->evidence, &hash), BYTES);
    char *path = skep_format("%s/%s", fixture->folder, skep_id_text(hash.bytes));
    assert_int_equal(skep_file_write_quick(path, 0600, "less", 4, NULL), SKEP_OK);
    free(path);
    assert_int_equal(skep_evidence_get(fixture->evidence, &hash, &bytes, NULL), SKEP_ERR_HASH);
    assert_int_equal(bytes.size, 0);
    assert_false(skep_evidence_has(fixture->evidence, &hash));
}

static void a_donor_is_silent_only_where_it_did_not_show_what_it_was_asked_for(void **state)
{
    struct fixture *fixture = *state;
    struct skep_audit_update update = {.before = {{9}}};
    struct skep_audit_load load = {.update_count = 1, .updates = &update, .pinned = true};
    assert_true(skep_audit_load_is_silent(&load, fixture->evidence));
    load.crowded = true; /* it did */
    assert_false(skep_audit_load_is_silent(&load, fixture->evidence));
    load.crowded = false;
    load.resumed = true; /* nobody was there to be shown anything */
    assert_false(skep_audit_load_is_silent(&load, fixture->evidence));
    load.resumed = false;
    assert_int_equal(put(fixture, 1, &update.before), SKEP_OK);
    assert_false(skep_audit_load_is_silent(&load, fixture->evidence));
    load.pinned = false; /* the trunk's list names what is not here, or never came */
    assert_true(skep_audit_load_is_silent(&load, fixture->evidence));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_history_comes_back_also_after_a_restart, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(another_history_than_the_one_asked_for_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            what_was_not_used_for_longest_makes_room_unless_it_is_wanted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_newcomers_show_takes_half_of_the_room_and_no_more,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_is_gone_is_said_so_and_asked_for_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_file_that_the_disk_has_changed_is_not_taken_for_what_was_shown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_donor_is_silent_only_where_it_did_not_show_what_it_was_asked_for, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
