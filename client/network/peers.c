#include "client/network/peers.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/discovery/dht.h"
#include "common/discovery/directory.h"
#include "common/swarm/records.h"
#include "common/swarm/statement.h"
#include "common/sys/clock.h"
#include "common/sys/file.h"

#define CONTACT_TIMEOUT_MS 4000u
#define STAGE_MS 1000u /* a stage has so long before the next begins beside it */
#define DHT_LIMIT_MS 20000u
#define DHT_STEP_MS 500u
#define ASIDE_FAILED_MS 5000u
#define ASIDE_LIED_MS 600000u

/* Of a search; the next begins when nobody has answered in this one, or not soon. */
enum stage {
    KNOWN,
    ADDRESSES,
    DHT,
};

struct aside {
    struct skep_peer_id keeper;
    uint64_t until_ms;
};

struct skep_peers {
    struct skep_loop *loop;
    const struct skep_transport *transport;
    struct skep_project_id project;
    char *bootstrap;
    char *listen_host;
    char *addresses_path;
    struct skep_records *records;
    struct skep_address addresses[SKEP_PEERS_ADDRESSES];
    size_t address_count;
    struct aside asides[SKEP_LIMIT_KEEPERS];
    size_t aside_count;
    /* the search that runs */
    bool finding;
    bool ended; /* its end is on the timer */
    size_t pending;
    struct skep_peer_id asked[SKEP_LIMIT_KEEPERS];
    size_t asked_count;
    struct skep_directory *dht;
    bool looking_up;
    enum stage stage;
    size_t answered; /* directories that came in this search */
    uint64_t dht_until_ms;
    struct skep_timer *timer;
    skep_peers_done done;
    void *user;
};

/* One request of a search. */
struct contact {
    struct skep_peers *peers;
    struct skep_address address;
};

static void settle(struct skep_peers *peers);
static void on_timer(void *user);

static void add_address(struct skep_peers *peers, const struct skep_address *address)
{
    for (size_t i = 0; i < peers->address_count; i++) {
        if (peers->addresses[i].port == address->port &&
            strcmp(peers->addresses[i].host, address->host) == 0) {
            return;
        }
    }
    if (peers->address_count < SKEP_PEERS_ADDRESSES) {
        peers->addresses[peers->address_count++] = *address;
    }
}

/* Addresses separated by commas or white space. */
static int add_address_list(struct skep_peers *peers, const char *list, struct skep_error *err)
{
    char *copy = skep_strdup(list);
    char *rest = NULL;
    int rc = 0;
    for (char *word = strtok_r(copy, ", \n", &rest); word != NULL && rc == 0;
         word = strtok_r(NULL, ", \n", &rest)) {
        struct skep_address address;
        if (skep_address_parse(word, &address)) {
            add_address(peers, &address);
        } else {
            rc = skep_error_set(err, SKEP_ERR_ARGUMENT,
                                "bootstrap address \"%.80s\" is not a numeric address and a port, "
                                "such as 192.0.2.7:7700 or [2001:db8::7]:7700",
                                word);
        }
    }
    free(copy);
    return rc;
}

static void load_addresses(struct skep_peers *peers)
{
    struct skep_buffer text = {0};
    if (peers->addresses_path != NULL &&
        skep_file_read(peers->addresses_path, 65536, &text, NULL) == 0) {
        skep_buffer_append_u8(&text, 0);
        (void)add_address_list(peers, (const char *)text.data, NULL);
    }
    skep_buffer_done(&text);
}

static void save_addresses(struct skep_peers *peers)
{
    if (peers->addresses_path == NULL) {
        return;
    }
    struct skep_buffer text = {0};
    for (size_t i = 0; i < skep_peers_count(peers); i++) {
        const struct skep_record *record = skep_peers_at(peers, i);
        char line[SKEP_HOST_TEXT_SIZE + 16];
        bool v6 = strchr(record->host, ':') != NULL;
        snprintf(line, sizeof line, v6 ? "[%s]:%u\n" : "%s:%u\n", record->host, record->port);
        skep_buffer_append_text(&text, line);
    }
    struct skep_error err = {0};
    if (skep_file_write_quick(peers->addresses_path, 0600, text.data, text.size, &err) != 0) {
        skep_log(SKEP_LOG_WARNING, "%s", err.text);
    }
    skep_buffer_done(&text);
}

int skep_peers_new(struct skep_loop *loop, const struct skep_transport *transport,
                   const struct skep_peers_options *options, struct skep_peers **ret_peers,
                   struct skep_error *err)
{
    struct skep_peers *peers = skep_alloc(1, sizeof *peers);
    peers->loop = loop;
    peers->transport = transport;
    peers->project = options->project;
    peers->bootstrap = skep_strdup(options->bootstrap != NULL ? options->bootstrap : "");
    peers->listen_host = skep_strdup(options->listen_host);
    peers->addresses_path = skep_strdup(options->addresses_path);
    peers->records = skep_records_new(SKEP_LIMIT_RECORDS);
    peers->timer = skep_timer_new(loop, on_timer, peers);
    int rc = add_address_list(peers, peers->bootstrap, err);
    if (rc != 0) {
        skep_peers_free(peers);
        return rc;
    }
    load_addresses(peers);
    *ret_peers = peers;
    return 0;
}

void skep_peers_free(struct skep_peers *peers)
{
    if (peers == NULL) {
        return;
    }
    if (peers->finding) {
        struct skep_error err = {0};
        peers->finding = false;
        skep_error_set(&err, SKEP_ERR_CANCELLED, "the search for keepers was stopped");
        peers->done(peers->user, SKEP_ERR_CANCELLED, &err);
    }
    assert(peers->pending == 0);
    skep_timer_free(peers->timer);
    if (peers->dht != NULL) {
        skep_directory_close(peers->dht);
    }
    skep_records_free(peers->records);
    free(peers->bootstrap);
    free(peers->listen_host);
    free(peers->addresses_path);
    free(peers);
}

size_t skep_peers_count(struct skep_peers *peers)
{
    skep_records_expire(peers->records, skep_clock_unix_s());
    return skep_records_count(peers->records);
}

const struct skep_record *skep_peers_at(struct skep_peers *peers, size_t i)
{
    return skep_records_at(peers->records, i);
}

const struct skep_record *skep_peers_find_keeper(struct skep_peers *peers,
                                                 const struct skep_peer_id *keeper)
{
    return skep_records_find(peers->records, keeper);
}

void skep_peers_set_aside(struct skep_peers *peers, const struct skep_peer_id *keeper, bool lied)
{
    uint64_t until = skep_clock_monotonic_ms() + (lied ? ASIDE_LIED_MS : ASIDE_FAILED_MS);
    struct aside *oldest = &peers->asides[0];
    for (size_t i = 0; i < peers->aside_count; i++) {
        struct aside *aside = &peers->asides[i];
        if (skep_peer_id_equal(&aside->keeper, keeper)) {
            aside->until_ms = until > aside->until_ms ? until : aside->until_ms;
            return;
        }
        oldest = aside->until_ms < oldest->until_ms ? aside : oldest;
    }
    if (peers->aside_count < SKEP_LIMIT_KEEPERS) {
        oldest = &peers->asides[peers->aside_count++];
    }
    *oldest = (struct aside){.keeper = *keeper, .until_ms = until};
}

bool skep_peers_is_aside(struct skep_peers *peers, const struct skep_peer_id *keeper)
{
    uint64_t now = skep_clock_monotonic_ms();
    for (size_t i = 0; i < peers->aside_count; i++) {
        if (skep_peer_id_equal(&peers->asides[i].keeper, keeper)) {
            return now < peers->asides[i].until_ms;
        }
    }
    return false;
}

static void send_get(struct contact *contact, const char *path, const struct skep_hash *pin,
                     skep_http_callback callback)
{
    struct skep_http_request request = {.method = "GET",
                                        .host = contact->address.host,
                                        .port = contact->address.port,
                                        .path = path,
                                        .pin = pin,
                                        .timeout_ms = CONTACT_TIMEOUT_MS,
                                        .limit = SKEP_LIMIT_STATEMENT_BYTES * (size_t)4};
    contact->peers->pending++;
    contact->peers->transport->send(contact->peers->transport->user, &request, callback, contact);
}

static void contact_end(struct contact *contact)
{
    struct skep_peers *peers = contact->peers;
    free(contact);
    peers->pending--;
    settle(peers);
}

static void on_directory(void *user, int result, const struct skep_http_answer *answer,
                         const struct skep_error *failure)
{
    struct contact *contact = user;
    struct skep_json *root = NULL;
    const struct skep_json *records = NULL;
    struct skep_error err = {0};
    int rc = skep_answer_json(result, answer, failure, "a keeper's directory", &root, &err);
    if (rc == 0) {
        rc = skep_json_get_array(root, "directory", "records", SKEP_LIMIT_RECORDS, &records, &err);
    }
    for (size_t i = 0; rc == 0 && i < skep_json_array_size(records); i++) {
        struct skep_envelope envelope = {0};
        if (skep_envelope_from_json(skep_json_array_at(records, i), &envelope, NULL) == 0) {
            (void)skep_records_add(contact->peers->records, &envelope, skep_clock_unix_s(), NULL,
                                   NULL);
            skep_envelope_done(&envelope);
        }
    }
    if (rc == 0) {
        contact->peers->answered++;
    } else {
        skep_log(SKEP_LOG_DEBUG, "%s:%u: %s", contact->address.host, contact->address.port,
                 err.text);
    }
    skep_json_free(root);
    contact_end(contact);
}

static void ask_directory(struct skep_peers *peers, const struct skep_record *record)
{
    for (size_t i = 0; i < peers->asked_count; i++) {
        if (skep_peer_id_equal(&peers->asked[i], &record->keeper)) {
            return;
        }
    }
    if (peers->asked_count == SKEP_LIMIT_KEEPERS) {
        return;
    }
    peers->asked[peers->asked_count++] = record->keeper;
    struct contact *contact = skep_alloc(1, sizeof *contact);
    contact->peers = peers;
    snprintf(contact->address.host, sizeof contact->address.host, "%s", record->host);
    contact->address.port = record->port;
    struct skep_directory_key key = skep_directory_key_of(&peers->project, NULL);
    char hex[41];
    char path[96];
    skep_hex_encode(key.bytes, sizeof key.bytes, hex);
    snprintf(path, sizeof path, "/v1/directory?key=%s", hex);
    struct skep_hash pin = record->tls_pin;
    send_get(contact, path, &pin, on_directory);
}

static void on_record(void *user, int result, const struct skep_http_answer *answer,
                      const struct skep_error *failure)
{
    struct contact *contact = user;
    struct skep_envelope envelope = {0};
    struct skep_record record = {0};
    struct skep_error err = {0};
    int rc = skep_answer_check(result, answer, failure, "first contact", &err);
    if (rc == 0) {
        rc = skep_envelope_parse(answer->body.data, answer->body.size, &envelope, &err);
    }
    if (rc == 0) {
        rc = skep_record_open(&envelope, skep_clock_unix_s(), &record, &err);
    }
    if (rc == 0) {
        rc = skep_records_add(contact->peers->records, &envelope, skep_clock_unix_s(), NULL, &err);
    }
    if (rc == 0) {
        ask_directory(contact->peers, &record);
    } else {
        skep_log(SKEP_LOG_DEBUG, "%s:%u: %s", contact->address.host, contact->address.port,
                 err.text);
    }
    skep_record_done(&record);
    skep_envelope_done(&envelope);
    contact_end(contact);
}

static void first_contact(struct skep_peers *peers, const struct skep_address *address)
{
    struct contact *contact = skep_alloc(1, sizeof *contact);
    contact->peers = peers;
    contact->address = *address;
    send_get(contact, "/v1/record", NULL, on_record);
}

static void on_found(void *user, const struct skep_address *addresses, size_t count, bool finished)
{
    struct skep_peers *peers = user;
    if (!peers->finding || peers->ended) {
        return;
    }
    peers->pending++; /* so that nothing ends while we walk */
    for (size_t i = 0; i < count && i < SKEP_PEERS_ADDRESSES; i++) {
        first_contact(peers, &addresses[i]);
    }
    peers->pending--;
    peers->looking_up = !finished;
    settle(peers);
}

static void start_dht(struct skep_peers *peers)
{
    if (peers->bootstrap[0] == '\0') {
        return;
    }
    bool loopback = strncmp(peers->bootstrap, "127.", 4) == 0;
    struct skep_dht_options options = {
        .host =
            peers->listen_host != NULL ? peers->listen_host : (loopback ? "127.0.0.1" : "0.0.0.0"),
        .bootstrap = peers->bootstrap,
        .read_only = true,
    };
    struct skep_error err = {0};
    if (skep_dht_open(peers->loop, &options, &peers->dht, &err) != 0) {
        skep_log(SKEP_LOG_WARNING, "%s", err.text);
        return;
    }
    skep_log(SKEP_LOG_INFO, "no keeper answered directly; looking in the DHT");
    peers->dht_until_ms = skep_clock_monotonic_ms() + DHT_LIMIT_MS;
    skep_timer_start(peers->timer, DHT_STEP_MS, DHT_STEP_MS);
}

/* The end comes from the timer, so that nobody is called back, or a session closed, inside a callback of its own. */
static void end_soon(struct skep_peers *peers)
{
    peers->ended = true;
    skep_timer_start(peers->timer, 0, 0);
}

static void ask_known(struct skep_peers *peers)
{
    size_t known = skep_peers_count(peers);
    for (size_t i = 0; i < known; i++) {
        ask_directory(peers, skep_peers_at(peers, i));
    }
}

static void begin_stage(struct skep_peers *peers)
{
    skep_timer_start(peers->timer, STAGE_MS, 0);
    peers->pending++; /* so that nothing ends while we walk */
    if (peers->stage == KNOWN) {
        ask_known(peers);
    } else if (peers->stage == ADDRESSES) {
        for (size_t i = 0; i < peers->address_count; i++) {
            first_contact(peers, &peers->addresses[i]);
        }
    } else {
        start_dht(peers);
    }
    peers->pending--;
}

/* Ends the search with the first keeper that answered (others may still add what they know), or goes to the next stage when all of
 * this one have failed. The DHT stage ends by its time. */
static void settle(struct skep_peers *peers)
{
    if (!peers->finding || peers->ended) {
        return;
    }
    if (peers->answered > 0) {
        end_soon(peers);
        return;
    }
    while (peers->pending == 0 && peers->stage < DHT && !peers->ended) {
        peers->stage++;
        begin_stage(peers);
    }
    if (peers->pending == 0 && peers->stage == DHT && peers->dht == NULL && !peers->ended) {
        end_soon(peers);
    }
}

static void end_search(struct skep_peers *peers)
{
    struct skep_error err = {0};
    int rc = 0;
    if (peers->dht != NULL) {
        skep_directory_close(peers->dht);
        peers->dht = NULL;
    }
    skep_timer_stop(peers->timer);
    if (peers->answered == 0 || skep_peers_count(peers) == 0) {
        rc = skep_error_set(&err, SKEP_ERR_NETWORK,
                            "no keeper of project %.8s answered; check the network and --bootstrap",
                            skep_id_text(peers->project.bytes));
    } else {
        save_addresses(peers);
    }
    peers->finding = false;
    peers->ended = false;
    peers->done(peers->user, rc, &err);
}

static void on_timer(void *user)
{
    struct skep_peers *peers = user;
    if (peers->ended) {
        end_search(peers);
    } else if (peers->stage < DHT) {
        peers->stage++;
        begin_stage(peers);
        settle(peers);
    } else if (peers->dht == NULL) {
        settle(peers); /* contacts that still run decide */
    } else if (skep_clock_monotonic_ms() >= peers->dht_until_ms) {
        end_search(peers);
    } else if (!peers->looking_up) {
        /* the routing table may still have been empty the last time: ask again */
        struct skep_directory_key key = skep_directory_key_of(&peers->project, NULL);
        peers->looking_up = true;
        skep_directory_look_up(peers->dht, &key, on_found, peers);
    }
}

void skep_peers_find(struct skep_peers *peers, skep_peers_done done, void *user)
{
    assert(!peers->finding);
    peers->finding = true;
    peers->ended = false;
    peers->stage = KNOWN;
    peers->answered = 0;
    peers->looking_up = false;
    peers->asked_count = 0;
    peers->done = done;
    peers->user = user;
    begin_stage(peers);
    settle(peers);
}
