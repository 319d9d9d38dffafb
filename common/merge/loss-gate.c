#include "common/merge/loss-gate.h"

#include <assert.h>

#include "common/merge/fixed.h"

/* Changes are held to +-2^60: then deviations and their multiples by 15000 fit 128 bits, and differences of two fit 64. */
#define CHANGE_LIMIT ((int64_t)1 << 60)
#define SIGMAS 3
/* sigma / median absolute deviation of a normal distribution: 1 / 0.6745 */
#define SIGMA_OF_DEVIATION 14826
#define SIGMA_UNITS 10000
#define FLOOR_SHARE 2000       /* sigma is at least the loss divided by this */
#define GROSS_SHARE 8          /* without history: this share of the loss */
#define GROSS_MICRONATS 100000 /* and this more */

static int64_t held(__int128 change)
{
    change = change > CHANGE_LIMIT ? CHANGE_LIMIT : change;
    return (int64_t)(change < -CHANGE_LIMIT ? -CHANGE_LIMIT : change);
}

void skep_loss_gate_push(struct skep_loss_gate_history *history, int64_t loss_before,
                         int64_t loss_after)
{
    if (loss_before == SKEP_LOSS_GATE_NOT_FINITE || loss_after == SKEP_LOSS_GATE_NOT_FINITE) {
        return;
    }
    assert(history->next < SKEP_LOSS_GATE_HISTORY && history->count <= SKEP_LOSS_GATE_HISTORY);
    history->changes[history->next] = held((__int128)loss_after - loss_before);
    history->next = (history->next + 1) % SKEP_LOSS_GATE_HISTORY;
    history->count += history->count < SKEP_LOSS_GATE_HISTORY;
}

/* 1.4826 * median absolute deviation from the median; the history is not empty. */
static __int128 sigma_of(const struct skep_loss_gate_history *history)
{
    int64_t values[SKEP_LOSS_GATE_HISTORY];
    size_t count = history->count;
    for (size_t i = 0; i < count; i++) {
        values[i] = history->changes[i];
    }
    int64_t median = skep_fixed_lower_median(values, count);
    for (size_t i = 0; i < count; i++) {
        int64_t deviation = values[i] - median;
        values[i] = deviation < 0 ? -deviation : deviation;
    }
    return (__int128)skep_fixed_lower_median(values, count) * SIGMA_OF_DEVIATION / SIGMA_UNITS;
}

int64_t skep_loss_gate_limit(const struct skep_loss_gate_history *history, int64_t loss_before)
{
    int64_t loss = loss_before < 0 ? 0 : loss_before;
    if (history->count < SKEP_LOSS_GATE_LEAST_HISTORY) {
        return held((__int128)loss / GROSS_SHARE + GROSS_MICRONATS);
    }
    __int128 sigma = sigma_of(history);
    sigma = sigma < SKEP_LOSS_GATE_FLOOR_MICRONATS ? SKEP_LOSS_GATE_FLOOR_MICRONATS : sigma;
    sigma = sigma < loss / FLOOR_SHARE ? loss / FLOOR_SHARE : sigma;
    return held(sigma * SIGMAS);
}

enum skep_loss_gate_decision skep_loss_gate_decide(const struct skep_loss_gate_history *history,
                                                   int64_t loss_before, const int64_t *losses_after,
                                                   size_t tried)
{
    static const enum skep_loss_gate_decision decisions[SKEP_LOSS_GATE_TRIES] = {
        SKEP_LOSS_GATE_FULL, SKEP_LOSS_GATE_HALF, SKEP_LOSS_GATE_QUARTER};
    assert(tried <= SKEP_LOSS_GATE_TRIES);
    int64_t limit = skep_loss_gate_limit(history, loss_before);
    for (size_t halvings = 0; halvings < tried; halvings++) {
        __int128 rise = (__int128)losses_after[halvings] - loss_before;
        if (losses_after[halvings] != SKEP_LOSS_GATE_NOT_FINITE && rise <= limit) {
            return decisions[halvings];
        }
    }
    return tried < SKEP_LOSS_GATE_TRIES ? SKEP_LOSS_GATE_MEASURE : SKEP_LOSS_GATE_SKIP;
}

static __int128 size_of(__int128 value)
{
    return value < 0 ? -value : value;
}

bool skep_loss_gate_within(int64_t mine, int64_t theirs)
{
    if (mine == SKEP_LOSS_GATE_NOT_FINITE || theirs == SKEP_LOSS_GATE_NOT_FINITE) {
        return mine == theirs;
    }
    __int128 larger = size_of(mine) > size_of(theirs) ? size_of(mine) : size_of(theirs);
    __int128 allowed = larger * SKEP_LOSS_GATE_TOLERANCE_PERMILLE / 1000;
    allowed =
        allowed < SKEP_LOSS_GATE_TOLERANCE_MICRONATS ? SKEP_LOSS_GATE_TOLERANCE_MICRONATS : allowed;
    return size_of((__int128)mine - theirs) <= allowed;
}
