#include "client/plan/plan.h"

#include <math.h>
#include <stdlib.h>

#include "client/plan/size.h"
#include "common/base/alloc.h"
#include "common/model/layout.h"
#include "common/model/model.h"
#include "common/wire/chunks.h"
#include "common/wire/update.h"

/*
 * The worker's own: the binary, its libraries (also the pages that other processes share), and what the CBLAS and malloc keep; and what
 * each further thread adds. Fitted to the peaks of skep-worker on x86-64 Debian 12 with OpenBLAS 0.3.21-pthread, planned / found in MiB:
 *
 *     lm, d = 8, 1 expert             13.3 / 14.1        lm, 4 layers, d = 256, batch 8 x 128    438.4 / 432.2
 *     lm, the task file's defaults    60.0 / 55.8        lm, 2 layers, context 1024, batch 4     329.5 / 323.4
 *     classifier, batch 512          198.4 / 194.3       lm, 3 layers, d = 512, batch 4          969.3 / 963.9
 *     classifier of paper_ffn        434.9 / 431.4       the last with recomputation             908.2 / 904.7
 *
 * A little more is planned than found because work arrays have room for an expert that all tokens choose.
 */
#define PROGRAM_BYTES (13ull << 20)
#define THREAD_BYTES (1ull << 19)

#define ENVELOPE_BYTES 1200u     /* of an update's statement, base64 of JSON, and the file's head */
#define TENSOR_BYTES 24u         /* codebook and counts of one tensor in an update */
#define STATE_TENSOR_BYTES 100u  /* of a tensor in a safetensors header */
#define MANIFEST_CHUNK_BYTES 67u /* the name of one data chunk in a manifest */
#define MANIFEST_BYTES 2000u     /* the rest of it */
#define KEEPER_VERSIONS 3u       /* that it holds of each shard */

/* What one shard comes to. */
struct measure {
    uint64_t parameters;
    uint64_t tensors;
    uint64_t sent;       /* values of one update */
    uint64_t most_sent;  /* of its largest tensor */
    uint64_t body;       /* bytes of one update's body */
    uint64_t operations; /* of a token that goes through all of it */
};

/* Expected bits of one value sent: a Rice code (r = 5) of its gap, and two bits of code. Gaps are geometric: P(gap > g) = (1 - density)^g. */
static double bits_of_value(double density)
{
    double step = pow(1 - density, 32);
    double carries = density >= 1 ? 0 : step / (1 - step);
    return 1 + 5 + 2 + carries;
}

static struct measure measure_shard(const struct skep_manifest *manifest, struct skep_shard shard)
{
    struct skep_layout layout = {0};
    struct measure measure = {0};
    skep_layout_of(&manifest->model, &shard, &layout);
    measure.parameters = layout.parameters;
    measure.tensors = layout.tensor_count;
    measure.operations = skep_layout_flops_per_token(&layout, &manifest->model);
    measure.body = 4;
    for (size_t i = 0; i < layout.tensor_count; i++) {
        const struct skep_tensor_spec *spec = &layout.tensors[i];
        struct skep_tiling tiling =
            skep_tiling_of(spec->dims, spec->dim_count, manifest->update.keep);
        uint64_t sent = (uint64_t)tiling.blocks * tiling.kept;
        double density = (double)tiling.kept / ((double)tiling.tile_rows * tiling.tile_columns);
        measure.sent += sent;
        measure.most_sent = sent > measure.most_sent ? sent : measure.most_sent;
        measure.body += TENSOR_BYTES + (uint64_t)((double)sent * bits_of_value(density) / 8);
    }
    skep_layout_done(&layout);
    return measure;
}

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t largest_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t state_bytes(const struct measure *shard)
{
    return 4 * shard->parameters + STATE_TENSOR_BYTES * shard->tensors;
}

static uint64_t update_bytes(const struct measure *shard)
{
    return shard->body + ENVELOPE_BYTES;
}

static uint64_t chunk_count(const struct skep_manifest *manifest)
{
    return manifest->train.chunk_count + manifest->heldout.chunk_count;
}

static uint64_t slice_bytes(const struct skep_manifest *manifest)
{
    uint64_t whole = (uint64_t)manifest->training.slice_chunks * manifest->chunk_bytes;
    return manifest->train.chunk_count == 0 ? whole : least_of(whole, manifest->train.size_bytes);
}

/* All shards of a job, or of the project: the trunk and `experts` of the others. */
static uint64_t with_experts(uint64_t trunk, uint64_t expert, uint64_t experts)
{
    return trunk + expert * experts;
}

static struct skep_plan_memory memory_of(const struct skep_manifest *manifest,
                                         const struct skep_plan_options *options,
                                         const struct measure *trunk, const struct measure *expert,
                                         size_t experts)
{
    struct skep_model_options model_options = {.batch = manifest->training.batch,
                                               .recompute = options->recompute};
    struct skep_model_memory model = {0};
    skep_model_memory_of(&manifest->model, &model_options, experts, &model);
    uint64_t threads = options->threads > 1 ? options->threads : 1;
    uint64_t window = skep_model_config_window(&manifest->model);
    const struct measure *largest = trunk->parameters > expert->parameters ? trunk : expert;
    struct skep_plan_memory memory = {
        .program = PROGRAM_BYTES + (threads - 1) * THREAD_BYTES,
        .parameters = model.parameters,
        .gradients = model.gradients,
        .moments = model.moments,
        .activations = model.activations,
        .staging = 2 * sizeof(float) * largest->parameters,
        .update = 3 * largest->sent + 4 * largest->most_sent + 2 * largest->body,
        .data = slice_bytes(manifest) + chunk_count(manifest) * SKEP_ID_SIZE +
                manifest->training.batch * window,
    };
    memory.total = memory.program + memory.parameters + memory.gradients + memory.moments +
                   memory.activations + memory.staging + memory.update + memory.data;
    return memory;
}

static struct skep_plan_disk disk_of(const struct skep_manifest *manifest,
                                     const struct skep_plan *plan, const struct measure *trunk,
                                     const struct measure *expert)
{
    uint64_t parameters = with_experts(plan->trunk, plan->expert, plan->job_experts);
    struct skep_plan_disk disk = {
        .states = with_experts(state_bytes(trunk), state_bytes(expert), plan->job_experts),
        .moments = 8 * parameters,
        .residuals = 4 * parameters,
        .data = slice_bytes(manifest),
        .outbox = with_experts(update_bytes(trunk), update_bytes(expert), plan->job_experts) +
                  12 * parameters,
        .checkpoint = 16 * parameters, /* with the gradients of an update that was stopped within */
    };
    uint64_t work = disk.outbox + disk.checkpoint;
    disk.job = disk.states + disk.moments + disk.residuals + disk.data + work;
    disk.most = with_experts(state_bytes(trunk), state_bytes(expert), plan->experts) +
                12 * plan->all + largest_of(manifest->train.size_bytes, disk.data) + work;
    return disk;
}

static struct skep_plan_keeper keeper_of(const struct skep_manifest *manifest,
                                         const struct measure *shard)
{
    uint64_t round = manifest->merge.most_updates;
    struct skep_plan_keeper keeper = {.state = state_bytes(shard), .update = update_bytes(shard)};
    keeper.disk = KEEPER_VERSIONS * (keeper.state + round * keeper.update) + round * keeper.update;
    /* The state's file, its values and the new file; each update's file, and its values of three bytes. */
    keeper.memory =
        2 * keeper.state + 4 * shard->parameters + round * (keeper.update + 3 * shard->sent);
    return keeper;
}

void skep_plan_of(const struct skep_manifest *manifest, const struct skep_plan_options *options,
                  struct skep_plan *ret_plan)
{
    const struct skep_model_config *model = &manifest->model;
    const struct skep_training_config *training = &manifest->training;
    struct measure trunk = measure_shard(manifest, (struct skep_shard){.kind = SKEP_SHARD_TRUNK});
    struct measure expert = measure_shard(manifest, (struct skep_shard){.kind = SKEP_SHARD_FFN});
    struct skep_plan plan = {.trunk = trunk.parameters, .expert = expert.parameters};
    uint64_t keepers = manifest->keeper_count == 0 ? manifest->replicas : manifest->keeper_count;
    plan.experts = (uint64_t)model->layers * model->rows * model->columns;
    plan.job_experts =
        (uint64_t)model->layers * least_of(training->donor_rows, model->rows) * model->columns;
    plan.all = with_experts(plan.trunk, plan.expert, plan.experts);
    plan.tokens = (uint64_t)training->steps * training->batch * model->context;
    uint64_t of_token = with_experts(trunk.operations, expert.operations,
                                     (uint64_t)model->layers * model->experts_per_token);
    plan.operations = (double)plan.tokens * (double)of_token;
    plan.operations *= options->recompute ? 4.0 / 3 : 1; /* forward is a third */
    plan.copies = (uint32_t)least_of(manifest->replicas, keepers);
    plan.memory = memory_of(manifest, options, &trunk, &expert, (size_t)plan.job_experts);
    plan.disk = disk_of(manifest, &plan, &trunk, &expert);
    plan.down = plan.disk.states + plan.disk.data + MANIFEST_BYTES +
                chunk_count(manifest) * MANIFEST_CHUNK_BYTES * 4 / 3;
    plan.up =
        plan.copies * with_experts(update_bytes(&trunk), update_bytes(&expert), plan.job_experts);
    plan.keeper_trunk = keeper_of(manifest, &trunk);
    plan.keeper_expert = keeper_of(manifest, &expert);
    plan.keeper_disk = with_experts(plan.keeper_trunk.disk, plan.keeper_expert.disk, plan.experts) +
                       manifest->train.size_bytes + manifest->heldout.size_bytes;
    plan.keeper_memory = largest_of(plan.keeper_trunk.memory, plan.keeper_expert.memory);
    *ret_plan = plan;
}

/* A limit that is enough, in the words of the option: whole MiB, or a digit of GiB, rounded up. */
static char *enough(uint64_t bytes)
{
    uint64_t mib = (bytes >> 20) + 1;
    uint64_t tenths = (mib * 10 + 1023) / 1024;
    return mib < 1024 ? skep_format("%lluMiB", (unsigned long long)mib)
                      : skep_format("%llu.%lluGiB", (unsigned long long)(tenths / 10),
                                    (unsigned long long)(tenths % 10));
}

int skep_plan_check(const struct skep_manifest *manifest, uint64_t limit_bytes, uint32_t threads,
                    bool *ret_recompute, struct skep_error *err)
{
    struct skep_plan plan;
    uint64_t needed = UINT64_MAX;
    for (int recompute = 0; recompute < 2; recompute++) {
        struct skep_plan_options options = {.recompute = recompute == 1, .threads = threads};
        skep_plan_of(manifest, &options, &plan);
        if (plan.memory.total <= limit_bytes) {
            *ret_recompute = recompute == 1;
            return SKEP_OK;
        }
        needed = least_of(needed, plan.memory.total);
    }
    char needed_text[SKEP_SIZE_TEXT];
    char limit_text[SKEP_SIZE_TEXT];
    skep_size_format(needed, needed_text);
    skep_size_format(limit_bytes, limit_text);
    char *advice = enough(needed);
    int rc = skep_error_set(err, SKEP_ERR_REFUSED,
                            "this project's jobs need %s of memory, more than your limit of %s; "
                            "raise it with skepd --memory %s or choose another project",
                            needed_text, limit_text, advice);
    free(advice);
    return rc;
}
