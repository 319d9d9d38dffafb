#include "common/swarm/reputation.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/base/limits.h"
#include "common/crypto/hash.h"

#define ROWS_FIRST 16u
#define ONE ((uint64_t)1 << 16) /* n = 1 */
#define MOST (SKEP_REPUTATION_MOST * ONE)
#define DECAY_Q32 UINT64_C(4286377361) /* 0.998 * 2^32, rounded down */

struct skep_reputations {
    size_t limit;
    size_t count;
    size_t capacity;
    uint64_t version;
    struct skep_reputation *rows; /* rising by donor */
    struct skep_peer_id *written; /* by the last apply */
    size_t written_count;
    struct skep_peer_id *forgotten;
    size_t forgotten_count;
};

/* 0.998^times in units of 2^-32 by squaring, each product rounded down. */
static uint64_t decay_of(uint64_t times)
{
    uint64_t power = DECAY_Q32;
    uint64_t result = UINT64_C(1) << 32;
    for (; times > 0 && result > 0; times >>= 1) {
        if (times & 1) {
            /* At most 2^32 times less than 2^32. */
            result = result * power >> 32;
        }
        power = power * power >> 32;
    }
    return result;
}

/* n of a row at trunk version `version`, in units of 2^-16; below 2^24, so the product fits. */
static uint64_t earned_at(const struct skep_reputation *row, uint64_t version)
{
    uint64_t since = version > row->seen ? version - row->seen : 0;
    if (row->earned == 0 || since <= SKEP_LIMIT_STALENESS) {
        return row->earned;
    }
    return row->earned * decay_of(since - SKEP_LIMIT_STALENESS) >> 32;
}

struct skep_reputations *skep_reputations_new(size_t limit)
{
    assert(limit > 0);
    struct skep_reputations *table = skep_alloc(1, sizeof *table);
    table->limit = limit;
    table->capacity = ROWS_FIRST;
    table->rows = skep_alloc(table->capacity, sizeof *table->rows);
    return table;
}

void skep_reputations_free(struct skep_reputations *table)
{
    if (table != NULL) {
        free(table->rows);
        free(table->written);
        free(table->forgotten);
        free(table);
    }
}

static int compare_ids(const struct skep_peer_id *a, const struct skep_peer_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

/* Where the donor is, or would be. */
static size_t place_of(const struct skep_reputations *table, const struct skep_peer_id *donor)
{
    size_t low = 0;
    size_t high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_ids(&table->rows[middle].donor, donor) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct skep_reputation *row_of(const struct skep_reputations *table,
                                      const struct skep_peer_id *donor)
{
    size_t place = place_of(table, donor);
    return place < table->count && skep_peer_id_equal(&table->rows[place].donor, donor)
               ? &table->rows[place]
               : NULL;
}

/* Of two rows, the one that is to be forgotten before the other: true if that is `a`. `n_*`: their n now. */
static bool goes_before(const struct skep_reputation *a, uint64_t n_a,
                        const struct skep_reputation *b, uint64_t n_b)
{
    if (a->banned || b->banned) {
        return a->banned && b->banned ? a->banned_at < b->banned_at : b->banned;
    }
    return n_a != n_b ? n_a < n_b : a->seen < b->seen;
}

static void forget_one(struct skep_reputations *table)
{
    size_t worst = 0;
    uint64_t worst_n = 0;
    for (size_t i = 0; i < table->count; i++) {
        uint64_t n = earned_at(&table->rows[i], table->version) / ONE;
        if (i == 0 || goes_before(&table->rows[i], n, &table->rows[worst], worst_n)) {
            worst = i;
            worst_n = n;
        }
    }
    table->forgotten =
        skep_realloc(table->forgotten, table->forgotten_count + 1, sizeof *table->forgotten);
    table->forgotten[table->forgotten_count++] = table->rows[worst].donor;
    table->count--;
    memmove(&table->rows[worst], &table->rows[worst + 1],
            (table->count - worst) * sizeof *table->rows);
}

/* The donor's row, made if there is none. */
static struct skep_reputation *take_row(struct skep_reputations *table,
                                        const struct skep_peer_id *donor)
{
    struct skep_reputation *row = row_of(table, donor);
    if (row != NULL) {
        return row;
    }
    if (table->count == table->limit) {
        forget_one(table);
    }
    if (table->count == table->capacity) {
        table->capacity *= 2;
        table->rows = skep_realloc(table->rows, table->capacity, sizeof *table->rows);
    }
    size_t place = place_of(table, donor);
    memmove(&table->rows[place + 1], &table->rows[place],
            (table->count - place) * sizeof *table->rows);
    table->count++;
    table->rows[place] = (struct skep_reputation){.donor = *donor};
    return &table->rows[place];
}

static void earn(struct skep_reputation *row)
{
    row->earned = row->earned + ONE < MOST ? row->earned + ONE : MOST;
}

/* One that was neither merged nor found right says nothing: it may have cost no work. */
static void apply_receipt(struct skep_reputations *table, const struct skep_receipt *receipt)
{
    if (!receipt->merged && !receipt->audited) {
        return;
    }
    struct skep_reputation *row = take_row(table, &receipt->donor);
    row->earned = earned_at(row, table->version - 1);
    row->seen = table->version;
    row->merged += receipt->merged;
    if (receipt->audited) {
        earn(row);
    }
}

static void apply_finding(struct skep_reputations *table, const struct skep_finding *finding)
{
    if (finding->verdict == SKEP_VERDICT_VALID) {
        struct skep_reputation *row = row_of(table, &finding->donor);
        if (row != NULL &&
            !row->banned) { /* the work was done when it was last seen, so it fades from there */
            earn(row);
        }
        return;
    }
    struct skep_reputation *row = take_row(table, &finding->donor);
    if (!row->banned) {
        row->banned = true;
        row->banned_at = table->version;
    }
}

static void note_written(struct skep_reputations *table, const struct skep_peer_id *donor)
{
    if (row_of(table, donor) != NULL) {
        table->written[table->written_count++] = *donor;
    }
}

int skep_reputation_apply(struct skep_reputations *table, const struct skep_seal *seal,
                          struct skep_error *err)
{
    if (seal->shard.kind != SKEP_SHARD_TRUNK) {
        char text[SKEP_SHARD_TEXT_SIZE];
        skep_shard_format(&seal->shard, text);
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "reputation follows the seals of the trunk, not of %s", text);
    }
    uint64_t next = table->version + 1;
    if (seal->version != next) {
        return skep_error_set(err, SKEP_ERR_STATE,
                              "the seal is of trunk version %llu, reputation waits for %llu",
                              (unsigned long long)seal->version, (unsigned long long)next);
    }
    assert(table->rows != NULL);
    table->version = next;
    table->forgotten_count = 0;
    for (size_t i = 0; i < seal->receipt_count; i++) {
        apply_receipt(table, &seal->receipts[i]);
    }
    for (size_t i = 0; i < seal->finding_count; i++) {
        apply_finding(table, &seal->findings[i]);
    }
    table->written_count = 0;
    table->written = skep_realloc(table->written, seal->receipt_count + seal->finding_count + 1,
                                  sizeof *table->written);
    for (size_t i = 0; i < seal->receipt_count; i++) {
        note_written(table, &seal->receipts[i].donor);
    }
    for (size_t i = 0; i < seal->finding_count; i++) {
        note_written(table, &seal->findings[i].donor);
    }
    return SKEP_OK;
}

uint64_t skep_reputation_version(const struct skep_reputations *table)
{
    return table->version;
}

static struct skep_reputation seen_now(const struct skep_reputations *table,
                                       struct skep_reputation row)
{
    row.n = (uint32_t)(earned_at(&row, table->version) / ONE);
    row.away = row.merged == 0 || table->version - row.seen > SKEP_LIMIT_STALENESS;
    return row;
}

struct skep_reputation skep_reputation_find(const struct skep_reputations *table,
                                            const struct skep_peer_id *donor)
{
    const struct skep_reputation *row = row_of(table, donor);
    return seen_now(table, row != NULL ? *row : (struct skep_reputation){.donor = *donor});
}

size_t skep_reputation_count(const struct skep_reputations *table)
{
    return table->count;
}

struct skep_reputation skep_reputation_at(const struct skep_reputations *table, size_t i)
{
    assert(i < table->count);
    return seen_now(table, table->rows[i]);
}

const struct skep_peer_id *skep_reputation_written(const struct skep_reputations *table,
                                                   size_t *ret_count)
{
    *ret_count = table->written_count;
    return table->written;
}

const struct skep_peer_id *skep_reputation_forgotten(const struct skep_reputations *table,
                                                     size_t *ret_count)
{
    *ret_count = table->forgotten_count;
    return table->forgotten;
}

static int check_row(const struct skep_reputation *row, const struct skep_reputation *previous,
                     uint64_t version, struct skep_error *err)
{
    const char *what = NULL;
    if (previous != NULL && compare_ids(&previous->donor, &row->donor) >= 0) {
        what = "does not follow the one before it";
    } else if (row->earned > MOST) {
        what = "has earned more than anyone can";
    } else if (row->seen > version || (row->banned && row->banned_at > version)) {
        what = "knows a later version";
    } else if ((row->seen == 0 && (row->merged != 0 || row->earned != 0)) ||
               (row->seen != 0 && row->merged == 0 && row->earned == 0) ||
               (!row->banned && row->banned_at != 0)) {
        what = "contradicts itself";
    }
    return what == NULL
               ? SKEP_OK
               : skep_error_set(err, SKEP_ERR_FORMAT,
                                "reputation at version %llu: the row of donor %s %s",
                                (unsigned long long)version, skep_id_text(row->donor.bytes), what);
}

int skep_reputation_restore(struct skep_reputations *table, uint64_t version,
                            const struct skep_reputation *rows, size_t count,
                            struct skep_error *err)
{
    assert(table->version == 0 && table->count == 0);
    if (count > table->limit) {
        return skep_error_set(err, SKEP_ERR_TOO_LARGE,
                              "reputation has %zu rows; at most %zu are held", count, table->limit);
    }
    for (size_t i = 0; i < count; i++) {
        int result = check_row(&rows[i], i > 0 ? &rows[i - 1] : NULL, version, err);
        if (result != SKEP_OK) {
            return result;
        }
    }
    table->rows = skep_realloc(table->rows, count + 1, sizeof *table->rows);
    table->capacity = count + 1;
    table->count = count;
    for (size_t i = 0; i < count; i++) {
        table->rows[i] = rows[i];
        table->rows[i].n = 0;
        table->rows[i].away = false;
    }
    table->version = version;
    return SKEP_OK;
}
