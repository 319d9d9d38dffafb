/* Task files: defaults, the example, and what is said about each kind of mistake. */
#include "common/wire/task.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/wire/fields.h"
#include "tests/lib/cmocka.h"

static int parse(const char *text, struct skep_task *task, struct skep_error *err)
{
    return skep_task_parse("task.yaml", text, strlen(text), task, err);
}

static void refuse(const char *text, const char *sentence)
{
    struct skep_task task = {0};
    struct skep_error err = {0};
    int rc = parse(text, &task, &err);
    assert_string_equal(err.text, sentence);
    assert_int_equal(rc, SKEP_ERR_FORMAT);
    assert_null(task.data_file);
    assert_null(task.manifest.name);
}

static void refuse_saying(const char *text, const char *part)
{
    struct skep_task task = {0};
    struct skep_error err = {0};
    assert_int_equal(parse(text, &task, &err), SKEP_ERR_FORMAT);
    if (strstr(err.text, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    }
}

static void assert_settings_equal(const struct skep_manifest *a, const struct skep_manifest *b)
{
    assert_memory_equal(&a->model, &b->model, sizeof a->model);
    assert_memory_equal(&a->training, &b->training, sizeof a->training);
    assert_memory_equal(&a->update, &b->update, sizeof a->update);
    assert_memory_equal(&a->merge, &b->merge, sizeof a->merge);
    assert_int_equal(a->replicas, b->replicas);
    assert_int_equal(a->chunk_bytes, b->chunk_bytes);
}

static void a_file_of_one_field_gets_all_defaults(void **state)
{
    (void)state;
    struct skep_task task = {0};
    struct skep_manifest defaults = {0};
    struct skep_error err = {0};
    skep_manifest_defaults(&defaults);
    int rc = skep_task_parse("some/where/bees.yaml", "data: {file: a text.txt}", 24, &task, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, SKEP_OK);
    assert_string_equal(task.data_file, "a text.txt");
    assert_string_equal(task.manifest.name, "bees");
    assert_int_equal(task.holdout_every, 20);
    assert_settings_equal(&task.manifest, &defaults);
    skep_task_done(&task);
}

static void the_example_parses_to_the_defaults(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"my-project", "text.txt"},
                                           {"a: b # c", "C:\\d\\\"e\" 'f'.txt"},
                                           {"- [x]\ttab", "../d\xc3\xa4ta/\xf0\x9f\x90\x9d.txt"}};
    for (size_t i = 0; i < 3; i++) {
        char *text = skep_task_example(SKEP_MODEL_LM, names[i][0], names[i][1]);
        struct skep_task task = {0};
        struct skep_manifest defaults = {0};
        struct skep_error err = {0};
        skep_manifest_defaults(&defaults);
        parse(text, &task, &err);
        if (i == 2) { /* a control character is no name, but must come through to be refused */
            assert_string_equal(err.text, "task.yaml:4: field name has 9 bytes or a control "
                                          "character; allowed: 1 to 100 bytes of text");
        } else {
            assert_string_equal(err.text, "");
            assert_string_equal(task.manifest.name, names[i][0]);
            assert_string_equal(task.data_file, names[i][1]);
            assert_settings_equal(&task.manifest, &defaults);
        }
        skep_task_done(&task);
        free(text);
    }
}

static void the_example_explains_every_field(void **state)
{
    (void)state;
    char *text = skep_task_example(SKEP_MODEL_LM, "my-project", "text.txt");
    size_t fields = 0;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        bool section = line[strlen(line) - 1] == ':';
        bool name = strncmp(line, "name:", 5) == 0;
        if (!section && !name && line[0] != '#' && strchr(line, '#') == NULL) {
            fail_msg("\"%s\" has no comment", line);
        }
        fields += strchr(line, ':') != NULL && !section && line[0] != '#';
    }
    assert_true(fields > 35);
    free(text);
}

static void the_example_names_what_can_be_chosen_and_what_it_costs(void **state)
{
    (void)state;
    size_t count = 0;
    const struct skep_field *fields = skep_manifest_fields("merge", &count);
    char *text = skep_task_example(SKEP_MODEL_LM, "my-project", "text.txt");
    const char *merge = strstr(text, "\nmerge:");
    assert_string_equal(fields[0].key, "rule");
    assert_non_null(merge);
    for (size_t i = 0; fields[0].choices[i] != NULL; i++) {
        const char *at = strstr(merge, fields[0].choices[i]);
        if (at == NULL || at > strstr(merge, "liars_permille")) {
            fail_msg("%s is not named beside merge.rule", fields[0].choices[i]);
        }
    }
    assert_non_null(strstr(text, "4: about a second of a core, 10: a minute"));
    assert_non_null(strstr(text, "a new donor's first 42 before they are merged"));
    assert_null(strstr(text, "one of: ffn")); /* its comment says what each is */
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strlen(line) > 132) {
            fail_msg("\"%s\" is too long to be read", line);
        }
    }
    free(text);
}

static void every_section_is_read(void **state)
{
    (void)state;
    struct skep_task task = {0};
    struct skep_error err = {0};
    parse("name: bees\n"
          "data:\n  file: x\n  holdout_every: 0\n"
          "model:\n  dim: 96\n  heads: 3\n  rows: 4\n  route: token\n  kind: lm\n"
          "training:\n  learning_rate: 5e-4\n  weight_decay: 0\n  steps: 7\n"
          "update: {keep: 128, scale_ceiling: 2.5}\n"
          "merge:\n  rule: mean\n  window_ms: 1500\n"
          "replicas: 1\n"
          "chunk_bytes: 4096\n",
          &task, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(task.manifest.name, "bees");
    assert_int_equal(task.holdout_every, 0);
    assert_int_equal(task.manifest.model.dim, 96);
    assert_int_equal(task.manifest.model.rows, 4);
    assert_int_equal(task.manifest.model.route, SKEP_ROUTE_TOKEN);
    assert_true(task.manifest.training.learning_rate == 5e-4);
    assert_true(task.manifest.training.weight_decay == 0);
    assert_int_equal(task.manifest.training.steps, 7);
    assert_int_equal(task.manifest.update.keep, 128);
    assert_true(task.manifest.update.scale_ceiling == 2.5);
    assert_int_equal(task.manifest.merge.rule, SKEP_MERGE_MEAN);
    assert_int_equal(task.manifest.replicas, 1);
    assert_int_equal(task.manifest.chunk_bytes, 4096);
    skep_task_done(&task);
}

static void a_classifier_gets_the_defaults_of_its_kind(void **state)
{
    (void)state;
    struct skep_task task = {0};
    struct skep_manifest defaults = {.model.kind = SKEP_MODEL_CLASSIFIER};
    struct skep_error err = {0};
    skep_manifest_defaults(&defaults);
    parse("model: {kind: classifier}\ndata: {images: i.gz, labels: l}", &task, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(task.images, "i.gz");
    assert_string_equal(task.labels, "l");
    assert_null(task.heldout_images);
    assert_null(task.data_file);
    assert_int_equal(task.holdout_every, 20);
    assert_int_equal(task.manifest.model.kind, SKEP_MODEL_CLASSIFIER);
    assert_int_equal(task.manifest.model.context, 1);
    assert_settings_equal(&task.manifest, &defaults);
    skep_task_done(&task);
}

static void the_example_of_a_classifier_parses_to_its_defaults(void **state)
{
    (void)state;
    char *text = skep_task_example(SKEP_MODEL_CLASSIFIER, "digits", "some/where");
    struct skep_task task = {0};
    struct skep_manifest defaults = {.model.kind = SKEP_MODEL_CLASSIFIER};
    struct skep_error err = {0};
    skep_manifest_defaults(&defaults);
    parse(text, &task, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(task.images, "some/where/train-images-idx3-ubyte.gz");
    assert_string_equal(task.heldout_labels, "some/where/t10k-labels-idx1-ubyte.gz");
    assert_int_equal(task.holdout_every, 0);
    assert_settings_equal(&task.manifest, &defaults);
    skep_task_done(&task);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        bool section = line[strlen(line) - 1] == ':';
        if (!section && strncmp(line, "name:", 5) != 0 && strchr(line, '#') == NULL) {
            fail_msg("\"%s\" has no comment", line);
        }
    }
    free(text);
}

static void what_a_classifier_leaves_out_follows_from_its_shape(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        uint32_t chunk_bytes;
        uint32_t donor_rows;
    } cases[] = {
        {"inputs: 64, rows: 1, columns: 64", 65536 / 65 * 65, 1},
        {"inputs: 65536, rows: 16, columns: 16", 65537, 8},
        {"inputs: 1, rows: 8, columns: 1, experts_per_token: 7", 65536, 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[200];
        struct skep_task task = {0};
        struct skep_error err = {0};
        snprintf(text, sizeof text, "model: {kind: classifier, %s}\ndata: {images: i, labels: l}",
                 cases[i].model);
        parse(text, &task, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(task.manifest.chunk_bytes, cases[i].chunk_bytes);
        assert_int_equal(task.manifest.training.donor_rows, cases[i].donor_rows);
        assert_int_equal(task.manifest.model.rows_per_token, task.manifest.model.rows);
        skep_task_done(&task);
    }
}

#define CLASSIFIER "model: {kind: classifier}\ndata:\n  images: i\n"

static void what_a_classifier_cannot_have_is_refused(void **state)
{
    (void)state;
    refuse("model:\n  kind: gan\n",
           "task.yaml:2: model: field kind is \"gan\"; allowed: lm, classifier");
    refuse("model:\n  kind: classifier\n  heads: 4\n",
           "task.yaml:3: model: field heads belongs to a model of kind lm; this one is of kind "
           "classifier");
    refuse("data:\n  images: i\n", "task.yaml:2: data: field images belongs to a model of kind "
                                   "classifier; this one is of kind lm");
    refuse(CLASSIFIER, "task.yaml:2: data: field labels is missing; allowed: the path of the IDX "
                       "file of their classes, from where this file is");
    refuse(CLASSIFIER "  labels: l\n  heldout_labels: h\n",
           "task.yaml:5: data: field heldout_labels stands alone; allowed: only with "
           "heldout_images");
    refuse(CLASSIFIER "  labels: l\n  heldout_labels: h\n  heldout_images: h\n"
                      "  holdout_every: 5\n",
           "task.yaml:7: data: field holdout_every is 5 beside heldout_images; allowed: 0, or no "
           "heldout_images");
    refuse(CLASSIFIER "  labels: l\nchunk_bytes: 65536\n",
           "task.yaml:5: field chunk_bytes is 65536; allowed: a multiple of the record's 785 bytes "
           "(inputs + 1), such as 65155");
    refuse(CLASSIFIER "  labels: l\nchunk_bytes: 100\n",
           "task.yaml:5: field chunk_bytes is 100; allowed: a multiple of the record's 785 bytes "
           "(inputs + 1), such as 785");
    refuse(
        CLASSIFIER "  labels: l\ntraining:\n  donor_rows: 5\n",
        "task.yaml:6: training: field donor_rows is 5; allowed: enough for experts_per_token (1) "
        "to rows (4)");
    refuse("data: {images: i, labels: l}\nmodel:\n  kind: classifier\n  classes: 1\n",
           "task.yaml:4: model: field classes is 1; allowed: an integer from 2 to 256");
}

static void an_unknown_field_is_named_with_those_there_are(void **state)
{
    (void)state;
    refuse("data:\n  file: x\nupdate:\n  keep: 64\n  kept: 32\n",
           "task.yaml:5: update: unknown field kept; allowed: keep, mask, error_decay_permille, "
           "scale_ceiling");
    refuse("nam: x\n", "task.yaml:1: unknown field nam; allowed: data, model, training, update, "
                       "merge, trust, name, replicas, chunk_bytes");
    refuse_saying("data: {file: x}\n\nmodels:\n  dim: 8\n", "task.yaml:3: unknown field models;");
    refuse_saying("data: {file: x}\nproject: 00\n", "task.yaml:2: unknown field project;");
    refuse_saying("data: {file: x}\n? \n: 1\n", "task.yaml:2: unknown field ;");
}

static void a_value_of_the_wrong_type_is_shown(void **state)
{
    (void)state;
    refuse("data:\n  file: x\ntraining:\n  steps: many\n",
           "task.yaml:4: training: field steps is \"many\"; allowed: an integer from 1 to 100000");
    refuse("data:\n  file: x\ntraining:\n  steps: 1.5\n",
           "task.yaml:4: training: field steps is 1.5; allowed: an integer from 1 to 100000");
    refuse_saying("data:\n  file: x\ntraining:\n  steps:\n",
                  "task.yaml:4: training: field steps is \"\"");
    refuse_saying("data:\n  file: x\ntraining:\n  clip: 1e\n",
                  "task.yaml:4: training: field clip is \"1e\"");
    refuse_saying("data: {file: x}\ntraining: {steps: \"1,\\\"batch\\\":2\"}\n", "field steps is ");
    refuse("data:\n  file: x\ntraining:\n  steps: [1, 2]\n",
           "task.yaml:4: training: field steps is a list; allowed: a single value");
    refuse("data:\n  file: x\nmodel: 5\n", "task.yaml:3: field model is a single value; allowed: a "
                                           "section, its fields indented below");
    refuse("data:\n  file: x\nname:\n  first: y\n",
           "task.yaml:3: field name is a section; allowed: a single value");
    refuse("- data\n", "task.yaml:1: the file is a list or a text; allowed: fields, each `name: "
                       "value`");
}

static void a_value_out_of_range_is_shown_with_the_range(void **state)
{
    (void)state;
    refuse("data:\n  file: x\n\n# more\ntraining:\n  batch: 8\n  steps: 0 # none\n",
           "task.yaml:7: training: field steps is 0; allowed: an integer from 1 to 100000");
    refuse("data:\n  file: x\nreplicas: -1\n",
           "task.yaml:3: field replicas is -1; allowed: an integer from 1 to 64");
    refuse_saying(
        "data:\n  file: x\nreplicas: 99999999999999999999999\n",
        "task.yaml:3: field replicas is \"99999999999999999999999\"; allowed: an integer");
    refuse_saying("data:\n  file: x\ntraining:\n  beta2: 1\n",
                  "task.yaml:4: training: field beta2 is 1");
    refuse_saying("data:\n  file: x\n  holdout_every: 1\n",
                  "task.yaml:3: data: field holdout_every is 1, which holds out everything");
}

static void a_choice_that_is_none_is_shown_with_the_choices(void **state)
{
    (void)state;
    refuse("data:\n  file: x\nmodel:\n  route: sideways\n",
           "task.yaml:4: model: field route is \"sideways\"; allowed: document, token");
    refuse("data:\n  file: x\nmerge:\n  rule: sum\n",
           "task.yaml:4: merge: field rule is \"sum\"; allowed: mean, coordinate_median, "
           "trimmed_mean, krum, multi_krum, geometric_median, centered_clip, nnm_trimmed_mean, "
           "nnm_geometric_median");
}

static void fields_that_do_not_fit_each_other_are_shown_by_line(void **state)
{
    (void)state;
    refuse("data:\n  file: x\nmodel:\n  heads: 4\n  dim: 66\n",
           "task.yaml:5: model: field dim is 66; allowed: a multiple of heads (4)");
    /* dim is not in the file: the line of its section. */
    refuse("data:\n  file: x\nmodel:\n  heads: 7\n",
           "task.yaml:3: model: field dim is 128; allowed: a multiple of heads (7)");
    refuse_saying("data:\n  file: x\nmerge:\n  most_updates: 2\n  least_updates: 3\n",
                  "task.yaml:5: merge: field least_updates is 3; allowed: 1 to most_updates (2)");
    refuse("data:\n  file: x\nmerge:\n  overlap_permille: 9\nupdate:\n  mask: common\n",
           "task.yaml:4: merge: field overlap_permille is 9; allowed: 0 with update.mask common, "
           "where all send the same places");
    /* It is not in the file, and neither is its section: the first line. */
    refuse("data:\n  file: x\nupdate:\n  mask: common\n",
           "task.yaml:1: merge: field overlap_permille is 400; allowed: 0 with update.mask common, "
           "where all send the same places");
}

static void a_file_without_data_is_told_so(void **state)
{
    (void)state;
    static const char missing[] = ": data: field file is missing; allowed: the path of the text to "
                                  "train on, from where this file is";
    char sentence[200];
    snprintf(sentence, sizeof sentence, "task.yaml:1%s", missing);
    refuse("", sentence);
    refuse("# nothing\n", sentence);
    refuse("name: x\n", sentence);
    snprintf(sentence, sizeof sentence, "task.yaml:2%s", missing);
    refuse("name: x\ndata: {holdout_every: 2}\n", sentence);
    snprintf(sentence, sizeof sentence, "task.yaml:3%s", missing);
    refuse("name: x\ndata:\n  file:\n", sentence);
}

static void broken_yaml_is_shown_by_line(void **state)
{
    (void)state;
    refuse("name: x\n\tdata: y\n",
           "task.yaml:2: this is not YAML: found a tab character that violates indentation");
    refuse_saying("name: 'x\ndata: 3\n", "task.yaml:3: this is not YAML: found unexpected end");
    refuse_saying("data: {file: x\nname: y\n", "this is not YAML");
    refuse_saying("name: \xff\xfe\n", "this is not YAML: invalid leading UTF-8 octet");
    refuse("name: x\nname: y\n",
           "task.yaml:2: field name is here again after line 1; allowed: once");
    refuse_saying("data: {file: x}\nmodel: {dim: 64}\nmodel: {dim: 64}\n",
                  "task.yaml:3: field model is here again after line 2");
    refuse_saying("name: &a x\ndata: {file: *a}\n", "task.yaml:2: an alias");
    refuse_saying("data: {file: x}\n---\nname: y\n", "task.yaml:2: a second document begins");
    refuse_saying("[a]: b\n", "task.yaml:1: a field's name is a list");
    refuse_saying("data: {file: x}\nname: [[[[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]]]\n",
                  "task.yaml:2: nested");
}

static void a_file_of_unlikely_size_is_refused(void **state)
{
    (void)state;
    static char text[65537];
    memset(text, '#', sizeof text);
    struct skep_task task = {0};
    struct skep_error err = {0};
    assert_int_equal(skep_task_parse("task.yaml", text, sizeof text, &task, &err),
                     SKEP_ERR_TOO_LARGE);
    assert_string_equal(err.text, "task.yaml has 65537 bytes; allowed: up to 65536");
}

static void changed_bytes_are_read_or_refused_with_a_sentence(void **state)
{
    (void)state;
    char *text = skep_task_example(SKEP_MODEL_LM, "my-project", "text.txt");
    size_t size = strlen(text);
    struct skep_rng rng = skep_rng_of(1);
    for (int i = 0; i < 1000; i++) {
        size_t at = skep_rng_below(&rng, size);
        char held = text[at];
        text[at] = (char)skep_rng_below(&rng, 256);
        struct skep_task task = {0};
        struct skep_error err = {0};
        if (skep_task_parse("task.yaml", text, size, &task, &err) != SKEP_OK) {
            assert_int_equal(strncmp(err.text, "task.yaml:", 10), 0);
        }
        skep_task_done(&task);
        text[at] = held;
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_one_field_gets_all_defaults),
        cmocka_unit_test(the_example_parses_to_the_defaults),
        cmocka_unit_test(the_example_explains_every_field),
        cmocka_unit_test(the_example_names_what_can_be_chosen_and_what_it_costs),
        cmocka_unit_test(every_section_is_read),
        cmocka_unit_test(a_classifier_gets_the_defaults_of_its_kind),
        cmocka_unit_test(the_example_of_a_classifier_parses_to_its_defaults),
        cmocka_unit_test(what_a_classifier_leaves_out_follows_from_its_shape),
        cmocka_unit_test(what_a_classifier_cannot_have_is_refused),
        cmocka_unit_test(an_unknown_field_is_named_with_those_there_are),
        cmocka_unit_test(a_value_of_the_wrong_type_is_shown),
        cmocka_unit_test(a_value_out_of_range_is_shown_with_the_range),
        cmocka_unit_test(a_choice_that_is_none_is_shown_with_the_choices),
        cmocka_unit_test(fields_that_do_not_fit_each_other_are_shown_by_line),
        cmocka_unit_test(a_file_without_data_is_told_so),
        cmocka_unit_test(broken_yaml_is_shown_by_line),
        cmocka_unit_test(a_file_of_unlikely_size_is_refused),
        cmocka_unit_test(changed_bytes_are_read_or_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
