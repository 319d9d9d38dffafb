/* Task files and the data they name: a text, or IDX files beside the task file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/dataset.h"
#include "common/base/alloc.h"
#include "common/sys/file.h"
#include "tests/lib/cmocka.h"

struct scene {
    char folder[64];
    struct skep_task task;
    struct skep_buffer train;
    struct skep_buffer heldout;
    struct skep_error err;
};

static int scene_new(void **state)
{
    struct scene *scene = skep_alloc(1, sizeof *scene);
    snprintf(scene->folder, sizeof scene->folder, "/tmp/skep-dataset-XXXXXX");
    *state = scene;
    return mkdtemp(scene->folder) == NULL;
}

static char *path_in(const struct scene *scene, const char *name)
{
    return skep_format("%s/%s", scene->folder, name);
}

static int scene_free(void **state)
{
    struct scene *scene = *state;
    static const char *const names[] = {"task.yaml", "i", "l", "hi", "hl", "text"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = path_in(scene, names[i]);
        (void)unlink(path);
        free(path);
    }
    int rc = rmdir(scene->folder);
    skep_task_done(&scene->task);
    skep_buffer_done(&scene->train);
    skep_buffer_done(&scene->heldout);
    free(scene);
    return rc;
}

static void put(const struct scene *scene, const char *name, const void *data, size_t size)
{
    char *path = path_in(scene, name);
    assert_int_equal(skep_file_write(path, 0600, data, size, NULL), 0);
    free(path);
}

static int read_task(struct scene *scene, const char *text)
{
    put(scene, "task.yaml", text, strlen(text));
    char *path = path_in(scene, "task.yaml");
    int rc = skep_task_load(path, &scene->task, &scene->err);
    if (rc == 0) {
        rc = skep_dataset_read(path, &scene->task, &scene->train, &scene->heldout, &scene->err);
    }
    free(path);
    return rc;
}

/* `count` inputs of two bytes, and their classes i % 3. */
static void put_pair(const struct scene *scene, const char *images, const char *labels,
                     uint8_t count)
{
    uint8_t inputs[12 + 2 * 64] = {0, 0, 8, 2, 0, 0, 0, count, 0, 0, 0, 2};
    uint8_t classes[8 + 64] = {0, 0, 8, 1, 0, 0, 0, count};
    for (uint8_t i = 0; i < count; i++) {
        inputs[12 + 2 * i] = i;
        inputs[13 + 2 * i] = 200;
        classes[8 + i] = i % 3;
    }
    put(scene, images, inputs, 12 + 2 * (size_t)count);
    put(scene, labels, classes, 8 + (size_t)count);
}

#define MODEL "model: {kind: classifier, inputs: 2, classes: 3}\n"

static void records_come_from_files_beside_the_task(void **state)
{
    struct scene *scene = *state;
    put_pair(scene, "i", "l", 50);
    put_pair(scene, "hi", "hl", 7);
    read_task(scene, MODEL "data: {images: i, labels: l, heldout_images: hi, heldout_labels: hl}\n"
                           "chunk_bytes: 90\n");
    assert_string_equal(scene->err.text, "");
    const struct skep_manifest *manifest = &scene->task.manifest;
    assert_int_equal(manifest->train.size_bytes, 150);
    assert_int_equal(manifest->train.chunk_count, 2);
    assert_int_equal(manifest->heldout.size_bytes, 21);
    assert_memory_equal(scene->train.data + 4 * 3, ((uint8_t[]){4, 200, 1}), 3);
    assert_memory_equal(scene->heldout.data + 6 * 3, ((uint8_t[]){6, 200, 0}), 3);
}

static void every_nth_record_is_held_out_without_files_of_their_own(void **state)
{
    struct scene *scene = *state;
    put_pair(scene, "i", "l", 50);
    read_task(scene, MODEL "data: {images: i, labels: l, holdout_every: 10}\n");
    assert_string_equal(scene->err.text, "");
    assert_int_equal(scene->train.size, 135);
    assert_int_equal(scene->heldout.size, 15);
    assert_int_equal(scene->heldout.data[0], 9);
}

static void data_that_does_not_fit_the_task_is_refused(void **state)
{
    struct scene *scene = *state;
    put_pair(scene, "i", "l", 50);
    assert_int_equal(read_task(scene, "model: {kind: classifier, inputs: 3, classes: 3}\n"
                                      "data: {images: i, labels: l}\n"),
                     SKEP_ERR_FORMAT);
    assert_non_null(strstr(scene->err.text, "/i has items of 2 bytes; expected: model.inputs, 3"));
    skep_task_done(&scene->task);
    assert_int_equal(read_task(scene, "model: {kind: classifier, inputs: 2, classes: 2}\n"
                                      "data: {images: i, labels: l}\n"),
                     SKEP_ERR_FORMAT);
    assert_non_null(strstr(scene->err.text, "/l: record 2 has class 2; allowed: 0 to 1"));
    skep_task_done(&scene->task);
    assert_int_equal(read_task(scene, MODEL "data: {images: i, labels: none}\n"),
                     SKEP_ERR_NOT_FOUND);
    assert_non_null(strstr(scene->err.text, "/none"));
}

static void a_text_is_read_as_it_was(void **state)
{
    struct scene *scene = *state;
    put(scene, "text", "a\nb\nc\n", 6);
    read_task(scene, "data: {file: text, holdout_every: 3}\n");
    assert_string_equal(scene->err.text, "");
    assert_int_equal(scene->train.size, 4);
    assert_int_equal(scene->task.manifest.heldout.size_bytes, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(records_come_from_files_beside_the_task, scene_new,
                                        scene_free),
        cmocka_unit_test_setup_teardown(every_nth_record_is_held_out_without_files_of_their_own,
                                        scene_new, scene_free),
        cmocka_unit_test_setup_teardown(data_that_does_not_fit_the_task_is_refused, scene_new,
                                        scene_free),
        cmocka_unit_test_setup_teardown(a_text_is_read_as_it_was, scene_new, scene_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
