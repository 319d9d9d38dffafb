/* Audits: the histories that donors are asked for, and what came of them. */
#include <string.h>

#include "common/store/keeper-audits.h"
#include "common/swarm/reputation.h"
#include "server/api/api.h"
#include "server/api/reply.h"
#include "server/audit.h"
#include "server/shard.h"

#define MOST_WANTED 512
#define MOST_AUDITS 500

struct wanted {
    struct skep_json *list;
    size_t count;
};

static bool add_wanted(void *user, const struct skep_hash *history,
                       const struct skep_kept_shard *shard)
{
    struct wanted *wanted = user;
    struct skep_json *item = skep_json_object_new();
    skep_json_set_hex(item, "history", history->bytes, SKEP_ID_SIZE);
    skep_json_set_text(item, "shard", shard->text);
    skep_json_push_take(wanted->list, item);
    return ++wanted->count < MOST_WANTED;
}

/* Who asks is not looked at: to know which hashes are wanted helps nobody who has not the bytes. */
SKEP_API_HANDLER(skep_api_get_evidence)
{
    struct skep_project *project = NULL;
    struct skep_hash id;
    const char *donor = skep_http_query(exchange, "donor");
    int result = skep_api_project(user, parts, &project, err);
    if (result == SKEP_OK) {
        result = skep_api_hash("the donor", donor != NULL ? donor : "", &id, err);
    }
    if (result == SKEP_OK) {
        struct skep_peer_id peer;
        struct skep_json *root = skep_json_object_new();
        struct wanted wanted = {.list = skep_json_array_new()};
        memcpy(peer.bytes, id.bytes, SKEP_ID_SIZE);
        skep_audit_wanted(project, &peer, add_wanted, &wanted);
        skep_json_set_take(root, "wanted", wanted.list);
        skep_reply_json(reply, 200, root);
    }
    return result;
}

SKEP_API_HANDLER(skep_api_put_evidence)
{
    struct skep_host *host = user;
    struct skep_hash history;
    int result = skep_api_hash("the history", parts->text[0], &history, err);
    if (result == SKEP_OK) {
        result =
            skep_audit_evidence(host->audit, &history, exchange->body, exchange->body_size, err);
    }
    if (result == SKEP_OK) {
        struct skep_json *root = skep_json_object_new();
        skep_json_set_hex(root, "history", history.bytes, SKEP_ID_SIZE);
        skep_reply_json(reply, 201, root);
    }
    return result;
}

static int add_audit(void *user, const struct skep_audit_row *row)
{
    struct skep_json *list = user;
    struct skep_json *item = skep_json_object_new();
    skep_json_set_hex(item, "update", row->update.bytes, SKEP_ID_SIZE);
    skep_json_set_shard(item, "shard", &row->shard);
    skep_json_set_hex(item, "donor", row->donor.bytes, SKEP_ID_SIZE);
    skep_json_set_integer(item, "base_version", (int64_t)row->base_version);
    skep_json_set_text(item, "verdict", skep_audit_verdict_name(row->verdict));
    skep_json_set_real(item, "distance", row->distance);
    skep_json_set_real(item, "overlap", row->overlap);
    skep_json_set_real(item, "seconds", row->seconds);
    skep_json_set_integer(item, "came_s", row->came_s);
    skep_json_push_take(list, item);
    return SKEP_OK;
}

/* Donors that the trunk's seals ban, in order of donor. */
static struct skep_json *list_banned(const struct skep_project *project)
{
    struct skep_json *list = skep_json_array_new();
    const struct skep_reputations *table = project->reputations;
    size_t count = table != NULL ? skep_reputation_count(table) : 0;
    size_t listed = 0;
    for (size_t i = 0; i < count && listed < MOST_AUDITS; i++) {
        struct skep_reputation row = skep_reputation_at(table, i);
        if (row.banned) {
            struct skep_json *item = skep_json_object_new();
            skep_json_set_hex(item, "donor", row.donor.bytes, SKEP_ID_SIZE);
            skep_json_set_integer(item, "version", (int64_t)row.banned_at);
            skep_json_push_take(list, item);
            listed++;
        }
    }
    return list;
}

SKEP_API_HANDLER(skep_api_get_audits)
{
    (void)exchange;
    struct skep_host *host = user;
    struct skep_project *project = NULL;
    uint64_t counts[SKEP_AUDIT_VERDICTS] = {0};
    int result = skep_api_project(host, parts, &project, err);
    if (result != SKEP_OK) {
        return result;
    }
    struct skep_json *root = skep_json_object_new();
    struct skep_json *list = skep_json_array_new();
    struct skep_json *totals = skep_json_object_new();
    result = skep_keeper_db_list_audits(host->db, &project->manifest.project, MOST_AUDITS,
                                        add_audit, list, err);
    if (result == SKEP_OK) {
        result = skep_keeper_db_count_audits(host->db, &project->manifest.project, counts, err);
    }
    for (size_t i = 0; i < SKEP_AUDIT_VERDICTS; i++) {
        skep_json_set_integer(totals, skep_audit_verdict_name((enum skep_audit_verdict)i),
                              (int64_t)counts[i]);
    }
    skep_json_set_integer(root, "jobs_waiting", (int64_t)skep_audit_waiting(host->audit));
    skep_json_set_integer(root, "evidence_bytes", (int64_t)skep_audit_evidence_bytes(host->audit));
    skep_json_set_take(root, "totals", totals);
    skep_json_set_take(root, "audits", list);
    skep_json_set_take(root, "banned", list_banned(project));
    if (result == SKEP_OK) {
        skep_reply_json(reply, 200, root);
    } else {
        skep_json_free(root);
    }
    return result;
}
