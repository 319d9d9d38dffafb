#include "server/outbox.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "server/agreement.h"
#include "server/host.h"
#include "server/peers.h"
#include "server/project.h"

#define POST_TIMEOUT_MS 5000
#define POSTS_AT_ONCE 2u /* to one keeper: a dead one must not collect requests */
#define POST_BYTES (8u << 20)

/* One keeper's. `body` is the opened JSON text, or empty. */
struct lane {
    const struct skep_project *project;
    struct skep_peer_id keeper;
    struct skep_buffer body;
    size_t count;
    unsigned posts;
};

/* Lanes are kept as long as the outbox; `lanes` holds pointers because posts under way hold them too. */
struct skep_outbox {
    struct skep_host *host;
    struct skep_timer *timer;
    bool armed;
    size_t lane_count;
    struct lane **lanes;
};

static void flush(void *user);

struct skep_outbox *skep_outbox_new(struct skep_host *host)
{
    struct skep_outbox *outbox = skep_alloc(1, sizeof *outbox);
    outbox->host = host;
    outbox->timer = skep_timer_new(host->loop, flush, outbox);
    return outbox;
}

void skep_outbox_free(struct skep_outbox *outbox)
{
    if (outbox == NULL) {
        return;
    }
    skep_timer_free(outbox->timer);
    for (size_t i = 0; i < outbox->lane_count; i++) {
        skep_buffer_done(&outbox->lanes[i]->body);
        free(outbox->lanes[i]);
    }
    free(outbox->lanes);
    free(outbox);
}

static void on_posted(void *user, int result, const struct skep_http_answer *answer,
                      const struct skep_error *err)
{
    struct lane *lane = user;
    lane->posts--;
    if (result != SKEP_OK && result != SKEP_ERR_CANCELLED) {
        skep_log(SKEP_LOG_DEBUG, "messages to keeper %.12s: %s", skep_id_text(lane->keeper.bytes),
                 err != NULL ? err->text : "no answer");
    } else if (result == SKEP_OK && answer->status != 200) {
        skep_log(SKEP_LOG_DEBUG, "messages to keeper %.12s: status %d",
                 skep_id_text(lane->keeper.bytes), answer->status);
    }
}

static void post(struct skep_outbox *outbox, struct lane *lane)
{
    const struct skep_record *record = skep_peers_find(outbox->host->peers, &lane->keeper);
    if (record != NULL && lane->posts < POSTS_AT_ONCE) {
        char path[64 + SKEP_ID_TEXT_SIZE];
        snprintf(path, sizeof path, "/v1/projects/%s/messages",
                 skep_id_text(lane->project->manifest.project.bytes));
        skep_buffer_append_text(&lane->body, "]}");
        struct skep_http_request request = {.method = "POST",
                                            .path = path,
                                            .body = lane->body.data,
                                            .body_size = lane->body.size,
                                            .timeout_ms = POST_TIMEOUT_MS};
        lane->posts++;
        skep_peers_send(outbox->host->peers, record, &request, on_posted, lane);
    }
    skep_buffer_done(&lane->body);
    lane->body = (struct skep_buffer){0};
    lane->count = 0;
}

static void flush(void *user)
{
    struct skep_outbox *outbox = user;
    outbox->armed = false;
    for (size_t i = 0; i < outbox->lane_count; i++) {
        if (outbox->lanes[i]->count > 0) {
            post(outbox, outbox->lanes[i]);
        }
    }
}

static struct lane *lane_of(struct skep_outbox *outbox, const struct skep_project *project,
                            const struct skep_peer_id *keeper)
{
    for (size_t i = 0; i < outbox->lane_count; i++) {
        struct lane *lane = outbox->lanes[i];
        if (lane->project == project && skep_peer_id_equal(&lane->keeper, keeper)) {
            return lane;
        }
    }
    struct lane *lane = skep_alloc(1, sizeof *lane);
    lane->project = project;
    lane->keeper = *keeper;
    outbox->lanes = skep_realloc(outbox->lanes, outbox->lane_count + 1, sizeof(struct lane *));
    outbox->lanes[outbox->lane_count++] = lane;
    return lane;
}

void skep_outbox_push(struct skep_outbox *outbox, const struct skep_project *project,
                      const struct skep_peer_id *keeper, const char *envelope)
{
    struct lane *lane = lane_of(outbox, project, keeper);
    size_t size = strlen(envelope);
    if (lane->count == SKEP_LIMIT_MESSAGES || lane->body.size + size > POST_BYTES) {
        post(outbox, lane);
    }
    skep_buffer_append_text(&lane->body, lane->count == 0 ? "{\"messages\":[" : ",");
    skep_buffer_append(&lane->body, envelope, size);
    lane->count++;
    if (!outbox->armed) {
        outbox->armed = true;
        skep_timer_start(outbox->timer, SKEP_OUTBOX_MS, 0);
    }
}
