/*
 * Runs the corpus of merges: each line with 1, 2, 3 and 7 threads and its updates in as many orders must give what the line
 * records. Not a cmocka program: tests/house/test-same-bits.sh builds it for machines that have no cmocka.
 *
 *   test-same-bits [--every N] [FILE]    every N-th line only; FILE is otherwise schemas/vectors/merge/corpus.txt below $SKEP_SOURCE
 *   test-same-bits --write [FILE]        rewrites the recorded results. Merged bits then differ between releases: think first.
 * Prints TAP.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "tests/unit/merge/corpus.h"

#define LINES_MOST 1024
#define LINE_MOST 512
#define ORDERS 4

static const uint32_t threads_of_order[ORDERS] = {1, 2, 3, 7};

/* Where input i goes: as it is, backwards, and shuffled twice. */
static void order_of(size_t order, size_t n, size_t *ret_places)
{
    struct skep_rng rng = skep_rng_of(order);
    for (size_t i = 0; i < n; i++) {
        ret_places[i] = order == 1 ? n - 1 - i : i;
    }
    for (size_t i = n - 1; order > 1 && i > 0; i--) {
        size_t other = skep_rng_below(&rng, i + 1);
        size_t swapped = ret_places[i];
        ret_places[i] = ret_places[other];
        ret_places[other] = swapped;
    }
}

static bool same(const struct corpus_line *a, const struct corpus_line *b)
{
    return strcmp(a->result, b->result) == 0 && a->state == b->state && a->report == b->report;
}

static void print_difference(size_t number, const struct corpus_line *expected,
                             const struct corpus_line *found, uint32_t threads)
{
    printf("# line %zu: %s of %u with %u threads: %s %016lx %016lx; recorded: %s %016lx %016lx\n",
           number, expected->rule, expected->n, threads, found->result, found->state, found->report,
           expected->result, expected->state, expected->report);
}

/* Whether all orders give what the line records. */
static bool check(size_t number, const struct corpus_line *line)
{
    struct corpus_case corpus_case = {0};
    bool right = corpus_case_init(line, &corpus_case);
    if (!right) {
        printf("# line %zu names something unknown\n", number);
    }
    for (size_t order = 0; right && order < ORDERS; order++) {
        struct corpus_line found = *line;
        size_t places[SKEP_LIMIT_UPDATES_PER_ROUND];
        order_of(order, line->n, places);
        corpus_case_merge(&corpus_case, places, threads_of_order[order], &found);
        right = same(line, &found);
        if (!right) {
            print_difference(number, line, &found, threads_of_order[order]);
        }
    }
    corpus_case_done(&corpus_case);
    return right;
}

struct corpus {
    char texts[LINES_MOST][LINE_MOST];
    size_t count;
};

static bool read_corpus(const char *path, struct corpus *ret_corpus)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    while (ret_corpus->count < LINES_MOST &&
           fgets(ret_corpus->texts[ret_corpus->count], LINE_MOST, file) != NULL) {
        ret_corpus->count++;
    }
    fclose(file);
    return true;
}

static bool is_comment(const char *text)
{
    return text[0] == '#' || text[0] == '\n';
}

static int check_all(const struct corpus *corpus, size_t every)
{
    size_t checked = 0;
    size_t wrong = 0; /* the first ten say what differs, then it is enough */
    size_t seen = 0;
    for (size_t i = 0; i < corpus->count && wrong < 10; i++) {
        struct corpus_line line;
        if (is_comment(corpus->texts[i]) || seen++ % every != 0) {
            continue;
        }
        bool right = corpus_line_parse(corpus->texts[i], &line);
        if (!right) {
            printf("# line %zu is not a line of the corpus\n", i + 1);
        }
        right = right && check(i + 1, &line);
        checked++;
        wrong += !right;
    }
    printf("1..1\n%s 1 - %zu merges with 1, 2, 3 and 7 threads in four orders give the recorded "
           "bits\n",
           checked > 0 && wrong == 0 ? "ok" : "not ok", checked);
    return checked == 0 || wrong > 0;
}

static bool write_line(FILE *file, const struct corpus_line *line)
{
    struct corpus_case corpus_case = {0};
    struct corpus_line found = *line;
    size_t places[SKEP_LIMIT_UPDATES_PER_ROUND];
    bool known = corpus_case_init(line, &corpus_case);
    if (known) {
        order_of(0, line->n, places);
        corpus_case_merge(&corpus_case, places, 1, &found);
        fprintf(file, "%s %u %u %s %s %s %u %u %u %u %lu %u %lu %s %016lx %016lx\n", found.rule,
                found.n, found.keep, found.shapes, found.style, found.staleness,
                found.liars_permille, found.clip_permille, found.overlap_permille,
                found.step_permille, found.norm_limit, found.halvings, found.seed, found.result,
                found.state, found.report);
    }
    corpus_case_done(&corpus_case);
    return known;
}

static int write_all(const struct corpus *corpus, const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        fprintf(stderr, "%s cannot be written\n", path);
        return 1;
    }
    int status = 0;
    for (size_t i = 0; i < corpus->count; i++) {
        struct corpus_line line;
        if (is_comment(corpus->texts[i])) {
            fputs(corpus->texts[i], file);
        } else if (!corpus_line_parse(corpus->texts[i], &line) || !write_line(file, &line)) {
            fprintf(stderr, "line %zu is not a line of the corpus: %s", i + 1, corpus->texts[i]);
            fputs(corpus->texts[i], file);
            status = 1;
        }
    }
    return fclose(file) != 0 ? 1 : status;
}

int main(int argc, char **argv)
{
    static struct corpus corpus;
    static char path[LINE_MOST];
    const char *source = getenv("SKEP_SOURCE");
    bool write = false;
    size_t every = 1;
    snprintf(path, sizeof path, "%s/schemas/vectors/merge/corpus.txt",
             source != NULL ? source : ".");
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--write") == 0) {
            write = true;
        } else if (strcmp(argv[i], "--every") == 0 && i + 1 < argc) {
            every = strtoul(argv[++i], NULL, 10);
            every = every == 0 ? 1 : every;
        } else {
            snprintf(path, sizeof path, "%s", argv[i]);
        }
    }
    if (!read_corpus(path, &corpus)) {
        printf("1..1\nnot ok 1 - %s does not open; run from the source tree or set SKEP_SOURCE\n",
               path);
        return 1;
    }
    return write ? write_all(&corpus, path) : check_all(&corpus, every);
}
