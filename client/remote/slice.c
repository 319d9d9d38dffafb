#include "client/remote/slice.h"

#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/model/layout.h"
#include "common/swarm/ticket.h"
#include "common/sys/file.h"

struct skep_remote_slice *skep_remote_slice_draw(const struct skep_session *session,
                                                 const struct skep_peer_id *donor)
{
    const struct skep_manifest *manifest = &session->manifest;
    const struct skep_sealed *trunk = &session->sealed[0];
    struct skep_remote_slice *slice = skep_alloc(1, sizeof *slice);
    atomic_init(&slice->users, 1);
    atomic_init(&slice->batches, 0);
    slice->version = trunk->version;
    slice->root = trunk->root;
    slice->ticket = skep_ticket_of(&trunk->payload, donor, trunk->version);
    slice->places = skep_alloc((size_t)manifest->training.slice_chunks + 1, sizeof(size_t));
    slice->count = skep_ticket_slice(&slice->ticket, manifest->train.chunk_count,
                                     manifest->training.slice_chunks, slice->places);
    slice->texts = skep_alloc(slice->count + 1, sizeof *slice->texts);
    slice->chunks = skep_alloc(slice->count + 1, sizeof *slice->chunks);
    return slice;
}

static int read_trunk(struct skep_remote_slice *slice, const struct skep_session *session,
                      struct skep_error *err)
{
    const struct skep_shard trunk = {.kind = SKEP_SHARD_TRUNK};
    struct skep_layout layout = {0};
    struct skep_buffer file = {0};
    char *path = skep_session_state_path(session, 0);
    skep_layout_of(&session->manifest.model, &trunk, &layout);
    slice->trunk = calloc(layout.parameters, sizeof *slice->trunk);
    int rc = slice->trunk != NULL
                 ? skep_file_read(path, SKEP_LIMIT_STATE_BYTES, &file, err)
                 : skep_error_set(err, SKEP_ERR_MEMORY, "no memory for a trunk of %zu parameters",
                                  layout.parameters);
    if (rc == SKEP_OK) {
        rc = skep_state_read(&layout, file.data, file.size, slice->trunk, err);
    }
    skep_buffer_done(&file);
    skep_layout_done(&layout);
    free(path);
    return rc;
}

int skep_remote_slice_fill(struct skep_remote_slice *slice, struct skep_session *session,
                           struct skep_error *err)
{
    int rc = read_trunk(slice, session, err);
    for (size_t i = 0; rc == SKEP_OK && i < slice->count; i++) {
        rc = skep_blobs_get(session->blobs, &session->manifest.train.chunks[slice->places[i]],
                            &slice->texts[i], err);
        slice->chunks[i] = (struct skep_slice_chunk){slice->texts[i].data, slice->texts[i].size};
    }
    return rc;
}

void skep_remote_slice_hold(struct skep_remote_slice *slice)
{
    atomic_fetch_add(&slice->users, 1);
}

void skep_remote_slice_release(struct skep_remote_slice *slice)
{
    if (slice == NULL || atomic_fetch_sub(&slice->users, 1) > 1) {
        return;
    }
    for (size_t i = 0; i < slice->count; i++) {
        skep_buffer_done(&slice->texts[i]);
    }
    free(slice->texts);
    free(slice->chunks);
    free(slice->places);
    free(slice->trunk);
    free(slice);
}

int skep_remote_slice_batch(struct skep_remote_slice *slice, const struct skep_model_config *config,
                            uint32_t batch, uint8_t *ret_windows, struct skep_error *err)
{
    uint32_t number = atomic_fetch_add(&slice->batches, 1);
    return skep_slice_batch(config, slice->chunks, slice->count, &slice->ticket, number, batch,
                            ret_windows, err);
}
