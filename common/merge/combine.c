#include "common/merge/combine.h"

#include <assert.h>
#include <string.h>

#include "common/merge/fixed.h"

/* A table of pairs costs about as much as looking at this many places for each of its numbers. */
#define PLACES_FOR_A_PAIR 4u

/* ---- trimmed ---- */

static int64_t trimmed_of(const struct skep_combine *rule, int64_t *values, size_t count)
{
    size_t n = rule->n;
    size_t f = rule->trimmed;
    assert(n > 2 * f);
    if (f > 0) {
        skep_fixed_sort(values, count);
    }
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        size_t rank = values[i] < 0 ? i : i + (n - count);
        sum += rank >= f && rank < n - f ? values[i] : 0;
    }
    return sum / (int64_t)(n - 2 * f);
}

void skep_combine_trimmed(struct skep_combine *rule, size_t n, size_t trimmed)
{
    assert(n > 2 * trimmed && n <= SKEP_LIMIT_UPDATES_PER_ROUND);
    *rule = (struct skep_combine){.form = SKEP_COMBINE_TRIMMED, .n = n, .trimmed = trimmed};
}

/* ---- linear ---- */

void skep_combine_linear(struct skep_combine *rule, size_t n, const int64_t *weights)
{
    *rule = (struct skep_combine){.form = SKEP_COMBINE_LINEAR, .n = n, .weights = weights};
}

/* Each term rounded toward zero, so that the sum over a place is a sum of numbers from a table. */
static int64_t weighted(const struct skep_combine *rule, size_t tag, int64_t entry)
{
    int64_t weight = rule->weights[tag / 4];
    int64_t size =
        skep_fixed_scale(entry, (uint64_t)(weight < 0 ? -weight : weight), SKEP_FIXED_RATIO_BITS);
    return weight < 0 ? -size : size;
}

/* ---- mixed ---- */

/* A number and how many of the y have it, times q. */
struct share {
    int64_t value;
    size_t count;
};

/* The sum between the cuts of a few different numbers that together are n. */
static int64_t trimmed_shares(const struct skep_combine *rule, struct share *shares, size_t count)
{
    size_t low = rule->trimmed;
    size_t high = rule->n - rule->trimmed;
    for (size_t i = 1; i < count; i++) {
        struct share share = shares[i];
        size_t at = i;
        for (; at > 0 && shares[at - 1].value > share.value; at--) {
            shares[at] = shares[at - 1];
        }
        shares[at] = share;
    }
    int64_t sum = 0;
    size_t rank = 0;
    for (size_t i = 0; i < count; i++) {
        size_t first = rank > low ? rank : low;
        rank += shares[i].count;
        size_t end = rank < high ? rank : high;
        sum += end > first ? shares[i].value * (int64_t)(end - first) : 0;
    }
    return sum;
}

static int64_t mixed_divisor(const struct skep_combine *rule)
{
    return (int64_t)(rule->near * (rule->n - 2 * rule->trimmed));
}

static int64_t mixed_single(const struct skep_combine *rule, size_t tag, int64_t entry)
{
    size_t held = rule->held[tag / 4];
    struct share shares[2] = {{entry, held}, {0, rule->n - held}};
    return trimmed_shares(rule, shares, 2) / mixed_divisor(rule);
}

static int64_t mixed_pair(const struct skep_combine *rule, const int64_t *entries, size_t a,
                          size_t b)
{
    size_t held_a = rule->held[a / 4];
    size_t held_b = rule->held[b / 4];
    size_t both = rule->held_both[a / 4 * rule->n + b / 4];
    struct share shares[4] = {
        {0, rule->n - (held_a + held_b - both)},
        {entries[a], held_a - both},
        {entries[b], held_b - both},
        {entries[a] + entries[b], both},
    };
    return trimmed_shares(rule, shares, 4) / mixed_divisor(rule);
}

void skep_combine_mixed(struct skep_combine *rule, size_t n, size_t trimmed, const uint64_t *sets,
                        size_t near)
{
    assert(n > 2 * trimmed && n <= SKEP_LIMIT_UPDATES_PER_ROUND && near > 0);
    *rule =
        (struct skep_combine){.form = SKEP_COMBINE_MIXED, .n = n, .trimmed = trimmed, .near = near};
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            uint64_t holds = sets[i] >> j & 1;
            rule->members[j] |= holds << (63 - i);
            rule->held[j] = (uint8_t)(rule->held[j] + holds);
        }
    }
    for (size_t a = 0; a < n; a++) {
        for (size_t b = 0; b < n; b++) {
            rule->held_both[a * n + b] =
                (uint8_t)__builtin_popcountll(rule->members[a] & rule->members[b]);
        }
    }
    skep_lanes_network_init(&rule->network, n, trimmed);
}

/* ---- one tensor ---- */

static int64_t single_of(const struct skep_combine *rule, size_t tag, int64_t entry)
{
    switch (rule->form) {
    case SKEP_COMBINE_LINEAR:
        return weighted(rule, tag, entry);
    case SKEP_COMBINE_MIXED:
        return mixed_single(rule, tag, entry);
    default:
        return trimmed_of(rule, &entry, 1);
    }
}

size_t skep_combine_pairs_size(const struct skep_combine *rule)
{
    return rule->form == SKEP_COMBINE_MIXED ? 16 * rule->n * rule->n : 0;
}

void skep_combine_table_fill(struct skep_combine_table *table, const struct skep_combine *rule,
                             const int64_t *entries, size_t place_count)
{
    size_t tags = 4 * rule->n;
    table->rule = rule;
    table->entries = entries;
    for (size_t tag = 0; tag < tags; tag++) {
        table->singles[tag] = single_of(rule, tag, entries[tag]);
    }
    size_t pairs = skep_combine_pairs_size(rule);
    bool pays = pairs > 0 && place_count / PLACES_FOR_A_PAIR >= pairs;
    table->pairs = pays ? table->pairs_memory : NULL;
    for (size_t a = 0; a < tags && table->pairs != NULL; a++) {
        for (size_t b = a + 1; b < tags; b++) {
            table->pairs[a * tags + b] = mixed_pair(rule, entries, a, b);
        }
    }
}

/* The aggregate of a place with two or more contributors, where it is not made in lanes. */
static int64_t combine_few(const struct skep_combine_table *table, const uint8_t *tags,
                           size_t count)
{
    const struct skep_combine *rule = table->rule;
    if (rule->form == SKEP_COMBINE_MIXED) {
        return table->pairs != NULL ? table->pairs[(size_t)tags[0] * 4 * rule->n + tags[1]]
                                    : mixed_pair(rule, table->entries, tags[0], tags[1]);
    }
    int64_t values[SKEP_LIMIT_UPDATES_PER_ROUND];
    int64_t sum = 0;
    for (size_t k = 0; k < count; k++) {
        values[k] = table->entries[tags[k]];
        sum += table->singles[tags[k]];
    }
    return rule->form == SKEP_COMBINE_LINEAR ? sum : trimmed_of(rule, values, count);
}

/* ---- places side by side ---- */

/* Places that wait for the lanes to be full: where their results go. */
struct waiting {
    size_t used;
    int64_t *results[SKEP_LANES];
    struct skep_lanes lanes;
};

static void finish_waiting(const struct skep_combine *rule, struct waiting *waiting)
{
    int64_t sums[SKEP_LANES];
    if (waiting->used == 0) {
        return;
    }
    skep_lanes_sum(&rule->network, &waiting->lanes, sums);
    for (size_t lane = 0; lane < waiting->used; lane++) {
        *waiting->results[lane] = sums[lane] / mixed_divisor(rule);
    }
    waiting->used = 0;
    waiting->lanes.rows = 0;
}

static void add_waiting(const struct skep_combine_table *table, const uint8_t *tags, size_t count,
                        int64_t *result, struct waiting *waiting)
{
    struct skep_lanes *lanes = &waiting->lanes;
    size_t lane = waiting->used++;
    waiting->results[lane] = result;
    for (; lanes->rows < count; lanes->rows++) {
        memset(lanes->values[lanes->rows], 0, sizeof lanes->values[0]);
    }
    for (size_t k = 0; k < count; k++) {
        lanes->values[k][lane] = table->entries[tags[k]];
        lanes->sets[k][lane] = table->rule->members[tags[k] >> 2];
    }
    for (size_t k = count; k < lanes->rows; k++) {
        lanes->values[k][lane] = 0;
    }
    if (waiting->used == SKEP_LANES) {
        finish_waiting(table->rule, waiting);
    }
}

void skep_combine_block(const struct skep_combine_table *table, const uint8_t *tags,
                        const uint8_t *sent, size_t place_count, int64_t *ret_values)
{
    bool mixed = table->rule->form == SKEP_COMBINE_MIXED;
    struct waiting waiting;
    waiting.used = 0;
    waiting.lanes.rows = 0;
    for (size_t k = 0; k < place_count; k++) {
        size_t count = sent[k];
        if (count == 1) {
            ret_values[k] = table->singles[tags[0]];
        } else if (count > 2 && mixed) {
            add_waiting(table, tags, count, &ret_values[k], &waiting);
        } else {
            ret_values[k] = combine_few(table, tags, count);
        }
        tags += count;
    }
    finish_waiting(table->rule, &waiting);
}
