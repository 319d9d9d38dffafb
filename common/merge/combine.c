#include "common/merge/combine.h"

#include <assert.h>

#include "common/merge/fixed.h"

/* A table of pairs costs about as much as looking at this many places for each of its numbers. */
#define PLACES_FOR_A_PAIR 4u

static void sort(int64_t *values, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        int64_t value = values[i];
        size_t at = i;
        for (; at > 0 && values[at - 1] > value; at--) {
            values[at] = values[at - 1];
        }
        values[at] = value;
    }
}

/* ---- trimmed ---- */

static int64_t trimmed_of(const struct skep_combine *rule, int64_t *values, size_t count)
{
    size_t n = rule->n;
    size_t f = rule->trimmed;
    if (f > 0) {
        sort(values, count);
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

/* The sums of all sets, sorted. */
static int64_t mixed_many(const struct skep_combine_table *table, const uint8_t *tags, size_t count)
{
    const struct skep_combine *rule = table->rule;
    size_t n = rule->n;
    int64_t sums[SKEP_LIMIT_UPDATES_PER_ROUND] = {0};
    for (size_t k = 0; k < count; k++) {
        int64_t value = table->entries[tags[k]];
        const int64_t *masks = rule->masks + (tags[k] >> 2) * n;
        for (size_t i = 0; i < n; i++) {
            sums[i] += value & masks[i];
        }
    }
    for (size_t e = 0; e < rule->exchange_count; e++) {
        int64_t *low = &sums[rule->exchanges[2 * e]];
        int64_t *high = &sums[rule->exchanges[2 * e + 1]];
        int64_t a = *low;
        int64_t b = *high;
        *low = a < b ? a : b;
        *high = a < b ? b : a;
    }
    int64_t sum = 0;
    for (size_t i = rule->trimmed; i < n - rule->trimmed; i++) {
        sum += sums[i];
    }
    return sum / mixed_divisor(rule);
}

static void add_exchange(struct skep_combine *rule, size_t low, size_t high)
{
    rule->exchanges[2 * rule->exchange_count] = (uint8_t)low;
    rule->exchanges[2 * rule->exchange_count + 1] = (uint8_t)high;
    rule->exchange_count++;
}

/* Algorithm M's names: p, q, r, d. */
static void fill_network(struct skep_combine *rule)
{
    size_t n = rule->n;
    size_t top = 1;
    while (2 * top < n) {
        top *= 2;
    }
    for (size_t p = n > 1 ? top : 0; p > 0; p /= 2) {
        size_t r = 0;
        size_t d = p;
        for (size_t q = top; q >= p; q /= 2) {
            for (size_t i = 0; i + d < n; i++) {
                if ((i & p) == r) {
                    add_exchange(rule, i, i + d);
                }
            }
            d = q - p;
            r = p;
        }
    }
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
            rule->members[j] |= holds << i;
            rule->held[j] = (uint8_t)(rule->held[j] + holds);
            rule->masks[j * n + i] = -(int64_t)holds;
        }
    }
    for (size_t a = 0; a < n; a++) {
        for (size_t b = 0; b < n; b++) {
            rule->held_both[a * n + b] =
                (uint8_t)__builtin_popcountll(rule->members[a] & rule->members[b]);
        }
    }
    fill_network(rule);
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

int64_t skep_combine_place(const struct skep_combine_table *table, const uint8_t *tags,
                           size_t count)
{
    const struct skep_combine *rule = table->rule;
    if (rule->form == SKEP_COMBINE_MIXED) {
        if (count > 2) {
            return mixed_many(table, tags, count);
        }
        return table->pairs != NULL ? table->pairs[tags[0] * 4 * rule->n + tags[1]]
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
