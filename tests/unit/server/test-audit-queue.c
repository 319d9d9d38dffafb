/* Which jobs a keeper repeats, and when. */
#include <string.h>

#include "server/audit-queue.h"
#include "tests/lib/cmocka.h"

static const struct skep_project_id PROJECT = {{1}};
static const struct skep_project_id ANOTHER = {{2}};

static struct skep_audit_job *add(struct skep_audit_queue *queue, uint8_t number)
{
    struct skep_hash id = {{number}};
    struct skep_peer_id donor = {{number}};
    return skep_audit_queue_add(queue, &id, &PROJECT, &donor, true);
}

static void empty(struct skep_audit_queue *queue)
{
    while (queue->jobs != NULL) {
        skep_audit_queue_remove(queue, queue->jobs);
    }
    assert_int_equal(queue->count, 0);
}

static struct skep_audit_job *add_ready(struct skep_audit_queue *queue, uint8_t number, bool urgent)
{
    struct skep_audit_job *job = add(queue, number);
    skep_audit_queue_want(queue, job, urgent, 0);
    skep_audit_queue_ready(job);
    return job;
}

static void one_runs_at_a_time_and_first_one_that_a_merge_waits_for(void **state)
{
    (void)state;
    struct skep_audit_queue queue = {.limit = 8, .wait_ms = 100};
    struct skep_audit_job *drawn = add_ready(&queue, 1, false);
    struct skep_audit_job *first = add_ready(&queue, 2, true);
    struct skep_audit_job *second = add_ready(&queue, 3, true);
    assert_ptr_equal(skep_audit_queue_next(&queue), first);
    assert_null(skep_audit_queue_next(&queue));
    assert_true(skep_audit_queue_ended(first, true));
    skep_audit_queue_remove(&queue, first);
    assert_ptr_equal(skep_audit_queue_next(&queue), drawn);
    skep_audit_queue_remove(&queue, drawn);
    assert_ptr_equal(skep_audit_queue_next(&queue), second);
    empty(&queue);
}

/* Newcomers bring more than can be repeated; so do those whose jobs are drawn. */
static void what_a_merge_waits_for_and_what_was_drawn_take_turns(void **state)
{
    (void)state;
    struct skep_audit_queue queue = {.limit = 64, .wait_ms = 100};
    struct skep_audit_job *drawn[2] = {add_ready(&queue, 1, false), add_ready(&queue, 2, false)};
    add_ready(&queue, 3, true);
    for (uint8_t i = 0; i < 8; i++) {
        struct skep_audit_job *job = skep_audit_queue_next(&queue);
        if (i % 2 == 0) {
            assert_true(job->urgent);
        } else if (i < 4) {
            assert_ptr_equal(job, drawn[i / 2]);
        } else {
            assert_false(job->urgent);
        }
        assert_true(skep_audit_queue_ended(job, true));
        skep_audit_queue_remove(&queue, job);
        add_ready(&queue, (uint8_t)(10 + 2 * i), true);
        add_ready(&queue, (uint8_t)(11 + 2 * i), false);
    }
    empty(&queue);
    /* and where there is only one kind nobody waits for the other */
    add_ready(&queue, 1, true);
    struct skep_audit_job *second = add_ready(&queue, 2, true);
    skep_audit_queue_remove(&queue, skep_audit_queue_next(&queue));
    assert_ptr_equal(skep_audit_queue_next(&queue), second);
    empty(&queue);
}

static void what_gets_more_waits_for_what_belongs_to_that_and_runs_again(void **state)
{
    (void)state;
    struct skep_audit_queue queue = {.limit = 8, .wait_ms = 100};
    struct skep_audit_job *first = add_ready(&queue, 1, false);
    struct skep_audit_job *second = add_ready(&queue, 2, false);
    assert_ptr_equal(skep_audit_queue_next(&queue), first);
    skep_audit_queue_again(&queue, first, 1000);
    assert_int_equal(first->stage, SKEP_AUDIT_WAITING);
    assert_ptr_equal(skep_audit_queue_next(&queue), second); /* it holds nobody up */
    skep_audit_queue_again(&queue, second, 1050);
    assert_null(skep_audit_queue_expired(&queue, 1099));
    assert_ptr_equal(skep_audit_queue_expired(&queue, 1100), first);
    skep_audit_queue_ready(first);
    assert_ptr_equal(skep_audit_queue_next(&queue), first);
    assert_true(skep_audit_queue_ended(first, true)); /* what was broken off is no failed try */
    struct skep_audit_job *pinned = add(&queue, 3);
    skep_audit_queue_again(&queue, pinned, 1000);
    assert_int_equal(pinned->stage, SKEP_AUDIT_PINNED);
    empty(&queue);
}

static void what_nobody_wants_does_not_run_and_what_is_not_there_waits(void **state)
{
    (void)state;
    struct skep_audit_queue queue = {.limit = 8, .wait_ms = 100};
    struct skep_audit_job *job = add(&queue, 1);
    skep_audit_queue_ready(job);
    assert_null(skep_audit_queue_next(&queue));
    assert_null(skep_audit_queue_expired(&queue, UINT64_MAX));
    skep_audit_queue_want(&queue, job, false, 1000);
    assert_null(skep_audit_queue_next(&queue));
    assert_int_equal(skep_audit_queue_count(&queue, SKEP_AUDIT_WAITING), 1);
    skep_audit_queue_ready(job);
    assert_ptr_equal(skep_audit_queue_next(&queue), job);
    empty(&queue);
}

static void who_waits_too_long_expires_and_a_second_wish_gives_no_more_time(void **state)
{
    (void)state;
    struct skep_audit_queue queue = {.limit = 8, .wait_ms = 100};
    struct skep_audit_job *job = add(&queue, 1);
    skep_audit_queue_want(&queue, job, false, 1000);
    skep_audit_queue_want(&queue, job, true, 1090);
    assert_true(job->urgent);
    assert_null(skep_audit_queue_expired(&queue, 1099));
    assert_ptr_equal(skep_audit_queue_expired(&queue, 1100), job);
    skep_audit_queue_prolong(&queue, job, 1100);
    assert_null(skep_audit_queue_expired(&queue, 1199));
    assert_ptr_equal(skep_audit_queue_expired(&queue, 1200), job);
    skep_audit_queue_ready(job);
    assert_null(skep_audit_queue_expired(&queue, 9999));
    empty(&queue);
}

static void a_worker_that_fails_is_tried_again_once(void **state)
{
    (void)state;
    struct skep_audit_queue queue = {.limit = 8, .wait_ms = 100};
    struct skep_audit_job *job = add_ready(&queue, 1, false);
    assert_ptr_equal(skep_audit_queue_next(&queue), job);
    assert_false(skep_audit_queue_ended(job, false));
    assert_ptr_equal(skep_audit_queue_next(&queue), job);
    assert_true(skep_audit_queue_ended(job, false));
    empty(&queue);
}

static void only_a_job_that_fails_by_itself_each_time_is_to_blame(void **state)
{
    (void)state;
    for (unsigned blamed = 0; blamed < 4; blamed++) { /* a bit for each try */
        struct skep_audit_queue queue = {.limit = 8, .wait_ms = 100};
        struct skep_audit_job *job = add_ready(&queue, 1, false);
        for (unsigned i = 0; i < SKEP_AUDIT_TRIES; i++) {
            assert_ptr_equal(skep_audit_queue_next(&queue), job);
            if ((blamed >> i & 1) != 0) {
                skep_audit_queue_blame(job);
            }
            assert_int_equal(skep_audit_queue_ended(job, false), i == SKEP_AUDIT_TRIES - 1);
        }
        assert_int_equal(skep_audit_queue_is_guilty(job), blamed == 3);
        empty(&queue);
    }
}

static void a_full_queue_takes_no_more_and_gives_up_none(void **state)
{
    (void)state;
    struct skep_audit_queue queue = {.limit = 3, .most_of_donor = 4, .wait_ms = 100};
    struct skep_peer_id donor = {{9}};
    add_ready(&queue, 1, true);
    add(&queue, 2);
    assert_true(skep_audit_queue_has_room(&queue, &PROJECT, &donor, true));
    struct skep_audit_job *newest = add(&queue, 3);
    assert_false(skep_audit_queue_has_room(&queue, &PROJECT, &donor, true));
    assert_null(add(&queue, 9));
    assert_int_equal(queue.count, 3);
    assert_ptr_equal(skep_audit_queue_find(&queue, &(struct skep_hash){{3}}), newest);
    assert_null(skep_audit_queue_find(&queue, &(struct skep_hash){{9}}));
    empty(&queue);
}

/* Adds jobs of this donor until there is no room; how many they were. */
static size_t fill_in(struct skep_audit_queue *queue, const struct skep_project_id *project,
                      uint8_t donor_number, bool trusted)
{
    static uint8_t number;
    struct skep_peer_id donor = {{donor_number}};
    size_t count = 0;
    while (skep_audit_queue_has_room(queue, project, &donor, trusted)) {
        struct skep_hash id = {{++number, 1}};
        assert_non_null(skep_audit_queue_add(queue, &id, project, &donor, trusted));
        count++;
    }
    return count;
}

static size_t fill(struct skep_audit_queue *queue, uint8_t donor_number, bool trusted)
{
    return fill_in(queue, &PROJECT, donor_number, trusted);
}

static void one_donor_fills_no_queue_and_newcomers_leave_room_for_the_trusted(void **state)
{
    (void)state;
    struct skep_audit_queue queue = {
        .limit = 24, .most_new = 8, .most_of_donor = 8, .wait_ms = 100};
    assert_int_equal(fill(&queue, 1, false), 4);
    assert_int_equal(fill(&queue, 2, false), 1); /* half of their room is taken */
    assert_int_equal(fill(&queue, 3, false), 1);
    assert_int_equal(fill(&queue, 2, false), 0);
    assert_int_equal(fill(&queue, 4, false), 1);
    assert_int_equal(fill(&queue, 5, false), 1);
    assert_int_equal(fill(&queue, 6, false), 0);
    assert_int_equal(fill(&queue, 7, true), 8);
    assert_int_equal(fill(&queue, 8, true), 8);
    assert_int_equal(fill(&queue, 9, true), 0);
    skep_audit_queue_remove(&queue, queue.jobs);
    assert_int_equal(fill(&queue, 6, false), 1);
    empty(&queue);
}

static void a_donor_has_its_places_in_each_project(void **state)
{
    (void)state;
    struct skep_audit_queue queue = {
        .limit = 24, .most_new = 8, .most_of_donor = 8, .wait_ms = 100};
    assert_int_equal(fill_in(&queue, &PROJECT, 1, true), 8);
    assert_int_equal(fill_in(&queue, &ANOTHER, 1, true), 8);
    /* but what newcomers have together is of all, and so is the second place that is refused */
    assert_int_equal(fill_in(&queue, &PROJECT, 2, false), 4);
    assert_int_equal(fill_in(&queue, &ANOTHER, 2, false), 0);
    assert_int_equal(fill_in(&queue, &ANOTHER, 3, false), 1);
    assert_int_equal(fill_in(&queue, &PROJECT, 3, false), 0);
    empty(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_runs_at_a_time_and_first_one_that_a_merge_waits_for),
        cmocka_unit_test(what_a_merge_waits_for_and_what_was_drawn_take_turns),
        cmocka_unit_test(what_gets_more_waits_for_what_belongs_to_that_and_runs_again),
        cmocka_unit_test(what_nobody_wants_does_not_run_and_what_is_not_there_waits),
        cmocka_unit_test(who_waits_too_long_expires_and_a_second_wish_gives_no_more_time),
        cmocka_unit_test(a_worker_that_fails_is_tried_again_once),
        cmocka_unit_test(only_a_job_that_fails_by_itself_each_time_is_to_blame),
        cmocka_unit_test(a_full_queue_takes_no_more_and_gives_up_none),
        cmocka_unit_test(one_donor_fills_no_queue_and_newcomers_leave_room_for_the_trusted),
        cmocka_unit_test(a_donor_has_its_places_in_each_project),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
