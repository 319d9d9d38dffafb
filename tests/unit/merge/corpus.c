#include "tests/unit/merge/corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/base/rng.h"

#define SIGN 0x80000000u
#define FNV_START 0xcbf29ce484222325u
#define FNV_PRIME 0x100000001b3u
#define COLUMNS 16

static const char *const rules[SKEP_MERGE_RULES] = {
    [SKEP_MERGE_MEAN] = "mean",
    [SKEP_MERGE_COORDINATE_MEDIAN] = "coordinate_median",
    [SKEP_MERGE_TRIMMED_MEAN] = "trimmed_mean",
    [SKEP_MERGE_KRUM] = "krum",
    [SKEP_MERGE_MULTI_KRUM] = "multi_krum",
    [SKEP_MERGE_GEOMETRIC_MEDIAN] = "geometric_median",
    [SKEP_MERGE_CENTERED_CLIP] = "centered_clip",
    [SKEP_MERGE_NNM_TRIMMED_MEAN] = "nnm_trimmed_mean",
    [SKEP_MERGE_NNM_GEOMETRIC_MEDIAN] = "nnm_geometric_median",
};

/* ---- reading a line ---- */

bool corpus_line_parse(const char *text, struct corpus_line *ret_line)
{
    struct corpus_line line = {0};
    int found =
        sscanf(text, "%47s %u %u %47s %47s %47s %u %u %u %u %lu %u %lu %47s %16lx %16lx", line.rule,
               &line.n, &line.keep, line.shapes, line.style, line.staleness, &line.liars_permille,
               &line.clip_permille, &line.overlap_permille, &line.step_permille, &line.norm_limit,
               &line.halvings, &line.seed, line.result, &line.state, &line.report);
    if (found != COLUMNS || line.n == 0 || line.n > SKEP_LIMIT_UPDATES_PER_ROUND) {
        return false;
    }
    *ret_line = line;
    return true;
}

static bool rule_of(const char *name, enum skep_merge_rule *ret_rule)
{
    for (size_t i = 0; i < SKEP_MERGE_RULES; i++) {
        if (strcmp(name, rules[i]) == 0) {
            *ret_rule = (enum skep_merge_rule)i;
            return true;
        }
    }
    return false;
}

/* Shapes like 64x128,96,1: the tensors of the shard. */
static bool read_shapes(const char *text, uint32_t keep, struct corpus_case *corpus_case)
{
    while (*text != 0 && corpus_case->tensor_count < CORPUS_TENSORS_MOST) {
        uint32_t dims[2] = {0};
        uint32_t dim_count = 0;
        char *end = NULL;
        do {
            dims[dim_count++] = (uint32_t)strtoul(text, &end, 10);
            if (end == text || dims[dim_count - 1] == 0) {
                return false;
            }
            text = end + (*end != 0);
        } while (*end == 'x' && dim_count < 2);
        size_t t = corpus_case->tensor_count++;
        struct skep_tiling tiling = skep_tiling_of(dims, dim_count, keep);
        corpus_case->tilings[t] = tiling;
        corpus_case->offsets[t + 1] =
            corpus_case->offsets[t] + (size_t)tiling.rows * tiling.columns;
    }
    return *text == 0;
}

/* ---- numbers ---- */

/* value * 2^exponent as float32: exact, for value has at most 24 bits and the result is an ordinary number. */
static float float_of(int32_t value, int32_t exponent)
{
    uint32_t magnitude = (uint32_t)(value < 0 ? -value : value);
    uint32_t bits = 0;
    if (magnitude != 0) {
        int32_t top = 31 - __builtin_clz(magnitude);
        bits = (uint32_t)(top + exponent + 127) << 23 | ((magnitude << (23 - top)) & 0x7fffff);
    }
    bits |= value < 0 ? SIGN : 0;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

static float float_of_bits(uint32_t bits)
{
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

/* ---- the state ---- */

static float state_value(const char *style, struct skep_rng *rng, size_t i)
{
    float value = float_of((int32_t)skep_rng_below(rng, 1 << 24) - (1 << 23), -28);
    if (strcmp(style, "zeros") == 0 && i % 3 == 0) {
        return float_of_bits(SIGN);
    }
    if (strcmp(style, "extreme") == 0 && i % 7 == 0) {
        return float_of(i % 2 == 0 ? 1 : -1, 20);
    }
    if (strcmp(style, "extreme") == 0 && i % 7 == 1) {
        return float_of_bits((uint32_t)i % 100); /* 0 and denormals */
    }
    return value;
}

/* ---- updates ---- */

static void draw_codebook(struct skep_rng *rng, float *ret_codebook)
{
    for (int c = 0; c < 4; c++) {
        int32_t magnitude = (1 << 18) + (int32_t)skep_rng_below(rng, 1 << 20);
        ret_codebook[c] = float_of(c < 2 ? -magnitude : magnitude, -30);
    }
    for (int c = 0; c < 4; c += 2) {
        if (ret_codebook[c] > ret_codebook[c + 1]) {
            float swapped = ret_codebook[c];
            ret_codebook[c] = ret_codebook[c + 1];
            ret_codebook[c + 1] = swapped;
        }
    }
}

/* What a style makes of update i's codebook. */
static void bend_codebook(const char *style, size_t i, float *codebook)
{
    static const float tied[4] = {-0x1p-10F, -0x1p-11F, 0x1p-11F, 0x1p-10F};
    static const uint32_t zeros[4] = {SIGN, 0, SIGN, 0};
    static const uint32_t largest[4] = {0xff7fffff, 0xc8000000, 0x48000000, 0x7f7fffff};
    static const uint32_t smallest[4] = {0x80800000, 0x80000001, 0x00000001, 0x00800000};
    for (int c = 0; c < 4; c++) {
        if (strcmp(style, "ties") == 0) {
            codebook[c] = tied[c];
        } else if (strcmp(style, "zeros") == 0 && i % 3 == 0) {
            codebook[c] = float_of_bits(zeros[c]);
        } else if (strcmp(style, "zeros") == 0 && c == 1) {
            codebook[c] = float_of_bits(SIGN);
        } else if (strcmp(style, "extreme") == 0 && i % 4 == 0) {
            codebook[c] = float_of_bits(largest[c]);
        } else if (strcmp(style, "extreme") == 0 && i % 4 == 1) {
            codebook[c] = float_of_bits(smallest[c]);
        } else if (strcmp(style, "far") == 0 && i % 4 == 3) {
            codebook[c] *= 1024; /* exact */
        }
    }
}

/* Chooses `kept` of the tile's places (selection sampling), and codes that agree with the other updates' in 3 of 4 cases. */
static void draw_block(struct skep_rng *rng, uint32_t block, struct skep_update_tensor *tensor)
{
    const struct skep_tiling *tiling = &tensor->tiling;
    uint32_t size = tiling->tile_rows * tiling->tile_columns;
    uint16_t *indices = tensor->indices + (size_t)block * tiling->kept;
    uint8_t *codes = tensor->codes + (size_t)block * tiling->kept;
    uint32_t chosen = 0;
    for (uint32_t place = 0; place < size && chosen < tiling->kept; place++) {
        if (skep_rng_below(rng, size - place) < tiling->kept - chosen) {
            indices[chosen++] = (uint16_t)place;
        }
    }
    for (uint32_t k = 0; k < tiling->kept; k++) {
        uint64_t drawn = skep_rng_below(rng, 8);
        uint32_t side = (indices[k] * 7u + block) % 2;
        side = drawn < 6 ? side : 1 - side;
        codes[k] = (uint8_t)(2 * side + drawn % 2);
    }
}

static void copy_places(const struct skep_update_tensor *from, struct skep_update_tensor *to)
{
    size_t count = (size_t)to->tiling.blocks * to->tiling.kept;
    memcpy(to->indices, from->indices, count * sizeof *to->indices);
    memcpy(to->codes, from->codes, count);
}

/* Whether every second update repeats the one before. */
static bool copies_of_style(const char *style)
{
    return strcmp(style, "ties") == 0 || strcmp(style, "copies") == 0 ||
           strcmp(style, "near") == 0 || strcmp(style, "out") == 0;
}

static void draw_tensor(const char *style, size_t i, size_t t, struct skep_rng *rng,
                        struct corpus_case *corpus_case)
{
    struct skep_update_tensor *tensor = &corpus_case->bodies[i].tensors[t];
    tensor->tiling = corpus_case->tilings[t];
    size_t count = (size_t)tensor->tiling.blocks * tensor->tiling.kept;
    tensor->indices = skep_alloc(count, sizeof *tensor->indices);
    tensor->codes = skep_alloc(count, 1);
    draw_codebook(rng, tensor->codebook);
    bend_codebook(style, i, tensor->codebook);
    if (copies_of_style(style) && i % 2 == 1) {
        copy_places(&corpus_case->bodies[i - 1].tensors[t], tensor);
        for (size_t k = 0; strcmp(style, "near") == 0 && k < count; k++) {
            tensor->codes[k] =
                skep_rng_below(rng, 4) == 0 ? 3 - tensor->codes[k] : tensor->codes[k];
        }
        return;
    }
    if (strcmp(style, "mask") == 0 && i > 0) {
        copy_places(&corpus_case->bodies[0].tensors[t], tensor);
    } else {
        for (uint32_t block = 0; block < tensor->tiling.blocks; block++) {
            draw_block(rng, block, tensor);
        }
    }
    if (strcmp(style, "mask") == 0) {
        for (size_t k = 0; k < count; k++) {
            tensor->codes[k] = (uint8_t)skep_rng_below(rng, 4);
        }
    }
}

/* Of "far" every fourth update is a liar: larger (its codebook), and against what the others say. */
static void turn_codes(struct skep_update_tensor *tensor)
{
    size_t count = (size_t)tensor->tiling.blocks * tensor->tiling.kept;
    for (size_t k = 0; k < count; k++) {
        tensor->codes[k] = 3 - tensor->codes[k];
    }
}

static void draw_update(const struct corpus_line *line, size_t i, struct skep_rng *rng,
                        struct corpus_case *corpus_case)
{
    struct skep_merge_input *input = &corpus_case->inputs[i];
    struct skep_update_body *body = &corpus_case->bodies[i];
    for (size_t word = 0; word < sizeof input->hash.bytes / 8; word++) {
        skep_put_u64(input->hash.bytes + 8 * word, skep_rng_next(rng));
    }
    input->body = body;
    input->staleness = strcmp(line->staleness, "mixed") == 0 ? (uint32_t)i % 3 : 0;
    input->left_out =
        strcmp(line->style, "none") == 0 || (strcmp(line->style, "out") == 0 && i % 4 == 3);
    body->tensor_count = corpus_case->tensor_count;
    body->tensors = skep_alloc(body->tensor_count, sizeof *body->tensors);
    for (size_t t = 0; t < body->tensor_count; t++) {
        draw_tensor(line->style, i, t, rng, corpus_case);
        if (strcmp(line->style, "far") == 0 && i % 4 == 3) {
            turn_codes(&body->tensors[t]);
        }
    }
}

static bool is_style(const char *name)
{
    static const char *const styles[] = {"plain", "mask",    "ties", "copies", "near",
                                         "zeros", "extreme", "far",  "out",    "none"};
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++) {
        if (strcmp(name, styles[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool corpus_case_init(const struct corpus_line *line, struct corpus_case *ret_case)
{
    bool fresh = strcmp(line->staleness, "fresh") == 0;
    if (!rule_of(line->rule, &ret_case->config.rule) || !is_style(line->style) ||
        (!fresh && strcmp(line->staleness, "mixed") != 0) ||
        !read_shapes(line->shapes, line->keep, ret_case)) {
        return false;
    }
    ret_case->config.liars_permille = line->liars_permille;
    ret_case->config.clip_permille = line->clip_permille;
    ret_case->config.overlap_permille = line->overlap_permille;
    ret_case->config.step_permille = line->step_permille;
    ret_case->options.config = &ret_case->config;
    ret_case->options.norm_limit = line->norm_limit;
    ret_case->options.halvings = line->halvings;
    ret_case->options.threads = 1;
    ret_case->n = line->n;

    struct skep_rng rng = skep_rng_of(line->seed);
    size_t size = ret_case->offsets[ret_case->tensor_count];
    ret_case->state = skep_alloc(size, sizeof *ret_case->state);
    for (size_t i = 0; i < size; i++) {
        ret_case->state[i] = state_value(line->style, &rng, i);
    }
    for (size_t i = 0; i < line->n; i++) {
        draw_update(line, i, &rng, ret_case);
    }
    return true;
}

void corpus_case_done(struct corpus_case *corpus_case)
{
    for (size_t i = 0; i < corpus_case->n; i++) {
        skep_update_body_done(&corpus_case->bodies[i]);
    }
    free(corpus_case->state);
}

/* ---- merging ---- */

static void fold(uint64_t *hash, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        *hash = (*hash ^ bytes[i]) * FNV_PRIME;
    }
}

static void fold_number(uint64_t *hash, uint64_t number)
{
    uint8_t bytes[8];
    skep_put_u64(bytes, number);
    fold(hash, bytes, sizeof bytes);
}

static uint64_t fingerprint_of_state(const float *state, size_t size)
{
    uint64_t hash = FNV_START;
    for (size_t i = 0; i < size; i++) {
        uint8_t bytes[4];
        skep_put_f32(bytes, state[i]);
        fold(&hash, bytes, sizeof bytes);
    }
    return hash;
}

/* The inputs' verdicts in the case's order, whatever order the merge saw, then the round's numbers. */
static uint64_t fingerprint_of_report(const struct skep_merge_report *report, const size_t *places,
                                      size_t n)
{
    uint64_t hash = FNV_START;
    for (size_t i = 0; i < n; i++) {
        const struct skep_merge_verdict *verdict = &report->inputs[places[i]];
        uint64_t copy_of = SKEP_MERGE_NO_COPY;
        for (size_t j = 0; j < n; j++) {
            copy_of = verdict->copy_of == places[j] ? j : copy_of;
        }
        fold_number(&hash, verdict->norm);
        fold_number(&hash, verdict->merged);
        fold_number(&hash, verdict->clip_ratio);
        fold_number(&hash, copy_of);
        fold_number(&hash, (uint64_t)(int64_t)verdict->cosine_permille);
        fold_number(&hash, (uint64_t)(int64_t)verdict->agreement_permille);
    }
    fold_number(&hash, report->counted);
    fold_number(&hash, report->liars);
    fold_number(&hash, report->median_norm);
    fold_number(&hash, report->step_norm);
    return hash;
}

void corpus_case_merge(const struct corpus_case *corpus_case, const size_t *places,
                       uint32_t threads, struct corpus_line *line)
{
    size_t size = corpus_case->offsets[corpus_case->tensor_count];
    float *state = skep_alloc(size, sizeof *state);
    struct skep_merge_report *report = skep_alloc(1, sizeof *report);
    struct skep_merge_input inputs[SKEP_LIMIT_UPDATES_PER_ROUND];
    struct skep_merge_options options = corpus_case->options;
    struct skep_merge_shard shard = {state, corpus_case->offsets, corpus_case->tensor_count};
    memcpy(state, corpus_case->state, size * sizeof *state);
    for (size_t i = 0; i < corpus_case->n; i++) {
        inputs[places[i]] = corpus_case->inputs[i];
    }
    options.threads = threads;
    int rc = skep_merge(&shard, inputs, corpus_case->n, &options, report, NULL);
    snprintf(line->result, sizeof line->result, "%s", skep_err_name((enum skep_err)rc));
    line->state = fingerprint_of_state(state, size);
    line->report = rc == SKEP_OK ? fingerprint_of_report(report, places, corpus_case->n) : 0;
    free(report);
    free(state);
}
