/*
 * What a keeper does with bad updates: for each reason there is to refuse one, a good update is spoiled in one place and handed in. The
 * reason, its class and HTTP status are the ones written here, it is counted, and nothing is stored. What the agreement asks for is not
 * refused for reasons that are this keeper's alone.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/crypto/hash.h"
#include "common/store/keeper-audits.h"
#include "common/swarm/pace.h"
#include "common/swarm/stamp.h"
#include "common/swarm/statement.h"
#include "common/wire/update.h"
#include "server/api/reply.h"
#include "server/audit.h"
#include "server/host.h"
#include "server/intake.h"
#include "server/project.h"
#include "server/shard.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/server/keeper-scene.h"

#define HOUR_MS 3600000u
#define CODEBOOK 4u /* offsets in a body: of the first tensor's codebook, */
#define BLOCKS 20u  /* its number of blocks, */
#define BITS_SIZE 24u
#define BITS 28u

/* ---- what can be wrong with it ---- */

typedef void (*spoiler)(struct scene *scene, struct draft *draft);

/* before it is sealed */

static void other_project(struct scene *scene, struct draft *draft)
{
    (void)scene;
    draft->statement.project.bytes[1]++;
}

static void no_such_shard(struct scene *scene, struct draft *draft)
{
    (void)scene;
    draft->statement.shard = (struct skep_shard){SKEP_SHARD_FFN, 9, 0, 0};
}

static void not_here(struct scene *scene, struct draft *draft)
{
    draft->statement.shard = skep_manifest_shard(&scene->project->manifest, EXPERT_THERE);
}

static void base_ahead(struct scene *scene, struct draft *draft)
{
    (void)scene;
    draft->statement.base_version = HEAD + 1;
}

static void base_stale(struct scene *scene, struct draft *draft)
{
    (void)scene;
    draft->statement.base_version = HEAD - SKEP_LIMIT_STALENESS - 1;
}

static void base_state(struct scene *scene, struct draft *draft)
{
    (void)scene;
    draft->statement.base_state.bytes[0]++;
}

static void expert_of(struct scene *scene, struct draft *draft)
{
    draft->statement.shard = scene->project->shards[EXPERT_HERE]->shard;
    draft->statement.base_state = scene->project->shards[EXPERT_HERE]->versions[0].root;
}

static void trunk_ahead(struct scene *scene, struct draft *draft)
{
    expert_of(scene, draft);
    draft->statement.trunk_version = HEAD + 1;
}

static void trunk_stale(struct scene *scene, struct draft *draft)
{
    expert_of(scene, draft);
    draft->statement.trunk_version = HEAD - SKEP_LIMIT_TICKET_AGE - 1;
}

static void ticket(struct scene *scene, struct draft *draft)
{
    (void)scene;
    draft->statement.ticket.bytes[0]++;
}

static void tokens(struct scene *scene, struct draft *draft)
{
    (void)scene;
    draft->statement.tokens++;
}

static void remote(struct scene *scene, struct draft *draft)
{
    scene->project->manifest.trust.remote = false;
    draft->statement.remote = true;
}

static void stamp(struct scene *scene, struct draft *draft)
{
    (void)draft;
    scene->project->manifest.trust.stamp_bits = HARD_BITS;
}

static void busy(struct scene *scene, struct draft *draft)
{
    struct skep_manifest *manifest = &scene->project->manifest;
    uint64_t later_ms = skep_loop_now_ms(scene->host.loop) + HOUR_MS;
    manifest->trust.stamp_bits = HARD_BITS;
    /* the time that checks take is paid for until later than any burst */
    assert_int_equal(
        skep_stamps_admit(scene->host.stamps, manifest, &draft->statement, later_ms, NULL),
        SKEP_ERR_REFUSED);
}

static void too_fast(struct scene *scene, struct draft *draft)
{
    (void)draft;
    struct skep_manifest huge = scene->project->manifest;
    huge.model.dim = 4096;
    huge.model.hidden = 16384;
    huge.training.steps = 10000;
    skep_pace_free(scene->project->pace);
    scene->project->pace = skep_pace_new(&huge, 1);
    scene_trunk(scene)->versions[0].since_ms = skep_loop_now_ms(scene->host.loop);
}

static void rate(struct scene *scene, struct draft *draft)
{
    uint64_t later_ms = skep_loop_now_ms(scene->host.loop) + HOUR_MS;
    assert_int_equal(
        skep_pace_admit(scene->project->pace, &draft->statement, UINT64_MAX, later_ms, NULL),
        SKEP_OK);
}

static void duplicate(struct scene *scene, struct draft *draft)
{
    struct skep_error err = {0};
    draft_seal(draft);
    assert_int_equal(scene_hand_in(scene, draft, &err), SKEP_OK);
    draft->file.size = 0;
    draft->statement.loss_last += 1;
}

static void replay(struct scene *scene, struct draft *draft)
{
    struct skep_kept_shard *trunk = scene_trunk(scene);
    trunk->recent = skep_realloc(trunk->recent, 1, sizeof *trunk->recent);
    trunk->recent_count = 1;
    trunk->recent[0] = (struct skep_round_update){.donor = draft->statement.donor,
                                                  .base_version = draft->statement.base_version};
}

/* An earlier update of the donor, from the version below, at a keeper that audits. */
static void audited(struct scene *scene, const struct draft *draft, enum skep_audit_verdict verdict)
{
    struct skep_project *project = scene->project;
    struct skep_audit_row row = {.update = {{scene->next_donor, 9}},
                                 .shard = draft->statement.shard,
                                 .donor = draft->statement.donor,
                                 .base_version = draft->statement.base_version - 1,
                                 .after = {{7}},
                                 .verdict = verdict};
    project->manifest.trust.audits = true;
    project->kept_count = project->shard_count;
    assert_int_equal(
        skep_keeper_db_add_audit(scene->host.db, &project->manifest.project, &row, NULL), SKEP_OK);
}

static void banned(struct scene *scene, struct draft *draft)
{
    audited(scene, draft, SKEP_AUDIT_INVALID);
}

static void history(struct scene *scene, struct draft *draft)
{
    audited(scene, draft, SKEP_AUDIT_VALID);
    draft->statement.before.bytes[0] = 8;
}

static void too_many_waiting(struct scene *scene, struct draft *draft)
{
    expert_of(scene, draft);
    for (uint32_t i = 0; i < SKEP_LIMIT_PENDING_UPDATES; i++) {
        struct skep_hash hash = {{0}};
        struct skep_peer_id donor = {{0}};
        skep_put_u32(hash.bytes, i);
        skep_put_u32(donor.bytes, i);
        assert_int_equal(
            skep_keeper_db_add_update(scene->host.db, &scene->project->manifest.project,
                                      &draft->statement.shard, &hash, &donor, HEAD, NULL),
            SKEP_OK);
    }
}

/* in the body */

static void tensor_count(struct scene *scene, struct draft *draft)
{
    (void)scene;
    draft->body.data[0]++;
}

static void block_count(struct scene *scene, struct draft *draft)
{
    (void)scene;
    draft->body.data[BLOCKS]++;
}

static void value_count(struct scene *scene, struct draft *draft)
{
    (void)scene;
    skep_put_u32(draft->body.data + BITS_SIZE, 1);
}

static void index_range(struct scene *scene, struct draft *draft)
{
    (void)scene;
    memset(draft->body.data + BITS, 0xff, 8);
}

static void codebook_not_finite(struct scene *scene, struct draft *draft)
{
    (void)scene;
    skep_put_f32(draft->body.data + CODEBOOK + 12, NAN);
}

static void codebook_ceiling(struct scene *scene, struct draft *draft)
{
    (void)scene;
    skep_put_f32(draft->body.data + CODEBOOK + 12, 1e6f);
}

static void codebook_order(struct scene *scene, struct draft *draft)
{
    (void)scene;
    skep_put_f32(draft->body.data + CODEBOOK + 12, 0);
}

static void negative_zero(struct scene *scene, struct draft *draft)
{
    (void)scene;
    skep_put_f32(draft->body.data + CODEBOOK, -0.0f);
}

static void trailing_bytes(struct scene *scene, struct draft *draft)
{
    (void)scene;
    skep_buffer_append_u8(&draft->body, 0);
}

static void truncated(struct scene *scene, struct draft *draft)
{
    (void)scene;
    draft->body.size -= 3;
}

static void mask(struct scene *scene, struct draft *draft)
{
    (void)draft;
    scene->project->manifest.update.mask = SKEP_MASK_COMMON;
}

/* in the file, once it is sealed */

static void file_size(struct scene *scene, struct draft *draft)
{
    (void)scene;
    size_t more = SKEP_LIMIT_UPDATE_BYTES + 1 - draft->file.size;
    uint8_t *zeros = skep_alloc(more, 1);
    skep_buffer_append(&draft->file, zeros, more);
    free(zeros);
}

static void magic(struct scene *scene, struct draft *draft)
{
    (void)scene;
    draft->file.data[0]++;
}

static void format_version(struct scene *scene, struct draft *draft)
{
    (void)scene;
    draft->file.data[4]++;
}

static void reserved(struct scene *scene, struct draft *draft)
{
    (void)scene;
    draft->file.data[6]++;
}

static void cut(struct scene *scene, struct draft *draft)
{
    (void)scene;
    draft->file.size = 40; /* in its envelope */
}

static void envelope_size(struct scene *scene, struct draft *draft)
{
    (void)scene;
    skep_put_u32(draft->file.data + 8, 0);
}

static void envelope(struct scene *scene, struct draft *draft)
{
    (void)scene;
    draft->file.size = 0;
    skep_update_file_join("{}", &draft->body, &draft->file);
}

/* A file around `payload`, signed with `key` as `type`. */
static void wrap(struct draft *draft, const struct skep_key *key, const char *type,
                 const char *payload)
{
    char *text = skep_statement_sign_text(key, type, payload);
    draft->file.size = 0;
    skep_update_file_join(text, &draft->body, &draft->file);
    free(text);
}

static void other_type(struct scene *scene, struct draft *draft)
{
    (void)scene;
    wrap(draft, draft->key, SKEP_TYPE_SEAL, "{}");
}

static void statement(struct scene *scene, struct draft *draft)
{
    (void)scene;
    wrap(draft, draft->key, SKEP_TYPE_UPDATE, "{}");
}

static void signature(struct scene *scene, struct draft *draft)
{
    (void)scene;
    struct skep_key *other = skep_key_new();
    char *payload = skep_update_statement_encode(&draft->statement);
    wrap(draft, other, SKEP_TYPE_UPDATE, payload);
    free(payload);
    skep_key_free(other);
}

static void body_hash(struct scene *scene, struct draft *draft)
{
    (void)scene;
    draft->file.data[draft->file.size - 1]++;
}

/* Beside its code each reason has an HTTP status (openapi.yaml). Those that leave the keeper changed stand at the end. */
static const struct {
    enum skep_refusal reason;
    enum skep_err code;
    int status;
    spoiler before;
    spoiler after;
} cases[] = {
    {SKEP_REFUSAL_FILE_SIZE, SKEP_ERR_TOO_LARGE, 413, NULL, file_size},
    {SKEP_REFUSAL_MAGIC, SKEP_ERR_FORMAT, 400, NULL, magic},
    {SKEP_REFUSAL_FORMAT_VERSION, SKEP_ERR_FORMAT, 400, NULL, format_version},
    {SKEP_REFUSAL_RESERVED, SKEP_ERR_FORMAT, 400, NULL, reserved},
    {SKEP_REFUSAL_TRUNCATED, SKEP_ERR_FORMAT, 400, NULL, cut},
    {SKEP_REFUSAL_TRUNCATED, SKEP_ERR_FORMAT, 400, truncated, NULL},
    {SKEP_REFUSAL_ENVELOPE_SIZE, SKEP_ERR_TOO_LARGE, 413, NULL, envelope_size},
    {SKEP_REFUSAL_ENVELOPE, SKEP_ERR_FORMAT, 400, NULL, envelope},
    {SKEP_REFUSAL_ENVELOPE, SKEP_ERR_FORMAT, 400, NULL, other_type},
    {SKEP_REFUSAL_SIGNATURE, SKEP_ERR_SIGNATURE, 400, NULL, signature},
    {SKEP_REFUSAL_STATEMENT, SKEP_ERR_FORMAT, 400, NULL, statement},
    {SKEP_REFUSAL_BODY_HASH, SKEP_ERR_HASH, 400, NULL, body_hash},
    {SKEP_REFUSAL_OTHER_PROJECT, SKEP_ERR_REFUSED, 403, other_project, NULL},
    {SKEP_REFUSAL_NO_SUCH_SHARD, SKEP_ERR_NOT_FOUND, 404, no_such_shard, NULL},
    {SKEP_REFUSAL_NOT_HERE, SKEP_ERR_NOT_FOUND, 404, not_here, NULL},
    {SKEP_REFUSAL_BASE_AHEAD, SKEP_ERR_STATE, 409, base_ahead, NULL},
    {SKEP_REFUSAL_BASE_STALE, SKEP_ERR_STALE, 409, base_stale, NULL},
    {SKEP_REFUSAL_BASE_STATE, SKEP_ERR_HASH, 400, base_state, NULL},
    {SKEP_REFUSAL_TRUNK_AHEAD, SKEP_ERR_STATE, 409, trunk_ahead, NULL},
    {SKEP_REFUSAL_TRUNK_STALE, SKEP_ERR_STALE, 409, trunk_stale, NULL},
    {SKEP_REFUSAL_TICKET, SKEP_ERR_REFUSED, 403, ticket, NULL},
    {SKEP_REFUSAL_TOKENS, SKEP_ERR_REFUSED, 403, tokens, NULL},
    {SKEP_REFUSAL_TENSOR_COUNT, SKEP_ERR_FORMAT, 400, tensor_count, NULL},
    {SKEP_REFUSAL_BLOCK_COUNT, SKEP_ERR_FORMAT, 400, block_count, NULL},
    {SKEP_REFUSAL_VALUE_COUNT, SKEP_ERR_FORMAT, 400, value_count, NULL},
    {SKEP_REFUSAL_INDEX_RANGE, SKEP_ERR_FORMAT, 400, index_range, NULL},
    {SKEP_REFUSAL_CODEBOOK_NOT_FINITE, SKEP_ERR_NUMERIC, 400, codebook_not_finite, NULL},
    {SKEP_REFUSAL_CODEBOOK_CEILING, SKEP_ERR_NUMERIC, 400, codebook_ceiling, NULL},
    {SKEP_REFUSAL_CODEBOOK_ORDER, SKEP_ERR_FORMAT, 400, codebook_order, NULL},
    {SKEP_REFUSAL_NOT_CANONICAL, SKEP_ERR_FORMAT, 400, negative_zero, NULL},
    {SKEP_REFUSAL_TRAILING_BYTES, SKEP_ERR_FORMAT, 400, trailing_bytes, NULL},
    {SKEP_REFUSAL_DUPLICATE, SKEP_ERR_DUPLICATE, 409, duplicate, NULL},
    {SKEP_REFUSAL_REPLAY, SKEP_ERR_DUPLICATE, 409, replay, NULL},
    {SKEP_REFUSAL_REMOTE, SKEP_ERR_REFUSED, 403, remote, NULL},
    {SKEP_REFUSAL_MASK, SKEP_ERR_REFUSED, 403, mask, NULL},
    {SKEP_REFUSAL_STAMP, SKEP_ERR_REFUSED, 403, stamp, NULL},
    {SKEP_REFUSAL_BUSY, SKEP_ERR_STATE, 409, busy, NULL},
    {SKEP_REFUSAL_RATE, SKEP_ERR_STATE, 409, rate, NULL},
    {SKEP_REFUSAL_TOO_FAST, SKEP_ERR_STATE, 409, too_fast, NULL},
    {SKEP_REFUSAL_BANNED, SKEP_ERR_REFUSED, 403, banned, NULL},
    {SKEP_REFUSAL_HISTORY, SKEP_ERR_REFUSED, 403, history, NULL},
    {SKEP_REFUSAL_WAITING, SKEP_ERR_STATE, 409, too_many_waiting, NULL},
};

#define CASES (sizeof cases / sizeof cases[0])

/* Puts back what a case may have changed. */
static void mend(struct scene *scene, const struct skep_manifest *manifest)
{
    scene->project->manifest.update.mask = manifest->update.mask;
    scene->project->manifest.trust = manifest->trust;
    scene->project->kept_count = 0;
    scene_trunk(scene)->recent_count = 0;
}

static void try_case(struct scene *scene, size_t i)
{
    const struct skep_project *project = scene->project;
    struct skep_error err = {0};
    struct draft draft;
    draft_begin(scene, &draft, 0);
    if (cases[i].before != NULL) {
        cases[i].before(scene, &draft);
    }
    draft_seal(&draft);
    if (cases[i].after != NULL) {
        cases[i].after(scene, &draft);
    }
    const char *name = skep_refusal_name(cases[i].reason);
    size_t waited = scene_waiting(scene);
    uint64_t accepted = project->accepted;
    uint64_t counted = project->refused[cases[i].reason];
    int rc = scene_hand_in(scene, &draft, &err);
    if (err.reason != cases[i].reason || rc != (int)cases[i].code) {
        fail_msg("%s: refused as \"%s\", code %d, %s", name, skep_refusal_name(err.reason), rc,
                 err.text);
    }
    assert_int_equal(err.code, rc);
    assert_int_equal(skep_reply_status_of(err.code), cases[i].status);
    assert_true(strlen(err.text) > 10);
    struct skep_hash hash = skep_hash_of(draft.file.data, draft.file.size);
    assert_false(skep_blobs_has(scene->host.blobs, &hash));
    assert_int_equal(scene_waiting(scene), waited);
    assert_int_equal(project->accepted, accepted);
    assert_int_equal(project->refused[cases[i].reason], counted + 1);
    draft_done(&draft);
}

static void each_bad_update_is_refused_for_its_own_reason_and_nothing_is_stored(void **state)
{
    struct scene *scene = *state;
    struct skep_manifest manifest = scene->project->manifest;
    for (size_t i = 0; i < CASES; i++) {
        try_case(scene, i);
        mend(scene, &manifest);
    }
}

static void there_is_a_bad_update_for_each_reason(void **state)
{
    (void)state;
    for (int reason = SKEP_REFUSAL_NONE + 1; reason < SKEP_REFUSALS; reason++) {
        bool tried = false;
        for (size_t i = 0; i < CASES; i++) {
            tried = tried || cases[i].reason == (enum skep_refusal)reason;
        }
        if (!tried) {
            fail_msg("no bad update is refused as \"%s\"",
                     skep_refusal_name((enum skep_refusal)reason));
        }
    }
}

/* What only this keeper's clock and memory say is no reason to refuse what a list under agreement names. */
static void what_the_agreement_asks_for_is_not_refused_for_its_pace(void **state)
{
    struct scene *scene = *state;
    struct skep_error err = {0};
    struct draft draft;
    draft_begin(scene, &draft, 0);
    rate(scene, &draft);
    too_fast(scene, &draft);
    draft_seal(&draft);
    assert_int_equal(scene_hand_in(scene, &draft, &err), SKEP_ERR_STATE);
    assert_int_equal(skep_intake_fetched(scene->project, draft.file.data, draft.file.size, &err),
                     SKEP_OK);
    assert_int_equal(scene_waiting(scene), 1);
    draft_done(&draft);
}

/* Not ban nor history: others may have seen another past of the donor, and have voted. */
static void
what_the_agreement_asks_for_is_not_refused_for_what_only_we_know_of_its_donor(void **state)
{
    static const spoiler local[] = {banned, history};
    struct scene *scene = *state;
    scene_open_audits(scene);
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++) {
        struct skep_error err = {0};
        struct draft draft;
        draft_begin(scene, &draft, 0);
        local[i](scene, &draft);
        draft_seal(&draft);
        assert_int_equal(scene_hand_in(scene, &draft, &err), SKEP_ERR_REFUSED);
        assert_int_equal(scene_waiting(scene), i);
        assert_int_equal(
            skep_intake_fetched(scene->project, draft.file.data, draft.file.size, &err), SKEP_OK);
        struct skep_hash hash = skep_hash_of(draft.file.data, draft.file.size);
        assert_true(skep_blobs_has(scene->host.blobs, &hash));
        assert_int_equal(scene_waiting(scene), i + 1);
        assert_false(skep_audit_yields(scene->project, &hash)); /* not yet */
        draft_done(&draft);
    }
    skep_audit_close(scene->host.audit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            each_bad_update_is_refused_for_its_own_reason_and_nothing_is_stored, keeper_scene_open,
            keeper_scene_close),
        cmocka_unit_test(there_is_a_bad_update_for_each_reason),
        cmocka_unit_test_setup_teardown(what_the_agreement_asks_for_is_not_refused_for_its_pace,
                                        keeper_scene_open, keeper_scene_close),
        cmocka_unit_test_setup_teardown(
            what_the_agreement_asks_for_is_not_refused_for_what_only_we_know_of_its_donor,
            keeper_scene_open, keeper_scene_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
