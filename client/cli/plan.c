/* plan: what a project takes of the machines that take part, before anything is fetched. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/dataset.h"
#include "client/cli/fetched.h"
#include "client/plan/plan.h"
#include "client/plan/size.h"
#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/swarm/statement.h"
#include "common/sys/file.h"

/* Where the manifest comes from; what is unused stays zero. */
struct origin {
    struct skep_task task;
    struct skep_manifest own;
    struct skep_fetched fetched;
    const struct skep_manifest *manifest;
    char *without_data; /* why the task's data was not read; NULL if it was */
};

struct wish {
    const char *task;
    const char *file; /* of a manifest */
    struct skep_fetched_source source;
    uint64_t memory_bytes; /* 0: not asked */
    uint32_t threads;
    bool json;
};

/* ---- where from ---- */

static int from_task(const char *path, struct origin *origin, struct skep_error *err)
{
    struct skep_buffer train = {0};
    struct skep_buffer heldout = {0};
    struct skep_error why = {0};
    int rc = skep_task_load(path, &origin->task, err);
    if (rc != 0) {
        return rc;
    }
    /* A plan can be made before there is data. */
    if (skep_dataset_read(path, &origin->task, &train, &heldout, &why) != 0) {
        origin->without_data = skep_strdup(why.text);
    }
    skep_buffer_done(&train);
    skep_buffer_done(&heldout);
    origin->manifest = &origin->task.manifest;
    return 0;
}

/* Signed, as `skep project publish` keeps it. */
static int from_file(const char *path, struct origin *origin, struct skep_error *err)
{
    struct skep_buffer text = {0};
    int rc = skep_file_read(path, SKEP_LIMIT_STATEMENT_BYTES, &text, err);
    if (rc == 0) {
        rc = skep_manifest_open(text.data, text.size, NULL, &origin->own, NULL, err);
    }
    if (rc == 0) {
        origin->manifest = &origin->own;
    } else {
        rc = skep_error_prefix(err, "%s is no signed manifest", path);
    }
    skep_buffer_done(&text);
    return rc;
}

static int from_project(const struct skep_fetched_source *source, struct origin *origin,
                        struct skep_error *err)
{
    int rc = skep_fetched_find(source, &origin->fetched, err);
    if (rc == 0) {
        origin->manifest = origin->fetched.manifest;
    }
    return rc;
}

static void origin_done(struct origin *origin)
{
    free(origin->without_data);
    skep_task_done(&origin->task);
    skep_manifest_done(&origin->own);
    skep_fetched_done(&origin->fetched);
}

/* ---- for people ---- */

/* One amount of bytes on its way into a line: "parameters 16.5 MiB". */
static void print_size(const char *before, uint64_t bytes, const char *after)
{
    char text[SKEP_SIZE_TEXT];
    skep_size_format(bytes, text);
    printf("%s%s%s", before, text, after);
}

/* 8553130 as "8,553,130". */
static void print_count(const char *before, uint64_t count, const char *after)
{
    char digits[24];
    int size = snprintf(digits, sizeof digits, "%" PRIu64, count);
    fputs(before, stdout);
    for (int i = 0; i < size; i++) {
        printf("%s%c", i > 0 && (size - i) % 3 == 0 ? "," : "", digits[i]);
    }
    fputs(after, stdout);
}

static void print_model(const struct skep_manifest *manifest, const struct skep_plan *plan)
{
    const struct skep_model_config *model = &manifest->model;
    printf("%s: ", manifest->name);
    if (model->kind == SKEP_MODEL_CLASSIFIER) {
        printf("a classifier of %u inputs and %u classes", model->inputs, model->classes);
    } else {
        printf("an lm of %u bytes of context", model->context);
    }
    printf(", %u layers of %u x %u experts (%s, %u -> %u)\n", model->layers, model->rows,
           model->columns, skep_expert_kind_name(model->expert), model->dim, model->hidden);
    print_count("parameters    trunk ", plan->trunk, "");
    print_count(", each expert ", plan->expert, "");
    print_count(", all ", plan->all, "\n");
}

static void print_memory(const struct skep_plan *plan, const struct skep_plan *recomputed)
{
    const struct skep_plan_memory *memory = &plan->memory;
    print_size("  memory      ", memory->total, " resident in skep-worker");
    print_size(" (", recomputed->memory.total, " if it recomputes activations):\n");
    print_size("              program ", memory->program, "");
    print_size(", parameters ", memory->parameters, "");
    print_size(", gradients ", memory->gradients, "");
    print_size(", moments ", memory->moments, ",\n");
    print_size("              activations ", memory->activations, "");
    print_size(", staging ", memory->staging, "");
    print_size(", update ", memory->update, "");
    print_size(", data ", memory->data, "\n");
}

static void print_job(const struct skep_manifest *manifest, const struct skep_plan *plan,
                      const struct skep_plan *recomputed)
{
    const struct skep_training_config *training = &manifest->training;
    const struct skep_plan_disk *disk = &plan->disk;
    bool lm = manifest->model.kind == SKEP_MODEL_LM;
    printf("\na donor's job: the trunk and %" PRIu64 " of %" PRIu64 " experts, %u steps of %u %s\n",
           plan->job_experts, plan->experts, training->steps, training->batch,
           lm ? "sequences" : "records");
    print_count("  computes    ", plan->tokens, lm ? " tokens" : " records");
    printf(" in %.3g billion floating-point operations\n", plan->operations / 1e9);
    print_memory(plan, recomputed);
    print_size("  disk        ", disk->job, " for one job");
    print_size(", at most ", disk->most, " after many\n");
    print_size("              states ", disk->states, "");
    print_size(", moments ", disk->moments, "");
    print_size(", residuals ", disk->residuals, ",\n");
    print_size("              data ", disk->data, "");
    print_size(", updates on their way ", disk->outbox, "");
    print_size(", checkpoint ", disk->checkpoint, "\n");
    print_size("  traffic     ", plan->down,
               " down in the first job, at most that in a later one; ");
    print_size("", plan->up, " up");
    printf(", to %u keeper%s of each shard\n", plan->copies, plan->copies == 1 ? "" : "s");
}

static void print_keeper(const struct skep_plan *plan)
{
    const struct skep_plan_keeper *shards[] = {&plan->keeper_trunk, &plan->keeper_expert};
    static const char *const names[] = {"  the trunk   ", "  an expert   "};
    puts("\na keeper, beside its program and at most (a full round of updates waits)");
    for (size_t i = 0; i < 2; i++) {
        print_size(names[i], shards[i]->disk, " of disk");
        print_size(", ", shards[i]->memory, " of memory while it is merged");
        print_size("; a state has ", shards[i]->state, "");
        print_size(", an update ", shards[i]->update, "\n");
    }
    print_size("  everything  ", plan->keeper_disk, " of disk");
    print_size(", ", plan->keeper_memory, " of memory\n");
}

static void print_answer(const struct wish *wish, const struct skep_plan *plan,
                         const struct skep_plan *recomputed, int rc, bool recompute,
                         const struct skep_error *refusal)
{
    char limit[SKEP_SIZE_TEXT];
    skep_size_format(wish->memory_bytes, limit);
    if (rc != 0) {
        printf("\nA donor with a limit of %s is told: %s\n", limit, refusal->text);
        return;
    }
    printf("\nA donor with a limit of %s can work for it", limit);
    if (recompute) {
        print_size(": it recomputes activations and needs ", recomputed->memory.total, "");
        print_size(" instead of ", plan->memory.total, "");
    }
    puts(".");
}

/* ---- for programs ---- */

/* What does not fit a machine does not fit an integer of JSON either, at worst. */
static void set_amount(struct skep_json *object, const char *key, uint64_t amount)
{
    uint64_t most = SKEP_JSON_INTEGER_MOST;
    skep_json_set_integer(object, key, (int64_t)(amount < most ? amount : most));
}

static struct skep_json *memory_json(const struct skep_plan_memory *memory)
{
    struct skep_json *object = skep_json_object_new();
    set_amount(object, "program", memory->program);
    set_amount(object, "parameters", memory->parameters);
    set_amount(object, "gradients", memory->gradients);
    set_amount(object, "moments", memory->moments);
    set_amount(object, "activations", memory->activations);
    set_amount(object, "staging", memory->staging);
    set_amount(object, "update", memory->update);
    set_amount(object, "data", memory->data);
    set_amount(object, "total", memory->total);
    return object;
}

static struct skep_json *disk_json(const struct skep_plan_disk *disk)
{
    struct skep_json *object = skep_json_object_new();
    set_amount(object, "states", disk->states);
    set_amount(object, "moments", disk->moments);
    set_amount(object, "residuals", disk->residuals);
    set_amount(object, "data", disk->data);
    set_amount(object, "outbox", disk->outbox);
    set_amount(object, "checkpoint", disk->checkpoint);
    set_amount(object, "job", disk->job);
    set_amount(object, "most", disk->most);
    return object;
}

static struct skep_json *keeper_json(const struct skep_plan_keeper *keeper)
{
    struct skep_json *object = skep_json_object_new();
    set_amount(object, "state", keeper->state);
    set_amount(object, "update", keeper->update);
    set_amount(object, "disk", keeper->disk);
    set_amount(object, "memory", keeper->memory);
    return object;
}

static struct skep_json *donor_json(const struct skep_plan *plan,
                                    const struct skep_plan *recomputed)
{
    struct skep_json *donor = skep_json_object_new();
    set_amount(donor, "experts", plan->job_experts);
    set_amount(donor, "tokens", plan->tokens);
    skep_json_set_real(donor, "operations", plan->operations);
    skep_json_set_take(donor, "memory", memory_json(&plan->memory));
    skep_json_set_take(donor, "memory_recomputing", memory_json(&recomputed->memory));
    skep_json_set_take(donor, "disk", disk_json(&plan->disk));
    set_amount(donor, "down", plan->down);
    set_amount(donor, "up", plan->up);
    return donor;
}

static struct skep_json *plan_json(const struct skep_manifest *manifest,
                                   const struct skep_plan *plan, const struct skep_plan *recomputed)
{
    struct skep_json *root = skep_json_object_new();
    struct skep_json *parameters = skep_json_object_new();
    struct skep_json *keeper = skep_json_object_new();
    set_amount(parameters, "trunk", plan->trunk);
    set_amount(parameters, "expert", plan->expert);
    set_amount(parameters, "all", plan->all);
    skep_json_set_take(keeper, "trunk", keeper_json(&plan->keeper_trunk));
    skep_json_set_take(keeper, "expert", keeper_json(&plan->keeper_expert));
    set_amount(keeper, "disk", plan->keeper_disk);
    set_amount(keeper, "memory", plan->keeper_memory);
    skep_json_set_text(root, "name", manifest->name);
    skep_json_set_text(root, "kind", skep_model_kind_name(manifest->model.kind));
    set_amount(root, "experts", plan->experts);
    skep_json_set_integer(root, "copies", plan->copies);
    skep_json_set_take(root, "parameters", parameters);
    skep_json_set_take(root, "job", donor_json(plan, recomputed));
    skep_json_set_take(root, "keeper", keeper);
    return root;
}

static void print_json(const struct wish *wish, struct skep_json *take_root, int rc, bool recompute,
                       const struct skep_error *refusal)
{
    if (wish->memory_bytes > 0) {
        struct skep_json *answer = skep_json_object_new();
        set_amount(answer, "memory", wish->memory_bytes);
        skep_json_set_bool(answer, "fits", rc == 0);
        skep_json_set_bool(answer, "recompute", rc == 0 && recompute);
        if (rc != 0) {
            skep_json_set_text(answer, "sentence", refusal->text);
        }
        skep_json_set_take(take_root, "limit", answer);
    }
    char *text = skep_json_write(take_root, true);
    puts(text);
    free(text);
    skep_json_free(take_root);
}

/* ---- the command ---- */

/* Whether a donor with the limit that was asked about can work for it; true if none was. */
static bool show(const struct wish *wish, const struct origin *origin)
{
    const struct skep_manifest *manifest = origin->manifest;
    struct skep_plan_options options = {.threads = wish->threads};
    struct skep_plan plan;
    struct skep_plan recomputed;
    struct skep_error refusal = {0};
    bool recompute = false;
    int rc = 0;
    assert(manifest != NULL); /* find_origin() succeeded */
    skep_plan_of(manifest, &options, &plan);
    options.recompute = true;
    skep_plan_of(manifest, &options, &recomputed);
    if (wish->memory_bytes > 0) {
        rc = skep_plan_check(manifest, wish->memory_bytes, wish->threads, &recompute, &refusal);
    }
    if (wish->json) {
        print_json(wish, plan_json(manifest, &plan, &recomputed), rc, recompute, &refusal);
        return rc == 0;
    }
    print_model(manifest, &plan);
    if (origin->without_data != NULL) {
        printf("data          not read, slices are taken to be full: %s\n", origin->without_data);
    }
    print_job(manifest, &plan, &recomputed);
    print_keeper(&plan);
    if (wish->memory_bytes > 0) {
        print_answer(wish, &plan, &recomputed, rc, recompute, &refusal);
    }
    return rc == 0;
}

static int find_origin(const struct wish *wish, struct origin *origin, struct skep_error *err)
{
    int named = (wish->task != NULL) + (wish->file != NULL) + (wish->source.project != NULL);
    if (named > 1) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "name one project: TASK.yaml, --manifest or --project");
    }
    if (wish->task != NULL) {
        return from_task(wish->task, origin, err);
    }
    if (wish->file != NULL) {
        return from_file(wish->file, origin, err);
    }
    return from_project(&wish->source, origin, err);
}

static int read_limits(const char *memory, const char *threads, struct wish *wish,
                       struct skep_error *err)
{
    int64_t count = 1;
    int rc = 0;
    if (memory != NULL) {
        rc = skep_size_parse("--memory", memory, &wish->memory_bytes, err);
    }
    if (rc == 0 && memory != NULL && wish->memory_bytes == 0) {
        rc = skep_error_set(err, SKEP_ERR_ARGUMENT, "--memory is 0; allowed: 1B and more");
    }
    if (rc == 0 && threads != NULL) {
        rc = skep_cli_integer("--threads", threads, 1, 1024, &count, err);
    }
    wish->threads = (uint32_t)count;
    return rc;
}

int skep_cli_plan(int argc, char **argv)
{
    static const char usage[] =
        "usage: skep plan TASK.yaml [--memory SIZE] [--threads N] [--json]\n"
        "       skep plan --manifest FILE ...                    (as skep project publish keeps "
        "it)\n"
        "       skep plan [--project ID --bootstrap HOST:PORT,...] [--dir DONOR_DIR] ...\n"
        "\n"
        "Works out what a project takes of those who take part, before anything is fetched: the\n"
        "memory of skep-worker, a donor's disk and traffic, a job's arithmetic, a keeper's disk\n"
        "and memory. With --memory (2GiB, 512MiB) it says whether a donor with that limit can\n"
        "work for it, and the exit status is 1 if not. --threads N: skep-worker computes with N.\n";
    struct wish wish = {0};
    const char *memory = NULL;
    const char *threads = NULL;
    int words = 0;
    const struct skep_cli_option options[] = {{"--dir", &wish.source.dir, NULL},
                                              {"--manifest", &wish.file, NULL},
                                              {"--project", &wish.source.project, NULL},
                                              {"--bootstrap", &wish.source.bootstrap, NULL},
                                              {"--memory", &memory, NULL},
                                              {"--threads", &threads, NULL},
                                              {"--json", NULL, &wish.json},
                                              {NULL, NULL, NULL}};
    enum skep_cli_parsed parsed =
        skep_cli_parse(argc, argv, options, usage, (struct skep_cli_words){0, 1}, &words);
    if (parsed != SKEP_CLI_GO) {
        return parsed == SKEP_CLI_HELP ? 0 : 2;
    }
    wish.task = words == 1 ? argv[1] : NULL;
    struct origin origin = {0};
    struct skep_error err = {0};
    int rc = read_limits(memory, threads, &wish, &err);
    if (rc == 0) {
        rc = find_origin(&wish, &origin, &err);
    }
    bool fits = rc == 0 && show(&wish, &origin);
    origin_done(&origin);
    if (rc != 0) {
        return skep_cli_fail(&err);
    }
    return fits ? 0 : 1;
}
