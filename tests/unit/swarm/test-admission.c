/* Which statements of updates are admitted, from one that is, changed in one place each. */
#include <string.h>

#include "common/swarm/admission.h"
#include "common/swarm/ticket.h"
#include "tests/lib/cmocka.h"

struct scene {
    struct skep_manifest manifest;
    struct skep_shard_head head;
    struct skep_trunk_view trunk;
    struct skep_update_statement statement;
};

static void sign_ticket(struct scene *scene, const struct skep_hash *beacon)
{
    struct skep_update_statement *statement = &scene->statement;
    statement->ticket = skep_ticket_of(beacon, &statement->donor, statement->trunk_version);
}

/* An expert at version 9, the trunk at 30; the job began when they were at 7 and 28. */
static struct scene job_of_an_expert(void)
{
    struct scene scene = {.head = {.version = 9,
                                   .roots = {{{9}}, {{8}}, {{7}}},
                                   .beacons = {{{0x19}}, {{0x18}}, {{0x17}}}},
                          .trunk = {.newest = 30, .known = true, .beacon = {{28}}}};
    skep_manifest_defaults(&scene.manifest);
    scene.statement = (struct skep_update_statement){.shard = {SKEP_SHARD_FFN, 1, 1, 3},
                                                     .base_version = 7,
                                                     .base_state = {{7}},
                                                     .donor = {{0x55}},
                                                     .trunk_version = 28,
                                                     .tokens = skep_job_tokens(&scene.manifest)};
    sign_ticket(&scene, &scene.trunk.beacon);
    return scene;
}

/* The same donor's remote calls of that expert at version 8. */
static struct scene calls_of_an_expert(void)
{
    struct scene scene = job_of_an_expert();
    scene.trunk = (struct skep_trunk_view){0};
    scene.statement.remote = true;
    scene.statement.base_version = 8;
    scene.statement.base_state.bytes[0] = 8;
    scene.statement.trunk_version = 8;
    scene.statement.tokens = 1;
    sign_ticket(&scene, &scene.head.beacons[1]);
    return scene;
}

static void admitted(const struct scene *scene)
{
    struct skep_error err = {0};
    assert_int_equal(skep_admission_check_place(&scene->manifest, &scene->statement, &err), 0);
    int rc = skep_admission_check(&scene->manifest, &scene->head, &scene->trunk, &scene->statement,
                                  &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, 0);
}

static void refused(const struct scene *scene, enum skep_refusal reason, const char *words)
{
    struct skep_error err = {0};
    int rc = skep_admission_check_place(&scene->manifest, &scene->statement, &err);
    if (rc == 0) {
        rc = skep_admission_check(&scene->manifest, &scene->head, &scene->trunk, &scene->statement,
                                  &err);
    }
    assert_string_equal(skep_refusal_name(err.reason), skep_refusal_name(reason));
    assert_int_equal(rc, skep_refusal_code(reason));
    assert_int_equal(err.code, rc);
    if (strstr(err.text, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
    }
}

static void a_job_counts_its_tokens_by_steps_and_batch(void **state)
{
    (void)state;
    struct skep_manifest manifest = {.model.kind = SKEP_MODEL_LM};
    skep_manifest_defaults(&manifest);
    assert_int_equal(skep_job_tokens(&manifest), 20 * 2 * (128 - 16));
    manifest.model.kind = SKEP_MODEL_CLASSIFIER;
    skep_manifest_defaults(&manifest);
    assert_int_equal(skep_job_tokens(&manifest), 20 * 32);
}

static void right_updates_of_jobs_and_of_calls_are_admitted(void **state)
{
    (void)state;
    struct scene scene = job_of_an_expert();
    admitted(&scene);
    scene = calls_of_an_expert();
    admitted(&scene);
    /* the trunk's own base is its ticket's version */
    scene = job_of_an_expert();
    scene.statement.shard = (struct skep_shard){.kind = SKEP_SHARD_TRUNK};
    scene.statement.trunk_version = 7;
    scene.trunk = (struct skep_trunk_view){.newest = 9, .known = true, .beacon = {{0x17}}};
    sign_ticket(&scene, &scene.trunk.beacon);
    admitted(&scene);
}

static void another_place_or_base_is_refused(void **state)
{
    (void)state;
    struct scene scene = job_of_an_expert();
    scene.statement.project.bytes[3] = 1;
    refused(&scene, SKEP_REFUSAL_OTHER_PROJECT, "00000001");
    scene = job_of_an_expert();
    scene.statement.shard.layer = 60000;
    refused(&scene, SKEP_REFUSAL_NO_SUCH_SHARD, "ffn.60000.1.3, expected trunk or");
    scene = job_of_an_expert();
    scene.statement.base_state.bytes[0] = 8;
    refused(&scene, SKEP_REFUSAL_BASE_STATE, "version 7 was sealed as");
    scene = job_of_an_expert();
    scene.statement.base_version = 6;
    refused(&scene, SKEP_REFUSAL_BASE_STALE, "version 6, the oldest still merged is 7");
    scene = job_of_an_expert();
    scene.statement.base_version = 10;
    refused(&scene, SKEP_REFUSAL_BASE_AHEAD, "the newest here is 9: try again later");
}

static void another_ticket_is_refused(void **state)
{
    (void)state;
    struct scene scene = job_of_an_expert();
    scene.statement.ticket.bytes[31] ^= 1;
    refused(&scene, SKEP_REFUSAL_TICKET, "give ");
    scene = job_of_an_expert();
    scene.statement.donor.bytes[0] ^= 1; /* another donor's ticket */
    refused(&scene, SKEP_REFUSAL_TICKET, "give ");
    scene = job_of_an_expert();
    scene.trunk.beacon.bytes[0] ^= 1; /* that of another version */
    refused(&scene, SKEP_REFUSAL_TICKET, "give ");
    scene = job_of_an_expert();
    scene.statement.shard = (struct skep_shard){.kind = SKEP_SHARD_TRUNK};
    refused(&scene, SKEP_REFUSAL_TICKET, "trunk version 28, expected its base version 7");
}

static void a_trunk_version_that_is_not_known_or_too_old_is_refused(void **state)
{
    (void)state;
    struct scene scene = job_of_an_expert();
    scene.trunk.known = false;
    refused(&scene, SKEP_REFUSAL_TRUNK_AHEAD, "trunk version 28, which is not known here");
    scene.trunk.newest = 28 + SKEP_LIMIT_TICKET_AGE + 1;
    refused(&scene, SKEP_REFUSAL_TRUNK_STALE, "trunk version 28, the oldest still taken is 29");
    scene.trunk = (struct skep_trunk_view){
        .newest = 28 + SKEP_LIMIT_TICKET_AGE, .known = true, .beacon = {{28}}};
    admitted(&scene);
}

static void other_tokens_than_a_jobs_are_refused(void **state)
{
    (void)state;
    for (int more = -1; more <= 1; more += 2) {
        struct scene scene = job_of_an_expert();
        scene.statement.tokens += (uint64_t)more;
        refused(&scene, SKEP_REFUSAL_TOKENS, "a job trains on 4480");
    }
}

static void remote_calls_have_rules_of_their_own(void **state)
{
    (void)state;
    struct scene scene = calls_of_an_expert();
    scene.manifest.trust.remote = false;
    refused(&scene, SKEP_REFUSAL_REMOTE, "trust.remote");
    scene = calls_of_an_expert();
    scene.statement.tokens = 0;
    refused(&scene, SKEP_REFUSAL_TOKENS, "at least 1");
    scene = calls_of_an_expert();
    scene.statement.trunk_version = 7;
    refused(&scene, SKEP_REFUSAL_TICKET, "expected its base version 8");
    scene = calls_of_an_expert();
    scene.head.beacons[1].bytes[0] ^= 1;
    refused(&scene, SKEP_REFUSAL_TICKET, "give ");
    /* a job that says it was calls, and calls that say they were a job */
    scene = job_of_an_expert();
    scene.statement.remote = true;
    refused(&scene, SKEP_REFUSAL_TICKET, "trunk version 28");
    scene = calls_of_an_expert();
    scene.statement.remote = false;
    scene.trunk = (struct skep_trunk_view){.newest = 8, .known = true, .beacon = {{28}}};
    refused(&scene, SKEP_REFUSAL_TICKET, "give ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_counts_its_tokens_by_steps_and_batch),
        cmocka_unit_test(right_updates_of_jobs_and_of_calls_are_admitted),
        cmocka_unit_test(another_place_or_base_is_refused),
        cmocka_unit_test(another_ticket_is_refused),
        cmocka_unit_test(a_trunk_version_that_is_not_known_or_too_old_is_refused),
        cmocka_unit_test(other_tokens_than_a_jobs_are_refused),
        cmocka_unit_test(remote_calls_have_rules_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
