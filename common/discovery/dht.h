/*
 * The BitTorrent DHT as a directory (libtorrent-rasterbar; the only C++ of the project is behind this face). One session, DHT
 * only: no torrents, no incoming BitTorrent connections, no local discovery.
 *
 * libtorrent also opens a TCP port of the number of its UDP port and closes whatever connects to it, so the DHT cannot have the
 * number of a TCP server on the same address: it then takes the next free one (see skep_dht_port()).
 *
 * A private swarm names its own bootstrap nodes (or none, for the first) and never touches the public network. Loopback addresses
 * switch on what tests on one machine need: no address restrictions in routing and search, no rate limit. Private IPv4 addresses
 * (10/8, 172.16/12, 192.168/16) lift the address restrictions only, for neighbours share one network there.
 */
#ifndef SKEP_DISCOVERY_DHT_H
#define SKEP_DISCOVERY_DHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/discovery/directory.h"
#include "common/sys/loop.h"

struct skep_dht_options {
    const char *host;       /* numeric address to bind */
    uint16_t port;          /* UDP; 0: any */
    const char *bootstrap;  /* "host:port" list with commas, names allowed; NULL or "": none */
    bool read_only;         /* BEP 43: a donor asks and never answers */
    bool map_ports;         /* UPnP and NAT-PMP; announced TCP ports too */
    const char *state_path; /* routing table kept here between runs; NULL: not kept */
};

/* Returns when the UDP socket is open, usually within milliseconds. SKEP_ERR_IN_USE if the port is taken, SKEP_ERR_ARGUMENT for a
 * host that is not numeric or a bootstrap node without a port, SKEP_ERR_IO. A broken state file is logged and replaced. Found
 * callbacks come on the loop's thread. Close it before the loop. */
int skep_dht_open(struct skep_loop *loop, const struct skep_dht_options *options,
                  struct skep_directory **ret_directory, struct skep_error *err);
uint16_t skep_dht_port(const struct skep_directory *directory);

#endif
