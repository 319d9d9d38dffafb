#include "common/merge/standing.h"

#include "common/base/limits.h"
#include "common/merge/fixed.h"

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

void skep_standing_judge(const struct skep_standing *standings, size_t count, bool *ret_left_out)
{
    int64_t means[SKEP_LIMIT_UPDATES_PER_ROUND]; /* of the known */
    size_t known = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_known(&standings[i])) {
            means[known++] = standings[i].mean;
        }
        ret_left_out[i] = false;
    }
    if (known == 0 || 2 * known < count) {
        return;
    }
    int64_t median = skep_fixed_lower_median(means, known);
    if (median <= 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        ret_left_out[i] = is_known(&standings[i]) && standings[i].mean < median / USUAL_PART;
    }
}
