/* Task files: what is read is a project that could be published; what is refused is refused by file and line. */
#include "common/wire/task.h"
#include "tests/fuzz/fuzz.h"

const char *const fuzz_sentence = "task files are refused by name or describe a project";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct skep_task task = {0};
    struct skep_error err = {0};
    char *text = fuzz_text(data, size);
    if (skep_task_parse("task.yaml", text, size, &task, &err) == SKEP_OK) {
        FUZZ_CHECK(task.data_file != NULL && task.data_file[0] != '\0');
        FUZZ_CHECK(skep_manifest_check_settings(&task.manifest, &err) == SKEP_OK);
    } else {
        FUZZ_CHECK(strncmp(err.text, "task.yaml", strlen("task.yaml")) == 0);
        FUZZ_CHECK(task.data_file == NULL);
    }
    skep_task_done(&task);
    free(text);
    return 0;
}
