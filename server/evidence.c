#include "server/evidence.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/swarm/history.h"
#include "common/sys/file.h"

struct item {
    struct item *next; /* used less lately */
    struct skep_hash history;
    uint64_t bytes;
};

struct skep_evidence {
    char *folder;
    uint64_t limit_bytes;
    uint64_t bytes;
    skep_evidence_wanted *wanted;
    void *user;
    struct item *items;
};

static char *path_of(const struct skep_evidence *evidence, const struct skep_hash *history)
{
    return skep_format("%s/%s", evidence->folder, skep_id_text(history->bytes));
}

/* The link that leads to the item, or to the end. */
static struct item **find(struct skep_evidence *evidence, const struct skep_hash *history)
{
    struct item **at = &evidence->items;
    while (*at != NULL && !skep_hash_equal(&(*at)->history, history)) {
        at = &(*at)->next;
    }
    return at;
}

static void push(struct skep_evidence *evidence, const struct skep_hash *history, uint64_t bytes)
{
    struct item *item = skep_alloc(1, sizeof *item);
    *item = (struct item){.next = evidence->items, .history = *history, .bytes = bytes};
    evidence->items = item;
    evidence->bytes += bytes;
}

static void drop(struct skep_evidence *evidence, struct item **at)
{
    struct item *item = *at;
    char *path = path_of(evidence, &item->history);
    (void)unlink(path);
    free(path);
    *at = item->next;
    evidence->bytes -= item->bytes;
    free(item);
}

/* What may have to go. */
struct census {
    struct item **unwanted; /* the last in the list that nobody wants, or NULL, */
    struct item **fresh;    /* that only jobs on probation want, */
    uint64_t fresh_bytes;   /* and so much of that is here */
};

static struct census count(struct skep_evidence *evidence)
{
    struct census census = {0};
    for (struct item **at = &evidence->items; *at != NULL; at = &(*at)->next) {
        enum skep_evidence_want want = evidence->wanted(evidence->user, &(*at)->history);
        if (want == SKEP_EVIDENCE_UNWANTED) {
            census.unwanted = at;
        } else if (want == SKEP_EVIDENCE_PROBATION) {
            census.fresh = at;
            census.fresh_bytes += (*at)->bytes;
        }
    }
    return census;
}

static int make_room(struct skep_evidence *evidence, const struct skep_hash *history,
                     uint64_t bytes, struct skep_error *err)
{
    const uint64_t half = evidence->limit_bytes / 2;
    if (evidence->bytes + bytes > half &&
        evidence->wanted(evidence->user, history) == SKEP_EVIDENCE_PROBATION) {
        struct census census = count(evidence);
        if (census.fresh_bytes + bytes > half) {
            return skep_error_set(err, SKEP_ERR_FULL,
                                  "a history of %" PRIu64 " bytes does not fit: %" PRIu64
                                  " of %" PRIu64 " bytes for donors on probation are taken",
                                  bytes, census.fresh_bytes, half);
        }
    }
    while (evidence->bytes + bytes > evidence->limit_bytes) {
        struct census census = count(evidence);
        struct item **at = census.unwanted;
        if (at == NULL && census.fresh_bytes > half) {
            at = census.fresh;
        }
        if (at == NULL) {
            return skep_error_set(err, SKEP_ERR_FULL,
                                  "a history of %" PRIu64 " bytes does not fit: %" PRIu64
                                  " of %" PRIu64 " bytes are taken by others that are wanted",
                                  bytes, evidence->bytes, evidence->limit_bytes);
        }
        drop(evidence, at);
    }
    return SKEP_OK;
}

static void take_up(void *user, const char *name)
{
    struct skep_evidence *evidence = user;
    struct skep_hash history;
    char *path = skep_format("%s/%s", evidence->folder, name);
    int64_t size = skep_file_size(path);
    if (size >= 0 && skep_hex_decode(name, history.bytes, sizeof history.bytes)) {
        push(evidence, &history, (uint64_t)size);
    } else {
        (void)unlink(path);
    }
    free(path);
}

int skep_evidence_open(const char *folder, uint64_t limit_bytes, skep_evidence_wanted *wanted,
                       void *user, struct skep_evidence **ret_evidence, struct skep_error *err)
{
    struct skep_evidence *evidence = skep_alloc(1, sizeof *evidence);
    evidence->folder = skep_strdup(folder);
    evidence->limit_bytes = limit_bytes;
    evidence->wanted = wanted;
    evidence->user = user;
    int result = skep_folder_make(folder, err);
    if (result == SKEP_OK) {
        result = skep_folder_list(folder, take_up, evidence, err);
    }
    if (result != SKEP_OK) {
        skep_evidence_close(evidence);
        return result;
    }
    *ret_evidence = evidence;
    return SKEP_OK;
}

void skep_evidence_close(struct skep_evidence *evidence)
{
    if (evidence == NULL) {
        return;
    }
    while (evidence->items != NULL) {
        struct item *item = evidence->items;
        evidence->items = item->next;
        free(item);
    }
    free(evidence->folder);
    free(evidence);
}

uint64_t skep_evidence_size(const struct skep_evidence *evidence, const struct skep_hash *history)
{
    for (const struct item *item = evidence->items; item != NULL; item = item->next) {
        if (skep_hash_equal(&item->history, history)) {
            return item->bytes;
        }
    }
    return 0;
}

bool skep_evidence_has(const struct skep_evidence *evidence, const struct skep_hash *history)
{
    return skep_evidence_size(evidence, history) != 0;
}

int skep_evidence_put(struct skep_evidence *evidence, const struct skep_hash *history,
                      size_t parameters, const void *data, size_t size, struct skep_error *err)
{
    struct skep_history found;
    int result = skep_history_open(data, size, parameters, &found, err);
    if (result == SKEP_OK && !skep_hash_equal(&found.hash, history)) {
        result = skep_error_set(err, SKEP_ERR_HASH, "it is history %.16s, not %.16s",
                                skep_id_text(found.hash.bytes), skep_id_text(history->bytes));
    }
    if (result != SKEP_OK || skep_evidence_has(evidence, history)) {
        return result;
    }
    result = make_room(evidence, history, size, err);
    if (result == SKEP_OK) {
        char *path = path_of(evidence, history);
        result = skep_file_write(path, 0600, data, size, err);
        free(path);
    }
    if (result == SKEP_OK) {
        push(evidence, history, size);
    }
    return result;
}

/* Are these bytes still what was shown, of however many parameters? A donor must not pay for what our disk has changed. */
static int check_bytes(const struct skep_hash *history, const struct skep_buffer *data,
                       struct skep_error *err)
{
    struct skep_history found;
    struct skep_error why = {0};
    uint64_t frames = skep_history_bytes(0);
    uint64_t each = skep_history_bytes(1) - frames;
    size_t parameters = data->size > frames ? (size_t)((data->size - frames) / each) : 0;
    if (skep_history_open(data->data, data->size, parameters, &found, &why) == SKEP_OK &&
        skep_hash_equal(&found.hash, history)) {
        return SKEP_OK;
    }
    return skep_error_set(err, SKEP_ERR_HASH, "history %.16s is not what was shown any more%s%s",
                          skep_id_text(history->bytes), why.text[0] != '\0' ? ": " : "", why.text);
}

int skep_evidence_get(struct skep_evidence *evidence, const struct skep_hash *history,
                      struct skep_buffer *ret_data, struct skep_error *err)
{
    struct item **at = find(evidence, history);
    if (*at == NULL) {
        return skep_error_set(err, SKEP_ERR_NOT_FOUND, "history %.16s is not here",
                              skep_id_text(history->bytes));
    }
    struct item *item = *at;
    char *path = path_of(evidence, history);
    int result = skep_file_read(path, SKEP_LIMIT_STATE_BYTES, ret_data, err);
    free(path);
    if (result == SKEP_OK) {
        result = check_bytes(history, ret_data, err);
    }
    if (result != SKEP_OK) {
        skep_buffer_done(ret_data);
        drop(evidence, at); /* it is asked for again */
        return result;
    }
    *at = item->next;
    item->next = evidence->items;
    evidence->items = item;
    return SKEP_OK;
}

uint64_t skep_evidence_bytes(const struct skep_evidence *evidence)
{
    return evidence->bytes;
}
