#include "tests/bench/attack/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/base/rng.h"
#include "common/sys/file.h"
#include "common/wire/idx.h"

#define TRAIN_RECORDS 12000u
#define TEST_RECORDS 4000u
#define TEXT "/usr/share/common-licenses/GPL-3"
#define TEXT_MOST (8u << 20)
#define TEST_TEXT 8192u
#define PIECE 512u /* of a text that is shuffled */

/* ---- classifier ---- */

static void append_records(const struct skep_buffer *from, size_t count, uint8_t *ret_records,
                           size_t record)
{
    memcpy(ret_records, from->data, count * record);
}

static int read_pair(const struct attack_data_options *options, const char *part, uint8_t *records,
                     size_t wanted, struct skep_error *err)
{
    const uint32_t inputs = options->model->inputs;
    struct skep_buffer files[2] = {{0}};
    struct skep_buffer found = {0};
    struct skep_idx idx[2];
    int rc = SKEP_OK;
    for (int i = 0; i < 2 && rc == SKEP_OK; i++) {
        char *path = skep_format("%s/%s-%s", options->path, part,
                                 i == 0 ? "images-idx3-ubyte" : "labels-idx1-ubyte");
        rc = skep_file_read(path, (size_t)64 << 20, &files[i], err);
        if (rc == SKEP_OK) {
            rc = skep_idx_parse(part, files[i].data, files[i].size, &idx[i], err);
        }
        free(path);
    }
    if (rc == SKEP_OK) {
        rc = skep_idx_records(&idx[0], &idx[1], inputs, options->model->classes, &found, err);
    }
    if (rc == SKEP_OK && found.size < wanted * (inputs + 1)) {
        rc = skep_error_set(err, SKEP_ERR_FORMAT, "%s/%s-*: %zu bytes of records; %zu are needed",
                            options->path, part, found.size, wanted * (inputs + 1));
    }
    if (rc == SKEP_OK) {
        append_records(&found, wanted, records, inputs + 1);
    }
    skep_buffer_done(&found);
    skep_buffer_done(&files[0]);
    skep_buffer_done(&files[1]);
    return rc;
}

/* Each class has a pattern; of a record's inputs one in ten is its class's and the rest is noise. */
static void draw_records(const struct attack_data_options *options, uint64_t seed, uint8_t *records,
                         size_t count)
{
    const uint32_t inputs = options->model->inputs;
    struct skep_rng rng = skep_rng_of(seed);
    for (size_t r = 0; r < count; r++) {
        uint8_t *record = records + r * (inputs + 1);
        uint64_t class = skep_rng_below(&rng, options->model->classes);
        struct skep_rng pattern = skep_rng_of(1000 + class);
        for (uint32_t i = 0; i < inputs; i++) {
            uint8_t own = (uint8_t)skep_rng_next(&pattern);
            uint8_t noise = (uint8_t)skep_rng_next(&rng);
            record[i] = skep_rng_below(&rng, 10) < 1 ? own : noise;
        }
        record[inputs] = (uint8_t) class;
    }
}

static void shuffle(uint8_t *items, size_t count, size_t size, uint64_t seed)
{
    struct skep_rng rng = skep_rng_of(seed);
    uint8_t *swap = skep_alloc(size, 1);
    for (size_t i = count; i > 1; i--) {
        size_t other = (size_t)skep_rng_below(&rng, i);
        memcpy(swap, items + (i - 1) * size, size);
        memmove(items + (i - 1) * size, items + other * size, size);
        memcpy(items + other * size, swap, size);
    }
    free(swap);
}

/* Stable, so that it depends on nothing but the order it found. */
static void sort_by_class(uint8_t *records, size_t count, size_t record, uint32_t classes)
{
    uint8_t *sorted = skep_alloc(count, record);
    size_t done = 0;
    for (uint32_t class = 0; class < classes; class ++) {
        for (size_t r = 0; r < count; r++) {
            if (records[(r + 1) * record - 1] == class) {
                memcpy(sorted + done++ * record, records + r * record, record);
            }
        }
    }
    memcpy(records, sorted, count * record);
    free(sorted);
}

static int open_records(const struct attack_data_options *options, struct attack_data *data,
                        struct skep_error *err)
{
    size_t record = (size_t)options->model->inputs + 1;
    data->train_size = TRAIN_RECORDS * record;
    data->test_size = TEST_RECORDS * record;
    data->train = skep_alloc(data->train_size, 1);
    data->test = skep_alloc(data->test_size, 1);
    if (options->path == NULL) {
        draw_records(options, 2 * options->seed, data->train, TRAIN_RECORDS);
        draw_records(options, 2 * options->seed + 1, data->test, TEST_RECORDS);
    } else {
        int rc = read_pair(options, "train", data->train, TRAIN_RECORDS, err);
        if (rc == SKEP_OK) {
            rc = read_pair(options, "t10k", data->test, TEST_RECORDS, err);
        }
        if (rc != SKEP_OK) {
            return rc;
        }
    }
    shuffle(data->train, TRAIN_RECORDS, record, options->seed);
    if (options->sorted) {
        sort_by_class(data->train, TRAIN_RECORDS, record, options->model->classes);
    }
    data->flipped = skep_alloc(data->train_size, 1);
    memcpy(data->flipped, data->train, data->train_size);
    for (size_t r = record - 1; r < data->train_size; r += record) {
        data->flipped[r] = (uint8_t)(options->model->classes - 1 - data->flipped[r]);
    }
    return SKEP_OK;
}

/* ---- text ---- */

static int open_text(const struct attack_data_options *options, struct attack_data *data,
                     struct skep_error *err)
{
    struct skep_buffer text = {0};
    int rc = skep_file_read(options->path != NULL ? options->path : TEXT, TEXT_MOST, &text, err);
    if (rc == SKEP_OK && text.size < 2 * TEST_TEXT) {
        rc = skep_error_set(err, SKEP_ERR_FORMAT, "the text has %zu bytes; at least %u are needed",
                            text.size, 2 * TEST_TEXT);
    }
    if (rc == SKEP_OK) {
        data->test_size = TEST_TEXT;
        data->test = skep_alloc(TEST_TEXT, 1);
        memcpy(data->test, text.data + text.size - TEST_TEXT, TEST_TEXT);
        data->train_size = (text.size - TEST_TEXT) / PIECE * PIECE;
        data->train = skep_alloc(data->train_size, 1);
        memcpy(data->train, text.data, data->train_size);
        if (!options->sorted) {
            shuffle(data->train, data->train_size / PIECE, PIECE, options->seed);
        }
        data->flipped = skep_alloc(data->train_size, 1);
        for (size_t i = 0; i < data->train_size; i++) {
            data->flipped[i] = (uint8_t)(255 - data->train[i]);
        }
    }
    skep_buffer_done(&text);
    return rc;
}

int attack_data_open(const struct attack_data_options *options, struct attack_data *ret_data,
                     struct skep_error *err)
{
    return options->model->kind == SKEP_MODEL_LM ? open_text(options, ret_data, err)
                                                 : open_records(options, ret_data, err);
}

void attack_data_close(struct attack_data *data)
{
    free(data->train);
    free(data->flipped);
    free(data->test);
    *data = (struct attack_data){0};
}
