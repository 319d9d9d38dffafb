#include "server/audit-verdict.h"

#include <math.h>
#include <stdlib.h>

#include "common/merge/compress.h"

struct squares {
    double a;
    double b;
    double difference;
};

static void add(struct squares *squares, double a, double b)
{
    squares->a += a * a;
    squares->b += b * b;
    squares->difference += (a - b) * (a - b);
}

static double distance(const struct squares *squares)
{
    double larger = fmax(squares->a, squares->b);
    return larger > 0 ? sqrt(squares->difference / larger) : 0;
}

static double distance_of_bytes(const uint8_t *a, const uint8_t *b, size_t count)
{
    struct squares squares = {0};
    for (size_t i = 0; i < count; i++) {
        add(&squares, (double)skep_get_f32(a + 4 * i), (double)skep_get_f32(b + 4 * i));
    }
    return distance(&squares);
}

/* values <- residual + body */
static void carry(const struct skep_shape *shape, const struct skep_history *history,
                  const struct skep_update_body *body, float *values)
{
    skep_get_floats(history->residual, shape->layout.parameters, values);
    for (size_t t = 0; t < body->tensor_count; t++) {
        skep_decompress_add(&body->tensors[t], 1.0f, values + shape->offsets[t]);
    }
}

static int look_at_history(const struct skep_shape *shape, const struct skep_history *published,
                           const struct skep_update_body *published_body,
                           const struct skep_history *repeated,
                           const struct skep_update_body *repeated_body,
                           struct skep_audit_look *look, struct skep_error *err)
{
    size_t count = shape->layout.parameters;
    float *values = calloc(count, 2 * sizeof *values);
    if (values == NULL) {
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory for two times %zu values", count);
    }
    carry(shape, published, published_body, values);
    carry(shape, repeated, repeated_body, values + count);
    struct squares squares = {0};
    for (size_t i = 0; i < count; i++) {
        add(&squares, (double)values[i], (double)values[count + i]);
    }
    free(values);
    look->has_history = true;
    look->carried = distance(&squares);
    look->first = distance_of_bytes(published->first, repeated->first, count);
    look->second = distance_of_bytes(published->second, repeated->second, count);
    return SKEP_OK;
}

int skep_audit_look_at(const struct skep_shape *shape, uint64_t base_version,
                       const struct skep_audit_side *published,
                       const struct skep_audit_side *repeated, struct skep_audit_look *ret_look,
                       struct skep_error *err)
{
    struct skep_update_body first = {0};
    struct skep_update_body second = {0};
    struct skep_audit_look look = {0};
    int result = skep_shape_open_body(shape, base_version, published->body, published->body_size,
                                      &first, err);
    if (result == SKEP_OK) {
        result = skep_shape_open_body(shape, base_version, repeated->body, repeated->body_size,
                                      &second, err);
    }
    if (result == SKEP_OK) {
        result = skep_audit_compare(&first, &second, &look.body, err);
    }
    if (result == SKEP_OK && published->history != NULL && repeated->history != NULL) {
        look.steps_agree = published->history->step == repeated->history->step &&
                           published->history->step <= published->most_step;
        result = look_at_history(shape, published->history, &first, repeated->history, &second,
                                 &look, err);
    }
    skep_update_body_done(&first);
    skep_update_body_done(&second);
    if (result == SKEP_OK) {
        *ret_look = look;
    }
    return result;
}

bool skep_audit_look_valid(const struct skep_audit_look *look)
{
    return skep_audit_valid(&look->body) &&
           (!look->has_history ||
            (look->steps_agree && look->first <= SKEP_AUDIT_MOST_DRIFT &&
             look->second <= SKEP_AUDIT_MOST_DRIFT && look->carried <= SKEP_AUDIT_MOST_DRIFT));
}
