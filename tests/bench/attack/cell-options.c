#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/fields.h"
#include "tests/bench/attack/cell.h"

static void set_field(struct skep_manifest *m, const char *text)
{
    const struct {
        const char *name;
        uint32_t *to;
    } fields[] = {
        {"steps", &m->training.steps},
        {"batch", &m->training.batch},
        {"slice_chunks", &m->training.slice_chunks},
        {"warmup_rounds", &m->training.warmup_rounds},
        {"keep", &m->update.keep},
        {"error_decay_permille", &m->update.error_decay_permille},
        {"step_permille", &m->merge.step_permille},
        {"liars_permille", &m->merge.liars_permille},
        {"clip_permille", &m->merge.clip_permille},
        {"overlap_permille", &m->merge.overlap_permille},
        {"dim", &m->model.dim},
        {"hidden", &m->model.hidden},
        {"layers", &m->model.layers},
        {"chunk_bytes", &m->chunk_bytes},
    };
    const char *equals = strchr(text, '=');
    for (size_t i = 0; equals != NULL && i < sizeof fields / sizeof fields[0]; i++) {
        size_t length = strlen(fields[i].name);
        if (length == (size_t)(equals - text) && memcmp(text, fields[i].name, length) == 0) {
            *fields[i].to = (uint32_t)strtoul(equals + 1, NULL, 10);
            return;
        }
    }
    if (equals != NULL && strncmp(text, "learning_rate", 13) == 0) {
        m->training.learning_rate = strtod(equals + 1, NULL);
        return;
    }
    fprintf(stderr, "attack-cell: --set %s is not a field that can be set here\n", text);
    exit(2);
}

static void set_defaults(struct skep_manifest *m, bool lm)
{
    m->model.kind = lm ? SKEP_MODEL_LM : SKEP_MODEL_CLASSIFIER;
    skep_manifest_defaults(m);
    m->model.dim = 32;
    m->model.hidden = 64;
    m->model.layers = lm ? 1 : 2;
    m->model.rows = 2;
    m->model.columns = 2;
    m->model.experts_per_token = 2;
    if (lm) {
        m->model.heads = 2;
        m->model.context = 64;
        m->model.prefix = 8;
        m->model.rows_per_token = 2;
    }
    skep_model_config_imply(&m->model);
    m->training.donor_rows = m->model.rows;
    m->training.steps = 10;
    m->training.batch = lm ? 4 : 32;
    m->training.warmup_rounds = 5;
    m->training.learning_rate = 0.002;
    m->training.weight_decay = 0.01;
    m->chunk_bytes = lm ? 4096 : 785 * 40;
}

/* By the manifest's own table, so that all rules it knows can be named here. */
static void set_rule(struct skep_manifest *m, const char *name)
{
    size_t count = 0;
    const struct skep_field *fields = skep_manifest_fields("merge", &count);
    for (size_t i = 0; i < count; i++) {
        for (size_t r = 0; strcmp(fields[i].key, "rule") == 0 && fields[i].choices[r] != NULL;
             r++) {
            if (strcmp(name, fields[i].choices[r]) == 0) {
                m->merge.rule = (enum skep_merge_rule)r;
                return;
            }
        }
    }
    fprintf(stderr, "attack-cell: there is no rule %s\n", name);
    exit(2);
}

static void set_option(struct cell *cell, const char *name, const char *value)
{
    if (strcmp(name, "--data") == 0) {
        cell->data_options.path = value;
    } else if (strcmp(name, "--spread") == 0) {
        cell->data_options.sorted = strcmp(value, "sorted") == 0;
    } else if (strcmp(name, "--rule") == 0) {
        set_rule(&cell->manifest, value);
    } else if (strcmp(name, "--attack") == 0) {
        cell->attack = attack_find(value);
    } else if (strcmp(name, "--donors") == 0) {
        cell->donors = strtoul(value, NULL, 10);
    } else if (strcmp(name, "--liars") == 0) {
        cell->liars = strtoul(value, NULL, 10);
    } else if (strcmp(name, "--rounds") == 0) {
        cell->rounds = strtoul(value, NULL, 10);
    } else if (strcmp(name, "--passed") == 0) {
        cell->passed = strtoul(value, NULL, 10);
    } else if (strcmp(name, "--seed") == 0) {
        cell->seed = strtoul(value, NULL, 10);
    } else if (strcmp(name, "--set") == 0) {
        set_field(&cell->manifest, value);
    } else if (strcmp(name, "--model") != 0) {
        fprintf(stderr, "attack-cell: %s is not an option\n", name);
        exit(2);
    }
}

void cell_read_options(struct cell *cell, int argc, char **argv)
{
    bool lm = false;
    for (int i = 1; i + 1 < argc; i++) {
        lm = lm || (strcmp(argv[i], "--model") == 0 && strcmp(argv[i + 1], "lm") == 0);
    }
    set_defaults(&cell->manifest, lm);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--curve") == 0) {
            cell->curve = true;
        } else if (strcmp(argv[i], "--audits") == 0) {
            cell->audits = true;
        } else if (strcmp(argv[i], "--gate") == 0) {
            cell->gates = true;
        } else if (strcmp(argv[i], "--mask") == 0) {
            cell->manifest.update.mask = SKEP_MASK_COMMON;
            cell->manifest.merge.overlap_permille = 0; /* all places are shared */
        } else if (strcmp(argv[i], "--forgets") == 0) {
            cell->forgets = true;
        } else if (i + 1 < argc) {
            set_option(cell, argv[i], argv[i + 1]);
            i++;
        }
    }
    if (cell->attack == NULL || cell->donors < 1 || cell->donors > LAB_DONORS ||
        cell->liars >= cell->donors) {
        fprintf(stderr, "attack-cell: no such attack, or not 1 .. %u donors with fewer liars\n",
                LAB_DONORS);
        exit(2);
    }
}
