#include "client/network/heads.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"

int skep_heads_init(struct skep_heads *heads, const struct skep_manifest *manifest,
                    struct skep_error *err)
{
    size_t count = skep_manifest_shard_count(manifest);
    struct skep_head *table = calloc(count, sizeof *table);
    if (table == NULL) {
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory for the heads of %zu shards", count);
    }
    heads->count = count;
    heads->heads = table;
    return 0;
}

void skep_heads_done(struct skep_heads *heads)
{
    free(heads->heads);
    *heads = (struct skep_heads){0};
}

void skep_heads_clear(struct skep_heads *heads)
{
    memset(heads->heads, 0, heads->count * sizeof *heads->heads);
}

size_t skep_heads_keeper_place(const struct skep_manifest *manifest,
                               const struct skep_peer_id *keeper)
{
    for (size_t i = 0; i < manifest->keeper_count && i < SKEP_LIMIT_KEEPERS; i++) {
        if (skep_peer_id_equal(&manifest->keepers[i], keeper)) {
            return i;
        }
    }
    return SIZE_MAX;
}

static void note(struct skep_head *head, const struct skep_head *said, size_t place)
{
    uint64_t bit = (uint64_t)1 << place;
    if (!head->known || said->version > head->version) {
        *head = *said;
        head->known = true;
        head->holders = bit;
    } else if (said->version == head->version) {
        head->holders |= bit;
    } else {
        head->holders &= ~bit;
    }
}

static int read_head(const char *name, const struct skep_json *value, struct skep_head *ret_head,
                     struct skep_error *err)
{
    int64_t version = 0;
    int rc = skep_json_get_integer(value, name, "version", 0, INT64_MAX, &version, err);
    if (rc == 0) {
        rc = skep_json_get_hex(value, name, "root", ret_head->root.bytes, SKEP_ID_SIZE, err);
    }
    if (rc == 0) {
        rc = skep_json_get_hex(value, name, "payload", ret_head->payload.bytes, SKEP_ID_SIZE, err);
    }
    ret_head->version = (uint64_t)version;
    return rc;
}

int skep_heads_read(struct skep_heads *heads, const struct skep_manifest *manifest,
                    const struct skep_peer_id *keeper, const struct skep_json *answer,
                    struct skep_error *err)
{
    size_t place = skep_heads_keeper_place(manifest, keeper);
    if (place == SIZE_MAX) {
        return skep_error_set(err, SKEP_ERR_REFUSED, "keeper %.8s is not named by the manifest",
                              skep_id_text(keeper->bytes));
    }
    const struct skep_json *shards = NULL;
    int rc = skep_json_get_object(answer, "head", "shards", &shards, err);
    const struct skep_json *value = NULL;
    for (const char *name = rc == 0 ? skep_json_next(shards, NULL, &value) : NULL; name != NULL;
         name = skep_json_next(shards, name, &value)) {
        struct skep_shard shard;
        struct skep_head said = {0};
        size_t index =
            skep_shard_parse(name, &shard) ? skep_manifest_shard_index(manifest, &shard) : SIZE_MAX;
        if (index >= heads->count) {
            return skep_error_set(err, SKEP_ERR_FORMAT,
                                  "head: shard \"%.40s\" is not in this model", name);
        }
        rc = read_head(name, value, &said, err);
        if (rc != 0) {
            return rc;
        }
        note(&heads->heads[index], &said, place);
    }
    return rc;
}
