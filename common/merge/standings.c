#include "common/merge/standings.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/merge/merge.h"

#define NORMS 16u /* seals whose norms count */

/* An update that says something of its donor. */
struct mark {
    struct skep_peer_id donor;
    int32_t agreement_permille;
};

/* What is kept of one seal. */
struct page {
    uint64_t norm;
    size_t count;
    struct mark *marks;
};

struct skep_standings {
    uint64_t version;
    size_t count;                            /* pages held, up to `version` */
    struct page pages[SKEP_STANDINGS_SEALS]; /* of version v at place v % SKEP_STANDINGS_SEALS */
};

struct skep_standings *skep_standings_new(void)
{
    return skep_alloc(1, sizeof(struct skep_standings));
}

static void forget(struct skep_standings *standings)
{
    for (size_t i = 0; i < SKEP_STANDINGS_SEALS; i++) {
        free(standings->pages[i].marks);
        standings->pages[i] = (struct page){0};
    }
    standings->count = 0;
}

void skep_standings_free(struct skep_standings *standings)
{
    if (standings != NULL) {
        forget(standings);
        free(standings);
    }
}

static size_t count_merged(const struct skep_seal *seal)
{
    size_t merged = 0;
    for (size_t i = 0; i < seal->receipt_count; i++) {
        merged += seal->receipts[i].merged;
    }
    return merged;
}

static void write_page(struct page *page, const struct skep_seal *seal)
{
    size_t merged = count_merged(seal);
    page->norm = seal->norm;
    page->count = 0;
    page->marks = skep_realloc(page->marks, seal->receipt_count + 1, sizeof page->marks[0]);
    for (size_t i = 0; i < seal->receipt_count; i++) {
        const struct skep_receipt *receipt = &seal->receipts[i];
        bool tells = receipt->merged || receipt->agreement_permille != 0;
        if (!receipt->copy && tells && merged > receipt->merged) {
            page->marks[page->count++] =
                (struct mark){receipt->donor, (int32_t)receipt->agreement_permille};
        }
    }
}

void skep_standings_push(struct skep_standings *standings, const struct skep_seal *seal)
{
    if (seal->version != standings->version + 1) {
        forget(standings);
    }
    standings->version = seal->version;
    standings->count += standings->count < SKEP_STANDINGS_SEALS;
    write_page(&standings->pages[seal->version % SKEP_STANDINGS_SEALS], seal);
}

uint64_t skep_standings_version(const struct skep_standings *standings)
{
    return standings->version;
}

bool skep_standings_whole(const struct skep_standings *standings)
{
    return standings->count == SKEP_STANDINGS_SEALS || standings->count == standings->version;
}

/* Page `i` of those held, the oldest first. */
static const struct page *page_at(const struct skep_standings *standings, size_t i)
{
    uint64_t version = standings->version - standings->count + 1 + i;
    return &standings->pages[version % SKEP_STANDINGS_SEALS];
}

struct skep_standing skep_standings_of(const struct skep_standings *standings,
                                       const struct skep_peer_id *donor)
{
    struct skep_standing standing = {0};
    for (size_t i = 0; i < standings->count; i++) {
        const struct page *page = page_at(standings, i);
        for (size_t k = 0; k < page->count; k++) {
            if (skep_peer_id_equal(&page->marks[k].donor, donor)) {
                skep_standing_push(&standing, page->marks[k].agreement_permille);
            }
        }
    }
    return standing;
}

void skep_standings_judge(const struct skep_standings *standings, const struct skep_peer_id *donors,
                          size_t count, bool *ret_left_out)
{
    struct skep_standing found[SKEP_LIMIT_UPDATES_PER_ROUND];
    assert(count <= SKEP_LIMIT_UPDATES_PER_ROUND && skep_standings_whole(standings));
    for (size_t i = 0; i < count; i++) {
        found[i] = skep_standings_of(standings, &donors[i]);
    }
    skep_standing_judge(found, count, ret_left_out);
}

uint64_t skep_standings_norm_limit(const struct skep_standings *standings)
{
    uint64_t norms[NORMS];
    size_t used = standings->count < NORMS ? standings->count : NORMS;
    for (size_t i = 0; i < used; i++) {
        norms[i] = page_at(standings, standings->count - used + i)->norm;
    }
    return skep_merge_norm_limit(norms, used);
}
