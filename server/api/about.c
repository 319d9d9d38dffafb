/* Health, record and status: what the keeper says about itself. */
#include <stdlib.h>

#include "config.h"
#include "server/api/api.h"
#include "server/api/reply.h"
#include "server/peers.h"
#include "server/shard.h"

#define DONORS_TOLD 100u
#define DONORS_COUNTED 1000000u

SKEP_API_HANDLER(skep_api_get_health)
{
    (void)exchange;
    (void)parts;
    (void)err;
    const struct skep_host *host = user;
    struct skep_json *root = skep_json_object_new();
    skep_json_set_text(root, "status", "ok");
    skep_json_set_hex(root, "keeper", host->id.bytes, SKEP_ID_SIZE);
    skep_json_set_text(root, "version", PACKAGE_VERSION);
    skep_reply_json(reply, 200, root);
    return SKEP_OK;
}

SKEP_API_HANDLER(skep_api_get_record)
{
    (void)exchange;
    (void)parts;
    (void)err;
    const struct skep_host *host = user;
    char *text = skep_envelope_write(skep_peers_own(host->peers));
    skep_reply_text(reply, 200, text);
    free(text);
    return SKEP_OK;
}

/* Donors with most credit, and the number of all merged updates. */
static int add_donors(struct skep_project *project, struct skep_json *object,
                      struct skep_error *err)
{
    struct skep_donor_total *totals = NULL;
    size_t count = 0;
    int result = skep_keeper_db_donor_totals(project->host->db, &project->manifest.project,
                                             DONORS_COUNTED, &totals, &count, err);
    if (result != SKEP_OK) {
        return result;
    }
    struct skep_json *list = skep_json_array_new();
    uint64_t updates = 0;
    for (size_t i = 0; i < count; i++) {
        updates += totals[i].updates;
        if (i < DONORS_TOLD) {
            struct skep_json *donor = skep_json_object_new();
            skep_json_set_hex(donor, "donor", totals[i].donor.bytes, SKEP_ID_SIZE);
            skep_json_set_integer(donor, "updates", (int64_t)totals[i].updates);
            skep_json_set_real(donor, "credit", (double)totals[i].credit_micro / 1e6);
            skep_json_push_take(list, donor);
        }
    }
    free(totals);
    skep_json_set_integer(object, "updates_merged", (int64_t)updates);
    skep_json_set_take(object, "donors", list);
    return SKEP_OK;
}

static void add_last_seal(const struct skep_project *project, struct skep_json *object)
{
    const struct skep_last_seal *last = &project->last_seal;
    if (last->shard[0] == '\0') {
        skep_json_set_null(object, "last_seal");
        return;
    }
    struct skep_json *seal = skep_json_object_new();
    skep_json_set_text(seal, "shard", last->shard);
    skep_json_set_integer(seal, "version", (int64_t)last->version);
    skep_json_set_integer(seal, "updates", (int64_t)last->updates);
    skep_json_set_integer(seal, "donors", (int64_t)last->donors);
    skep_json_set_take(object, "last_seal", seal);
}

static void add_shards(const struct skep_project *project, struct skep_json *object)
{
    uint64_t sum = 0;
    uint64_t trunk = 0;
    size_t waiting = 0;
    for (size_t i = 0; i < project->shard_count; i++) {
        const struct skep_kept_shard *shard = project->shards[i];
        if (shard != NULL) {
            uint64_t version = skep_kept_shard_head(shard)->version;
            sum += version;
            trunk = shard->shard.kind == SKEP_SHARD_TRUNK ? version : trunk;
            waiting += shard->round != NULL ? skep_round_waiting(shard->round) : 0;
        }
    }
    skep_json_set_integer(object, "trunk_version", (int64_t)trunk);
    skep_json_set_integer(object, "shards", (int64_t)project->kept_count);
    skep_json_set_integer(object, "versions_sum", (int64_t)sum);
    skep_json_set_integer(object, "updates_waiting", (int64_t)waiting);
}

static int add_project(struct skep_project *project, struct skep_json *list, struct skep_error *err)
{
    struct skep_json *object = skep_json_object_new();
    struct skep_hash state = skep_project_state_hash(project);
    skep_json_set_hex(object, "project", project->manifest.project.bytes, SKEP_ID_SIZE);
    skep_json_set_text(object, "name", project->manifest.name);
    add_shards(project, object);
    skep_json_set_integer(object, "data_chunks", (int64_t)project->chunks_held);
    skep_json_set_integer(object, "data_chunks_wanted",
                          (int64_t)(project->chunk_count - project->chunks_held));
    skep_json_set_hex(object, "state", state.bytes, SKEP_ID_SIZE);
    int result = add_donors(project, object, err);
    add_last_seal(project, object);
    skep_json_set_integer(object, "most_donors_in_seal", (int64_t)project->most_donors_in_seal);
    skep_json_push_take(list, object);
    return result;
}

SKEP_API_HANDLER(skep_api_get_status)
{
    (void)exchange;
    (void)parts;
    struct skep_host *host = user;
    struct skep_json *root = skep_json_object_new();
    uint64_t uptime_ms = skep_loop_now_ms(host->loop) - host->started_ms;
    size_t nodes = host->directory != NULL ? skep_directory_nodes(host->directory) : 0;
    skep_json_set_hex(root, "keeper", host->id.bytes, SKEP_ID_SIZE);
    skep_json_set_integer(root, "uptime_s", (int64_t)(uptime_ms / 1000));
    skep_json_set_text(root, "host", host->options.listen.host);
    skep_json_set_integer(root, "port", host->port);
    skep_json_set_integer(root, "peers", (int64_t)skep_peers_count(host->peers));
    skep_json_set_integer(root, "dht_nodes", (int64_t)nodes);
    struct skep_json *list = skep_json_array_new();
    int result = SKEP_OK;
    for (size_t i = 0; i < host->project_count && result == SKEP_OK; i++) {
        result = add_project(host->projects[i], list, err);
    }
    skep_json_set_take(root, "projects", list);
    if (result == SKEP_OK) {
        skep_reply_json(reply, 200, root);
    } else {
        skep_json_free(root);
    }
    return result;
}
