/*
 * The corpus of merges, schemas/vectors/merge/corpus.txt: each line is a merge described by its settings, shapes and a seed, and the
 * fingerprints of what it must give on every machine. schemas/vectors/merge/README.md says how a line is expanded, for those who
 * write another implementation; corpus.c is that text in C, with integers alone (codebooks are made of bits).
 */
#ifndef TESTS_UNIT_MERGE_CORPUS_H
#define TESTS_UNIT_MERGE_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/merge/merge.h"

#define CORPUS_TENSORS_MOST 8
#define CORPUS_WORD 48

/* One line. */
struct corpus_line {
    char rule[CORPUS_WORD];
    uint32_t n;
    uint32_t keep;
    char shapes[CORPUS_WORD];
    char style[CORPUS_WORD];
    char staleness[CORPUS_WORD];
    uint32_t liars_permille;
    uint32_t clip_permille;
    uint32_t overlap_permille;
    uint32_t step_permille;
    uint64_t norm_limit;
    uint32_t halvings;
    uint64_t seed;
    /* what it gives */
    char result[CORPUS_WORD];
    uint64_t state;
    uint64_t report;
};

/* A line expanded. Zero-initialise; free with corpus_case_done(). */
struct corpus_case {
    size_t tensor_count;
    struct skep_tiling tilings[CORPUS_TENSORS_MOST];
    size_t offsets[CORPUS_TENSORS_MOST + 1];
    float *state;
    size_t n;
    struct skep_update_body bodies[SKEP_LIMIT_UPDATES_PER_ROUND];
    struct skep_merge_input inputs[SKEP_LIMIT_UPDATES_PER_ROUND];
    struct skep_merge_config config;
    struct skep_merge_options options; /* threads: 1 */
};

/* False if the text is not a line of the corpus. */
bool corpus_line_parse(const char *text, struct corpus_line *ret_line);
/* False if it names something that there is not (a rule, a style, a shape). */
bool corpus_case_init(const struct corpus_line *line, struct corpus_case *ret_case);
void corpus_case_done(struct corpus_case *corpus_case);

/*
 * Merges the case with its inputs in the order `places` (input i of the case is given as number places[i]) and fills the last three
 * fields of *line: the error's name, FNV-1a over the state's bytes, and over the report's numbers brought back into the case's order.
 */
void corpus_case_merge(const struct corpus_case *corpus_case, const size_t *places,
                       uint32_t threads, struct corpus_line *line);

#endif
