/*
 * Fetching one file by its chunk list from several replicas at once.
 *
 * Each source gets one run of neighbouring missing chunks at a time, with a range request. Every chunk is checked against its hash
 * as it comes and written at its place into PATH.part, so a fetch that stops for any reason goes on from there: the next one
 * reads the part file, keeps what checks and asks for the rest. A source that fails is set aside for this fetch, also in the
 * middle of a transfer (whole chunks that had come are kept); one that sends wrong bytes is reported as a liar. When all chunks
 * are there PATH.part becomes PATH. Fails only when every source has been set aside.
 */
#ifndef SKEP_CLIENT_NETWORK_FETCH_H
#define SKEP_CLIENT_NETWORK_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/network/transport.h"
#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/limits.h"
#include "common/wire/chunks.h"
#include "common/wire/statements.h"

struct skep_fetch_source {
    struct skep_peer_id keeper;
    char host[SKEP_HOST_TEXT_SIZE];
    uint16_t port;
    struct skep_hash pin;
};

struct skep_fetch_options {
    const struct skep_chunks *chunks;        /* copied */
    const char *path;                        /* of the whole file; copied */
    const char *url_path;                    /* on every source; copied */
    const struct skep_fetch_source *sources; /* copied; at most SKEP_LIMIT_KEEPERS */
    size_t source_count;
    /* Told of each source set aside; may be NULL. */
    void (*on_aside)(void *user, const struct skep_peer_id *keeper, bool lied);
    /* Called once, when nothing is in flight any more. */
    void (*on_done)(void *user, int result, const struct skep_error *err);
    void *user;
};

/* Starts; on_done may come before this returns. `transport` is borrowed until on_done. */
void skep_fetch_start(const struct skep_transport *transport,
                      const struct skep_fetch_options *options);

#endif
