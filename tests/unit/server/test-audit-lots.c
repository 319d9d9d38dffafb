/* On which jobs of trusted donors the lot falls and when: updates that wait for the trunk's of their job, share its lot or come late. */
#include <string.h>

#include "common/crypto/hash.h"
#include "common/store/keeper-audits.h"
#include "common/swarm/reputation.h"
#include "server/audit-internal.h"
#include "server/audit.h"
#include "server/host.h"
#include "server/project.h"
#include "server/shard.h"
#include "server/trust.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/server/keeper-scene.h"

/* One more of the same donor and job; hands it in and says its hash. */
static struct skep_hash hand_in_part(struct scene *scene, struct draft *draft, size_t index)
{
    struct skep_error err = {0};
    scene->next_donor--;
    draft_done(draft);
    draft_begin(scene, draft, index);
    draft->statement.before.bytes[0] = (uint8_t)(index + 1);
    draft_seal(draft);
    assert_int_equal(scene_hand_in(scene, draft, &err), SKEP_OK);
    return skep_hash_of(draft->file.data, draft->file.size);
}

/* A seal of this shard with this update in its list, or none, and a beacon by which that is drawn or not. */
static void seal_at(struct scene *scene, size_t index, uint64_t version, bool listed,
                    const struct skep_hash *update, bool drawn)
{
    const struct skep_reputations *table = scene->project->reputations;
    struct skep_reputation reputation = skep_reputation_at(table, 0);
    struct skep_receipt receipt = {.update = *update, .donor = reputation.donor, .merged = true};
    struct skep_seal next = {.shard = scene->project->shards[index]->shard,
                             .version = version,
                             .receipt_count = listed,
                             .receipts = &receipt};
    struct skep_hash beacon = {{0}};
    while (skep_audit_drawn(&beacon, update, skep_audit_permille(&reputation)) != drawn) {
        assert_true(++beacon.bytes[0] != 0 || ++beacon.bytes[1] != 0);
    }
    skep_audit_sealed(scene->project->shards[index], &next, &beacon);
}

static void seal_with_lot(struct scene *scene, size_t index, const struct skep_hash *update,
                          bool drawn)
{
    seal_at(scene, index, HEAD + 1, true, update, drawn);
}

static bool is_admitted(const struct scene *scene, size_t index, const struct skep_hash *update,
                        const struct draft *draft)
{
    return skep_trust_admits(scene->project->shards[index], update, &draft->statement.donor);
}

static void
an_experts_update_of_a_trusted_donor_waits_for_the_trunks_and_shares_its_lot(void **state)
{
    struct scene *scene = *state;
    struct draft draft;
    scene_open_audits(scene);
    for (int drawn = 0; drawn < 2; drawn++) {
        draft_begin(scene, &draft, EXPERT_HERE);
        scene_trust(scene, &draft, SKEP_REPUTATION_MOST);
        struct skep_hash expert = hand_in_part(scene, &draft, EXPERT_HERE);
        assert_false(is_admitted(scene, EXPERT_HERE, &expert, &draft));
        struct skep_hash trunk = hand_in_part(scene, &draft, 0);
        assert_true(is_admitted(scene, EXPERT_HERE, &expert, &draft));
        assert_true(is_admitted(scene, 0, &trunk, &draft));
        seal_with_lot(scene, EXPERT_HERE, &expert, !drawn); /* not its lot */
        assert_int_equal(skep_audit_waiting(scene->host.audit), 0);
        seal_with_lot(scene, 0, &trunk, drawn);
        assert_int_equal(skep_audit_waiting(scene->host.audit), drawn);
        draft_done(&draft);
    }
    skep_audit_close(scene->host.audit);
}

static void a_job_that_no_version_of_the_trunk_merges_is_drawn_when_it_is_stale(void **state)
{
    struct scene *scene = *state;
    struct draft draft;
    scene_open_audits(scene);
    for (int drawn = 0; drawn < 2; drawn++) {
        draft_begin(scene, &draft, EXPERT_HERE);
        scene_trust(scene, &draft, SKEP_REPUTATION_MOST);
        hand_in_part(scene, &draft, EXPERT_HERE);
        struct skep_hash trunk = hand_in_part(scene, &draft, 0);
        for (uint64_t version = HEAD + 1; version <= HEAD + SKEP_LIMIT_STALENESS + 1; version++) {
            seal_at(scene, 0, version, false, &trunk, true);
            assert_int_equal(skep_audit_waiting(scene->host.audit), 0);
        }
        seal_at(scene, 0, HEAD + SKEP_LIMIT_STALENESS + 2, false, &trunk, drawn);
        assert_int_equal(skep_audit_waiting(scene->host.audit), drawn);
        draft_done(&draft);
    }
    skep_audit_close(scene->host.audit);
}

/* Two experts' updates of one job; the first is stale at once. */
static void hand_in_two(struct scene *scene, struct draft *draft, struct skep_hash ret_updates[2])
{
    draft_begin(scene, draft, EXPERT_HERE);
    scene_trust(scene, draft, SKEP_REPUTATION_MOST);
    ret_updates[0] = hand_in_part(scene, draft, EXPERT_HERE);
    ret_updates[1] = hand_in_part(scene, draft, EXPERT_THERE);
    scene->project->shards[EXPERT_HERE]->versions[0].version += SKEP_LIMIT_STALENESS + 2;
}

/* That one shard has gone on says nothing of the others: what may be merged yet must not get by without a lot. */
static void experts_updates_wait_for_the_trunks_as_long_as_it_can_come(void **state)
{
    struct scene *scene = *state;
    struct skep_kept_shard **shards = scene->project->shards;
    struct skep_hash updates[2];
    struct skep_hash none = {{0}};
    struct draft draft;
    uint64_t version = HEAD;
    assert_int_equal(
        skep_kept_shard_open(scene->project, EXPERT_THERE, &shards[EXPERT_THERE], NULL), SKEP_OK);
    scene_pretend_versions(shards[EXPERT_THERE]);
    scene_open_audits(scene);
    hand_in_two(scene, &draft, updates);
    while (version < HEAD + SKEP_LIMIT_STALENESS + 1) {
        seal_at(scene, 0, ++version, false, &none, true);
        assert_int_equal(scene_verdict(scene, &updates[0]), SKEP_AUDIT_OPEN);
        assert_int_equal(scene_verdict(scene, &updates[1]), SKEP_AUDIT_OPEN);
    }
    seal_at(scene, 0, ++version, false, &none, true);
    assert_int_equal(scene_verdict(scene, &updates[1]), SKEP_AUDIT_UNANSWERED);
    assert_false(is_admitted(scene, EXPERT_THERE, &updates[1], &draft));
    assert_true(skep_trust_is_trusted(scene->project, &draft.statement.donor));
    draft_done(&draft);
    shards[EXPERT_HERE]->versions[0].version = HEAD;
    hand_in_two(scene, &draft, updates);
    shards[EXPERT_THERE]->versions[0].version += SKEP_LIMIT_STALENESS + 2;
    seal_at(scene, 0, HEAD + 1, false, &none, true);
    assert_int_equal(scene_verdict(scene, &updates[1]), SKEP_AUDIT_NOT_DRAWN);
    draft_done(&draft);
    skep_audit_close(scene->host.audit);
}

/* Makes the keeper look at what waits: somebody shows the history that a job of its began with. */
static void let_keeper_look(struct scene *scene)
{
    struct skep_buffer bytes = {0};
    struct skep_error err = {0};
    struct skep_hash history = scene_make_history(scene, 0, &bytes);
    scene_hand_in_with(scene, 0, &history);
    assert_int_equal(skep_audit_evidence(scene->host.audit, &history, bytes.data, bytes.size, &err),
                     SKEP_OK);
    skep_buffer_done(&bytes);
}

/* Else whoever publishes the trunk's update first, and lies about experts when the lot has fallen, could do so for ever. */
static void
whoever_does_not_answer_for_an_update_that_came_late_has_not_answered_for_the_job(void **state)
{
    struct scene *scene = *state;
    struct draft draft;
    scene_open_audits(scene);
    scene->host.audit->queue.wait_ms = 0;
    draft_begin(scene, &draft, 0);
    scene_trust(scene, &draft, SKEP_REPUTATION_MOST);
    struct skep_hash trunk = hand_in_part(scene, &draft, 0);
    seal_with_lot(scene, 0, &trunk, false);
    struct skep_hash expert = hand_in_part(scene, &draft, EXPERT_HERE);
    seal_with_lot(scene, EXPERT_HERE, &expert, true);
    assert_int_equal(scene_verdict(scene, &trunk), SKEP_AUDIT_NOT_DRAWN);
    assert_true(skep_trust_is_trusted(scene->project, &draft.statement.donor));
    let_keeper_look(scene);
    assert_int_equal(scene_verdict(scene, &expert), SKEP_AUDIT_UNANSWERED);
    assert_int_equal(scene_verdict(scene, &trunk), SKEP_AUDIT_UNANSWERED);
    assert_int_equal(scene->project->audited[SKEP_AUDIT_UNANSWERED], 2);
    assert_false(skep_trust_is_trusted(scene->project, &draft.statement.donor));
    draft_done(&draft);
    skep_audit_close(scene->host.audit);
}

static void an_experts_update_that_comes_after_the_lot_has_one_of_its_own(void **state)
{
    struct scene *scene = *state;
    struct draft draft;
    scene_open_audits(scene);
    for (int drawn = 0; drawn < 2; drawn++) {
        draft_begin(scene, &draft, 0);
        scene_trust(scene, &draft, SKEP_REPUTATION_MOST);
        struct skep_hash trunk = hand_in_part(scene, &draft, 0);
        seal_with_lot(scene, 0, &trunk, false);
        struct skep_hash expert = hand_in_part(scene, &draft, EXPERT_HERE);
        assert_true(is_admitted(scene, EXPERT_HERE, &expert, &draft));
        seal_with_lot(scene, EXPERT_HERE, &expert, drawn);
        assert_int_equal(skep_audit_waiting(scene->host.audit), drawn);
        draft_done(&draft);
    }
    assert_int_equal(scene->project->audited[SKEP_AUDIT_NOT_DRAWN], 3); /* each trunk's once */
    /* but not when the trunk's, without which the job cannot be repeated, is gone */
    draft_begin(scene, &draft, 0);
    scene_trust(scene, &draft, SKEP_REPUTATION_MOST);
    struct skep_hash trunk = hand_in_part(scene, &draft, 0);
    seal_with_lot(scene, 0, &trunk, false);
    skep_blobs_remove(scene->host.blobs, &trunk);
    struct skep_hash expert = hand_in_part(scene, &draft, EXPERT_HERE);
    assert_false(is_admitted(scene, EXPERT_HERE, &expert, &draft));
    draft_done(&draft);
    skep_audit_close(scene->host.audit);
}

/* The lot for its job has fallen, its trunk's update is here, and what that began with is gone. */
static void
what_comes_too_late_to_be_repeated_is_left_out_and_not_held_against_its_donor(void **state)
{
    struct scene *scene = *state;
    struct skep_kept_shard *trunk = scene_trunk(scene);
    struct skep_version_row head = {.version = HEAD, .payload_hash = trunk->versions[0].payload};
    struct draft draft;
    scene_open_audits(scene);
    draft_begin(scene, &draft, 0);
    scene_trust(scene, &draft, SKEP_REPUTATION_MOST);
    struct skep_hash update = hand_in_part(scene, &draft, 0);
    seal_with_lot(scene, 0, &update, false);
    for (size_t i = 0; i < SKEP_KEPT_VERSIONS; i++) {
        trunk->versions[i].version += SKEP_KEPT_VERSIONS;
    }
    assert_int_equal(skep_keeper_db_add_version(scene->host.db, &scene->project->manifest.project,
                                                &trunk->shard, &head, NULL, 0, NULL),
                     SKEP_OK);
    struct skep_hash expert = hand_in_part(scene, &draft, EXPERT_HERE);
    assert_false(is_admitted(scene, EXPERT_HERE, &expert, &draft));
    assert_int_equal(scene_verdict(scene, &expert), SKEP_AUDIT_UNANSWERED);
    assert_int_equal(scene_verdict(scene, &update), SKEP_AUDIT_NOT_DRAWN);
    assert_true(skep_trust_is_trusted(scene->project, &draft.statement.donor));
    assert_int_equal(scene->host.audit->queue.count, 0);
    draft_done(&draft);
    skep_audit_close(scene->host.audit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            an_experts_update_of_a_trusted_donor_waits_for_the_trunks_and_shares_its_lot,
            keeper_scene_open, keeper_scene_close),
        cmocka_unit_test_setup_teardown(
            a_job_that_no_version_of_the_trunk_merges_is_drawn_when_it_is_stale, keeper_scene_open,
            keeper_scene_close),
        cmocka_unit_test_setup_teardown(experts_updates_wait_for_the_trunks_as_long_as_it_can_come,
                                        keeper_scene_open, keeper_scene_close),
        cmocka_unit_test_setup_teardown(
            whoever_does_not_answer_for_an_update_that_came_late_has_not_answered_for_the_job,
            keeper_scene_open, keeper_scene_close),
        cmocka_unit_test_setup_teardown(
            an_experts_update_that_comes_after_the_lot_has_one_of_its_own, keeper_scene_open,
            keeper_scene_close),
        cmocka_unit_test_setup_teardown(
            what_comes_too_late_to_be_repeated_is_left_out_and_not_held_against_its_donor,
            keeper_scene_open, keeper_scene_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
