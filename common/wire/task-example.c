/* The commented example of a task file, with the defaults. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"
#include "common/wire/task-sections.h"
#include "common/wire/task.h"

#define CHOICES_WIDTH 70u
#define COUNT(table) (sizeof(table) / sizeof(table)[0])

/* Said beside each field, as `section.key` or `key`; after a newline, below that. */
static const char *const COMMENTS[][2] = {
    {"replicas", "keepers of each shard"},
    {"chunk_bytes", "of data and shard states"},
    {"data.file", "the text to train on; its path from here"},
    {"data.holdout_every", "every n-th line is kept for measuring; 0 for none"},
    {"model.kind", "a byte-level Transformer with mixture-of-experts layers"},
    {"model.expert", "ffn or paper_ffn: what an expert computes"},
    {"model.vocabulary", "bytes"},
    {"model.dim", "width of the residual stream"},
    {"model.hidden", "width inside an expert"},
    {"model.heads", "of attention; dim is a multiple of it"},
    {"model.layers", "each with attention and a grid of experts"},
    {"model.context", "bytes in a sequence"},
    {"model.prefix", "first bytes of a sequence: they choose its rows and carry no loss"},
    {"model.rows", "of the grid of experts in each layer"},
    {"model.columns", "of that grid"},
    {"model.experts_per_token", "that work on each byte"},
    {"model.rows_per_token", "rows that they may come from"},
    {"model.route", "document: rows chosen per sequence; token: per byte"},
    {"training.steps", "local AdamW steps in one job"},
    {"training.batch", "sequences in one step"},
    {"training.donor_rows", "rows of each layer that a donor fetches for one job"},
    {"training.slice_chunks", "data chunks that a job trains on"},
    {"training.warmup_rounds", "the learning rate rises over these trunk versions"},
    {"training.learning_rate", "of AdamW"},
    {"training.beta1", "decay of AdamW's mean"},
    {"training.beta2", "decay of AdamW's mean square"},
    {"training.epsilon", "added to AdamW's denominator"},
    {"training.weight_decay", "of AdamW"},
    {"training.clip", "largest norm of a step's gradient"},
    {"training.z_loss", "weight of the router's z-loss"},
    {"training.balance_step", "how fast the bias that spreads work over experts moves"},
    {"update.keep", "values sent of each 4096"},
    {"update.mask", "own: each donor's largest; common: the same places for all"},
    {"update.error_decay_permille", "what a donor keeps of what it did not send"},
    {"update.scale_ceiling", "larger values in an update are refused"},
    {"merge.rule", "how updates become one step; mean believes everybody"},
    {"merge.liars_permille",
     "share of lying donors that krum, multi_krum, trimmed_mean and nnm_* are set for"},
    {"merge.clip_permille",
     "updates are scaled down to this much of their round's median size; 0: not at all"},
    {"merge.overlap_permille",
     "of near-copies, updates that share this much of the places they send, one is merged\n"
     "(0: all are, as mask: common needs)"},
    {"merge.step_permille", "outer step: 1000 applies the whole average"},
    {"merge.window_ms", "a round closes this long after its first update"},
    {"merge.least_updates", "and never with fewer than these"},
    {"merge.most_updates", "nor with more"},
    {"trust.stamp_bits",
     "work that a new donor's key costs, doubled by each: 4: about a second of a core, 10: a "
     "minute\n"
     "(0: none)"},
    {"trust.remote", "whether updates of remote calls are merged, which nobody can repeat"},
    {"trust.audits",
     "true: keepers repeat jobs, a new donor's first 42 before they are merged and earn credit;\n"
     "then remote must be false, and all keepers must keep all shards (at most `replicas` of "
     "them)\n"
     "and have the time and memory to train (skep.1 has more)"},
};

/* Looked at first for a classifier. */
static const char *const CLASSIFIER_COMMENTS[][2] = {
    {"chunk_bytes", "of data and shard states; a multiple of inputs + 1"},
    {"data.images", "IDX files, plain or .gz; their paths from here"},
    {"data.labels", "a class for each of them"},
    {"data.heldout_images", "kept for measuring"},
    {"data.heldout_labels", "and their classes"},
    {"data.holdout_every", "without those two: every n-th record is kept; 0 for none"},
    {"model.kind", "layers of experts over inputs of a fixed size"},
    {"model.inputs", "bytes of one input: 28 x 28 pixels"},
    {"model.classes", "labels are 0 .. classes - 1"},
    {"model.layers", "each a grid of experts"},
    {"model.experts_per_token", "that work on each record"},
    {"training.batch", "records in one step"},
};

static const char *find_comment(const char *const comments[][2], size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(comments[i][0], path) == 0) {
            return comments[i][1];
        }
    }
    return NULL;
}

static const char *comment_of(const struct skep_task *task, const char *path)
{
    const char *comment = NULL;
    if (task->manifest.model.kind == SKEP_MODEL_CLASSIFIER) {
        comment = find_comment(CLASSIFIER_COMMENTS, COUNT(CLASSIFIER_COMMENTS), path);
    }
    return comment != NULL ? comment : find_comment(COMMENTS, COUNT(COMMENTS), path);
}

static void append_free(struct skep_buffer *text, char *take_part)
{
    skep_buffer_append_text(text, take_part);
    free(take_part);
}

/* `text` as YAML: in quotes, which is right for any text. */
static void append_quoted(struct skep_buffer *to, const char *text)
{
    skep_buffer_append_text(to, "\"");
    for (const char *at = text; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            append_free(to, skep_format("\\x%02x", (unsigned)*at));
        } else {
            append_free(to, skep_format("%s%c", *at == '"' || *at == '\\' ? "\\" : "", *at));
        }
    }
    skep_buffer_append_text(to, "\"");
}

/* A field's value as JSON writes it, which YAML reads as well; choices without their quotes. The caller frees. */
static char *value_text(const struct skep_field *field, const void *from)
{
    struct skep_json *object = skep_json_object_new();
    skep_fields_write(field, 1, from, object);
    char *json = skep_json_write(object, false);
    skep_json_free(object);
    const char *value = strchr(json, ':') + 1;
    value += *value == '"';
    char *text = skep_format("%.*s", (int)strcspn(value, "\"}"), value);
    free(json);
    return text;
}

/* Each line of the comment behind `line`, or below it. */
static void append_lines(struct skep_buffer *text, const char *line, const char *comment)
{
    while (*comment != '\0') {
        int size = (int)strcspn(comment, "\n");
        append_free(text, skep_format("%-32s # %.*s\n", line, size, comment));
        comment += size;
        comment += *comment == '\n';
        line = "";
    }
}

/* The choices, unless the comment explains each by its name. */
static void append_choices(struct skep_buffer *text, const struct skep_field *field,
                           const char *comment)
{
    bool explained = true;
    struct skep_buffer list = {0};
    size_t begin = 0; /* of the last line */
    for (size_t i = 0; field->kind == SKEP_FIELD_CHOICE && field->choices[i] != NULL; i++) {
        bool full = list.size - begin + strlen(field->choices[i]) > CHOICES_WIDTH;
        begin = full ? list.size : begin;
        explained = explained && strstr(comment, field->choices[i]) != NULL;
        skep_buffer_append_text(&list, i == 0 ? "one of: " : full ? ",\n" : ", ");
        skep_buffer_append_text(&list, field->choices[i]);
    }
    skep_buffer_append_u8(&list, 0);
    if (!explained) {
        append_lines(text, "", (const char *)list.data);
    }
    skep_buffer_done(&list);
}

static void append_field(struct skep_buffer *text, const struct skep_task_section *section,
                         const struct skep_field *field, const struct skep_task *task)
{
    bool top = section->name[0] == '\0';
    char *path = skep_format("%s%s%s", section->name, top ? "" : ".", field->key);
    char *value = value_text(field, (const uint8_t *)task + section->offset);
    char *line = skep_format("%s%s: %s", top ? "" : "  ", field->key, value);
    const char *comment = comment_of(task, path);
    if (comment != NULL) {
        append_lines(text, line, comment);
        append_choices(text, field, comment);
    } else {
        append_free(text, skep_format("%s\n", line));
    }
    free(line);
    free(value);
    free(path);
}

static void append_path(struct skep_buffer *text, const char *key, const struct skep_task *task)
{
    size_t count = 0;
    const struct skep_task_path *paths = skep_task_paths(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(paths[i].key, key) == 0) {
            const void *at = (const uint8_t *)task + paths[i].offset;
            char *path = skep_format("data.%s", key);
            const char *comment = comment_of(task, path);
            append_free(text, skep_format("  %s: ", key));
            append_quoted(text, *(char *const *)at);
            append_free(text, skep_format(" # %s\n", comment));
            free(path);
        }
    }
}

static void append_section(struct skep_buffer *text, const struct skep_task_section *section,
                           const struct skep_task *task)
{
    if (section->name[0] != '\0') {
        append_free(text, skep_format("\n%s:\n", section->name));
    }
    for (size_t i = 0; i < section->count; i++) {
        if (section->fields[i].kind != SKEP_FIELD_OTHER) {
            append_field(text, section, &section->fields[i], task);
        } else if (section->name[0] != '\0') {
            append_path(text, section->fields[i].key, task);
        } else {
            skep_buffer_append_text(text, "name: ");
            append_quoted(text, task->manifest.name);
            skep_buffer_append_text(text, "\n");
        }
    }
}

static void name_data(struct skep_task *task, const char *data)
{
    if (task->manifest.model.kind == SKEP_MODEL_LM) {
        task->data_file = skep_strdup(data);
        task->holdout_every = SKEP_TASK_HOLDOUT_EVERY;
        return;
    }
    task->images = skep_format("%s/train-images-idx3-ubyte.gz", data);
    task->labels = skep_format("%s/train-labels-idx1-ubyte.gz", data);
    task->heldout_images = skep_format("%s/t10k-images-idx3-ubyte.gz", data);
    task->heldout_labels = skep_format("%s/t10k-labels-idx1-ubyte.gz", data);
}

char *skep_task_example(enum skep_model_kind kind, const char *name, const char *data)
{
    struct skep_task task = {.manifest.model.kind = kind};
    struct skep_task_sections sections;
    struct skep_buffer text = {0};
    skep_manifest_defaults(&task.manifest);
    task.manifest.name = skep_strdup(name);
    name_data(&task, data);
    skep_task_sections_init(&sections, kind);
    append_free(&text,
                skep_format("# A Skep project. Only %s must stand here; every other value "
                            "is the default.\n"
                            "# Publish it with: skep project publish THIS_FILE\n\n",
                            kind == SKEP_MODEL_LM ? "data.file"
                                                  : "model.kind, data.images and data.labels"));
    for (size_t s = 0; s < SKEP_TASK_SECTIONS; s++) {
        append_section(&text, &sections.all[s], &task);
    }
    skep_task_done(&task);
    skep_buffer_append_u8(&text, 0);
    return (char *)text.data;
}
