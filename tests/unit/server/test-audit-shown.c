/* What donors show of the jobs that a keeper audits: whose histories are taken, what convicts by itself, and who is silent. */
#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/crypto/hash.h"
#include "common/swarm/history.h"
#include "common/sys/file.h"
#include "server/audit-internal.h"
#include "server/audit-job.h"
#include "server/audit.h"
#include "server/host.h"
#include "server/project.h"
#include "server/shard.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/server/keeper-scene.h"

/* Updates are public: a stranger can say that its job of another shard began with the history of another donor. */
static void
whoever_names_the_history_of_another_donor_does_not_keep_it_from_being_shown(void **state)
{
    struct scene *scene = *state;
    struct skep_buffer bytes = {0};
    struct skep_error err = {0};
    size_t parameters = scene_trunk(scene)->shape.layout.parameters;
    assert_true(parameters != scene->project->shards[EXPERT_HERE]->shape.layout.parameters);
    struct skep_hash moments = scene_add_flat(&bytes, SKEP_MOMENT_ARRAYS, parameters);
    struct skep_hash residual = scene_add_flat(&bytes, SKEP_RESIDUAL_ARRAYS, parameters);
    struct skep_hash history = skep_history_of(&moments, &residual);
    scene_open_audits(scene);
    scene->project->manifest.trust.audits = true;
    scene->project->kept_count = scene->project->shard_count;
    struct skep_audit *audit = scene->host.audit;
    scene_hand_in_with(scene, EXPERT_HERE, &history);
    assert_int_equal(skep_audit_evidence(audit, &history, bytes.data, bytes.size, &err),
                     SKEP_ERR_FORMAT); /* nobody has it that could begin with it */
    scene_hand_in_with(scene, 0, &history);
    assert_int_equal(skep_audit_evidence(audit, &history, bytes.data, bytes.size - 1, &err),
                     SKEP_ERR_FORMAT);
    assert_int_equal(skep_audit_evidence(audit, &history, bytes.data, bytes.size, &err), SKEP_OK);
    assert_int_equal(skep_audit_evidence_bytes(audit), bytes.size);
    skep_buffer_done(&bytes);
    skep_audit_close(audit);
}

/* It showed its history when there was no room for it, got as long once more, and never showed it again. */
static void who_is_given_more_time_because_there_was_no_room_has_to_show_it_once_more(void **state)
{
    struct scene *scene = *state;
    struct skep_buffer bytes = {0};
    struct skep_error err = {0};
    const struct skep_kept_shard *expert = scene->project->shards[EXPERT_HERE];
    struct skep_hash never = {{1}};
    size_t parameters = scene_trunk(scene)->shape.layout.parameters;
    struct skep_hash moments = scene_add_flat(&bytes, SKEP_MOMENT_ARRAYS, parameters);
    struct skep_hash residual = scene_add_flat(&bytes, SKEP_RESIDUAL_ARRAYS, parameters);
    struct skep_hash history = skep_history_of(&moments, &residual);
    char *folder = skep_format("%s/evidence", scene->folder);
    scene_open_audits(scene);
    scene->project->manifest.trust.audits = true;
    scene->project->kept_count = scene->project->shard_count;
    scene->host.audit->queue.wait_ms = 0;
    struct skep_hash update = scene_hand_in_with(scene, 0, &history);
    assert_int_equal(skep_folder_remove(folder, NULL), 0);
    assert_int_not_equal(
        skep_audit_evidence(scene->host.audit, &history, bytes.data, bytes.size, &err), SKEP_OK);
    assert_int_equal(skep_folder_make(folder, NULL), 0);
    bytes.size = 0;
    parameters = expert->shape.layout.parameters;
    moments = scene_add_flat(&bytes, SKEP_MOMENT_ARRAYS, parameters);
    residual = scene_add_flat(&bytes, SKEP_RESIDUAL_ARRAYS, parameters);
    history = skep_history_of(&moments, &residual);
    scene_hand_in_with(scene, EXPERT_HERE, &history);
    struct skep_hash silent = scene_hand_in_with(scene, 0, &never);
    /* which makes the keeper look at what waits: all of it waited for 0 ms, and that one for 0 ms more */
    assert_int_equal(skep_audit_evidence(scene->host.audit, &history, bytes.data, bytes.size, &err),
                     SKEP_OK);
    assert_int_equal(skep_audit_waiting(scene->host.audit), 0);
    assert_int_equal(scene_verdict(scene, &silent), SKEP_AUDIT_UNANSWERED);
    assert_int_equal(scene_verdict(scene, &update), SKEP_AUDIT_UNANSWERED);
    free(folder);
    skep_buffer_done(&bytes);
    skep_audit_close(scene->host.audit);
}

/* Signed and handed in: a job of the trunk, whose list names nothing else, and with `extra` an expert's update of the same ticket. */
static void try_false_job(struct scene *scene, size_t history_of, bool extra)
{
    struct skep_error err = {0};
    struct draft draft;
    struct skep_buffer bytes = {0};
    struct skep_hash history = scene_make_history(scene, history_of, &bytes);
    struct skep_hash updates[2];
    for (size_t i = 0; i <= extra; i++) {
        draft_begin(scene, &draft, extra && i == 0 ? EXPERT_HERE : 0);
        scene->next_donor -= i < extra;
        if (i == extra) {
            draft.statement.before = history;
        }
        draft_seal(&draft);
        updates[i] = skep_hash_of(draft.file.data, draft.file.size);
        assert_int_equal(scene_hand_in(scene, &draft, &err), SKEP_OK);
        assert_int_equal(scene_verdict(scene, &updates[i]), SKEP_AUDIT_OPEN);
        draft_done(&draft);
    }
    draft_begin(scene, &draft,
                EXPERT_HERE); /* somebody whose history it is, if it is none of the trunk */
    draft.statement.before = history;
    draft_seal(&draft);
    struct skep_hash honest = skep_hash_of(draft.file.data, draft.file.size);
    assert_int_equal(scene_hand_in(scene, &draft, &err), SKEP_OK);
    draft_done(&draft);
    assert_int_equal(skep_audit_evidence(scene->host.audit, &history, bytes.data, bytes.size, &err),
                     SKEP_OK);
    for (size_t i = 0; i <= extra; i++) {
        assert_int_equal(scene_verdict(scene, &updates[i]), SKEP_AUDIT_INVALID);
    }
    assert_int_equal(scene_verdict(scene, &honest), SKEP_AUDIT_OPEN);
    skep_buffer_done(&bytes);
}

/* What no worker could finish must not be a way out of an audit. */
static void a_job_that_contradicts_itself_is_invalid_and_need_not_be_repeated(void **state)
{
    struct scene *scene = *state;
    scene->project->manifest.trust.audits = true;
    scene->project->kept_count = scene->project->shard_count;
    scene_open_audits(scene);
    try_false_job(scene, 0, true);
    try_false_job(scene, EXPERT_HERE, false);
    skep_audit_close(scene->host.audit);
}

static void a_donor_does_not_pay_for_states_that_a_keeper_lacks(void **state)
{
    struct scene *scene = *state;
    struct skep_kept_shard *expert = scene->project->shards[EXPERT_HERE];
    struct skep_update_part part = {.shard = expert->shard, .base_version = HEAD + 1};
    struct skep_audit_update update = {.shard = expert};
    struct skep_audit_load load = {.project = scene->project,
                                   .folder = scene->folder,
                                   .has_trunk = true,
                                   .updates = &update,
                                   .part_count = 1,
                                   .parts = &part};
    scene_open_audits(scene);
    const struct skep_evidence *evidence = scene->host.audit->evidence;
    assert_false(skep_audit_load_is_silent(&load, evidence)); /* we are behind */
    part.base_version = HEAD - SKEP_KEPT_VERSIONS;
    assert_true(skep_audit_load_is_silent(&load, evidence)); /* nothing else names it */
    load.late = true;                                        /* it was here in time */
    assert_false(skep_audit_load_is_silent(&load, evidence));
    load.late = false;
    load.update_count = 1; /* and here we took what began with it */
    update.base_version = part.base_version;
    assert_false(skep_audit_load_is_silent(&load, evidence));
    part.shard = skep_manifest_shard(&scene->project->manifest, EXPERT_THERE);
    assert_true(skep_audit_load_is_silent(&load, evidence)); /* there is no such shard */
    skep_audit_close(scene->host.audit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            whoever_names_the_history_of_another_donor_does_not_keep_it_from_being_shown,
            keeper_scene_open, keeper_scene_close),
        cmocka_unit_test_setup_teardown(
            who_is_given_more_time_because_there_was_no_room_has_to_show_it_once_more,
            keeper_scene_open, keeper_scene_close),
        cmocka_unit_test_setup_teardown(
            a_job_that_contradicts_itself_is_invalid_and_need_not_be_repeated, keeper_scene_open,
            keeper_scene_close),
        cmocka_unit_test_setup_teardown(a_donor_does_not_pay_for_states_that_a_keeper_lacks,
                                        keeper_scene_open, keeper_scene_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
