/* Which windows of a slice a step trains on: a function of the ticket. */
#include <string.h>

#include "common/base/rng.h"
#include "common/model/train.h"

/* Places where a window may begin: anywhere in a text, at every record of a classifier's. */
static uint64_t starts_in(const struct skep_model_config *config,
                          const struct skep_slice_chunk *chunk)
{
    size_t window = skep_model_config_window(config);
    if (config->kind == SKEP_MODEL_CLASSIFIER) {
        return chunk->size / window;
    }
    return chunk->size < window ? 0 : chunk->size - window + 1;
}

/* Place number `start` among all; it is there. */
static const uint8_t *window_at(const struct skep_model_config *config,
                                const struct skep_slice_chunk *chunks, uint64_t start)
{
    size_t step = config->kind == SKEP_MODEL_CLASSIFIER ? skep_model_config_window(config) : 1;
    size_t i = 0;
    while (start >= starts_in(config, &chunks[i])) {
        start -= starts_in(config, &chunks[i++]);
    }
    return chunks[i].data + start * step;
}

static int check_chunk(const struct skep_model_config *config, const struct skep_slice_chunk *chunk,
                       size_t i, struct skep_error *err)
{
    size_t window = skep_model_config_window(config);
    if (config->kind == SKEP_MODEL_CLASSIFIER && chunk->size % window != 0) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "chunk %zu of the slice has %zu bytes, expected whole records of %zu",
                              i, chunk->size, window);
    }
    return SKEP_OK;
}

static int check_class(const struct skep_model_config *config, const uint8_t *record,
                       struct skep_error *err)
{
    if (config->kind == SKEP_MODEL_CLASSIFIER && record[config->inputs] >= config->classes) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "a record of the slice has class %u, expected one below %u",
                              record[config->inputs], config->classes);
    }
    return SKEP_OK;
}

int skep_slice_batch(const struct skep_model_config *config, const struct skep_slice_chunk *chunks,
                     size_t chunk_count, const struct skep_hash *ticket, uint32_t step,
                     uint32_t batch, uint8_t *ret_windows, struct skep_error *err)
{
    size_t window = skep_model_config_window(config);
    uint64_t starts = 0;
    int rc = SKEP_OK;
    for (size_t i = 0; i < chunk_count && rc == SKEP_OK; i++) {
        rc = check_chunk(config, &chunks[i], i, err);
        starts += starts_in(config, &chunks[i]);
    }
    if (rc == SKEP_OK && starts == 0) {
        rc = skep_error_set(err, SKEP_ERR_FORMAT,
                            "none of the slice's %zu chunks holds one window of %zu bytes",
                            chunk_count, window);
    }
    uint8_t source[SKEP_ID_SIZE + 4];
    memcpy(source, ticket->bytes, SKEP_ID_SIZE);
    skep_put_u32(source + SKEP_ID_SIZE, step);
    struct skep_rng rng = skep_rng_of_bytes(source, sizeof source);
    for (uint32_t b = 0; b < batch && rc == SKEP_OK; b++) {
        const uint8_t *from = window_at(config, chunks, skep_rng_below(&rng, starts));
        rc = check_class(config, from, err);
        memcpy(ret_windows + (size_t)b * window, from, window);
    }
    return rc;
}
