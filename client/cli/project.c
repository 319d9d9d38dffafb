/* project init, project publish. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/publish.h"
#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/sys/file.h"
#include "common/wire/task.h"

static const char usage[] =
    "usage: skep project init [FILE] [--kind lm|classifier]\n"
    "       skep project publish TASK.yaml --keeper HOST:PORT [--keeper ...] [--key FILE]\n"
    "\n"
    "init writes a commented task file (task.yaml): of an lm, which learns to write a text, or of\n"
    "a classifier of IDX files. publish makes the project's key if there is none (TASK.yaml.key,\n"
    "mode 0600), signs the manifest, gives it and the data to the keepers, and prints\n"
    "`project ID`. Keep the key: it is the project. skep plan TASK.yaml says beforehand what the\n"
    "project takes of a machine.\n";

static int kind_of(const char *text, enum skep_model_kind *ret_kind, struct skep_error *err)
{
    const enum skep_model_kind kinds[] = {SKEP_MODEL_LM, SKEP_MODEL_CLASSIFIER};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(text, skep_model_kind_name(kinds[i])) == 0) {
            *ret_kind = kinds[i];
            return 0;
        }
    }
    return skep_error_set(err, SKEP_ERR_ARGUMENT, "--kind is \"%.40s\"; allowed: lm, classifier",
                          text);
}

static int init(int argc, char **argv)
{
    int words = 0;
    const char *kind_text = "lm";
    enum skep_model_kind kind = SKEP_MODEL_LM;
    const struct skep_cli_option options[] = {{"--kind", &kind_text, NULL}, {NULL, NULL, NULL}};
    enum skep_cli_parsed parsed =
        skep_cli_parse(argc, argv, options, usage, (struct skep_cli_words){0, 1}, &words);
    if (parsed != SKEP_CLI_GO) {
        return parsed == SKEP_CLI_HELP ? 0 : 2;
    }
    const char *path = words == 1 ? argv[1] : "task.yaml";
    struct skep_error err = {0};
    if (kind_of(kind_text, &kind, &err) != 0) {
        return skep_cli_fail(&err);
    }
    if (skep_file_exists(path)) {
        skep_error_set(&err, SKEP_ERR_ARGUMENT, "%s exists already; name another file", path);
        return skep_cli_fail(&err);
    }
    char *text = skep_task_example(kind, "my-project", kind == SKEP_MODEL_LM ? "text.txt" : "data");
    int rc = skep_file_write(path, 0644, text, strlen(text), &err);
    free(text);
    if (rc != 0) {
        return skep_cli_fail(&err);
    }
    printf("wrote %s; edit it, then: skep project publish %s --keeper HOST:PORT\n", path, path);
    return 0;
}

/* --keeper may be given many times: taken out before the common parser. */
static int take_keepers(int argc, char **argv, const char **keepers, size_t *ret_count)
{
    int kept = 0;
    size_t count = 0;
    for (int i = 0; i < argc; i++) {
        const char *value = NULL;
        if (strcmp(argv[i], "--keeper") == 0 && i + 1 < argc) {
            value = argv[++i];
        } else if (strncmp(argv[i], "--keeper=", 9) == 0) {
            value = argv[i] + 9;
        }
        if (value == NULL) {
            argv[kept++] = argv[i];
        } else if (count < SKEP_LIMIT_KEEPERS) {
            keepers[count++] = value;
        }
    }
    *ret_count = count;
    return kept;
}

static int publish(int argc, char **argv)
{
    const char *keepers[SKEP_LIMIT_KEEPERS];
    const char *key = NULL;
    struct skep_publish_options options = {.keepers = keepers};
    const struct skep_cli_option list[] = {{"--key", &key, NULL}, {NULL, NULL, NULL}};
    argc = take_keepers(argc, argv, keepers, &options.keeper_count);
    enum skep_cli_parsed parsed =
        skep_cli_parse(argc, argv, list, usage, (struct skep_cli_words){1, 1}, NULL);
    if (parsed != SKEP_CLI_GO) {
        return parsed == SKEP_CLI_HELP ? 0 : 2;
    }
    struct skep_error err = {0};
    struct skep_project_id project;
    int rc = 0;
    char *key_path = key != NULL ? skep_strdup(key) : skep_format("%s.key", argv[1]);
    options.task_path = argv[1];
    options.key_path = key_path;
    if (options.keeper_count == 0) {
        rc = skep_error_set(&err, SKEP_ERR_ARGUMENT,
                            "--keeper is missing: name at least one keeper, HOST:PORT");
    } else {
        rc = skep_publish(&options, &project, &err);
    }
    free(key_path);
    if (rc != 0) {
        return skep_cli_fail(&err);
    }
    printf("project %s\n", skep_id_text(project.bytes));
    return 0;
}

int skep_cli_project(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "init") == 0) {
        return init(argc - 1, argv + 1);
    }
    if (argc >= 2 && strcmp(argv[1], "publish") == 0) {
        return publish(argc - 1, argv + 1);
    }
    bool help = argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    fputs(usage, help ? stdout : stderr);
    return help ? 0 : 2;
}
