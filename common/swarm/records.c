#include "common/swarm/records.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/swarm/statement.h"

/* A record promises to live for SKEP_RECORD_LIFETIME_S; this much more is put down to clocks that differ. Without an end a
 * keeper could fill the table for ever. */
#define FURTHEST_EXPIRY_S (10 * (int64_t)SKEP_RECORD_LIFETIME_S)

struct entry {
    struct skep_record record;
    struct skep_envelope envelope;
};

struct skep_records {
    size_t limit;
    size_t count;          /* leaving ones included */
    struct entry *entries; /* in order of keeper id */
    size_t live_count;
    size_t *live; /* places in `entries` of those that are not leaving */
};

struct skep_records *skep_records_new(size_t limit)
{
    struct skep_records *records = skep_alloc(1, sizeof(*records));
    records->limit = limit;
    return records;
}

static void entry_done(struct entry *entry)
{
    skep_record_done(&entry->record);
    skep_envelope_done(&entry->envelope);
}

void skep_records_free(struct skep_records *records)
{
    if (records == NULL) {
        return;
    }
    for (size_t i = 0; i < records->count; i++) {
        entry_done(&records->entries[i]);
    }
    free(records->entries);
    free(records->live);
    free(records);
}

static void list_live(struct skep_records *records)
{
    records->live = skep_realloc(records->live, records->count + 1, sizeof(records->live[0]));
    records->live_count = 0;
    for (size_t i = 0; i < records->count; i++) {
        if (!records->entries[i].record.leaving) {
            records->live[records->live_count++] = i;
        }
    }
}

/* Where the keeper is or would be. */
static size_t place_of(const struct skep_records *records, const struct skep_peer_id *keeper,
                       bool *ret_found)
{
    size_t low = 0;
    size_t high = records->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order =
            memcmp(records->entries[middle].record.keeper.bytes, keeper->bytes, SKEP_ID_SIZE);
        if (order == 0) {
            *ret_found = true;
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *ret_found = false;
    return low;
}

static void copy_envelope(const struct skep_envelope *from, struct skep_envelope *to)
{
    skep_envelope_init(to, from->type, from->payload.data, from->payload.size);
    for (size_t i = 0; i < from->signature_count; i++) {
        skep_envelope_add(to, &from->signatures[i].signer, from->signatures[i].bytes);
    }
}

/* Takes the record. */
static int keep(struct skep_records *records, const struct skep_envelope *envelope,
                struct skep_record *take_record, bool *ret_new, struct skep_error *err)
{
    bool found = false;
    size_t place = place_of(records, &take_record->keeper, &found);
    if (found && records->entries[place].record.sequence >= take_record->sequence) {
        skep_record_done(take_record);
        *ret_new = false;
        return 0;
    }
    if (!found && records->count >= records->limit) {
        skep_record_done(take_record);
        return skep_error_set(err, SKEP_ERR_FULL,
                              "the table of keepers holds %zu records, which is its limit",
                              records->count);
    }
    if (found) {
        entry_done(&records->entries[place]);
    } else {
        records->entries =
            skep_realloc(records->entries, records->count + 1, sizeof(records->entries[0]));
        memmove(&records->entries[place + 1], &records->entries[place],
                (records->count - place) * sizeof(records->entries[0]));
        records->count++;
    }
    struct entry *entry = &records->entries[place];
    memset(entry, 0, sizeof(*entry));
    entry->record = *take_record;
    copy_envelope(envelope, &entry->envelope);
    list_live(records);
    *ret_new = true;
    return 0;
}

int skep_records_add(struct skep_records *records, const struct skep_envelope *envelope,
                     int64_t now_s, bool *ret_new, struct skep_error *err)
{
    struct skep_record record = {0};
    int code = skep_record_open(envelope, now_s, &record, err);
    if (code != 0) {
        return code;
    }
    if (record.expires_s - now_s > FURTHEST_EXPIRY_S) {
        code = skep_error_set(err, SKEP_ERR_REFUSED,
                              "record of keeper %s expires in %lld s, expected at most %lld",
                              skep_id_text(record.keeper.bytes),
                              (long long)(record.expires_s - now_s), (long long)FURTHEST_EXPIRY_S);
        skep_record_done(&record);
        return code;
    }
    bool is_new = false;
    code = keep(records, envelope, &record, &is_new, err);
    if (code == 0 && ret_new != NULL) {
        *ret_new = is_new;
    }
    return code;
}

void skep_records_expire(struct skep_records *records, int64_t now_s)
{
    size_t kept = 0;
    for (size_t i = 0; i < records->count; i++) {
        if (records->entries[i].record.expires_s <= now_s) {
            entry_done(&records->entries[i]);
        } else {
            records->entries[kept++] = records->entries[i];
        }
    }
    records->count = kept;
    list_live(records);
}

size_t skep_records_count(const struct skep_records *records)
{
    return records->live_count;
}

const struct skep_record *skep_records_at(const struct skep_records *records, size_t i)
{
    return i < records->live_count ? &records->entries[records->live[i]].record : NULL;
}

const struct skep_envelope *skep_records_envelope_at(const struct skep_records *records, size_t i)
{
    return i < records->live_count ? &records->entries[records->live[i]].envelope : NULL;
}

const struct skep_record *skep_records_find(const struct skep_records *records,
                                            const struct skep_peer_id *keeper)
{
    bool found = false;
    size_t place = place_of(records, keeper, &found);
    if (!found || records->entries[place].record.leaving) {
        return NULL;
    }
    return &records->entries[place].record;
}
