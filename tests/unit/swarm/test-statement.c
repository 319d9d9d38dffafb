/* Signatures before payloads: manifests, records, messages, seals, update files. */
#include <stdlib.h>
#include <string.h>

#include "common/crypto/hash.h"
#include "common/swarm/replicas.h"
#include "common/swarm/statement.h"
#include "common/swarm/update-open.h"
#include "tests/lib/cmocka.h"

static struct skep_key *key_of(uint8_t number)
{
    uint8_t seed[32] = {number};
    return skep_key_from_seed(seed);
}

static struct skep_record record_of(const struct skep_key *key)
{
    struct skep_record record = {.keeper = skep_key_id(key),
                                 .host = "127.0.0.9",
                                 .port = 443,
                                 .sequence = 3,
                                 .expires_s = 1000};
    return record;
}

static void sign_record(const struct skep_key *key, const struct skep_record *record,
                        struct skep_envelope *ret_envelope)
{
    char *text = skep_record_encode(record);
    skep_statement_sign(key, SKEP_TYPE_RECORD, text, ret_envelope);
    free(text);
}

static void a_record_is_believed_when_its_keeper_signed_it(void **state)
{
    (void)state;
    struct skep_key *key = key_of(1);
    struct skep_record record = record_of(key);
    struct skep_envelope envelope = {0};
    sign_record(key, &record, &envelope);
    struct skep_record read = {0};
    struct skep_error err = {0};
    assert_int_equal(skep_record_open(&envelope, 999, &read, &err), 0);
    assert_int_equal(read.port, 443);
    skep_record_done(&read);
    assert_int_equal(skep_record_open(&envelope, 1000, &read, &err), SKEP_ERR_STALE);
    assert_non_null(strstr(err.text, "expired at 1000"));
    envelope.signatures[0].bytes[5] ^= 1;
    assert_int_equal(skep_record_open(&envelope, 999, &read, &err), SKEP_ERR_SIGNATURE);
    skep_envelope_done(&envelope);
    skep_key_free(key);
}

static void a_record_signed_by_another_is_refused(void **state)
{
    (void)state;
    struct skep_key *key = key_of(1);
    struct skep_key *other = key_of(2);
    struct skep_record record = record_of(key);
    struct skep_envelope envelope = {0};
    sign_record(other, &record, &envelope);
    struct skep_record read = {0};
    struct skep_error err = {0};
    assert_int_equal(skep_record_open(&envelope, 1, &read, &err), SKEP_ERR_SIGNATURE);
    skep_envelope_done(&envelope);
    skep_statement_sign(key, SKEP_TYPE_MESSAGE, "{}", &envelope);
    assert_int_equal(skep_record_open(&envelope, 1, &read, &err), SKEP_ERR_FORMAT);
    skep_envelope_done(&envelope);
    skep_key_free(key);
    skep_key_free(other);
}

static int open_caller(const struct skep_key *signer, const struct skep_caller_statement *statement,
                       int64_t now_s, struct skep_error *err)
{
    struct skep_caller_statement wanted = {.project = {{1}}, .keeper = {{2}}};
    struct skep_caller_statement read;
    struct skep_envelope envelope = {0};
    char *text = skep_caller_statement_encode(statement);
    skep_statement_sign(signer, SKEP_TYPE_CALLER, text, &envelope);
    free(text);
    int rc = skep_caller_open(&envelope, &wanted.project, &wanted.keeper, now_s, &read, err);
    skep_envelope_done(&envelope);
    return rc;
}

static void a_session_is_opened_by_its_caller_for_this_keeper_and_now(void **state)
{
    (void)state;
    struct skep_key *key = key_of(1);
    struct skep_key *liar = key_of(2);
    struct skep_error err = {0};
    const struct skep_caller_statement good = {
        .project = {{1}}, .keeper = {{2}}, .caller = skep_key_id(key), .time_s = 1000};
    assert_int_equal(open_caller(key, &good, 1000 + SKEP_CALLER_FRESH_S, &err), 0);
    assert_int_equal(open_caller(key, &good, 1000 - SKEP_CALLER_FRESH_S, &err), 0);
    assert_int_equal(open_caller(key, &good, 1001 + SKEP_CALLER_FRESH_S, &err), SKEP_ERR_STALE);
    assert_int_equal(open_caller(key, &good, 999 - SKEP_CALLER_FRESH_S, &err), SKEP_ERR_STALE);
    assert_int_equal(open_caller(liar, &good, 1000, &err), SKEP_ERR_SIGNATURE);
    struct skep_caller_statement other = good;
    other.project.bytes[0] = 9;
    assert_int_equal(open_caller(key, &other, 1000, &err), SKEP_ERR_REFUSED);
    other = good;
    other.keeper.bytes[0] = 9;
    assert_int_equal(open_caller(key, &other, 1000, &err), SKEP_ERR_REFUSED);
    assert_non_null(strstr(err.text, "is for keeper 09"));
    skep_key_free(key);
    skep_key_free(liar);
}

/* Four keepers, of whom three are in every replica set. */
struct fixture {
    struct skep_key *keys[4];
    struct skep_peer_id ids[4];
    struct skep_manifest manifest;
    struct skep_seal seal;
    struct skep_receipt receipt;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    skep_manifest_defaults(&fixture->manifest);
    for (uint8_t i = 0; i < 4; i++) {
        fixture->keys[i] = key_of((uint8_t)(10 + i));
        fixture->ids[i] = skep_key_id(fixture->keys[i]);
    }
    fixture->manifest.project.bytes[0] = 9;
    fixture->manifest.keepers = fixture->ids;
    fixture->manifest.keeper_count = 4;
    fixture->manifest.replicas = 3;
    fixture->receipt.credit_micro = 5;
    fixture->receipt.merged = true;
    fixture->seal = (struct skep_seal){.project = fixture->manifest.project,
                                       .version = 1,
                                       .receipt_count = 1,
                                       .receipts = &fixture->receipt};
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    for (size_t i = 0; i < 4; i++) {
        skep_key_free(fixture->keys[i]);
    }
    fixture->manifest.keepers = NULL;
    skep_manifest_done(&fixture->manifest);
    free(fixture);
    return 0;
}

/* The seal signed by the first `insiders` keepers of the trunk's set, and by the one outside it if `outsider`. */
static void sign_seal(struct fixture *fixture, size_t insiders, bool outsider,
                      struct skep_envelope *ret_envelope)
{
    struct skep_replicas replicas = skep_replicas_of(&fixture->manifest, &fixture->seal.shard);
    char *text = skep_seal_encode(&fixture->seal);
    skep_envelope_init(ret_envelope, SKEP_TYPE_SEAL, text, strlen(text));
    size_t taken = 0;
    for (size_t i = 0; i < 4; i++) {
        bool inside = skep_replicas_has(&replicas, &fixture->ids[i]);
        if (inside ? taken++ < insiders : outsider) {
            struct skep_envelope one = {0};
            skep_statement_sign(fixture->keys[i], SKEP_TYPE_SEAL, text, &one);
            skep_envelope_add(ret_envelope, &fixture->ids[i], one.signatures[0].bytes);
            skep_envelope_done(&one);
        }
    }
    free(text);
}

static void a_seal_needs_a_majority_of_its_replica_set(void **state)
{
    struct fixture *fixture = *state;
    struct skep_envelope envelope = {0};
    struct skep_seal seal = {0};
    struct skep_hash hash;
    struct skep_error err = {0};
    sign_seal(fixture, 2, false, &envelope);
    assert_int_equal(skep_seal_open(&envelope, &fixture->manifest, &seal, &hash, &err), 0);
    struct skep_hash plain = skep_hash_of(envelope.payload.data, envelope.payload.size);
    assert_memory_equal(&hash, &plain, sizeof(hash)); /* attempt 0 */
    skep_seal_done(&seal);
    skep_envelope_done(&envelope);
    sign_seal(fixture, 1, true, &envelope);
    assert_int_equal(skep_seal_open(&envelope, &fixture->manifest, &seal, &hash, &err),
                     SKEP_ERR_SIGNATURE);
    assert_non_null(strstr(err.text, "has 1 signatures of its 3 keepers, expected 2"));
    skep_envelope_done(&envelope);
}

static void a_forged_signature_spoils_a_seal(void **state)
{
    struct fixture *fixture = *state;
    struct skep_envelope envelope = {0};
    struct skep_seal seal = {0};
    sign_seal(fixture, 3, false, &envelope);
    envelope.signatures[2].bytes[0] ^= 1;
    assert_int_equal(skep_seal_open(&envelope, &fixture->manifest, &seal, NULL, NULL),
                     SKEP_ERR_SIGNATURE);
    skep_envelope_done(&envelope);
}

static void a_seal_of_another_project_or_shard_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct skep_envelope envelope = {0};
    struct skep_seal seal = {0};
    fixture->seal.project.bytes[0] = 8;
    sign_seal(fixture, 3, false, &envelope);
    assert_int_equal(skep_seal_open(&envelope, &fixture->manifest, &seal, NULL, NULL),
                     SKEP_ERR_REFUSED);
    skep_envelope_done(&envelope);
    fixture->seal.project.bytes[0] = 9;
    fixture->seal.shard = (struct skep_shard){SKEP_SHARD_FFN, 60000, 0, 0};
    sign_seal(fixture, 3, false, &envelope);
    assert_int_equal(skep_seal_open(&envelope, &fixture->manifest, &seal, NULL, NULL),
                     SKEP_ERR_NOT_FOUND);
    skep_envelope_done(&envelope);
}

static void two_attempts_at_one_list_have_one_name(void **state)
{
    struct fixture *fixture = *state;
    struct skep_hash first = skep_seal_hash(&fixture->seal);
    fixture->seal.attempt = 7;
    struct skep_hash later = skep_seal_hash(&fixture->seal);
    assert_memory_equal(&first, &later, sizeof(first));
    fixture->seal.state.bytes[0] ^= 1;
    struct skep_hash other = skep_seal_hash(&fixture->seal);
    assert_memory_not_equal(&first, &other, sizeof(first));
}

static void an_update_file_is_opened_by_signature_then_body(void **state)
{
    (void)state;
    struct skep_key *key = key_of(3);
    struct skep_update_statement statement = {
        .base_version = 4, .tokens = 10, .loss_first = 2.5, .loss_last = 2.25};
    struct skep_buffer body = {0};
    struct skep_buffer file = {0};
    skep_buffer_append_text(&body, "not decoded here");
    skep_update_seal(key, &statement, &body, &file);
    struct skep_update_statement read = {0};
    struct skep_hash hash;
    const uint8_t *found = NULL;
    size_t size = 0;
    struct skep_error err = {0};
    assert_int_equal(skep_update_open(file.data, file.size, &read, &hash, &found, &size, &err), 0);
    assert_int_equal(size, body.size);
    assert_memory_equal(found, body.data, size);
    assert_true(skep_peer_id_equal(&read.donor, &statement.donor));
    file.data[file.size - 1] ^= 1;
    assert_int_equal(skep_update_open(file.data, file.size, &read, &hash, &found, &size, &err),
                     SKEP_ERR_HASH);
    assert_true(skep_update_open(file.data, file.size - 1, &read, &hash, &found, &size, &err) < 0);
    assert_true(skep_update_open(file.data, 5, &read, &hash, &found, &size, &err) < 0);
    skep_buffer_done(&file);
    skep_buffer_done(&body);
    skep_key_free(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_believed_when_its_keeper_signed_it),
        cmocka_unit_test(a_record_signed_by_another_is_refused),
        cmocka_unit_test(a_session_is_opened_by_its_caller_for_this_keeper_and_now),
        cmocka_unit_test_setup_teardown(a_seal_needs_a_majority_of_its_replica_set, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_forged_signature_spoils_a_seal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_seal_of_another_project_or_shard_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(two_attempts_at_one_list_have_one_name, set_up, tear_down),
        cmocka_unit_test(an_update_file_is_opened_by_signature_then_body),
    };
    return cmocka_run_group_tests_name("statement", tests, NULL, NULL);
}
