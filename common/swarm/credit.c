#include "common/swarm/credit.h"

/* 200 credits are a day (86,400 s) at 1e9 operations a second. */
#define FLOPS_PER_MICRO_CREDIT 432000u

/* A manifest's numbers are the admin's: a product that leaves 63 bits stays at their end rather than wrapping round. */
static uint64_t product(uint64_t a, uint64_t b)
{
    uint64_t c = 0;
    return __builtin_mul_overflow(a, b, &c) || c > INT64_MAX ? INT64_MAX : c;
}

/* Forward and backward of one token: a matrix's weight is one multiply-add (2 operations) in the forward pass and two in the
 * backward pass (Kaplan and others, arXiv 2001.08361, section 2.1): 6 operations for each weight. */
static uint64_t trunk_flops_per_token(const struct skep_model_config *model)
{
    uint64_t d = model->dim;
    uint64_t layer = 4 * d * d + (uint64_t)(model->rows + model->columns) * d;
    /* Scores and weighted sum over the (T + 1) / 2 places a token sees on average under the causal mask. */
    uint64_t attention = 6 * d * ((uint64_t)model->context + 1);
    return 6 * (model->vocabulary * d + model->layers * layer) + model->layers * attention;
}

static uint64_t experts_flops_per_token(const struct skep_model_config *model)
{
    return 6ul * 2 * model->dim * model->hidden * model->experts_per_token;
}

uint64_t skep_job_flops(const struct skep_manifest *manifest, const struct skep_shard *shard)
{
    const struct skep_training_config *training = &manifest->training;
    const struct skep_model_config *model = &manifest->model;
    uint64_t tokens = product(product(training->steps, training->batch), model->context);
    if (shard->kind == SKEP_SHARD_TRUNK) {
        return product(tokens, trunk_flops_per_token(model));
    }
    uint32_t rows = training->donor_rows < model->rows ? training->donor_rows : model->rows;
    uint64_t experts = (uint64_t)rows * model->columns;
    return experts == 0 ? 0 : product(tokens, experts_flops_per_token(model)) / experts;
}

uint64_t skep_credit_micro(const struct skep_manifest *manifest, const struct skep_shard *shard)
{
    return skep_job_flops(manifest, shard) / FLOPS_PER_MICRO_CREDIT;
}
