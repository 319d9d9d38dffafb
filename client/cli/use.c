/* export, generate, eval: what the swarm's model is good for. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/fetched.h"
#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/crypto/random.h"
#include "common/model/train.h"
#include "common/sys/file.h"
#include "common/wire/json.h"

#define EVAL_BATCH 8u
#define CHUNKS_MS 600000u

/* ---- export ---- */

static struct skep_json *config_json(const struct skep_fetched *model)
{
    struct skep_json *root = skep_json_object_new();
    struct skep_json *shards = skep_json_object_new();
    for (size_t i = 0; i < model->session->heads.count; i++) {
        struct skep_shard shard = skep_manifest_shard(&model->session->manifest, i);
        char name[SKEP_SHARD_TEXT_SIZE];
        skep_shard_format(&shard, name);
        skep_json_set_integer(shards, name, (int64_t)model->session->sealed[i].version);
    }
    skep_json_set_text(root, "name", model->session->manifest.name);
    skep_json_set_hex(root, "project", model->session->project.bytes, SKEP_ID_SIZE);
    skep_json_set_text(root, "kind", "lm");
    skep_json_set_take(root, "model", skep_model_config_to_json(&model->session->manifest.model));
    skep_json_set_take(root, "versions", shards);
    return root;
}

static int export_shard(const struct skep_fetched *model, size_t i, const char *folder,
                        struct skep_error *err)
{
    struct skep_shard shard = skep_manifest_shard(&model->session->manifest, i);
    struct skep_buffer file = {0};
    char name[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(&shard, name);
    char *from = skep_session_state_path(model->session, i);
    char *to = skep_format("%s/%s.safetensors", folder, name);
    int rc = skep_file_read(from, SKEP_LIMIT_STATE_BYTES, &file, err);
    if (rc == 0) {
        rc = skep_file_write(to, 0644, file.data, file.size, err);
    }
    skep_buffer_done(&file);
    free(from);
    free(to);
    return rc;
}

static int export_model(const struct skep_fetched *model, const char *folder,
                        struct skep_error *err)
{
    size_t count = model->session->heads.count;
    if (model->missing > 0) {
        return skep_error_set(
            err, SKEP_ERR_NETWORK,
            "%zu of %zu shards are missing; try again when their keepers are back", model->missing,
            count);
    }
    int rc = skep_folder_make(folder, err);
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = export_shard(model, i, folder, err);
    }
    if (rc == 0) {
        struct skep_json *config = config_json(model);
        char *text = skep_json_write(config, true);
        char *path = skep_format("%s/config.json", folder);
        rc = skep_file_write(path, 0644, text, strlen(text), err);
        free(path);
        free(text);
        skep_json_free(config);
    }
    if (rc == 0) {
        printf("exported %zu shards, trunk version %llu, to %s\n", count,
               (unsigned long long)model->session->sealed[0].version, folder);
    }
    return rc;
}

int skep_cli_export(int argc, char **argv)
{
    static const char usage[] =
        "usage: skep export DIR [--project ID --bootstrap HOST:PORT,...] [--dir DONOR_DIR]\n"
        "\n"
        "Writes the newest sealed version of every shard as DIR/<shard>.safetensors, and the\n"
        "model's shape as DIR/config.json.\n";
    struct skep_fetched_source source = {0};
    int words = 0;
    const struct skep_cli_option options[] = {{"--dir", &source.dir, NULL},
                                              {"--project", &source.project, NULL},
                                              {"--bootstrap", &source.bootstrap, NULL},
                                              {NULL, NULL, NULL}};
    enum skep_cli_parsed parsed = skep_cli_parse(argc, argv, options, usage, &words);
    if (parsed != SKEP_CLI_GO || words != 1) {
        if (parsed == SKEP_CLI_GO) {
            fputs(usage, stderr);
        }
        return parsed == SKEP_CLI_HELP ? 0 : 2;
    }
    struct skep_fetched model = {0};
    struct skep_error err = {0};
    int rc = skep_fetched_get(&source, &model, &err);
    if (rc == 0) {
        rc = export_model(&model, argv[1], &err);
    }
    skep_fetched_done(&model);
    return rc == 0 ? 0 : skep_cli_fail(&err);
}

/* ---- generate ---- */

/* A model may draw any byte; a terminal obeys some of them. */
static bool emit(void *user, uint8_t byte)
{
    (void)user;
    bool control = (byte < 32 && byte != '\n' && byte != '\t') || byte == 127;
    putchar(control ? '?' : byte);
    fflush(stdout);
    return ferror(stdout) == 0;
}

struct wish {
    const char *prompt;
    int64_t length;
    double temperature;
    double top_p;
    int64_t seed;
};

static int generate(const struct skep_fetched *model, const struct wish *wish,
                    struct skep_error *err)
{
    struct skep_model *lm = NULL;
    int rc = skep_fetched_load(model, 1, &lm, err);
    if (rc == 0) {
        fputs(wish->prompt, stdout);
        rc = skep_generate(lm, (const uint8_t *)wish->prompt, strlen(wish->prompt),
                           (size_t)wish->length, wish->temperature, wish->top_p,
                           (uint64_t)wish->seed, emit, NULL, err);
        putchar('\n');
    }
    skep_model_free(lm);
    return rc;
}

static int read_wish(const char *const texts[4], struct wish *wish, struct skep_error *err)
{
    uint32_t random = 0;
    skep_random_bytes(&random, sizeof random);
    wish->seed = random;
    int rc = 0;
    if (texts[0] != NULL) {
        rc = skep_cli_integer("--length", texts[0], 1, 1000000, &wish->length, err);
    }
    if (rc == 0 && texts[1] != NULL) {
        rc = skep_cli_real("--temperature", texts[1], 0, 10, &wish->temperature, err);
    }
    if (rc == 0 && texts[2] != NULL) {
        rc = skep_cli_real("--top-p", texts[2], 0.001, 1, &wish->top_p, err);
    }
    if (rc == 0 && texts[3] != NULL) {
        rc = skep_cli_integer("--seed", texts[3], 0, INT64_MAX, &wish->seed, err);
    }
    if (rc == 0 && (wish->prompt == NULL || wish->prompt[0] == '\0')) {
        rc = skep_error_set(err, SKEP_ERR_ARGUMENT,
                            "--prompt is missing: give the text to go on from");
    }
    return rc;
}

int skep_cli_generate(int argc, char **argv)
{
    static const char usage[] =
        "usage: skep generate --prompt TEXT [--length N] [--temperature T] [--top-p P] [--seed N]\n"
        "                     [--project ID --bootstrap HOST:PORT,...] [--dir DONOR_DIR]\n"
        "       skep generate --model DIR --prompt TEXT ...      (DIR as skep export wrote it)\n"
        "\n"
        "Goes on from TEXT with N bytes (200) drawn at temperature T (0.8) from the most likely\n"
        "ones that sum to P (0.95). The same seed gives the same text from the same versions.\n";
    struct skep_fetched_source source = {0};
    struct wish wish = {.length = 200, .temperature = 0.8, .top_p = 0.95};
    const char *texts[4] = {0};
    int words = 0;
    const struct skep_cli_option options[] = {
        {"--dir", &source.dir, NULL},         {"--model", &source.model, NULL},
        {"--project", &source.project, NULL}, {"--bootstrap", &source.bootstrap, NULL},
        {"--prompt", &wish.prompt, NULL},     {"--length", &texts[0], NULL},
        {"--temperature", &texts[1], NULL},   {"--top-p", &texts[2], NULL},
        {"--seed", &texts[3], NULL},          {NULL, NULL, NULL}};
    enum skep_cli_parsed parsed = skep_cli_parse(argc, argv, options, usage, &words);
    if (parsed != SKEP_CLI_GO || words != 0) {
        if (words != 0) {
            fputs(usage, stderr);
        }
        return parsed == SKEP_CLI_HELP ? 0 : 2;
    }
    struct skep_fetched model = {0};
    struct skep_error err = {0};
    int rc = read_wish(texts, &wish, &err);
    if (rc == 0) {
        rc = skep_fetched_get(&source, &model, &err);
    }
    if (rc == 0) {
        rc = generate(&model, &wish, &err);
    }
    skep_fetched_done(&model);
    return rc == 0 ? 0 : skep_cli_fail(&err);
}

/* ---- eval ---- */

/* The first `most` bytes of the held-out text. */
static int fetch_heldout(struct skep_fetched *model, uint64_t most, struct skep_buffer *ret_text,
                         struct skep_error *err)
{
    struct skep_session *session = model->session;
    const struct skep_data_set *set = &session->manifest.heldout;
    if (set->chunk_count == 0) {
        return skep_error_set(err, SKEP_ERR_NOT_FOUND, "this project has no held-out text");
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
    if (ret_text->size > most) {
        ret_text->size = (size_t)most;
    }
    free(places);
    return rc;
}

static int read_text(const char *file, uint64_t most, struct skep_buffer *ret_text,
                     struct skep_error *err)
{
    int rc = skep_file_read(file, SKEP_LIMIT_STATE_BYTES, ret_text, err);
    if (ret_text->size > most) {
        ret_text->size = (size_t)most;
    }
    return rc;
}

static int get_text(struct skep_fetched *model, const char *file, uint64_t most,
                    struct skep_buffer *ret_text, struct skep_error *err)
{
    if (file != NULL) {
        return read_text(file, most, ret_text, err);
    }
    if (model->session == NULL) {
        return skep_error_set(
            err, SKEP_ERR_ARGUMENT,
            "--text is missing: an exported model has no held-out text, name one");
    }
    return fetch_heldout(model, most, ret_text, err);
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

static int evaluate(struct skep_fetched *model, const char *file, uint64_t most,
                    struct skep_error *err)
{
    struct skep_buffer text = {0};
    struct skep_model *lm = NULL;
    struct skep_eval eval = {0};
    int rc = get_text(model, file, most, &text, err);
    if (rc == 0) {
        rc = skep_fetched_load(model, EVAL_BATCH, &lm, err);
    }
    if (rc == 0) {
        rc = skep_eval_text(lm, text.data, text.size, &eval, err);
    }
    if (rc == 0) {
        print_eval(skep_model_config(lm), &eval);
        if (model->session != NULL) {
            printf(" trunk_version=%llu", (unsigned long long)model->session->sealed[0].version);
        }
        putchar('\n');
    }
    skep_model_free(lm);
    skep_buffer_done(&text);
    return rc;
}

int skep_cli_eval(int argc, char **argv)
{
    static const char usage[] =
        "usage: skep eval [--bytes N] [--text FILE] [--project ID --bootstrap HOST:PORT,...]\n"
        "                 [--dir DONOR_DIR]\n"
        "       skep eval --model DIR --text FILE [--bytes N]    (DIR as skep export wrote it)\n"
        "\n"
        "Prints bits_per_byte=... of the newest sealed model on the project's held-out text, or "
        "on\n"
        "FILE (its first N bytes).\n";
    struct skep_fetched_source source = {0};
    const char *bytes = NULL;
    const char *file = NULL;
    int64_t most = INT64_MAX;
    int words = 0;
    const struct skep_cli_option options[] = {{"--dir", &source.dir, NULL},
                                              {"--model", &source.model, NULL},
                                              {"--project", &source.project, NULL},
                                              {"--bootstrap", &source.bootstrap, NULL},
                                              {"--bytes", &bytes, NULL},
                                              {"--text", &file, NULL},
                                              {NULL, NULL, NULL}};
    enum skep_cli_parsed parsed = skep_cli_parse(argc, argv, options, usage, &words);
    if (parsed != SKEP_CLI_GO || words != 0) {
        if (words != 0) {
            fputs(usage, stderr);
        }
        return parsed == SKEP_CLI_HELP ? 0 : 2;
    }
    struct skep_fetched model = {0};
    struct skep_error err = {0};
    int rc = bytes != NULL ? skep_cli_integer("--bytes", bytes, 1, INT64_MAX, &most, &err) : 0;
    if (rc == 0) {
        rc = skep_fetched_get(&source, &model, &err);
    }
    if (rc == 0) {
        rc = evaluate(&model, file, (uint64_t)most, &err);
    }
    skep_fetched_done(&model);
    return rc == 0 ? 0 : skep_cli_fail(&err);
}
