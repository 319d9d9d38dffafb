/*
 * What becomes of updates with which nothing is wrong: they are stored once, sent away as long as the keeper cannot look at their job, held
 * beside a rival that the agreement asks for; their donors are told what they have passed, and known when the keeper starts again.
 */
#include <stdlib.h>
#include <string.h>

#include "common/crypto/hash.h"
#include "common/store/keeper-audits.h"
#include "common/swarm/statement.h"
#include "server/api/api.h"
#include "server/audit.h"
#include "server/host.h"
#include "server/intake.h"
#include "server/project.h"
#include "server/shard.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/server/keeper-scene.h"

static void good_updates_are_stored_once(void **state)
{
    struct scene *scene = *state;
    for (size_t index = 0; index <= EXPERT_HERE; index++) {
        struct skep_error err = {0};
        struct skep_hash hash = {{0}};
        struct draft draft;
        bool is_new = false;
        draft_begin(scene, &draft, index);
        draft_seal(&draft);
        int rc = scene_hand_in(scene, &draft, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(rc, SKEP_OK);
        assert_int_equal(scene_waiting(scene), index + 1);
        assert_int_equal(skep_intake_update(scene->project, draft.file.data, draft.file.size, &hash,
                                            &is_new, NULL),
                         SKEP_OK);
        assert_false(is_new);
        assert_true(skep_blobs_has(scene->host.blobs, &hash));
        assert_int_equal(scene_waiting(scene), index + 1);
        assert_int_equal(scene->project->accepted, index + 1);
        draft_done(&draft);
    }
}

static void an_update_of_the_common_mask_is_taken(void **state)
{
    struct scene *scene = *state;
    struct skep_error err = {0};
    struct draft draft;
    scene->project->manifest.update.mask = SKEP_MASK_COMMON;
    draft_begin(scene, &draft, 0); /* compressed with the mask, as the manifest says */
    draft_seal(&draft);
    int rc = scene_hand_in(scene, &draft, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, SKEP_OK);
    draft_done(&draft);
}

static void an_update_of_remote_calls_is_taken_if_the_project_merges_them(void **state)
{
    struct scene *scene = *state;
    struct skep_error err = {0};
    struct draft draft;
    draft_begin(scene, &draft, EXPERT_HERE);
    draft.statement.remote = true;
    draft.statement.tokens = 3;
    draft_sign_ticket(&draft, scene->project->shards[EXPERT_HERE], HEAD);
    draft_seal(&draft);
    int rc = scene_hand_in(scene, &draft, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, SKEP_OK);
    draft_done(&draft);
}

/* Newcomers have filled their room; nobody is judged by what is not looked at. */
static void
who_comes_when_there_is_no_room_to_repeat_its_job_is_sent_away_and_not_judged(void **state)
{
    struct scene *scene = *state;
    struct skep_manifest *manifest = &scene->project->manifest;
    struct skep_audit_row row;
    struct skep_error err = {0};
    struct draft draft;
    scene_open_audits(scene);
    manifest->trust.audits = true;
    scene->project->kept_count = scene->project->shard_count;
    for (size_t i = 0; i < SKEP_AUDIT_NEW_JOBS; i++) {
        draft_begin(scene, &draft, 0);
        draft_seal(&draft);
        assert_int_equal(scene_hand_in(scene, &draft, &err), SKEP_OK);
        draft_done(&draft);
    }
    draft_begin(scene, &draft, 0);
    draft_seal(&draft);
    struct skep_hash hash = skep_hash_of(draft.file.data, draft.file.size);
    assert_int_equal(scene_hand_in(scene, &draft, &err), SKEP_ERR_STATE);
    assert_int_equal(err.reason, SKEP_REFUSAL_WAITING);
    assert_int_equal(
        skep_keeper_db_get_audit(scene->host.db, &manifest->project, &hash, &row, NULL),
        SKEP_ERR_NOT_FOUND);
    assert_int_equal(skep_intake_fetched(scene->project, draft.file.data, draft.file.size, &err),
                     SKEP_OK);
    assert_int_equal(
        skep_keeper_db_get_audit(scene->host.db, &manifest->project, &hash, &row, NULL), SKEP_OK);
    assert_int_equal(row.verdict, SKEP_AUDIT_NOT_DRAWN);
    assert_int_equal(skep_audit_waiting(scene->host.audit), SKEP_AUDIT_NEW_JOBS);
    draft_done(&draft);
    skep_audit_close(scene->host.audit);
}

/* Hands it in over the API: is the donor told what it has passed? */
static bool is_told(struct scene *scene, const struct draft *draft, int status)
{
    struct skep_http_exchange exchange = {.body = draft->file.data, .body_size = draft->file.size};
    struct skep_http_reply reply = {0};
    struct skep_route_parts parts = {.count = 1};
    strcpy(parts.text[0], skep_id_text(scene->project->manifest.project.bytes));
    scene->host.projects[0] = scene->project;
    scene->host.project_count = 1;
    assert_int_equal(skep_api_post_update(&scene->host, &exchange, &parts, &reply, NULL), SKEP_OK);
    assert_int_equal(reply.status, status);
    skep_buffer_append(&reply.body, "", 1);
    bool told = strstr((const char *)reply.body.data, "\"audits_passed\":1") != NULL;
    skep_buffer_done(&reply.body);
    return told;
}

static void a_donor_is_told_what_it_has_passed_with_what_is_new(void **state)
{
    struct scene *scene = *state;
    struct draft draft;
    scene_open_audits(scene);
    draft_begin(scene, &draft, 0);
    scene_trust(scene, &draft, 1);
    draft_seal(&draft);
    assert_true(is_told(scene, &draft, 201));
    assert_false(is_told(scene, &draft, 200));
    draft_done(&draft);
    skep_audit_close(scene->host.audit);
}

static void a_job_with_a_version_that_is_not_here_is_sent_away_until_it_is(void **state)
{
    struct scene *scene = *state;
    struct skep_error err = {0};
    struct draft draft;
    struct skep_update_part part = {.shard = scene->project->shards[EXPERT_HERE]->shard,
                                    .base_version = HEAD + 1};
    scene_open_audits(scene);
    scene->project->manifest.trust.audits = true;
    scene->project->kept_count = scene->project->shard_count;
    draft_begin(scene, &draft, 0);
    draft.statement.part_count = 1;
    draft.statement.parts = &part;
    draft_seal(&draft);
    assert_int_equal(scene_hand_in(scene, &draft, &err), SKEP_ERR_STATE);
    assert_int_equal(err.reason, SKEP_REFUSAL_BASE_AHEAD);
    assert_int_equal(scene_waiting(scene), 0);
    /* but not if others have voted for it: they may be ahead of us */
    assert_int_equal(skep_intake_fetched(scene->project, draft.file.data, draft.file.size, &err),
                     SKEP_OK);
    draft_done(&draft);
    part.base_version = HEAD;
    draft_begin(scene, &draft, 0);
    draft.statement.part_count = 1;
    draft.statement.parts = &part;
    draft_seal(&draft);
    assert_int_equal(scene_hand_in(scene, &draft, &err), SKEP_OK);
    draft_done(&draft);
    skep_audit_close(scene->host.audit);
}

/* The trunk's next version, with one update in its list. */
static void seal_next(struct scene *scene, const struct skep_hash *update,
                      const struct draft *draft)
{
    struct skep_receipt receipt = {.update = *update,
                                   .donor = draft->statement.donor,
                                   .base_version = draft->statement.base_version,
                                   .merged = true};
    struct skep_seal next = {.project = scene->project->manifest.project,
                             .version = HEAD + 1,
                             .receipt_count = 1,
                             .receipts = &receipt};
    struct skep_envelope signed_by_nobody = {0};
    struct skep_hash payload = {{1}};
    skep_envelope_init(&signed_by_nobody, SKEP_TYPE_SEAL, "{}", 2);
    assert_int_equal(
        skep_kept_shard_pass(scene_trunk(scene), &signed_by_nobody, &next, &payload, NULL),
        SKEP_OK);
    skep_envelope_done(&signed_by_nobody);
}

/* A donor that shows each keeper another update must not stop the shard: the one that was voted for has to be held beside ours. */
static void a_rival_that_the_agreement_asks_for_is_held_until_one_of_them_is_merged(void **state)
{
    struct scene *scene = *state;
    struct skep_error err = {0};
    struct draft draft;
    draft_begin(scene, &draft, 0);
    draft_seal(&draft);
    assert_int_equal(scene_hand_in(scene, &draft, &err), SKEP_OK);
    struct skep_hash ours = skep_hash_of(draft.file.data, draft.file.size);
    draft.file.size = 0;
    draft.statement.loss_last += 1;
    draft_seal(&draft);
    struct skep_hash theirs = skep_hash_of(draft.file.data, draft.file.size);
    assert_int_equal(scene_hand_in(scene, &draft, &err), SKEP_ERR_DUPLICATE);
    for (int i = 0; i < 2; i++) { /* it may be asked for again */
        assert_int_equal(
            skep_intake_fetched(scene->project, draft.file.data, draft.file.size, &err), SKEP_OK);
        assert_int_equal(scene_waiting(scene), 2);
        assert_true(skep_blobs_has(scene->host.blobs, &ours));
        assert_true(skep_blobs_has(scene->host.blobs, &theirs));
    }
    seal_next(scene, &theirs, &draft);
    assert_int_equal(scene_waiting(scene), 0);
    assert_false(skep_blobs_has(scene->host.blobs, &ours));
    assert_true(
        skep_blobs_has(scene->host.blobs, &theirs)); /* its version may have to be made again */
    draft_done(&draft);
}

/* The head's seal in the database, with a receipt of this donor. */
static void store_head_seal(struct scene *scene, const struct draft *draft)
{
    const struct skep_project_id *project = &scene->project->manifest.project;
    struct skep_receipt receipt = {
        .update = {{1}}, .donor = draft->statement.donor, .base_version = HEAD - 1, .merged = true};
    struct skep_seal head = {.project = *project,
                             .version = HEAD,
                             .attempt = 1,
                             .receipt_count = 1,
                             .receipts = &receipt};
    char *payload = skep_seal_encode(&head);
    /* by anyone: signatures are checked when a seal comes, not when it is read again */
    char *text = skep_statement_sign_text(draft->key, SKEP_TYPE_SEAL, payload);
    struct skep_version_row row = {.version = HEAD, .seal = text};
    assert_int_equal(skep_keeper_db_add_version(scene->host.db, project, &scene_trunk(scene)->shard,
                                                &row, NULL, 0, NULL),
                     SKEP_OK);
    free(text);
    free(payload);
}

static void a_keeper_that_starts_again_knows_the_donors_that_its_seals_name(void **state)
{
    struct scene *scene = *state;
    struct skep_error err = {0};
    struct draft draft;
    draft_begin(scene, &draft, 0);
    draft_seal(&draft);
    scene->project->manifest.trust.stamp_bits = HARD_BITS;
    store_head_seal(scene, &draft);
    assert_int_equal(scene_hand_in(scene, &draft, &err), SKEP_ERR_REFUSED);
    assert_int_equal(err.reason, SKEP_REFUSAL_STAMP);
    skep_kept_shard_load_standings(scene_trunk(scene));
    assert_int_equal(scene_hand_in(scene, &draft, NULL), SKEP_OK);
    draft_done(&draft);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(good_updates_are_stored_once, keeper_scene_open,
                                        keeper_scene_close),
        cmocka_unit_test_setup_teardown(an_update_of_the_common_mask_is_taken, keeper_scene_open,
                                        keeper_scene_close),
        cmocka_unit_test_setup_teardown(
            an_update_of_remote_calls_is_taken_if_the_project_merges_them, keeper_scene_open,
            keeper_scene_close),
        cmocka_unit_test_setup_teardown(
            who_comes_when_there_is_no_room_to_repeat_its_job_is_sent_away_and_not_judged,
            keeper_scene_open, keeper_scene_close),
        cmocka_unit_test_setup_teardown(a_donor_is_told_what_it_has_passed_with_what_is_new,
                                        keeper_scene_open, keeper_scene_close),
        cmocka_unit_test_setup_teardown(
            a_job_with_a_version_that_is_not_here_is_sent_away_until_it_is, keeper_scene_open,
            keeper_scene_close),
        cmocka_unit_test_setup_teardown(
            a_rival_that_the_agreement_asks_for_is_held_until_one_of_them_is_merged,
            keeper_scene_open, keeper_scene_close),
        cmocka_unit_test_setup_teardown(
            a_keeper_that_starts_again_knows_the_donors_that_its_seals_name, keeper_scene_open,
            keeper_scene_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
