#include "server/beacons.h"

#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/swarm/replicas.h"
#include "common/swarm/statement.h"
#include "server/host.h"
#include "server/peers.h"
#include "server/project.h"
#include "server/shard.h"

#define ASK_TIMEOUT_MS 5000u

struct beacon {
    uint64_t version;
    struct skep_hash hash;
};

struct skep_beacons {
    struct skep_project *project;
    uint64_t newest;
    size_t count; /* ever kept: the next goes to place count % SKEP_BEACONS_KEPT */
    struct beacon kept[SKEP_BEACONS_KEPT];
    bool asking;
    uint64_t asked_ms;
    size_t asked_keeper; /* places are asked in turn */
};

static const struct skep_shard trunk_shard = {.kind = SKEP_SHARD_TRUNK};

struct skep_beacons *skep_beacons_new(struct skep_project *project)
{
    struct skep_beacons *beacons = skep_alloc(1, sizeof *beacons);
    beacons->project = project;
    return beacons;
}

void skep_beacons_free(struct skep_beacons *beacons)
{
    free(beacons);
}

/* ---- from a keeper of the trunk ---- */

static int read_seal(struct skep_beacons *beacons, const struct skep_buffer *body,
                     struct beacon *ret_beacon, struct skep_error *err)
{
    struct skep_json *root = NULL;
    const struct skep_json *value = NULL;
    struct skep_envelope envelope = {0};
    struct skep_seal seal = {0};
    int result = skep_json_parse(body->data, body->size, "version", &root, err);
    if (result == SKEP_OK) {
        result = skep_json_get_object(root, "version", "seal", &value, err);
    }
    if (result == SKEP_OK) {
        result = skep_envelope_from_json(value, &envelope, err);
    }
    if (result == SKEP_OK) {
        result =
            skep_seal_open(&envelope, &beacons->project->manifest, &seal, &ret_beacon->hash, err);
    }
    if (result == SKEP_OK && seal.shard.kind != SKEP_SHARD_TRUNK) {
        result = skep_error_set(err, SKEP_ERR_FORMAT, "its seal is not of the trunk");
    }
    ret_beacon->version = seal.version;
    skep_seal_done(&seal);
    skep_envelope_done(&envelope);
    skep_json_free(root);
    return result;
}

static const struct beacon *find(const struct skep_beacons *beacons, uint64_t version)
{
    for (size_t i = 0; i < SKEP_BEACONS_KEPT && i < beacons->count; i++) {
        if (beacons->kept[i].version == version) {
            return &beacons->kept[i];
        }
    }
    return NULL;
}

static void on_seal(void *user, int result, const struct skep_http_answer *answer,
                    const struct skep_error *err)
{
    struct skep_beacons *beacons = user;
    struct skep_error reason = {0};
    struct beacon beacon = {0};
    (void)err;
    if (result == SKEP_ERR_CANCELLED) {
        return;
    }
    beacons->asking = false;
    if (result != SKEP_OK || answer->status != 200) {
        return; /* the next update asks another one */
    }
    if (read_seal(beacons, &answer->body, &beacon, &reason) != SKEP_OK) {
        skep_log(SKEP_LOG_INFO, "a seal of the trunk is not believed: %s", reason.text);
    } else if (find(beacons, beacon.version) == NULL) {
        beacons->kept[beacons->count++ % SKEP_BEACONS_KEPT] = beacon;
        beacons->newest = beacon.version > beacons->newest ? beacon.version : beacons->newest;
    }
}

/* A version that may not exist is not asked for by its number: the newest there is says more. */
static void ask(struct skep_beacons *beacons, uint64_t version)
{
    struct skep_host *host = beacons->project->host;
    struct skep_replicas replicas = skep_replicas_of(&beacons->project->manifest, &trunk_shard);
    uint64_t now_ms = skep_loop_now_ms(host->loop);
    if (beacons->asking || host->leaving || now_ms - beacons->asked_ms < SKEP_BEACONS_GAP_MS) {
        return;
    }
    beacons->asked_ms = now_ms;
    const struct skep_peer_id *keeper = &replicas.keepers[beacons->asked_keeper++ % replicas.count];
    const struct skep_record *record = skep_peers_find(host->peers, keeper);
    if (record == NULL) {
        return;
    }
    char *number = version > beacons->newest ? skep_strdup("latest")
                                             : skep_format("%llu", (unsigned long long)version);
    char *path = skep_format("/v1/projects/%s/shards/trunk/versions/%s",
                             skep_id_text(beacons->project->manifest.project.bytes), number);
    struct skep_http_request request = {
        .method = "GET", .path = path, .timeout_ms = ASK_TIMEOUT_MS};
    beacons->asking = true;
    skep_peers_send(host->peers, record, &request, on_seal, beacons);
    free(path);
    free(number);
}

/* ---- what is known ---- */

/* Of the trunk that is kept here. */
static struct skep_trunk_view view_of_ours(struct skep_kept_shard *trunk, uint64_t version)
{
    const struct skep_project *project = trunk->project;
    struct skep_trunk_view view = {.newest = skep_kept_shard_head(trunk)->version};
    const struct skep_kept_version *kept = skep_kept_shard_version(trunk, version);
    struct skep_version_row row = {0};
    if (kept != NULL) {
        view.known = true;
        view.beacon = kept->payload;
    } else if (version < view.newest && view.newest - version <= SKEP_BEACONS_KEPT &&
               skep_keeper_db_get_version(project->host->db, &project->manifest.project,
                                          &trunk->shard, version, &row, NULL) == SKEP_OK) {
        view.known = true;
        view.beacon = row.payload_hash;
        free((void *)row.seal);
    }
    return view;
}

struct skep_trunk_view skep_beacons_view(struct skep_beacons *beacons, uint64_t version)
{
    struct skep_project *project = beacons->project;
    struct skep_kept_shard *trunk = project->shards[0]; /* the first in the manifest's order */
    if (trunk != NULL) {
        return view_of_ours(trunk, version);
    }
    struct skep_trunk_view view = {.newest = beacons->newest};
    const struct beacon *beacon = find(beacons, version);
    if (version == 0) {
        view.known = true;
        view.beacon = project->manifest_hash;
    } else if (beacon != NULL) {
        view.known = true;
        view.beacon = beacon->hash;
    } else if (version + SKEP_BEACONS_KEPT > view.newest) {
        ask(beacons, version);
    }
    return view;
}
