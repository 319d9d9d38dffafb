/*
 * What the command line of skep-keeper says. Parsed once by main, constant afterwards.
 */
#ifndef SKEP_SERVER_OPTIONS_H
#define SKEP_SERVER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/discovery/directory.h"

#define SKEP_OPTION_PEERS 64u
#define SKEP_OPTION_REMOTE_THREADS 1u
#define SKEP_OPTION_REMOTE_BATCH 2048u
#define SKEP_OPTION_REMOTE_MIB 512u

enum skep_options_wish {
    SKEP_WISH_RUN,
    SKEP_WISH_HELP,
    SKEP_WISH_VERSION,
};

/* Texts are borrowed from argv. */
struct skep_options {
    enum skep_options_wish wish;
    const char *dir;
    struct skep_address listen;   /* port 0: any */
    struct skep_address announce; /* what records say; empty host: the same as listen */
    bool dht;
    bool dht_port_given;   /* otherwise the HTTPS port's + 1 */
    uint16_t dht_port;     /* 0: any */
    const char *bootstrap; /* may be NULL */
    struct skep_address peers[SKEP_OPTION_PEERS];
    size_t peer_count;
    bool only_project; /* take no project but `project` */
    struct skep_project_id project;
    unsigned remote_threads; /* 0: no remote mode (experts.h) */
    size_t remote_batch;     /* rows */
    size_t remote_memory;    /* bytes */
    bool verbose;
};

/* SKEP_ERR_ARGUMENT with a sentence that names the option, its value and what is allowed. */
int skep_options_parse(int argc, char **argv, struct skep_options *ret_options,
                       struct skep_error *err);
/* The text of --help. */
const char *skep_options_help(void);

#endif
