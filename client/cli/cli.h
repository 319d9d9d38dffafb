/*
 * The commands of `skep`. Each is a function of its words (argv[0] is the command) that returns the process's exit status, named in
 * main.c's table. A failure is one sentence on stderr that says what happened and what to do next.
 */
#ifndef SKEP_CLIENT_CLI_CLI_H
#define SKEP_CLIENT_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/wire/json.h"

int skep_cli_project(int argc, char **argv);
int skep_cli_attach(int argc, char **argv);
int skep_cli_detach(int argc, char **argv);
int skep_cli_status(int argc, char **argv);
int skep_cli_pause(int argc, char **argv);
int skep_cli_resume(int argc, char **argv);
int skep_cli_credit(int argc, char **argv);
int skep_cli_export(int argc, char **argv);
int skep_cli_generate(int argc, char **argv);
int skep_cli_eval(int argc, char **argv);
int skep_cli_plan(int argc, char **argv);

/* One option of a command: `--name VALUE` into *value, or `--name` into *flag. */
struct skep_cli_option {
    const char *name; /* with the dashes; NULL ends a list */
    const char **value;
    bool *flag;
};

enum skep_cli_parsed {
    SKEP_CLI_GO,
    SKEP_CLI_HELP,  /* --help was asked for and printed: exit 0 */
    SKEP_CLI_WRONG, /* said on stderr: exit 2 */
};

/* How many words besides its options a command takes. */
struct skep_cli_words {
    int least;
    int most;
};

/* Takes options out of argv wherever they stand; the words left are argv[1 .. *ret_words] (NULL: not asked for). `--` ends options. */
enum skep_cli_parsed skep_cli_parse(int argc, char **argv, const struct skep_cli_option *options,
                                    const char *usage, struct skep_cli_words allowed,
                                    int *ret_words);
/* A number within bounds; SKEP_ERR_ARGUMENT names the option. */
int skep_cli_integer(const char *name, const char *text, int64_t least, int64_t most,
                     int64_t *ret_value, struct skep_error *err);
int skep_cli_real(const char *name, const char *text, double least, double most, double *ret_value,
                  struct skep_error *err);

/* Says the sentence and gives the exit status. */
int skep_cli_fail(const struct skep_error *err);
/* The donor's folder: `chosen`, or the default; the caller frees. */
char *skep_cli_dir(const char *chosen);

/* One question to the daemon of `dir`; its answer as JSON (the caller frees), its error as ours. */
int skep_cli_ask(const char *dir, struct skep_json *take_request, struct skep_json **ret_answer,
                 struct skep_error *err);

#endif
