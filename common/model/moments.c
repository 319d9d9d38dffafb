/* AdamW's moments, where the table keeps its memory. */
#include "common/model/model-state.h"
#include "common/model/train.h"

int skep_moments_init(struct skep_moments *moments, const struct skep_ops *ops, size_t parameters,
                      struct skep_error *err)
{
    size_t size = parameters * sizeof *moments->first;
    *moments =
        (struct skep_moments){.ops = ops != NULL ? ops : skep_ops_cpu(), .parameters = parameters};
    moments->first = moments->ops->memory_new(size);
    moments->second = moments->ops->memory_new(size);
    if (moments->first == NULL || moments->second == NULL) {
        skep_moments_done(moments);
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory for the moments of %zu parameters",
                              parameters);
    }
    skep_model_clear(moments->ops, size, moments->first);
    skep_model_clear(moments->ops, size, moments->second);
    return SKEP_OK;
}

void skep_moments_done(struct skep_moments *moments)
{
    if (moments->first != NULL) {
        moments->ops->memory_free(moments->first);
    }
    if (moments->second != NULL) {
        moments->ops->memory_free(moments->second);
    }
    *moments = (struct skep_moments){0};
}

void skep_moments_set(struct skep_moments *moments, const float *first, const float *second)
{
    size_t size = moments->parameters * sizeof *first;
    moments->ops->copy_in(moments->first, first, size);
    moments->ops->copy_in(moments->second, second, size);
}

void skep_moments_get(const struct skep_moments *moments, float *ret_first, float *ret_second)
{
    size_t size = moments->parameters * sizeof *ret_first;
    moments->ops->copy_out(ret_first, moments->first, size);
    moments->ops->copy_out(ret_second, moments->second, size);
}
