/* Each table that this machine's CPU can run, against the reference, and with three threads against itself with one: the same bits. */
#include "tests/unit/tensor/ops-checks.h"

#define LIMIT 4

int main(void)
{
    const struct skep_ops *tables[LIMIT];
    size_t count = skep_ops_cpu_tables(tables, LIMIT);
    struct skep_ops_pair pairs[2 * LIMIT];
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        pairs[used++] =
            (struct skep_ops_pair){tables[i], skep_ops_reference(), SKEP_OPS_TOLERANCE, 0, 0};
    }
    for (size_t i = 0; i < count; i++) {
        pairs[used++] = (struct skep_ops_pair){tables[i], tables[i], 0, 3, 1};
    }
    return skep_test_ops_pairs(pairs, used);
}
