/* What keeper and donor must not forget: through restarts, kill -9 and full disks. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "common/store/donor-db.h"
#include "common/store/keeper-db.h"
#include "common/sys/file.h"
#include "tests/lib/cmocka.h"

static const struct skep_shard TRUNK = {.kind = SKEP_SHARD_TRUNK};
static const struct skep_shard EXPERT = {.kind = SKEP_SHARD_FFN, .layer = 1, .row = 2, .column = 3};
static const struct skep_project_id PROJECT = {{1}};
static const struct skep_peer_id DONOR = {{2}};
static const struct skep_peer_id OTHER = {{3}};

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

static void reopen(struct fixture *fixture)
{
    skep_keeper_db_close(fixture->db);
    fixture->db = NULL;
    assert_int_equal(skep_keeper_db_open(fixture->path, &fixture->db, NULL), SKEP_OK);
}

static struct skep_hash hash_of(uint8_t number)
{
    return (struct skep_hash){{number}};
}

static int add_version(struct skep_keeper_db *db, uint64_t version, const char *seal,
                       const struct skep_receipt_row *receipts, size_t count)
{
    struct skep_version_row row = {.version = version,
                                   .payload_hash = hash_of((uint8_t)(100 + version)),
                                   .root = hash_of((uint8_t)(150 + version)),
                                   .state = hash_of((uint8_t)(200 + version)),
                                   .seal = seal};
    return skep_keeper_db_add_version(db, &PROJECT, &TRUNK, &row, receipts, count, NULL);
}

static int count_each(void *user, const struct skep_hash *update, const struct skep_peer_id *donor,
                      uint64_t base_version)
{
    (void)update;
    (void)donor;
    (void)base_version;
    ++*(int *)user;
    return SKEP_OK;
}

static int waiting(struct skep_keeper_db *db)
{
    int count = 0;
    assert_int_equal(skep_keeper_db_each_update(db, &PROJECT, &TRUNK, count_each, &count, NULL),
                     SKEP_OK);
    return count;
}

static int add_update(struct skep_keeper_db *db, uint8_t number, const struct skep_peer_id *donor,
                      uint64_t base)
{
    struct skep_hash hash = hash_of(number);
    return skep_keeper_db_add_update(db, &PROJECT, &TRUNK, &hash, donor, base, NULL);
}

static void a_project_has_one_manifest(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(skep_keeper_db_add_project(fixture->db, &PROJECT, "{manifest}", NULL),
                     SKEP_OK);
    struct skep_error err = {0};
    assert_int_equal(skep_keeper_db_add_project(fixture->db, &PROJECT, "{other}", &err),
                     SKEP_ERR_DUPLICATE);
    assert_non_null(strstr(err.text, "another manifest"));
}

static int mark_each(void *user, const struct skep_hash *update, const struct skep_peer_id *donor,
                     uint64_t base_version)
{
    bool *found = user;
    assert_true(update->bytes[0] < 8);
    assert_true(skep_peer_id_equal(donor, update->bytes[0] == 4 ? &OTHER : &DONOR));
    assert_int_equal(base_version, update->bytes[0] == 3);
    found[update->bytes[0]] = true;
    return SKEP_OK;
}

static void find_waiting(struct skep_keeper_db *db, bool found[8])
{
    memset(found, 0, 8 * sizeof *found);
    assert_int_equal(skep_keeper_db_each_update(db, &PROJECT, &TRUNK, mark_each, found, NULL),
                     SKEP_OK);
}

static void rivals_wait_side_by_side_until_a_version_merges_one(void **state)
{
    struct fixture *fixture = *state;
    bool found[8];
    assert_int_equal(add_version(fixture->db, 0, NULL, NULL, 0), SKEP_OK);
    assert_int_equal(add_update(fixture->db, 1, &DONOR, 0), SKEP_OK);
    assert_int_equal(add_update(fixture->db, 1, &DONOR, 0), SKEP_OK); /* the same file again */
    assert_int_equal(add_update(fixture->db, 2, &DONOR, 0), SKEP_OK);
    assert_int_equal(add_update(fixture->db, 3, &DONOR, 1), SKEP_OK); /* no rival of those */
    assert_int_equal(add_update(fixture->db, 4, &OTHER, 0), SKEP_OK);
    assert_int_equal(waiting(fixture->db), 4);
    find_waiting(fixture->db, found);
    assert_true(found[1] && found[2] && found[3] && found[4]);
    struct skep_receipt_row receipt = {hash_of(2), DONOR, 0, 77, true, false, 250};
    assert_int_equal(add_version(fixture->db, 1, "{seal}", &receipt, 1), SKEP_OK);
    find_waiting(fixture->db, found);
    assert_true(!found[1] && !found[2] && found[3] && found[4]);
}

static void a_version_takes_its_updates_and_what_is_too_old(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(add_version(fixture->db, 0, NULL, NULL, 0), SKEP_OK);
    assert_int_equal(add_update(fixture->db, 1, &DONOR, 0), SKEP_OK);
    assert_int_equal(add_update(fixture->db, 2, &OTHER, 0), SKEP_OK);
    assert_int_equal(
        skep_keeper_db_put_vote(fixture->db, &PROJECT, &TRUNK, 1, 2, true, 1, "pay", 3, NULL),
        SKEP_OK);
    struct skep_receipt_row receipt = {hash_of(1), DONOR, 0, 77, true, false, 250};
    assert_int_equal(add_version(fixture->db, 1, "{seal}", &receipt, 1), SKEP_OK);
    assert_int_equal(waiting(fixture->db), 1);
    uint32_t promised;
    uint32_t attempt;
    bool voted;
    struct skep_buffer payload = {0};
    assert_int_equal(skep_keeper_db_get_vote(fixture->db, &PROJECT, &TRUNK, 1, &promised, &voted,
                                             &attempt, &payload, NULL),
                     SKEP_ERR_NOT_FOUND);
    assert_int_equal(add_version(fixture->db, 2, "{seal}", NULL, 0), SKEP_OK);
    assert_int_equal(waiting(fixture->db), 1);
    assert_int_equal(add_version(fixture->db, 3, "{seal}", NULL, 0), SKEP_OK);
    assert_int_equal(waiting(fixture->db), 0); /* base 0 cannot be merged into 4 */
}

static void check_version(struct skep_keeper_db *db, const char *seal, uint8_t state)
{
    struct skep_version_row row = {0};
    assert_int_equal(skep_keeper_db_get_version(db, &PROJECT, &TRUNK, 1, &row, NULL), SKEP_OK);
    if (seal == NULL) {
        assert_null(row.seal);
    } else {
        assert_string_equal(row.seal, seal);
    }
    assert_int_equal(row.state.bytes[0], state);
    free((char *)row.seal);
}

static void a_version_stored_again_gets_what_its_row_lacks_and_loses_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct skep_version_row only_seal = {.version = 1, .seal = "{seal}"};
    struct skep_version_row only_state = {.version = 1, .state = hash_of(9)};
    assert_int_equal(add_version(fixture->db, 1, NULL, NULL, 0), SKEP_OK);
    check_version(fixture->db, NULL, 201);
    assert_int_equal(
        skep_keeper_db_add_version(fixture->db, &PROJECT, &TRUNK, &only_seal, NULL, 0, NULL),
        SKEP_OK);
    check_version(fixture->db, "{seal}", 201);
    assert_int_equal(
        skep_keeper_db_add_version(fixture->db, &PROJECT, &TRUNK, &only_state, NULL, 0, NULL),
        SKEP_OK);
    check_version(fixture->db, "{seal}", 9);
    assert_int_equal(add_version(fixture->db, 1, "{other}", NULL, 0), SKEP_OK);
    check_version(fixture->db, "{other}", 201);
}

static void versions_receipts_and_votes_survive_a_restart(void **state)
{
    struct fixture *fixture = *state;
    struct skep_receipt_row receipts[] = {{hash_of(2), OTHER, 0, 0, false, true, -30},
                                          {hash_of(1), DONOR, 0, 77, true, false, 250}};
    assert_int_equal(add_version(fixture->db, 0, NULL, NULL, 0), SKEP_OK);
    assert_int_equal(add_version(fixture->db, 1, "{seal}", receipts, 2), SKEP_OK);
    assert_int_equal(
        skep_keeper_db_put_vote(fixture->db, &PROJECT, &TRUNK, 2, 3, true, 2, "pay", 3, NULL),
        SKEP_OK);
    reopen(fixture);
    struct skep_version_row row = {0};
    assert_int_equal(
        skep_keeper_db_get_version(fixture->db, &PROJECT, &TRUNK, UINT64_MAX, &row, NULL), SKEP_OK);
    assert_int_equal(row.version, 1);
    assert_string_equal(row.seal, "{seal}");
    free((char *)row.seal);
    assert_int_equal(skep_keeper_db_get_version(fixture->db, &PROJECT, &TRUNK, 0, &row, NULL),
                     SKEP_OK);
    assert_null(row.seal);
    assert_int_equal(skep_keeper_db_get_version(fixture->db, &PROJECT, &EXPERT, 0, &row, NULL),
                     SKEP_ERR_NOT_FOUND);
    struct skep_receipt_row *found = NULL;
    size_t count = 0;
    assert_int_equal(
        skep_keeper_db_get_receipts(fixture->db, &PROJECT, &TRUNK, 1, &found, &count, NULL),
        SKEP_OK);
    assert_int_equal(count, 2);
    assert_int_equal(found[0].credit_micro, 77); /* in order of the hash */
    assert_true(found[0].merged && !found[0].copy);
    assert_int_equal(found[0].agreement_permille, 250);
    assert_true(!found[1].merged && found[1].copy);
    assert_int_equal(found[1].agreement_permille, -30);
    free(found);
    uint32_t promised = 0;
    uint32_t attempt = 0;
    bool voted = false;
    struct skep_buffer payload = {0};
    assert_int_equal(skep_keeper_db_get_vote(fixture->db, &PROJECT, &TRUNK, 2, &promised, &voted,
                                             &attempt, &payload, NULL),
                     SKEP_OK);
    assert_true(voted && promised == 3 && attempt == 2 && payload.size == 3);
    skep_buffer_done(&payload);
}

static int remember_seal(void *user, int64_t rowid, const char *seal)
{
    assert_string_equal(seal, "{seal}");
    *(int64_t *)user = rowid;
    return SKEP_OK;
}

static void a_donor_finds_its_seals_from_where_it_left_off(void **state)
{
    struct fixture *fixture = *state;
    struct skep_receipt_row mine = {hash_of(1), DONOR, 0, 70, true, false, 0};
    struct skep_receipt_row theirs = {hash_of(2), OTHER, 1, 0, false, false, -200};
    struct skep_receipt_row more = {hash_of(3), DONOR, 2, 7, true, false, 0};
    assert_int_equal(add_version(fixture->db, 1, "{seal}", &mine, 1), SKEP_OK);
    assert_int_equal(add_version(fixture->db, 2, "{seal}", &theirs, 1), SKEP_OK);
    assert_int_equal(add_version(fixture->db, 3, "{seal}", &more, 1), SKEP_OK);
    int64_t first = 0;
    int64_t second = 0;
    int64_t third = 0;
    assert_int_equal(skep_keeper_db_each_receipt_seal(fixture->db, &PROJECT, &DONOR, 0, 1,
                                                      remember_seal, &first, NULL),
                     SKEP_OK);
    assert_int_equal(skep_keeper_db_each_receipt_seal(fixture->db, &PROJECT, &DONOR, first, 9,
                                                      remember_seal, &second, NULL),
                     SKEP_OK);
    assert_true(second > first);
    assert_int_equal(skep_keeper_db_each_receipt_seal(fixture->db, &PROJECT, &DONOR, second, 9,
                                                      remember_seal, &third, NULL),
                     SKEP_OK);
    assert_int_equal(third, 0);
    struct skep_donor_total *totals = NULL;
    size_t count = 0;
    assert_int_equal(skep_keeper_db_donor_totals(fixture->db, &PROJECT, 9, &totals, &count, NULL),
                     SKEP_OK);
    assert_int_equal(count, 2);
    assert_true(skep_peer_id_equal(&totals[0].donor, &DONOR));
    assert_int_equal(totals[0].credit_micro, 77);
    assert_int_equal(totals[0].updates, 2);
    assert_int_equal(totals[1].updates, 0); /* in a list, but not merged */
    free(totals);
}

/* A child stores updates and says so after each; it is killed at a random moment, and all it has said must be there. */
static void kill_9_loses_nothing_that_was_acknowledged(void **state)
{
    struct fixture *fixture = *state;
    int said[2];
    assert_int_equal(pipe(said), 0);
    skep_keeper_db_close(fixture->db);
    fixture->db = NULL;
    pid_t child = fork();
    if (child == 0) {
        struct skep_keeper_db *db = NULL;
        if (skep_keeper_db_open(fixture->path, &db, NULL) != SKEP_OK) {
            _exit(1);
        }
        for (unsigned i = 0; i < 100000; i++) {
            struct skep_peer_id donor = {{(uint8_t)i, (uint8_t)(i >> 8), 9}};
            struct skep_hash hash = {{(uint8_t)i, (uint8_t)(i >> 8), 8}};
            if (skep_keeper_db_add_update(db, &PROJECT, &TRUNK, &hash, &donor, 0, NULL) !=
                    SKEP_OK ||
                write(said[1], "!", 1) != 1) {
                _exit(1);
            }
        }
        _exit(0);
    }
    close(said[1]);
    int acknowledged = 0;
    char byte;
    while (acknowledged < 40 && read(said[0], &byte, 1) == 1) {
        acknowledged++;
    }
    kill(child, SIGKILL);
    while (read(said[0], &byte, 1) == 1) {
        acknowledged++;
    }
    close(said[0]);
    waitpid(child, NULL, 0);
    assert_int_equal(skep_keeper_db_open(fixture->path, &fixture->db, NULL), SKEP_OK);
    assert_true(acknowledged >= 40);
    assert_in_range(waiting(fixture->db), acknowledged, acknowledged + 1);
}

static void a_full_disk_is_said_and_what_was_stored_stays(void **state)
{
    struct fixture *fixture = *state;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        struct rlimit limit = {60000, 60000};
        setrlimit(RLIMIT_FSIZE, &limit);
        struct skep_error err = {0};
        int result = SKEP_OK;
        int stored = 0;
        while (result == SKEP_OK && stored < 250) {
            result = skep_keeper_db_add_update(
                fixture->db, &PROJECT, &TRUNK, &(struct skep_hash){{(uint8_t)stored, 7}},
                &(struct skep_peer_id){{(uint8_t)stored, 7}}, 0, &err);
            stored += result == SKEP_OK;
        }
        _exit(result == SKEP_ERR_FULL && err.text[0] != '\0' ? stored : 255);
    }
    int status = 0;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_in_range(WEXITSTATUS(status), 1, 250);
    reopen(fixture);
    assert_int_equal(waiting(fixture->db), WEXITSTATUS(status));
}

static void a_file_of_another_kind_is_refused(void **state)
{
    struct fixture *fixture = *state;
    char *path = skep_format("%s/other", fixture->folder);
    assert_int_equal(
        skep_file_write(path, 0600, "this is no database, nor was it ever one", 40, NULL), SKEP_OK);
    struct skep_keeper_db *db = NULL;
    struct skep_error err = {0};
    assert_int_equal(skep_keeper_db_open(path, &db, &err), SKEP_ERR_FORMAT);
    assert_non_null(strstr(err.text, path));
    free(path);
}

/* Where a database file keeps what is checked: SQLite's file format, section 1.3. Numbers are big-endian. */
enum { WRITE_FORMAT = 18, READ_FORMAT = 19, USER_VERSION = 60, APPLICATION_ID = 68 };

/* Reopens the database after changing bytes of its file; the refusal's sentence goes to *ret_err. */
static int open_with(struct fixture *fixture, size_t place, const char *bytes, size_t size,
                     struct skep_error *ret_err)
{
    skep_keeper_db_close(fixture->db);
    fixture->db = NULL;
    FILE *file = fopen(fixture->path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)place, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return skep_keeper_db_open(fixture->path, &fixture->db, ret_err);
}

static void a_newer_schema_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct skep_error err = {0};
    assert_int_equal(open_with(fixture, USER_VERSION, "\0\0\0\x06", 4, &err), SKEP_ERR_FORMAT);
    assert_non_null(strstr(err.text, fixture->path));
    assert_non_null(strstr(err.text, "schema 6"));
    assert_non_null(strstr(err.text, "schema 5"));
    assert_int_equal(open_with(fixture, USER_VERSION, "\0\0\0\x05", 4, &err), SKEP_OK);
}

static void a_database_of_another_program_is_refused_and_left_as_it_was(void **state)
{
    struct fixture *fixture = *state;
    struct skep_error err = {0};
    /* Most programs set neither number; theirs is a database with tables, not an empty one to fill. */
    open_with(fixture, WRITE_FORMAT, "\1\1", 2, &err);
    open_with(fixture, USER_VERSION, "\0\0\0\0", 4, &err);
    assert_int_equal(open_with(fixture, APPLICATION_ID, "\0\0\0\0", 4, &err), SKEP_ERR_FORMAT);
    assert_non_null(strstr(err.text, fixture->path));
    assert_int_equal(open_with(fixture, WRITE_FORMAT, "\1\1", 2, &err), SKEP_ERR_FORMAT);
    uint8_t formats[2] = {0};
    assert_int_equal(skep_file_read_at(fixture->path, WRITE_FORMAT, formats, 2, NULL), SKEP_OK);
    assert_memory_equal(formats, "\1\1", 2); /* 2 would be WAL */
}

static void what_names_an_unknown_project_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct skep_project_id unknown = {{99}};
    struct skep_hash hash = hash_of(1);
    struct skep_error err = {0};
    assert_int_equal(
        skep_keeper_db_add_update(fixture->db, &unknown, &TRUNK, &hash, &DONOR, 0, &err),
        SKEP_ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "project"));
    struct skep_version_row row = {.version = 0};
    assert_int_equal(skep_keeper_db_add_version(fixture->db, &unknown, &TRUNK, &row, NULL, 0, NULL),
                     SKEP_ERR_NOT_FOUND);
}

static void a_shard_without_versions_says_so(void **state)
{
    struct fixture *fixture = *state;
    struct skep_version_row row = {0};
    struct skep_error err = {0};
    assert_int_equal(
        skep_keeper_db_get_version(fixture->db, &PROJECT, &EXPERT, UINT64_MAX, &row, &err),
        SKEP_ERR_NOT_FOUND);
    assert_string_equal(err.text, "no version of ffn.1.2.3 is here");
}

/* Stores version 1 with its receipts in a child whose log may grow by `room` bytes more; returns the child's result. The votes
 * make the log longer than SQLite's other files, so that the log is what meets the limit. */
static int add_version_with_room(struct fixture *fixture, rlim_t room)
{
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        struct skep_keeper_db *db = NULL;
        int result = skep_keeper_db_open(fixture->path, &db, NULL);
        for (uint32_t i = 0; result == SKEP_OK && i < 24; i++) {
            result = skep_keeper_db_put_vote(db, &PROJECT, &TRUNK, 1, i, false, 0, NULL, 0, NULL);
        }
        char *log = skep_format("%s-wal", fixture->path);
        rlim_t size = (rlim_t)skep_file_size(log) + room;
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){size, size});
        struct skep_receipt_row receipts[] = {{hash_of(1), DONOR, 0, 7, true, false, 0},
                                              {hash_of(2), OTHER, 0, 7, true, false, 0}};
        _exit(-(result == SKEP_OK ? add_version(db, 1, "{seal}", receipts, 2) : result));
    }
    int status = 0;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    return -WEXITSTATUS(status);
}

static void a_version_is_stored_whole_or_not_at_all_wherever_the_disk_ends(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(add_version(fixture->db, 0, NULL, NULL, 0), SKEP_OK);
    assert_int_equal(add_update(fixture->db, 1, &DONOR, 0), SKEP_OK);
    assert_int_equal(add_update(fixture->db, 2, &OTHER, 0), SKEP_OK);
    skep_keeper_db_close(fixture->db);
    fixture->db = NULL;
    int result = SKEP_ERR_FULL;
    int failures = 0;
    for (rlim_t room = 0; result != SKEP_OK; room += 2048) {
        assert_true(room < 1 << 20);
        result = add_version_with_room(fixture, room);
        assert_true(result == SKEP_OK || result == SKEP_ERR_FULL);
        failures += result != SKEP_OK;
        assert_int_equal(skep_keeper_db_open(fixture->path, &fixture->db, NULL), SKEP_OK);
        struct skep_version_row row = {0};
        assert_int_equal(
            skep_keeper_db_get_version(fixture->db, &PROJECT, &TRUNK, UINT64_MAX, &row, NULL),
            SKEP_OK);
        assert_int_equal(row.version, result == SKEP_OK ? 1 : 0);
        free((char *)row.seal);
        assert_int_equal(waiting(fixture->db), result == SKEP_OK ? 0 : 2);
        skep_keeper_db_close(fixture->db);
        fixture->db = NULL;
    }
    assert_in_range(failures, 4, 100); /* several pages long: the log was cut in each of them */
}

static int check_receipt(void *user, const struct skep_shard *shard, uint64_t version,
                         uint64_t credit_micro, const char *seal)
{
    assert_true(skep_shard_equal(shard, &EXPERT));
    assert_int_equal(version, 4);
    assert_int_equal(credit_micro, 12);
    assert_string_equal(seal, "{seal}");
    ++*(int *)user;
    return SKEP_OK;
}

static void a_donor_keeps_receipts_and_marks(void **state)
{
    struct fixture *fixture = *state;
    char *path = skep_format("%s/donor.db", fixture->folder);
    struct skep_donor_db *db = NULL;
    assert_int_equal(skep_donor_db_open(path, &db, NULL), SKEP_OK);
    for (int i = 0; i < 2; i++) { /* the same again is fine */
        assert_int_equal(skep_donor_db_add_receipt(db, &PROJECT, &EXPERT, 4, 12, "{seal}", NULL),
                         SKEP_OK);
    }
    assert_int_equal(skep_donor_db_set_mark(db, "row", 9, NULL), SKEP_OK);
    assert_int_equal(skep_donor_db_set_mark(db, "row", 10, NULL), SKEP_OK);
    skep_donor_db_close(db);
    assert_int_equal(skep_donor_db_open(path, &db, NULL), SKEP_OK);
    int seen = 0;
    assert_int_equal(skep_donor_db_each_receipt(db, &PROJECT, check_receipt, &seen, NULL), SKEP_OK);
    assert_int_equal(seen, 1);
    uint64_t receipts = 0;
    uint64_t credit = 0;
    assert_int_equal(skep_donor_db_sum(db, &PROJECT, &receipts, &credit, NULL), SKEP_OK);
    assert_true(receipts == 1 && credit == 12);
    int64_t mark = 0;
    assert_int_equal(skep_donor_db_get_mark(db, "row", &mark, NULL), SKEP_OK);
    assert_int_equal(mark, 10);
    assert_int_equal(skep_donor_db_get_mark(db, "none", &mark, NULL), SKEP_OK);
    assert_int_equal(mark, 0);
    skep_donor_db_close(db);
    free(path);
}

#define WITH_KEEPER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_KEEPER(a_project_has_one_manifest),
        WITH_KEEPER(rivals_wait_side_by_side_until_a_version_merges_one),
        WITH_KEEPER(a_version_takes_its_updates_and_what_is_too_old),
        WITH_KEEPER(a_version_stored_again_gets_what_its_row_lacks_and_loses_nothing),
        WITH_KEEPER(versions_receipts_and_votes_survive_a_restart),
        WITH_KEEPER(a_donor_finds_its_seals_from_where_it_left_off),
        WITH_KEEPER(kill_9_loses_nothing_that_was_acknowledged),
        WITH_KEEPER(a_full_disk_is_said_and_what_was_stored_stays),
        WITH_KEEPER(a_file_of_another_kind_is_refused),
        WITH_KEEPER(a_newer_schema_is_refused),
        WITH_KEEPER(a_database_of_another_program_is_refused_and_left_as_it_was),
        WITH_KEEPER(what_names_an_unknown_project_is_refused),
        WITH_KEEPER(a_shard_without_versions_says_so),
        WITH_KEEPER(a_version_is_stored_whole_or_not_at_all_wherever_the_disk_ends),
        WITH_KEEPER(a_donor_keeps_receipts_and_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
