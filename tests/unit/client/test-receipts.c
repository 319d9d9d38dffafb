/* Receipts are believed when a majority of the replica set signed a seal that names the donor. */
#include <stdlib.h>
#include <string.h>

#include "client/agent/receipts.h"
#include "common/base/alloc.h"
#include "common/crypto/key.h"
#include "common/swarm/credit.h"
#include "common/swarm/statement.h"
#include "tests/lib/cmocka.h"

#define KEEPERS 4

struct world {
    struct skep_key *keepers[KEEPERS];
    struct skep_manifest manifest;
    struct skep_peer_id donor;
    struct skep_seal seal;
    uint64_t credit; /* what one update earns */
};

static int world_new(void **state)
{
    struct world *world = skep_alloc(1, sizeof *world);
    struct skep_manifest *manifest = &world->manifest;
    skep_manifest_defaults(manifest);
    manifest->name = skep_strdup("test");
    manifest->replicas = KEEPERS;
    manifest->keeper_count = KEEPERS;
    manifest->keepers = skep_alloc(KEEPERS, sizeof *manifest->keepers);
    memset(manifest->project.bytes, 7, SKEP_ID_SIZE);
    for (size_t i = 0; i < KEEPERS; i++) {
        uint8_t seed[32] = {(uint8_t)(i + 1)};
        world->keepers[i] = skep_key_from_seed(seed);
        manifest->keepers[i] = skep_key_id(world->keepers[i]);
    }
    memset(world->donor.bytes, 9, SKEP_ID_SIZE);
    world->seal.project = manifest->project;
    world->seal.version = 5;
    world->seal.receipt_count = 2;
    world->seal.receipts = skep_alloc(2, sizeof *world->seal.receipts);
    memset(world->seal.receipts[0].update.bytes, 1, SKEP_ID_SIZE);
    memset(world->seal.receipts[1].update.bytes, 2, SKEP_ID_SIZE);
    memset(world->seal.receipts[0].donor.bytes, 3, SKEP_ID_SIZE);
    world->seal.receipts[1].donor = world->donor;
    world->seal.receipts[0].base_version = 4;
    world->seal.receipts[1].base_version = 4;
    world->credit = skep_credit_micro(manifest, &world->seal.shard);
    world->seal.receipts[0].credit_micro = world->credit;
    world->seal.receipts[1].credit_micro = world->credit;
    world->seal.receipts[0].merged = true;
    world->seal.receipts[1].merged = true;
    *state = world;
    return 0;
}

static int world_free(void **state)
{
    struct world *world = *state;
    for (size_t i = 0; i < KEEPERS; i++) {
        skep_key_free(world->keepers[i]);
    }
    skep_manifest_done(&world->manifest);
    skep_seal_done(&world->seal);
    free(world);
    return 0;
}

/* The seal with the signatures of the first `signers` keepers. */
static void sign(const struct world *world, size_t signers, struct skep_envelope *ret_envelope)
{
    char *payload = skep_seal_encode(&world->seal);
    skep_statement_sign(world->keepers[0], SKEP_TYPE_SEAL, payload, ret_envelope);
    for (size_t i = 1; i < signers; i++) {
        struct skep_envelope one = {0};
        skep_statement_sign(world->keepers[i], SKEP_TYPE_SEAL, payload, &one);
        skep_envelope_add(ret_envelope, &one.signatures[0].signer, one.signatures[0].bytes);
        skep_envelope_done(&one);
    }
    free(payload);
}

static void a_receipt_signed_by_three_of_four_is_good(void **state)
{
    struct world *world = *state;
    struct skep_envelope envelope = {0};
    struct skep_receipt_facts facts = {0};
    struct skep_error err = {0};
    sign(world, 3, &envelope);
    char *text = skep_envelope_write(&envelope);
    assert_int_equal(skep_receipt_check_text(&world->manifest, &world->donor, text, &facts, &err),
                     0);
    assert_int_equal(facts.version, 5);
    assert_true(world->credit > 0);
    assert_int_equal(facts.credit_micro, world->credit);
    assert_int_equal(facts.updates, 1);
    assert_null(skep_receipt_reason(&facts));
    assert_int_equal(facts.shard.kind, SKEP_SHARD_TRUNK);
    free(text);
    skep_envelope_done(&envelope);
}

static void two_of_four_are_no_majority(void **state)
{
    struct world *world = *state;
    struct skep_envelope envelope = {0};
    struct skep_receipt_facts facts = {0};
    sign(world, 2, &envelope);
    assert_int_equal(skep_receipt_check(&world->manifest, &world->donor, &envelope, &facts, NULL),
                     SKEP_ERR_SIGNATURE);
    skep_envelope_done(&envelope);
}

static void a_changed_credit_breaks_the_signatures(void **state)
{
    struct world *world = *state;
    struct skep_envelope envelope = {0};
    struct skep_receipt_facts facts = {0};
    sign(world, 4, &envelope);
    char *number = skep_format("%llu", (unsigned long long)world->credit);
    uint8_t *found = memmem(envelope.payload.data, envelope.payload.size, number, strlen(number));
    assert_non_null(found);
    found[0] = found[0] == '9' ? '8' : '9';
    free(number);
    assert_int_equal(skep_receipt_check(&world->manifest, &world->donor, &envelope, &facts, NULL),
                     SKEP_ERR_SIGNATURE);
    skep_envelope_done(&envelope);
}

static void a_signed_credit_that_the_job_does_not_earn_is_refused(void **state)
{
    struct world *world = *state;
    struct skep_envelope envelope = {0};
    struct skep_receipt_facts facts = {0};
    world->seal.receipts[1].credit_micro++;
    sign(world, 4, &envelope);
    assert_int_equal(skep_receipt_check(&world->manifest, &world->donor, &envelope, &facts, NULL),
                     SKEP_ERR_REFUSED);
    skep_envelope_done(&envelope);
}

static void an_update_that_was_not_merged_earns_nothing_and_says_why(void **state)
{
    struct world *world = *state;
    struct skep_receipt *mine = &world->seal.receipts[1];
    struct skep_receipt_facts facts = {0};
    static const char *const reasons[] = {"left out: its updates have pulled against the others'",
                                          "not merged: a near-copy of another",
                                          "not merged: it changes nothing"};
    for (int why = 0; why < 3; why++) {
        struct skep_envelope envelope = {0};
        mine->merged = false;
        mine->credit_micro = 0;
        mine->copy = why == 1;
        mine->agreement_permille = why == 2 ? 0 : -250;
        sign(world, 3, &envelope);
        assert_int_equal(
            skep_receipt_check(&world->manifest, &world->donor, &envelope, &facts, NULL), 0);
        assert_int_equal(facts.credit_micro, 0);
        assert_int_equal(facts.updates, 1);
        assert_int_equal(facts.merged, 0);
        assert_int_equal(facts.agreement_permille, mine->agreement_permille);
        assert_string_equal(skep_receipt_reason(&facts), reasons[why]);
        skep_envelope_done(&envelope);
    }
}

static void a_seal_of_others_is_no_receipt_of_mine(void **state)
{
    struct world *world = *state;
    struct skep_envelope envelope = {0};
    struct skep_receipt_facts facts = {0};
    struct skep_peer_id stranger = {{1, 2, 3}};
    sign(world, 4, &envelope);
    assert_int_equal(skep_receipt_check(&world->manifest, &stranger, &envelope, &facts, NULL),
                     SKEP_ERR_REFUSED);
    skep_envelope_done(&envelope);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, world_new, world_free)
    const struct CMUnitTest tests[] = {
        CASE(a_receipt_signed_by_three_of_four_is_good),
        CASE(two_of_four_are_no_majority),
        CASE(a_changed_credit_breaks_the_signatures),
        CASE(a_signed_credit_that_the_job_does_not_earn_is_refused),
        CASE(an_update_that_was_not_merged_earns_nothing_and_says_why),
        CASE(a_seal_of_others_is_no_receipt_of_mine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
