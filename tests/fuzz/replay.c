/*
 * Runs a fuzz target over the empty input and every file of its corpus: the folder given as argument, or for a program called
 * fuzz-<name> tests/fuzz/corpus/<name> below $SKEP_SOURCE. Prints TAP, one case; the file that breaks something is the last one named.
 */
#include <dirent.h>

#include "common/base/alloc.h"
#include "tests/fuzz/fuzz.h"

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_input(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* False if the file cannot be read. */
static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        return 0;
    }
    long size = ftell(file);
    rewind(file);
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    FUZZ_CHECK(size >= 0 && data != NULL);
    int whole = fread(data, 1, (size_t)size, file) == (size_t)size;
    fclose(file);
    if (whole) {
        LLVMFuzzerTestOneInput(data, (size_t)size);
    }
    free(data);
    return whole;
}

/* How many files were run, or -1. */
static int run_folder(const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_input, by_name);
    int ran = 0;
    for (int i = 0; i < count; i++) {
        char *path = skep_format("%s/%s", folder, entries[i]->d_name);
        printf("# %s\n", entries[i]->d_name);
        if (ran >= 0) {
            ran = run_file(path) ? ran + 1 : -1;
        }
        free(path);
        free(entries[i]);
    }
    free(entries);
    return count < 0 ? -1 : ran;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* the name must be out before the crash */
    const char *slash = strrchr(argv[0], '/');
    const char *name = slash == NULL ? argv[0] : slash + 1;
    const char *source = getenv("SKEP_SOURCE");
    char *folder = skep_format("%s/tests/fuzz/corpus/%s", source == NULL ? "." : source,
                               strncmp(name, "fuzz-", 5) == 0 ? name + 5 : name);
    const char *from = argc > 1 ? argv[1] : folder;
    puts("1..1");
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    int ran = run_folder(from);
    printf("# %d inputs in %s\n", ran, from);
    printf("%s 1 - %s\n", ran > 0 ? "ok" : "not ok", fuzz_sentence);
    free(folder);
    return ran > 0 ? 0 : 1;
}
