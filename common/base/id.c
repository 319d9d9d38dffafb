#include "common/base/id.h"

#include <stdio.h>
#include <string.h>

#include "common/base/bytes.h"

bool skep_hash_equal(const struct skep_hash *a, const struct skep_hash *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

int skep_hash_compare(const struct skep_hash *a, const struct skep_hash *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

bool skep_peer_id_equal(const struct skep_peer_id *a, const struct skep_peer_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

const char *skep_id_text(const uint8_t bytes[SKEP_ID_SIZE])
{
    static _Thread_local char ring[8][SKEP_ID_TEXT_SIZE];
    static _Thread_local unsigned next;
    char *text = ring[next++ % 8];
    skep_hex_encode(bytes, SKEP_ID_SIZE, text);
    return text;
}

bool skep_shard_equal(const struct skep_shard *a, const struct skep_shard *b)
{
    return a->kind == b->kind && a->layer == b->layer && a->row == b->row && a->column == b->column;
}

void skep_shard_format(const struct skep_shard *shard, char to[SKEP_SHARD_TEXT_SIZE])
{
    if (shard->kind == SKEP_SHARD_TRUNK) {
        snprintf(to, SKEP_SHARD_TEXT_SIZE, "trunk");
    } else {
        snprintf(to, SKEP_SHARD_TEXT_SIZE, "ffn.%u.%u.%u", shard->layer, shard->row, shard->column);
    }
}

/* One decimal number below 65536 without leading zeros, moving *text past it. */
static bool parse_number(const char **text, uint16_t *ret_value)
{
    const char *at = *text;
    if (*at < '0' || *at > '9' || (at[0] == '0' && at[1] >= '0' && at[1] <= '9')) {
        return false;
    }
    uint32_t value = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (uint32_t)(*at - '0');
        if (value > UINT16_MAX) {
            return false;
        }
    }
    *text = at;
    *ret_value = (uint16_t)value;
    return true;
}

bool skep_shard_parse(const char *text, struct skep_shard *ret_shard)
{
    if (strcmp(text, "trunk") == 0) {
        *ret_shard = (struct skep_shard){.kind = SKEP_SHARD_TRUNK};
        return true;
    }
    struct skep_shard shard = {.kind = SKEP_SHARD_FFN};
    if (strncmp(text, "ffn.", 4) != 0) {
        return false;
    }
    text += 4;
    if (!parse_number(&text, &shard.layer) || *text++ != '.' || !parse_number(&text, &shard.row) ||
        *text++ != '.' || !parse_number(&text, &shard.column) || *text != '\0') {
        return false;
    }
    *ret_shard = shard;
    return true;
}
