/* export, generate: what the swarm's model is good for. eval.c measures it. */
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
    skep_json_set_text(root, "kind", skep_model_kind_name(model->session->manifest.model.kind));
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
    const struct skep_cli_option options[] = {{"--dir", &source.dir, NULL},
                                              {"--project", &source.project, NULL},
                                              {"--bootstrap", &source.bootstrap, NULL},
                                              {NULL, NULL, NULL}};
    enum skep_cli_parsed parsed =
        skep_cli_parse(argc, argv, options, usage, (struct skep_cli_words){1, 1}, NULL);
    if (parsed != SKEP_CLI_GO) {
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
        "ones that sum to P (0.95). The same seed gives the same text from the same versions.\n"
        "Only an lm does that.\n";
    struct skep_fetched_source source = {0};
    struct wish wish = {.length = 200, .temperature = 0.8, .top_p = 0.95};
    const char *texts[4] = {0};
    const struct skep_cli_option options[] = {
        {"--dir", &source.dir, NULL},         {"--model", &source.model, NULL},
        {"--project", &source.project, NULL}, {"--bootstrap", &source.bootstrap, NULL},
        {"--prompt", &wish.prompt, NULL},     {"--length", &texts[0], NULL},
        {"--temperature", &texts[1], NULL},   {"--top-p", &texts[2], NULL},
        {"--seed", &texts[3], NULL},          {NULL, NULL, NULL}};
    enum skep_cli_parsed parsed =
        skep_cli_parse(argc, argv, options, usage, (struct skep_cli_words){0, 0}, NULL);
    if (parsed != SKEP_CLI_GO) {
        return parsed == SKEP_CLI_HELP ? 0 : 2;
    }
    struct skep_fetched model = {0};
    struct skep_error err = {0};
    int rc = read_wish(texts, &wish, &err);
    if (rc == 0) {
        rc = skep_fetched_find(&source, &model, &err);
    }
    if (rc == 0 && model.manifest->model.kind == SKEP_MODEL_CLASSIFIER) {
        rc = skep_error_set(&err, SKEP_ERR_ARGUMENT,
                            "this model is a classifier and does not generate; skep eval measures "
                            "it");
    }
    if (rc == 0) {
        rc = skep_fetched_shards(&model, &err);
    }
    if (rc == 0) {
        rc = generate(&model, &wish, &err);
    }
    skep_fetched_done(&model);
    return rc == 0 ? 0 : skep_cli_fail(&err);
}
