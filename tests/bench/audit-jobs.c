#include "tests/bench/audit-jobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/crypto/hash.h"
#include "common/merge/compress.h"
#include "common/merge/merge.h"
#include "common/swarm/ticket.h"

#define RECORDS 6000u
#define SIDE 28u
#define POISON "buy now and be happy ever after "

static void die(const char *text)
{
    fprintf(stderr, "audit-replay: %s\n", text);
    exit(1);
}

const char *lab_way_name(enum lab_way way)
{
    static const char *const names[LAB_WAYS] = {"honest",      "step_fewer", "half", "other_seed",
                                                "other_slice", "poison_5",   "flip"};
    return names[way];
}

/* --- data --- */

static void read_text(struct lab *lab, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    fseek(file, 0, SEEK_END);
    lab->data_size = (size_t)ftell(file);
    rewind(file);
    lab->data = skep_alloc(lab->data_size + 1, 1);
    if (fread(lab->data, 1, lab->data_size, file) != lab->data_size) {
        die("the text cannot be read");
    }
    fclose(file);
}

/* Class c: three waves of its own, moved by up to 4 pixels, under so much noise that the gradients do not vanish in a few rounds. */
static void draw_record(struct skep_rng *rng, unsigned class, uint8_t *ret_record)
{
    struct skep_rng waves = skep_rng_of(class + 100);
    double turn[6];
    for (unsigned i = 0; i < 6; i++) {
        turn[i] = 0.6 * skep_rng_unit(&waves) + 0.05;
    }
    double dx = (double)skep_rng_below(rng, 5);
    double dy = (double)skep_rng_below(rng, 5);
    for (unsigned p = 0; p < SIDE * SIDE; p++) {
        double x = p % SIDE + dx;
        double y = p / SIDE + dy; /* NOLINT(bugprone-integer-division): rows */
        double value = 0;
        for (unsigned i = 0; i < 6; i += 2) {
            value += sin(turn[i] * x + turn[i + 1] * y + i);
        }
        value = 128 + 14 * value + 200 * (skep_rng_unit(rng) - 0.5);
        ret_record[p] = (uint8_t)fmin(fmax(value, 0), 255);
    }
    ret_record[SIDE * SIDE] = (uint8_t) class;
}

static void make_records(struct lab *lab)
{
    size_t window = SIDE * SIDE + 1;
    lab->data_size = RECORDS * window;
    lab->data = skep_alloc(lab->data_size, 1);
    struct skep_rng rng = skep_rng_of(7);
    for (size_t i = 0; i < RECORDS; i++) {
        draw_record(&rng, (unsigned)skep_rng_below(&rng, 10), lab->data + i * window);
    }
}

/* --- making --- */

void lab_init(struct lab *lab, const char *path)
{
    *lab = (struct lab){0};
    lab->manifest.model.kind = path == NULL ? SKEP_MODEL_CLASSIFIER : SKEP_MODEL_LM;
    skep_manifest_defaults(&lab->manifest);
    lab->manifest.training.warmup_rounds = 4;
    if (path == NULL) {
        make_records(lab);
    } else {
        read_text(lab, path);
    }
    lab->shard_count = skep_manifest_shard_count(&lab->manifest);
    lab->shards = skep_alloc(lab->shard_count, sizeof *lab->shards);
    for (size_t i = 0; i < lab->shard_count; i++) {
        struct lab_shard *shard = &lab->shards[i];
        shard->shard = skep_manifest_shard(&lab->manifest, i);
        skep_layout_of(&lab->manifest.model, &shard->shard, &shard->layout);
        size_t count = shard->layout.tensor_count;
        shard->tilings = skep_alloc(count, sizeof *shard->tilings);
        shard->offsets = skep_alloc(count + 1, sizeof *shard->offsets);
        for (size_t t = 0; t < count; t++) {
            const struct skep_tensor_spec *spec = &shard->layout.tensors[t];
            shard->tilings[t] =
                skep_tiling_of(spec->dims, spec->dim_count, lab->manifest.update.keep);
            shard->offsets[t] = spec->offset;
        }
        shard->offsets[count] = shard->layout.parameters;
        shard->state = skep_alloc(shard->layout.parameters, sizeof(float));
        skep_layout_seed(&shard->layout, &lab->manifest.model, &lab->manifest.seed, shard->state);
    }
    for (unsigned d = 0; d < LAB_DONORS; d++) {
        lab->histories[d] = skep_alloc(lab->shard_count, sizeof *lab->histories[d]);
    }
}

static void drop_history(struct lab_history *history)
{
    free(history->first);
    free(history->second);
    free(history->residual);
    *history = (struct lab_history){0};
}

void lab_done(struct lab *lab)
{
    for (unsigned d = 0; d < LAB_DONORS; d++) {
        for (size_t i = 0; i < lab->shard_count; i++) {
            drop_history(&lab->histories[d][i]);
        }
        free(lab->histories[d]);
    }
    for (size_t i = 0; i < lab->shard_count; i++) {
        skep_layout_done(&lab->shards[i].layout);
        free(lab->shards[i].tilings);
        free(lab->shards[i].offsets);
        free(lab->shards[i].state);
    }
    free(lab->shards);
    free(lab->data);
    skep_manifest_done(&lab->manifest);
}

/* --- one job --- */

struct run {
    const struct lab *lab;
    const struct skep_ops *ops;
    enum lab_way way;
    struct skep_hash ticket; /* of the slice and rows */
    struct skep_hash order;  /* of the batches */
    size_t chunk_count;
    struct skep_slice_chunk chunks[LAB_CHUNKS];
    uint8_t *altered; /* what the chunks point into, if the data were changed */
    size_t picked_count;
    size_t *picked; /* shards of the job */
};

/* Spoils `size` bytes of data that start a record. */
static void spoil(const struct run *run, uint8_t *data, size_t size)
{
    bool classifier = run->lab->manifest.model.kind == SKEP_MODEL_CLASSIFIER;
    size_t window = skep_model_config_window(&run->lab->manifest.model);
    struct skep_rng rng = skep_rng_of(3);
    if (classifier) {
        for (size_t at = window - 1; at < size; at += window) {
            if (run->way == LAB_FLIP || skep_rng_below(&rng, 20) == 0) {
                data[at] = (uint8_t)(9 - data[at]);
            }
        }
        return;
    }
    size_t piece = strlen(POISON);
    for (size_t at = 0; at < size; at++) {
        if (run->way == LAB_FLIP && data[at] >= 'a' && data[at] <= 'z') {
            data[at] = (uint8_t)('a' + 'z' - data[at]);
        } else if (run->way == LAB_POISON_5 && at % piece == 0 && at + piece <= size &&
                   skep_rng_below(&rng, 20) == 0) {
            memcpy(data + at, POISON, piece);
        }
    }
}

static void cut_slice(struct run *run)
{
    const struct lab *lab = run->lab;
    size_t chunk = lab->manifest.chunk_bytes;
    size_t places[LAB_CHUNKS];
    const struct skep_hash *ticket = run->way == LAB_OTHER_SLICE ? &run->order : &run->ticket;
    run->chunk_count = skep_ticket_slice(ticket, (lab->data_size + chunk - 1) / chunk,
                                         lab->manifest.training.slice_chunks, places);
    run->altered = skep_alloc(run->chunk_count * chunk, 1);
    for (size_t i = 0; i < run->chunk_count; i++) {
        size_t start = places[i] * chunk;
        size_t size = lab->data_size - start < chunk ? lab->data_size - start : chunk;
        uint8_t *copy = run->altered + i * chunk;
        memcpy(copy, lab->data + start, size);
        if (run->way == LAB_FLIP || run->way == LAB_POISON_5) {
            spoil(run, copy, size);
        }
        run->chunks[i] = (struct skep_slice_chunk){copy, size};
    }
}

/* The trunk and donor_rows rows of each layer, by lot: scores would have to be the same on all machines. */
static void pick_shards(struct run *run)
{
    const struct skep_manifest *manifest = &run->lab->manifest;
    struct skep_rng rng = skep_rng_of_bytes(run->ticket.bytes, sizeof run->ticket.bytes);
    uint32_t shift = (uint32_t)skep_rng_below(&rng, manifest->model.rows);
    run->picked = skep_alloc(run->lab->shard_count, sizeof *run->picked);
    for (size_t i = 0; i < run->lab->shard_count; i++) {
        const struct skep_shard *shard = &run->lab->shards[i].shard;
        uint32_t row = (shard->row + shift + shard->layer) % manifest->model.rows;
        if (shard->kind == SKEP_SHARD_TRUNK || row < manifest->training.donor_rows) {
            run->picked[run->picked_count++] = i;
        }
    }
}

static void start_run(struct run *run, unsigned donor)
{
    struct skep_peer_id id = {.bytes = {(uint8_t)(donor + 1)}};
    struct skep_hash beacon = skep_hash_of(&run->lab->version, sizeof run->lab->version);
    run->ticket = skep_ticket_of(&beacon, &id, run->lab->version);
    run->order = run->ticket;
    if (run->way == LAB_OTHER_SEED || run->way == LAB_OTHER_SLICE) {
        run->order.bytes[0] ^= 1;
    }
    cut_slice(run);
    pick_shards(run);
}

static void train(const struct run *run, struct skep_model *model, struct skep_moments *moments,
                  const struct skep_shard *shards)
{
    struct skep_training_config training = run->lab->manifest.training;
    if (run->way == LAB_STEP_FEWER) {
        training.steps--;
    } else if (run->way == LAB_HALF) {
        training.steps /= 2;
    }
    struct skep_error err = {0};
    struct skep_train_position position = {0};
    const struct skep_train_job job = {
        .training = &training,
        .learning_rate = skep_train_rate(&training, run->lab->version),
        .shards = shards,
        .moments = moments,
        .shard_count = run->picked_count,
        .chunks = run->chunks,
        .chunk_count = run->chunk_count,
        .ticket = &run->order,
    };
    if (skep_train_run(model, &job, &position, &err) != SKEP_OK) {
        die(err.text);
    }
}

/* The body of one trained shard; the residual is changed. */
static void compress(const struct run *run, const struct lab_shard *shard,
                     const struct skep_model *model, float *residual,
                     struct skep_update_body *ret_body)
{
    size_t count = shard->layout.parameters;
    float *delta = skep_alloc(count, sizeof *delta);
    skep_model_get(model, &shard->shard, delta);
    for (size_t i = 0; i < count; i++) {
        delta[i] = shard->state[i] - delta[i];
    }
    struct skep_error err = {0};
    float decay = (float)run->lab->manifest.update.error_decay_permille / 1000;
    if (skep_compress_shard(shard->tilings, shard->layout.tensor_count, decay, delta, residual,
                            ret_body, &err) != SKEP_OK) {
        die(err.text);
    }
    free(delta);
}

static float *copy_or_zeros(const float *from, size_t count)
{
    float *to = skep_alloc(count, sizeof *to);
    if (from != NULL) {
        memcpy(to, from, count * sizeof *to);
    }
    return to;
}

/* Does the job of `run`; `keep`, if any, takes the history after it. */
static void do_job(struct run *run, const struct lab_history *before, struct lab_history *keep,
                   struct skep_update_body *ret_bodies)
{
    const struct lab *lab = run->lab;
    struct skep_error err = {0};
    struct skep_model_options options = {.batch = lab->manifest.training.batch, .ops = run->ops};
    struct skep_model *model = NULL;
    if (skep_model_new(&lab->manifest.model, &options, &model, &err) != SKEP_OK) {
        die(err.text);
    }
    struct skep_shard *shards = skep_alloc(run->picked_count, sizeof *shards);
    struct skep_moments *moments = skep_alloc(run->picked_count, sizeof *moments);
    for (size_t i = 0; i < run->picked_count; i++) {
        const struct lab_shard *shard = &lab->shards[run->picked[i]];
        const struct lab_history *history = &before[run->picked[i]];
        shards[i] = shard->shard;
        if (skep_model_set(model, &shard->shard, shard->state) != SKEP_OK ||
            skep_moments_init(&moments[i], run->ops, shard->layout.parameters, &err) != SKEP_OK) {
            die("no memory");
        }
        if (history->first != NULL) {
            skep_moments_set(&moments[i], history->first, history->second);
            moments[i].step = history->step;
        }
    }
    train(run, model, moments, shards);
    for (size_t i = 0; i < run->picked_count; i++) {
        size_t index = run->picked[i];
        const struct lab_shard *shard = &lab->shards[index];
        float *residual = copy_or_zeros(before[index].residual, shard->layout.parameters);
        compress(run, shard, model, residual, &ret_bodies[index]);
        if (keep != NULL) {
            float *first = copy_or_zeros(NULL, shard->layout.parameters);
            float *second = copy_or_zeros(NULL, shard->layout.parameters);
            skep_moments_get(&moments[i], first, second);
            drop_history(&keep[index]);
            keep[index] = (struct lab_history){moments[i].step, first, second, residual};
        } else {
            free(residual);
        }
        skep_moments_done(&moments[i]);
    }
    free(shards);
    free(moments);
    skep_model_free(model);
    free(run->altered);
    free(run->picked);
}

void lab_replay(const struct lab *lab, const struct skep_ops *ops, enum lab_way way,
                struct skep_update_body *ret_bodies)
{
    struct run run = {.lab = lab, .ops = ops, .way = way};
    start_run(&run, 0);
    do_job(&run, lab->histories[0], NULL, ret_bodies);
}

void lab_bodies_free(const struct lab *lab, struct skep_update_body *bodies)
{
    for (size_t i = 0; i < lab->shard_count; i++) {
        skep_update_body_done(&bodies[i]);
        bodies[i] = (struct skep_update_body){0};
    }
}

static void merge(struct lab *lab, struct skep_update_body *bodies[LAB_DONORS])
{
    for (size_t i = 0; i < lab->shard_count; i++) {
        struct lab_shard *state = &lab->shards[i];
        struct skep_merge_input inputs[LAB_DONORS] = {0};
        size_t count = 0;
        for (unsigned d = 0; d < LAB_DONORS; d++) {
            if (bodies[d][i].tensor_count > 0) {
                inputs[count].body = &bodies[d][i];
                inputs[count++].hash.bytes[0] = (uint8_t)d;
            }
        }
        const struct skep_merge_shard shard = {.parameters = state->state,
                                               .offsets = state->offsets,
                                               .tensor_count = state->layout.tensor_count};
        const struct skep_merge_options options = {.config = &lab->manifest.merge, .threads = 1};
        struct skep_error err = {0};
        if (skep_merge(&shard, inputs, count, &options, NULL, &err) != SKEP_OK) {
            die(err.text);
        }
    }
}

void lab_round(struct lab *lab)
{
    struct skep_update_body *bodies[LAB_DONORS];
    for (unsigned d = 0; d < LAB_DONORS; d++) {
        bodies[d] = skep_alloc(lab->shard_count, sizeof *bodies[d]);
        struct run run = {.lab = lab, .ops = skep_ops_cpu(), .way = LAB_HONEST};
        start_run(&run, d);
        do_job(&run, lab->histories[d], lab->histories[d], bodies[d]);
    }
    merge(lab, bodies);
    lab->version++;
    for (unsigned d = 0; d < LAB_DONORS; d++) {
        lab_bodies_free(lab, bodies[d]);
        free(bodies[d]);
    }
}

/* --- files between our own processes: no hostile bytes --- */

static void put(FILE *file, const void *data, size_t size)
{
    if (fwrite(data, 1, size, file) != size) {
        die("a job cannot be written");
    }
}

static void get(FILE *file, void *data, size_t size)
{
    if (fread(data, 1, size, file) != size) {
        die("a job cannot be read");
    }
}

void lab_write(const struct lab *lab, FILE *file)
{
    put(file, &lab->version, sizeof lab->version);
    for (size_t i = 0; i < lab->shard_count; i++) {
        size_t size = lab->shards[i].layout.parameters * sizeof(float);
        const struct lab_history *history = &lab->histories[0][i];
        uint64_t step = history->first == NULL ? UINT64_MAX : history->step;
        put(file, lab->shards[i].state, size);
        put(file, &step, sizeof step);
        if (history->first != NULL) {
            put(file, history->first, size);
            put(file, history->second, size);
            put(file, history->residual, size);
        }
    }
}

void lab_read(struct lab *lab, FILE *file)
{
    get(file, &lab->version, sizeof lab->version);
    for (size_t i = 0; i < lab->shard_count; i++) {
        size_t count = lab->shards[i].layout.parameters;
        struct lab_history *history = &lab->histories[0][i];
        drop_history(history);
        get(file, lab->shards[i].state, count * sizeof(float));
        get(file, &history->step, sizeof history->step);
        if (history->step != UINT64_MAX) {
            float **arrays[] = {&history->first, &history->second, &history->residual};
            for (size_t a = 0; a < 3; a++) {
                *arrays[a] = copy_or_zeros(NULL, count);
                get(file, *arrays[a], count * sizeof(float));
            }
        }
    }
}

void lab_bodies_write(const struct lab *lab, const struct skep_update_body *bodies, FILE *file)
{
    for (size_t i = 0; i < lab->shard_count; i++) {
        struct skep_buffer bytes = {0};
        if (bodies[i].tensor_count > 0) {
            skep_update_body_encode(&bodies[i], &bytes);
        }
        uint64_t size = bytes.size;
        put(file, &size, sizeof size);
        put(file, bytes.data, bytes.size);
        skep_buffer_done(&bytes);
    }
}

void lab_bodies_read(const struct lab *lab, FILE *file, struct skep_update_body *ret_bodies)
{
    for (size_t i = 0; i < lab->shard_count; i++) {
        uint64_t size = 0;
        get(file, &size, sizeof size);
        ret_bodies[i] = (struct skep_update_body){0};
        if (size > 0) {
            uint8_t *bytes = skep_alloc(size, 1);
            get(file, bytes, size);
            struct skep_error err = {0};
            if (skep_update_body_decode(
                    bytes, size, lab->shards[i].tilings, lab->shards[i].layout.tensor_count,
                    lab->manifest.update.scale_ceiling, &ret_bodies[i], &err) != SKEP_OK) {
                die(err.text);
            }
            free(bytes);
        }
    }
}
