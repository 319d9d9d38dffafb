/*
 * What the members of a local swarm say about themselves, as numbers for the view: keepers' /v1/status and donors' control
 * sockets, read into plain values. Pure.
 */
#ifndef SKEP_CLIENT_SWARM_FIGURES_H
#define SKEP_CLIENT_SWARM_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/swarm/options.h"
#include "common/base/error.h"
#include "common/base/id.h"

struct skep_keeper_figures {
    bool known; /* it has answered at least once since it was started */
    int64_t trunk_version;
    int64_t merged;
    int64_t waiting;
    int64_t peers;
    int64_t dht_nodes;
    int64_t donors; /* that hold credit */
    int64_t most_donors_in_seal;
    double credit;          /* of all donors */
    struct skep_hash state; /* equal on keepers that agree on every shard */
};

struct skep_donor_figures {
    bool known;
    char sentence[160];
    double loss; /* training loss of its current job; 0 before the first step */
    bool
        records; /* it trains a classifier: the loss is in nats per record, else in bits per byte */
    double tokens_per_s;
    int64_t tokens;
    int64_t updates_merged;
    double credit;
    int64_t peers;
};

int skep_keeper_figures_read(const void *text, size_t size, struct skep_keeper_figures *ret_figures,
                             struct skep_error *err);
int skep_donor_figures_read(const void *text, size_t size, struct skep_donor_figures *ret_figures,
                            struct skep_error *err);

/* A member as the view shows it. */
struct skep_swarm_row {
    char name[24];
    bool running;
    struct skep_keeper_figures keeper;
    struct skep_donor_figures donor;
};

/* All that one screen or line shows. */
struct skep_swarm_figures {
    const char *project; /* text of its id, or "" */
    double elapsed_s;
    double left_s;   /* negative: no end set */
    bool classifier; /* the model is one, as far as its members or a measure have told */
    double heldout;  /* bits per byte or accuracy of a held-out sample; 0 before the first */
    size_t keeper_count;
    size_t donor_count;
    struct skep_swarm_row keepers[SKEP_SWARM_MOST_KEEPERS];
    struct skep_swarm_row donors[SKEP_SWARM_MOST_DONORS];
};

/* Sums and newest values over the members. */
struct skep_swarm_totals {
    int64_t round;
    int64_t merged;
    int64_t donors;
    int64_t most_donors_in_seal;
    int64_t tokens;
    double tokens_per_s;
    double loss; /* mean over donors that are training */
    double credit;
    size_t keepers_agree; /* keepers in the largest group with one state */
    size_t keepers_known;
};

struct skep_swarm_totals skep_swarm_sum(const struct skep_swarm_figures *figures);

#endif
