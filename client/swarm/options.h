/* What `skep swarm` was asked for. */
#ifndef SKEP_CLIENT_SWARM_OPTIONS_H
#define SKEP_CLIENT_SWARM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

#define SKEP_SWARM_MOST_KEEPERS 16
#define SKEP_SWARM_MOST_DONORS 32

/* Texts are borrowed from argv. */
struct skep_swarm_options {
    const char *dir;
    const char *data; /* text to train on; needed the first time */
    const char *task; /* task file to publish instead of the default one; may be NULL */
    unsigned keepers;
    unsigned donors;
    double minutes;  /* 0: until interrupted */
    uint64_t tokens; /* stop once so many were trained on; 0: no such limit */
    bool plain;
    bool help;
};

/* Fills *ret_options from the words after `skep swarm`; SKEP_ERR_ARGUMENT with a sentence. */
int skep_swarm_options_parse(int argc, char **argv, struct skep_swarm_options *ret_options,
                             struct skep_error *err);
const char *skep_swarm_usage(void);

#endif
