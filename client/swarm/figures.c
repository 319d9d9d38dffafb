#include "client/swarm/figures.h"

#include <stdio.h>
#include <string.h>

#include "common/wire/json.h"

static int read_donors(const struct skep_json *project, struct skep_keeper_figures *figures,
                       struct skep_error *err)
{
    const struct skep_json *donors = NULL;
    int result = skep_json_get_array(project, "status", "donors", SIZE_MAX, &donors, err);
    if (result != SKEP_OK) {
        return result;
    }
    figures->donors = (int64_t)skep_json_array_size(donors);
    for (size_t i = 0; i < skep_json_array_size(donors); i++) {
        double credit = 0;
        result = skep_json_get_real(skep_json_array_at(donors, i), "donor", "credit", 0, 1e18,
                                    &credit, err);
        if (result != SKEP_OK) {
            return result;
        }
        figures->credit += credit;
    }
    return SKEP_OK;
}

/* The figures of the first project; a keeper without one is known and at version 0. */
static int read_project(const struct skep_json *root, struct skep_keeper_figures *figures,
                        struct skep_error *err)
{
    const struct skep_json *projects = NULL;
    int result = skep_json_get_array(root, "status", "projects", SIZE_MAX, &projects, err);
    if (result != SKEP_OK || skep_json_array_size(projects) == 0) {
        return result;
    }
    const struct skep_json *project = skep_json_array_at(projects, 0);
    const struct {
        const char *key;
        int64_t *to;
    } integers[] = {
        {"trunk_version", &figures->trunk_version},
        {"updates_merged", &figures->merged},
        {"updates_waiting", &figures->waiting},
        {"most_donors_in_seal", &figures->most_donors_in_seal},
    };
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
        result = skep_json_get_integer(project, "status", integers[i].key, 0, INT64_MAX,
                                       integers[i].to, err);
        if (result != SKEP_OK) {
            return result;
        }
    }
    result = skep_json_get_hex(project, "status", "state", figures->state.bytes, SKEP_ID_SIZE, err);
    return result != SKEP_OK ? result : read_donors(project, figures, err);
}

int skep_keeper_figures_read(const void *text, size_t size, struct skep_keeper_figures *ret_figures,
                             struct skep_error *err)
{
    struct skep_json *root = NULL;
    struct skep_keeper_figures figures = {.known = true};
    int result = skep_json_parse(text, size, "status", &root, err);
    if (result != SKEP_OK) {
        return result;
    }
    result = skep_json_get_integer(root, "status", "peers", 0, INT64_MAX, &figures.peers, err);
    if (result == SKEP_OK) {
        result = skep_json_get_integer(root, "status", "dht_nodes", 0, INT64_MAX,
                                       &figures.dht_nodes, err);
    }
    if (result == SKEP_OK) {
        result = read_project(root, &figures, err);
    }
    if (result == SKEP_OK) {
        *ret_figures = figures;
    }
    skep_json_free(root);
    return result;
}

int skep_donor_figures_read(const void *text, size_t size, struct skep_donor_figures *ret_figures,
                            struct skep_error *err)
{
    struct skep_json *root = NULL;
    struct skep_donor_figures figures = {.known = true};
    int result = skep_json_parse(text, size, "status", &root, err);
    if (result != SKEP_OK) {
        return result;
    }
    const char *sentence = "";
    const char *unit = "";
    result = skep_json_get_text(root, "status", "sentence", &sentence, err);
    if (result == SKEP_OK) {
        result = skep_json_get_text(root, "status", "loss_unit", &unit, err);
    }
    figures.records = strcmp(unit, "nats per record") == 0;
    snprintf(figures.sentence, sizeof figures.sentence, "%.150s", sentence);
    const struct {
        const char *key;
        double *to;
    } reals[] = {
        {"loss", &figures.loss},
        {"tokens_per_s", &figures.tokens_per_s},
        {"credit", &figures.credit},
    };
    for (size_t i = 0; result == SKEP_OK && i < sizeof reals / sizeof reals[0]; i++) {
        result = skep_json_get_real(root, "status", reals[i].key, 0, 1e18, reals[i].to, err);
    }
    const struct {
        const char *key;
        int64_t *to;
    } integers[] = {
        {"tokens_total", &figures.tokens},
        {"updates_merged", &figures.updates_merged},
        {"peers", &figures.peers},
    };
    for (size_t i = 0; result == SKEP_OK && i < sizeof integers / sizeof integers[0]; i++) {
        result = skep_json_get_integer(root, "status", integers[i].key, 0, INT64_MAX,
                                       integers[i].to, err);
    }
    if (result == SKEP_OK) {
        *ret_figures = figures;
    }
    skep_json_free(root);
    return result;
}

/* How many running keepers have the same state as keeper i. */
static size_t agreeing_with(const struct skep_swarm_figures *figures, size_t i)
{
    size_t count = 0;
    for (size_t j = 0; j < figures->keeper_count; j++) {
        const struct skep_keeper_figures *other = &figures->keepers[j].keeper;
        count += figures->keepers[j].running && other->known &&
                 skep_hash_equal(&figures->keepers[i].keeper.state, &other->state);
    }
    return count;
}

static void sum_keepers(const struct skep_swarm_figures *figures, struct skep_swarm_totals *totals)
{
    for (size_t i = 0; i < figures->keeper_count; i++) {
        const struct skep_keeper_figures *keeper = &figures->keepers[i].keeper;
        if (!figures->keepers[i].running || !keeper->known) {
            continue;
        }
        totals->keepers_known++;
        if (keeper->merged >= totals->merged) {
            totals->round = keeper->trunk_version;
            totals->merged = keeper->merged;
            totals->donors = keeper->donors;
            totals->credit = keeper->credit;
            totals->most_donors_in_seal = keeper->most_donors_in_seal;
        }
        size_t agree = agreeing_with(figures, i);
        totals->keepers_agree = agree > totals->keepers_agree ? agree : totals->keepers_agree;
    }
}

struct skep_swarm_totals skep_swarm_sum(const struct skep_swarm_figures *figures)
{
    struct skep_swarm_totals totals = {0};
    sum_keepers(figures, &totals);
    size_t training = 0;
    for (size_t i = 0; i < figures->donor_count; i++) {
        const struct skep_donor_figures *donor = &figures->donors[i].donor;
        totals.tokens += donor->tokens;
        if (figures->donors[i].running && donor->loss > 0) {
            totals.tokens_per_s += donor->tokens_per_s;
            totals.loss += donor->loss;
            training++;
        }
    }
    if (training > 0) {
        totals.loss /= (double)training;
    }
    return totals;
}
