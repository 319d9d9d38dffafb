/*
 * How far apart are honest repetitions of one job, and how near do cheats come? Sets the thresholds of common/swarm/audit.h.
 *
 *   audit-replay [--quick] [--rounds N] [--data FILE]        (default: 24 rounds, text: the King James Bible of bible-kjv, else the GPL)
 *
 * Two projects with the default settings of the manifest: the lm of the quickstart on text and the classifier on pictures of ten classes.
 * Three donors and the merge work rounds; before rounds 0, 1, 3, 10, 12 ... 24 (quick: 4) the job of one donor is kept, with the history it
 * starts from (moments, residual), and repeated: by each CPU table of this machine and the plain reference, with 1, 2, 3 and 4 threads, with
 * each kernel of OpenBLAS that this CPU runs (OPENBLAS_CORETYPE, in processes of their own). Each pair of repetitions is one honest
 * audit: one published, the other audits; pairs of the same bytes are counted apart.
 * Cheats are audited by the very machine that made them, so that nothing but the cheat is seen.
 *
 * Nearly all honest pairs send the same places and codes and differ in the last bits of the codebook only (distance 1e-8 .. 1e-6). The
 * others hold EVENTS: a swap at the edge of the top k, a changed code, a token that chose another expert. One event in an expert of
 * 131,000 parameters is a distance of about 0.015.
 *
 * The chance of a false alarm is an extrapolation, for 10^6 audits cannot be run: P(d > x) = P(event) exp(-(x - u) / m), where u is the
 * smallest distance with an event and m the mean of d - u over those. Independent events would make d grow like the root of their number,
 * whose tail is exponential; exponential in d itself is heavier. audit_false_alarm is this for the distance plus the same for 1 - overlap.
 * audit_false_alarm_power is what a power law, the heaviest tail in use, would give for the distance: P(event) (x / u)^-a with Hill's
 * a = 1 / mean log(d / u) (Annals of Statistics 1975). The pairs of one job are not independent, so both are rough.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "common/swarm/audit.h"
#include "common/tensor/ops.h"
#include "tests/bench/audit-jobs.h"

#define TABLES 8u
#define VARIANTS 24u
#define KIND_COUNT 2u
#define EVENT 1e-5 /* distances and lacks below it are rounding of the codebook */

/* Distances and lacks of overlap. */
struct sample {
    double *distance;
    double *lack;
    size_t count;
};

struct bench {
    const char *program;
    const char *text;
    bool quick;
    unsigned rounds;
    char folder[64];
    size_t replays; /* honest ones */
    size_t exact;   /* honest pairs of the same bytes */
    struct sample trunk;
    struct sample experts;
    struct sample cheats[KIND_COUNT][JOBS_WAYS]; /* of the trunk */
    size_t caught[KIND_COUNT][JOBS_WAYS];        /* jobs, by any of their shards */
};

static void die(const char *text)
{
    fprintf(stderr, "audit-replay: %s\n", text);
    exit(1);
}

static void add(struct sample *sample, const struct skep_audit_likeness *likeness)
{
    sample->distance = skep_realloc(sample->distance, sample->count + 1, sizeof *sample->distance);
    sample->lack = skep_realloc(sample->lack, sample->count + 1, sizeof *sample->lack);
    sample->distance[sample->count] = likeness->distance;
    sample->lack[sample->count++] = 1 - likeness->overlap;
}

static struct skep_audit_likeness compare(const struct skep_update_body *a,
                                          const struct skep_update_body *b)
{
    struct skep_audit_likeness likeness;
    struct skep_error err = {0};
    if (skep_audit_compare(a, b, &likeness, &err) != SKEP_OK) {
        die(err.text);
    }
    return likeness;
}

/* --- other processes, for other kernels of OpenBLAS --- */

static const char *const CORES[] = {"Prescott", "Nehalem", "Sandybridge",
                                    "Haswell",  "Zen",     "SkylakeX"};

static bool can_core(const char *core)
{
#if defined(__x86_64__)
    if (strcmp(core, "SkylakeX") == 0) {
        return __builtin_cpu_supports("avx512f") != 0;
    }
    if (strcmp(core, "Haswell") == 0 || strcmp(core, "Zen") == 0) {
        return __builtin_cpu_supports("avx2") != 0;
    }
    return strcmp(core, "Sandybridge") != 0 || __builtin_cpu_supports("avx") != 0;
#else
    (void)core;
    return false;
#endif
}

static FILE *open_in(const char *folder, const char *name, const char *mode)
{
    char *path = skep_format("%s/%s", folder, name);
    FILE *file = fopen(path, mode);
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    free(path);
    return file;
}

/* The child: repeats the job of folder/job with each table and writes folder/bodies. */
static int replay_here(const char *folder, const char *text)
{
    struct jobs jobs;
    jobs_init(&jobs, text);
    FILE *file = open_in(folder, "job", "rb");
    jobs_read(&jobs, file);
    fclose(file);
    const struct skep_ops *tables[TABLES];
    size_t count = skep_ops_cpu_tables(tables, TABLES);
    file = open_in(folder, "bodies", "wb");
    struct skep_update_body *bodies = skep_alloc(jobs.lab.shard_count, sizeof *bodies);
    for (size_t t = 0; t < count; t++) {
        jobs_replay(&jobs, tables[t], JOBS_HONEST, bodies);
        jobs_bodies_write(&jobs, bodies, file);
        jobs_bodies_free(&jobs, bodies);
    }
    fclose(file);
    free(bodies);
    jobs_done(&jobs);
    return 0;
}

static void run_child(const struct bench *bench, const char *core, bool text)
{
    pid_t child = fork();
    if (child == 0) {
        setenv("OPENBLAS_CORETYPE", core, 1);
        execl(bench->program, bench->program, "--replay", bench->folder,
              text ? bench->text : (char *)NULL, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0) {
        die("a repetition in another process failed");
    }
}

/* --- one job --- */

struct variants {
    struct skep_update_body *bodies[VARIANTS];
    size_t count;
};

static struct skep_update_body *next_variant(struct variants *variants, const struct jobs *jobs)
{
    if (variants->count == VARIANTS) {
        die("too many variants");
    }
    struct skep_update_body *bodies = skep_alloc(jobs->lab.shard_count, sizeof *bodies);
    variants->bodies[variants->count++] = bodies;
    return bodies;
}

static void replay_in_process(struct bench *bench, struct jobs *jobs, struct variants *variants,
                              bool thorough)
{
    const struct skep_ops *tables[TABLES];
    size_t count = skep_ops_cpu_tables(tables, TABLES);
    for (size_t t = 0; t < count; t++) {
        for (unsigned threads = 1; threads <= (bench->quick ? 2 : 4); threads++) {
            skep_ops_set_threads(threads);
            jobs_replay(jobs, tables[t], JOBS_HONEST, next_variant(variants, jobs));
            bench->replays++;
        }
    }
    skep_ops_set_threads(1);
    if (thorough) {
        jobs_replay(jobs, skep_ops_reference(), JOBS_HONEST, next_variant(variants, jobs));
        bench->replays++;
    }
}

static void replay_elsewhere(struct bench *bench, struct jobs *jobs, struct variants *variants)
{
    FILE *file = open_in(bench->folder, "job", "wb");
    jobs_write(jobs, file);
    fclose(file);
    const struct skep_ops *tables[TABLES];
    size_t count = skep_ops_cpu_tables(tables, TABLES);
    for (size_t c = 0; c < sizeof CORES / sizeof CORES[0]; c++) {
        if (!can_core(CORES[c]) || (bench->quick && strcmp(CORES[c], "Sandybridge") != 0)) {
            continue;
        }
        run_child(bench, CORES[c], jobs->manifest.model.kind == SKEP_MODEL_LM);
        file = open_in(bench->folder, "bodies", "rb");
        for (size_t t = 0; t < count; t++) {
            jobs_bodies_read(jobs, file, next_variant(variants, jobs));
            bench->replays++;
        }
        fclose(file);
    }
}

static void add_pairs(struct bench *bench, const struct jobs *jobs, const struct variants *variants,
                      uint64_t version)
{
    double worst = 0;
    for (size_t a = 0; a < variants->count; a++) {
        for (size_t b = a + 1; b < variants->count; b++) {
            for (size_t i = 0; i < jobs->lab.shard_count; i++) {
                if (variants->bodies[a][i].tensor_count == 0) {
                    continue;
                }
                struct skep_audit_likeness likeness =
                    compare(&variants->bodies[a][i], &variants->bodies[b][i]);
                if (likeness.distance == 0) {
                    bench->exact++;
                    continue;
                }
                add(i == 0 ? &bench->trunk : &bench->experts, &likeness);
                worst = fmax(worst, likeness.distance);
            }
        }
    }
    fprintf(stderr, "  version %llu: %zu variants, worst distance %.4f\n",
            (unsigned long long)version, variants->count, worst);
}

static void add_cheats(struct bench *bench, struct jobs *jobs,
                       const struct skep_update_body *honest)
{
    struct skep_update_body *bodies = skep_alloc(jobs->lab.shard_count, sizeof *bodies);
    for (enum jobs_way way = JOBS_STEP_FEWER; way < JOBS_WAYS; way++) {
        jobs_replay(jobs, skep_ops_cpu(), way, bodies);
        enum skep_model_kind kind = jobs->manifest.model.kind;
        struct skep_audit_likeness trunk = compare(&honest[0], &bodies[0]);
        add(&bench->cheats[kind][way], &trunk);
        bool valid = true;
        for (size_t i = 0; i < jobs->lab.shard_count; i++) {
            if (bodies[i].tensor_count > 0) {
                struct skep_audit_likeness likeness = compare(&honest[i], &bodies[i]);
                valid = valid && skep_audit_valid(&likeness);
            }
        }
        bench->caught[kind][way] += !valid;
        fprintf(stderr, "    %-12s trunk distance %.3f, lack of overlap %.3f\n", jobs_way_name(way),
                trunk.distance, 1 - trunk.overlap);
        jobs_bodies_free(jobs, bodies);
    }
    free(bodies);
}

static void do_job(struct bench *bench, struct jobs *jobs, bool thorough)
{
    struct variants variants = {.count = 0};
    replay_in_process(bench, jobs, &variants, thorough);
    replay_elsewhere(bench, jobs, &variants);
    add_pairs(bench, jobs, &variants, jobs->lab.version);
    const struct skep_ops *tables[TABLES];
    size_t honest = (skep_ops_cpu_tables(tables, TABLES) - 1) * (bench->quick ? 2 : 4);
    add_cheats(bench, jobs, variants.bodies[honest]); /* the best table with one thread */
    for (size_t v = 0; v < variants.count; v++) {
        jobs_bodies_free(jobs, variants.bodies[v]);
        free(variants.bodies[v]);
    }
}

static void do_project(struct bench *bench, const char *text)
{
    struct jobs jobs;
    jobs_init(&jobs, text);
    fprintf(stderr, "%s: %zu shards, trunk of %zu parameters\n", text == NULL ? "classifier" : "lm",
            jobs.lab.shard_count, jobs.lab.shards[0].layout.parameters);
    unsigned last = bench->rounds;
    for (unsigned round = 0; round <= last; round++) {
        bool early = !bench->quick && (round == 0 || round == 1 || round == 3);
        bool late = bench->quick ? round == last : round >= 10 && round % 2 == 0;
        if (early || late) {
            do_job(bench, &jobs, !bench->quick && (round == 0 || round == 12));
        }
        if (round < last) {
            jobs_round(&jobs);
        }
    }
    jobs_done(&jobs);
}

/* --- figures --- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *sorted, size_t count, double part)
{
    return count == 0 ? 0 : sorted[(size_t)(part * (double)(count - 1))];
}

/* The pairs with events: the first of them in `sorted`; P(value > limit) by an exponential and by a power above it. */
struct tail {
    size_t first;
    double exponential;
    double power;
};

static struct tail tail_of(const double *sorted, size_t count, double limit)
{
    struct tail tail = {0};
    while (tail.first < count && sorted[tail.first] < EVENT) {
        tail.first++;
    }
    size_t events = count - tail.first;
    if (events == 0) {
        return tail;
    }
    double u = sorted[tail.first];
    double excess = 0;
    double logs = 0;
    for (size_t i = tail.first; i < count; i++) {
        excess += (sorted[i] - u) / (double)events;
        logs += log(sorted[i] / u) / (double)events;
    }
    double share = (double)events / (double)count;
    tail.exponential = share * exp(-(limit - u) / fmax(excess, u / 10));
    tail.power = share * pow(limit / u, -1 / fmax(logs, 0.1));
    return tail;
}

static void print_sample(const char *name, struct sample *sample)
{
    qsort(sample->distance, sample->count, sizeof(double), compare_doubles);
    qsort(sample->lack, sample->count, sizeof(double), compare_doubles);
    printf("audit_%s_median\t%.3g\trelative distance\t-\t-\n", name,
           quantile(sample->distance, sample->count, 0.5));
    printf("audit_%s_p99\t%.3g\trelative distance\t-\t-\n", name,
           quantile(sample->distance, sample->count, 0.99));
    printf("audit_%s_worst\t%.3g\trelative distance\t%.5f\t%.3f\n", name,
           quantile(sample->distance, sample->count, 1), SKEP_AUDIT_MOST_DISTANCE,
           quantile(sample->distance, sample->count, 1) / SKEP_AUDIT_MOST_DISTANCE);
    printf("audit_%s_lack_worst\t%.3g\tshare not overlapping\t%.5f\t%.3f\n", name,
           quantile(sample->lack, sample->count, 1), 1 - SKEP_AUDIT_LEAST_OVERLAP,
           quantile(sample->lack, sample->count, 1) / (1 - SKEP_AUDIT_LEAST_OVERLAP));
}

static double print_alarms(const char *name, const struct sample *sample)
{
    struct tail distance = tail_of(sample->distance, sample->count, SKEP_AUDIT_MOST_DISTANCE);
    struct tail lack = tail_of(sample->lack, sample->count, 1 - SKEP_AUDIT_LEAST_OVERLAP);
    double alarm = distance.exponential + lack.exponential;
    printf("audit_%s_events\t%zu\tpairs\t%zu\t%.4f\n", name, sample->count - distance.first,
           sample->count, (double)(sample->count - distance.first) / (double)sample->count);
    printf("audit_%s_false_alarm_power\t%.2g\tprobability\t-\t-\n", name, distance.power);
    return alarm;
}

static void print_cheats(struct bench *bench)
{
    static const char *const kinds[KIND_COUNT] = {
        [SKEP_MODEL_LM] = "lm", [SKEP_MODEL_CLASSIFIER] = "classifier"};
    double best = INFINITY;
    for (size_t k = 0; k < KIND_COUNT; k++) {
        for (enum jobs_way way = JOBS_STEP_FEWER; way < JOBS_WAYS; way++) {
            struct sample *sample = &bench->cheats[k][way];
            double caught = (double)bench->caught[k][way] / (double)sample->count;
            qsort(sample->distance, sample->count, sizeof(double), compare_doubles);
            double least = quantile(sample->distance, sample->count, 0);
            best = sample->count > 0 ? fmin(best, least) : best;
            printf("audit_cheat_%s_%s\t%.4f\tleast relative distance\t%.4f\t%.2f\n", kinds[k],
                   jobs_way_name(way), least, SKEP_AUDIT_MOST_DISTANCE,
                   least / SKEP_AUDIT_MOST_DISTANCE);
            printf("audit_caught_%s_%s\t%.4f\tshare of jobs\t1\t%.4f\n", kinds[k],
                   jobs_way_name(way), caught, caught);
        }
    }
    printf("audit_best_cheat\t%.4f\trelative distance\t%.4f\t%.2f\n", best,
           SKEP_AUDIT_MOST_DISTANCE, best / SKEP_AUDIT_MOST_DISTANCE);
}

static void print_all(struct bench *bench)
{
    print_sample("trunk", &bench->trunk);
    print_sample("expert", &bench->experts);
    double worst = fmax(quantile(bench->trunk.distance, bench->trunk.count, 1),
                        quantile(bench->experts.distance, bench->experts.count, 1));
    print_cheats(bench);
    printf("audit_replays\t%zu\thonest repetitions\t-\t-\n", bench->replays);
    printf("audit_pairs\t%zu\tdiffering pairs of shards\t-\t-\n",
           bench->trunk.count + bench->experts.count);
    printf("audit_same_pairs\t%zu\tpairs of the same bytes\t-\t-\n", bench->exact);
    printf("audit_worst_honest\t%.3g\trelative distance\t%.4f\t%.3f\n", worst,
           SKEP_AUDIT_MOST_DISTANCE, worst / SKEP_AUDIT_MOST_DISTANCE);
    double alarm =
        fmax(print_alarms("trunk", &bench->trunk), print_alarms("expert", &bench->experts));
    printf("audit_false_alarm\t%.2g\tprobability\t1e-06\t%.3g\n", alarm, alarm / 1e-6);
}

/* The text of bible-kjv in a file of ours, or the GPL. */
static const char *find_text(const struct bench *bench)
{
    char *path = skep_format("%s/text", bench->folder);
    char *command = skep_format("bible -f gen1:1-rev22:21 >'%s' 2>/dev/null", path);
    /* NOLINTNEXTLINE(cert-env33-c): a fixed command and a path that we made */
    bool made = system(command) == 0;
    free(command);
    return made ? path : "/usr/share/common-licenses/GPL-3";
}

static void remove_files(const struct bench *bench)
{
    static const char *const names[] = {"job", "bodies", "text"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = skep_format("%s/%s", bench->folder, names[i]);
        remove(path);
        free(path);
    }
    rmdir(bench->folder);
}

int main(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "--replay") == 0) {
        return replay_here(argv[2], argc > 3 ? argv[3] : NULL);
    }
    static struct bench bench = {
        .program = "/proc/self/exe", .folder = "/tmp/audit-replay-XXXXXX", .rounds = 24};
    if (mkdtemp(bench.folder) == NULL) {
        die("no folder for the jobs");
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            bench.quick = true;
            bench.rounds = 4;
        } else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
            bench.rounds = (unsigned)strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--data") == 0 && i + 1 < argc) {
            bench.text = argv[++i];
        } else {
            die("usage: audit-replay [--quick] [--rounds N] [--data FILE]");
        }
    }
    if (bench.text == NULL) {
        bench.text = find_text(&bench);
    }
    do_project(&bench, bench.text);
    do_project(&bench, NULL);
    remove_files(&bench);
    print_all(&bench);
    return 0;
}
