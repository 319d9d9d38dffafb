/* Reputation in the keeper's database: written with the version, and the same when it is worked out from the seals alone. */
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/crypto/key.h"
#include "common/store/keeper-db.h"
#include "common/swarm/statement.h"
#include "common/sys/file.h"
#include "tests/lib/cmocka.h"

#define LIMIT 12u /* donors held: fewer than there are */
#define DONORS 16u
#define VERSIONS 60u

static const struct skep_shard TRUNK = {.kind = SKEP_SHARD_TRUNK};
static const struct skep_project_id PROJECT = {{1}};

struct fixture {
    char folder[64];
    char *path;
    struct skep_keeper_db *db;
    struct skep_key *key;
    struct skep_rng rng;
    struct skep_reputations *table;
};

static int set_up(void **state)
{
    struct fixture *fixture = skep_alloc(1, sizeof *fixture);
    strcpy(fixture->folder, "/tmp/skep-rows-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    fixture->path = skep_format("%s/keeper.db", fixture->folder);
    assert_int_equal(skep_keeper_db_open(fixture->path, &fixture->db, NULL), SKEP_OK);
    assert_int_equal(skep_keeper_db_add_project(fixture->db, &PROJECT, "{manifest}", NULL),
                     SKEP_OK);
    fixture->key = skep_key_new();
    fixture->rng = skep_rng_of(21);
    fixture->table = skep_reputations_new(LIMIT);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    skep_keeper_db_close(fixture->db);
    skep_folder_remove(fixture->folder, NULL);
    skep_key_free(fixture->key);
    skep_reputations_free(fixture->table);
    free(fixture->path);
    free(fixture);
    return 0;
}

static struct skep_peer_id random_donor(struct fixture *fixture)
{
    return (struct skep_peer_id){{(uint8_t)(1 + skep_rng_below(&fixture->rng, DONORS))}};
}

/* Seals and stores the next version: three updates, and sometimes a finding. */
static void add_version(struct fixture *fixture)
{
    uint64_t version = skep_reputation_version(fixture->table) + 1;
    struct skep_receipt receipts[3];
    for (uint8_t i = 0; i < 3; i++) {
        receipts[i] = (struct skep_receipt){.update = {{(uint8_t)(i + 1), (uint8_t)version}},
                                            .donor = random_donor(fixture),
                                            .base_version = version - 1,
                                            .merged = true,
                                            .audited = skep_rng_below(&fixture->rng, 2) == 0};
    }
    struct skep_finding finding = {.update = {{9, (uint8_t)version}},
                                   .donor = random_donor(fixture),
                                   .base_version = version - 1,
                                   .verdict = skep_rng_below(&fixture->rng, 4) == 0
                                                  ? SKEP_VERDICT_INVALID
                                                  : SKEP_VERDICT_VALID};
    struct skep_seal seal = {.project = PROJECT,
                             .version = version,
                             .receipt_count = 3,
                             .receipts = receipts,
                             .finding_count = version % 3 == 0,
                             .findings = &finding};
    char *payload = skep_seal_encode(&seal);
    char *text = skep_statement_sign_text(fixture->key, SKEP_TYPE_SEAL, payload);
    assert_int_equal(skep_reputation_apply(fixture->table, &seal, NULL), SKEP_OK);
    struct skep_version_row row = {.version = version, .seal = text};
    row.forgotten = skep_reputation_forgotten(fixture->table, &row.forgotten_count);
    const struct skep_peer_id *written =
        skep_reputation_written(fixture->table, &row.reputation_count);
    struct skep_reputation *rows = skep_alloc(row.reputation_count + 1, sizeof *rows);
    for (size_t i = 0; i < row.reputation_count; i++) {
        rows[i] = skep_reputation_find(fixture->table, &written[i]);
    }
    row.reputation = rows;
    assert_int_equal(skep_keeper_db_add_version(fixture->db, &PROJECT, &TRUNK, &row, NULL, 0, NULL),
                     SKEP_OK);
    free(rows);
    free(payload);
    free(text);
}

/* The stored rows are those of the table. */
static void assert_stored(struct fixture *fixture, const struct skep_reputations *table)
{
    struct skep_reputation *rows = NULL;
    size_t count = 0;
    assert_int_equal(skep_keeper_db_get_reputation(fixture->db, &PROJECT, &rows, &count, NULL),
                     SKEP_OK);
    assert_int_equal(count, skep_reputation_count(table));
    for (size_t i = 0; i < count; i++) {
        struct skep_reputation expected = skep_reputation_at(table, i);
        assert_true(skep_peer_id_equal(&rows[i].donor, &expected.donor));
        assert_int_equal(rows[i].earned, expected.earned);
        assert_int_equal(rows[i].seen, expected.seen);
        assert_int_equal(rows[i].merged, expected.merged);
        assert_int_equal(rows[i].banned, expected.banned);
        assert_int_equal(rows[i].banned_at, expected.banned_at);
    }
    struct skep_reputations *restored = skep_reputations_new(LIMIT);
    assert_int_equal(
        skep_reputation_restore(restored, skep_reputation_version(table), rows, count, NULL),
        SKEP_OK);
    skep_reputations_free(restored);
    free(rows);
}

static void rows_follow_the_table_version_by_version(void **state)
{
    struct fixture *fixture = *state;
    for (unsigned v = 0; v < VERSIONS; v++) {
        add_version(fixture);
        assert_stored(fixture, fixture->table);
    }
    assert_int_equal(skep_reputation_count(fixture->table), LIMIT); /* some were forgotten */
}

static void the_seals_alone_give_the_same_rows(void **state)
{
    struct fixture *fixture = *state;
    for (unsigned v = 0; v < VERSIONS; v++) {
        add_version(fixture);
    }
    skep_keeper_db_close(fixture->db);
    assert_int_equal(skep_keeper_db_open(fixture->path, &fixture->db, NULL), SKEP_OK);
    struct skep_reputations *rebuilt = skep_reputations_new(LIMIT);
    assert_int_equal(skep_keeper_db_rebuild_reputation(fixture->db, &PROJECT, rebuilt, NULL),
                     SKEP_OK);
    assert_int_equal(skep_reputation_version(rebuilt), VERSIONS);
    assert_stored(fixture, fixture->table);
    assert_stored(fixture, rebuilt);
    skep_reputations_free(rebuilt);
}

static void a_missing_seal_is_said_and_the_rows_stay(void **state)
{
    struct fixture *fixture = *state;
    add_version(fixture);
    struct skep_seal seal = {.project = PROJECT, .version = 3};
    char *payload = skep_seal_encode(&seal);
    char *text = skep_statement_sign_text(fixture->key, SKEP_TYPE_SEAL, payload);
    struct skep_version_row row = {.version = 3, .seal = text};
    assert_int_equal(skep_keeper_db_add_version(fixture->db, &PROJECT, &TRUNK, &row, NULL, 0, NULL),
                     SKEP_OK);
    struct skep_reputations *rebuilt = skep_reputations_new(LIMIT);
    struct skep_error err = {0};
    assert_int_equal(skep_keeper_db_rebuild_reputation(fixture->db, &PROJECT, rebuilt, &err),
                     SKEP_ERR_STATE);
    assert_string_equal(err.text, "the seal is of trunk version 3, reputation waits for 2");
    assert_stored(fixture, fixture->table);
    skep_reputations_free(rebuilt);
    free(payload);
    free(text);
}

#define WITH_KEEPER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_KEEPER(rows_follow_the_table_version_by_version),
        WITH_KEEPER(the_seals_alone_give_the_same_rows),
        WITH_KEEPER(a_missing_seal_is_said_and_the_rows_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
