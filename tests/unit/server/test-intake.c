/*
 * What a keeper does with bad updates: for each reason there is to refuse one, a good update is spoiled in one place and handed in. The
 * reason, its class and HTTP status are the ones written here, it is counted, and nothing is stored. The keeper is real but for
 * network and agreement: its database, files and shards.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/crypto/hash.h"
#include "common/merge/mask.h"
#include "common/store/keeper-audits.h"
#include "common/swarm/history.h"
#include "common/swarm/pace.h"
#include "common/swarm/reputation.h"
#include "common/swarm/stamp.h"
#include "common/swarm/statement.h"
#include "common/swarm/ticket.h"
#include "common/swarm/update-open.h"
#include "common/sys/file.h"
#include "server/api/api.h"
#include "server/api/reply.h"
#include "server/audit-internal.h"
#include "server/audit-job.h"
#include "server/audit.h"
#include "server/beacons.h"
#include "server/host.h"
#include "server/intake.h"
#include "server/project.h"
#include "server/shard.h"
#include "server/trust.h"
#include "tests/lib/cmocka.h"

#define HEAD 15u /* the newest version of every shard here */
#define HOUR_MS 3600000u
#define HARD_BITS 30u  /* nobody has such a stamp */
#define EXPERT_HERE 1u /* places in the manifest's order */
#define EXPERT_THERE 2u
#define CODEBOOK 4u /* offsets in a body: of the first tensor's codebook, */
#define BLOCKS 20u  /* its number of blocks, */
#define BITS_SIZE 24u
#define BITS 28u

struct scene {
    char folder[64];
    struct skep_host host;
    struct skep_project *project;
    struct skep_peer_id keeper;
    uint8_t next_donor;
};

/* An update that is being made. */
struct draft {
    struct skep_key *key;
    struct skep_update_statement statement;
    struct skep_buffer body;
    struct skep_buffer file;
};

/* ---- a keeper ---- */

static void fill_manifest(struct skep_manifest *manifest, struct skep_peer_id *keeper)
{
    manifest->model.kind = SKEP_MODEL_LM;
    skep_manifest_defaults(manifest);
    manifest->model.dim = 8;
    manifest->model.hidden = 8;
    manifest->model.heads = 2;
    manifest->model.layers = 1;
    manifest->model.context = 8;
    manifest->model.prefix = 2;
    manifest->model.rows = 2;
    manifest->model.columns = 2;
    manifest->name = skep_strdup("tiny");
    manifest->project.bytes[0] = 0x11;
    manifest->trust.stamp_bits = 0;
    manifest->replicas = 1;
    manifest->keeper_count = 1;
    manifest->keepers = skep_alloc(1, sizeof *manifest->keepers);
    manifest->keepers[0] = *keeper;
}

/* As if versions 13 to 15 had been sealed before the keeper started, each with the state of version 0. */
static void pretend_versions(struct skep_kept_shard *shard)
{
    struct skep_kept_version first = shard->versions[0];
    for (uint8_t i = 0; i < SKEP_KEPT_VERSIONS; i++) {
        shard->versions[i] = first;
        shard->versions[i].version = HEAD - i;
        shard->versions[i].payload.bytes[0] = (uint8_t)(0x80 + i);
        shard->versions[i].since_ms = UINT64_MAX;
    }
    shard->version_count = SKEP_KEPT_VERSIONS;
}

static int set_up(void **state)
{
    struct scene *scene = skep_alloc(1, sizeof *scene);
    struct skep_project *project = skep_alloc(1, sizeof *project);
    strcpy(scene->folder, "/dev/shm/skep-intake-XXXXXX"); /* hundreds of rows, each synced */
    if (mkdtemp(scene->folder) == NULL) {
        strcpy(scene->folder, "/tmp/skep-intake-XXXXXX");
        assert_non_null(mkdtemp(scene->folder));
    }
    char *db = skep_format("%s/keeper.db", scene->folder);
    char *blobs = skep_format("%s/blobs", scene->folder);
    struct skep_host *host = &scene->host;
    assert_int_equal(skep_keeper_db_open(db, &host->db, NULL), SKEP_OK);
    assert_int_equal(skep_blobs_open(blobs, &host->blobs, NULL), SKEP_OK);
    host->loop = skep_loop_new();
    host->stamps = skep_stamps_new(1);
    scene->project = project;
    project->host = host;
    fill_manifest(&project->manifest, &scene->keeper);
    assert_int_equal(skep_keeper_db_add_project(host->db, &project->manifest.project, "{}", NULL),
                     SKEP_OK);
    project->shard_count = skep_manifest_shard_count(&project->manifest);
    project->shards = skep_alloc(project->shard_count, sizeof(struct skep_kept_shard *));
    for (size_t i = 0; i <= EXPERT_HERE; i++) {
        assert_int_equal(skep_kept_shard_open(project, i, &project->shards[i], NULL), SKEP_OK);
        pretend_versions(project->shards[i]);
    }
    project->beacons = skep_beacons_new(project);
    project->pace = skep_pace_new(&project->manifest, 1);
    free(db);
    free(blobs);
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    skep_project_free(scene->project);
    skep_stamps_free(scene->host.stamps);
    skep_loop_free(scene->host.loop);
    skep_blobs_close(scene->host.blobs);
    skep_keeper_db_close(scene->host.db);
    skep_folder_remove(scene->folder, NULL);
    free(scene);
    return 0;
}

/* ---- a good update ---- */

static struct skep_kept_shard *trunk_of(const struct scene *scene)
{
    return scene->project->shards[0];
}

static void sign_ticket(struct draft *draft, const struct skep_kept_shard *shard, uint64_t version)
{
    struct skep_update_statement *statement = &draft->statement;
    statement->trunk_version = version;
    statement->ticket =
        skep_ticket_of(&shard->versions[HEAD - version].payload, &statement->donor, version);
}

/* Of the shard at place `index`, from its newest version, by a donor who has sent nothing yet. */
static void begin(struct scene *scene, struct draft *draft, size_t index)
{
    const struct skep_manifest *manifest = &scene->project->manifest;
    const struct skep_kept_shard *shard = scene->project->shards[index];
    const struct skep_shape *shape = &shard->shape;
    uint8_t seed[32] = {++scene->next_donor, 1};
    float *delta = skep_alloc(shape->layout.parameters, sizeof *delta);
    float *residual = skep_alloc(shape->layout.parameters, sizeof *residual);
    struct skep_update_body body = {0};
    *draft = (struct draft){.key = skep_key_from_seed(seed)};
    draft->statement = (struct skep_update_statement){.project = manifest->project,
                                                      .shard = shard->shard,
                                                      .base_version = HEAD,
                                                      .base_state = shard->versions[0].root,
                                                      .donor = skep_key_id(draft->key),
                                                      .tokens = skep_job_tokens(manifest)};
    sign_ticket(draft, trunk_of(scene), HEAD);
    for (size_t i = 0; i < shape->layout.parameters; i++) {
        delta[i] = 0.01f * (float)(i % 7 + 1);
    }
    assert_int_equal(skep_shape_compress(shape, HEAD, delta, residual, &body, NULL), SKEP_OK);
    skep_update_body_encode(&body, &draft->body);
    skep_update_body_done(&body);
    free(delta);
    free(residual);
}

static void seal(struct draft *draft)
{
    skep_update_seal(draft->key, &draft->statement, &draft->body, &draft->file);
}

static void draft_done(struct draft *draft)
{
    skep_key_free(draft->key);
    skep_buffer_done(&draft->body);
    skep_buffer_done(&draft->file);
}

static int hand_in(struct scene *scene, const struct draft *draft, struct skep_error *err)
{
    struct skep_hash hash;
    bool is_new = false;
    int rc =
        skep_intake_update(scene->project, draft->file.data, draft->file.size, &hash, &is_new, err);
    assert_true(rc != SKEP_OK || is_new);
    return rc;
}

static int count_one(void *user, const struct skep_hash *update, const struct skep_peer_id *donor,
                     uint64_t base_version)
{
    (void)update;
    (void)donor;
    (void)base_version;
    (*(size_t *)user)++;
    return SKEP_OK;
}

/* Updates that wait, of all shards here. */
static size_t waiting(struct scene *scene)
{
    size_t count = 0;
    for (size_t i = 0; i <= EXPERT_HERE; i++) {
        assert_int_equal(
            skep_keeper_db_each_update(scene->host.db, &scene->project->manifest.project,
                                       &scene->project->shards[i]->shard, count_one, &count, NULL),
            SKEP_OK);
    }
    return count;
}

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
    trunk_of(scene)->versions[0].since_ms = skep_loop_now_ms(scene->host.loop);
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
    seal(draft);
    assert_int_equal(hand_in(scene, draft, &err), SKEP_OK);
    draft->file.size = 0;
    draft->statement.loss_last += 1;
}

static void replay(struct scene *scene, struct draft *draft)
{
    struct skep_kept_shard *trunk = trunk_of(scene);
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
    trunk_of(scene)->recent_count = 0;
}

static void try_case(struct scene *scene, size_t i)
{
    const struct skep_project *project = scene->project;
    struct skep_error err = {0};
    struct draft draft;
    begin(scene, &draft, 0);
    if (cases[i].before != NULL) {
        cases[i].before(scene, &draft);
    }
    seal(&draft);
    if (cases[i].after != NULL) {
        cases[i].after(scene, &draft);
    }
    const char *name = skep_refusal_name(cases[i].reason);
    size_t waited = waiting(scene);
    uint64_t accepted = project->accepted;
    uint64_t counted = project->refused[cases[i].reason];
    int rc = hand_in(scene, &draft, &err);
    if (err.reason != cases[i].reason || rc != (int)cases[i].code) {
        fail_msg("%s: refused as \"%s\", code %d, %s", name, skep_refusal_name(err.reason), rc,
                 err.text);
    }
    assert_int_equal(err.code, rc);
    assert_int_equal(skep_reply_status_of(err.code), cases[i].status);
    assert_true(strlen(err.text) > 10);
    struct skep_hash hash = skep_hash_of(draft.file.data, draft.file.size);
    assert_false(skep_blobs_has(scene->host.blobs, &hash));
    assert_int_equal(waiting(scene), waited);
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

static void good_updates_are_stored_once(void **state)
{
    struct scene *scene = *state;
    for (size_t index = 0; index <= EXPERT_HERE; index++) {
        struct skep_error err = {0};
        struct skep_hash hash = {{0}};
        struct draft draft;
        bool is_new = false;
        begin(scene, &draft, index);
        seal(&draft);
        int rc = hand_in(scene, &draft, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(rc, SKEP_OK);
        assert_int_equal(waiting(scene), index + 1);
        assert_int_equal(skep_intake_update(scene->project, draft.file.data, draft.file.size, &hash,
                                            &is_new, NULL),
                         SKEP_OK);
        assert_false(is_new);
        assert_true(skep_blobs_has(scene->host.blobs, &hash));
        assert_int_equal(waiting(scene), index + 1);
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
    begin(scene, &draft, 0); /* compressed with the mask, as the manifest says */
    seal(&draft);
    int rc = hand_in(scene, &draft, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, SKEP_OK);
    draft_done(&draft);
}

static void an_update_of_remote_calls_is_taken_if_the_project_merges_them(void **state)
{
    struct scene *scene = *state;
    struct skep_error err = {0};
    struct draft draft;
    begin(scene, &draft, EXPERT_HERE);
    draft.statement.remote = true;
    draft.statement.tokens = 3;
    sign_ticket(&draft, scene->project->shards[EXPERT_HERE], HEAD);
    seal(&draft);
    int rc = hand_in(scene, &draft, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, SKEP_OK);
    draft_done(&draft);
}

/* What only this keeper's clock and memory say is no reason to refuse what a list under agreement names. */
static void what_the_agreement_asks_for_is_not_refused_for_its_pace(void **state)
{
    struct scene *scene = *state;
    struct skep_error err = {0};
    struct draft draft;
    begin(scene, &draft, 0);
    rate(scene, &draft);
    too_fast(scene, &draft);
    seal(&draft);
    assert_int_equal(hand_in(scene, &draft, &err), SKEP_ERR_STATE);
    assert_int_equal(skep_intake_fetched(scene->project, draft.file.data, draft.file.size, &err),
                     SKEP_OK);
    assert_int_equal(waiting(scene), 1);
    draft_done(&draft);
}

/* A keeper that audits, as one that has all shards. */
static void open_audits(struct scene *scene)
{
    scene->host.options.dir = scene->folder;
    assert_int_equal(skep_audit_open(&scene->host, &scene->host.audit, NULL), SKEP_OK);
}

/* Not ban nor history: others may have seen another past of the donor, and have voted. */
static void
what_the_agreement_asks_for_is_not_refused_for_what_only_we_know_of_its_donor(void **state)
{
    static const spoiler local[] = {banned, history};
    struct scene *scene = *state;
    open_audits(scene);
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++) {
        struct skep_error err = {0};
        struct draft draft;
        begin(scene, &draft, 0);
        local[i](scene, &draft);
        seal(&draft);
        assert_int_equal(hand_in(scene, &draft, &err), SKEP_ERR_REFUSED);
        assert_int_equal(waiting(scene), i);
        assert_int_equal(
            skep_intake_fetched(scene->project, draft.file.data, draft.file.size, &err), SKEP_OK);
        struct skep_hash hash = skep_hash_of(draft.file.data, draft.file.size);
        assert_true(skep_blobs_has(scene->host.blobs, &hash));
        assert_int_equal(waiting(scene), i + 1);
        assert_false(skep_audit_yields(scene->project, &hash)); /* not yet */
        draft_done(&draft);
    }
    skep_audit_close(scene->host.audit);
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
    open_audits(scene);
    manifest->trust.audits = true;
    scene->project->kept_count = scene->project->shard_count;
    for (size_t i = 0; i < SKEP_AUDIT_NEW_JOBS; i++) {
        begin(scene, &draft, 0);
        seal(&draft);
        assert_int_equal(hand_in(scene, &draft, &err), SKEP_OK);
        draft_done(&draft);
    }
    begin(scene, &draft, 0);
    seal(&draft);
    struct skep_hash hash = skep_hash_of(draft.file.data, draft.file.size);
    assert_int_equal(hand_in(scene, &draft, &err), SKEP_ERR_STATE);
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

/* A flat file of so many arrays of zeros, appended; what it ends with. */
static struct skep_hash add_flat(struct skep_buffer *bytes, uint8_t arrays, size_t count)
{
    size_t size = (size_t)skep_flat_bytes(arrays, count);
    uint8_t *file = skep_alloc(1, size);
    memcpy(file, SKEP_FLAT_MARK, 4);
    file[4] = arrays;
    for (unsigned i = 0; i < 8; i++) {
        file[16 + i] = (uint8_t)((uint64_t)count >> (8 * i));
    }
    struct skep_hash hash = skep_hash_of(file, size - SKEP_ID_SIZE);
    memcpy(file + size - SKEP_ID_SIZE, hash.bytes, SKEP_ID_SIZE);
    skep_buffer_append(bytes, file, size);
    free(file);
    return hash;
}

/* Hands in an update that says it began with this history; its hash. */
static struct skep_hash hand_in_with(struct scene *scene, size_t index,
                                     const struct skep_hash *before)
{
    struct skep_error err = {0};
    struct draft draft;
    begin(scene, &draft, index);
    draft.statement.before = *before;
    seal(&draft);
    assert_int_equal(hand_in(scene, &draft, &err), SKEP_OK);
    struct skep_hash hash = skep_hash_of(draft.file.data, draft.file.size);
    draft_done(&draft);
    return hash;
}

/* Updates are public: a stranger can say that its job of another shard began with the history of another donor. */
static void
whoever_names_the_history_of_another_donor_does_not_keep_it_from_being_shown(void **state)
{
    struct scene *scene = *state;
    struct skep_buffer bytes = {0};
    struct skep_error err = {0};
    size_t parameters = trunk_of(scene)->shape.layout.parameters;
    assert_true(parameters != scene->project->shards[EXPERT_HERE]->shape.layout.parameters);
    struct skep_hash moments = add_flat(&bytes, SKEP_MOMENT_ARRAYS, parameters);
    struct skep_hash residual = add_flat(&bytes, SKEP_RESIDUAL_ARRAYS, parameters);
    struct skep_hash history = skep_history_of(&moments, &residual);
    open_audits(scene);
    scene->project->manifest.trust.audits = true;
    scene->project->kept_count = scene->project->shard_count;
    struct skep_audit *audit = scene->host.audit;
    hand_in_with(scene, EXPERT_HERE, &history);
    assert_int_equal(skep_audit_evidence(audit, &history, bytes.data, bytes.size, &err),
                     SKEP_ERR_FORMAT); /* nobody has it that could begin with it */
    hand_in_with(scene, 0, &history);
    assert_int_equal(skep_audit_evidence(audit, &history, bytes.data, bytes.size - 1, &err),
                     SKEP_ERR_FORMAT);
    assert_int_equal(skep_audit_evidence(audit, &history, bytes.data, bytes.size, &err), SKEP_OK);
    assert_int_equal(skep_audit_evidence_bytes(audit), bytes.size);
    skep_buffer_done(&bytes);
    skep_audit_close(audit);
}

static enum skep_audit_verdict verdict_of(const struct scene *scene, const struct skep_hash *update)
{
    struct skep_audit_row row;
    assert_int_equal(skep_keeper_db_get_audit(scene->host.db, &scene->project->manifest.project,
                                              update, &row, NULL),
                     SKEP_OK);
    return row.verdict;
}

/* It showed its history when there was no room for it, got as long once more, and never showed it again. */
static void who_is_given_more_time_because_there_was_no_room_has_to_show_it_once_more(void **state)
{
    struct scene *scene = *state;
    struct skep_buffer bytes = {0};
    struct skep_error err = {0};
    const struct skep_kept_shard *expert = scene->project->shards[EXPERT_HERE];
    struct skep_hash never = {{1}};
    size_t parameters = trunk_of(scene)->shape.layout.parameters;
    struct skep_hash moments = add_flat(&bytes, SKEP_MOMENT_ARRAYS, parameters);
    struct skep_hash residual = add_flat(&bytes, SKEP_RESIDUAL_ARRAYS, parameters);
    struct skep_hash history = skep_history_of(&moments, &residual);
    char *folder = skep_format("%s/evidence", scene->folder);
    open_audits(scene);
    scene->project->manifest.trust.audits = true;
    scene->project->kept_count = scene->project->shard_count;
    scene->host.audit->queue.wait_ms = 0;
    struct skep_hash update = hand_in_with(scene, 0, &history);
    assert_int_equal(skep_folder_remove(folder, NULL), 0);
    assert_int_not_equal(
        skep_audit_evidence(scene->host.audit, &history, bytes.data, bytes.size, &err), SKEP_OK);
    assert_int_equal(skep_folder_make(folder, NULL), 0);
    bytes.size = 0;
    parameters = expert->shape.layout.parameters;
    moments = add_flat(&bytes, SKEP_MOMENT_ARRAYS, parameters);
    residual = add_flat(&bytes, SKEP_RESIDUAL_ARRAYS, parameters);
    history = skep_history_of(&moments, &residual);
    hand_in_with(scene, EXPERT_HERE, &history);
    struct skep_hash silent = hand_in_with(scene, 0, &never);
    /* which makes the keeper look at what waits: all of it waited for 0 ms, and that one for 0 ms more */
    assert_int_equal(skep_audit_evidence(scene->host.audit, &history, bytes.data, bytes.size, &err),
                     SKEP_OK);
    assert_int_equal(skep_audit_waiting(scene->host.audit), 0);
    assert_int_equal(verdict_of(scene, &silent), SKEP_AUDIT_UNANSWERED);
    assert_int_equal(verdict_of(scene, &update), SKEP_AUDIT_UNANSWERED);
    free(folder);
    skep_buffer_done(&bytes);
    skep_audit_close(scene->host.audit);
}

/* Of zeros, for the shard at place `index`. */
static struct skep_hash make_history(const struct scene *scene, size_t index,
                                     struct skep_buffer *ret_bytes)
{
    size_t parameters = scene->project->shards[index]->shape.layout.parameters;
    struct skep_hash moments = add_flat(ret_bytes, SKEP_MOMENT_ARRAYS, parameters);
    struct skep_hash residual = add_flat(ret_bytes, SKEP_RESIDUAL_ARRAYS, parameters);
    return skep_history_of(&moments, &residual);
}

/* Signed and handed in: a job of the trunk, whose list names nothing else, and with `extra` an expert's update of the same ticket. */
static void try_false_job(struct scene *scene, size_t history_of, bool extra)
{
    struct skep_error err = {0};
    struct draft draft;
    struct skep_buffer bytes = {0};
    struct skep_hash history = make_history(scene, history_of, &bytes);
    struct skep_hash updates[2];
    for (size_t i = 0; i <= extra; i++) {
        begin(scene, &draft, extra && i == 0 ? EXPERT_HERE : 0);
        scene->next_donor -= i < extra;
        if (i == extra) {
            draft.statement.before = history;
        }
        seal(&draft);
        updates[i] = skep_hash_of(draft.file.data, draft.file.size);
        assert_int_equal(hand_in(scene, &draft, &err), SKEP_OK);
        assert_int_equal(verdict_of(scene, &updates[i]), SKEP_AUDIT_OPEN);
        draft_done(&draft);
    }
    begin(scene, &draft,
          EXPERT_HERE); /* somebody whose history it is, if it is none of the trunk */
    draft.statement.before = history;
    seal(&draft);
    struct skep_hash honest = skep_hash_of(draft.file.data, draft.file.size);
    assert_int_equal(hand_in(scene, &draft, &err), SKEP_OK);
    draft_done(&draft);
    assert_int_equal(skep_audit_evidence(scene->host.audit, &history, bytes.data, bytes.size, &err),
                     SKEP_OK);
    for (size_t i = 0; i <= extra; i++) {
        assert_int_equal(verdict_of(scene, &updates[i]), SKEP_AUDIT_INVALID);
    }
    assert_int_equal(verdict_of(scene, &honest), SKEP_AUDIT_OPEN);
    skep_buffer_done(&bytes);
}

/* What no worker could finish must not be a way out of an audit. */
static void a_job_that_contradicts_itself_is_invalid_and_need_not_be_repeated(void **state)
{
    struct scene *scene = *state;
    scene->project->manifest.trust.audits = true;
    scene->project->kept_count = scene->project->shard_count;
    open_audits(scene);
    try_false_job(scene, 0, true);
    try_false_job(scene, EXPERT_HERE, false);
    skep_audit_close(scene->host.audit);
}

/* Reputations in which the donor of the draft has this n, and was seen in the newest version. */
static void trust(struct scene *scene, const struct draft *draft, uint64_t n)
{
    struct skep_reputation row = {
        .donor = draft->statement.donor, .earned = n << 16, .seen = HEAD, .merged = n};
    struct skep_project *project = scene->project;
    skep_reputations_free(project->reputations);
    project->reputations = skep_reputations_new(SKEP_REPUTATION_LIMIT);
    assert_int_equal(skep_reputation_restore(project->reputations, HEAD, &row, 1, NULL), SKEP_OK);
    project->manifest.trust.audits = true;
    project->kept_count = project->shard_count;
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
    open_audits(scene);
    begin(scene, &draft, 0);
    trust(scene, &draft, 1);
    seal(&draft);
    assert_true(is_told(scene, &draft, 201));
    assert_false(is_told(scene, &draft, 200));
    draft_done(&draft);
    skep_audit_close(scene->host.audit);
}

/* One more of the same donor and job; hands it in and says its hash. */
static struct skep_hash hand_in_part(struct scene *scene, struct draft *draft, size_t index)
{
    struct skep_error err = {0};
    scene->next_donor--;
    draft_done(draft);
    begin(scene, draft, index);
    draft->statement.before.bytes[0] = (uint8_t)(index + 1);
    seal(draft);
    assert_int_equal(hand_in(scene, draft, &err), SKEP_OK);
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
    open_audits(scene);
    for (int drawn = 0; drawn < 2; drawn++) {
        begin(scene, &draft, EXPERT_HERE);
        trust(scene, &draft, SKEP_REPUTATION_MOST);
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
    open_audits(scene);
    for (int drawn = 0; drawn < 2; drawn++) {
        begin(scene, &draft, EXPERT_HERE);
        trust(scene, &draft, SKEP_REPUTATION_MOST);
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
    begin(scene, draft, EXPERT_HERE);
    trust(scene, draft, SKEP_REPUTATION_MOST);
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
    pretend_versions(shards[EXPERT_THERE]);
    open_audits(scene);
    hand_in_two(scene, &draft, updates);
    while (version < HEAD + SKEP_LIMIT_STALENESS + 1) {
        seal_at(scene, 0, ++version, false, &none, true);
        assert_int_equal(verdict_of(scene, &updates[0]), SKEP_AUDIT_OPEN);
        assert_int_equal(verdict_of(scene, &updates[1]), SKEP_AUDIT_OPEN);
    }
    seal_at(scene, 0, ++version, false, &none, true);
    assert_int_equal(verdict_of(scene, &updates[1]), SKEP_AUDIT_UNANSWERED);
    assert_false(is_admitted(scene, EXPERT_THERE, &updates[1], &draft));
    assert_true(skep_trust_is_trusted(scene->project, &draft.statement.donor));
    draft_done(&draft);
    shards[EXPERT_HERE]->versions[0].version = HEAD;
    hand_in_two(scene, &draft, updates);
    shards[EXPERT_THERE]->versions[0].version += SKEP_LIMIT_STALENESS + 2;
    seal_at(scene, 0, HEAD + 1, false, &none, true);
    assert_int_equal(verdict_of(scene, &updates[1]), SKEP_AUDIT_NOT_DRAWN);
    draft_done(&draft);
    skep_audit_close(scene->host.audit);
}

/* Makes the keeper look at what waits: somebody shows the history that a job of its began with. */
static void let_keeper_look(struct scene *scene)
{
    struct skep_buffer bytes = {0};
    struct skep_error err = {0};
    struct skep_hash history = make_history(scene, 0, &bytes);
    hand_in_with(scene, 0, &history);
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
    open_audits(scene);
    scene->host.audit->queue.wait_ms = 0;
    begin(scene, &draft, 0);
    trust(scene, &draft, SKEP_REPUTATION_MOST);
    struct skep_hash trunk = hand_in_part(scene, &draft, 0);
    seal_with_lot(scene, 0, &trunk, false);
    struct skep_hash expert = hand_in_part(scene, &draft, EXPERT_HERE);
    seal_with_lot(scene, EXPERT_HERE, &expert, true);
    assert_int_equal(verdict_of(scene, &trunk), SKEP_AUDIT_NOT_DRAWN);
    assert_true(skep_trust_is_trusted(scene->project, &draft.statement.donor));
    let_keeper_look(scene);
    assert_int_equal(verdict_of(scene, &expert), SKEP_AUDIT_UNANSWERED);
    assert_int_equal(verdict_of(scene, &trunk), SKEP_AUDIT_UNANSWERED);
    assert_int_equal(scene->project->audited[SKEP_AUDIT_UNANSWERED], 2);
    assert_false(skep_trust_is_trusted(scene->project, &draft.statement.donor));
    draft_done(&draft);
    skep_audit_close(scene->host.audit);
}

static void an_experts_update_that_comes_after_the_lot_has_one_of_its_own(void **state)
{
    struct scene *scene = *state;
    struct draft draft;
    open_audits(scene);
    for (int drawn = 0; drawn < 2; drawn++) {
        begin(scene, &draft, 0);
        trust(scene, &draft, SKEP_REPUTATION_MOST);
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
    begin(scene, &draft, 0);
    trust(scene, &draft, SKEP_REPUTATION_MOST);
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
    struct skep_kept_shard *trunk = trunk_of(scene);
    struct skep_version_row head = {.version = HEAD, .payload_hash = trunk->versions[0].payload};
    struct draft draft;
    open_audits(scene);
    begin(scene, &draft, 0);
    trust(scene, &draft, SKEP_REPUTATION_MOST);
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
    assert_int_equal(verdict_of(scene, &expert), SKEP_AUDIT_UNANSWERED);
    assert_int_equal(verdict_of(scene, &update), SKEP_AUDIT_NOT_DRAWN);
    assert_true(skep_trust_is_trusted(scene->project, &draft.statement.donor));
    assert_int_equal(scene->host.audit->queue.count, 0);
    draft_done(&draft);
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
    open_audits(scene);
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

static void a_job_with_a_version_that_is_not_here_is_sent_away_until_it_is(void **state)
{
    struct scene *scene = *state;
    struct skep_error err = {0};
    struct draft draft;
    struct skep_update_part part = {.shard = scene->project->shards[EXPERT_HERE]->shard,
                                    .base_version = HEAD + 1};
    open_audits(scene);
    scene->project->manifest.trust.audits = true;
    scene->project->kept_count = scene->project->shard_count;
    begin(scene, &draft, 0);
    draft.statement.part_count = 1;
    draft.statement.parts = &part;
    seal(&draft);
    assert_int_equal(hand_in(scene, &draft, &err), SKEP_ERR_STATE);
    assert_int_equal(err.reason, SKEP_REFUSAL_BASE_AHEAD);
    assert_int_equal(waiting(scene), 0);
    /* but not if others have voted for it: they may be ahead of us */
    assert_int_equal(skep_intake_fetched(scene->project, draft.file.data, draft.file.size, &err),
                     SKEP_OK);
    draft_done(&draft);
    part.base_version = HEAD;
    begin(scene, &draft, 0);
    draft.statement.part_count = 1;
    draft.statement.parts = &part;
    seal(&draft);
    assert_int_equal(hand_in(scene, &draft, &err), SKEP_OK);
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
        skep_kept_shard_pass(trunk_of(scene), &signed_by_nobody, &next, &payload, NULL), SKEP_OK);
    skep_envelope_done(&signed_by_nobody);
}

/* A donor that shows each keeper another update must not stop the shard: the one that was voted for has to be held beside ours. */
static void a_rival_that_the_agreement_asks_for_is_held_until_one_of_them_is_merged(void **state)
{
    struct scene *scene = *state;
    struct skep_error err = {0};
    struct draft draft;
    begin(scene, &draft, 0);
    seal(&draft);
    assert_int_equal(hand_in(scene, &draft, &err), SKEP_OK);
    struct skep_hash ours = skep_hash_of(draft.file.data, draft.file.size);
    draft.file.size = 0;
    draft.statement.loss_last += 1;
    seal(&draft);
    struct skep_hash theirs = skep_hash_of(draft.file.data, draft.file.size);
    assert_int_equal(hand_in(scene, &draft, &err), SKEP_ERR_DUPLICATE);
    for (int i = 0; i < 2; i++) { /* it may be asked for again */
        assert_int_equal(
            skep_intake_fetched(scene->project, draft.file.data, draft.file.size, &err), SKEP_OK);
        assert_int_equal(waiting(scene), 2);
        assert_true(skep_blobs_has(scene->host.blobs, &ours));
        assert_true(skep_blobs_has(scene->host.blobs, &theirs));
    }
    seal_next(scene, &theirs, &draft);
    assert_int_equal(waiting(scene), 0);
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
    assert_int_equal(skep_keeper_db_add_version(scene->host.db, project, &trunk_of(scene)->shard,
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
    begin(scene, &draft, 0);
    seal(&draft);
    scene->project->manifest.trust.stamp_bits = HARD_BITS;
    store_head_seal(scene, &draft);
    assert_int_equal(hand_in(scene, &draft, &err), SKEP_ERR_REFUSED);
    assert_int_equal(err.reason, SKEP_REFUSAL_STAMP);
    skep_kept_shard_load_standings(trunk_of(scene));
    assert_int_equal(hand_in(scene, &draft, NULL), SKEP_OK);
    draft_done(&draft);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            each_bad_update_is_refused_for_its_own_reason_and_nothing_is_stored, set_up, tear_down),
        cmocka_unit_test(there_is_a_bad_update_for_each_reason),
        cmocka_unit_test_setup_teardown(good_updates_are_stored_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_update_of_the_common_mask_is_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            an_update_of_remote_calls_is_taken_if_the_project_merges_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_the_agreement_asks_for_is_not_refused_for_its_pace,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            what_the_agreement_asks_for_is_not_refused_for_what_only_we_know_of_its_donor, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            who_comes_when_there_is_no_room_to_repeat_its_job_is_sent_away_and_not_judged, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            whoever_names_the_history_of_another_donor_does_not_keep_it_from_being_shown, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            who_is_given_more_time_because_there_was_no_room_has_to_show_it_once_more, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            a_job_that_contradicts_itself_is_invalid_and_need_not_be_repeated, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_donor_is_told_what_it_has_passed_with_what_is_new, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            an_experts_update_of_a_trusted_donor_waits_for_the_trunks_and_shares_its_lot, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            a_job_that_no_version_of_the_trunk_merges_is_drawn_when_it_is_stale, set_up, tear_down),
        cmocka_unit_test_setup_teardown(experts_updates_wait_for_the_trunks_as_long_as_it_can_come,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            whoever_does_not_answer_for_an_update_that_came_late_has_not_answered_for_the_job,
            set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            an_experts_update_that_comes_after_the_lot_has_one_of_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            what_comes_too_late_to_be_repeated_is_left_out_and_not_held_against_its_donor, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(a_donor_does_not_pay_for_states_that_a_keeper_lacks, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_job_with_a_version_that_is_not_here_is_sent_away_until_it_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_rival_that_the_agreement_asks_for_is_held_until_one_of_them_is_merged, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            a_keeper_that_starts_again_knows_the_donors_that_its_seals_name, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
