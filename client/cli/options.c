/* What all commands share: options, failures, the daemon. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "common/base/alloc.h"
#include "common/sys/file.h"
#include "common/sys/ipc.h"

#define ASK_TIMEOUT_MS 10000u

static const struct skep_cli_option *find_option(const struct skep_cli_option *options,
                                                 const char *word, size_t length)
{
    for (const struct skep_cli_option *option = options; option->name != NULL; option++) {
        if (strlen(option->name) == length && strncmp(option->name, word, length) == 0) {
            return option;
        }
    }
    return NULL;
}

static void tell_words(char **argv, int words, struct skep_cli_words allowed)
{
    if (words < allowed.least) {
        fprintf(stderr, "skep %s: an argument is missing\n", argv[0]);
    } else {
        fprintf(stderr, "skep %s: the argument \"%s\" is one too many\n", argv[0],
                argv[allowed.most + 1]);
    }
}

enum skep_cli_parsed skep_cli_parse(int argc, char **argv, const struct skep_cli_option *options,
                                    const char *usage, struct skep_cli_words allowed,
                                    int *ret_words)
{
    int words = 0;
    bool only_words = false;
    for (int i = 1; i < argc; i++) {
        char *word = argv[i];
        if (only_words || word[0] != '-' || word[1] == '\0') {
            argv[++words] = word;
            continue;
        }
        if (strcmp(word, "--") == 0) {
            only_words = true;
            continue;
        }
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            fputs(usage, stdout);
            return SKEP_CLI_HELP;
        }
        const char *equals = strchr(word, '=');
        size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
        const struct skep_cli_option *option = find_option(options, word, length);
        if (option == NULL) {
            fprintf(stderr, "skep %s: there is no option %s\n%s", argv[0], word, usage);
            return SKEP_CLI_WRONG;
        }
        if (option->flag != NULL) {
            *option->flag = true;
        } else if (equals != NULL) {
            *option->value = equals + 1;
        } else if (i + 1 < argc) {
            *option->value = argv[++i];
        } else {
            fprintf(stderr, "skep %s: %s needs a value\n%s", argv[0], word, usage);
            return SKEP_CLI_WRONG;
        }
    }
    if (words < allowed.least || words > allowed.most) {
        tell_words(argv, words, allowed);
        fputs(usage, stderr);
        return SKEP_CLI_WRONG;
    }
    if (ret_words != NULL) {
        *ret_words = words;
    }
    return SKEP_CLI_GO;
}

int skep_cli_integer(const char *name, const char *text, int64_t least, int64_t most,
                     int64_t *ret_value, struct skep_error *err)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < least || value > most) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "%s is \"%.40s\"; allowed: a whole number from %lld to %lld", name,
                              text, (long long)least, (long long)most);
    }
    *ret_value = value;
    return 0;
}

int skep_cli_real(const char *name, const char *text, double least, double most, double *ret_value,
                  struct skep_error *err)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= least && value <= most)) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT, "%s is \"%.40s\"; allowed: from %g to %g",
                              name, text, least, most);
    }
    *ret_value = value;
    return 0;
}

int skep_cli_fail(const struct skep_error *err)
{
    fprintf(stderr, "skep: %s\n", err->text);
    return skep_err_exit_status(err->code);
}

char *skep_cli_dir(const char *chosen)
{
    if (chosen != NULL) {
        return skep_strdup(chosen);
    }
    char *root = skep_folder_default();
    char *dir = skep_format("%s/donor", root);
    free(root);
    return dir;
}

/* The sentence of {"error": {...}}; only the daemon of this user can have written it. */
static int error_of(const struct skep_json *answer, struct skep_error *err)
{
    const struct skep_json *error = NULL;
    const char *code = "";
    const char *message = "the daemon gave no reason";
    if (!skep_json_has(answer, "error")) {
        return 0;
    }
    (void)skep_json_get_object(answer, "answer", "error", &error, NULL);
    if (error != NULL) {
        (void)skep_json_get_text(error, "error", "code", &code, NULL);
        (void)skep_json_get_text(error, "error", "message", &message, NULL);
    }
    enum skep_err found = SKEP_ERR_STATE;
    for (int i = SKEP_ERR_ARGUMENT; i >= SKEP_ERR_CANCELLED; i--) {
        if (strcmp(skep_err_name((enum skep_err)i), code) == 0) {
            found = (enum skep_err)i;
        }
    }
    return skep_error_set(err, found, "%s", message);
}

int skep_cli_ask(const char *dir, struct skep_json *take_request, struct skep_json **ret_answer,
                 struct skep_error *err)
{
    char *path = skep_format("%s/control.sock", dir);
    char *text = skep_json_write(take_request, false);
    struct skep_buffer answer = {0};
    struct skep_json *root = NULL;
    int rc = skep_ipc_call(path, text, ASK_TIMEOUT_MS, &answer, err);
    if (rc == SKEP_ERR_NOT_FOUND) {
        rc =
            skep_error_set(err, SKEP_ERR_NOT_FOUND,
                           "no skepd is running with %s; start one with: skepd --dir %s", dir, dir);
    }
    if (rc == 0) {
        rc = skep_json_parse(answer.data, answer.size, "answer", &root, err);
    }
    if (rc == 0) {
        rc = error_of(root, err);
    }
    if (rc == 0 && ret_answer != NULL) {
        *ret_answer = root;
    } else {
        skep_json_free(root);
    }
    skep_buffer_done(&answer);
    skep_json_free(take_request);
    free(text);
    free(path);
    return rc;
}
