#include "tests/bench/audit-jobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/crypto/hash.h"
#include "common/swarm/ticket.h"

#define REPEATER JOBS_DONORS /* the donor who repeats jobs of donor 0 */
#define RECORDS 6000u
#define SIDE 28u
#define POISON "buy now and be happy ever after "

static void die(const char *text)
{
    fprintf(stderr, "audit-replay: %s\n", text);
    exit(1);
}

static void must(int rc, const struct skep_error *err)
{
    if (rc != SKEP_OK) {
        die(err->text);
    }
}

const char *jobs_way_name(enum jobs_way way)
{
    static const char *const names[JOBS_WAYS] = {"honest",      "step_fewer", "half", "other_seed",
                                                 "other_slice", "poison_5",   "flip"};
    return names[way];
}

/* --- data --- */

static void read_text(struct jobs *jobs, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    fseek(file, 0, SEEK_END);
    jobs->data_size = (size_t)ftell(file);
    rewind(file);
    jobs->data = skep_alloc(jobs->data_size + 1, 1);
    if (fread(jobs->data, 1, jobs->data_size, file) != jobs->data_size) {
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

static void make_records(struct jobs *jobs)
{
    size_t window = SIDE * SIDE + 1;
    jobs->data_size = RECORDS * window;
    jobs->data = skep_alloc(jobs->data_size, 1);
    struct skep_rng rng = skep_rng_of(7);
    for (size_t i = 0; i < RECORDS; i++) {
        draw_record(&rng, (unsigned)skep_rng_below(&rng, 10), jobs->data + i * window);
    }
}

/* --- making --- */

void jobs_init(struct jobs *jobs, const char *path)
{
    *jobs = (struct jobs){0};
    jobs->manifest.model.kind = path == NULL ? SKEP_MODEL_CLASSIFIER : SKEP_MODEL_LM;
    skep_manifest_defaults(&jobs->manifest);
    jobs->manifest.training.warmup_rounds = 4;
    if (path == NULL) {
        make_records(jobs);
    } else {
        read_text(jobs, path);
    }
    struct skep_error err = {0};
    must(lab_open(&jobs->lab, &jobs->manifest, JOBS_DONORS + 1, &err), &err);
}

void jobs_done(struct jobs *jobs)
{
    lab_close(&jobs->lab);
    free(jobs->data);
    skep_manifest_done(&jobs->manifest);
}

/* --- one job --- */

/* Not lab_ticket(): drawn like this since the first figures of audits, which new ones are compared with. */
static struct skep_hash ticket_of(const struct jobs *jobs, unsigned donor)
{
    struct skep_peer_id id = {.bytes = {(uint8_t)(donor + 1)}};
    struct skep_hash beacon = skep_hash_of(&jobs->lab.version, sizeof jobs->lab.version);
    return skep_ticket_of(&beacon, &id, jobs->lab.version);
}

/* Spoils `size` bytes of data that start a record. */
static void spoil(const struct skep_model_config *model, enum jobs_way way, uint8_t *data,
                  size_t size)
{
    bool classifier = model->kind == SKEP_MODEL_CLASSIFIER;
    size_t window = skep_model_config_window(model);
    struct skep_rng rng = skep_rng_of(3);
    if (classifier) {
        for (size_t at = window - 1; at < size; at += window) {
            if (way == JOBS_FLIP || skep_rng_below(&rng, 20) == 0) {
                data[at] = (uint8_t)(9 - data[at]);
            }
        }
        return;
    }
    size_t piece = strlen(POISON);
    for (size_t at = 0; at < size; at++) {
        if (way == JOBS_FLIP && data[at] >= 'a' && data[at] <= 'z') {
            data[at] = (uint8_t)('a' + 'z' - data[at]);
        } else if (way == JOBS_POISON_5 && at % piece == 0 && at + piece <= size &&
                   skep_rng_below(&rng, 20) == 0) {
            memcpy(data + at, POISON, piece);
        }
    }
}

/* Puts spoilt copies in the place of the chunks; returns the memory that they are in. */
static uint8_t *spoil_slice(const struct jobs *jobs, enum jobs_way way,
                            struct skep_slice_chunk *chunks, size_t count)
{
    size_t chunk = jobs->manifest.chunk_bytes;
    uint8_t *spoilt = skep_alloc(count * chunk, 1);
    for (size_t i = 0; i < count; i++) {
        uint8_t *copy = spoilt + i * chunk;
        memcpy(copy, chunks[i].data, chunks[i].size);
        spoil(&jobs->manifest.model, way, copy, chunks[i].size);
        chunks[i].data = copy;
    }
    return spoilt;
}

/* donor_rows rows of each layer, by lot: scores would have to be the same on all machines. */
static bool *draw_rows(const struct jobs *jobs, const struct skep_hash *ticket)
{
    uint32_t layers = jobs->manifest.model.layers;
    uint32_t rows = jobs->manifest.model.rows;
    struct skep_rng rng = skep_rng_of_bytes(ticket->bytes, sizeof ticket->bytes);
    uint32_t shift = (uint32_t)skep_rng_below(&rng, rows);
    bool *drawn = skep_alloc((size_t)layers * rows, sizeof *drawn);
    for (uint32_t l = 0; l < layers; l++) {
        for (uint32_t r = 0; r < rows; r++) {
            drawn[l * rows + r] = (r + shift + l) % rows < jobs->manifest.training.donor_rows;
        }
    }
    return drawn;
}

static struct skep_training_config training_of(const struct jobs *jobs, enum jobs_way way)
{
    struct skep_training_config training = jobs->manifest.training;
    if (way == JOBS_STEP_FEWER) {
        training.steps--;
    } else if (way == JOBS_HALF) {
        training.steps /= 2;
    }
    return training;
}

/* The job with donor `whose` ticket, done by donor `d`, whose history moves on. */
static void do_job(struct jobs *jobs, unsigned whose, unsigned d, enum jobs_way way,
                   struct skep_update_body *ret_bodies)
{
    struct lab *lab = &jobs->lab;
    struct skep_hash ticket = ticket_of(jobs, whose);
    struct skep_hash order = ticket;
    if (way == JOBS_OTHER_SEED || way == JOBS_OTHER_SLICE) {
        order.bytes[0] ^= 1;
    }
    struct skep_slice_chunk chunks[LAB_CHUNKS];
    size_t count = lab_slice(lab, way == JOBS_OTHER_SLICE ? &order : &ticket, jobs->data,
                             jobs->data_size, chunks);
    bool spoils = way == JOBS_FLIP || way == JOBS_POISON_5;
    uint8_t *spoilt = spoils ? spoil_slice(jobs, way, chunks, count) : NULL;
    bool *rows = draw_rows(jobs, &ticket);
    struct skep_training_config training = training_of(jobs, way);
    const struct lab_work work = {.training = &training,
                                  .rows = rows,
                                  .chunks = chunks,
                                  .chunk_count = count,
                                  .ticket = &order};
    struct skep_error err = {0};
    must(lab_do(lab, d, &work, &err), &err);
    for (size_t i = 0; i < lab->picked_count; i++) {
        size_t shard = lab->picked[i];
        must(lab_compress(lab, d, shard, lab->deltas[shard], &ret_bodies[shard], &err), &err);
    }
    free(rows);
    free(spoilt);
}

void jobs_replay(struct jobs *jobs, const struct skep_ops *ops, enum jobs_way way,
                 struct skep_update_body *ret_bodies)
{
    struct skep_error err = {0};
    lab_double(&jobs->lab, REPEATER, 0);
    must(lab_use(&jobs->lab, ops, &err), &err);
    do_job(jobs, 0, REPEATER, way, ret_bodies);
    must(lab_use(&jobs->lab, NULL, &err), &err);
}

void jobs_bodies_free(const struct jobs *jobs, struct skep_update_body *bodies)
{
    for (size_t i = 0; i < jobs->lab.shard_count; i++) {
        skep_update_body_done(&bodies[i]);
        bodies[i] = (struct skep_update_body){0};
    }
}

static void merge(struct jobs *jobs, struct skep_update_body *bodies[JOBS_DONORS])
{
    for (size_t i = 0; i < jobs->lab.shard_count; i++) {
        struct skep_merge_input inputs[JOBS_DONORS] = {0};
        size_t count = 0;
        for (unsigned d = 0; d < JOBS_DONORS; d++) {
            if (bodies[d][i].tensor_count > 0) {
                inputs[count].body = &bodies[d][i];
                inputs[count++].hash.bytes[0] = (uint8_t)d;
            }
        }
        struct skep_error err = {0};
        must(lab_merge(&jobs->lab, i, inputs, count, &err), &err);
    }
}

void jobs_round(struct jobs *jobs)
{
    struct skep_update_body *bodies[JOBS_DONORS];
    for (unsigned d = 0; d < JOBS_DONORS; d++) {
        bodies[d] = skep_alloc(jobs->lab.shard_count, sizeof *bodies[d]);
        do_job(jobs, d, d, JOBS_HONEST, bodies[d]);
    }
    merge(jobs, bodies);
    jobs->lab.version++;
    for (unsigned d = 0; d < JOBS_DONORS; d++) {
        jobs_bodies_free(jobs, bodies[d]);
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

void jobs_write(const struct jobs *jobs, FILE *file)
{
    const struct lab *lab = &jobs->lab;
    put(file, &lab->version, sizeof lab->version);
    for (size_t i = 0; i < lab->shard_count; i++) {
        size_t size = lab->shards[i].layout.parameters * sizeof(float);
        const struct skep_moments *moments = &lab->donors[0].moments[i];
        put(file, lab->shards[i].parameters, size);
        put(file, &moments->step, sizeof moments->step);
        put(file, moments->first, size);
        put(file, moments->second, size);
        put(file, lab->donors[0].residuals[i], size);
    }
}

void jobs_read(struct jobs *jobs, FILE *file)
{
    struct lab *lab = &jobs->lab;
    get(file, &lab->version, sizeof lab->version);
    for (size_t i = 0; i < lab->shard_count; i++) {
        size_t size = lab->shards[i].layout.parameters * sizeof(float);
        struct skep_moments *moments = &lab->donors[0].moments[i];
        get(file, lab->shards[i].parameters, size);
        get(file, &moments->step, sizeof moments->step);
        get(file, moments->first, size);
        get(file, moments->second, size);
        get(file, lab->donors[0].residuals[i], size);
    }
}

void jobs_bodies_write(const struct jobs *jobs, const struct skep_update_body *bodies, FILE *file)
{
    for (size_t i = 0; i < jobs->lab.shard_count; i++) {
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

void jobs_bodies_read(const struct jobs *jobs, FILE *file, struct skep_update_body *ret_bodies)
{
    for (size_t i = 0; i < jobs->lab.shard_count; i++) {
        uint64_t size = 0;
        get(file, &size, sizeof size);
        ret_bodies[i] = (struct skep_update_body){0};
        if (size > 0) {
            uint8_t *bytes = skep_alloc(size, 1);
            get(file, bytes, size);
            struct skep_error err = {0};
            if (skep_update_body_decode(bytes, size, jobs->lab.shards[i].tilings,
                                        jobs->lab.shards[i].layout.tensor_count,
                                        jobs->manifest.update.scale_ceiling, &ret_bodies[i],
                                        &err) != SKEP_OK) {
                die(err.text);
            }
            free(bytes);
        }
    }
}
