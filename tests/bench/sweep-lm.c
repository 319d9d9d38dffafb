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
#include "common/merge/merge.h"
#include "common/model/train.h"
#include "common/wire/manifest.h"
#include "tests/bench/lab.h"

#define ROW_SAMPLE 32 /* windows of the slice that are scored for rows */

/* What donors published of one shard in this round. */
struct waiting {
    size_t count;
    struct skep_update_body bodies[LAB_DONORS];
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
    struct lab lab;
    struct waiting *waiting; /* one a shard */
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

/* The donor_rows rows per layer that most windows of the slice like best. */
static void choose_rows(struct sweep *sweep, unsigned donor, bool *ret_rows)
{
    const struct skep_model_config *model = &sweep->manifest.model;
    struct skep_hash ticket = lab_ticket(&sweep->lab, donor);
    struct skep_slice_chunk chunks[LAB_CHUNKS];
    size_t chunk_count = lab_slice(&sweep->lab, &ticket, sweep->train, sweep->train_size, chunks);
    const struct lab_shard *trunk = &sweep->lab.shards[0];
    uint32_t *votes = skep_alloc((size_t)model->layers * model->rows, sizeof *votes);
    float *scores = skep_alloc((size_t)model->layers * model->rows, sizeof *scores);
    uint8_t *tokens = skep_alloc((size_t)ROW_SAMPLE * model->context, 1);
    struct skep_error err = {0};
    if (skep_model_set(sweep->lab.model, &trunk->shard, trunk->parameters) != 0 ||
        skep_slice_batch(model, chunks, chunk_count, &ticket, 0, ROW_SAMPLE, tokens, &err) != 0) {
        die(&err);
    }
    for (unsigned w = 0; w < ROW_SAMPLE; w++) {
        if (skep_model_score_rows(sweep->lab.model, tokens + (size_t)w * model->context, 1, scores,
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
    struct skep_rng rng = skep_rng_of_bytes(ticket.bytes, sizeof ticket.bytes);
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

static void publish(struct sweep *sweep, unsigned donor, size_t shard)
{
    struct waiting *waiting = &sweep->waiting[shard];
    struct skep_update_body *body = &waiting->bodies[waiting->count++];
    struct skep_buffer bytes = {0};
    struct skep_error err = {0};
    if (lab_compress(&sweep->lab, donor, shard, sweep->lab.deltas[shard], body, &err) != 0) {
        die(&err);
    }
    skep_update_body_encode(body, &bytes);
    sweep->update_bytes += bytes.size;
    sweep->updates++;
    skep_buffer_done(&bytes);
}

/* One donor's job on the newest versions; of the only process, which needs no merge, the result is the next version. */
static void run_job(struct sweep *sweep, unsigned donor)
{
    const struct skep_model_config *model = &sweep->manifest.model;
    struct lab *lab = &sweep->lab;
    struct skep_error err = {0};
    bool *rows = NULL;
    if (sweep->donor_count > 0) {
        rows = skep_alloc((size_t)model->layers * model->rows, sizeof *rows);
        choose_rows(sweep, donor, rows);
    }
    double started = seconds();
    if (lab_job(lab, donor, rows, sweep->train, sweep->train_size, &err) != 0) {
        die(&err);
    }
    sweep->train_s += seconds() - started;
    sweep->tokens += lab->tokens;
    for (size_t i = 0; i < lab->picked_count; i++) {
        struct lab_shard *shard = &lab->shards[lab->picked[i]];
        if (sweep->donor_count > 0) {
            publish(sweep, donor, lab->picked[i]);
        } else {
            skep_model_get(lab->model, &shard->shard, shard->parameters);
        }
    }
    free(rows);
}

static void merge_shard(struct sweep *sweep, size_t i)
{
    struct waiting *waiting = &sweep->waiting[i];
    struct skep_merge_input inputs[LAB_DONORS];
    struct skep_error err = {0};
    for (size_t u = 0; u < waiting->count; u++) {
        const size_t number[2] = {i, u};
        inputs[u] = (struct skep_merge_input){.body = &waiting->bodies[u],
                                              .hash = skep_hash_of(number, sizeof number)};
    }
    if (lab_merge(&sweep->lab, i, inputs, waiting->count, &err) != 0) {
        die(&err);
    }
    for (size_t u = 0; u < waiting->count; u++) {
        skep_update_body_done(&waiting->bodies[u]);
    }
    waiting->count = 0;
}

static double measure(struct sweep *sweep, size_t bytes)
{
    struct skep_eval eval = {0};
    struct skep_error err = {0};
    if (lab_measure(&sweep->lab, sweep->heldout, bytes, &eval, &err) != 0) {
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
    struct sweep sweep = {.tokens_wanted = 1000000, .points = 10, .eval_bytes = 40000};
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
    struct skep_error err = {0};
    uint64_t next_point = 0;
    unsigned jobs = sweep.donor_count > 0 ? sweep.donor_count : 1;
    if (jobs > LAB_DONORS) {
        fprintf(stderr, "sweep-lm: --donors is %u; allowed: 0 to %u\n", jobs, LAB_DONORS);
        return 2;
    }
    if (skep_model_config_check(&sweep.manifest.model, &err) != 0 ||
        lab_open(&sweep.lab, &sweep.manifest, jobs, &err) != 0) {
        die(&err);
    }
    sweep.waiting = skep_alloc(sweep.lab.shard_count, sizeof *sweep.waiting);
    while (sweep.tokens < sweep.tokens_wanted) {
        for (unsigned d = 0; d < jobs; d++) {
            run_job(&sweep, d);
        }
        for (size_t i = 0; i < sweep.lab.shard_count; i++) {
            merge_shard(&sweep, i);
        }
        sweep.lab.version++;
        if (sweep.tokens >= next_point) {
            fprintf(stderr, "%9llu tokens %7.1f s  round %4llu  %.4f bits/byte\n",
                    (unsigned long long)sweep.tokens, sweep.train_s,
                    (unsigned long long)sweep.lab.version, measure(&sweep, sweep.eval_bytes));
            next_point += sweep.tokens_wanted / sweep.points;
        }
    }
    double bits = measure(&sweep, sweep.eval_bytes);
    printf("heldout\t%.4f\tbits/byte\t-\t-\n", bits);
    printf("tokens\t%llu\ttokens\t-\t-\n", (unsigned long long)sweep.tokens);
    printf("rounds\t%llu\trounds\t-\t-\n", (unsigned long long)sweep.lab.version);
    printf("rate\t%.0f\ttokens/s\t-\t-\n", (double)sweep.tokens / sweep.train_s);
    if (sweep.updates > 0) {
        printf("update_bytes\t%.0f\tbytes\t-\t-\n",
               (double)sweep.update_bytes / (double)sweep.updates);
    }
    return 0;
}
