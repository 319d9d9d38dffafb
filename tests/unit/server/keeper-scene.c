#include "tests/unit/server/keeper-scene.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/crypto/hash.h"
#include "common/store/keeper-audits.h"
#include "common/swarm/history.h"
#include "common/swarm/pace.h"
#include "common/swarm/reputation.h"
#include "common/swarm/stamp.h"
#include "common/swarm/ticket.h"
#include "common/swarm/update-open.h"
#include "common/sys/file.h"
#include "server/audit.h"
#include "server/beacons.h"
#include "server/intake.h"
#include "server/shard.h"
#include "tests/lib/cmocka.h"
#include "tests/lib/tiny-model.h"

/* ---- a keeper ---- */

static void fill_manifest(struct skep_manifest *manifest, struct skep_peer_id *keeper)
{
    manifest->model.kind = SKEP_MODEL_LM;
    skep_test_tiny_manifest(manifest);
    manifest->name = skep_strdup("tiny");
    manifest->project.bytes[0] = 0x11;
    manifest->trust.stamp_bits = 0;
    manifest->replicas = 1;
    manifest->keeper_count = 1;
    manifest->keepers = skep_alloc(1, sizeof *manifest->keepers);
    manifest->keepers[0] = *keeper;
}

void scene_pretend_versions(struct skep_kept_shard *shard)
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

int keeper_scene_open(void **state)
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
        scene_pretend_versions(project->shards[i]);
    }
    project->beacons = skep_beacons_new(project);
    project->pace = skep_pace_new(&project->manifest, 1);
    free(db);
    free(blobs);
    *state = scene;
    return 0;
}

int keeper_scene_close(void **state)
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

struct skep_kept_shard *scene_trunk(const struct scene *scene)
{
    return scene->project->shards[0];
}

/* ---- updates ---- */

void draft_sign_ticket(struct draft *draft, const struct skep_kept_shard *shard, uint64_t version)
{
    struct skep_update_statement *statement = &draft->statement;
    statement->trunk_version = version;
    statement->ticket =
        skep_ticket_of(&shard->versions[HEAD - version].payload, &statement->donor, version);
}

void draft_begin(struct scene *scene, struct draft *draft, size_t index)
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
    draft_sign_ticket(draft, scene_trunk(scene), HEAD);
    for (size_t i = 0; i < shape->layout.parameters; i++) {
        delta[i] = 0.01f * (float)(i % 7 + 1);
    }
    assert_int_equal(skep_shape_compress(shape, HEAD, delta, residual, &body, NULL), SKEP_OK);
    skep_update_body_encode(&body, &draft->body);
    skep_update_body_done(&body);
    free(delta);
    free(residual);
}

void draft_seal(struct draft *draft)
{
    skep_update_seal(draft->key, &draft->statement, &draft->body, &draft->file);
}

void draft_done(struct draft *draft)
{
    skep_key_free(draft->key);
    skep_buffer_done(&draft->body);
    skep_buffer_done(&draft->file);
}

int scene_hand_in(struct scene *scene, const struct draft *draft, struct skep_error *err)
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

size_t scene_waiting(struct scene *scene)
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

/* ---- audits ---- */

void scene_open_audits(struct scene *scene)
{
    scene->host.options.dir = scene->folder;
    assert_int_equal(skep_audit_open(&scene->host, &scene->host.audit, NULL), SKEP_OK);
}

struct skep_hash scene_add_flat(struct skep_buffer *bytes, uint8_t arrays, size_t count)
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

struct skep_hash scene_make_history(const struct scene *scene, size_t index,
                                    struct skep_buffer *ret_bytes)
{
    size_t parameters = scene->project->shards[index]->shape.layout.parameters;
    struct skep_hash moments = scene_add_flat(ret_bytes, SKEP_MOMENT_ARRAYS, parameters);
    struct skep_hash residual = scene_add_flat(ret_bytes, SKEP_RESIDUAL_ARRAYS, parameters);
    return skep_history_of(&moments, &residual);
}

struct skep_hash scene_hand_in_with(struct scene *scene, size_t index,
                                    const struct skep_hash *before)
{
    struct skep_error err = {0};
    struct draft draft;
    draft_begin(scene, &draft, index);
    draft.statement.before = *before;
    draft_seal(&draft);
    assert_int_equal(scene_hand_in(scene, &draft, &err), SKEP_OK);
    struct skep_hash hash = skep_hash_of(draft.file.data, draft.file.size);
    draft_done(&draft);
    return hash;
}

enum skep_audit_verdict scene_verdict(const struct scene *scene, const struct skep_hash *update)
{
    struct skep_audit_row row;
    assert_int_equal(skep_keeper_db_get_audit(scene->host.db, &scene->project->manifest.project,
                                              update, &row, NULL),
                     SKEP_OK);
    return row.verdict;
}

void scene_trust(struct scene *scene, const struct draft *draft, uint64_t n)
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
