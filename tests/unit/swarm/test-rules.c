/* The small rules: replica sets, tickets, credit, the table of records. */
#include <stdlib.h>
#include <string.h>

#include "common/swarm/credit.h"
#include "common/swarm/records.h"
#include "common/swarm/replicas.h"
#include "common/swarm/statement.h"
#include "common/swarm/ticket.h"
#include "tests/lib/cmocka.h"

static struct skep_peer_id keepers[5] = {{{1}}, {{2}}, {{3}}, {{4}}, {{5}}};

static struct skep_manifest manifest_of(uint32_t replicas)
{
    struct skep_manifest manifest = {0};
    skep_manifest_defaults(&manifest);
    manifest.keepers = keepers;
    manifest.keeper_count = 5;
    manifest.replicas = replicas;
    return manifest;
}

static void replica_sets_do_not_depend_on_the_order_of_keepers(void **state)
{
    (void)state;
    struct skep_manifest manifest = manifest_of(3);
    struct skep_shard shard = {SKEP_SHARD_FFN, 0, 1, 1};
    struct skep_replicas before = skep_replicas_of(&manifest, &shard);
    assert_int_equal(before.count, 3);
    assert_int_equal(skep_replicas_quorum(&before), 2);
    struct skep_peer_id turned[5] = {{{4}}, {{2}}, {{5}}, {{1}}, {{3}}};
    manifest.keepers = turned;
    struct skep_replicas after = skep_replicas_of(&manifest, &shard);
    assert_memory_equal(before.keepers, after.keepers, 3 * sizeof(keepers[0]));
    manifest.replicas = 40;
    assert_int_equal(skep_replicas_of(&manifest, &shard).count, 5);
}

static void each_keeper_leads_one_of_as_many_attempts(void **state)
{
    (void)state;
    struct skep_manifest manifest = manifest_of(5);
    struct skep_shard shard = {0};
    struct skep_hash head = {{7}};
    struct skep_replicas replicas = skep_replicas_of(&manifest, &shard);
    unsigned seen = 0;
    for (uint32_t a = 0; a < 5; a++) {
        struct skep_peer_id leader = skep_replicas_leader(&replicas, &shard, &head, a);
        seen |= 1u << leader.bytes[0];
        struct skep_peer_id again = skep_replicas_leader(&replicas, &shard, &head, a + 5);
        assert_true(skep_peer_id_equal(&leader, &again));
    }
    assert_int_equal(seen, 2 + 4 + 8 + 16 + 32);
}

static void a_ticket_draws_different_chunks_in_rising_order(void **state)
{
    (void)state;
    struct skep_hash beacon = {{1}};
    struct skep_peer_id donor = {{2}};
    struct skep_hash ticket = skep_ticket_of(&beacon, &donor, 5);
    struct skep_hash next = skep_ticket_of(&beacon, &donor, 6);
    assert_memory_not_equal(&ticket, &next, sizeof(ticket));
    size_t chunks[8];
    assert_int_equal(skep_ticket_slice(&ticket, 100, 8, chunks), 8);
    for (size_t i = 0; i < 8; i++) {
        assert_true(chunks[i] < 100 && (i == 0 || chunks[i] > chunks[i - 1]));
    }
    assert_int_equal(skep_ticket_slice(&ticket, 3, 8, chunks), 3);
    assert_int_equal(chunks[2], 2);
    assert_int_equal(skep_ticket_slice(&ticket, 0, 8, chunks), 0);
}

static void slices_cover_all_chunks_evenly(void **state)
{
    (void)state;
    unsigned hits[20] = {0};
    for (uint64_t version = 0; version < 2000; version++) {
        struct skep_hash ticket =
            skep_ticket_of(&(struct skep_hash){{3}}, &(struct skep_peer_id){{4}}, version);
        size_t chunks[2];
        skep_ticket_slice(&ticket, 20, 2, chunks);
        hits[chunks[0]]++;
        hits[chunks[1]]++;
    }
    for (size_t i = 0; i < 20; i++) {
        /* 200 expected, standard deviation 13.4: seven of them. */
        assert_in_range(hits[i], 106, 294);
    }
}

static void credit_is_counted_from_the_job_size(void **state)
{
    (void)state;
    struct skep_manifest manifest = manifest_of(1);
    manifest.model = (struct skep_model_config){.vocabulary = 256,
                                                .dim = 64,
                                                .hidden = 256,
                                                .layers = 2,
                                                .context = 128,
                                                .rows = 4,
                                                .columns = 2,
                                                .experts_per_token = 2};
    manifest.training.steps = 100;
    manifest.training.batch = 8;
    manifest.training.donor_rows = 2;
    struct skep_shard trunk = {0};
    struct skep_shard expert = {SKEP_SHARD_FFN, 1, 0, 0};
    /* By hand: 6 * (256*64 + 2 * (4*64*64 + 6*64)) + 2 * 6*64*129 operations a token, 102,400 tokens. */
    assert_true(skep_job_flops(&manifest, &trunk) == UINT64_C(102400) * (299520 + 99072));
    assert_true(skep_job_flops(&manifest, &expert) ==
                UINT64_C(102400) * (6 * 2 * 64 * 256 * 2) / 4);
    assert_true(skep_credit_micro(&manifest, &trunk) == UINT64_C(102400) * 398592 / 432000);
    manifest.training.steps = UINT32_MAX;
    manifest.training.batch = UINT32_MAX;
    assert_true(skep_job_flops(&manifest, &trunk) == INT64_MAX);
}

static int add_record(struct skep_records *records, uint8_t number, uint64_t sequence,
                      int64_t expires_s, bool leaving, bool *ret_new)
{
    uint8_t seed[32] = {number};
    struct skep_key *key = skep_key_from_seed(seed);
    struct skep_record record = {.keeper = skep_key_id(key),
                                 .host = "127.0.0.1",
                                 .port = 1,
                                 .sequence = sequence,
                                 .expires_s = expires_s,
                                 .leaving = leaving};
    char *text = skep_record_encode(&record);
    struct skep_envelope envelope = {0};
    skep_statement_sign(key, SKEP_TYPE_RECORD, text, &envelope);
    int code = skep_records_add(records, &envelope, 100, ret_new, NULL);
    skep_envelope_done(&envelope);
    free(text);
    skep_key_free(key);
    return code;
}

static void the_newest_record_of_each_keeper_is_kept(void **state)
{
    (void)state;
    struct skep_records *records = skep_records_new(3);
    bool fresh = false;
    for (uint8_t i = 1; i <= 3; i++) {
        assert_int_equal(add_record(records, i, 5, 150, false, &fresh), 0);
        assert_true(fresh);
    }
    assert_int_equal(add_record(records, 4, 5, 150, false, &fresh), SKEP_ERR_FULL);
    assert_int_equal(add_record(records, 2, 5, 160, false, &fresh), 0);
    assert_false(fresh);
    assert_int_equal(add_record(records, 2, 6, 160, false, &fresh), 0);
    assert_true(fresh);
    assert_int_equal(skep_records_count(records), 3);
    for (size_t i = 1; i < 3; i++) {
        assert_true(memcmp(skep_records_at(records, i - 1), skep_records_at(records, i), 32) < 0);
    }
    skep_records_expire(records, 155);
    assert_int_equal(skep_records_count(records), 1);
    assert_int_equal(skep_records_at(records, 0)->sequence, 6);
    assert_int_equal(skep_records_envelope_at(records, 0)->signature_count, 1);
    skep_records_free(records);
}

static void a_keeper_that_left_stays_away_until_it_returns_with_a_newer_record(void **state)
{
    (void)state;
    struct skep_records *records = skep_records_new(8);
    bool fresh = false;
    add_record(records, 1, 5, 150, false, &fresh);
    struct skep_peer_id keeper = skep_records_at(records, 0)->keeper;
    add_record(records, 1, 6, 150, true, &fresh);
    assert_true(fresh);
    assert_int_equal(skep_records_count(records), 0);
    assert_null(skep_records_find(records, &keeper));
    add_record(records, 1, 5, 150, false, &fresh);
    assert_false(fresh);
    assert_int_equal(skep_records_count(records), 0);
    add_record(records, 1, 7, 150, false, &fresh);
    assert_non_null(skep_records_find(records, &keeper));
    skep_records_free(records);
}

static void a_record_that_never_expires_is_refused(void **state)
{
    (void)state;
    struct skep_records *records = skep_records_new(8);
    assert_int_equal(add_record(records, 1, 5, 100000, false, NULL), SKEP_ERR_REFUSED);
    assert_int_equal(add_record(records, 1, 5, 100, false, NULL), SKEP_ERR_STALE);
    assert_int_equal(skep_records_count(records), 0);
    skep_records_free(records);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replica_sets_do_not_depend_on_the_order_of_keepers),
        cmocka_unit_test(each_keeper_leads_one_of_as_many_attempts),
        cmocka_unit_test(a_ticket_draws_different_chunks_in_rising_order),
        cmocka_unit_test(slices_cover_all_chunks_evenly),
        cmocka_unit_test(credit_is_counted_from_the_job_size),
        cmocka_unit_test(the_newest_record_of_each_keeper_is_kept),
        cmocka_unit_test(a_keeper_that_left_stays_away_until_it_returns_with_a_newer_record),
        cmocka_unit_test(a_record_that_never_expires_is_refused),
    };
    return cmocka_run_group_tests_name("rules", tests, NULL, NULL);
}
