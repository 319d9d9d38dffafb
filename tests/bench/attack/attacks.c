#include "tests/bench/attack/attacks.h"

#include <math.h>
#include <string.h>

#include "common/base/alloc.h"

#define BELOW_CEILING 0.99

static double dot(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

static double norm_of(const float *vector, size_t count)
{
    return sqrt(dot(vector, vector, count));
}

static void scale_to(float *vector, size_t count, double norm)
{
    double now = norm_of(vector, count);
    for (size_t i = 0; i < count && now > 0; i++) {
        vector[i] = (float)((double)vector[i] * norm / now);
    }
}

/* Box and Muller's way to a normal deviate. */
static double normal(struct skep_rng *rng)
{
    double radius = sqrt(-2 * log(1 - skep_rng_unit(rng)));
    return radius * cos(6.283185307179586 * skep_rng_unit(rng));
}

static void times(const float *from, double factor, size_t count, float *ret_vector)
{
    for (size_t i = 0; i < count; i++) {
        ret_vector[i] = (float)(factor * (double)from[i]);
    }
}

/* mean - strength * deviation */
static void off_mean(const struct attack_scene *scene, double strength, float *ret_vector)
{
    for (size_t i = 0; i < scene->parameters; i++) {
        ret_vector[i] = (float)((double)scene->mean[i] - strength * (double)scene->deviation[i]);
    }
}

/* ---- forging ---- */

static void sign_flip_1(const struct attack_scene *scene, float *ret_vector)
{
    times(scene->own, -1, scene->parameters, ret_vector);
}

static void sign_flip_10(const struct attack_scene *scene, float *ret_vector)
{
    times(scene->own, -10, scene->parameters, ret_vector);
}

static void sign_flip_1000(const struct attack_scene *scene, float *ret_vector)
{
    times(scene->own, -1000, scene->parameters, ret_vector);
}

static void gaussian(const struct attack_scene *scene, float *ret_vector)
{
    for (size_t i = 0; i < scene->parameters; i++) {
        ret_vector[i] = (float)normal(scene->rng);
    }
    scale_to(ret_vector, scene->parameters, 10 * scene->norm);
}

static void constant(const struct attack_scene *scene, float *ret_vector)
{
    struct skep_rng rng = skep_rng_of(scene->parameters); /* the same for all liars and rounds */
    for (size_t i = 0; i < scene->parameters; i++) {
        ret_vector[i] = (float)normal(&rng);
    }
    scale_to(ret_vector, scene->parameters, 1000 * scene->norm);
}

static void delayed(const struct attack_scene *scene, float *ret_vector)
{
    times(scene->old, 1, scene->parameters, ret_vector);
}

static void ipm(const struct attack_scene *scene, float *ret_vector)
{
    times(scene->mean, -scene->strength, scene->parameters, ret_vector);
}

static void alie(const struct attack_scene *scene, float *ret_vector)
{
    off_mean(scene, scene->strength, ret_vector);
}

static double distance(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double off = (double)a[i] - (double)b[i];
        sum += off * off;
    }
    return sqrt(sum);
}

static double farthest(const struct attack_scene *scene, const float *from)
{
    double most = 0;
    for (size_t i = 0; i < scene->honest_count; i++) {
        most = fmax(most, distance(from, scene->honest[i], scene->parameters));
    }
    return most;
}

/* mean - length * the direction that the strength names: 1 deviation, 2 mean, 3 sign of the mean. */
static void along(const struct attack_scene *scene, double length, float *ret_vector)
{
    for (size_t i = 0; i < scene->parameters; i++) {
        double mean = (double)scene->mean[i];
        double way = scene->strength < 1.5   ? (double)scene->deviation[i]
                     : scene->strength < 2.5 ? mean
                                             : (double)((mean > 0) - (mean < 0)) * scene->norm /
                                                   sqrt((double)scene->parameters);
        ret_vector[i] = (float)(mean - length * way);
    }
}

static void min_max(const struct attack_scene *scene, float *ret_vector)
{
    double spread = 0;
    for (size_t i = 0; i < scene->honest_count; i++) {
        spread = fmax(spread, farthest(scene, scene->honest[i]));
    }
    double low = 0;
    double high = 64;
    for (int step = 0; step < 12; step++) {
        double middle = (low + high) / 2;
        along(scene, middle, ret_vector);
        *(farthest(scene, ret_vector) <= spread ? &low : &high) = middle;
    }
    along(scene, low, ret_vector);
}

static void mimic(const struct attack_scene *scene, float *ret_vector)
{
    times(scene->honest[0], 1, scene->parameters, ret_vector);
}

static void copy_cat(const struct attack_scene *scene, float *ret_vector)
{
    const float *victim = scene->honest[scene->liar % scene->honest_count];
    for (size_t i = 0; i < scene->parameters; i++) {
        ret_vector[i] = (float)((double)victim[i] * (1 + 0.001 * normal(scene->rng)));
    }
}

static void zeros(const struct attack_scene *scene, float *ret_vector)
{
    memset(ret_vector, 0, scene->parameters * sizeof *ret_vector);
}

static void stale(const struct attack_scene *scene, float *ret_vector)
{
    times(scene->first, 1, scene->parameters, ret_vector);
}

static bool is_rare(const struct attack_scene *scene, size_t i)
{
    for (size_t h = 0; h < scene->honest_count; h++) {
        if (scene->honest[h][i] != 0) {
            return false;
        }
    }
    return true;
}

static void rare_coordinate(const struct attack_scene *scene, float *ret_vector)
{
    for (size_t i = 0; i < scene->parameters; i++) {
        ret_vector[i] = is_rare(scene, i) ? -scene->unsent[i] : 0;
    }
    scale_to(ret_vector, scene->parameters, 10 * scene->norm);
}

static void index_stuffing(const struct attack_scene *scene, float *ret_vector)
{
    zeros(scene, ret_vector);
    size_t first = scene->offsets[scene->tensor_count > 1 ? scene->tensor_count - 2 : 0];
    for (size_t i = first; i < scene->parameters; i++) {
        ret_vector[i] = -scene->mean[i];
    }
    scale_to(ret_vector, scene->parameters, 10 * scene->norm);
}

static void chief_flip_10(const struct attack_scene *scene, float *ret_vector)
{
    times(scene->chief, -10, scene->parameters, ret_vector);
}

static void against_mean(const struct attack_scene *scene, float *ret_vector)
{
    times(scene->mean, -1, scene->parameters, ret_vector);
}

/* ---- spoiling ---- */

/* Of each block the largest value goes to the ceiling and all others to 0. */
static void spoil_codebook(const struct attack_scene *scene, struct skep_update_body *body)
{
    float most = (float)(BELOW_CEILING * scene->ceiling);
    for (size_t t = 0; t < body->tensor_count; t++) {
        struct skep_update_tensor *tensor = &body->tensors[t];
        const float old[4] = {tensor->codebook[0], tensor->codebook[1], tensor->codebook[2],
                              tensor->codebook[3]};
        for (uint32_t block = 0; block < tensor->tiling.blocks; block++) {
            uint8_t *codes = tensor->codes + (size_t)block * tensor->tiling.kept;
            uint32_t best = 0;
            for (uint32_t k = 0; k < tensor->tiling.kept; k++) {
                best = fabsf(old[codes[k]]) > fabsf(old[codes[best]]) ? k : best;
            }
            uint8_t code = old[codes[best]] < 0 ? 0 : 3;
            memset(codes, 1, tensor->tiling.kept);
            codes[best] = code;
        }
        memcpy(tensor->codebook, (const float[4]){-most, 0, 0, most}, sizeof old);
    }
}

static void spoil_nan(const struct attack_scene *scene, struct skep_update_body *body)
{
    (void)scene;
    body->tensors[0].codebook[3] = NAN;
}

/* ---- when ---- */

static bool after_half(uint64_t round, uint64_t rounds)
{
    return round >= rounds / 2;
}

static bool every_tenth(uint64_t round, uint64_t rounds)
{
    (void)rounds;
    return round % 10 == 9;
}

#define IPM_STRENGTHS                                                                              \
    {                                                                                              \
        0.1, 0.25, 0.5, 1, 2, 4, 10, 30                                                            \
    }
#define ALIE_STRENGTHS                                                                             \
    {                                                                                              \
        0.1, 0.25, 0.5, 0.75, 1, 1.5, 3, 10                                                        \
    }

static const struct attack attacks[] = {
    {.name = "none", .trains = true},
    {.name = "sign-flip-1", .trains = true, .forge = sign_flip_1},
    {.name = "sign-flip-10", .trains = true, .forge = sign_flip_10},
    {.name = "sign-flip-1000", .trains = true, .forge = sign_flip_1000},
    {.name = "gaussian", .forge = gaussian},
    {.name = "label-flip", .trains = true, .flips = true},
    {.name = "constant", .forge = constant, .disguises = true},
    {.name = "delayed", .trains = true, .forge = delayed},
    {.name = "ipm", .forge = ipm, .disguises = true, .strengths = IPM_STRENGTHS},
    {.name = "ipm-quiet",
     .forge = ipm,
     .disguises = true,
     .quiet = true,
     .strengths = IPM_STRENGTHS},
    {.name = "alie", .forge = alie, .disguises = true, .strengths = ALIE_STRENGTHS},
    {.name = "alie-quiet",
     .forge = alie,
     .disguises = true,
     .quiet = true,
     .strengths = ALIE_STRENGTHS},
    {.name = "min-max", .forge = min_max, .disguises = true, .strengths = {1, 2, 3}},
    {.name = "mimic", .forge = mimic, .disguises = true},
    {.name = "copy-cat", .forge = copy_cat},
    {.name = "zeros", .forge = zeros},
    {.name = "stale", .trains = true, .forge = stale},
    {.name = "rare-coordinate", .trains = true, .forge = rare_coordinate, .disguises = true},
    {.name = "index-stuffing", .forge = index_stuffing, .disguises = true},
    {.name = "codebook", .forge = against_mean, .disguises = true, .spoil = spoil_codebook},
    {.name = "nan", .trains = true, .spoil = spoil_nan},
    {.name = "sleeper", .trains = true, .forge = sign_flip_10, .awake = after_half},
    {.name = "on-off", .trains = true, .forge = sign_flip_10, .awake = every_tenth},
    {.name = "sybil", .trains = true, .forge = chief_flip_10},
};

const struct attack *attack_at(size_t i)
{
    return i < sizeof attacks / sizeof attacks[0] ? &attacks[i] : NULL;
}

const struct attack *attack_find(const char *name)
{
    size_t i = 0;
    while (attack_at(i) != NULL && strcmp(attack_at(i)->name, name) != 0) {
        i++;
    }
    return attack_at(i);
}

/* Another half of the coordinates for each liar, and noise where nothing is left, so that what fills up the largest of a block is his own. */
static void disguise(const struct attack_scene *scene, float *vector)
{
    double size = norm_of(vector, scene->parameters) / sqrt((double)scene->parameters);
    for (size_t i = 0; i < scene->parameters; i++) {
        if (vector[i] == 0 || skep_rng_below(scene->rng, 2) == 0) {
            vector[i] = (float)(0.01 * size * normal(scene->rng));
        }
    }
}

void attack_forge(const struct attack *attack, const struct attack_scene *scene, float *ret_vector)
{
    float most = (float)(BELOW_CEILING * scene->ceiling);
    attack->forge(scene, ret_vector);
    if (attack->disguises) {
        disguise(scene, ret_vector);
    }
    for (size_t i = 0; i < scene->parameters; i++) {
        ret_vector[i] = fmaxf(-most, fminf(most, ret_vector[i]));
    }
}
