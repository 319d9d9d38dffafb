#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "tests/bench/attack/cell.h"

/* Honest updates of one shard, expanded, and what they have in common. */
struct crowd {
    size_t count;
    float *vectors[LAB_DONORS];
    float *mean;
    float *deviation;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double lower_median(double *values, size_t count)
{
    qsort(values, count, sizeof values[0], by_value);
    return count > 0 ? values[(count - 1) / 2] : 0;
}

static double median_norm(const struct crowd *crowd, size_t parameters)
{
    double norms[LAB_DONORS] = {0};
    for (size_t h = 0; h < crowd->count; h++) {
        for (size_t p = 0; p < parameters; p++) {
            norms[h] += (double)crowd->vectors[h][p] * (double)crowd->vectors[h][p];
        }
    }
    return sqrt(lower_median(norms, crowd->count));
}

static void measure_crowd(struct crowd *crowd, size_t parameters)
{
    crowd->mean = skep_alloc(parameters, sizeof(float));
    crowd->deviation = skep_alloc(parameters, sizeof(float));
    for (size_t p = 0; p < parameters && crowd->count > 0; p++) {
        double sum = 0;
        double squares = 0;
        for (size_t h = 0; h < crowd->count; h++) {
            sum += (double)crowd->vectors[h][p];
            squares += (double)crowd->vectors[h][p] * (double)crowd->vectors[h][p];
        }
        double mean = sum / (double)crowd->count;
        crowd->mean[p] = (float)mean;
        crowd->deviation[p] = (float)sqrt(fmax(squares / (double)crowd->count - mean * mean, 0));
    }
}

static void look_at_crowd(struct cell *cell, size_t shard, struct crowd *crowd)
{
    size_t parameters = cell->lab.shards[shard].layout.parameters;
    *crowd = (struct crowd){0};
    for (size_t d = 0; d < cell->donors; d++) {
        if (!cell->lying[d] && cell->bodies[d][shard].tensors != NULL) {
            float *vector = skep_alloc(parameters, sizeof *vector);
            lab_expand(&cell->lab, shard, &cell->bodies[d][shard], vector);
            crowd->vectors[crowd->count++] = vector;
        }
    }
    measure_crowd(crowd, parameters);
}

static void leave_crowd(struct crowd *crowd)
{
    for (size_t h = 0; h < crowd->count; h++) {
        free(crowd->vectors[h]);
    }
    free(crowd->mean);
    free(crowd->deviation);
}

static struct attack_scene scene_of(const struct cell *cell, size_t shard,
                                    const struct crowd *crowd)
{
    const struct lab_shard *kept = &cell->lab.shards[shard];
    return (struct attack_scene){.parameters = kept->layout.parameters,
                                 .tensor_count = kept->layout.tensor_count,
                                 .offsets = kept->offsets,
                                 .honest_count = crowd->count,
                                 .honest = crowd->vectors,
                                 .mean = crowd->mean,
                                 .deviation = crowd->deviation,
                                 .norm = median_norm(crowd, kept->layout.parameters),
                                 .ceiling = cell->manifest.update.scale_ceiling,
                                 .unsent = cell->lab.donors[0].residuals[shard]};
}

static void forge(struct cell *cell, size_t d, size_t shard, struct attack_scene scene)
{
    struct skep_error err = {0};
    uint64_t now = cell->lab.version;
    struct skep_update_body *body = &cell->bodies[d][shard];
    scene.liar = d;
    scene.rng = &cell->rngs[d];
    if (cell->attack->trains) {
        scene.own = cell_past(cell, d, shard, now);
        scene.old = cell_past(cell, d, shard, now > ATTACK_DELAY ? now - ATTACK_DELAY : 0);
        scene.first = cell_past(cell, d, shard, 0);
        scene.chief = cell_past(cell, 0, shard, now);
    }
    if (cell->attack->forge != NULL) {
        float *vector = skep_alloc(scene.parameters, sizeof *vector);
        attack_forge(cell->attack, &scene, vector);
        skep_update_body_done(body);
        *body = (struct skep_update_body){0};
        if (lab_compress_alone(&cell->lab, shard, vector, body, &err) != 0) {
            cell_die(&err);
        }
        free(vector);
    }
    if (cell->attack->spoil != NULL) {
        cell->attack->spoil(&scene, body);
    }
}

static void forge_all(struct cell *cell, size_t shard, const struct attack_scene *scene)
{
    for (size_t d = 0; d < cell->liars; d++) {
        if (cell->lying[d]) {
            forge(cell, d, shard, *scene);
        }
    }
}

/* Would these liars be noticed? Their mean agreement against a quarter of the honest median: common/merge/standing.h. */
static bool is_quiet(const struct cell *cell, const struct cell_intake *intake)
{
    double honest[LAB_DONORS];
    size_t count = 0;
    double sum = 0;
    for (size_t i = 0; i < intake->count; i++) {
        double agreement = (double)intake->report.inputs[i].agreement_permille;
        if (cell->lying[intake->donors[i]]) {
            sum += agreement;
        } else {
            honest[count++] = agreement;
        }
    }
    double liars = (double)(intake->count - count);
    return liars == 0 || sum / liars >= lower_median(honest, count) / 4;
}

/* How far the step that would follow goes against the honest mean: what a searching liar wants to be large. */
static double damage_of(struct cell *cell, size_t shard, const struct attack_scene *scene)
{
    struct cell_intake *intake = skep_alloc(1, sizeof *intake);
    const float *before = cell->lab.shards[shard].parameters;
    float *after = skep_alloc(scene->parameters, sizeof *after);
    memcpy(after, before, scene->parameters * sizeof *after);
    cell_merge(cell, shard, intake, 0, after);
    double along = 0;
    for (size_t p = 0; p < scene->parameters; p++) {
        along += ((double)before[p] - (double)after[p]) * (double)scene->mean[p];
    }
    bool shows = cell->attack->quiet && !is_quiet(cell, intake);
    cell_let_go(intake);
    free(intake);
    free(after);
    return shows ? -INFINITY : -along;
}

void cell_lie(struct cell *cell, size_t shard)
{
    struct crowd crowd;
    look_at_crowd(cell, shard, &crowd);
    struct attack_scene scene = scene_of(cell, shard, &crowd);
    const double *strengths = cell->attack->strengths;
    uint64_t refused = cell->refused;
    double best_strength = strengths[0];
    double best = -INFINITY;
    for (size_t s = 0; s < ATTACK_STRENGTHS && strengths[s] > 0; s++) {
        scene.strength = strengths[s];
        forge_all(cell, shard, &scene);
        double found = damage_of(cell, shard, &scene);
        best_strength = found > best ? strengths[s] : best_strength;
        best = fmax(best, found);
    }
    cell->refused = refused;
    scene.strength = best_strength;
    forge_all(cell, shard, &scene);
    leave_crowd(&crowd);
}
