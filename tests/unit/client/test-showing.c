/* Histories are shown to keepers that ask, which live in memory; the test brings the time. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "client/agent/showing.h"
#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/sys/clock.h"
#include "common/sys/file.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/client/fake-keepers.h"

struct world {
    struct fake_keepers fakes;
    struct skep_showing *showing;
    uint64_t now_ms;
    struct skep_hash wanted[2]; /* by every keeper */
    size_t asked[FAKE_KEEPERS];
    size_t sent[FAKE_KEEPERS];
    bool refuses;
    bool never_content; /* wants more, whatever it got */
    char last[64];      /* body of the last PUT */
};

static int answer(void *user, size_t keeper, const struct skep_http_request *request,
                  struct skep_http_answer *answer, struct skep_error *err)
{
    struct world *world = user;
    (void)err;
    if (strcmp(request->method, "PUT") == 0) {
        assert_non_null(strstr(request->path, "/v1/evidence/"));
        assert_true(request->body_size < sizeof world->last);
        memcpy(world->last, request->body, request->body_size);
        world->last[request->body_size] = '\0';
        world->sent[keeper]++;
        answer->status = world->refuses ? 507 : 201;
        skep_buffer_append_text(&answer->body, "{}");
        return 0;
    }
    assert_non_null(strstr(request->path, "/evidence?donor=02"));
    world->asked[keeper]++;
    answer->status = 200;
    skep_buffer_append_text(&answer->body, "{\"wanted\":[");
    for (size_t i = 0; i < 2; i++) {
        bool content = world->sent[keeper] > i && !world->never_content;
        char *item = skep_format("%s{\"history\":\"%s\",\"shard\":\"trunk\"}", i > 0 ? "," : "",
                                 skep_id_text(world->wanted[content ? 1 : i].bytes));
        skep_buffer_append_text(&answer->body, item);
        free(item);
    }
    skep_buffer_append_text(&answer->body, "]}");
    return 0;
}

static int world_new(void **state)
{
    struct world *world = skep_alloc(1, sizeof *world);
    fake_keepers_init(&world->fakes, answer, world);
    world->fakes.session.manifest.trust.audits = true;
    assert_int_equal(skep_showing_new(&world->fakes.session, &world->showing, NULL), 0);
    world->now_ms = skep_clock_monotonic_ms() + 1000;
    *state = world;
    return 0;
}

static int world_free(void **state)
{
    struct world *world = *state;
    skep_showing_free(world->showing);
    fake_keepers_done(&world->fakes);
    free(world);
    return 0;
}

static void introduce(struct world *world)
{
    struct skep_peer_id donor = {{2}};
    skep_showing_introduce(world->showing, &donor);
}

static void step(struct world *world, uint64_t later_ms)
{
    world->now_ms += later_ms;
    skep_showing_step(world->showing, world->now_ms);
}

/* Keeps history `number` of the job of version `version`; its files hold their names. */
static struct skep_hash keep(struct world *world, uint64_t version, uint8_t number)
{
    struct skep_hash history = {{number}};
    struct skep_hash ticket = {{(uint8_t)version}};
    char *moments = skep_format("%s/m%u", world->fakes.folder, number);
    char *residual = skep_format("%s/r%u", world->fakes.folder, number);
    char *text = skep_format("[moments %u]", number);
    assert_int_equal(skep_file_write_quick(moments, 0600, text, strlen(text), NULL), 0);
    assert_int_equal(skep_file_write_quick(residual, 0600, "[residual]", 10, NULL), 0);
    skep_showing_keep(world->showing, version, &ticket, &history, moments, residual);
    free(moments);
    free(residual);
    free(text);
    return history;
}

static void every_keeper_gets_what_it_asks_for_and_what_is_not_here_is_passed_over(void **state)
{
    struct world *world = *state;
    world->wanted[0] = keep(world, 3, 7);
    world->wanted[1].bytes[0] = 99;
    step(world, 0);
    assert_int_equal(world->asked[0], 0); /* nobody knows who we are */
    introduce(world);
    step(world, 1);
    for (size_t i = 0; i < FAKE_KEEPERS; i++) {
        assert_int_equal(world->sent[i], 1);
    }
    assert_string_equal(world->last, "[moments 7][residual]");
}

static void keepers_are_asked_now_and_then_and_soon_when_one_wants_something(void **state)
{
    struct world *world = *state;
    keep(world, 3, 7);
    introduce(world);
    step(world, 0);
    assert_int_equal(world->asked[1], 1);
    step(world, SKEP_SHOWING_MS - 1);
    assert_int_equal(world->asked[1], 1);
    step(world, 1);
    assert_int_equal(world->asked[1], 2);
    skep_showing_hurry(world->showing);
    step(world, 1000);
    assert_int_equal(world->asked[1], 3);
}

static void a_keeper_that_does_not_take_it_or_is_never_content_is_left_alone(void **state)
{
    struct world *world = *state;
    world->wanted[0] = keep(world, 3, 7);
    world->wanted[1] = keep(world, 3, 8);
    world->refuses = true;
    introduce(world);
    step(world, 0);
    assert_int_equal(world->sent[0], 1);
    assert_int_equal(world->sent[3], 1);
    world->refuses = false;
    world->never_content = true;
    step(world, SKEP_SHOWING_MS);
    assert_int_equal(world->sent[3], 1 + SKEP_SHOWING_SENDS);
}

static void only_the_last_jobs_are_kept(void **state)
{
    struct world *world = *state;
    world->wanted[0] = keep(world, 1, 1);
    for (uint8_t i = 2; i <= SKEP_SHOWING_JOBS + 1; i++) {
        world->wanted[1] = keep(world, i, i);
    }
    skep_showing_prune(world->showing);
    introduce(world);
    step(world, 0);
    assert_int_equal(world->sent[0], 1);
    char *last = skep_format("[moments %u][residual]", SKEP_SHOWING_JOBS + 1);
    assert_string_equal(world->last, last);
    free(last);
}

/* Its job began with version 1 and was merged by none of those that may; the next one draws it, when the donor has begun one job with each
 * and has just published the one after. */
static void what_is_drawn_when_it_is_stale_is_still_here(void **state)
{
    struct world *world = *state;
    world->wanted[0] = keep(world, 1, 1);
    world->wanted[1].bytes[0] = 99;
    uint8_t drawn_by = 1 + SKEP_LIMIT_STALENESS + 2;
    for (uint8_t version = 2; version <= drawn_by; version++) {
        keep(world, version, version);
        skep_showing_prune(world->showing);
    }
    keep(world, drawn_by + 1, drawn_by + 1); /* in the moment in which it asks */
    skep_showing_prune(world->showing);
    introduce(world);
    step(world, 0);
    assert_int_equal(world->sent[0], 1);
    assert_string_equal(world->last, "[moments 1][residual]");
}

static void a_project_without_audits_keeps_and_asks_nothing(void **state)
{
    struct world *world = *state;
    world->fakes.session.manifest.trust.audits = false;
    world->wanted[0] = keep(world, 3, 7);
    introduce(world);
    step(world, 0);
    assert_int_equal(world->asked[0], 0);
    assert_true(skep_showing_due(world->showing) == UINT64_MAX);
    world->fakes.session.manifest.trust.audits = true;
    step(world, 0);
    assert_int_equal(world->asked[0], 0); /* nothing was kept */
    assert_true(skep_showing_due(world->showing) == UINT64_MAX);
}

static void there_is_nothing_to_wake_up_for_long_after_the_last_job(void **state)
{
    struct world *world = *state;
    const uint64_t rounds_ms =
        (uint64_t)(SKEP_LIMIT_STALENESS + 3) * world->fakes.session.manifest.merge.window_ms;
    introduce(world);
    assert_true(skep_showing_due(world->showing) == UINT64_MAX);
    step(world, 0);
    keep(world, 3, 7);
    assert_in_range(skep_showing_due(world->showing), 0, world->now_ms);
    step(world, 0);
    assert_int_equal(skep_showing_due(world->showing), world->now_ms + SKEP_SHOWING_MS);
    skep_showing_hurry(world->showing);
    assert_in_range(skep_showing_due(world->showing), world->now_ms + 1, world->now_ms + 999);
    uint64_t end_ms = world->now_ms + SKEP_SHOWING_FOR_MS + rounds_ms;
    size_t asked = 0;
    while (skep_showing_due(world->showing) != UINT64_MAX) {
        assert_true(skep_showing_due(world->showing) <= end_ms);
        step(world, skep_showing_due(world->showing) - world->now_ms);
        asked++;
    }
    /* at once, and then every SKEP_SHOWING_MS to the end */
    assert_int_equal(asked, 1 + (SKEP_SHOWING_FOR_MS + rounds_ms - 250) / SKEP_SHOWING_MS);
    step(world, SKEP_SHOWING_FOR_MS);
    assert_int_equal(world->asked[0], 1 + asked);
    keep(world, 4, 8);
    step(world, 0);
    assert_int_equal(world->asked[0], 2 + asked);
}

static void a_wish_keeps_the_donor_awake_and_jobs_of_the_last_run_are_shown(void **state)
{
    struct world *world = *state;
    world->wanted[0] = keep(world, 3, 7);
    skep_showing_free(world->showing);
    assert_int_equal(skep_showing_new(&world->fakes.session, &world->showing, NULL), 0);
    introduce(world);
    step(world, SKEP_SHOWING_FOR_MS - 2000); /* 1 s before the end */
    assert_int_equal(world->sent[0], 1);
    assert_int_equal(skep_showing_due(world->showing), world->now_ms + SKEP_SHOWING_MS);
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, world_new, world_free)

/* Our keepers answer within the call, so what a real loop would do one after the other happens one inside the other. */
static void make_room(void)
{
    struct rlimit stack;
    if (getrlimit(RLIMIT_STACK, &stack) == 0) {
        rlim_t wanted = (rlim_t)256 << 20;
        stack.rlim_cur = stack.rlim_max < wanted ? stack.rlim_max : wanted;
        setrlimit(RLIMIT_STACK, &stack);
    }
}

int main(void)
{
    make_room();
    const struct CMUnitTest tests[] = {
        IN_WORLD(every_keeper_gets_what_it_asks_for_and_what_is_not_here_is_passed_over),
        IN_WORLD(keepers_are_asked_now_and_then_and_soon_when_one_wants_something),
        IN_WORLD(a_keeper_that_does_not_take_it_or_is_never_content_is_left_alone),
        IN_WORLD(only_the_last_jobs_are_kept),
        IN_WORLD(what_is_drawn_when_it_is_stale_is_still_here),
        IN_WORLD(a_project_without_audits_keeps_and_asks_nothing),
        IN_WORLD(there_is_nothing_to_wake_up_for_long_after_the_last_job),
        IN_WORLD(a_wish_keeps_the_donor_awake_and_jobs_of_the_last_run_are_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
