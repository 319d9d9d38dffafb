#include "client/swarm/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *skep_swarm_usage(void)
{
    return "usage: skep swarm --dir DIR --data FILE [--keepers N] [--donors N] [--minutes M]\n"
           "                  [--tokens N] [--task FILE] [--plain]\n"
           "\n"
           "Runs a private swarm on this machine: keepers and donors as separate processes on "
           "loopback addresses.\n"
           "Ctrl-C stops all of them; the same --dir goes on where it was.\n"
           "\n"
           "  --dir DIR      where everything is kept\n"
           "  --data FILE    text to train on (needed the first time)\n"
           "  --keepers N    1 to 16 (default 4)\n"
           "  --donors N     1 to 32 (default 3)\n"
           "  --minutes M    stop after M minutes\n"
           "  --tokens N     stop once the donors have trained on N tokens (records) in this run\n"
           "  --task FILE    publish this task file instead of the default one\n"
           "  --plain        a line per event instead of the terminal view\n"
           "\n"
           "The last line on stdout is\n"
           "  bits_per_byte=<held-out> rounds=<n> merged=<updates> donors=<n> "
           "keepers_agree=<a>/<b>\n"
           "or, if the task is a classifier, accuracy=<held-out> rounds=<n> ...\n";
}

static int parse_number(const char *name, const char *text, double least, double most,
                        double *ret_value, struct skep_error *err)
{
    char *end = NULL;
    errno = 0;
    double value = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0' || !isfinite(value) || value < least ||
        value > most) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT, "%s is %s; allowed: %g to %g", name, text,
                              least, most);
    }
    *ret_value = value;
    return SKEP_OK;
}

static int parse_value(struct skep_swarm_options *options, const char *name, const char *text,
                       struct skep_error *err)
{
    double value = 0;
    int result = SKEP_OK;
    if (strcmp(name, "--dir") == 0) {
        options->dir = text;
    } else if (strcmp(name, "--data") == 0) {
        options->data = text;
    } else if (strcmp(name, "--task") == 0) {
        options->task = text;
    } else if (strcmp(name, "--keepers") == 0) {
        result = parse_number(name, text, 1, SKEP_SWARM_MOST_KEEPERS, &value, err);
        options->keepers = (unsigned)value;
    } else if (strcmp(name, "--donors") == 0) {
        result = parse_number(name, text, 1, SKEP_SWARM_MOST_DONORS, &value, err);
        options->donors = (unsigned)value;
    } else if (strcmp(name, "--minutes") == 0) {
        result = parse_number(name, text, 0.05, 1e6, &options->minutes, err);
    } else if (strcmp(name, "--tokens") == 0) {
        result = parse_number(name, text, 1, 1e15, &value, err);
        options->tokens = (uint64_t)value;
    } else {
        return skep_error_set(err, SKEP_ERR_ARGUMENT, "%s is not an option of skep swarm", name);
    }
    return result;
}

int skep_swarm_options_parse(int argc, char **argv, struct skep_swarm_options *ret_options,
                             struct skep_error *err)
{
    struct skep_swarm_options options = {.keepers = 4, .donors = 3};
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            options.help = true;
            *ret_options = options;
            return SKEP_OK;
        }
        if (strcmp(argv[i], "--plain") == 0) {
            options.plain = true;
            continue;
        }
        if (i + 1 == argc) {
            return skep_error_set(err, SKEP_ERR_ARGUMENT,
                                  "%s needs a value or is not an option of skep swarm", argv[i]);
        }
        int result = parse_value(&options, argv[i], argv[i + 1], err);
        if (result != SKEP_OK) {
            return result;
        }
        i++;
    }
    if (options.dir == NULL) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "--dir is missing: name the folder that keeps the swarm");
    }
    *ret_options = options;
    return SKEP_OK;
}
