/* Data chunks, named by their hash. */
#include "common/base/limits.h"
#include "common/crypto/hash.h"
#include "server/api/api.h"
#include "server/api/reply.h"

SKEP_API_HANDLER(skep_api_get_blob)
{
    struct skep_host *host = user;
    struct skep_hash hash;
    struct skep_buffer data = {0};
    int result = skep_api_hash("the blob", parts->text[0], &hash, err);
    if (result == SKEP_OK) {
        result = skep_blobs_get(host->blobs, &hash, &data, err);
    }
    if (result == SKEP_OK) {
        skep_http_reply_ranged(exchange, data.data, data.size, reply);
        if (reply->status != 416) {
            reply->content_type = "application/octet-stream";
        }
    }
    skep_buffer_done(&data);
    return result;
}

SKEP_API_HANDLER(skep_api_put_blob)
{
    struct skep_host *host = user;
    struct skep_hash hash;
    int result = skep_api_hash("the blob", parts->text[0], &hash, err);
    if (result != SKEP_OK) {
        return result;
    }
    if (exchange->body_size > SKEP_LIMIT_CHUNK_BYTES) {
        return skep_error_set(err, SKEP_ERR_TOO_LARGE,
                              "the chunk has %zu bytes; at most %u are allowed",
                              exchange->body_size, SKEP_LIMIT_CHUNK_BYTES);
    }
    bool named = false;
    bool held = true;
    for (size_t i = 0; i < host->project_count; i++) {
        struct skep_data_chunk *chunk = skep_project_chunk(host->projects[i], &hash);
        named = named || chunk != NULL;
        held = held && (chunk == NULL || chunk->held);
    }
    if (!named) {
        return skep_error_set(err, SKEP_ERR_REFUSED,
                              "no manifest that this keeper holds names the chunk %s",
                              parts->text[0]);
    }
    struct skep_hash found = skep_hash_of(exchange->body, exchange->body_size);
    if (!skep_hash_equal(&found, &hash)) {
        return skep_error_set(err, SKEP_ERR_HASH, "the chunk %s came as bytes with SHA-256 %s",
                              parts->text[0], skep_id_text(found.bytes));
    }
    if (!held) {
        result = skep_blobs_put(host->blobs, exchange->body, exchange->body_size, &hash, NULL, err);
    }
    for (size_t i = 0; i < host->project_count && result == SKEP_OK; i++) {
        struct skep_data_chunk *chunk = skep_project_chunk(host->projects[i], &hash);
        if (chunk != NULL) {
            skep_project_chunk_stored(host->projects[i], chunk);
        }
    }
    if (result == SKEP_OK) {
        struct skep_json *root = skep_json_object_new();
        skep_json_set_hex(root, "blob", hash.bytes, SKEP_ID_SIZE);
        skep_reply_json(reply, held ? 200 : 201, root);
    }
    return result;
}
