/*
 * Sweep: the life of the `lm` in one process without any network, on real text. Donors draw tickets, choose rows, train H steps,
 * compress; the keeper's merge makes the next version. Everything but transport is the real code, so a setting can be judged
 * at equal tokens in minutes. With --donors 0 one process trains the same model on the same data, uncompressed: the yardstick.
 *
 *   sweep-lm --data FILE [--tokens N] [--donors N] [--steps H] [--alpha PERMILLE] [--route document|token] ...
 *
 * One line per figure: name, value, unit, reference, ratio; the curve (tokens, seconds, bits per byte) goes to stderr.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/crypto/hash.h"
#include "common/merge/compress.h"
#include "common/merge/merge.h"
#include "common/model/layout.h"
#include "common/model/train.h"
#include "common/swarm/ticket.h"
#include "common/wire/manifest.h"

#define MOST_DONORS 16
#define ROW_SAMPLE 32 /* windows of the slice that are scored for rows */

/* A shard as the keepers see it. */
struct shard_state {
    struct skep_shard shard;
    struct skep_layout layout;
    struct skep_tiling *tilings;
    size_t *offsets;
    float *parameters;
    struct skep_update_body bodies[MOST_DONORS];
    size_t waiting;
};

struct donor {
    struct skep_peer_id id;
    struct skep_moments *moments; /* per shard, made when first needed */
    float **residuals;
};

struct sweep {
    struct skep_manifest manifest;
    char *data_path;
    uint64_t tokens_wanted;
    unsigned donor_count;
    unsigned points; /* places of the curve */
    size_t eval_bytes;
    uint8_t *train;
    size_t train_size;
    uint8_t *heldout;
    size_t heldout_size;
    size_t shard_count;
    struct shard_state *shards;
    struct donor donors[MOST_DONORS];
    struct skep_model *lm;
    uint64_t version;
    uint64_t tokens;
    double train_s;
    uint64_t update_bytes;
    uint64_t updates;
};

static void die(const struct skep_error *err)
{
    fprintf(stderr, "sweep-lm: %s\n", err->text);
    exit(1);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Every `every`-th line is held out, as `skep project publish` does. */
static void load(struct sweep *sweep, unsigned every)
{
    FILE *file = fopen(sweep->data_path, "rb");
    if (file == NULL) {
        perror(sweep->data_path);
        exit(1);
    }
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    uint8_t *text = skep_alloc(size, 1);
    if (fread(text, 1, size, file) != size) {
        perror(sweep->data_path);
        exit(1);
    }
    fclose(file);
    sweep->train = skep_alloc(size, 1);
    sweep->heldout = skep_alloc(size, 1);
    size_t start = 0;
    unsigned line = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] != '\n' && i + 1 < size) {
            continue;
        }
        bool held = every != 0 && ++line % every == 0;
        uint8_t *to =
            held ? sweep->heldout + sweep->heldout_size : sweep->train + sweep->train_size;
        memcpy(to, text + start, i + 1 - start);
        *(held ? &sweep->heldout_size : &sweep->train_size) += i + 1 - start;
        start = i + 1;
    }
    free(text);
    if (sweep->eval_bytes == 0 || sweep->eval_bytes > sweep->heldout_size) {
        sweep->eval_bytes = sweep->heldout_size;
    }
}

static void make_shards(struct sweep *sweep)
{
    const struct skep_manifest *manifest = &sweep->manifest;
    sweep->shard_count = skep_manifest_shard_count(manifest);
    sweep->shards = skep_alloc(sweep->shard_count, sizeof *sweep->shards);
    for (size_t i = 0; i < sweep->shard_count; i++) {
        struct shard_state *state = &sweep->shards[i];
        state->shard = skep_manifest_shard(manifest, i);
        skep_layout_of(&manifest->model, &state->shard, &state->layout);
        size_t count = state->layout.tensor_count;
        state->tilings = skep_alloc(count, sizeof *state->tilings);
        state->offsets = skep_alloc(count + 1, sizeof *state->offsets);
        for (size_t t = 0; t < count; t++) {
            const struct skep_tensor_spec *spec = &state->layout.tensors[t];
            state->tilings[t] = skep_tiling_of(spec->dims, spec->dim_count, manifest->update.keep);
            state->offsets[t] = spec->offset;
        }
        state->offsets[count] = state->layout.parameters;
        state->parameters = skep_alloc(state->layout.parameters, sizeof(float));
        skep_layout_seed(&state->layout, &manifest->model, &manifest->seed, state->parameters);
    }
    for (unsigned d = 0; d < MOST_DONORS; d++) {
        memset(sweep->donors[d].id.bytes, (int)d + 1, SKEP_ID_SIZE);
        sweep->donors[d].moments = skep_alloc(sweep->shard_count, sizeof(struct skep_moments));
        sweep->donors[d].residuals = skep_alloc(sweep->shard_count, sizeof(float *));
    }
}

/* The slice of a ticket as chunks of the training text. */
static size_t cut_slice(const struct sweep *sweep, const struct skep_hash *ticket,
                        struct skep_slice_chunk *ret_chunks)
{
    size_t chunk = sweep->manifest.chunk_bytes;
    size_t chunk_count = (sweep->train_size + chunk - 1) / chunk;
    size_t places[64];
    size_t count =
        skep_ticket_slice(ticket, chunk_count, sweep->manifest.training.slice_chunks, places);
    for (size_t i = 0; i < count; i++) {
        size_t start = places[i] * chunk;
        size_t left = sweep->train_size - start;
        ret_chunks[i] =
            (struct skep_slice_chunk){sweep->train + start, left < chunk ? left : chunk};
    }
    return count;
}

/* The donor_rows rows per layer that most windows of the slice like best. */
static void choose_rows(struct sweep *sweep, const struct skep_hash *ticket,
                        const struct skep_slice_chunk *chunks, size_t chunk_count, bool *ret_rows)
{
    const struct skep_model_config *model = &sweep->manifest.model;
    uint32_t *votes = skep_alloc((size_t)model->layers * model->rows, sizeof *votes);
    float *scores = skep_alloc((size_t)model->layers * model->rows, sizeof *scores);
    uint8_t *tokens = skep_alloc((size_t)ROW_SAMPLE * model->context, 1);
    struct skep_error err = {0};
    if (skep_slice_batch(model, chunks, chunk_count, ticket, 0, ROW_SAMPLE, tokens, &err) != 0) {
        die(&err);
    }
    for (unsigned w = 0; w < ROW_SAMPLE; w++) {
        if (skep_model_score_rows(sweep->lm, tokens + (size_t)w * model->context, 1, scores,
                                  &err) != 0) {
            die(&err);
        }
        for (uint32_t l = 0; l < model->layers; l++) {
            uint32_t best = 0;
            for (uint32_t r = 1; r < model->rows; r++) {
                best = scores[l * model->rows + r] > scores[l * model->rows + best] ? r : best;
            }
            votes[l * model->rows + best]++;
        }
    }
    struct skep_rng rng = skep_rng_of_bytes(ticket->bytes, sizeof ticket->bytes);
    memset(ret_rows, 0, (size_t)model->layers * model->rows);
    for (uint32_t l = 0; l < model->layers; l++) {
        for (uint32_t n = 0; n < sweep->manifest.training.donor_rows; n++) {
            uint32_t best = UINT32_MAX;
            for (uint32_t r = 0; r < model->rows; r++) {
                bool better = best == UINT32_MAX ||
                              votes[l * model->rows + r] > votes[l * model->rows + best];
                if (!ret_rows[l * model->rows + r] && better) {
                    best = r;
                }
            }
            if (model->route == SKEP_ROUTE_TOKEN) { /* nothing to score: a row by lot */
                do {
                    best = (uint32_t)skep_rng_below(&rng, model->rows);
                } while (ret_rows[l * model->rows + best]);
            }
            ret_rows[l * model->rows + best] = true;
        }
    }
    free(votes);
    free(scores);
    free(tokens);
}

/* Loads the trunk and the experts of the chosen rows; returns how many shards, in ret_picked by index. */
static size_t load_shards(struct sweep *sweep, const bool *rows, size_t *ret_picked)
{
    size_t count = 0;
    for (size_t i = 0; i < sweep->shard_count; i++) {
        const struct shard_state *state = &sweep->shards[i];
        bool wanted = state->shard.kind == SKEP_SHARD_TRUNK || rows == NULL ||
                      rows[state->shard.layer * sweep->manifest.model.rows + state->shard.row];
        if (wanted) {
            skep_model_set(sweep->lm, &state->shard, state->parameters);
            ret_picked[count++] = i;
        } else {
            skep_model_drop(sweep->lm, &state->shard);
        }
    }
    return count;
}

static void compress_shard(struct sweep *sweep, struct donor *donor, size_t index)
{
    struct shard_state *state = &sweep->shards[index];
    size_t count = state->layout.parameters;
    if (donor->residuals[index] == NULL) {
        donor->residuals[index] = skep_alloc(count, sizeof(float));
    }
    float *delta = skep_alloc(count, sizeof *delta);
    skep_model_get(sweep->lm, &state->shard, delta);
    for (size_t i = 0; i < count; i++) {
        delta[i] = state->parameters[i] - delta[i];
    }
    struct skep_update_body *body = &state->bodies[state->waiting++];
    body->tensor_count = state->layout.tensor_count;
    body->tensors = skep_alloc(body->tensor_count, sizeof *body->tensors);
    struct skep_error err = {0};
    float decay = (float)sweep->manifest.update.error_decay_permille / 1000;
    for (size_t t = 0; t < body->tensor_count; t++) {
        size_t at = state->offsets[t];
        if (skep_compress_tensor(&state->tilings[t], decay, delta + at,
                                 donor->residuals[index] + at, &body->tensors[t], &err) != 0) {
            die(&err);
        }
    }
    struct skep_buffer bytes = {0};
    skep_update_body_encode(body, &bytes);
    sweep->update_bytes += bytes.size;
    sweep->updates++;
    skep_buffer_done(&bytes);
    free(delta);
}

/* One donor's job on the newest versions. */
static void run_job(struct sweep *sweep, unsigned number)
{
    struct donor *donor = &sweep->donors[number];
    struct skep_hash beacon = skep_hash_of(&sweep->version, sizeof sweep->version);
    struct skep_hash ticket = skep_ticket_of(&beacon, &donor->id, sweep->version);
    struct skep_slice_chunk chunks[64];
    size_t chunk_count = cut_slice(sweep, &ticket, chunks);
    bool *rows = NULL;
    size_t *picked = skep_alloc(sweep->shard_count, sizeof *picked);
    if (sweep->donor_count > 0) {
        rows = skep_alloc((size_t)sweep->manifest.model.layers * sweep->manifest.model.rows,
                          sizeof *rows);
        skep_model_set(sweep->lm, &sweep->shards[0].shard, sweep->shards[0].parameters);
        choose_rows(sweep, &ticket, chunks, chunk_count, rows);
    }
    size_t count = load_shards(sweep, rows, picked);
    struct skep_shard *shards = skep_alloc(count, sizeof *shards);
    struct skep_moments *moments = skep_alloc(count, sizeof *moments);
    for (size_t i = 0; i < count; i++) {
        shards[i] = sweep->shards[picked[i]].shard;
        struct skep_moments *own = &donor->moments[picked[i]];
        if (own->first == NULL) {
            struct skep_error err = {0};
            if (skep_moments_init(own, NULL, sweep->shards[picked[i]].layout.parameters, &err) !=
                0) {
                die(&err);
            }
        }
        moments[i] = *own;
    }
    double started = seconds();
    struct skep_error err = {0};
    struct skep_train_position position = {0};
    struct skep_train_job job = {.training = &sweep->manifest.training,
                                 .learning_rate =
                                     skep_train_rate(&sweep->manifest.training, sweep->version),
                                 .shards = shards,
                                 .moments = moments,
                                 .shard_count = count,
                                 .chunks = chunks,
                                 .chunk_count = chunk_count,
                                 .ticket = &ticket};
    if (skep_train_run(sweep->lm, &job, &position, &err) != 0) {
        die(&err);
    }
    sweep->train_s += seconds() - started;
    sweep->tokens += position.tokens;
    for (size_t i = 0; i < count; i++) {
        donor->moments[picked[i]] = moments[i];
        if (sweep->donor_count > 0) {
            compress_shard(sweep, donor, picked[i]);
        } else {
            struct shard_state *state = &sweep->shards[picked[i]];
            skep_model_get(sweep->lm, &state->shard, state->parameters);
        }
    }
    free(rows);
    free(picked);
    free(shards);
    free(moments);
}

static void merge_all(struct sweep *sweep)
{
    for (size_t i = 0; i < sweep->shard_count; i++) {
        struct shard_state *state = &sweep->shards[i];
        struct skep_merge_input inputs[MOST_DONORS];
        for (size_t u = 0; u < state->waiting; u++) {
            inputs[u] = (struct skep_merge_input){.body = &state->bodies[u]};
            inputs[u].hash.bytes[0] = (uint8_t)u; /* any order does, if it is the same each time */
        }
        const struct skep_merge_shard shard = {
            .parameters = state->parameters,
            .offsets = state->offsets,
            .tensor_count = state->layout.tensor_count,
        };
        const struct skep_merge_options options = {.config = &sweep->manifest.merge, .threads = 1};
        struct skep_error err = {0};
        if (skep_merge(&shard, inputs, state->waiting, &options, NULL, &err) != 0) {
            die(&err);
        }
        for (size_t u = 0; u < state->waiting; u++) {
            skep_update_body_done(&state->bodies[u]);
        }
        state->waiting = 0;
    }
}

static double measure(struct sweep *sweep, size_t bytes)
{
    size_t *picked = skep_alloc(sweep->shard_count, sizeof *picked);
    load_shards(sweep, NULL, picked);
    free(picked);
    struct skep_eval eval = {0};
    struct skep_error err = {0};
    if (skep_eval_text(sweep->lm, sweep->heldout, bytes, &eval, &err) != 0) {
        die(&err);
    }
    return eval.nats / log(2);
}

static uint32_t number(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

static void set_option(struct sweep *sweep, const char *name, const char *value)
{
    struct skep_manifest *m = &sweep->manifest;
    const struct {
        const char *name;
        uint32_t *to;
    } integers[] = {
        {"--dim", &m->model.dim},
        {"--hidden", &m->model.hidden},
        {"--heads", &m->model.heads},
        {"--layers", &m->model.layers},
        {"--context", &m->model.context},
        {"--prefix", &m->model.prefix},
        {"--rows", &m->model.rows},
        {"--columns", &m->model.columns},
        {"--experts", &m->model.experts_per_token},
        {"--rows-per-token", &m->model.rows_per_token},
        {"--steps", &m->training.steps},
        {"--batch", &m->training.batch},
        {"--donor-rows", &m->training.donor_rows},
        {"--slice", &m->training.slice_chunks},
        {"--warmup", &m->training.warmup_rounds},
        {"--keep", &m->update.keep},
        {"--decay", &m->update.error_decay_permille},
        {"--alpha", &m->merge.step_permille},
        {"--chunk", &m->chunk_bytes},
        {"--donors", &sweep->donor_count},
        {"--points", &sweep->points},
    };
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
        if (strcmp(name, integers[i].name) == 0) {
            *integers[i].to = number(value);
            return;
        }
    }
    if (strcmp(name, "--data") == 0) {
        sweep->data_path = skep_strdup(value);
    } else if (strcmp(name, "--tokens") == 0) {
        sweep->tokens_wanted = strtoull(value, NULL, 10);
    } else if (strcmp(name, "--eval") == 0) {
        sweep->eval_bytes = strtoull(value, NULL, 10);
    } else if (strcmp(name, "--lr") == 0) {
        m->training.learning_rate = strtod(value, NULL);
    } else if (strcmp(name, "--wd") == 0) {
        m->training.weight_decay = strtod(value, NULL);
    } else if (strcmp(name, "--z") == 0) {
        m->training.z_loss = strtod(value, NULL);
    } else if (strcmp(name, "--balance") == 0) {
        m->training.balance_step = strtod(value, NULL);
    } else if (strcmp(name, "--route") == 0) {
        m->model.route = strcmp(value, "token") == 0 ? SKEP_ROUTE_TOKEN : SKEP_ROUTE_DOCUMENT;
    } else if (strcmp(name, "--seed") == 0) {
        m->seed = skep_hash_of(value, strlen(value));
    } else {
        fprintf(stderr, "sweep-lm: %s is not an option\n", name);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    static struct sweep sweep = {.tokens_wanted = 1000000, .points = 10, .eval_bytes = 40000};
    skep_manifest_defaults(&sweep.manifest);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            sweep.tokens_wanted = 60000;
        } else if (i + 1 < argc) {
            set_option(&sweep, argv[i], argv[i + 1]);
            i++;
        }
    }
    if (sweep.data_path == NULL) {
        sweep.data_path = skep_strdup("/usr/share/common-licenses/GPL-3");
    }
    load(&sweep, 20);
    make_shards(&sweep);
    struct skep_error err = {0};
    struct skep_model_options options = {.batch = sweep.manifest.training.batch};
    if (skep_model_config_check(&sweep.manifest.model, &err) != 0 ||
        skep_model_new(&sweep.manifest.model, &options, &sweep.lm, &err) != 0) {
        die(&err);
    }
    uint64_t next_point = 0;
    unsigned jobs = sweep.donor_count > 0 ? sweep.donor_count : 1;
    while (sweep.tokens < sweep.tokens_wanted) {
        for (unsigned d = 0; d < jobs; d++) {
            run_job(&sweep, d);
        }
        merge_all(&sweep);
        sweep.version++;
        if (sweep.tokens >= next_point) {
            fprintf(stderr, "%9llu tokens %7.1f s  round %4llu  %.4f bits/byte\n",
                    (unsigned long long)sweep.tokens, sweep.train_s,
                    (unsigned long long)sweep.version, measure(&sweep, sweep.eval_bytes));
            next_point += sweep.tokens_wanted / sweep.points;
        }
    }
    double bits = measure(&sweep, sweep.eval_bytes);
    printf("heldout\t%.4f\tbits/byte\t-\t-\n", bits);
    printf("tokens\t%llu\ttokens\t-\t-\n", (unsigned long long)sweep.tokens);
    printf("rounds\t%llu\trounds\t-\t-\n", (unsigned long long)sweep.version);
    printf("rate\t%.0f\ttokens/s\t-\t-\n", (double)sweep.tokens / sweep.train_s);
    if (sweep.updates > 0) {
        printf("update_bytes\t%.0f\tbytes\t-\t-\n",
               (double)sweep.update_bytes / (double)sweep.updates);
    }
    return 0;
}
