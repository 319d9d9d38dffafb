#include "server/audit-job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/crypto/hash.h"
#include "common/swarm/chunk-hash.h"
#include "common/swarm/history.h"
#include "common/swarm/job-file.h"
#include "common/swarm/ticket.h"
#include "common/swarm/update-open.h"
#include "common/sys/file.h"
#include "server/host.h"
#include "server/project.h"
#include "server/shard.h"

#define GRACE_MS 3000u /* for the experts' updates that are slower than the trunk's */

struct skep_hash skep_audit_id(const struct skep_project_id *project,
                               const struct skep_peer_id *donor, const struct skep_hash *ticket)
{
    uint8_t bytes[3 * SKEP_ID_SIZE];
    memcpy(bytes, project->bytes, SKEP_ID_SIZE);
    memcpy(bytes + SKEP_ID_SIZE, donor->bytes, SKEP_ID_SIZE);
    memcpy(bytes + (size_t)2 * SKEP_ID_SIZE, ticket->bytes, SKEP_ID_SIZE);
    return skep_hash_of(bytes, sizeof bytes);
}

struct skep_audit_load *skep_audit_load_new(struct skep_project *project,
                                            const struct skep_peer_id *donor,
                                            const struct skep_hash *ticket)
{
    struct skep_audit_load *load = skep_alloc(1, sizeof *load);
    struct skep_hash id = skep_audit_id(&project->manifest.project, donor, ticket);
    load->project = project;
    load->donor = *donor;
    load->ticket = *ticket;
    load->folder = skep_format("%s/audit/%s", project->host->options.dir, skep_id_text(id.bytes));
    return load;
}

void skep_audit_load_free(struct skep_audit_load *load)
{
    if (load != NULL) {
        free(load->folder);
        free(load->updates);
        free(load->parts);
        free(load);
    }
}

void skep_audit_load_remove(struct skep_audit_load *load)
{
    struct skep_error reason = {0};
    if (load != NULL && skep_folder_remove(load->folder, &reason) != SKEP_OK) {
        skep_log(SKEP_LOG_WARNING, "%s", reason.text);
    }
    skep_audit_load_free(load);
}

/* A second name; there already is fine. Where the file system knows no such thing there is a copy. */
static int hold(const char *from, const char *to, struct skep_error *err)
{
    struct skep_buffer file = {0};
    if (skep_file_exists(to) || link(from, to) == 0 || errno == EEXIST) {
        return SKEP_OK;
    }
    int result = skep_file_read(from, SKEP_LIMIT_STATE_BYTES, &file, err);
    if (result == SKEP_OK) {
        result = skep_file_write_quick(to, 0600, file.data, file.size, err);
    }
    skep_buffer_done(&file);
    return result;
}

static char *update_path(const struct skep_audit_load *load, const struct skep_hash *update)
{
    return skep_format("%s/%s.update", load->folder, skep_id_text(update->bytes));
}

bool skep_audit_load_holds(struct skep_project *project, const struct skep_audit_row *row)
{
    struct skep_audit_load *load = skep_audit_load_new(project, &row->donor, &row->ticket);
    char *path = update_path(load, &row->update);
    bool holds = skep_file_exists(path);
    free(path);
    skep_audit_load_free(load);
    return holds;
}

static char *state_path(const struct skep_audit_load *load, const struct skep_kept_shard *shard,
                        uint64_t version)
{
    return skep_format("%s/%s-%llu.state", load->folder, shard->text, (unsigned long long)version);
}

static char *shard_path(const struct skep_audit_load *load, const struct skep_kept_shard *shard,
                        const char *what)
{
    return skep_format("%s/%s.%s", load->folder, shard->text, what);
}

static struct skep_kept_shard *part_shard(const struct skep_audit_load *load, size_t i)
{
    return skep_project_shard(load->project, &load->parts[i].shard, NULL);
}

static struct skep_kept_shard *trunk_of(const struct skep_audit_load *load)
{
    return load->project->shards[0];
}

/* False if the state is not held (yet). */
static bool pin(const struct skep_audit_load *load, struct skep_kept_shard *shard, uint64_t version)
{
    if (shard == NULL) {
        return false;
    }
    char *to = state_path(load, shard, version);
    bool held = skep_file_exists(to);
    const struct skep_kept_version *kept = held ? NULL : skep_kept_shard_version(shard, version);
    if (kept != NULL) {
        struct skep_error reason = {0};
        char *from = skep_blobs_path(load->project->host->blobs, &kept->state);
        held = hold(from, to, &reason) == SKEP_OK;
        if (!held) {
            skep_log(SKEP_LOG_WARNING, "%s", reason.text);
        }
        free(from);
    }
    free(to);
    return held;
}

void skep_audit_load_pin(struct skep_audit_load *load)
{
    bool all = load->has_trunk;
    for (size_t i = 0; i < load->update_count && !load->pinned; i++) {
        all = pin(load, load->updates[i].shard, load->updates[i].base_version) && all;
    }
    for (size_t i = 0; i < load->part_count && !load->pinned; i++) {
        all = pin(load, part_shard(load, i), load->parts[i].base_version) && all;
    }
    load->pinned = load->pinned || all;
}

/* The file as it was handed in, from the folder. */
static int read_update(const struct skep_audit_load *load, const struct skep_hash *update,
                       struct skep_buffer *ret_file, struct skep_error *err)
{
    char *path = update_path(load, update);
    int result = skep_file_read(path, SKEP_LIMIT_UPDATE_BYTES, ret_file, err);
    free(path);
    return result;
}

static int take_trunk(struct skep_audit_load *load, const struct skep_audit_row *row,
                      uint64_t now_ms, struct skep_error *err)
{
    struct skep_buffer file = {0};
    int result = read_update(load, &row->update, &file, err);
    if (result == SKEP_OK) {
        free(load->parts); /* a rival's of the same ticket */
        load->parts = NULL;
        load->part_count = 0;
        result = skep_update_open_parts(file.data, file.size, &load->parts, &load->part_count, err);
    }
    skep_buffer_done(&file);
    if (result == SKEP_OK) {
        load->has_trunk = true;
        load->trunk_version = row->base_version;
        load->trunk_before = row->before;
        load->trunk_ms = now_ms;
    }
    return result;
}

int skep_audit_load_add(struct skep_audit_load *load, const struct skep_audit_row *row,
                        uint64_t now_ms, struct skep_error *err)
{
    for (size_t i = 0; i < load->update_count; i++) {
        if (skep_hash_equal(&load->updates[i].hash, &row->update)) {
            return SKEP_OK;
        }
    }
    struct skep_kept_shard *shard = skep_project_shard(load->project, &row->shard, err);
    if (shard == NULL) {
        return SKEP_ERR_NOT_FOUND;
    }
    char *from = skep_blobs_path(load->project->host->blobs, &row->update);
    char *to = update_path(load, &row->update);
    int result = skep_folder_make(load->folder, err);
    if (result == SKEP_OK) {
        result = hold(from, to, err);
    }
    free(from);
    free(to);
    if (result == SKEP_OK && row->shard.kind == SKEP_SHARD_TRUNK) {
        result = take_trunk(load, row, now_ms, err);
    }
    if (result != SKEP_OK) {
        return result;
    }
    load->updates = skep_realloc(load->updates, load->update_count + 1, sizeof *load->updates);
    load->updates[load->update_count++] =
        (struct skep_audit_update){.hash = row->update,
                                   .shard = shard,
                                   .base_version = row->base_version,
                                   .before = row->before,
                                   .after = row->after};
    load->pinned = false;
    skep_audit_load_pin(load);
    return SKEP_OK;
}

void skep_audit_load_histories(const struct skep_audit_load *load,
                               bool (*each)(void *user, const struct skep_hash *history,
                                            const struct skep_kept_shard *shard),
                               void *user)
{
    bool more = true;
    for (size_t i = 0; i < load->update_count && more; i++) {
        const struct skep_audit_update *update = &load->updates[i];
        if (!skep_history_is_new(&update->before)) {
            more = each(user, &update->before, update->shard);
        }
        if (more && !skep_history_is_new(&update->after)) {
            more = each(user, &update->after, update->shard);
        }
    }
    for (size_t i = 0; i < load->part_count && more; i++) {
        const struct skep_kept_shard *shard = part_shard(load, i);
        if (shard != NULL && !skep_history_is_new(&load->parts[i].before)) {
            more = each(user, &load->parts[i].before, shard);
        }
    }
}

static bool is_there(void *user, const struct skep_hash *history,
                     const struct skep_kept_shard *shard)
{
    const struct skep_evidence **evidence = user;
    (void)shard;
    if (skep_evidence_has(*evidence, history)) {
        return true;
    }
    *evidence = NULL;
    return false;
}

/* The places of the job's data chunks; the caller frees. */
static size_t slice_of(const struct skep_audit_load *load, size_t **ret_places)
{
    const struct skep_manifest *manifest = &load->project->manifest;
    size_t *places = skep_alloc(manifest->training.slice_chunks + 1, sizeof *places);
    *ret_places = places;
    return skep_ticket_slice(&load->ticket, manifest->train.chunk_count,
                             manifest->training.slice_chunks, places);
}

static bool has_chunks(const struct skep_audit_load *load)
{
    size_t *places = NULL;
    size_t count = slice_of(load, &places);
    bool all = true;
    for (size_t i = 0; i < count && all; i++) {
        all = skep_blobs_has(load->project->host->blobs,
                             &load->project->manifest.train.chunks[places[i]]);
    }
    free(places);
    return all;
}

bool skep_audit_load_complete(const struct skep_audit_load *load,
                              const struct skep_evidence *evidence, uint64_t now_ms)
{
    if (!load->pinned ||
        (load->update_count < load->part_count + 1 && now_ms - load->trunk_ms < GRACE_MS)) {
        return false;
    }
    const struct skep_evidence *all = evidence;
    skep_audit_load_histories(load, is_there, &all);
    return all != NULL && has_chunks(load);
}

/* Was it kept here once, and is not held for the job? What is newer than ours we have not got yet. */
static bool is_gone(const struct skep_audit_load *load, const struct skep_kept_shard *shard,
                    uint64_t version)
{
    char *path = state_path(load, shard, version);
    bool held = skep_file_exists(path);
    free(path);
    return !held && version < shard->versions[shard->version_count - 1].version;
}

/* What an update of the job begins with is known to have been here. */
static bool has_base(const struct skep_audit_load *load, const struct skep_kept_shard *shard,
                     uint64_t version)
{
    bool has = false;
    for (size_t i = 0; i < load->update_count; i++) {
        has = has || (load->updates[i].shard == shard && load->updates[i].base_version == version);
    }
    return has;
}

/* Is a state not held because only the trunk's list names it, or is there no such list? */
static bool names_what_is_gone(const struct skep_audit_load *load)
{
    bool gone = !load->has_trunk;
    for (size_t i = 0; i < load->part_count && !gone; i++) {
        const struct skep_kept_shard *shard = part_shard(load, i);
        uint64_t version = load->parts[i].base_version;
        gone = shard == NULL || (is_gone(load, shard, version) && !has_base(load, shard, version));
    }
    return gone;
}

bool skep_audit_load_is_too_late(const struct skep_audit_load *load)
{
    bool gone = false;
    for (size_t i = 0; i < load->update_count && !gone; i++) {
        gone = is_gone(load, load->updates[i].shard, load->updates[i].base_version);
    }
    return gone || (!load->pinned && names_what_is_gone(load));
}

bool skep_audit_load_is_silent(const struct skep_audit_load *load,
                               const struct skep_evidence *evidence)
{
    const struct skep_evidence *all = evidence;
    if (load->resumed || load->crowded) {
        return false;
    }
    skep_audit_load_histories(load, is_there, &all);
    return all == NULL || (!load->pinned && !load->late && names_what_is_gone(load));
}

/* ---- the folder ---- */

static int write_before(const struct skep_audit_load *load, const struct skep_kept_shard *shard,
                        const struct skep_hash *before, struct skep_evidence *evidence,
                        struct skep_error *err)
{
    struct skep_buffer bytes = {0};
    char *moments = shard_path(load, shard, "moments-before");
    char *residual = shard_path(load, shard, "residual-before");
    size_t first = (size_t)skep_flat_bytes(SKEP_MOMENT_ARRAYS, shard->shape.layout.parameters);
    int result = SKEP_OK;
    if (skep_history_is_new(before)) {
        (void)unlink(moments);
        (void)unlink(residual);
        goto out;
    }
    result = skep_evidence_get(evidence, before, &bytes, err);
    if (result == SKEP_OK &&
        bytes.size != skep_history_bytes(shard->shape.layout.parameters)) { /* is_false() said so */
        result = skep_error_set(err, SKEP_ERR_FORMAT, "history %.16s is none of %s",
                                skep_id_text(before->bytes), shard->text);
    }
    if (result == SKEP_OK) {
        result = skep_file_write_quick(moments, 0600, bytes.data, first, err);
    }
    if (result == SKEP_OK) {
        result = skep_file_write_quick(residual, 0600, bytes.data + first, bytes.size - first, err);
    }
out:
    skep_buffer_done(&bytes);
    free(moments);
    free(residual);
    return result;
}

/* The pinned state against the root that was sealed, which admission compared with the donor's. What our own disk has changed must not tell
 * against a donor. */
static int check_state(const struct skep_kept_shard *shard, uint64_t version, const char *path,
                       struct skep_hash *ret_root, struct skep_error *err)
{
    struct skep_buffer state = {0};
    struct skep_chunks chunks = {0};
    struct skep_version_row row = {0};
    const struct skep_manifest *manifest = &shard->project->manifest;
    int result = skep_keeper_db_get_version(shard->project->host->db, &manifest->project,
                                            &shard->shard, version, &row, err);
    free((void *)row.seal);
    if (result == SKEP_OK) {
        result = skep_file_read(path, SKEP_LIMIT_STATE_BYTES, &state, err);
    }
    if (result == SKEP_OK) {
        skep_chunks_of(state.data, state.size, manifest->chunk_bytes, &chunks);
        *ret_root = skep_chunks_root(&chunks);
        skep_chunks_done(&chunks);
        skep_buffer_done(&state);
        if (!skep_hash_equal(ret_root, &row.root)) {
            result = skep_error_set(err, SKEP_ERR_HASH,
                                    "%s has root %.12s, not that of %s version %llu, %.12s", path,
                                    skep_id_text(ret_root->bytes), shard->text,
                                    (unsigned long long)version, skep_id_text(row.root.bytes));
        }
    }
    return result;
}

/* The same, and another file in its place if the disk has changed it: from memory if that is the newest version. It gets a name of its own, so the
 * blob that shared its bytes stays as it is. */
static int check_and_mend(struct skep_kept_shard *shard, uint64_t version, const char *path,
                          struct skep_hash *ret_root, struct skep_error *err)
{
    struct skep_buffer room = {0};
    const struct skep_buffer *state = NULL;
    int result = check_state(shard, version, path, ret_root, err);
    if (result != SKEP_ERR_HASH ||
        skep_kept_shard_state(shard, version, &room, &state, NULL) != SKEP_OK) {
        skep_buffer_done(&room);
        return result;
    }
    skep_log(SKEP_LOG_WARNING, "held again, the disk has changed it: %s",
             err != NULL ? err->text : path);
    (void)unlink(path);
    result = skep_file_write_quick(path, 0600, state->data, state->size, err);
    skep_buffer_done(&room);
    return result == SKEP_OK ? check_state(shard, version, path, ret_root, err) : result;
}

/* One shard of the job: its place in the job file, and its history in the folder. */
static int write_shard(const struct skep_audit_load *load, struct skep_kept_shard *shard,
                       const struct skep_update_part *part, struct skep_evidence *evidence,
                       struct skep_job_shard *to, struct skep_error *err)
{
    to->shard = shard->shard;
    to->base_version = part->base_version;
    to->state = state_path(load, shard, part->base_version);
    to->moments = shard_path(load, shard, "moments-before");
    to->residual = shard_path(load, shard, "residual-before");
    int result = check_and_mend(shard, part->base_version, to->state, &to->root, err);
    return result == SKEP_OK ? write_before(load, shard, &part->before, evidence, err) : result;
}

/* The job's data by name, each read once: the worker would train on whatever lies there. */
static int write_chunks(const struct skep_audit_load *load, struct skep_job_file *file,
                        struct skep_error *err)
{
    struct skep_blobs *blobs = load->project->host->blobs;
    struct skep_buffer data = {0};
    size_t *places = NULL;
    int result = SKEP_OK;
    file->chunk_count = slice_of(load, &places);
    file->chunks = skep_alloc(file->chunk_count + 1, sizeof *file->chunks);
    for (size_t i = 0; i < file->chunk_count; i++) {
        const struct skep_hash *hash = &load->project->manifest.train.chunks[places[i]];
        file->chunks[i] = skep_blobs_path(blobs, hash);
        result = result == SKEP_OK ? skep_blobs_get(blobs, hash, &data, err) : result;
    }
    skep_buffer_done(&data);
    free(places);
    return result;
}

static int describe(const struct skep_audit_load *load, struct skep_evidence *evidence,
                    struct skep_job_file *file, struct skep_error *err)
{
    struct skep_update_part trunk = {.shard = {.kind = SKEP_SHARD_TRUNK},
                                     .base_version = load->trunk_version,
                                     .before = load->trunk_before};
    file->manifest = skep_format("%s/manifest", load->folder);
    file->ticket = load->ticket;
    file->trunk_version = load->trunk_version;
    file->threads = 1;
    file->device = skep_strdup("cpu");
    file->shard_count = load->part_count + 1;
    file->shards = skep_alloc(file->shard_count, sizeof *file->shards);
    int result = write_chunks(load, file, err);
    if (result == SKEP_OK) {
        result = write_shard(load, trunk_of(load), &trunk, evidence, &file->shards[0], err);
    }
    for (size_t i = 0; i < load->part_count && result == SKEP_OK; i++) {
        result = write_shard(load, part_shard(load, i), &load->parts[i], evidence,
                             &file->shards[i + 1], err);
    }
    return result;
}

int skep_audit_load_write(const struct skep_audit_load *load, struct skep_evidence *evidence,
                          char **ret_path, struct skep_error *err)
{
    struct skep_job_file file = {0};
    int result = describe(load, evidence, &file, err);
    if (result == SKEP_OK) {
        const char *envelope = load->project->envelope;
        result = skep_file_write_quick(file.manifest, 0600, envelope, strlen(envelope), err);
    }
    if (result == SKEP_OK) {
        char *path = skep_format("%s/job.json", load->folder);
        char *text = skep_job_file_encode(&file);
        result = skep_file_write_quick(path, 0600, text, strlen(text), err);
        free(text);
        if (result == SKEP_OK) {
            *ret_path = path;
        } else {
            free(path);
        }
    }
    skep_job_file_done(&file);
    return result;
}

/* ---- what came of it ---- */

/* Do the update and the trunk's list of the job's shards say the same of what the job began with? */
static bool is_consistent(const struct skep_audit_load *load, size_t i)
{
    const struct skep_audit_update *update = &load->updates[i];
    if (update->shard == trunk_of(load)) {
        return true;
    }
    for (size_t p = 0; p < load->part_count; p++) {
        const struct skep_update_part *part = &load->parts[p];
        if (skep_shard_equal(&part->shard, &update->shard->shard)) {
            return part->base_version == update->base_version &&
                   skep_hash_equal(&part->before, &update->before);
        }
    }
    return false; /* not a shard of this job */
}

struct misfit {
    struct skep_evidence *evidence;
    bool found;
    struct skep_error *err;
};

/* The size says it; the bytes are read again to be sure that they are what was shown, and the fault is not our disk's. */
static bool fits(void *user, const struct skep_hash *history, const struct skep_kept_shard *shard)
{
    struct misfit *misfit = user;
    struct skep_buffer bytes = {0};
    uint64_t expected = skep_history_bytes(shard->shape.layout.parameters);
    uint64_t size = skep_evidence_size(misfit->evidence, history);
    misfit->found =
        size != expected && skep_evidence_get(misfit->evidence, history, &bytes, NULL) == SKEP_OK;
    skep_buffer_done(&bytes);
    if (misfit->found) {
        skep_error_set(misfit->err, SKEP_ERR_FORMAT,
                       "history %.16s has %llu bytes, one of %s has %llu",
                       skep_id_text(history->bytes), (unsigned long long)size, shard->text,
                       (unsigned long long)expected);
    }
    return !misfit->found;
}

bool skep_audit_load_is_false(const struct skep_audit_load *load, struct skep_evidence *evidence,
                              struct skep_error *err)
{
    struct misfit misfit = {.evidence = evidence, .err = err};
    for (size_t i = 0; i < load->update_count; i++) {
        if (!is_consistent(load, i)) {
            skep_error_set(err, SKEP_ERR_FORMAT,
                           "its update of %s is not what the trunk's list of its shards says",
                           load->updates[i].shard->text);
            return true;
        }
    }
    skep_audit_load_histories(load, fits, &misfit);
    return misfit.found;
}

/* A file that the worker left, behind what is in the buffer. */
static int append_left(const struct skep_audit_load *load, const struct skep_kept_shard *shard,
                       const char *what, struct skep_buffer *bytes, struct skep_error *err)
{
    struct skep_buffer file = {0};
    char *path = shard_path(load, shard, what);
    int result = skep_file_read(path, SKEP_LIMIT_STATE_BYTES, &file, err);
    if (result == SKEP_OK) {
        skep_buffer_append(bytes, file.data, file.size);
    }
    skep_buffer_done(&file);
    free(path);
    return result;
}

/* Both histories after the job; none if the donor says that it has none. */
static int open_histories(const struct skep_audit_load *load,
                          const struct skep_audit_update *update, struct skep_evidence *evidence,
                          struct skep_buffer bytes[2], struct skep_history histories[2],
                          struct skep_error *err)
{
    size_t parameters = update->shard->shape.layout.parameters;
    int result = skep_evidence_get(evidence, &update->after, &bytes[0], err);
    if (result == SKEP_OK) {
        result = append_left(load, update->shard, "moments", &bytes[1], err);
    }
    if (result == SKEP_OK) {
        result = append_left(load, update->shard, "residual", &bytes[1], err);
    }
    for (size_t i = 0; i < 2 && result == SKEP_OK; i++) {
        result = skep_history_open(bytes[i].data, bytes[i].size, parameters, &histories[i], err);
    }
    if (result ==
        SKEP_ERR_FORMAT) { /* the donor's was read before: of a worker that ended well, numbers that are none */
        result = skep_error_set(err, SKEP_ERR_NUMERIC,
                                "the history of the repeated job of %s is not finite",
                                update->shard->text);
    }
    return result;
}

int skep_audit_load_look(const struct skep_audit_load *load, size_t i,
                         struct skep_evidence *evidence, struct skep_audit_look *ret_look,
                         struct skep_error *err)
{
    const struct skep_audit_update *update = &load->updates[i];
    struct skep_update_statement statement;
    struct skep_hash hash;
    struct skep_buffer file = {0};
    struct skep_buffer body = {0};
    struct skep_buffer bytes[2] = {{0}};
    struct skep_history histories[2] = {{.step = 0}};
    struct skep_audit_side published = {0};
    struct skep_audit_side repeated = {0};
    bool known = !skep_history_is_new(&update->after);
    int result = read_update(load, &update->hash, &file, err);
    if (result == SKEP_OK) {
        result = skep_update_open(file.data, file.size, &statement, &hash, &published.body,
                                  &published.body_size, err);
    }
    if (result == SKEP_OK) {
        result = append_left(load, update->shard, "body", &body, err);
    }
    if (result == SKEP_OK && known) {
        result = open_histories(load, update, evidence, bytes, histories, err);
    }
    if (result == SKEP_OK) {
        repeated.body = body.data;
        repeated.body_size = body.size;
        published.most_step = (update->base_version + 1) * load->project->manifest.training.steps;
        published.history = known ? &histories[0] : NULL;
        repeated.history = known ? &histories[1] : NULL;
        result = skep_audit_look_at(&update->shard->shape, update->base_version, &published,
                                    &repeated, ret_look, err);
    }
    skep_buffer_done(&file);
    skep_buffer_done(&body);
    skep_buffer_done(&bytes[0]);
    skep_buffer_done(&bytes[1]);
    return result;
}
