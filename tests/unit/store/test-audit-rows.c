/* Rows of audits: open until they have a verdict, found again after a restart. */
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/store/keeper-audits.h"
#include "common/sys/file.h"
#include "tests/lib/cmocka.h"

static const struct skep_project_id PROJECT = {{1}};
static const struct skep_peer_id DONOR = {{2}};
static const struct skep_peer_id OTHER = {{3}};
static const struct skep_shard TRUNK = {.kind = SKEP_SHARD_TRUNK};

struct fixture {
    char folder[64];
    char *path;
    struct skep_keeper_db *db;
};

static int set_up(void **state)
{
    struct fixture *fixture = skep_alloc(1, sizeof *fixture);
    strcpy(fixture->folder, "/tmp/skep-db-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    fixture->path = skep_format("%s/keeper.db", fixture->folder);
    assert_int_equal(skep_keeper_db_open(fixture->path, &fixture->db, NULL), SKEP_OK);
    assert_int_equal(skep_keeper_db_add_project(fixture->db, &PROJECT, "{manifest}", NULL),
                     SKEP_OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    skep_keeper_db_close(fixture->db);
    skep_folder_remove(fixture->folder, NULL);
    free(fixture->path);
    free(fixture);
    return 0;
}

static struct skep_audit_row row_of(uint8_t number, const struct skep_peer_id *donor)
{
    return (struct skep_audit_row){.update = {{number}},
                                   .shard = TRUNK,
                                   .donor = *donor,
                                   .ticket = {{4}},
                                   .base_version = number,
                                   .before = {{5}},
                                   .after = {{number, 6}},
                                   .came_s = 1000 + number};
}

static void add(const struct fixture *fixture, uint8_t number, const struct skep_peer_id *donor)
{
    struct skep_audit_row row = row_of(number, donor);
    assert_int_equal(skep_keeper_db_add_audit(fixture->db, &PROJECT, &row, NULL), SKEP_OK);
}

static bool judge(const struct fixture *fixture, uint8_t number, enum skep_audit_verdict verdict)
{
    bool changed = true;
    struct skep_audit_row row = {
        .update = {{number}}, .verdict = verdict, .distance = 0.25, .overlap = 0.5, .seconds = 1.5};
    assert_int_equal(skep_keeper_db_set_verdict(fixture->db, &PROJECT, &row, &changed, NULL),
                     SKEP_OK);
    return changed;
}

struct seen {
    uint8_t numbers[8];
    size_t count;
};

static int see(void *user, const struct skep_audit_row *row)
{
    struct seen *seen = user;
    assert_true(seen->count < sizeof seen->numbers);
    seen->numbers[seen->count++] = row->update.bytes[0];
    return SKEP_OK;
}

static void what_is_open_is_found_again_in_the_order_in_which_it_came(void **state)
{
    struct fixture *fixture = *state;
    struct seen seen = {.count = 0};
    add(fixture, 3, &DONOR);
    add(fixture, 1, &DONOR);
    add(fixture, 2, &OTHER);
    judge(fixture, 1, SKEP_AUDIT_VALID);
    add(fixture, 1, &DONOR); /* the same again does not open it */
    skep_keeper_db_close(fixture->db);
    assert_int_equal(skep_keeper_db_open(fixture->path, &fixture->db, NULL), SKEP_OK);
    assert_int_equal(skep_keeper_db_open_audits(fixture->db, &PROJECT, see, &seen, NULL), SKEP_OK);
    assert_int_equal(seen.count, 2);
    assert_true(seen.numbers[0] == 2 && seen.numbers[1] == 3);
}

static void a_removed_row_has_never_been(void **state)
{
    struct fixture *fixture = *state;
    struct seen seen = {.count = 0};
    struct skep_hash update = {{1}};
    add(fixture, 1, &DONOR);
    add(fixture, 2, &DONOR);
    judge(fixture, 1, SKEP_AUDIT_UNANSWERED);
    assert_int_equal(skep_keeper_db_remove_audit(fixture->db, &PROJECT, &update, NULL), SKEP_OK);
    add(fixture, 1, &DONOR);
    assert_int_equal(skep_keeper_db_open_audits(fixture->db, &PROJECT, see, &seen, NULL), SKEP_OK);
    assert_int_equal(seen.count, 2);
    assert_true(seen.numbers[0] == 1 && seen.numbers[1] == 2);
}

static void whatever_may_change_a_row_is_counted(void **state)
{
    const struct fixture *fixture = *state;
    struct skep_audit_row row;
    uint64_t changes[5];
    add(fixture, 1, &DONOR);
    changes[0] = skep_keeper_db_audit_changes(fixture->db);
    add(fixture, 2, &DONOR);
    changes[1] = skep_keeper_db_audit_changes(fixture->db);
    judge(fixture, 1, SKEP_AUDIT_UNANSWERED);
    changes[2] = skep_keeper_db_audit_changes(fixture->db);
    assert_int_equal(
        skep_keeper_db_remove_audit(fixture->db, &PROJECT, &(struct skep_hash){{2}}, NULL),
        SKEP_OK);
    changes[3] = skep_keeper_db_audit_changes(fixture->db);
    assert_int_equal(skep_keeper_db_drop_audits(fixture->db, &PROJECT, &TRUNK, 9999, NULL),
                     SKEP_OK);
    changes[4] = skep_keeper_db_audit_changes(fixture->db);
    for (size_t i = 1; i < 5; i++) {
        assert_true(changes[i] > changes[i - 1]);
    }
    assert_int_equal(
        skep_keeper_db_get_audit(fixture->db, &PROJECT, &(struct skep_hash){{1}}, &row, NULL),
        SKEP_ERR_NOT_FOUND);
    assert_int_equal(skep_keeper_db_audit_changes(fixture->db), changes[4]);
}

static void a_row_comes_back_whole(void **state)
{
    struct fixture *fixture = *state;
    struct skep_audit_row row;
    struct skep_hash update = {{7}};
    add(fixture, 7, &DONOR);
    judge(fixture, 7, SKEP_AUDIT_UNANSWERED);
    assert_int_equal(skep_keeper_db_get_audit(fixture->db, &PROJECT, &update, &row, NULL), SKEP_OK);
    struct skep_audit_row made = row_of(7, &DONOR);
    assert_true(skep_shard_equal(&row.shard, &TRUNK) && skep_peer_id_equal(&row.donor, &DONOR));
    assert_true(skep_hash_equal(&row.ticket, &made.ticket));
    assert_true(skep_hash_equal(&row.before, &made.before));
    assert_true(skep_hash_equal(&row.after, &made.after));
    assert_true(row.base_version == 7 && row.came_s == 1007);
    assert_true(row.distance == 0.25 && row.overlap == 0.5 && row.seconds == 1.5);
    assert_int_equal(row.verdict, SKEP_AUDIT_UNANSWERED);
    update.bytes[0] = 8;
    assert_int_equal(skep_keeper_db_get_audit(fixture->db, &PROJECT, &update, &row, NULL),
                     SKEP_ERR_NOT_FOUND);
}

static void
silence_about_a_part_that_came_late_is_said_of_what_had_its_verdict_but_undoes_no_ban(void **state)
{
    static const enum skep_audit_verdict first[] = {SKEP_AUDIT_VALID, SKEP_AUDIT_NOT_DRAWN,
                                                    SKEP_AUDIT_INVALID};
    struct fixture *fixture = *state;
    for (uint8_t i = 0; i < 3; i++) {
        struct skep_hash update = {{i}};
        struct skep_audit_row row;
        add(fixture, i, &DONOR);
        assert_true(judge(fixture, i, first[i]));
        assert_false(judge(fixture, i, first[i]));
        assert_false(judge(fixture, i, i == 1 ? SKEP_AUDIT_VALID : SKEP_AUDIT_NOT_DRAWN));
        assert_int_equal(skep_keeper_db_get_audit(fixture->db, &PROJECT, &update, &row, NULL),
                         SKEP_OK);
        assert_int_equal(row.verdict, first[i]);
        assert_int_equal(judge(fixture, i, SKEP_AUDIT_UNANSWERED), i != 2);
        assert_int_equal(skep_keeper_db_get_audit(fixture->db, &PROJECT, &update, &row, NULL),
                         SKEP_OK);
        assert_int_equal(row.verdict, i == 2 ? SKEP_AUDIT_INVALID : SKEP_AUDIT_UNANSWERED);
        assert_false(judge(fixture, i, SKEP_AUDIT_UNANSWERED_AGAIN)); /* which is less */
        assert_int_equal(skep_keeper_db_get_audit(fixture->db, &PROJECT, &update, &row, NULL),
                         SKEP_OK);
        assert_int_equal(row.verdict, i == 2 ? SKEP_AUDIT_INVALID : SKEP_AUDIT_UNANSWERED);
    }
}

static void who_was_caught_stays_caught_when_old_rows_are_forgotten(void **state)
{
    struct fixture *fixture = *state;
    uint64_t counts[SKEP_AUDIT_VERDICTS] = {0};
    add(fixture, 1, &DONOR);
    add(fixture, 2, &OTHER);
    add(fixture, 3, &OTHER);
    assert_false(skep_keeper_db_caught(fixture->db, &PROJECT, &DONOR));
    judge(fixture, 1, SKEP_AUDIT_INVALID);
    judge(fixture, 2, SKEP_AUDIT_VALID);
    assert_int_equal(skep_keeper_db_drop_audits(fixture->db, &PROJECT, &TRUNK, 5000, NULL),
                     SKEP_OK);
    assert_true(skep_keeper_db_caught(fixture->db, &PROJECT, &DONOR));
    assert_false(skep_keeper_db_caught(fixture->db, &PROJECT, &OTHER));
    assert_int_equal(skep_keeper_db_count_audits(fixture->db, &PROJECT, counts, NULL), SKEP_OK);
    assert_int_equal(counts[SKEP_AUDIT_OPEN], 1);
    assert_int_equal(counts[SKEP_AUDIT_VALID], 0);
    assert_int_equal(counts[SKEP_AUDIT_INVALID], 1);
}

/* Adds a row and judges it. */
static void add_judged(const struct fixture *fixture, uint8_t number, struct skep_shard shard,
                       enum skep_audit_verdict verdict)
{
    struct skep_audit_row row = row_of(number, &DONOR);
    row.shard = shard;
    assert_int_equal(skep_keeper_db_add_audit(fixture->db, &PROJECT, &row, NULL), SKEP_OK);
    judge(fixture, number, verdict);
}

static void expect_counts(const struct fixture *fixture, const uint64_t expected[])
{
    uint64_t counts[SKEP_AUDIT_VERDICTS] = {0};
    assert_int_equal(skep_keeper_db_count_audits(fixture->db, &PROJECT, counts, NULL), SKEP_OK);
    for (size_t i = 0; i < SKEP_AUDIT_VERDICTS; i++) {
        assert_int_equal(counts[i], expected[i]);
    }
}

/* Open, valid, invalid, unanswered, not drawn, unanswered again. */
static void rows_go_when_neither_a_seal_nor_the_donors_debts_need_them(void **state)
{
    struct fixture *fixture = *state;
    const struct skep_shard expert = {SKEP_SHARD_FFN, 0, 0, 1};
    for (uint8_t i = 0; i < SKEP_AUDIT_VERDICTS; i++) {
        add_judged(fixture, (uint8_t)(10 + i), TRUNK, (enum skep_audit_verdict)i);
        add_judged(fixture, (uint8_t)(20 + i), expert, (enum skep_audit_verdict)i);
    }
    uint64_t head = 24 + SKEP_AUDIT_KEPT_VERSIONS;
    assert_int_equal(skep_keeper_db_drop_audits(fixture->db, &PROJECT, &expert, head - 5, NULL),
                     SKEP_OK);
    expect_counts(fixture, (const uint64_t[]){2, 2, 2, 2, 2, 2});
    assert_int_equal(skep_keeper_db_drop_audits(fixture->db, &PROJECT, &expert, head, NULL),
                     SKEP_OK);
    expect_counts(fixture, (const uint64_t[]){2, 1, 2, 1, 2, 2});
    assert_int_equal(skep_keeper_db_drop_audits(fixture->db, &PROJECT, &TRUNK, head, NULL),
                     SKEP_OK);
    expect_counts(fixture, (const uint64_t[]){2, 1, 2, 1, 1, 1});
    head = 20 + SKEP_AUDIT_KEPT_ANSWERS;
    assert_int_equal(skep_keeper_db_drop_audits(fixture->db, &PROJECT, &TRUNK, head, NULL),
                     SKEP_OK);
    expect_counts(fixture, (const uint64_t[]){2, 0, 2, 0, 1, 1});
}

static void an_invalid_row_goes_once_a_seal_bans_its_donor(void **state)
{
    struct fixture *fixture = *state;
    struct skep_reputation banned = {.donor = DONOR, .banned = true, .banned_at = 1};
    struct skep_version_row version = {.version = 1, .reputation = &banned, .reputation_count = 1};
    add_judged(fixture, 1, TRUNK, SKEP_AUDIT_INVALID);
    assert_int_equal(skep_keeper_db_drop_audits(fixture->db, &PROJECT, &TRUNK, 5000, NULL),
                     SKEP_OK);
    assert_true(skep_keeper_db_caught(fixture->db, &PROJECT, &DONOR));
    assert_int_equal(
        skep_keeper_db_add_version(fixture->db, &PROJECT, &TRUNK, &version, NULL, 0, NULL),
        SKEP_OK);
    assert_int_equal(skep_keeper_db_drop_audits(fixture->db, &PROJECT, &TRUNK, 5000, NULL),
                     SKEP_OK);
    assert_false(skep_keeper_db_caught(fixture->db, &PROJECT, &DONOR));
}

static void a_donors_last_updates_are_listed_newest_base_first(void **state)
{
    struct fixture *fixture = *state;
    struct seen seen = {.count = 0};
    add(fixture, 1, &DONOR);
    add(fixture, 3, &DONOR);
    add(fixture, 2, &DONOR);
    add(fixture, 4, &OTHER);
    assert_int_equal(
        skep_keeper_db_donor_audits(fixture->db, &PROJECT, &DONOR, &TRUNK, 2, see, &seen, NULL),
        SKEP_OK);
    assert_int_equal(seen.count, 2);
    assert_true(seen.numbers[0] == 3 && seen.numbers[1] == 2);
}

#define WITH_KEEPER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_KEEPER(what_is_open_is_found_again_in_the_order_in_which_it_came),
        WITH_KEEPER(a_removed_row_has_never_been),
        WITH_KEEPER(whatever_may_change_a_row_is_counted),
        WITH_KEEPER(a_row_comes_back_whole),
        WITH_KEEPER(
            silence_about_a_part_that_came_late_is_said_of_what_had_its_verdict_but_undoes_no_ban),
        WITH_KEEPER(who_was_caught_stays_caught_when_old_rows_are_forgotten),
        WITH_KEEPER(rows_go_when_neither_a_seal_nor_the_donors_debts_need_them),
        WITH_KEEPER(an_invalid_row_goes_once_a_seal_bans_its_donor),
        WITH_KEEPER(a_donors_last_updates_are_listed_newest_base_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
