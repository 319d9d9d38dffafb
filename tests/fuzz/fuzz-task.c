/* Task files: what is read is a project that could be published; what is refused is refused by file and line. */
#include "common/wire/task.h"

#include <stdbool.h>

#include "tests/fuzz/fuzz.h"

const char *const fuzz_sentence = "task files are refused by name or describe a project";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct skep_task task = {0};
    struct skep_error err = {0};
    char *text = fuzz_text(data, size);
    if (skep_task_parse("task.yaml", text, size, &task, &err) == SKEP_OK) {
        bool lm = task.manifest.model.kind == SKEP_MODEL_LM;
        FUZZ_CHECK((task.data_file != NULL) == lm);
        FUZZ_CHECK((task.images != NULL) == !lm && (task.labels != NULL) == !lm);
        FUZZ_CHECK((task.heldout_images != NULL) == (task.heldout_labels != NULL));
        FUZZ_CHECK(skep_manifest_check_settings(&task.manifest, &err) == SKEP_OK);
    } else {
        FUZZ_CHECK(strncmp(err.text, "task.yaml", strlen("task.yaml")) == 0);
        FUZZ_CHECK(task.data_file == NULL && task.images == NULL);
    }
    skep_task_done(&task);
    free(text);
    return 0;
}
