/*
 * Finding the keepers of a project, and remembering them.
 *
 *   known keepers (records)                                GET /v1/directory?key=...
 *        | none answered (or not within a second)
 *   addresses (last run, --bootstrap)                      first contact, then the same
 *        | none answered (or not within a second)
 *   a read-only DHT session over the --bootstrap nodes, look-up of the project's key     (common/discovery)
 *        | addresses
 *   first contact: GET /v1/record without a pin; the record's signature is checked, and from then on its pin is used
 *
 * A --bootstrap address may be a keeper's HTTPS address or a DHT node: it is tried as both, in this order. What counts is signed;
 * an address that lies costs one request.
 */
#ifndef SKEP_CLIENT_NETWORK_PEERS_H
#define SKEP_CLIENT_NETWORK_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/network/transport.h"
#include "common/base/error.h"
#include "common/base/id.h"
#include "common/sys/loop.h"
#include "common/wire/statements.h"

#define SKEP_PEERS_ADDRESSES 64

struct skep_peers;

struct skep_peers_options {
    struct skep_project_id project;
    const char *bootstrap;      /* "host:port,..."; NULL or "": none. Copied */
    const char *listen_host;    /* numeric address of the DHT session; NULL: chosen. Copied */
    const char *addresses_path; /* where addresses rest between runs; NULL: nowhere. Copied */
};

/* SKEP_ERR_ARGUMENT if a bootstrap address is not numeric host and port. `transport` is borrowed for the life of the peers. */
int skep_peers_new(struct skep_loop *loop, const struct skep_transport *transport,
                   const struct skep_peers_options *options, struct skep_peers **ret_peers,
                   struct skep_error *err);
/* A search still running ends with SKEP_ERR_CANCELLED. The transport must have nothing of ours in flight any more. */
void skep_peers_free(struct skep_peers *peers);

typedef void (*skep_peers_done)(void *user, int result, const struct skep_error *err);

/* One search; calls back once, with SKEP_ERR_NETWORK if nobody answered. One at a time. */
void skep_peers_find(struct skep_peers *peers, skep_peers_done done, void *user);

/* Live records in order of keeper id; borrowed until the next search. */
size_t skep_peers_count(struct skep_peers *peers);
const struct skep_record *skep_peers_at(struct skep_peers *peers, size_t i);
const struct skep_record *skep_peers_find_keeper(struct skep_peers *peers,
                                                 const struct skep_peer_id *keeper);

/* A keeper that failed (5 s) or lied (10 min) is not asked for a while. */
void skep_peers_set_aside(struct skep_peers *peers, const struct skep_peer_id *keeper, bool lied);
bool skep_peers_is_aside(struct skep_peers *peers, const struct skep_peer_id *keeper);

#endif
