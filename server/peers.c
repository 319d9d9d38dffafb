#include "server/peers.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/swarm/records.h"
#include "common/swarm/statement.h"
#include "common/sys/clock.h"
#include "server/host.h"
#include "server/project.h"

#define CONTACT_TIMEOUT_MS 5000
#define GOODBYE_MS 1000
#define LOOK_UP_EVERY 6u /* gossip rounds: half a minute */
#define RENEW_EVERY 3u   /* gossip rounds: a quarter of a record's life */

struct skep_peers {
    struct skep_host *host;
    struct skep_records *records; /* of others */
    struct skep_envelope own;
    uint64_t sequence;
    struct skep_timer *gossip;
    struct skep_timer *goodbye;
    unsigned rounds;
    size_t contacts; /* first contacts under way */
    size_t farewells;
};

/* Limits how many unknown addresses are tried at once, whatever the DHT says. */
#define CONTACTS_AT_ONCE 16u

static void on_gossip(void *user);
static void on_goodbye_over(void *user);

struct skep_peers *skep_peers_new(struct skep_host *host)
{
    struct skep_peers *peers = skep_alloc(1, sizeof *peers);
    peers->host = host;
    peers->records = skep_records_new(SKEP_LIMIT_RECORDS);
    peers->gossip = skep_timer_new(host->loop, on_gossip, peers);
    peers->goodbye = skep_timer_new(host->loop, on_goodbye_over, peers);
    return peers;
}

void skep_peers_free(struct skep_peers *peers)
{
    if (peers != NULL) {
        skep_timer_free(peers->gossip);
        skep_timer_free(peers->goodbye);
        skep_records_free(peers->records);
        skep_envelope_done(&peers->own);
        free(peers);
    }
}

/* Signs a record that is newer than any before, also than those of earlier runs: its sequence is the time in milliseconds. */
static void sign_own(struct skep_peers *peers)
{
    struct skep_host *host = peers->host;
    int64_t now_s = skep_clock_unix_s();
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t by_time = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    peers->sequence = by_time > peers->sequence ? by_time : peers->sequence + 1;
    struct skep_project_id projects[SKEP_LIMIT_PROJECTS];
    for (size_t i = 0; i < host->project_count; i++) {
        projects[i] = host->projects[i]->manifest.project;
    }
    const struct skep_address *address =
        host->options.announce.host[0] != '\0' ? &host->options.announce : &host->options.listen;
    struct skep_record record = {.keeper = host->id,
                                 .port = address->port != 0 ? address->port : host->port,
                                 .tls_pin = host->tls_pin,
                                 .sequence = peers->sequence,
                                 .expires_s = now_s + SKEP_RECORD_LIFETIME_S,
                                 .leaving = host->leaving,
                                 .project_count = host->project_count,
                                 .projects = projects};
    snprintf(record.host, sizeof record.host, "%s", address->host);
    char *payload = skep_record_encode(&record);
    skep_envelope_done(&peers->own);
    peers->own = (struct skep_envelope){0};
    skep_statement_sign(host->key, SKEP_TYPE_RECORD, payload, &peers->own);
    free(payload);
}

const struct skep_envelope *skep_peers_own(const struct skep_peers *peers)
{
    return &peers->own;
}

size_t skep_peers_count(const struct skep_peers *peers)
{
    return skep_records_count(peers->records);
}

const struct skep_record *skep_peers_at(const struct skep_peers *peers, size_t i)
{
    return skep_records_at(peers->records, i);
}

const struct skep_envelope *skep_peers_envelope_at(const struct skep_peers *peers, size_t i)
{
    return skep_records_envelope_at(peers->records, i);
}

const struct skep_record *skep_peers_find(const struct skep_peers *peers,
                                          const struct skep_peer_id *keeper)
{
    return skep_records_find(peers->records, keeper);
}

static bool serves(const struct skep_record *record, const struct skep_project *project)
{
    for (size_t i = 0; i < record->project_count; i++) {
        if (memcmp(record->projects[i].bytes, project->manifest.project.bytes, SKEP_ID_SIZE) == 0) {
            return skep_project_names(project, &record->keeper);
        }
    }
    return false;
}

const struct skep_record *skep_peers_of(const struct skep_peers *peers,
                                        const struct skep_project *project, size_t place)
{
    size_t total = skep_records_count(peers->records);
    size_t count = 0;
    for (size_t i = 0; i < total; i++) {
        count += serves(skep_records_at(peers->records, i), project);
    }
    size_t left = count > 0 ? place % count : 0;
    for (size_t i = 0; count > 0 && i < total; i++) {
        const struct skep_record *record = skep_records_at(peers->records, i);
        if (serves(record, project) && left-- == 0) {
            return record;
        }
    }
    return NULL;
}

void skep_peers_send(struct skep_peers *peers, const struct skep_record *record,
                     struct skep_http_request *request, skep_http_callback callback, void *user)
{
    request->host = record->host;
    request->port = record->port;
    request->pin = &record->tls_pin;
    skep_http_send(peers->host->client, request, callback, user);
}

int skep_peers_add(struct skep_peers *peers, const struct skep_envelope *envelope, bool *ret_new,
                   struct skep_error *err)
{
    bool is_own = envelope->signature_count > 0 &&
                  skep_peer_id_equal(&envelope->signatures[0].signer, &peers->host->id);
    if (is_own) {
        *ret_new = false;
        return SKEP_OK;
    }
    size_t before = skep_records_count(peers->records);
    int result = skep_records_add(peers->records, envelope, skep_clock_unix_s(), ret_new, err);
    size_t after = skep_records_count(peers->records);
    if (after != before) {
        skep_log(SKEP_LOG_INFO, "other keepers known: %zu", after);
    }
    return result;
}

/* {"records": [...]}: ours first, then those known; for a goodbye only ours. */
static char *write_records(const struct skep_peers *peers)
{
    struct skep_json *root = skep_json_object_new();
    struct skep_json *list = skep_json_array_new();
    skep_json_push_take(list, skep_envelope_to_json(&peers->own));
    size_t count = peers->host->leaving ? 0 : skep_records_count(peers->records);
    for (size_t i = 0; i < count && i + 1 < SKEP_LIMIT_RECORDS; i++) {
        skep_json_push_take(list,
                            skep_envelope_to_json(skep_records_envelope_at(peers->records, i)));
    }
    skep_json_set_take(root, "records", list);
    char *text = skep_json_write(root, false);
    skep_json_free(root);
    return text;
}

static void send_records(struct skep_peers *peers, const struct skep_record *record,
                         const char *body, skep_http_callback callback)
{
    struct skep_http_request request = {.method = "POST",
                                        .path = "/v1/directory",
                                        .body = body,
                                        .body_size = strlen(body),
                                        .timeout_ms = CONTACT_TIMEOUT_MS};
    skep_peers_send(peers, record, &request, callback, peers);
}

static void on_gossip_sent(void *user, int result, const struct skep_http_answer *answer,
                           const struct skep_error *err)
{
    (void)user;
    (void)answer;
    if (result != SKEP_OK && result != SKEP_ERR_CANCELLED) {
        skep_log(SKEP_LOG_DEBUG, "gossip: %s", err != NULL ? err->text : "no answer");
    }
}

/* To at most SKEP_GOSSIP_FANOUT neighbours in the table, beginning anywhere. */
static void send_gossip(struct skep_peers *peers)
{
    size_t count = skep_records_count(peers->records);
    if (count == 0) {
        return;
    }
    size_t first = skep_rng_below(&peers->host->rng, count);
    size_t most = count < SKEP_GOSSIP_FANOUT ? count : SKEP_GOSSIP_FANOUT;
    char *body = write_records(peers);
    for (size_t i = 0; i < most; i++) {
        send_records(peers, skep_records_at(peers->records, (first + i) % count), body,
                     on_gossip_sent);
    }
    free(body);
}

/* An address being asked who it is. */
struct contact {
    struct skep_peers *peers;
    struct skep_address address;
};

/* The record in a first answer; whoever it names from now on is known, and is told of us. */
static int meet(struct skep_peers *peers, const struct skep_buffer *body, struct skep_error *err)
{
    struct skep_envelope envelope = {0};
    bool is_new = false;
    int result = skep_envelope_parse(body->data, body->size, &envelope, err);
    if (result == SKEP_OK) {
        result = skep_peers_add(peers, &envelope, &is_new, err);
    }
    if (result == SKEP_OK && is_new) {
        const struct skep_record *record =
            skep_records_find(peers->records, &envelope.signatures[0].signer);
        if (record != NULL) {
            char *text = write_records(peers);
            send_records(peers, record, text, on_gossip_sent);
            free(text);
        }
    }
    skep_envelope_done(&envelope);
    return result;
}

static void on_contact(void *user, int result, const struct skep_http_answer *answer,
                       const struct skep_error *err)
{
    struct contact *contact = user;
    struct skep_error reason = {0};
    contact->peers->contacts--;
    if (result == SKEP_OK && answer->status == 200) {
        result = meet(contact->peers, &answer->body, &reason);
    } else if (result != SKEP_OK && err != NULL) {
        reason = *err;
    }
    if (result != SKEP_OK && result != SKEP_ERR_CANCELLED) {
        skep_log(SKEP_LOG_DEBUG, "%s port %u is no keeper that can be reached: %s",
                 contact->address.host, contact->address.port, reason.text);
    }
    free(contact);
}

static bool known_address(const struct skep_peers *peers, const struct skep_address *address)
{
    const struct skep_host *host = peers->host;
    if (address->port == host->port && strcmp(address->host, host->options.listen.host) == 0) {
        return true;
    }
    size_t count = skep_records_count(peers->records);
    for (size_t i = 0; i < count; i++) {
        const struct skep_record *record = skep_records_at(peers->records, i);
        if (record->port == address->port && strcmp(record->host, address->host) == 0) {
            return true;
        }
    }
    return false;
}

static void make_contact(struct skep_peers *peers, const struct skep_address *address)
{
    if (peers->host->leaving || peers->contacts >= CONTACTS_AT_ONCE ||
        known_address(peers, address)) {
        return;
    }
    struct contact *contact = skep_alloc(1, sizeof *contact);
    *contact = (struct contact){.peers = peers, .address = *address};
    peers->contacts++;
    struct skep_http_request request = {.method = "GET",
                                        .host = contact->address.host,
                                        .port = contact->address.port,
                                        .path = "/v1/record",
                                        .timeout_ms = CONTACT_TIMEOUT_MS,
                                        .limit = SKEP_LIMIT_STATEMENT_BYTES};
    skep_http_send(peers->host->client, &request, on_contact, contact);
}

static void on_found(void *user, const struct skep_address *addresses, size_t count, bool finished)
{
    (void)finished;
    for (size_t i = 0; i < count; i++) {
        make_contact(user, &addresses[i]);
    }
}

static void look_up(struct skep_peers *peers, const struct skep_project *project)
{
    if (peers->host->directory != NULL) {
        struct skep_directory_key key = skep_directory_key_of(&project->manifest.project, NULL);
        skep_directory_look_up(peers->host->directory, &key, on_found, peers);
    }
}

static void on_gossip(void *user)
{
    struct skep_peers *peers = user;
    struct skep_host *host = peers->host;
    skep_records_expire(peers->records, skep_clock_unix_s());
    if (peers->rounds % RENEW_EVERY == 0) {
        sign_own(peers);
    }
    for (size_t i = 0; i < host->options.peer_count; i++) {
        make_contact(peers, &host->options.peers[i]);
    }
    /* Alone, look again at every round: the DHT needs a while after the start. */
    if (peers->rounds % LOOK_UP_EVERY == 0 || skep_records_count(peers->records) == 0) {
        for (size_t i = 0; i < host->project_count; i++) {
            look_up(peers, host->projects[i]);
        }
    }
    send_gossip(peers);
    peers->rounds++;
}

/* Announces the keys under which this keeper serves the project. */
static void announce(struct skep_peers *peers, const struct skep_project *project)
{
    struct skep_host *host = peers->host;
    if (host->directory == NULL) {
        return;
    }
    uint16_t port = host->options.announce.port != 0 ? host->options.announce.port : host->port;
    for (size_t i = 0; i < project->key_count; i++) {
        if (project->keys[i].ours) {
            skep_directory_announce(host->directory, &project->keys[i].key, port);
        }
    }
}

void skep_peers_start(struct skep_peers *peers)
{
    sign_own(peers);
    for (size_t i = 0; i < peers->host->project_count; i++) {
        announce(peers, peers->host->projects[i]);
    }
    skep_timer_start(peers->gossip, 1, SKEP_GOSSIP_MS);
}

void skep_peers_serve(struct skep_peers *peers, struct skep_project *project)
{
    sign_own(peers);
    announce(peers, project);
    look_up(peers, project);
    send_gossip(peers);
}

static void on_goodbye_over(void *user)
{
    struct skep_peers *peers = user;
    skep_loop_stop(peers->host->loop);
}

static void on_farewell(void *user, int result, const struct skep_http_answer *answer,
                        const struct skep_error *err)
{
    struct skep_peers *peers = user;
    (void)answer;
    (void)err;
    peers->farewells--;
    if (peers->farewells == 0 && result != SKEP_ERR_CANCELLED) {
        skep_loop_stop(peers->host->loop);
    }
}

void skep_peers_leave(struct skep_peers *peers)
{
    size_t count = skep_records_count(peers->records);
    skep_timer_stop(peers->gossip);
    sign_own(peers);
    peers->farewells = count;
    skep_timer_start(peers->goodbye, count > 0 ? GOODBYE_MS : 1, 0);
    char *body = write_records(peers);
    for (size_t i = 0; i < count; i++) {
        send_records(peers, skep_records_at(peers->records, i), body, on_farewell);
    }
    free(body);
}
