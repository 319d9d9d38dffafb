#include "common/swarm/audit.h"

#include <math.h>
#include <stdint.h>

/* Sums over both bodies, all tensors. */
struct sums {
    double published; /* squares */
    double recomputed;
    double difference;
    double shared; /* min and max of the magnitudes */
    double all;
};

static void add_pair(struct sums *sums, double a, double b)
{
    sums->published += a * a;
    sums->recomputed += b * b;
    sums->difference += (a - b) * (a - b);
    sums->shared += fmin(fabs(a), fabs(b));
    sums->all += fmax(fabs(a), fabs(b));
}

/* Where both have a value the smaller magnitude is shared whatever the signs say: the difference counts those. */
static void add_block(const struct skep_update_tensor *a, const struct skep_update_tensor *b,
                      size_t start, struct sums *sums)
{
    size_t end = start + a->tiling.kept;
    size_t i = start;
    size_t j = start;
    while (i < end || j < end) {
        bool take_a = i < end && (j == end || a->indices[i] <= b->indices[j]);
        bool take_b = j < end && (i == end || b->indices[j] <= a->indices[i]);
        double value_a = take_a ? (double)a->codebook[a->codes[i]] : 0;
        double value_b = take_b ? (double)b->codebook[b->codes[j]] : 0;
        add_pair(sums, value_a, value_b);
        i += take_a;
        j += take_b;
    }
}

static bool same_shape(const struct skep_tiling *a, const struct skep_tiling *b)
{
    return a->rows == b->rows && a->columns == b->columns && a->tile_rows == b->tile_rows &&
           a->tile_columns == b->tile_columns && a->blocks == b->blocks && a->kept == b->kept;
}

int skep_audit_compare(const struct skep_update_body *published,
                       const struct skep_update_body *recomputed,
                       struct skep_audit_likeness *ret_likeness, struct skep_error *err)
{
    if (published->tensor_count != recomputed->tensor_count) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "the update has %zu tensors, the recomputed one %zu",
                              published->tensor_count, recomputed->tensor_count);
    }
    struct sums sums = {0};
    for (size_t t = 0; t < published->tensor_count; t++) {
        const struct skep_update_tensor *a = &published->tensors[t];
        const struct skep_update_tensor *b = &recomputed->tensors[t];
        if (!same_shape(&a->tiling, &b->tiling)) {
            return skep_error_set(err, SKEP_ERR_FORMAT,
                                  "tensor %zu of the update is %u x %u with %u kept, of the "
                                  "recomputed one %u x %u with %u",
                                  t, a->tiling.rows, a->tiling.columns, a->tiling.kept,
                                  b->tiling.rows, b->tiling.columns, b->tiling.kept);
        }
        for (size_t block = 0; block < a->tiling.blocks; block++) {
            add_block(a, b, block * a->tiling.kept, &sums);
        }
    }
    double larger = fmax(sums.published, sums.recomputed);
    *ret_likeness = (struct skep_audit_likeness){
        .distance = larger > 0 ? sqrt(sums.difference / larger) : 0,
        .overlap = sums.all > 0 ? sums.shared / sums.all : 1,
    };
    return SKEP_OK;
}

bool skep_audit_valid(const struct skep_audit_likeness *likeness)
{
    return likeness->distance <= SKEP_AUDIT_MOST_DISTANCE &&
           likeness->overlap >= SKEP_AUDIT_LEAST_OVERLAP;
}
