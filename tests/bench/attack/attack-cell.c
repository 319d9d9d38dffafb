/*
 * One cell of the attack grid: real training in which some of the donors lie. Prints one line, "name=value" in columns: how good the
 * model is at the end, and what became of donors. tests/bench/attack-grid runs many and makes the tables.
 *
 *   attack-cell [--data DIR] [--model classifier|lm] [--spread identical|sorted] [--rule NAME] [--attack NAME] [--donors N] [--liars N]
 *               [--rounds N] [--seed N] [--set FIELD=N]... [--forgets] [--audits] [--curve]
 *
 * --data is a folder with MNIST's four files, or a text for the lm; without it a classifier's data is drawn from a seed (patterns of ten
 * classes and noise), the lm's is the GPL. `sorted`: the data lies in order of class (a text in its own order), so that a donor's
 * slice shows few classes; `identical`: shuffled, so that all slices are alike.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/crypto/hash.h"
#include "common/merge/standing.h"
#include "common/swarm/audit.h"
#include "common/wire/fields.h"
#include "tests/bench/attack/attacks.h"
#include "tests/bench/attack/court.h"
#include "tests/bench/attack/data.h"
#include "tests/bench/lab.h"

#define LAST_MEASURES 20 /* rounds at the end over which the result is averaged */

struct cell {
    struct skep_manifest manifest;
    struct attack_data_options data_options;
    struct attack_data data;
    const struct attack *attack;
    size_t donors;
    size_t liars; /* the first ones */
    uint64_t rounds;
    uint64_t seed;
    bool curve;
    struct lab lab;
    struct skep_rng rngs[LAB_DONORS];
    /* of one round */
    struct skep_update_body *bodies[LAB_DONORS]; /* one a shard */
    bool lying[LAB_DONORS];
    /* what liars keep: honest updates of their last rounds, expanded, [liar][shard][round % (delay + 1)] */
    float **past[LAB_DONORS];
    uint64_t refused;
    bool audits;
    uint64_t passed; /* audits that every donor has passed before */
    struct court court;
    struct skep_update_body *right[LAB_DONORS]; /* what an audit of a liar's update computes */
    uint64_t lies[LAB_DONORS];                  /* rounds with a lie, until the ban */
    bool forgets;                               /* every round stands for itself */
    struct skep_standing **standings;           /* [shard][donor] */
};

static void die(const struct skep_error *err)
{
    fprintf(stderr, "attack-cell: %s\n", err->text);
    exit(1);
}

static bool is_liar(const struct cell *cell, size_t d)
{
    return d < cell->liars;
}

static bool attacks_now(const struct cell *cell, size_t d)
{
    return is_liar(cell, d) &&
           (cell->attack->awake == NULL || cell->attack->awake(cell->lab.version, cell->rounds));
}

/* ---- honest work ---- */

static float **past_of(struct cell *cell, size_t d, size_t shard, uint64_t round)
{
    size_t places = ATTACK_DELAY + 1;
    if (cell->past[d] == NULL) {
        cell->past[d] = skep_alloc(cell->lab.shard_count * (places + 1), sizeof(float *));
    }
    return &cell->past[d][shard * (places + 1) + (round == 0 ? places : round % places)];
}

/* Round 0 has a place of its own: it is `first` for ever. */
static void remember(struct cell *cell, size_t d, size_t shard)
{
    float **place = past_of(cell, d, shard, cell->lab.version);
    if (*place == NULL) {
        *place = skep_alloc(cell->lab.shards[shard].layout.parameters, sizeof(float));
    }
    lab_expand(&cell->lab, shard, &cell->bodies[d][shard], *place);
}

/* One job of donor `d` (or of its double) on this data, compressed. */
static void train(struct cell *cell, size_t d, const uint8_t *data, struct skep_update_body *bodies)
{
    struct skep_error err = {0};
    if (lab_job(&cell->lab, d, NULL, data, cell->data.train_size, &err) != 0) {
        die(&err);
    }
    for (size_t i = 0; i < cell->lab.shard_count; i++) {
        if (lab_compress(&cell->lab, d, i, cell->lab.deltas[i], &bodies[i], &err) != 0) {
            die(&err);
        }
    }
}

/* What an auditor computes from the same ticket and history, if the donor works on false classes. */
static void work_rightly(struct cell *cell, size_t d)
{
    lab_double(&cell->lab, cell->donors + d, d);
    train(cell, cell->donors + d, cell->data.train, cell->right[d]);
}

static void copy_body(const struct cell *cell, size_t shard, const struct skep_update_body *body,
                      struct skep_update_body *ret_copy)
{
    const struct lab_shard *kept = &cell->lab.shards[shard];
    struct skep_buffer bytes = {0};
    struct skep_error err = {0};
    skep_update_body_encode(body, &bytes);
    if (skep_update_body_decode(bytes.data, bytes.size, kept->tilings, kept->layout.tensor_count,
                                cell->manifest.update.scale_ceiling, ret_copy, &err) != 0) {
        die(&err);
    }
    skep_buffer_done(&bytes);
}

static void work(struct cell *cell, size_t d)
{
    bool flips = cell->attack->flips && attacks_now(cell, d);
    if (flips && cell->audits) {
        work_rightly(cell, d);
    }
    train(cell, d, flips ? cell->data.flipped : cell->data.train, cell->bodies[d]);
    for (size_t i = 0; i < cell->lab.shard_count && is_liar(cell, d); i++) {
        remember(cell, d, i);
        if (cell->audits && !flips) {
            copy_body(cell, i, &cell->bodies[d][i], &cell->right[d][i]);
        }
    }
}

/* ---- lies ---- */

struct crowd {
    float *vectors[LAB_DONORS]; /* honest updates, expanded */
    float *mean;
    float *deviation;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_norm(const struct crowd *crowd, size_t count, size_t parameters)
{
    double norms[LAB_DONORS] = {0};
    for (size_t h = 0; h < count; h++) {
        for (size_t p = 0; p < parameters; p++) {
            norms[h] += (double)crowd->vectors[h][p] * (double)crowd->vectors[h][p];
        }
    }
    qsort(norms, count, sizeof norms[0], by_value);
    return count > 0 ? sqrt(norms[(count - 1) / 2]) : 0;
}

static void look_at_crowd(struct cell *cell, size_t shard, struct attack_scene *scene,
                          struct crowd *crowd)
{
    size_t parameters = cell->lab.shards[shard].layout.parameters;
    size_t count = 0;
    crowd->mean = skep_alloc(parameters, sizeof(float));
    crowd->deviation = skep_alloc(parameters, sizeof(float));
    for (size_t d = 0; d < cell->donors; d++) {
        if (cell->lying[d] || cell->bodies[d][shard].tensors == NULL) {
            continue;
        }
        crowd->vectors[count] = skep_alloc(parameters, sizeof(float));
        lab_expand(&cell->lab, shard, &cell->bodies[d][shard], crowd->vectors[count]);
        count++;
    }
    for (size_t p = 0; p < parameters; p++) {
        double sum = 0;
        double squares = 0;
        for (size_t h = 0; h < count; h++) {
            sum += (double)crowd->vectors[h][p];
            squares += (double)crowd->vectors[h][p] * (double)crowd->vectors[h][p];
        }
        double mean = count > 0 ? sum / (double)count : 0;
        double variance = count > 0 ? squares / (double)count - mean * mean : 0;
        crowd->mean[p] = (float)mean;
        crowd->deviation[p] = (float)sqrt(fmax(variance, 0));
    }
    *scene = (struct attack_scene){.parameters = parameters,
                                   .tensor_count = cell->lab.shards[shard].layout.tensor_count,
                                   .offsets = cell->lab.shards[shard].offsets,
                                   .honest_count = count,
                                   .honest = crowd->vectors,
                                   .mean = crowd->mean,
                                   .deviation = crowd->deviation,
                                   .norm = median_norm(crowd, count, parameters),
                                   .ceiling = cell->manifest.update.scale_ceiling};
}

static void leave_crowd(struct crowd *crowd, size_t count)
{
    for (size_t h = 0; h < count; h++) {
        free(crowd->vectors[h]);
    }
    free(crowd->mean);
    free(crowd->deviation);
}

static void forge(struct cell *cell, size_t d, size_t shard, const struct attack_scene *crowd_scene)
{
    struct attack_scene scene = *crowd_scene;
    struct skep_error err = {0};
    uint64_t now = cell->lab.version;
    uint64_t then = now > ATTACK_DELAY ? now - ATTACK_DELAY : 0;
    scene.liar = d;
    scene.rng = &cell->rngs[d];
    scene.delta = cell->lab.donors[d].residuals[shard];
    if (cell->attack->trains) {
        scene.own = *past_of(cell, d, shard, now);
        scene.old = *past_of(cell, d, shard, then);
        scene.first = *past_of(cell, d, shard, 0);
    }
    struct skep_update_body *body = &cell->bodies[d][shard];
    if (cell->attack->forge != NULL) {
        float *vector = skep_alloc(scene.parameters, sizeof *vector);
        attack_forge(cell->attack, &scene, vector);
        skep_update_body_done(body);
        *body = (struct skep_update_body){0};
        if (lab_compress_alone(&cell->lab, shard, vector, body, &err) != 0) {
            die(&err);
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
            forge(cell, d, shard, scene);
        }
    }
}

/* ---- the keeper ---- */

/* What the keeper merges: what its decoder accepts. */
struct intake {
    size_t count;
    struct skep_update_body bodies[LAB_DONORS];
    struct skep_merge_input inputs[LAB_DONORS];
    size_t donors[LAB_DONORS];
};

/* Donors of bad standing are left out. */
static void judge(const struct cell *cell, size_t shard, struct intake *intake)
{
    struct skep_standing standings[LAB_DONORS];
    bool left_out[LAB_DONORS];
    for (size_t i = 0; i < intake->count; i++) {
        standings[i] = cell->standings[shard][intake->donors[i]];
    }
    skep_standing_judge(standings, intake->count, left_out);
    for (size_t i = 0; i < intake->count; i++) {
        intake->inputs[i].left_out = left_out[i] && !cell->forgets;
    }
}

static void take_in(struct cell *cell, size_t shard, struct intake *intake)
{
    const struct lab_shard *kept = &cell->lab.shards[shard];
    intake->count = 0;
    for (size_t d = 0; d < cell->donors; d++) {
        struct skep_buffer bytes = {0};
        struct skep_update_body *body = &intake->bodies[intake->count];
        *body = (struct skep_update_body){0};
        if (cell->bodies[d][shard].tensors == NULL) {
            continue;
        }
        skep_update_body_encode(&cell->bodies[d][shard], &bytes);
        if (skep_update_body_decode(bytes.data, bytes.size, kept->tilings,
                                    kept->layout.tensor_count, cell->manifest.update.scale_ceiling,
                                    body, NULL) == 0) {
            intake->inputs[intake->count] = (struct skep_merge_input){
                .body = body, .hash = skep_hash_of(bytes.data, bytes.size)};
            intake->inputs[intake->count].hash.bytes[0] ^= (uint8_t)d; /* two files may be equal */
            intake->donors[intake->count] = d;
            intake->count++;
        } else {
            cell->refused++;
        }
        skep_buffer_done(&bytes);
    }
    judge(cell, shard, intake);
}

static void let_go(struct intake *intake)
{
    for (size_t i = 0; i < intake->count; i++) {
        skep_update_body_done(&intake->bodies[i]);
    }
}

/* `ret_report` may be NULL. */
static void merge(struct cell *cell, size_t shard, const struct intake *intake, float *parameters,
                  struct skep_merge_report *ret_report)
{
    const struct lab_shard *kept = &cell->lab.shards[shard];
    const struct skep_merge_shard state = {.parameters = parameters,
                                           .offsets = kept->offsets,
                                           .tensor_count = kept->layout.tensor_count};
    const struct skep_merge_options options = {.config = &cell->manifest.merge};
    struct skep_error err = {0};
    if (skep_merge(&state, intake->inputs, intake->count, &options, ret_report, &err) != 0) {
        die(&err);
    }
}

/* How far the step that would follow goes against the honest mean: what a searching liar wants to be large. */
static double damage(struct cell *cell, size_t shard, const struct attack_scene *scene)
{
    struct intake *intake = skep_alloc(1, sizeof *intake);
    float *trial = skep_alloc(scene->parameters, sizeof *trial);
    memcpy(trial, cell->lab.shards[shard].parameters, scene->parameters * sizeof *trial);
    take_in(cell, shard, intake);
    merge(cell, shard, intake, trial, NULL);
    double along = 0;
    for (size_t p = 0; p < scene->parameters; p++) {
        double step = (double)cell->lab.shards[shard].parameters[p] - (double)trial[p];
        along += step * (double)scene->mean[p];
    }
    let_go(intake);
    free(intake);
    free(trial);
    return -along;
}

static void lie(struct cell *cell, size_t shard)
{
    struct crowd crowd;
    struct attack_scene scene;
    look_at_crowd(cell, shard, &scene, &crowd);
    const double *strengths = cell->attack->strengths;
    double best = -INFINITY;
    uint64_t refused = cell->refused;
    scene.strength = strengths[0];
    for (size_t s = 0; strengths[0] > 0 && s < ATTACK_STRENGTHS; s++) {
        struct attack_scene trial = scene;
        trial.strength = strengths[s];
        forge_all(cell, shard, &trial);
        double found = damage(cell, shard, &trial);
        scene.strength = found > best ? strengths[s] : scene.strength;
        best = fmax(best, found);
    }
    cell->refused = refused;
    forge_all(cell, shard, &scene);
    leave_crowd(&crowd, scene.honest_count);
}

/* ---- audits ---- */

static bool is_valid(const struct cell *cell, size_t d)
{
    bool valid = true;
    for (size_t i = 0; i < cell->lab.shard_count && valid && cell->lying[d]; i++) {
        struct skep_audit_likeness likeness = {0};
        struct skep_error err = {0};
        if (skep_audit_compare(&cell->bodies[d][i], &cell->right[d][i], &likeness, &err) != 0) {
            die(&err);
        }
        valid = skep_audit_valid(&likeness);
    }
    return valid;
}

static void drop_bodies(struct cell *cell, struct skep_update_body *bodies)
{
    for (size_t i = 0; i < cell->lab.shard_count; i++) {
        skep_update_body_done(&bodies[i]);
        bodies[i] = (struct skep_update_body){0};
    }
}

struct hearing {
    size_t count;
    struct court_case cases[LAB_DONORS];
    bool audited[LAB_DONORS];
    size_t donors[LAB_DONORS];
};

static struct skep_hash name_update(const struct cell *cell, size_t d)
{
    const uint64_t what[2] = {cell->lab.version, d};
    return skep_hash_of(what, sizeof what);
}

/* Before the merge: those who may not be merged are dropped. */
static void hear(struct cell *cell, struct hearing *hearing)
{
    hearing->count = 0;
    for (size_t d = 0; d < cell->donors; d++) {
        if (cell->bodies[d][0].tensors == NULL) {
            continue;
        }
        struct court_case *one = &hearing->cases[hearing->count];
        *one = (struct court_case){.donor = cell->lab.donors[d].id,
                                   .update = name_update(cell, d),
                                   .valid = is_valid(cell, d)};
        hearing->donors[hearing->count] = d;
        cell->lies[d] += !one->valid;
        if (court_admits(&cell->court, one, &hearing->audited[hearing->count])) {
            hearing->count++;
        } else {
            drop_bodies(cell, cell->bodies[d]);
        }
    }
}

/* What the trunk's merge saw of each. */
static void note_hints(struct hearing *hearing, const struct intake *intake,
                       const struct skep_merge_report *report)
{
    for (size_t i = 0; i < hearing->count; i++) {
        for (size_t u = 0; u < intake->count; u++) {
            const struct skep_merge_verdict *verdict = &report->inputs[u];
            if (intake->donors[u] == hearing->donors[i]) {
                uint64_t median = report->median_norm > 0 ? report->median_norm : 1;
                unsigned __int128 norm = (unsigned __int128)verdict->norm * 1000 / median;
                hearing->cases[i].hint = (struct skep_audit_hint){
                    .cosine_permille = verdict->agreement_permille,
                    .norm_permille = norm > UINT32_MAX ? UINT32_MAX : (uint32_t)norm,
                    .copy = verdict->copy_of != SKEP_MERGE_NO_COPY,
                };
            }
        }
    }
}

/* ---- a round ---- */

/* Whether anyone forges. */
static bool work_all(struct cell *cell)
{
    bool lies = false;
    bool forges = cell->attack->forge != NULL || cell->attack->spoil != NULL;
    for (size_t d = 0; d < cell->donors; d++) {
        bool banned = cell->audits && court_banned(&cell->court, &cell->lab.donors[d].id);
        bool attacks = attacks_now(cell, d) && !banned;
        cell->lying[d] = attacks && (forges || cell->attack->flips);
        lies = lies || (cell->lying[d] && forges);
        if (!banned && (!attacks || cell->attack->trains || cell->audits)) {
            work(cell, d);
        }
    }
    return lies;
}

static void merge_shard(struct cell *cell, size_t shard, struct hearing *hearing)
{
    struct intake *intake = skep_alloc(1, sizeof *intake);
    struct skep_merge_report *report = skep_alloc(1, sizeof *report);
    take_in(cell, shard, intake);
    merge(cell, shard, intake, cell->lab.shards[shard].parameters, report);
    for (size_t u = 0; u < intake->count; u++) {
        skep_standing_push(&cell->standings[shard][intake->donors[u]],
                           report->inputs[u].agreement_permille);
    }
    if (shard == 0) {
        note_hints(hearing, intake, report);
    }
    let_go(intake);
    free(intake);
    free(report);
}

static void run_round(struct cell *cell)
{
    struct hearing *hearing = skep_alloc(1, sizeof *hearing);
    struct skep_error err = {0};
    bool lies = work_all(cell);
    for (size_t i = 0; lies && i < cell->lab.shard_count; i++) {
        lie(cell, i);
    }
    if (cell->audits) {
        hear(cell, hearing);
    }
    for (size_t i = 0; i < cell->lab.shard_count; i++) {
        merge_shard(cell, i, hearing);
    }
    if (cell->audits &&
        court_seal(&cell->court, hearing->cases, hearing->audited, hearing->count, &err) != 0) {
        die(&err);
    }
    for (size_t d = 0; d < cell->donors; d++) {
        drop_bodies(cell, cell->bodies[d]);
        drop_bodies(cell, cell->right[d]);
    }
    free(hearing);
    cell->lab.version++;
}

/* ---- the whole ---- */

static void print_result(const struct cell *cell, double right, double nats)
{
    uint64_t liars = 0;
    uint64_t honest = 0;
    uint64_t slowest = 0;
    for (size_t d = 0; d < cell->donors && cell->audits; d++) {
        bool banned = court_banned(&cell->court, &cell->lab.donors[d].id);
        liars += banned && is_liar(cell, d);
        honest += banned && !is_liar(cell, d);
        slowest = cell->lies[d] > slowest ? cell->lies[d] : slowest;
    }
    printf("right=%.4f nats=%.4f refused=%llu banned=%llu false_bans=%llu lies=%llu audits=%llu\n",
           right, nats, (unsigned long long)cell->refused, (unsigned long long)liars,
           (unsigned long long)honest, (unsigned long long)slowest,
           (unsigned long long)cell->court.audits);
}

static void run(struct cell *cell)
{
    struct skep_error err = {0};
    double right = 0;
    double nats = 0;
    for (uint64_t round = 1; round <= cell->rounds; round++) {
        run_round(cell);
        bool counts = round + LAST_MEASURES > cell->rounds;
        if (counts || (cell->curve && round % 10 == 0)) {
            struct skep_eval eval = {0};
            if (lab_measure(&cell->lab, cell->data.test, cell->data.test_size, &eval, &err) != 0) {
                eval = (struct skep_eval){.nats = INFINITY};
            }
            right += counts ? eval.accuracy / LAST_MEASURES : 0;
            nats += counts ? eval.nats / LAST_MEASURES : 0;
            if (cell->curve) {
                fprintf(stderr, "round %3llu  %.4f right  %.4f nats\n", (unsigned long long)round,
                        eval.accuracy, eval.nats);
            }
        }
    }
    print_result(cell, right, nats);
}

static void set_field(struct skep_manifest *m, const char *text)
{
    const struct {
        const char *name;
        uint32_t *to;
    } fields[] = {
        {"steps", &m->training.steps},
        {"batch", &m->training.batch},
        {"slice_chunks", &m->training.slice_chunks},
        {"warmup_rounds", &m->training.warmup_rounds},
        {"keep", &m->update.keep},
        {"error_decay_permille", &m->update.error_decay_permille},
        {"step_permille", &m->merge.step_permille},
        {"liars_permille", &m->merge.liars_permille},
        {"clip_permille", &m->merge.clip_permille},
        {"overlap_permille", &m->merge.overlap_permille},
        {"dim", &m->model.dim},
        {"hidden", &m->model.hidden},
        {"layers", &m->model.layers},
        {"chunk_bytes", &m->chunk_bytes},
    };
    const char *equals = strchr(text, '=');
    for (size_t i = 0; equals != NULL && i < sizeof fields / sizeof fields[0]; i++) {
        size_t length = strlen(fields[i].name);
        if (length == (size_t)(equals - text) && memcmp(text, fields[i].name, length) == 0) {
            *fields[i].to = (uint32_t)strtoul(equals + 1, NULL, 10);
            return;
        }
    }
    if (equals != NULL && strncmp(text, "learning_rate", 13) == 0) {
        m->training.learning_rate = strtod(equals + 1, NULL);
        return;
    }
    fprintf(stderr, "attack-cell: --set %s is not a field that can be set here\n", text);
    exit(2);
}

static void set_defaults(struct skep_manifest *m, bool lm)
{
    m->model.kind = lm ? SKEP_MODEL_LM : SKEP_MODEL_CLASSIFIER;
    skep_manifest_defaults(m);
    m->model.dim = 32;
    m->model.hidden = 64;
    m->model.layers = lm ? 1 : 2;
    m->model.rows = 2;
    m->model.columns = 2;
    m->model.experts_per_token = 2;
    if (lm) {
        m->model.heads = 2;
        m->model.context = 64;
        m->model.prefix = 8;
        m->model.rows_per_token = 2;
    }
    skep_model_config_imply(&m->model);
    m->training.donor_rows = m->model.rows;
    m->training.steps = 10;
    m->training.batch = lm ? 4 : 32;
    m->training.warmup_rounds = 5;
    m->training.learning_rate = 0.002;
    m->training.weight_decay = 0.01;
    m->chunk_bytes = lm ? 4096 : 785 * 40;
}

/* By the manifest's own table, so that all rules it knows can be named here. */
static void set_rule(struct skep_manifest *m, const char *name)
{
    size_t count = 0;
    const struct skep_field *fields = skep_manifest_fields("merge", &count);
    for (size_t i = 0; i < count; i++) {
        for (size_t r = 0; strcmp(fields[i].key, "rule") == 0 && fields[i].choices[r] != NULL;
             r++) {
            if (strcmp(name, fields[i].choices[r]) == 0) {
                m->merge.rule = (enum skep_merge_rule)r;
                return;
            }
        }
    }
    fprintf(stderr, "attack-cell: there is no rule %s\n", name);
    exit(2);
}

static void set_option(struct cell *cell, const char *name, const char *value)
{
    if (strcmp(name, "--data") == 0) {
        cell->data_options.path = value;
    } else if (strcmp(name, "--spread") == 0) {
        cell->data_options.sorted = strcmp(value, "sorted") == 0;
    } else if (strcmp(name, "--rule") == 0) {
        set_rule(&cell->manifest, value);
    } else if (strcmp(name, "--attack") == 0) {
        cell->attack = attack_find(value);
    } else if (strcmp(name, "--donors") == 0) {
        cell->donors = strtoul(value, NULL, 10);
    } else if (strcmp(name, "--liars") == 0) {
        cell->liars = strtoul(value, NULL, 10);
    } else if (strcmp(name, "--rounds") == 0) {
        cell->rounds = strtoul(value, NULL, 10);
    } else if (strcmp(name, "--passed") == 0) {
        cell->passed = strtoul(value, NULL, 10);
    } else if (strcmp(name, "--seed") == 0) {
        cell->seed = strtoul(value, NULL, 10);
    } else if (strcmp(name, "--set") == 0) {
        set_field(&cell->manifest, value);
    } else if (strcmp(name, "--model") != 0) {
        fprintf(stderr, "attack-cell: %s is not an option\n", name);
        exit(2);
    }
}

static void read_options(struct cell *cell, int argc, char **argv)
{
    bool lm = false;
    for (int i = 1; i + 1 < argc; i++) {
        lm = lm || (strcmp(argv[i], "--model") == 0 && strcmp(argv[i + 1], "lm") == 0);
    }
    set_defaults(&cell->manifest, lm);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--curve") == 0) {
            cell->curve = true;
        } else if (strcmp(argv[i], "--audits") == 0) {
            cell->audits = true;
        } else if (strcmp(argv[i], "--forgets") == 0) {
            cell->forgets = true;
        } else if (i + 1 < argc) {
            set_option(cell, argv[i], argv[i + 1]);
            i++;
        }
    }
    if (cell->attack == NULL || cell->donors < 1 || cell->donors > LAB_DONORS ||
        cell->liars >= cell->donors) {
        fprintf(stderr, "attack-cell: no such attack, or not 1 .. %u donors with fewer liars\n",
                LAB_DONORS);
        exit(2);
    }
}

static void prepare(struct cell *cell)
{
    struct skep_error err = {0};
    struct skep_peer_id ids[LAB_DONORS];
    cell->data_options.model = &cell->manifest.model;
    cell->data_options.seed = cell->seed;
    cell->manifest.seed = skep_hash_of(&cell->seed, sizeof cell->seed);
    if (skep_model_config_check(&cell->manifest.model, &err) != 0 ||
        attack_data_open(&cell->data_options, &cell->data, &err) != 0 ||
        lab_open(&cell->lab, &cell->manifest, cell->donors * (cell->audits ? 2 : 1), &err) != 0) {
        die(&err);
    }
    for (size_t d = 0; d < cell->donors; d++) {
        cell->rngs[d] = skep_rng_of(cell->seed * 1000 + d);
        cell->bodies[d] = skep_alloc(cell->lab.shard_count, sizeof *cell->bodies[d]);
        cell->right[d] = skep_alloc(cell->lab.shard_count, sizeof *cell->right[d]);
        ids[d] = cell->lab.donors[d].id;
    }
    if (cell->audits && court_open(&cell->court, ids, cell->donors, cell->passed, &err) != 0) {
        die(&err);
    }
    cell->standings = skep_alloc(cell->lab.shard_count, sizeof *cell->standings);
    for (size_t i = 0; i < cell->lab.shard_count; i++) {
        cell->standings[i] = skep_alloc(cell->donors, sizeof *cell->standings[i]);
    }
}

static void clean_up(struct cell *cell)
{
    size_t places = cell->lab.shard_count * (ATTACK_DELAY + 2);
    for (size_t d = 0; d < cell->donors; d++) {
        for (size_t i = 0; cell->past[d] != NULL && i < places; i++) {
            free(cell->past[d][i]);
        }
        free(cell->past[d]);
        free(cell->bodies[d]);
        free(cell->right[d]);
    }
    if (cell->audits) {
        court_close(&cell->court);
    }
    for (size_t i = 0; i < cell->lab.shard_count; i++) {
        free(cell->standings[i]);
    }
    free(cell->standings);
    lab_close(&cell->lab);
    attack_data_close(&cell->data);
}

int main(int argc, char **argv)
{
    static struct cell cell = {.donors = 16, .rounds = 60, .seed = 1};
    cell.attack = attack_find("none");
    read_options(&cell, argc, argv);
    prepare(&cell);
    run(&cell);
    clean_up(&cell);
    return 0;
}
