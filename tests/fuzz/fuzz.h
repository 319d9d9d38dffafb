/*
 * What every fuzz target shares. A target is one file with LLVMFuzzerTestOneInput(): it feeds foreign bytes to one parser or
 * machine and stops the program where a promise is broken. libFuzzer drives it (configure --enable-fuzz), or replay.c runs it over
 * its corpus as a test. Corpora lie in tests/fuzz/corpus/<name>; inputs that once broke something stay there.
 */
#ifndef SKEP_TESTS_FUZZ_FUZZ_H
#define SKEP_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The test's name when the corpus is replayed. */
extern const char *const fuzz_sentence;
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise: stops the program, in every build, if it does not hold. */
#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #condition);        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* The bytes with a closing zero, in memory of exactly that size; the caller frees. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    FUZZ_CHECK(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    return text;
}

/* Takes both texts: two encodings of the same must be the same. */
static inline void fuzz_same_texts(char *take_one, char *take_other)
{
    FUZZ_CHECK(take_one != NULL && take_other != NULL && strcmp(take_one, take_other) == 0);
    free(take_one);
    free(take_other);
}

#endif
