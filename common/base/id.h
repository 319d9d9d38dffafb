/*
 * Names of things: 32-byte identities wrapped so that they cannot be confused, and shard names.
 *
 * A peer or project is named by its Ed25519 public key, bytes by their SHA-256. In text all of them are 64 lower-case
 * hexadecimal digits. A shard is the trunk or one expert; its text is `trunk` or `ffn.<layer>.<row>.<column>`, decimal
 * without leading zeros.
 */
#ifndef SKEP_BASE_ID_H
#define SKEP_BASE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SKEP_ID_SIZE 32
#define SKEP_ID_TEXT_SIZE 65 /* with the closing zero */
#define SKEP_SHARD_TEXT_SIZE 40

struct skep_hash {
    uint8_t bytes[SKEP_ID_SIZE];
};

/* A keeper's or donor's Ed25519 public key. */
struct skep_peer_id {
    uint8_t bytes[SKEP_ID_SIZE];
};

/* The admin's Ed25519 public key, which names the project. */
struct skep_project_id {
    uint8_t bytes[SKEP_ID_SIZE];
};

enum skep_shard_kind {
    SKEP_SHARD_TRUNK,
    SKEP_SHARD_FFN,
};

/* layer, row and column are 0 for the trunk. */
struct skep_shard {
    enum skep_shard_kind kind;
    uint16_t layer;
    uint16_t row;
    uint16_t column;
};

bool skep_hash_equal(const struct skep_hash *a, const struct skep_hash *b);
/* Order of the bytes, as memcmp: the order in which updates are merged and keepers propose. */
int skep_hash_compare(const struct skep_hash *a, const struct skep_hash *b);
bool skep_peer_id_equal(const struct skep_peer_id *a, const struct skep_peer_id *b);

/* Text of 32 bytes in a static-lifetime ring of 8 buffers: for messages only. */
const char *skep_id_text(const uint8_t bytes[SKEP_ID_SIZE]);

bool skep_shard_equal(const struct skep_shard *a, const struct skep_shard *b);
void skep_shard_format(const struct skep_shard *shard, char to[SKEP_SHARD_TEXT_SIZE]);
/* Exactly the canonical text; false otherwise, *ret_shard untouched. */
bool skep_shard_parse(const char *text, struct skep_shard *ret_shard);

#endif
