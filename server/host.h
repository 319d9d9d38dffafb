/*
 * The host: one keeper process. It owns the loop, the server, the client, the database, the files and the directory, and
 * joins them with the pure machines of swarm/. One thread: every function of server/ runs on the loop's, so there are no locks.
 *
 *   open:  lock, key, certificate -> database, projects -> HTTPS -> DHT -> peers
 *   run:   until SIGTERM or SIGINT, then says goodbye to the peers (peers.h) and stops
 *
 * Files in DIR: key.pem, tls-key.pem (mode 0600), tls-cert.pem, keeper.db, blobs/, audit/, evidence/, lock, address, dht, dht-state.
 */
#ifndef SKEP_SERVER_HOST_H
#define SKEP_SERVER_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/limits.h"
#include "common/base/rng.h"
#include "common/crypto/key.h"
#include "common/discovery/directory.h"
#include "common/store/blobs.h"
#include "common/store/keeper-db.h"
#include "common/sys/http-client.h"
#include "common/sys/http-server.h"
#include "common/sys/loop.h"
#include "server/options.h"
#include "server/trust.h"

struct skep_agreement;
struct skep_audit;
struct skep_peers;
struct skep_project;
struct skep_remote;
struct skep_stamps;
struct skep_sync;

/* Parts are made by their own modules and are NULL until then. */
struct skep_host {
    struct skep_options options;
    int lock;
    struct skep_key *key;
    struct skep_peer_id id;
    char *cert_pem;
    char *tls_key_pem;
    struct skep_hash tls_pin;
    struct skep_loop *loop;
    struct skep_keeper_db *db;
    struct skep_blobs *blobs;
    struct skep_http_server *server;
    struct skep_http_client *client;
    struct skep_directory *directory; /* NULL with --no-dht */
    struct skep_peers *peers;
    struct skep_agreement *agreement;
    struct skep_sync *sync;
    struct skep_audit *audit;
    struct skep_trust_owed owed;
    struct skep_remote *remote; /* NULL with --remote-threads 0 */
    struct skep_project *projects[SKEP_LIMIT_PROJECTS];
    size_t project_count;
    struct skep_rng rng; /* whom to ask: nothing that matters hangs on it */
    struct skep_stamps *stamps;
    uint64_t started_ms;
    uint16_t port; /* HTTPS, as bound */
    bool leaving;
};

/* Everything up to the point where requests are answered. On failure nothing stays open. */
int skep_host_open(const struct skep_options *options, struct skep_host **ret_host,
                   struct skep_error *err);
/* Until a signal asks to stop. */
void skep_host_run(struct skep_host *host);
void skep_host_close(struct skep_host *host);

/* DIR/name; the caller frees. */
char *skep_host_path(const struct skep_host *host, const char *name);
/* NULL if this keeper has no such project. */
struct skep_project *skep_host_project(struct skep_host *host, const struct skep_project_id *id);

#endif
