/*
 * The directory: who serves a key, answered with addresses only. Two implementations: the BitTorrent DHT (BEP 5, through
 * libtorrent-rasterbar) and a table in memory for tests and simulations. Answers are hints: any of them may be gone or lie; the
 * signed record that the address then shows is what counts.
 *
 * Keys: SHA-1 over "skep" and the parts, NUL-separated; the project is its 64 hexadecimal digits. Project -> its keepers; project +
 * shard -> keepers of the shard; project + `ffn.<layer>.<row>` -> keepers of live experts below that prefix.
 */
#ifndef SKEP_DISCOVERY_DIRECTORY_H
#define SKEP_DISCOVERY_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/sys/loop.h"

#define SKEP_ADDRESS_TEXT_SIZE 64

struct skep_address {
    char host[SKEP_ADDRESS_TEXT_SIZE]; /* numeric */
    uint16_t port;
};

struct skep_directory_key {
    uint8_t bytes[20];
};

/* `part` may be NULL (the project itself), "trunk", "ffn.0.1.2", or a prefix "ffn.0.1". */
struct skep_directory_key skep_directory_key_of(const struct skep_project_id *project,
                                                const char *part);

/* "1.2.3.4:56" or "[::1]:56"; false if it is not numeric address and port (1 to 65535). `host` comes out in its one usual
 * spelling, without brackets, so that addresses can be compared as text. */
bool skep_address_parse(const char *text, struct skep_address *ret_address);

struct skep_directory;

/* May be called several times as answers come, with what came; `finished` with the last call. Addresses are borrowed. Each
 * address comes once in a look-up. The callback may announce and look up, but must not close the directory that calls it. */
typedef void (*skep_directory_found)(void *user, const struct skep_address *addresses, size_t count,
                                     bool finished);

/* Announces that this process serves `key` on TCP `port`, now and again every few minutes until closed. */
void skep_directory_announce(struct skep_directory *directory, const struct skep_directory_key *key,
                             uint16_t port);
/* The table in memory answers before this returns. The DHT answers later, from the loop, and says `finished` 2 s after the
 * beginning whatever came: libtorrent reports answers, never an end. Closing calls nobody back: what was not finished then
 * never is. */
void skep_directory_look_up(struct skep_directory *directory, const struct skep_directory_key *key,
                            skep_directory_found found, void *user);
/* Nodes known in the routing table (0 while alone). */
size_t skep_directory_nodes(const struct skep_directory *directory);
/* NULL is allowed. */
void skep_directory_close(struct skep_directory *directory);

/* A table shared by all directories made from it; `host` is this process's address in it. What a directory announced goes with it,
 * and the table outlives its directories. */
struct skep_directory_table;
struct skep_directory_table *skep_directory_table_new(void);
void skep_directory_table_free(struct skep_directory_table *table);
struct skep_directory *skep_directory_memory(struct skep_directory_table *table, const char *host);

#endif
