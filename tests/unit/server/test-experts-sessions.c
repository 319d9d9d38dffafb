/* Sessions of callers and their accounts: who is known, for how long, and who gives way to whom. */
#include <string.h>

#include "server/experts-sessions.h"
#include "tests/lib/cmocka.h"

#define PARAMETERS 10u
#define ACCOUNT_BYTES (4 * PARAMETERS * sizeof(float))

static const struct skep_shard SHARD_A = {SKEP_SHARD_FFN, 0, 0, 0};
static const struct skep_shard SHARD_B = {SKEP_SHARD_FFN, 0, 0, 1};
static const struct skep_shard SHARD_C = {SKEP_SHARD_FFN, 0, 0, 2};

/* A session whose token and statement follow from a number. */
static struct skep_remote_session session_of(uint32_t number)
{
    struct skep_remote_session session = {0};
    memcpy(session.token.bytes, &number, sizeof number);
    memcpy(session.statement.bytes + 8, &number, sizeof number);
    return session;
}

static struct skep_remote_session *open(struct skep_remote_sessions *sessions, uint32_t number,
                                        uint64_t now_ms)
{
    struct skep_remote_session session = session_of(number);
    assert_int_equal(skep_remote_sessions_open(sessions, &session, now_ms, NULL), SKEP_OK);
    return skep_remote_sessions_find(sessions, &session.token, now_ms);
}

static struct skep_remote_account *get(struct skep_remote_sessions *sessions,
                                       struct skep_remote_session *session,
                                       const struct skep_shard *shard, uint64_t now_ms)
{
    struct skep_remote_account *account = NULL;
    assert_int_equal(
        skep_remote_account_get(sessions, session, shard, PARAMETERS, now_ms, &account, NULL),
        SKEP_OK);
    return account;
}

static void a_session_is_found_by_its_token_alone(void **state)
{
    (void)state;
    struct skep_remote_sessions *sessions = skep_remote_sessions_new(ACCOUNT_BYTES);
    open(sessions, 1, 0);
    struct skep_remote_session *second = open(sessions, 2, 0);
    struct skep_hash token = second->token;
    assert_ptr_equal(skep_remote_sessions_find(sessions, &token, 0), second);
    token.bytes[31] ^= 1;
    assert_null(skep_remote_sessions_find(sessions, &token, 0));
    skep_remote_sessions_free(sessions);
}

static void a_statement_opens_one_session(void **state)
{
    (void)state;
    struct skep_remote_sessions *sessions = skep_remote_sessions_new(ACCOUNT_BYTES);
    struct skep_error err = {0};
    open(sessions, 1, 0);
    struct skep_remote_session again = session_of(1);
    again.token.bytes[0] = 99;
    assert_int_equal(skep_remote_sessions_open(sessions, &again, 1, &err), SKEP_ERR_DUPLICATE);
    assert_int_equal(skep_remote_sessions_count(sessions), 1);
    skep_remote_sessions_free(sessions);
}

static void a_session_ends_when_it_was_idle_for_long(void **state)
{
    (void)state;
    struct skep_remote_sessions *sessions = skep_remote_sessions_new(ACCOUNT_BYTES);
    struct skep_remote_session *session = open(sessions, 1, 0);
    struct skep_hash token = session->token;
    get(sessions, session, &SHARD_A, 0);
    uint64_t last = SKEP_REMOTE_IDLE_MS - 1;
    assert_non_null(skep_remote_sessions_find(sessions, &token, last));
    assert_non_null(skep_remote_sessions_find(sessions, &token, last + SKEP_REMOTE_IDLE_MS - 1));
    assert_null(skep_remote_sessions_find(sessions, &token, last + 3 * SKEP_REMOTE_IDLE_MS));
    assert_int_equal(skep_remote_sessions_count(sessions), 0);
    assert_int_equal(skep_remote_sessions_bytes(sessions), 0);
    skep_remote_sessions_free(sessions);
}

static void a_session_at_work_does_not_end(void **state)
{
    (void)state;
    struct skep_remote_sessions *sessions = skep_remote_sessions_new(ACCOUNT_BYTES);
    struct skep_remote_session *session = open(sessions, 1, 0);
    struct skep_hash token = session->token;
    struct skep_remote_account *account = get(sessions, session, &SHARD_A, 0);
    skep_remote_account_hold(account);
    assert_non_null(skep_remote_sessions_find(sessions, &token, 5 * SKEP_REMOTE_IDLE_MS));
    skep_remote_account_release(account, 5 * SKEP_REMOTE_IDLE_MS);
    assert_null(skep_remote_sessions_find(sessions, &token, 6 * SKEP_REMOTE_IDLE_MS));
    skep_remote_sessions_free(sessions);
}

static void an_account_is_the_same_until_it_gives_way(void **state)
{
    (void)state;
    struct skep_remote_sessions *sessions = skep_remote_sessions_new(2 * ACCOUNT_BYTES);
    struct skep_remote_session *first = open(sessions, 1, 0);
    struct skep_remote_session *second = open(sessions, 2, 0);
    struct skep_remote_account *a = get(sessions, first, &SHARD_A, 1);
    struct skep_remote_account *b = get(sessions, second, &SHARD_A, 2);
    assert_ptr_not_equal(a, b);
    a->gradient[PARAMETERS - 1] = 7;
    assert_ptr_equal(get(sessions, first, &SHARD_A, 3), a);
    get(sessions, first, &SHARD_C, 4); /* the second caller's was not used for longest */
    assert_null(skep_remote_account_find(second, &SHARD_A));
    assert_ptr_equal(skep_remote_account_find(first, &SHARD_A), a);
    assert_int_equal(skep_remote_sessions_bytes(sessions), 2 * ACCOUNT_BYTES);
    struct skep_remote_account *again = get(sessions, second, &SHARD_A, 5);
    assert_null(skep_remote_account_find(first, &SHARD_A));
    assert_true(again->gradient[PARAMETERS - 1] == 0 && again->calls == 0);
    skep_remote_sessions_free(sessions);
}

static void what_is_in_use_never_gives_way(void **state)
{
    (void)state;
    struct skep_remote_sessions *sessions = skep_remote_sessions_new(ACCOUNT_BYTES);
    struct skep_remote_session *session = open(sessions, 1, 0);
    struct skep_remote_account *account = get(sessions, session, &SHARD_A, 0);
    struct skep_remote_account *other = NULL;
    struct skep_error err = {0};
    skep_remote_account_hold(account);
    assert_int_equal(
        skep_remote_account_get(sessions, session, &SHARD_B, PARAMETERS, 1, &other, &err),
        SKEP_ERR_STATE);
    assert_non_null(strstr(err.text, "ffn.0.0.1"));
    skep_remote_account_release(account, 2);
    get(sessions, session, &SHARD_B, 3);
    skep_remote_sessions_free(sessions);
}

static void an_expert_too_large_for_all_memory_is_refused(void **state)
{
    (void)state;
    struct skep_remote_sessions *sessions = skep_remote_sessions_new(ACCOUNT_BYTES);
    struct skep_remote_session *session = open(sessions, 1, 0);
    struct skep_remote_account *account = NULL;
    struct skep_error err = {0};
    assert_int_equal(
        skep_remote_account_get(sessions, session, &SHARD_A, PARAMETERS + 1, 0, &account, &err),
        SKEP_ERR_FULL);
    assert_non_null(strstr(err.text, "--remote-memory"));
    skep_remote_sessions_free(sessions);
}

static void the_idlest_session_makes_room_for_a_new_one(void **state)
{
    (void)state;
    struct skep_remote_sessions *sessions = skep_remote_sessions_new(ACCOUNT_BYTES);
    for (uint32_t i = 0; i < SKEP_REMOTE_SESSIONS; i++) {
        open(sessions, i, i);
    }
    struct skep_hash first = session_of(0).token;
    struct skep_hash second = session_of(1).token;
    assert_non_null(skep_remote_sessions_find(sessions, &first, SKEP_REMOTE_SESSIONS));
    open(sessions, SKEP_REMOTE_SESSIONS, SKEP_REMOTE_SESSIONS + 1);
    assert_int_equal(skep_remote_sessions_count(sessions), SKEP_REMOTE_SESSIONS);
    assert_non_null(skep_remote_sessions_find(sessions, &first, SKEP_REMOTE_SESSIONS + 1));
    assert_null(skep_remote_sessions_find(sessions, &second, SKEP_REMOTE_SESSIONS + 1));
    skep_remote_sessions_free(sessions);
}

static void sessions_that_hold_nothing_push_out_none_that_does(void **state)
{
    (void)state;
    struct skep_remote_sessions *sessions = skep_remote_sessions_new(ACCOUNT_BYTES);
    struct skep_remote_session *worker = open(sessions, 0, 0);
    struct skep_hash token = worker->token;
    struct skep_remote_account *account = get(sessions, worker, &SHARD_A, 0);
    for (uint32_t i = 1; i < 2 * SKEP_REMOTE_SESSIONS; i++) {
        open(sessions, i, i);
    }
    assert_int_equal(skep_remote_sessions_count(sessions), SKEP_REMOTE_SESSIONS);
    assert_ptr_equal(skep_remote_sessions_find(sessions, &token, 2 * SKEP_REMOTE_SESSIONS), worker);
    assert_ptr_equal(skep_remote_account_find(worker, &SHARD_A), account);
    skep_remote_sessions_free(sessions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_is_found_by_its_token_alone),
        cmocka_unit_test(a_statement_opens_one_session),
        cmocka_unit_test(a_session_ends_when_it_was_idle_for_long),
        cmocka_unit_test(a_session_at_work_does_not_end),
        cmocka_unit_test(an_account_is_the_same_until_it_gives_way),
        cmocka_unit_test(what_is_in_use_never_gives_way),
        cmocka_unit_test(an_expert_too_large_for_all_memory_is_refused),
        cmocka_unit_test(the_idlest_session_makes_room_for_a_new_one),
        cmocka_unit_test(sessions_that_hold_nothing_push_out_none_that_does),
    };
    return cmocka_run_group_tests_name("experts-sessions", tests, NULL, NULL);
}
