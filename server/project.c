#include "server/project.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/crypto/hash.h"
#include "common/crypto/random.h"
#include "common/swarm/pace.h"
#include "common/swarm/replicas.h"
#include "common/swarm/reputation.h"
#include "common/swarm/statement.h"
#include "server/agreement.h"
#include "server/audit.h"
#include "server/beacons.h"
#include "server/host.h"
#include "server/peers.h"
#include "server/shard.h"
#include "server/sync.h"
#include "server/trust.h"

bool skep_project_names(const struct skep_project *project, const struct skep_peer_id *keeper)
{
    for (size_t i = 0; i < project->manifest.keeper_count; i++) {
        if (skep_peer_id_equal(&project->manifest.keepers[i], keeper)) {
            return true;
        }
    }
    return false;
}

struct skep_kept_shard *skep_project_shard(struct skep_project *project,
                                           const struct skep_shard *shard, struct skep_error *err)
{
    char text[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(shard, text);
    size_t index = skep_manifest_shard_index(&project->manifest, shard);
    if (index == SIZE_MAX) {
        skep_error_set(err, SKEP_ERR_NOT_FOUND, "the model of project %s has no shard %s",
                       skep_id_text(project->manifest.project.bytes), text);
        return NULL;
    }
    if (project->shards[index] == NULL) {
        skep_error_set(err, SKEP_ERR_NOT_FOUND, "shard %s is not kept here but by other keepers",
                       text);
    }
    return project->shards[index];
}

static int compare_chunks(const void *a, const void *b)
{
    const struct skep_data_chunk *left = a;
    const struct skep_data_chunk *right = b;
    return skep_hash_compare(&left->hash, &right->hash);
}

struct skep_data_chunk *skep_project_chunk(struct skep_project *project,
                                           const struct skep_hash *hash)
{
    struct skep_data_chunk wanted = {.hash = *hash};
    return bsearch(&wanted, project->chunks, project->chunk_count, sizeof wanted, compare_chunks);
}

void skep_project_chunk_stored(struct skep_project *project, struct skep_data_chunk *chunk)
{
    if (!chunk->held) {
        chunk->held = true;
        project->chunks_held++;
    }
}

struct skep_hash skep_project_state_hash(const struct skep_project *project)
{
    struct skep_hasher *hasher = skep_hasher_new();
    for (size_t i = 0; i < project->shard_count; i++) {
        const struct skep_kept_shard *shard = project->shards[i];
        if (shard != NULL) {
            skep_hasher_add(hasher, shard->text, strlen(shard->text) + 1);
            skep_hasher_add(hasher, skep_kept_shard_head(shard)->root.bytes, SKEP_ID_SIZE);
        }
    }
    struct skep_hash hash = skep_hasher_finish(hasher);
    skep_hasher_free(hasher);
    return hash;
}

/* All data chunks, sorted, each once, and which of them lie on this disk. */
static void list_chunks(struct skep_project *project)
{
    const struct skep_data_set *sets[] = {&project->manifest.train, &project->manifest.heldout};
    size_t total = sets[0]->chunk_count + sets[1]->chunk_count;
    project->chunks = skep_alloc(total + 1, sizeof *project->chunks);
    size_t count = 0;
    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < sets[i]->chunk_count; j++) {
            project->chunks[count++].hash = sets[i]->chunks[j];
        }
    }
    qsort(project->chunks, count, sizeof *project->chunks, compare_chunks);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || compare_chunks(&project->chunks[i], &project->chunks[kept - 1]) != 0) {
            project->chunks[kept++] = project->chunks[i];
        }
    }
    project->chunk_count = kept;
    for (size_t i = 0; i < kept; i++) {
        if (skep_blobs_has(project->host->blobs, &project->chunks[i].hash)) {
            skep_project_chunk_stored(project, &project->chunks[i]);
        }
    }
}

static void push_key(struct skep_project *project, const char *part, size_t first, size_t count)
{
    struct skep_project_key *key = &project->keys[project->key_count++];
    *key = (struct skep_project_key){
        .whole_project = part == NULL, .first_shard = first, .shard_count = count};
    key->key = skep_directory_key_of(&project->manifest.project, part);
    for (size_t i = first; i < first + count && !key->ours; i++) {
        key->ours = project->shards[i] != NULL;
    }
}

/* The directory keys under which somebody serves this project. Shards come in the order trunk, layer, row, column, so that the
 * experts of one row are neighbours. */
static void list_keys(struct skep_project *project)
{
    size_t count = project->shard_count;
    project->keys = skep_alloc(2 * count + 1, sizeof *project->keys);
    push_key(project, NULL, 0, count);
    for (size_t i = 0; i < count; i++) {
        char text[SKEP_SHARD_TEXT_SIZE];
        struct skep_shard shard = skep_manifest_shard(&project->manifest, i);
        skep_shard_format(&shard, text);
        push_key(project, text, i, 1);
        if (shard.kind == SKEP_SHARD_FFN && shard.column == 0) {
            *strrchr(text, '.') = '\0';
            push_key(project, text, i, project->manifest.model.columns);
        }
    }
}

/* The shards that are placed here. */
static int open_shards(struct skep_project *project, struct skep_error *err)
{
    project->shard_count = skep_manifest_shard_count(&project->manifest);
    project->shards = skep_alloc(project->shard_count, sizeof(struct skep_kept_shard *));
    for (size_t i = 0; i < project->shard_count; i++) {
        struct skep_shard shard = skep_manifest_shard(&project->manifest, i);
        struct skep_replicas replicas = skep_replicas_of(&project->manifest, &shard);
        if (!skep_replicas_has(&replicas, &project->host->id)) {
            continue;
        }
        int result = skep_kept_shard_open(project, i, &project->shards[i], err);
        if (result != SKEP_OK) {
            return result;
        }
        project->kept_count++;
    }
    return SKEP_OK;
}

/* The machines of the shards that have their state. Only once the host knows the project: the one timer of all machines goes by the
 * host's projects, and updates may wait from before a crash. */
static int start_machines(struct skep_project *project, struct skep_error *err)
{
    int result = SKEP_OK;
    for (size_t i = 0; i < project->shard_count && result == SKEP_OK; i++) {
        struct skep_kept_shard *shard = project->shards[i];
        if (shard != NULL && shard->has_state) {
            result = skep_agreement_start(shard, err);
        }
    }
    return result;
}

/* A project from its checked manifest, which is taken. */
static int load(struct skep_host *host, struct skep_manifest *take_manifest,
                const struct skep_hash *hash, const char *envelope, struct skep_error *err)
{
    struct skep_project *project = skep_alloc(1, sizeof *project);
    project->host = host;
    project->manifest = *take_manifest;
    *take_manifest = (struct skep_manifest){0};
    project->manifest_hash = *hash;
    project->envelope = skep_strdup(envelope);
    project->beacons = skep_beacons_new(project);
    project->pace = skep_pace_new(&project->manifest, skep_random_u64());
    int result = open_shards(project, err);
    if (result == SKEP_OK) {
        list_chunks(project);
        list_keys(project);
        host->projects[host->project_count++] = project;
        skep_trust_follow(project);
        result = start_machines(project, err);
        host->project_count -= result != SKEP_OK;
    }
    if (result != SKEP_OK) {
        skep_error_prefix(err, "project %s", skep_id_text(project->manifest.project.bytes));
        skep_project_free(project);
        return result;
    }
    skep_audit_resume(project);
    skep_log(SKEP_LOG_INFO,
             "project %.12s \"%s\": %zu of %zu shards kept here, %zu of %zu data "
             "chunks held",
             skep_id_text(project->manifest.project.bytes), project->manifest.name,
             project->kept_count, project->shard_count, project->chunks_held, project->chunk_count);
    return SKEP_OK;
}

/* May this keeper take the project at all? */
static int check_wanted(const struct skep_host *host, const struct skep_manifest *manifest,
                        struct skep_error *err)
{
    const char *name = skep_id_text(manifest->project.bytes);
    struct skep_project probe = {.manifest = *manifest};
    if (!skep_project_names(&probe, &host->id)) {
        return skep_error_set(err, SKEP_ERR_REFUSED,
                              "the manifest of project %s does not name this keeper, %s", name,
                              skep_id_text(host->id.bytes));
    }
    if (host->options.only_project &&
        memcmp(host->options.project.bytes, manifest->project.bytes, SKEP_ID_SIZE) != 0) {
        return skep_error_set(err, SKEP_ERR_REFUSED, "this keeper takes only project %s, not %s",
                              skep_id_text(host->options.project.bytes), name);
    }
    if (host->project_count == SKEP_LIMIT_PROJECTS) {
        return skep_error_set(err, SKEP_ERR_REFUSED,
                              "this keeper has %u projects already and takes no more",
                              SKEP_LIMIT_PROJECTS);
    }
    return SKEP_OK;
}

/* Writes the state files of version 0 before the project is promised to anyone: they are most of what it needs on disk. */
static int write_seeds(struct skep_host *host, const struct skep_manifest *manifest,
                       struct skep_error *err)
{
    size_t count = skep_manifest_shard_count(manifest);
    int result = SKEP_OK;
    for (size_t i = 0; i < count && result == SKEP_OK; i++) {
        struct skep_shard shard = skep_manifest_shard(manifest, i);
        struct skep_replicas replicas = skep_replicas_of(manifest, &shard);
        if (skep_replicas_has(&replicas, &host->id)) {
            struct skep_shape shape;
            struct skep_buffer file = {0};
            skep_shape_init(&shape, manifest, &shard);
            result = skep_shape_seed(&shape, &file, err);
            if (result == SKEP_OK) {
                result = skep_blobs_put(host->blobs, file.data, file.size, NULL, NULL, err);
            }
            skep_buffer_done(&file);
            skep_shape_done(&shape);
        }
    }
    return result;
}

static bool same_text(const char *text, const void *other, size_t size)
{
    return strlen(text) == size && memcmp(text, other, size) == 0;
}

int skep_project_take(struct skep_host *host, const void *envelope, size_t size,
                      struct skep_project **ret_project, bool *ret_new, struct skep_error *err)
{
    struct skep_manifest manifest = {0};
    struct skep_hash hash;
    int result = skep_manifest_open(envelope, size, NULL, &manifest, &hash, err);
    if (result != SKEP_OK) {
        return result;
    }
    struct skep_project *known = skep_host_project(host, &manifest.project);
    char *text = strndup(envelope, size);
    if (known != NULL) {
        *ret_project = known;
        *ret_new = false;
        if (!same_text(known->envelope, envelope, size)) {
            result = skep_error_set(err, SKEP_ERR_DUPLICATE,
                                    "project %s is here with another manifest, whose hash is %s",
                                    skep_id_text(manifest.project.bytes),
                                    skep_id_text(known->manifest_hash.bytes));
        }
        goto out;
    }
    result = check_wanted(host, &manifest, err);
    if (result == SKEP_OK) {
        result = write_seeds(host, &manifest, err);
    }
    if (result == SKEP_OK) {
        result = skep_keeper_db_add_project(host->db, &manifest.project, text, err);
    }
    if (result == SKEP_OK) {
        result = load(host, &manifest, &hash, text, err);
    }
    if (result == SKEP_OK) {
        *ret_project = host->projects[host->project_count - 1];
        *ret_new = true;
        skep_peers_serve(host->peers, *ret_project);
        skep_sync_chunks(*ret_project);
    }
out:
    free(text);
    skep_manifest_done(&manifest);
    return result;
}

/* Envelopes read from the database before any project is loaded, which uses the database itself. */
struct stored_projects {
    size_t count;
    char *envelopes[SKEP_LIMIT_PROJECTS];
};

static int push_stored(void *user, const struct skep_project_id *project, const char *envelope)
{
    struct stored_projects *stored = user;
    (void)project;
    if (stored->count < SKEP_LIMIT_PROJECTS) {
        stored->envelopes[stored->count++] = skep_strdup(envelope);
    }
    return SKEP_OK;
}

int skep_project_load_all(struct skep_host *host, struct skep_error *err)
{
    struct stored_projects stored = {0};
    int result = skep_keeper_db_each_project(host->db, push_stored, &stored, err);
    for (size_t i = 0; i < stored.count; i++) {
        const char *text = stored.envelopes[i];
        struct skep_manifest manifest = {0};
        struct skep_hash hash;
        if (result == SKEP_OK) {
            result = skep_manifest_open(text, strlen(text), NULL, &manifest, &hash, err);
        }
        if (result == SKEP_OK) {
            result = load(host, &manifest, &hash, text, err);
        }
        skep_manifest_done(&manifest);
        free(stored.envelopes[i]);
    }
    return result;
}

void skep_project_free(struct skep_project *project)
{
    if (project == NULL) {
        return;
    }
    for (size_t i = 0; project->shards != NULL && i < project->shard_count; i++) {
        skep_kept_shard_free(project->shards[i]);
    }
    skep_beacons_free(project->beacons);
    skep_pace_free(project->pace);
    free(project->shards);
    free(project->keys);
    free(project->chunks);
    free(project->envelope);
    skep_manifest_done(&project->manifest);
    skep_reputations_free(project->reputations);
    free(project);
}
