/*
 * The other keepers: the table of their signed records, how they are found and kept fresh, and requests to them.
 *
 * Found by --peer, by the DHT (project keys) and by gossip. A bare address is asked for its record without a pin (first contact);
 * the record's signature is checked and from then on only its pinned key is accepted there. Every SKEP_GOSSIP_MS the records
 * known, our own among them, go to some of the known keepers. Our own record is renewed well before it expires.
 */
#ifndef SKEP_SERVER_PEERS_H
#define SKEP_SERVER_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/sys/http-client.h"
#include "common/wire/envelope.h"
#include "common/wire/statements.h"

#define SKEP_GOSSIP_MS 5000
#define SKEP_GOSSIP_FANOUT 8u

struct skep_host;
struct skep_peers;
struct skep_project;
struct skep_project_key;

struct skep_peers *skep_peers_new(struct skep_host *host);
void skep_peers_free(struct skep_peers *peers);
/* Signs the first record and starts gossip and look-ups: once the port is known. */
void skep_peers_start(struct skep_peers *peers);
/* Our record changed (a project came): signs a new one, announces the project's keys, looks for its keepers. */
void skep_peers_serve(struct skep_peers *peers, struct skep_project *project);
/* Tells the known keepers that this one leaves; stops the loop when they answered or after a second. */
void skep_peers_leave(struct skep_peers *peers);

/* Our own record, borrowed. */
const struct skep_envelope *skep_peers_own(const struct skep_peers *peers);
/* A record somebody handed us. *ret_new tells whether it was news. */
int skep_peers_add(struct skep_peers *peers, const struct skep_envelope *envelope, bool *ret_new,
                   struct skep_error *err);
/* Live records of others, in order of keeper id. */
size_t skep_peers_count(const struct skep_peers *peers);
const struct skep_record *skep_peers_at(const struct skep_peers *peers, size_t i);
const struct skep_envelope *skep_peers_envelope_at(const struct skep_peers *peers, size_t i);
/* NULL if there is no live record of this keeper. */
const struct skep_record *skep_peers_find(const struct skep_peers *peers,
                                          const struct skep_peer_id *keeper);

/* A live keeper of the project other than this one, by place (0 .. n-1, wrapped); NULL if there is none. */
const struct skep_record *skep_peers_of(const struct skep_peers *peers,
                                        const struct skep_project *project, size_t place);

/* Sends a request to the keeper of `record`, pinned to its key: host, port and pin of `request` are filled in. */
void skep_peers_send(struct skep_peers *peers, const struct skep_record *record,
                     struct skep_http_request *request, skep_http_callback callback, void *user);

#endif
