/* The outbox with four keepers that live in memory (a quorum is three) and time that the test brings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/outbox.h"
#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/swarm/update-open.h"
#include "common/sys/clock.h"
#include "common/sys/file.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/client/fake-keepers.h"

enum manner {
    TAKES,
    DEAD,
    REFUSES,
    BEHIND,
};

struct world {
    struct fake_keepers fakes;
    struct skep_outbox *outbox;
    struct skep_key *donor;
    uint64_t now_ms;
    enum manner manners[FAKE_KEEPERS];
    size_t asked[FAKE_KEEPERS];
    size_t trunk_asked; /* updates of the trunk sent to anyone */
    unsigned accepted;
    unsigned given_up;
    const char *answer; /* of keepers that take it; NULL: an object without fields */
};

static const struct skep_shard trunk = {.kind = SKEP_SHARD_TRUNK};

static int answer_update(void *user, size_t keeper, const struct skep_http_request *request,
                         struct skep_http_answer *answer, struct skep_error *err)
{
    struct world *world = user;
    struct skep_update_statement statement = {0};
    struct skep_hash hash;
    const uint8_t *body = NULL;
    size_t body_size = 0;
    assert_string_equal(request->method, "POST");
    assert_non_null(strstr(request->path, "/updates"));
    assert_int_equal(skep_update_open(request->body, request->body_size, &statement, &hash, &body,
                                      &body_size, NULL),
                     0);
    world->trunk_asked += statement.shard.kind == SKEP_SHARD_TRUNK;
    world->asked[keeper]++;
    switch (world->manners[keeper]) {
    case DEAD:
        return skep_error_set(err, SKEP_ERR_NETWORK, "connection refused");
    case REFUSES:
        answer->status = 403;
        skep_buffer_append_text(
            &answer->body, "{\"error\":{\"code\":\"refused\",\"message\":\"the ticket is odd\"}}");
        return 0;
    case BEHIND:
        answer->status = 409;
        return 0;
    default:
        answer->status = 200;
        skep_buffer_append_text(&answer->body, world->answer != NULL ? world->answer : "{}");
        return 0;
    }
}

static void on_settled(void *user, const struct skep_update_statement *statement, bool accepted)
{
    struct world *world = user;
    (void)statement;
    world->accepted += accepted;
    world->given_up += !accepted;
}

/* The outbox reads the clock when it is opened and when it takes an update; ours goes on from there. */
static void catch_up(struct world *world)
{
    uint64_t now_ms = skep_clock_monotonic_ms();
    world->now_ms = now_ms > world->now_ms ? now_ms : world->now_ms;
}

static void open_outbox(struct world *world)
{
    assert_int_equal(
        skep_outbox_new(&world->fakes.session, on_settled, world, &world->outbox, NULL), 0);
    catch_up(world);
}

static int world_new(void **state)
{
    struct world *world = skep_alloc(1, sizeof *world);
    uint8_t seed[32] = {99};
    fake_keepers_init(&world->fakes, answer_update, world);
    world->donor = skep_key_from_seed(seed);
    open_outbox(world);
    *state = world;
    return 0;
}

static int world_free(void **state)
{
    struct world *world = *state;
    skep_outbox_free(world->outbox);
    skep_key_free(world->donor);
    fake_keepers_done(&world->fakes);
    free(world);
    return 0;
}

static void step(struct world *world, uint64_t later_ms)
{
    world->now_ms += later_ms;
    skep_outbox_step(world->outbox, world->now_ms);
}

static void all_are(struct world *world, enum manner manner)
{
    for (size_t i = 0; i < FAKE_KEEPERS; i++) {
        world->manners[i] = manner;
    }
}

static struct skep_shard expert(uint16_t column)
{
    return (struct skep_shard){.kind = SKEP_SHARD_FFN, .column = column};
}

static char *job_path(const struct world *world, const char *name)
{
    return skep_format("%s/job.%s", world->fakes.folder, name);
}

static void write_job_file(const struct world *world, const char *name)
{
    char *path = job_path(world, name);
    assert_int_equal(skep_file_write_quick(path, 0600, name, strlen(name), NULL), 0);
    free(path);
}

static int add(struct world *world, struct skep_shard shard, struct skep_error *err)
{
    struct skep_update_statement statement = {.project = world->fakes.session.project,
                                              .shard = shard,
                                              .base_version = 5,
                                              .tokens = 1,
                                              .loss_first = 1,
                                              .loss_last = 1};
    struct skep_buffer body = {0};
    struct skep_buffer file = {0};
    skep_buffer_append_text(&body, "body");
    skep_update_seal(world->donor, &statement, &body, &file);
    char *moments = job_path(world, "moments");
    char *residual = job_path(world, "residual");
    int rc = skep_outbox_add(world->outbox, &file, moments, residual, err);
    free(moments);
    free(residual);
    skep_buffer_done(&body);
    skep_buffer_done(&file);
    return rc;
}

static void assert_added(struct world *world, struct skep_shard shard)
{
    struct skep_error err = {0};
    assert_int_equal(add(world, shard, &err), 0);
    catch_up(world);
}

static bool is_in_place(const struct world *world, struct skep_shard shard, const char *what)
{
    char *path = skep_outbox_own_path(world->outbox, &shard, what);
    bool there = skep_file_exists(path);
    free(path);
    return there;
}

static void count_name(void *user, const char *name)
{
    (void)name;
    ++*(size_t *)user;
}

static size_t files_waiting(const struct world *world)
{
    size_t count = 0;
    char *path = skep_format("%s/outbox", world->fakes.folder);
    assert_int_equal(skep_folder_list(path, count_name, &count, NULL), 0);
    free(path);
    return count;
}

static void
an_update_is_accepted_by_a_majority_and_its_files_move_into_place_only_then(void **state)
{
    struct world *world = *state;
    world->manners[2] = DEAD;
    world->manners[3] = DEAD;
    write_job_file(world, "moments");
    write_job_file(world, "residual");
    assert_added(world, expert(0));
    assert_int_equal(world->accepted, 0); /* two of four are no majority */
    assert_int_equal(skep_outbox_unsettled(world->outbox), 1);
    assert_false(skep_outbox_has_accepted(world->outbox, 1, 5));
    assert_false(is_in_place(world, expert(0), "moments"));
    assert_int_equal(files_waiting(world), 3);
    world->manners[2] = TAKES;
    step(world, 1000);
    assert_int_equal(world->accepted, 1);
    assert_int_equal(skep_outbox_unsettled(world->outbox), 0);
    assert_true(skep_outbox_has_accepted(world->outbox, 1, 5));
    assert_true(is_in_place(world, expert(0), "moments"));
    assert_true(is_in_place(world, expert(0), "residual"));
    assert_int_equal(files_waiting(world), 1); /* the fourth keeper shall have it too */
    world->manners[3] = TAKES;
    step(world, 30000);
    step(world, 250);
    assert_int_equal(files_waiting(world), 0);
    assert_int_equal(world->asked[0], 1);
    assert_int_equal(world->asked[3], 3);
    assert_int_equal(world->accepted, 1);
}

static void a_keeper_that_cannot_be_reached_is_tried_again_later_and_later(void **state)
{
    struct world *world = *state;
    static const uint64_t waits_ms[] = {1000, 2000, 4000, 8000, 16000, 30000, 30000};
    all_are(world, DEAD);
    assert_added(world, expert(0));
    step(world, 0);
    for (size_t i = 0; i < sizeof waits_ms / sizeof waits_ms[0]; i++) {
        assert_int_equal(world->asked[0], i + 1);
        step(world, waits_ms[i] - 250);
        assert_int_equal(world->asked[0], i + 1);
        step(world, 250);
    }
    assert_int_equal(world->given_up, 0);
    all_are(world, TAKES);
    step(world, 30000);
    assert_int_equal(world->accepted, 1);
}

static void a_keeper_that_is_behind_is_asked_again_every_second(void **state)
{
    struct world *world = *state;
    all_are(world, BEHIND);
    assert_added(world, expert(0));
    step(world, 0);
    for (size_t i = 1; i < 5; i++) {
        assert_int_equal(world->asked[0], i);
        step(world, 1000);
    }
    assert_int_equal(world->given_up, 0);
}

static void
refused_by_so_many_that_no_majority_is_left_it_is_given_up_with_their_sentence(void **state)
{
    struct world *world = *state;
    write_job_file(world, "moments");
    all_are(world, DEAD);
    world->manners[0] = REFUSES;
    assert_added(world, expert(0));
    assert_int_equal(world->given_up, 0); /* the other three may still take it */
    world->manners[1] = REFUSES;
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    skep_log_configure(SKEP_LOG_INFO, "test", stream);
    step(world, 1000);
    skep_log_configure(SKEP_LOG_WARNING, "test", NULL);
    fclose(stream);
    assert_int_equal(world->given_up, 1);
    assert_int_equal(world->accepted, 0);
    assert_non_null(strstr(text, "the ticket is odd"));
    free(text);
    all_are(world, REFUSES);
    step(world, 30000);
    step(world, 250);
    assert_int_equal(world->given_up, 1);
    assert_int_equal(files_waiting(world), 0);
    assert_false(is_in_place(world, expert(0), "moments"));
}

static void what_lies_on_disk_is_taken_up_after_a_restart(void **state)
{
    struct world *world = *state;
    all_are(world, DEAD);
    write_job_file(world, "moments");
    assert_added(world, expert(0));
    skep_outbox_free(world->outbox);
    all_are(world, TAKES);
    open_outbox(world);
    assert_int_equal(skep_outbox_unsettled(world->outbox), 1);
    step(world, 0);
    assert_int_equal(world->accepted, 1);
    assert_true(is_in_place(world, expert(0), "moments"));
    step(world, 250);
    assert_int_equal(files_waiting(world), 0);
}

static void a_broken_file_in_the_folder_is_dropped(void **state)
{
    struct world *world = *state;
    skep_outbox_free(world->outbox);
    char *path = skep_format("%s/outbox/half.update", world->fakes.folder);
    assert_int_equal(skep_file_write_quick(path, 0600, "SKUP", 4, NULL), 0);
    open_outbox(world);
    assert_false(skep_file_exists(path));
    assert_int_equal(skep_outbox_unsettled(world->outbox), 0);
    free(path);
}

static void what_is_passed_of_a_probation_is_what_the_last_keeper_said_in_its_bounds(void **state)
{
    struct world *world = *state;
    assert_int_equal(skep_outbox_audits_passed(world->outbox), -1);
    assert_added(world, expert(0));
    assert_int_equal(skep_outbox_audits_passed(world->outbox), -1);
    world->answer = "{\"audits_passed\":12}";
    assert_added(world, expert(1));
    assert_int_equal(skep_outbox_audits_passed(world->outbox), 12);
    world->answer = "{\"audits_passed\":43}";
    assert_added(world, trunk);
    assert_int_equal(skep_outbox_audits_passed(world->outbox), 12);
}

static void the_trunk_goes_once_the_experts_are_settled(void **state)
{
    struct world *world = *state;
    all_are(world, DEAD);
    assert_added(world, expert(0));
    assert_added(world, trunk);
    assert_int_equal(world->asked[0], 1);
    assert_int_equal(world->trunk_asked, 0);
    all_are(world, TAKES);
    step(world, 1000);
    assert_int_equal(world->accepted, 2);
    assert_int_equal(world->trunk_asked, FAKE_KEEPERS);
}

static void the_trunk_goes_without_the_experts_when_they_take_too_long(void **state)
{
    struct world *world = *state;
    all_are(world, BEHIND);
    assert_added(world, expert(0));
    assert_added(world, trunk);
    step(world, 0);
    step(world, 1000);
    assert_int_equal(world->trunk_asked, 0);
    step(world, SKEP_OUTBOX_TRUNK_HELD_MS - 1000 + 250);
    assert_int_equal(world->trunk_asked, FAKE_KEEPERS);
    assert_int_equal(world->accepted, 0);
}

static void an_update_whose_moments_cannot_be_moved_is_not_taken(void **state)
{
    struct world *world = *state;
    struct skep_error err = {0};
    char *path = job_path(world, "moments");
    char *under = skep_format("%s/file", path); /* a name below a file: ENOTDIR */
    write_job_file(world, "moments");
    struct skep_buffer file = {0};
    struct skep_buffer body = {0};
    struct skep_update_statement statement = {.shard = expert(0), .base_version = 5, .tokens = 1};
    skep_update_seal(world->donor, &statement, &body, &file);
    assert_true(skep_outbox_add(world->outbox, &file, under, path, &err) < 0);
    assert_non_null(strstr(err.text, under));
    assert_int_equal(world->asked[0], 0);
    step(world, 250);
    assert_int_equal(files_waiting(world), 0);
    skep_buffer_done(&file);
    skep_buffer_done(&body);
    free(under);
    free(path);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, world_new, world_free)
    const struct CMUnitTest tests[] = {
        CASE(an_update_is_accepted_by_a_majority_and_its_files_move_into_place_only_then),
        CASE(a_keeper_that_cannot_be_reached_is_tried_again_later_and_later),
        CASE(a_keeper_that_is_behind_is_asked_again_every_second),
        CASE(refused_by_so_many_that_no_majority_is_left_it_is_given_up_with_their_sentence),
        CASE(what_lies_on_disk_is_taken_up_after_a_restart),
        CASE(a_broken_file_in_the_folder_is_dropped),
        CASE(an_update_whose_moments_cannot_be_moved_is_not_taken),
        CASE(what_is_passed_of_a_probation_is_what_the_last_keeper_said_in_its_bounds),
        CASE(the_trunk_goes_once_the_experts_are_settled),
        CASE(the_trunk_goes_without_the_experts_when_they_take_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
