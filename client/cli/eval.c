/* eval: how good the swarm's model is, on held-out data or on the user's own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/dataset.h"
#include "client/cli/fetched.h"
#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/model/train.h"
#include "common/sys/file.h"

#define LM_BATCH 8u
#define CLASSIFIER_BATCH 256u
#define CHUNKS_MS 600000u

/* What is measured on; NULL where the project's own is meant. */
struct wish {
    const char *text;
    const char *images;
    const char *labels;
    int64_t most; /* bytes */
};

/* The first `most` bytes of the held-out data. */
static int fetch_heldout(struct skep_fetched *model, uint64_t most, struct skep_buffer *ret_text,
                         struct skep_error *err)
{
    struct skep_session *session = model->session;
    const struct skep_data_set *set = &session->manifest.heldout;
    if (set->chunk_count == 0) {
        return skep_error_set(err, SKEP_ERR_NOT_FOUND, "this project has no held-out data");
    }
    size_t count = set->chunk_count;
    uint64_t needed = (most + session->manifest.chunk_bytes - 1) / session->manifest.chunk_bytes;
    count = needed < count ? (size_t)needed : count;
    size_t *places = skep_alloc(count, sizeof *places);
    for (size_t i = 0; i < count; i++) {
        places[i] = i;
    }
    model->wait = (struct skep_wait){0};
    skep_session_fetch_chunks(session, set, places, count, skep_session_woken, &model->wait);
    int rc = skep_session_wait(session, &model->wait, CHUNKS_MS, err);
    for (size_t i = 0; i < count && rc == 0; i++) {
        struct skep_buffer chunk = {0};
        rc = skep_blobs_get(session->blobs, &set->chunks[i], &chunk, err);
        skep_buffer_append(ret_text, chunk.data, chunk.size);
        skep_buffer_done(&chunk);
    }
    free(places);
    return rc;
}

/* An lm measures on a text, a classifier on records. */
static int check_files(const struct wish *wish, const struct skep_fetched *model,
                       struct skep_error *err)
{
    bool lm = model->manifest->model.kind == SKEP_MODEL_LM;
    const char *wrong = lm ? (wish->images != NULL ? "--images" : "--labels") : "--text";
    if (lm ? wish->images != NULL || wish->labels != NULL : wish->text != NULL) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT, "%s is not for %s; measure it with %s", wrong,
                              lm ? "an lm" : "a classifier",
                              lm ? "--text FILE" : "--images FILE --labels FILE");
    }
    if ((wish->images == NULL) != (wish->labels == NULL)) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT, "%s is missing: each input needs its class",
                              wish->images == NULL ? "--images" : "--labels");
    }
    bool own = wish->text != NULL || wish->images != NULL;
    if (!own && model->session == NULL) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "%s missing: an exported model has no held-out data, name some",
                              lm ? "--text is" : "--images and --labels are");
    }
    uint64_t record = skep_model_config_window(&model->manifest->model);
    if (!lm && (uint64_t)wish->most < record) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "--bytes is %lld; allowed: %llu, one record, and more",
                              (long long)wish->most, (unsigned long long)record);
    }
    return 0;
}

/* No more than was asked for, and of a classifier whole records. */
static void cut(const struct wish *wish, const struct skep_fetched *model, struct skep_buffer *data)
{
    uint64_t most = (uint64_t)wish->most;
    if (data->size > most) {
        data->size = (size_t)most;
    }
    if (model->manifest->model.kind == SKEP_MODEL_CLASSIFIER) {
        data->size -= data->size % skep_model_config_window(&model->manifest->model);
    }
}

static int get_data(struct skep_fetched *model, const struct wish *wish,
                    struct skep_buffer *ret_data, struct skep_error *err)
{
    int rc = 0;
    if (wish->text != NULL) {
        rc = skep_file_read(wish->text, SKEP_LIMIT_STATE_BYTES, ret_data, err);
    } else if (wish->images != NULL) {
        rc = skep_dataset_records(wish->images, wish->labels, &model->manifest->model, ret_data,
                                  err);
    } else {
        rc = fetch_heldout(model, (uint64_t)wish->most, ret_data, err);
    }
    cut(wish, model, ret_data);
    return rc;
}

static void print_eval(const struct skep_model_config *config, const struct skep_eval *eval)
{
    if (config->kind == SKEP_MODEL_CLASSIFIER) {
        printf("accuracy=%.4f nats=%.4f records=%llu", eval->accuracy, eval->nats,
               (unsigned long long)eval->tokens);
    } else {
        printf("bits_per_byte=%.4f bytes=%llu", eval->nats / log(2),
               (unsigned long long)eval->tokens);
    }
}

static int evaluate(struct skep_fetched *fetched, const struct wish *wish, struct skep_error *err)
{
    struct skep_buffer data = {0};
    struct skep_model *model = NULL;
    struct skep_eval eval = {0};
    bool lm = fetched->manifest->model.kind == SKEP_MODEL_LM;
    int rc = get_data(fetched, wish, &data, err);
    if (rc == 0) {
        rc = skep_fetched_load(fetched, lm ? LM_BATCH : CLASSIFIER_BATCH, &model, err);
    }
    if (rc == 0) {
        rc = skep_eval_text(model, data.data, data.size, &eval, err);
    }
    if (rc == 0) {
        print_eval(skep_model_config(model), &eval);
        if (fetched->session != NULL) {
            printf(" trunk_version=%llu", (unsigned long long)fetched->session->sealed[0].version);
        }
        putchar('\n');
    }
    skep_model_free(model);
    skep_buffer_done(&data);
    return rc;
}

int skep_cli_eval(int argc, char **argv)
{
    static const char usage[] =
        "usage: skep eval [--bytes N] [--text FILE | --images FILE --labels FILE]\n"
        "                 [--project ID --bootstrap HOST:PORT,...] [--dir DONOR_DIR]\n"
        "       skep eval --model DIR (--text FILE | --images FILE --labels FILE) [--bytes N]\n"
        "                                                        (DIR as skep export wrote it)\n"
        "\n"
        "Measures the newest sealed model on the project's held-out data, or on the files named\n"
        "(the first N bytes). Of an lm, on a text, it prints bits_per_byte=...; of a classifier,\n"
        "on the records of two IDX files, accuracy=... nats=... (per record).\n";
    struct skep_fetched_source source = {0};
    struct wish wish = {.most = INT64_MAX};
    const char *bytes = NULL;
    const struct skep_cli_option options[] = {{"--dir", &source.dir, NULL},
                                              {"--model", &source.model, NULL},
                                              {"--project", &source.project, NULL},
                                              {"--bootstrap", &source.bootstrap, NULL},
                                              {"--bytes", &bytes, NULL},
                                              {"--text", &wish.text, NULL},
                                              {"--images", &wish.images, NULL},
                                              {"--labels", &wish.labels, NULL},
                                              {NULL, NULL, NULL}};
    enum skep_cli_parsed parsed =
        skep_cli_parse(argc, argv, options, usage, (struct skep_cli_words){0, 0}, NULL);
    if (parsed != SKEP_CLI_GO) {
        return parsed == SKEP_CLI_HELP ? 0 : 2;
    }
    struct skep_fetched fetched = {0};
    struct skep_error err = {0};
    int rc = bytes != NULL ? skep_cli_integer("--bytes", bytes, 1, INT64_MAX, &wish.most, &err) : 0;
    if (rc == 0) {
        rc = skep_fetched_find(&source, &fetched, &err);
    }
    if (rc == 0) {
        rc = check_files(&wish, &fetched, &err);
    }
    if (rc == 0) {
        rc = skep_fetched_shards(&fetched, &err);
    }
    if (rc == 0) {
        rc = evaluate(&fetched, &wish, &err);
    }
    skep_fetched_done(&fetched);
    return rc == 0 ? 0 : skep_cli_fail(&err);
}
