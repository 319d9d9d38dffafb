#include "common/merge/standing.h"

#include "common/base/limits.h"

#define UNIT (1 << 16)
#define MEMORY 10       /* rounds */
#define USUAL_PART 4    /* below this part of the median is far below the usual */
#define COUNT_MOST 1000 /* seen stops here */

void skep_standing_push(struct skep_standing *standing, int32_t agreement_permille)
{
    int32_t agreement = agreement_permille * UNIT;
    standing->mean += standing->seen == 0 ? agreement : (agreement - standing->mean) / MEMORY;
    standing->seen += standing->seen < COUNT_MOST;
}

static bool is_known(const struct skep_standing *standing)
{
    return standing->seen >= SKEP_STANDING_LEAST_SEEN;
}

/* The lower median of the known; count of them > 0. */
static int32_t median_of_known(const struct skep_standing *standings, size_t count, size_t known)
{
    int32_t sorted[SKEP_LIMIT_UPDATES_PER_ROUND];
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_known(&standings[i])) {
            size_t at = used++;
            for (; at > 0 && sorted[at - 1] > standings[i].mean; at--) {
                sorted[at] = sorted[at - 1];
            }
            sorted[at] = standings[i].mean;
        }
    }
    return sorted[(known - 1) / 2];
}

void skep_standing_judge(const struct skep_standing *standings, size_t count, bool *ret_left_out)
{
    size_t known = 0;
    for (size_t i = 0; i < count; i++) {
        known += is_known(&standings[i]);
        ret_left_out[i] = false;
    }
    if (known == 0 || 2 * known < count) {
        return;
    }
    int32_t median = median_of_known(standings, count, known);
    if (median <= 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        ret_left_out[i] = is_known(&standings[i]) && standings[i].mean < median / USUAL_PART;
    }
}
