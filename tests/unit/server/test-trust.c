/* Whose updates may be merged, as far as a keeper's own audits say. */
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/store/keeper-audits.h"
#include "common/swarm/reputation.h"
#include "common/swarm/statement.h"
#include "common/sys/file.h"
#include "server/host.h"
#include "server/project.h"
#include "server/shard.h"
#include "server/trust.h"
#include "tests/lib/cmocka.h"

static const struct skep_peer_id DONOR = {{2}};
static const struct skep_peer_id OTHER = {{3}};

struct scene {
    char folder[64];
    struct skep_host host;
    struct skep_project project;
    struct skep_kept_shard shard;
};

static int set_up(void **state)
{
    struct scene *scene = skep_alloc(1, sizeof *scene);
    strcpy(scene->folder, "/tmp/skep-trust-XXXXXX");
    assert_non_null(mkdtemp(scene->folder));
    char *path = skep_format("%s/keeper.db", scene->folder);
    assert_int_equal(skep_keeper_db_open(path, &scene->host.db, NULL), SKEP_OK);
    free(path);
    scene->project.host = &scene->host;
    scene->project.manifest.project.bytes[0] = 1;
    scene->project.manifest.trust.audits = true;
    scene->shard.project = &scene->project;
    assert_int_equal(
        skep_keeper_db_add_project(scene->host.db, &scene->project.manifest.project, "{}", NULL),
        SKEP_OK);
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    skep_reputations_free(scene->project.reputations);
    skep_keeper_db_close(scene->host.db);
    skep_folder_remove(scene->folder, NULL);
    free(scene);
    return 0;
}

static struct skep_hash add(struct scene *scene, uint8_t number, const struct skep_peer_id *donor,
                            enum skep_audit_verdict verdict)
{
    struct skep_audit_row row = {.update = {{number}},
                                 .shard = {.kind = SKEP_SHARD_TRUNK},
                                 .donor = *donor,
                                 .base_version = number,
                                 .verdict = verdict};
    assert_int_equal(
        skep_keeper_db_add_audit(scene->host.db, &scene->project.manifest.project, &row, NULL),
        SKEP_OK);
    return row.update;
}

static bool admits(const struct scene *scene, struct skep_hash update,
                   const struct skep_peer_id *donor)
{
    return skep_trust_admits(&scene->shard, &update, donor);
}

/* The donor's reputation after so many versions, in each of which an audited update of its was merged. */
static void earn(struct scene *scene, uint64_t versions)
{
    scene->project.reputations = skep_reputations_new(SKEP_REPUTATION_LIMIT);
    for (uint64_t version = 1; version <= versions; version++) {
        struct skep_receipt receipt = {.donor = DONOR, .merged = true, .audited = true};
        struct skep_seal seal = {.shard = {.kind = SKEP_SHARD_TRUNK},
                                 .version = version,
                                 .receipt_count = 1,
                                 .receipts = &receipt};
        assert_int_equal(skep_reputation_apply(scene->project.reputations, &seal, NULL), SKEP_OK);
    }
}

static void an_update_of_a_new_donor_waits_for_its_verdict(void **state)
{
    struct scene *scene = *state;
    assert_false(admits(scene, add(scene, 1, &DONOR, SKEP_AUDIT_OPEN), &DONOR));
    assert_false(admits(scene, add(scene, 2, &DONOR, SKEP_AUDIT_UNANSWERED), &DONOR));
    assert_true(admits(scene, add(scene, 3, &DONOR, SKEP_AUDIT_VALID), &DONOR));
    assert_true(admits(scene, (struct skep_hash){{9}}, &DONOR)); /* of remote calls */
}

static void who_was_caught_is_banned_and_nobody_else(void **state)
{
    struct scene *scene = *state;
    struct skep_hash valid = add(scene, 1, &DONOR, SKEP_AUDIT_VALID);
    struct skep_hash other = add(scene, 2, &OTHER, SKEP_AUDIT_VALID);
    add(scene, 3, &DONOR, SKEP_AUDIT_INVALID);
    assert_true(skep_trust_is_banned(&scene->project, &DONOR));
    assert_false(skep_trust_is_banned(&scene->project, &OTHER));
    assert_false(admits(scene, valid, &DONOR));
    assert_true(admits(scene, other, &OTHER));
}

static void what_a_donor_has_passed_of_its_probation_is_known_from_the_seals(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(skep_trust_passed(&scene->project, &DONOR), 0);
    earn(scene, 5);
    assert_int_equal(skep_trust_passed(&scene->project, &DONOR), 5);
    assert_int_equal(skep_trust_passed(&scene->project, &OTHER), 0);
    skep_reputations_free(scene->project.reputations);
    earn(scene, SKEP_PROBATION + 5);
    assert_int_equal(skep_trust_passed(&scene->project, &DONOR), SKEP_PROBATION);
}

static void a_trusted_donors_update_is_merged_at_once_unless_it_owes_an_answer(void **state)
{
    struct scene *scene = *state;
    earn(scene, SKEP_PROBATION);
    struct skep_hash open = add(scene, 1, &DONOR, SKEP_AUDIT_OPEN);
    assert_true(admits(scene, open, &DONOR));
    add(scene, 2, &DONOR, SKEP_AUDIT_UNANSWERED);
    add(scene, 3, &DONOR, SKEP_AUDIT_NOT_DRAWN);
    assert_false(admits(scene, open, &DONOR));
    for (uint8_t i = 0; i < SKEP_PROBATION; i++) {
        assert_int_equal(skep_trust_passed(&scene->project, &DONOR), i);
        assert_false(admits(scene, open, &DONOR));
        add(scene, (uint8_t)(4 + i), &DONOR, SKEP_AUDIT_VALID);
    }
    assert_true(admits(scene, open, &DONOR));
}

static void an_experts_update_goes_nowhere_without_the_trunks(void **state)
{
    struct scene *scene = *state;
    earn(scene, SKEP_PROBATION);
    for (uint8_t i = 0; i < 2; i++) {
        struct skep_audit_row row = {.update = {{(uint8_t)(i + 1)}},
                                     .shard = {.kind = SKEP_SHARD_FFN},
                                     .donor = DONOR,
                                     .ticket = {{(uint8_t)(i + 1)}},
                                     .verdict = i == 0 ? SKEP_AUDIT_OPEN : SKEP_AUDIT_NOT_DRAWN};
        struct skep_audit_row trunk = row;
        trunk.shard.kind = SKEP_SHARD_TRUNK;
        trunk.update.bytes[0] += 2;
        struct skep_keeper_db *db = scene->host.db;
        const struct skep_project_id *project = &scene->project.manifest.project;
        assert_int_equal(skep_keeper_db_add_audit(db, project, &row, NULL), SKEP_OK);
        assert_false(admits(scene, row.update, &DONOR));
        assert_int_equal(skep_keeper_db_add_audit(db, project, &trunk, NULL), SKEP_OK);
        assert_true(admits(scene, row.update, &DONOR));
    }
}

static void fall_silent(struct scene *scene, uint8_t number)
{
    add(scene, number, &DONOR, skep_trust_silence(&scene->project, &DONOR));
}

static void silence_in_a_probation_makes_it_no_longer_and_after_it_begins_another(void **state)
{
    struct scene *scene = *state;
    earn(scene, SKEP_PROBATION);
    struct skep_hash open = add(scene, 1, &DONOR, SKEP_AUDIT_OPEN);
    fall_silent(scene, 2);
    for (uint8_t i = 0; i < SKEP_PROBATION; i++) {
        fall_silent(scene, (uint8_t)(3 + 2 * i));
        assert_false(admits(scene, open, &DONOR));
        add(scene, (uint8_t)(4 + 2 * i), &DONOR, SKEP_AUDIT_VALID);
    }
    assert_true(admits(scene, open, &DONOR));
    fall_silent(scene, 100);
    add(scene, 101, &DONOR, SKEP_AUDIT_VALID);
    assert_false(admits(scene, open, &DONOR));
}

static void a_debt_that_is_paid_does_not_come_back_when_old_rows_are_forgotten(void **state)
{
    struct scene *scene = *state;
    uint8_t number = 1;
    earn(scene, SKEP_PROBATION);
    fall_silent(scene, number);
    while (number < SKEP_PROBATION) {
        add(scene, ++number, &DONOR, SKEP_AUDIT_VALID);
    }
    fall_silent(scene, ++number); /* while one is owed */
    assert_int_equal(skep_trust_passed(&scene->project, &DONOR), SKEP_PROBATION - 1);
    struct skep_hash silent = {{number}};
    add(scene, ++number, &DONOR, SKEP_AUDIT_VALID);
    assert_true(skep_trust_is_trusted(&scene->project, &DONOR));
    assert_false(admits(scene, silent, &DONOR)); /* nobody has looked at it all the same */
    for (uint8_t i = 1; i <= number; i++) {
        struct skep_hash update = {{i}};
        assert_int_equal(skep_keeper_db_remove_audit(
                             scene->host.db, &scene->project.manifest.project, &update, NULL),
                         SKEP_OK);
        assert_true(skep_trust_is_trusted(&scene->project, &DONOR));
    }
}

static void a_project_without_audits_or_a_keeper_of_some_shards_holds_back_nothing(void **state)
{
    struct scene *scene = *state;
    struct skep_hash open = add(scene, 1, &DONOR, SKEP_AUDIT_OPEN);
    add(scene, 2, &DONOR, SKEP_AUDIT_INVALID);
    scene->project.shard_count = 1; /* none of which is here */
    assert_true(admits(scene, open, &DONOR));
    assert_false(skep_trust_is_banned(&scene->project, &DONOR));
    scene->project.shard_count = 0;
    scene->project.manifest.trust.audits = false;
    assert_true(admits(scene, open, &DONOR));
}

static void what_a_seal_bans_is_banned_where_nothing_is_audited_too(void **state)
{
    struct scene *scene = *state;
    struct skep_hash open = add(scene, 1, &DONOR, SKEP_AUDIT_VALID);
    struct skep_finding finding = {.donor = DONOR, .verdict = SKEP_VERDICT_INVALID};
    struct skep_seal seal = {.shard = {.kind = SKEP_SHARD_TRUNK},
                             .version = 1,
                             .finding_count = 1,
                             .findings = &finding};
    scene->project.shard_count = 1; /* none of which is here */
    assert_true(admits(scene, open, &DONOR));
    scene->project.reputations = skep_reputations_new(SKEP_REPUTATION_LIMIT);
    assert_int_equal(skep_reputation_apply(scene->project.reputations, &seal, NULL), SKEP_OK);
    assert_true(skep_trust_is_banned(&scene->project, &DONOR));
    assert_false(admits(scene, open, &DONOR));
    struct skep_update_statement statement = {.donor = DONOR};
    struct skep_error err = {0};
    assert_int_equal(skep_trust_check(&scene->project, &statement, NULL, &err), SKEP_ERR_REFUSED);
    assert_int_equal(err.reason, SKEP_REFUSAL_BANNED);
    scene->project.shard_count = 0;
}

static void a_seals_changes_go_with_its_row_once_the_database_has_the_rest(void **state)
{
    struct scene *scene = *state;
    struct skep_receipt receipt = {.donor = DONOR, .merged = true, .audited = true};
    struct skep_seal seal = {.shard = {.kind = SKEP_SHARD_TRUNK},
                             .version = 1,
                             .receipt_count = 1,
                             .receipts = &receipt};
    struct skep_version_row row = {0};
    scene->project.reputations = skep_reputations_new(SKEP_REPUTATION_LIMIT);
    skep_trust_apply(&scene->project, &seal, &row);
    assert_int_equal(row.reputation_count, 0); /* rows that are behind are made anew as a whole */
    scene->project.reputations_stored = true;
    skep_trust_apply(&scene->project, &seal, &row);
    assert_int_equal(row.reputation_count, 1);
    assert_int_equal(row.reputation[0].n, 1);
    free((void *)row.reputation);
    row = (struct skep_version_row){0};
    skep_trust_apply(&scene->project, &seal, &row); /* the same once more */
    assert_int_equal(row.reputation_count, 0);
}

/* Version 1 of the trunk, whose seal says that update `number` was found valid. */
static void store_seal(struct scene *scene, const struct skep_key *key, uint8_t number)
{
    struct skep_finding finding = {.update = {{number}}, .donor = DONOR};
    struct skep_seal seal = {.project = scene->project.manifest.project,
                             .shard = {.kind = SKEP_SHARD_TRUNK},
                             .version = 1,
                             .finding_count = 1,
                             .findings = &finding};
    char *payload = skep_seal_encode(&seal);
    char *text = skep_statement_sign_text(key, SKEP_TYPE_SEAL, payload);
    struct skep_version_row row = {.version = 1, .seal = text};
    assert_int_equal(
        skep_keeper_db_add_version(scene->host.db, &seal.project, &seal.shard, &row, NULL, 0, NULL),
        SKEP_OK);
    scene->shard.versions[0].version = 1;
    free(text);
    free(payload);
}

/* What a lone keeper's machine at version 1 puts into its next seal. */
static struct skep_seal next_seal(struct skep_round *round)
{
    struct skep_round_update update = {.hash = {{9}}, .donor = OTHER, .base_version = 1};
    struct skep_round_outcome outcome = {.updates = {{.merged = true}}};
    struct skep_seal seal = {0};
    struct skep_round_action action;
    skep_round_add(round, &update, 1000);
    skep_round_merged(round, 1, &update, 1, &outcome, 1000);
    while (skep_round_take(round, &action)) {
        const struct skep_buffer *vote = &action.memory.vote_payload;
        if (action.kind == SKEP_ROUND_PERSIST && seal.version == 0) {
            assert_int_equal(skep_seal_decode(vote->data, vote->size, &seal, NULL), SKEP_OK);
        }
        skep_round_action_done(&action);
    }
    return seal;
}

static void a_machine_that_starts_is_told_what_no_seal_says(void **state)
{
    struct scene *scene = *state;
    uint8_t seed[32] = {5};
    struct skep_key *key = skep_key_from_seed(seed);
    struct skep_peer_id id = skep_key_id(key);
    struct skep_manifest *manifest = &scene->project.manifest;
    struct skep_round_memory memory = {.version = 1};
    manifest->keepers = &id;
    manifest->keeper_count = 1;
    manifest->replicas = 1;
    manifest->merge.most_updates = 4;
    scene->host.loop = skep_loop_new();
    add(scene, 0, &DONOR, SKEP_AUDIT_VALID);
    add(scene, 1, &OTHER, SKEP_AUDIT_INVALID);
    struct skep_audit_row late = {
        .update = {{2}}, .shard = {.kind = SKEP_SHARD_TRUNK}, .donor = DONOR};
    late.verdict = SKEP_AUDIT_VALID;
    assert_int_equal(skep_keeper_db_add_audit(scene->host.db, &manifest->project, &late, NULL),
                     SKEP_OK);
    store_seal(scene, key, 0);
    scene->shard.round = skep_round_new(manifest, &(struct skep_shard){.kind = SKEP_SHARD_TRUNK},
                                        key, &memory, NULL, 0);
    skep_trust_tell(&scene->shard);
    struct skep_seal seal = next_seal(scene->shard.round);
    assert_int_equal(seal.finding_count, 2);
    for (size_t i = 0; i < seal.finding_count; i++) {
        assert_int_equal(seal.findings[i].update.bytes[0], i + 1);
        assert_int_equal(seal.findings[i].verdict,
                         i == 0 ? SKEP_VERDICT_INVALID : SKEP_VERDICT_VALID);
    }
    skep_seal_done(&seal);
    skep_round_free(scene->shard.round);
    skep_loop_free(scene->host.loop);
    skep_key_free(key);
    manifest->keepers = NULL;
}

static void histories_are_a_chain_where_the_link_before_is_known(void **state)
{
    struct scene *scene = *state;
    struct skep_update_statement statement = {.donor = DONOR, .base_version = 6};
    struct skep_audit_row row = {.update = {{5}},
                                 .shard = {.kind = SKEP_SHARD_TRUNK},
                                 .donor = DONOR,
                                 .base_version = 5,
                                 .after = {{77}},
                                 .verdict = SKEP_AUDIT_VALID};
    statement.before.bytes[0] = 78;
    assert_int_equal(skep_trust_check(&scene->project, &statement, NULL, NULL), SKEP_OK);
    assert_int_equal(
        skep_keeper_db_add_audit(scene->host.db, &scene->project.manifest.project, &row, NULL),
        SKEP_OK);
    struct skep_error err = {0};
    assert_int_equal(skep_trust_check(&scene->project, &statement, NULL, &err), SKEP_ERR_REFUSED);
    assert_int_equal(err.reason, SKEP_REFUSAL_HISTORY);
    statement.base_version = 7; /* one may be missing here */
    assert_int_equal(skep_trust_check(&scene->project, &statement, NULL, NULL), SKEP_OK);
    statement.base_version = 6;
    statement.before.bytes[0] = 77;
    assert_int_equal(skep_trust_check(&scene->project, &statement, NULL, NULL), SKEP_OK);
    statement.before.bytes[0] = 0; /* it begins anew */
    assert_int_equal(skep_trust_check(&scene->project, &statement, NULL, NULL), SKEP_OK);
    struct skep_update_part part = {.shard = row.shard, .base_version = 6, .before = {{78}}};
    statement.part_count = 1;
    assert_int_equal(skep_trust_check(&scene->project, &statement, &part, NULL), SKEP_ERR_REFUSED);
}

#define IN_SCENE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCENE(an_update_of_a_new_donor_waits_for_its_verdict),
        IN_SCENE(who_was_caught_is_banned_and_nobody_else),
        IN_SCENE(what_a_donor_has_passed_of_its_probation_is_known_from_the_seals),
        IN_SCENE(a_trusted_donors_update_is_merged_at_once_unless_it_owes_an_answer),
        IN_SCENE(an_experts_update_goes_nowhere_without_the_trunks),
        IN_SCENE(silence_in_a_probation_makes_it_no_longer_and_after_it_begins_another),
        IN_SCENE(a_debt_that_is_paid_does_not_come_back_when_old_rows_are_forgotten),
        IN_SCENE(a_project_without_audits_or_a_keeper_of_some_shards_holds_back_nothing),
        IN_SCENE(what_a_seal_bans_is_banned_where_nothing_is_audited_too),
        IN_SCENE(a_seals_changes_go_with_its_row_once_the_database_has_the_rest),
        IN_SCENE(a_machine_that_starts_is_told_what_no_seal_says),
        IN_SCENE(histories_are_a_chain_where_the_link_before_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
