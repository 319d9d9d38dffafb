/* The fold over the trunk's seals, the audit curve, and who is picked. */
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/swarm/reputation.h"
#include "tests/lib/cmocka.h"

#define MOST 64u

static struct skep_peer_id donor_of(unsigned number)
{
    return (struct skep_peer_id){.bytes = {(uint8_t)(number >> 8), (uint8_t)number}};
}

static struct skep_hash hash_of(uint64_t number)
{
    struct skep_hash hash = {0};
    memcpy(hash.bytes, &number, sizeof number);
    return hash;
}

/* The next seal, filled by the tests and applied. */
struct draft {
    struct skep_receipt receipts[MOST];
    size_t receipt_count;
    struct skep_finding findings[MOST];
    size_t finding_count;
};

static void add_receipt(struct draft *draft, unsigned donor, bool audited)
{
    draft->receipts[draft->receipt_count++] =
        (struct skep_receipt){.donor = donor_of(donor), .audited = audited, .merged = true};
}

static void add_finding(struct draft *draft, unsigned donor, enum skep_verdict verdict)
{
    draft->findings[draft->finding_count++] =
        (struct skep_finding){.donor = donor_of(donor), .verdict = verdict};
}

static void apply(struct skep_reputations *table, struct draft *draft)
{
    const struct skep_seal seal = {.version = skep_reputation_version(table) + 1,
                                   .receipt_count = draft->receipt_count,
                                   .receipts = draft->receipts,
                                   .finding_count = draft->finding_count,
                                   .findings = draft->findings};
    assert_int_equal(skep_reputation_apply(table, &seal, NULL), SKEP_OK);
    *draft = (struct draft){0};
}

/* A version that merges one update of `donor`, if it is not UINT_MAX. */
static void pass(struct skep_reputations *table, unsigned donor, bool audited)
{
    struct draft draft = {0};
    if (donor != UINT32_MAX) {
        add_receipt(&draft, donor, audited);
    }
    apply(table, &draft);
}

static struct skep_reputation find(const struct skep_reputations *table, unsigned donor)
{
    struct skep_peer_id id = donor_of(donor);
    return skep_reputation_find(table, &id);
}

static void a_donor_never_seen_is_on_probation(void **state)
{
    (void)state;
    struct skep_reputations *table = skep_reputations_new(4);
    struct skep_reputation nobody = find(table, 1);
    assert_true(nobody.n == 0 && nobody.merged == 0 && !nobody.banned);
    assert_false(skep_reputation_trusted(&nobody));
    assert_int_equal(skep_audit_permille(&nobody), 1000);
    assert_false(skep_reputation_may_merge(&nobody, false));
    assert_true(skep_reputation_may_merge(&nobody, true));
    skep_reputations_free(table);
}

static void valid_audits_and_not_merged_updates_earn_trust(void **state)
{
    (void)state;
    struct skep_reputations *table = skep_reputations_new(4);
    for (unsigned i = 0; i < 2 * SKEP_PROBATION; i++) {
        struct draft draft = {0};
        add_receipt(&draft, 1, false);
        if (i < SKEP_PROBATION) {
            add_receipt(&draft, 2, true);
        } else {
            add_receipt(&draft, 2, false);
        }
        apply(table, &draft);
        bool trusted = i + 1 >= SKEP_PROBATION;
        struct skep_reputation two = find(table, 2);
        assert_int_equal(skep_reputation_trusted(&two), trusted);
    }
    struct skep_reputation one = find(table, 1);
    assert_int_equal(one.n, 0);
    assert_int_equal(one.merged, 2 * SKEP_PROBATION);
    assert_false(skep_reputation_may_merge(&one, false));
    skep_reputations_free(table);
}

static void a_valid_finding_earns_and_an_invalid_one_bans_for_ever(void **state)
{
    (void)state;
    struct skep_reputations *table = skep_reputations_new(4);
    struct draft draft = {0};
    add_receipt(&draft, 1, true);
    add_receipt(&draft, 2, true);
    apply(table, &draft);
    add_finding(&draft, 1, SKEP_VERDICT_VALID);
    add_finding(&draft, 2, SKEP_VERDICT_INVALID);
    add_finding(&draft, 3, SKEP_VERDICT_INVALID); /* refused before it was ever merged */
    add_finding(&draft, 4, SKEP_VERDICT_VALID);   /* of nobody we know */
    apply(table, &draft);
    assert_int_equal(find(table, 1).n, 2);
    assert_int_equal(find(table, 4).n, 0);
    for (unsigned i = 0; i < 100; i++) {
        add_receipt(&draft, 2, true);
        add_finding(&draft, 2, SKEP_VERDICT_INVALID);
        apply(table, &draft);
    }
    for (unsigned donor = 2; donor <= 3; donor++) {
        struct skep_reputation banned = find(table, donor);
        assert_true(banned.banned);
        assert_int_equal(banned.banned_at, 2);
        assert_false(skep_reputation_trusted(&banned));
        assert_false(skep_reputation_may_merge(&banned, true));
    }
    skep_reputations_free(table);
}

static void who_was_away_is_audited_once_and_fades_slowly(void **state)
{
    (void)state;
    struct skep_reputations *table = skep_reputations_new(4);
    for (unsigned i = 0; i < 60; i++) {
        pass(table, 1, true);
    }
    for (unsigned i = 0; i < 2; i++) { /* a job may take three versions */
        pass(table, UINT32_MAX, false);
        struct skep_reputation here = find(table, 1);
        assert_true(skep_reputation_trusted(&here));
        assert_int_equal(here.n, 60);
    }
    pass(table, UINT32_MAX, false);
    struct skep_reputation away = find(table, 1);
    assert_true(away.away);
    assert_int_equal(away.n, 59);
    assert_int_equal(skep_audit_permille(&away), 1000);
    for (unsigned i = 0; i < 99; i++) {
        pass(table, UINT32_MAX, false);
    }
    assert_int_equal(find(table, 1).n, 49); /* 60 * 0.998^100 = 49.11 */
    pass(table, 1, true);
    struct skep_reputation back = find(table, 1);
    assert_int_equal(back.n, 50);
    assert_true(skep_reputation_trusted(&back));
    for (unsigned i = 0; i < 6000; i++) {
        pass(table, UINT32_MAX, false);
    }
    assert_int_equal(find(table, 1).n, 0);
    skep_reputations_free(table);
}

static void a_hundred_keys_on_one_machine_never_leave_probation(void **state)
{
    (void)state;
    struct skep_reputations *table = skep_reputations_new(200);
    for (unsigned version = 0; version < 5000; version++) {
        pass(table, version % 100, true);
        struct skep_reputation next = find(table, (version + 1) % 100);
        struct skep_reputation now = find(table, version % 100);
        assert_false(skep_reputation_trusted(&next));
        assert_true(now.n < 6);
    }
    skep_reputations_free(table);
}

static void trust_costs_more_than_twenty_times_what_turning_brings(void **state)
{
    (void)state;
    double cost = 0;
    struct skep_reputation donor = {.merged = 1};
    uint32_t last = 1000;
    for (donor.n = 0; donor.n <= SKEP_REPUTATION_MOST; donor.n++) {
        uint32_t permille = skep_audit_permille(&donor);
        double jobs = 1000.0 / permille;
        if (donor.n >= SKEP_PROBATION) {
            assert_true((jobs + SKEP_AUDIT_DELAY) * 20.9 <= cost);
        }
        assert_true(permille <= last);
        last = permille;
        cost += jobs;
    }
    assert_int_equal(last, SKEP_AUDIT_FLOOR_PERMILLE);
    donor.n = SKEP_PROBATION + 1;
    assert_int_equal(skep_audit_permille(&donor), 955); /* 1 / (43 / 21 - 1), rounded up */
}

static void lots_are_drawn_as_often_as_asked(void **state)
{
    (void)state;
    unsigned drawn = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        struct skep_hash beacon = hash_of(i / 100);
        struct skep_hash update = hash_of(i);
        drawn += skep_audit_drawn(&beacon, &update, 50);
        assert_true(skep_audit_drawn(&beacon, &update, 1000));
        assert_false(skep_audit_drawn(&beacon, &update, 0));
    }
    assert_in_range(drawn, 877, 1123); /* 1000 +- 4 sigma */
}

static void a_full_table_forgets_the_least_and_bans_last(void **state)
{
    (void)state;
    struct skep_reputations *table = skep_reputations_new(3);
    struct draft draft = {0};
    add_finding(&draft, 1, SKEP_VERDICT_INVALID);
    apply(table, &draft);
    pass(table, 2, true);
    pass(table, 3, false);
    assert_int_equal(skep_reputation_count(table), 3);
    pass(table, 4, true); /* 3 has n = 0 */
    assert_int_equal(find(table, 3).merged, 0);
    size_t count = 0;
    const struct skep_peer_id *forgotten = skep_reputation_forgotten(table, &count);
    struct skep_peer_id third = donor_of(3);
    assert_int_equal(count, 1);
    assert_true(skep_peer_id_equal(forgotten, &third));
    pass(table, 5, true); /* 2 and 4 have n = 1: 2 was seen earlier */
    assert_int_equal(find(table, 2).merged, 0);
    assert_int_equal(find(table, 4).merged, 1);
    assert_true(find(table, 1).banned);
    for (unsigned i = 6; i < 8; i++) {
        add_finding(&draft, i, SKEP_VERDICT_INVALID);
    }
    apply(table, &draft);
    add_finding(&draft, 8, SKEP_VERDICT_INVALID);
    apply(table, &draft);
    assert_false(find(table, 1).banned); /* only bans are left: the oldest goes */
    assert_true(find(table, 8).banned);
    assert_int_equal(skep_reputation_count(table), 3);
    skep_reputations_free(table);
}

static void versions_come_in_order_and_of_the_trunk(void **state)
{
    (void)state;
    struct skep_reputations *table = skep_reputations_new(3);
    struct skep_error err = {0};
    struct skep_seal seal = {.version = 2};
    assert_int_equal(skep_reputation_apply(table, &seal, &err), SKEP_ERR_STATE);
    assert_string_equal(err.text, "the seal is of trunk version 2, reputation waits for 1");
    seal = (struct skep_seal){.version = 1, .shard = {SKEP_SHARD_FFN, 1, 2, 3}};
    assert_int_equal(skep_reputation_apply(table, &seal, &err), SKEP_ERR_ARGUMENT);
    assert_int_equal(skep_reputation_version(table), 0);
    skep_reputations_free(table);
}

/* A random history of `versions` more versions; the same for the same generator. */
static void random_versions(struct skep_reputations *table, struct skep_rng *rng, unsigned versions)
{
    for (unsigned v = 0; v < versions; v++) {
        struct draft draft = {0};
        for (unsigned i = 0; i < 8; i++) {
            add_receipt(&draft, (unsigned)skep_rng_below(rng, 40), skep_rng_below(rng, 2) == 0);
        }
        if (skep_rng_below(rng, 10) == 0) {
            add_finding(&draft, (unsigned)skep_rng_below(rng, 50), SKEP_VERDICT_INVALID);
        }
        add_finding(&draft, (unsigned)skep_rng_below(rng, 50), SKEP_VERDICT_VALID);
        apply(table, &draft);
    }
}

static void assert_same(const struct skep_reputations *a, const struct skep_reputations *b)
{
    assert_int_equal(skep_reputation_version(a), skep_reputation_version(b));
    assert_int_equal(skep_reputation_count(a), skep_reputation_count(b));
    for (size_t i = 0; i < skep_reputation_count(a); i++) {
        struct skep_reputation of_a = skep_reputation_at(a, i);
        struct skep_reputation of_b = skep_reputation_at(b, i);
        assert_true(skep_peer_id_equal(&of_a.donor, &of_b.donor));
        assert_true(of_a.earned == of_b.earned && of_a.seen == of_b.seen &&
                    of_a.merged == of_b.merged && of_a.banned == of_b.banned &&
                    of_a.banned_at == of_b.banned_at && of_a.n == of_b.n && of_a.away == of_b.away);
    }
}

static void a_restored_table_goes_on_as_the_old_one(void **state)
{
    (void)state;
    struct skep_reputations *whole = skep_reputations_new(30);
    struct skep_rng rng = skep_rng_of(5);
    random_versions(whole, &rng, 100);
    size_t count = skep_reputation_count(whole);
    struct skep_reputation *rows = skep_alloc(count, sizeof *rows);
    for (size_t i = 0; i < count; i++) {
        rows[i] = skep_reputation_at(whole, i);
    }
    struct skep_reputations *restored = skep_reputations_new(30);
    assert_int_equal(skep_reputation_restore(restored, 100, rows, count, NULL), SKEP_OK);
    assert_same(whole, restored);
    struct skep_rng again = rng;
    random_versions(whole, &rng, 100);
    random_versions(restored, &again, 100);
    assert_same(whole, restored);
    free(rows);
    skep_reputations_free(whole);
    skep_reputations_free(restored);
}

static void rows_that_no_table_holds_are_refused(void **state)
{
    (void)state;
    const struct {
        struct skep_reputation rows[2];
        int result;
    } cases[] = {
        {{{.donor = {{2}}, .merged = 1, .seen = 1}, {.donor = {{1}}, .merged = 1, .seen = 1}},
         SKEP_ERR_FORMAT},
        {{{.donor = {{1}}, .merged = 1, .seen = 9}, {.donor = {{2}}, .merged = 1, .seen = 1}},
         SKEP_ERR_FORMAT},
        {{{.donor = {{1}}, .merged = 1, .seen = 1, .earned = UINT64_C(1) << 40},
          {.donor = {{2}}, .merged = 1, .seen = 1}},
         SKEP_ERR_FORMAT},
        {{{.donor = {{1}}, .merged = 0, .seen = 0, .earned = 65536},
          {.donor = {{2}}, .merged = 1, .seen = 1}},
         SKEP_ERR_FORMAT},
        {{{.donor = {{1}}, .banned_at = 1}, {.donor = {{2}}, .merged = 1, .seen = 1}},
         SKEP_ERR_FORMAT},
        {{{.donor = {{1}}, .banned = true, .banned_at = 3},
          {.donor = {{2}}, .merged = 1, .seen = 1}},
         SKEP_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct skep_reputations *table = skep_reputations_new(2);
        assert_int_equal(skep_reputation_restore(table, 5, cases[i].rows, 2, NULL),
                         cases[i].result);
        assert_int_equal(skep_reputation_count(table), cases[i].result == SKEP_OK ? 2 : 0);
        skep_reputations_free(table);
    }
}

static void higher_trust_goes_first_and_then_the_hash(void **state)
{
    (void)state;
    struct skep_reputation low = {.n = 60, .merged = 80};
    struct skep_reputation high = {.n = 70, .merged = 80};
    struct skep_reputation away = {.n = 90, .merged = 99, .away = true};
    struct skep_hash one = hash_of(1);
    struct skep_hash two = hash_of(2);
    assert_true(skep_reputation_before(&high, &two, &low, &one) < 0);
    assert_true(skep_reputation_before(&away, &one, &low, &two) > 0);
    assert_true(skep_reputation_before(&low, &one, &low, &two) < 0);
    assert_true(skep_reputation_before(&low, &two, &low, &one) > 0);
}

static size_t suspects(const struct skep_receipt *receipts, size_t count, bool alarm, bool *ret)
{
    memset(ret, 0, count);
    return skep_audit_suspects(receipts, count, alarm, ret);
}

static void copies_and_the_least_alike_are_looked_at(void **state)
{
    (void)state;
    struct skep_receipt receipts[40];
    bool audit[40];
    for (size_t i = 0; i < 40; i++) {
        receipts[i] = (struct skep_receipt){.merged = true, .agreement_permille = 300 + (int32_t)i};
    }
    receipts[5].copy = true;
    receipts[9].agreement_permille = 10;
    assert_int_equal(suspects(receipts, 7, false, audit), 1);
    assert_true(audit[5]);
    assert_int_equal(suspects(receipts, 12, false, audit), 2);
    assert_true(audit[5] && audit[9]);
    assert_int_equal(suspects(receipts, 40, false, audit), 3);
    assert_true(audit[5] && audit[9] && audit[0]);
    assert_int_equal(suspects(receipts, 40, true, audit), 40);
    assert_int_equal(suspects(receipts, 0, true, audit), 0);
}

static void too_many_strange_updates_are_an_alarm(void **state)
{
    (void)state;
    struct skep_receipt receipts[16];
    bool audit[16];
    for (size_t i = 0; i < 16; i++) {
        receipts[i] = (struct skep_receipt){.merged = true, .agreement_permille = 300};
    }
    receipts[0].agreement_permille = -1;
    receipts[1].agreement_permille = -500;
    receipts[2].agreement_permille = -1;
    receipts[3].copy = true;
    assert_int_equal(suspects(receipts, 16, false, audit), 2);
    receipts[4].copy = true;
    assert_int_equal(suspects(receipts, 16, false, audit), 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_donor_never_seen_is_on_probation),
        cmocka_unit_test(valid_audits_and_not_merged_updates_earn_trust),
        cmocka_unit_test(a_valid_finding_earns_and_an_invalid_one_bans_for_ever),
        cmocka_unit_test(who_was_away_is_audited_once_and_fades_slowly),
        cmocka_unit_test(a_hundred_keys_on_one_machine_never_leave_probation),
        cmocka_unit_test(trust_costs_more_than_twenty_times_what_turning_brings),
        cmocka_unit_test(lots_are_drawn_as_often_as_asked),
        cmocka_unit_test(a_full_table_forgets_the_least_and_bans_last),
        cmocka_unit_test(versions_come_in_order_and_of_the_trunk),
        cmocka_unit_test(a_restored_table_goes_on_as_the_old_one),
        cmocka_unit_test(rows_that_no_table_holds_are_refused),
        cmocka_unit_test(higher_trust_goes_first_and_then_the_hash),
        cmocka_unit_test(copies_and_the_least_alike_are_looked_at),
        cmocka_unit_test(too_many_strange_updates_are_an_alarm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
