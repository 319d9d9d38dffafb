/*
 * How fast the merge is: 10 million parameters in tensors of an expert's and a trunk's shapes, 16 and 64 updates, 64 and 256 values
 * kept of each 4096, one thread. Processor time, best of several runs. The updates' places are half drawn from a common set, as those of
 * donors that train on the same text, and half anywhere.
 *
 *   merge_16, merge_64       the default rule with its report, as keepers merge, in ms; reference: one pass that reads and writes every float of the state
 *   merge_16_mean            plain mean: no clipping, no search for copies
 *   merge_tax_16             default / plain mean
 * Names end in the values kept where they are not 64. --quick does fewer runs.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/merge/merge.h"

#define MOST_UPDATES 64
#define TENSORS 9

static const uint32_t dims[TENSORS][2] = {
    {2048, 512}, {512, 2048}, {2048, 0},    {512, 0},     {1536, 512},
    {512, 512},  {512, 0},    {3072, 1024}, {1024, 3648},
};

struct scene {
    size_t offsets[TENSORS + 1];
    float *parameters;
    float *fresh;
    struct skep_update_body bodies[MOST_UPDATES];
    struct skep_merge_input inputs[MOST_UPDATES];
};

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Draws `kept` places of a tile: with even odds one of a quarter that all updates have in common, or any. */
static void draw_places(struct skep_rng *rng, uint32_t block, uint32_t size, uint32_t kept,
                        uint16_t *ret_indices)
{
    uint8_t taken[SKEP_BLOCK_SIZE] = {0};
    for (uint32_t k = 0; k < kept;) {
        uint64_t drawn = skep_rng_next(rng);
        uint32_t place = (uint32_t)((drawn >> 8) % size);
        place = (drawn & 1) != 0 && size > 4 * kept ? place / 4 * 4 + block % 4 : place;
        place = place < size ? place : size - 1;
        k += taken[place] == 0;
        taken[place] = 1;
    }
    uint32_t written = 0;
    for (uint32_t place = 0; place < size; place++) {
        if (taken[place] != 0) {
            ret_indices[written++] = (uint16_t)place;
        }
    }
}

static void draw_tensor(uint64_t seed, size_t t, uint32_t keep, struct skep_update_tensor *tensor)
{
    struct skep_rng rng = skep_rng_of(seed * 1000 + t);
    tensor->tiling = skep_tiling_of(dims[t], dims[t][1] == 0 ? 1 : 2, keep);
    uint32_t size = tensor->tiling.tile_rows * tensor->tiling.tile_columns;
    uint32_t kept = tensor->tiling.kept;
    size_t sent = (size_t)tensor->tiling.blocks * kept;
    tensor->indices = skep_alloc(sent, sizeof *tensor->indices);
    tensor->codes = skep_alloc(sent, sizeof *tensor->codes);
    for (uint32_t block = 0; block < tensor->tiling.blocks; block++) {
        draw_places(&rng, block, size, kept, tensor->indices + (size_t)block * kept);
    }
    for (size_t i = 0; i < sent; i++) {
        tensor->codes[i] = (uint8_t)(skep_rng_next(&rng) & 3);
    }
    for (int code = 0; code < 4; code++) {
        static const float around[4] = {-2e-3f, -1e-3f, 1e-3f, 2e-3f};
        tensor->codebook[code] = around[code] + 1e-4f * (float)skep_rng_unit(&rng);
    }
}

static void scene_init(struct scene *scene, uint32_t keep)
{
    size_t total = 0;
    for (size_t t = 0; t < TENSORS; t++) {
        scene->offsets[t] = total;
        total += (size_t)dims[t][0] * (dims[t][1] == 0 ? 1 : dims[t][1]);
    }
    scene->offsets[TENSORS] = total;
    scene->parameters = skep_alloc(total, sizeof *scene->parameters);
    scene->fresh = skep_alloc(total, sizeof *scene->fresh);
    struct skep_rng rng = skep_rng_of(1);
    for (size_t i = 0; i < total; i++) {
        scene->fresh[i] = 0.04f * (float)(skep_rng_unit(&rng) - 0.5);
    }
    for (size_t u = 0; u < MOST_UPDATES; u++) {
        scene->bodies[u].tensor_count = TENSORS;
        scene->bodies[u].tensors = skep_alloc(TENSORS, sizeof *scene->bodies[u].tensors);
        for (size_t t = 0; t < TENSORS; t++) {
            draw_tensor(u + 1, t, keep, &scene->bodies[u].tensors[t]);
        }
        scene->inputs[u] = (struct skep_merge_input){.body = &scene->bodies[u]};
        scene->inputs[u].hash.bytes[0] = (uint8_t)(u * 37);
        scene->inputs[u].hash.bytes[1] = (uint8_t)u;
    }
}

static void scene_done(struct scene *scene)
{
    for (size_t u = 0; u < MOST_UPDATES; u++) {
        skep_update_body_done(&scene->bodies[u]);
    }
    free(scene->parameters);
    free(scene->fresh);
}

static double time_merge(const struct scene *scene, size_t count,
                         const struct skep_merge_config *config, bool reported, int runs)
{
    static struct skep_merge_report report;
    const struct skep_merge_shard shard = {scene->parameters, scene->offsets, TENSORS};
    const struct skep_merge_options options = {.config = config, .threads = 1};
    double best = 1e9;
    for (int run = 0; run < runs; run++) {
        memcpy(scene->parameters, scene->fresh, scene->offsets[TENSORS] * sizeof(float));
        struct skep_error err = {0};
        double started = seconds();
        if (skep_merge(&shard, scene->inputs, count, &options, reported ? &report : NULL, &err) !=
            SKEP_OK) {
            fprintf(stderr, "%s\n", err.text);
            exit(1);
        }
        double took = seconds() - started;
        best = took < best ? took : best;
    }
    return 1e3 * best;
}

/* The least that any merge must do: read and write every float once. */
static double time_pass(const struct scene *scene, int runs)
{
    double best = 1e9;
    for (int run = 0; run < runs; run++) {
        double started = seconds();
        for (size_t i = 0; i < scene->offsets[TENSORS]; i++) {
            scene->parameters[i] -= scene->parameters[i] * 0x1p-20f;
        }
        double took = seconds() - started;
        best = took < best ? took : best;
    }
    return 1e3 * best;
}

static void print(const char *name, uint32_t keep, double value, double reference)
{
    char suffix[16] = "";
    if (keep != 64) {
        snprintf(suffix, sizeof suffix, "_keep%u", keep);
    }
    printf("%s%s\t%.1f\tms\t%.1f\t%.1f\n", name, suffix, value, reference, value / reference);
    fflush(stdout);
}

static void measure(uint32_t keep, int runs)
{
    static struct scene scene;
    scene = (struct scene){0};
    scene_init(&scene, keep);
    struct skep_manifest manifest = {0};
    skep_manifest_defaults(&manifest);
    const struct skep_merge_config mean = {.rule = SKEP_MERGE_MEAN, .step_permille = 1000};
    double pass = time_pass(&scene, 5 * runs);
    double plain = time_merge(&scene, 16, &mean, false, runs);
    double robust = time_merge(&scene, 16, &manifest.merge, true, runs);
    print("merge_16_mean", keep, plain, pass);
    print("merge_16", keep, robust, pass);
    print("merge_64", keep, time_merge(&scene, 64, &manifest.merge, true, runs < 3 ? runs : 3),
          pass);
    printf("merge_tax_16%s\t%.2f\tratio\t%.1f\t-\n", keep != 64 ? "_keep256" : "", robust / plain,
           3.0);
    scene_done(&scene);
    skep_manifest_done(&manifest);
}

int main(int argc, char **argv)
{
    int runs = argc > 1 && strcmp(argv[1], "--quick") == 0 ? 3 : 15;
    measure(64, runs);
    measure(256, runs);
    return 0;
}
