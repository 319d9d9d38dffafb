/* What a keeper reads from the seals that it has stored. */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/swarm/stamp.h"
#include "server/host.h"
#include "server/project.h"
#include "server/shard.h"

int skep_kept_shard_seal(const struct skep_kept_shard *shard, uint64_t version,
                         struct skep_seal *ret_seal, struct skep_error *err)
{
    struct skep_version_row row = {0};
    struct skep_envelope envelope = {0};
    int result =
        skep_keeper_db_get_version(shard->project->host->db, &shard->project->manifest.project,
                                   &shard->shard, version, &row, err);
    if (result == SKEP_OK && row.seal == NULL) {
        result = skep_error_set(err, SKEP_ERR_NOT_FOUND, "version %llu of %s has no seal here",
                                (unsigned long long)version, shard->text);
    } else if (result == SKEP_OK) {
        result = skep_envelope_parse(row.seal, strlen(row.seal), &envelope, err);
    }
    if (result == SKEP_OK) {
        result = skep_seal_decode(envelope.payload.data, envelope.payload.size, ret_seal, err);
    }
    if (result == SKEP_OK &&
        (ret_seal->version != version || !skep_shard_equal(&ret_seal->shard, &shard->shard))) {
        result = skep_error_set(err, SKEP_ERR_FORMAT,
                                "version %llu of %s has the seal of another version or shard here",
                                (unsigned long long)version, shard->text);
        skep_seal_done(ret_seal);
    }
    skep_envelope_done(&envelope);
    free((void *)row.seal);
    return result;
}

/* The oldest version in the window of `version`. */
static uint64_t window_start(uint64_t version)
{
    return version > SKEP_STANDINGS_SEALS ? version - SKEP_STANDINGS_SEALS + 1 : 1;
}

void skep_kept_shard_load_standings(struct skep_kept_shard *shard)
{
    skep_standings_free(shard->standings);
    shard->standings = skep_kept_shard_standings(shard, skep_kept_shard_head(shard)->version);
}

static void know_donors(const struct skep_kept_shard *shard, const struct skep_seal *seal)
{
    const struct skep_project *project = shard->project;
    for (size_t i = 0; i < seal->receipt_count; i++) {
        skep_stamps_know(project->host->stamps, &project->manifest, &seal->receipts[i].donor);
    }
}

struct skep_standings *skep_kept_shard_standings(const struct skep_kept_shard *shard,
                                                 uint64_t version)
{
    struct skep_standings *standings = skep_standings_new();
    for (uint64_t v = window_start(version); v <= version; v++) {
        struct skep_seal seal = {0};
        struct skep_error reason = {0};
        if (skep_kept_shard_seal(shard, v, &seal, &reason) == SKEP_OK) {
            skep_standings_push(standings, &seal);
            know_donors(shard, &seal);
        } else {
            skep_log(SKEP_LOG_WARNING, "%s: %s", shard->text, reason.text);
        }
        skep_seal_done(&seal);
    }
    return standings;
}

uint64_t skep_kept_shard_missing_seal(const struct skep_kept_shard *shard)
{
    uint64_t head = skep_kept_shard_head(shard)->version;
    for (uint64_t v = head; v >= window_start(head) && v > 0; v--) {
        struct skep_seal seal = {0};
        bool here = skep_kept_shard_seal(shard, v, &seal, NULL) == SKEP_OK;
        skep_seal_done(&seal);
        if (!here) {
            return v;
        }
    }
    return 0;
}

bool skep_kept_shard_can_judge(const struct skep_kept_shard *shard)
{
    return skep_standings_version(shard->standings) == skep_kept_shard_head(shard)->version &&
           skep_standings_whole(shard->standings);
}
