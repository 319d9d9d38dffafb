/* Fetching a shard when a keeper claims a version that it does not have. */
#include <string.h>

#include "tests/lib/cmocka.h"
#include "tests/unit/client/fake-keepers.h"

static int answer_404(void *user, size_t keeper, const struct skep_http_request *request,
                      struct skep_http_answer *answer, struct skep_error *err)
{
    (void)user;
    (void)keeper;
    (void)request;
    (void)err;
    answer->status = 404;
    return 0;
}

static void on_done(void *user, int result, const struct skep_error *err)
{
    (void)err;
    *(int *)user = result;
}

static void
a_keeper_that_has_not_the_version_it_claims_is_set_aside_and_its_claim_forgotten(void **state)
{
    (void)state;
    struct fake_keepers fakes;
    int result = 0;
    fake_keepers_init(&fakes, answer_404, NULL);
    struct skep_session *session = &fakes.session;
    session->heads.heads[0] = (struct skep_head){.known = true, .version = 1000000, .holders = 1};
    skep_shard_fetch(session, 0, on_done, &result);
    assert_int_equal(result, SKEP_ERR_NOT_FOUND);
    assert_true(skep_peers_is_aside(session->peers, &session->manifest.keepers[0]));
    assert_false(skep_peers_is_aside(session->peers, &session->manifest.keepers[1]));
    assert_false(session->heads.heads[0].known);
    fake_keepers_done(&fakes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_keeper_that_has_not_the_version_it_claims_is_set_aside_and_its_claim_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
