#include "common/wire/task-sections.h"

#include <assert.h>
#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof(table)[0])
#define PATH(key)                                                                                  \
    {                                                                                              \
        key, SKEP_FIELD_OTHER, 0, 0, 0, NULL                                                       \
    }
#define HOLDOUT                                                                                    \
    {                                                                                              \
        "holdout_every", SKEP_FIELD_U32, offsetof(struct skep_task, holdout_every), 0, 1000000,    \
            NULL                                                                                   \
    }

static const struct skep_field LM_DATA[] = {PATH("file"), HOLDOUT};
static const struct skep_field CLASSIFIER_DATA[] = {
    PATH("images"), PATH("labels"), PATH("heldout_images"), PATH("heldout_labels"), HOLDOUT};

static const struct skep_task_path PATHS[] = {
    {"file", SKEP_MODEL_LM, offsetof(struct skep_task, data_file), true, "of the text to train on"},
    {"images", SKEP_MODEL_CLASSIFIER, offsetof(struct skep_task, images), true,
     "of the IDX file of inputs to train on"},
    {"labels", SKEP_MODEL_CLASSIFIER, offsetof(struct skep_task, labels), true,
     "of the IDX file of their classes"},
    {"heldout_images", SKEP_MODEL_CLASSIFIER, offsetof(struct skep_task, heldout_images), false,
     "of the IDX file of inputs to measure on"},
    {"heldout_labels", SKEP_MODEL_CLASSIFIER, offsetof(struct skep_task, heldout_labels), false,
     "of the IDX file of their classes"},
};

/* Of the manifest's own fields a task file has these; the rest is filled in when it is published. */
static const char *const TOP_KEYS[SKEP_TASK_TOP_FIELDS] = {"name", "replicas", "chunk_bytes"};

static struct skep_task_section manifest_section(const char *name, size_t offset)
{
    struct skep_task_section section = {.name = name,
                                        .offset = offsetof(struct skep_task, manifest) + offset};
    section.fields = skep_manifest_fields(name, &section.count);
    return section;
}

void skep_task_sections_init(struct skep_task_sections *sections, enum skep_model_kind kind)
{
    struct skep_task_section *all = sections->all;
    struct skep_task_section whole = manifest_section("", 0);
    for (size_t i = 0; i < COUNT(TOP_KEYS); i++) {
        sections->top[i] = (struct skep_field){0};
        for (size_t f = 0; f < whole.count; f++) {
            if (strcmp(whole.fields[f].key, TOP_KEYS[i]) == 0) {
                sections->top[i] = whole.fields[f];
            }
        }
        assert(sections->top[i].key != NULL);
    }
    whole.fields = sections->top;
    whole.count = COUNT(TOP_KEYS);
    bool lm = kind == SKEP_MODEL_LM;
    all[0] = whole;
    all[1] = (struct skep_task_section){.name = "data",
                                        .fields = lm ? LM_DATA : CLASSIFIER_DATA,
                                        .count = lm ? COUNT(LM_DATA) : COUNT(CLASSIFIER_DATA)};
    all[2] = (struct skep_task_section){.name = "model",
                                        .offset = offsetof(struct skep_task, manifest.model)};
    all[2].fields = skep_model_config_fields(kind, &all[2].count);
    all[3] = manifest_section("training", offsetof(struct skep_manifest, training));
    all[4] = manifest_section("update", offsetof(struct skep_manifest, update));
    all[5] = manifest_section("merge", offsetof(struct skep_manifest, merge));
    all[6] = manifest_section("trust", offsetof(struct skep_manifest, trust));
}

const struct skep_task_section *skep_task_section_find(const struct skep_task_sections *sections,
                                                       const char *name)
{
    for (size_t s = 0; s < SKEP_TASK_SECTIONS; s++) {
        if (strcmp(sections->all[s].name, name) == 0) {
            return &sections->all[s];
        }
    }
    return NULL;
}

bool skep_task_section_has(const struct skep_task_section *section, const char *key)
{
    for (size_t i = 0; i < section->count; i++) {
        if (strcmp(section->fields[i].key, key) == 0) {
            return true;
        }
    }
    return false;
}

const struct skep_task_path *skep_task_paths(size_t *ret_count)
{
    *ret_count = COUNT(PATHS);
    return PATHS;
}
