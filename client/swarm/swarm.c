#include "client/swarm/swarm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/swarm/figures.h"
#include "client/swarm/members.h"
#include "client/swarm/options.h"
#include "client/swarm/view.h"
#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/sys/file.h"
#include "common/sys/loop.h"
#include "common/sys/process.h"
#include "common/wire/task.h"

#define TICK_MS 500
#define START_LIMIT_MS 30000
#define DRAIN_LIMIT_MS 20000
#define STOP_LIMIT_MS 10000
#define SAMPLE_PERIOD_MS 30000
#define MEASURE_LIMIT_MS 600000
#define SAMPLE_BYTES "16384"
#define SAMPLE_RECORD_BYTES "1048576" /* a record counts as much as a byte of text, and is larger */

enum swarm_phase {
    STARTING,
    PUBLISHING,
    RUNNING,
    DRAINING,
    MEASURING,
    STOPPING,
    FINISHED,
};

struct swarm {
    struct skep_swarm_options options;
    struct skep_loop *loop;
    struct skep_timer *timer;
    struct skep_swarm_view *view;
    struct skep_swarm_members *members;
    struct skep_swarm_figures figures;
    enum swarm_phase phase;
    uint64_t phase_ms;   /* when this phase began */
    uint64_t started_ms; /* when the donors began */
    int64_t tokens_before
        [SKEP_SWARM_MOST_DONORS]; /* what each donor had when it first answered; -1: not yet */
    char project[80];
    struct skep_process *tool; /* publish or eval, one at a time */
    bool tool_measured;        /* eval has printed: */
    double tool_figure;        /* bits per byte, or accuracy */
    uint64_t sampled_ms;
    bool measured;  /* at the end, on all held-out data: */
    double heldout; /* bits per byte, or accuracy */
    int status;
    int lock;
    char *data_path; /* absolute */
};

static void enter(struct swarm *swarm, enum swarm_phase phase)
{
    swarm->phase = phase;
    swarm->phase_ms = skep_loop_now_ms(swarm->loop);
}

/* Something made going on senseless: say it and stop what runs. */
static void give_up(struct swarm *swarm, const char *sentence, int status)
{
    skep_swarm_view_event(swarm->view, "skep swarm: %s", sentence);
    swarm->status = status;
    skep_swarm_stop_donors(swarm->members);
    skep_swarm_stop_keepers(swarm->members);
    enter(swarm, STOPPING);
}

static void on_event(void *user, const char *sentence)
{
    struct swarm *swarm = user;
    skep_swarm_view_event(swarm->view, "%s", sentence);
}

/* Tools: our own command line, in its own process, as a user would run it. */

static void on_tool_line(void *user, const char *line)
{
    struct swarm *swarm = user;
    static const char *const names[] = {"bits_per_byte=", "accuracy="};
    for (size_t i = 0; i < 2; i++) {
        if (strncmp(line, names[i], strlen(names[i])) == 0) {
            swarm->tool_figure = strtod(line + strlen(names[i]), NULL);
            swarm->tool_measured = true;
            swarm->figures.classifier = i == 1;
        }
    }
    if (strncmp(line, "project ", 8) == 0) {
        snprintf(swarm->project, sizeof swarm->project, "%.64s", line + 8);
    }
}

static int run_tool(struct swarm *swarm, const char *const *words, skep_process_exit on_exit)
{
    char *program = skep_process_find("skep");
    const char *arguments[2 * SKEP_SWARM_MOST_KEEPERS + 16] = {program};
    for (size_t i = 0; words[i] != NULL; i++) {
        arguments[i + 1] = words[i];
    }
    char *log = skep_format("%s/log", swarm->options.dir);
    struct skep_process_options options = {
        .arguments = arguments,
        .stderr_path = log,
        .apart = true,
        .on_line = on_tool_line,
        .on_exit = on_exit,
        .user = swarm,
    };
    struct skep_error err = {0};
    int result = skep_process_start(swarm->loop, &options, &swarm->tool, &err);
    if (result != SKEP_OK) {
        skep_swarm_view_event(swarm->view, "%s", err.text);
    }
    free(program);
    free(log);
    return result;
}

static void tool_over(struct swarm *swarm)
{
    skep_process_free(swarm->tool);
    swarm->tool = NULL;
}

/* Starting and publishing. */

static void start_donors(struct swarm *swarm)
{
    struct skep_error err = {0};
    swarm->figures.project = swarm->project;
    swarm->started_ms = skep_loop_now_ms(swarm->loop);
    swarm->sampled_ms = swarm->started_ms;
    for (size_t i = 0; i < SKEP_SWARM_MOST_DONORS; i++) {
        swarm->tokens_before[i] = -1;
    }
    enter(swarm, RUNNING);
    skep_swarm_view_event(swarm->view, "project %s: %u donors start", swarm->project,
                          swarm->options.donors);
    if (skep_swarm_start_donors(swarm->members, swarm->project, &err) != SKEP_OK) {
        give_up(swarm, err.text, skep_err_exit_status(err.code));
    }
}

static void on_published(void *user, int status)
{
    struct swarm *swarm = user;
    tool_over(swarm);
    if (swarm->phase != PUBLISHING) {
        return;
    }
    struct skep_error err = {0};
    char *path = skep_format("%s/project", swarm->options.dir);
    char *text = skep_format("%s\n%u\n", swarm->project, swarm->options.keepers);
    if (status != 0 || swarm->project[0] == '\0') {
        char *sentence = skep_format("the project could not be published; the reason stands at the "
                                     "end of %s/log",
                                     swarm->options.dir);
        give_up(swarm, sentence, 1);
        free(sentence);
    } else if (skep_file_write(path, 0600, text, strlen(text), &err) != SKEP_OK) {
        give_up(swarm, err.text, skep_err_exit_status(err.code));
    } else {
        start_donors(swarm);
    }
    free(text);
    free(path);
}

/* The task file to publish: the user's, or the example with our data. */
static char *task_path(struct swarm *swarm, struct skep_error *err)
{
    if (swarm->options.task != NULL) {
        return skep_strdup(swarm->options.task);
    }
    char *path = skep_format("%s/task.yaml", swarm->options.dir);
    char *text = skep_task_example(SKEP_MODEL_LM, "local swarm", swarm->options.data);
    if (skep_file_write(path, 0600, text, strlen(text), err) != SKEP_OK) {
        free(path);
        path = NULL;
    }
    free(text);
    return path;
}

static void publish(struct swarm *swarm)
{
    struct skep_error err = {0};
    enter(swarm, PUBLISHING);
    char *task = task_path(swarm, &err);
    if (task == NULL) {
        give_up(swarm, err.text, skep_err_exit_status(err.code));
        return;
    }
    skep_swarm_view_event(swarm->view, "publishing %s", task);
    char *key = skep_format("%s/project.key", swarm->options.dir);
    const char *words[2 * SKEP_SWARM_MOST_KEEPERS + 8] = {"project", "publish", task, "--key", key};
    char addresses[SKEP_SWARM_MOST_KEEPERS][32];
    size_t count = 5;
    for (size_t i = 0; i < swarm->options.keepers; i++) {
        snprintf(addresses[i], sizeof addresses[i], "%s",
                 skep_swarm_keeper_address(swarm->members, i));
        words[count++] = "--keeper";
        words[count++] = addresses[i];
    }
    if (run_tool(swarm, words, on_published) != SKEP_OK) {
        give_up(swarm, "the project could not be published", 1);
    }
    free(task);
    free(key);
}

static void tick_starting(struct swarm *swarm, uint64_t waited_ms)
{
    if (skep_swarm_keepers_ready(swarm->members)) {
        if (swarm->project[0] != '\0') {
            start_donors(swarm);
        } else {
            publish(swarm);
        }
    } else if (waited_ms > START_LIMIT_MS) {
        char *sentence = skep_format("the keepers did not start within %d s; the reason stands at "
                                     "the end of %s/keeper-*/log",
                                     START_LIMIT_MS / 1000, swarm->options.dir);
        give_up(swarm, sentence, 1);
        free(sentence);
    }
}

/* Running and measuring. */

static void on_sampled(void *user, int status)
{
    struct swarm *swarm = user;
    tool_over(swarm);
    if (status == 0 && swarm->tool_measured) {
        swarm->figures.heldout = swarm->tool_figure;
    }
}

/* All of them, so that a tool finds its way when any is down. */
static char *keeper_addresses(const struct swarm *swarm)
{
    struct skep_buffer list = {0};
    for (size_t i = 0; i < swarm->options.keepers; i++) {
        skep_buffer_append_text(&list, i == 0 ? "" : ",");
        skep_buffer_append_text(&list, skep_swarm_keeper_address(swarm->members, i));
    }
    skep_buffer_append_u8(&list, 0);
    return (char *)list.data; /* the caller frees */
}

static void on_exported(void *user, int status)
{
    struct swarm *swarm = user;
    tool_over(swarm);
    if (status == 0) {
        bool lm = !swarm->figures.classifier;
        skep_swarm_view_event(swarm->view, "the model lies in %s/model; %s with",
                              swarm->options.dir, lm ? "let it write" : "measure it");
        skep_swarm_view_event(swarm->view,
                              lm ? "  skep generate --model %s/model --prompt \"And \""
                                 : "  skep eval --model %s/model --images FILE --labels FILE",
                              swarm->options.dir);
    } else {
        skep_swarm_view_event(swarm->view, "the model could not be exported; see %s/log",
                              swarm->options.dir);
        swarm->status = swarm->status == 0 ? 1 : swarm->status;
    }
    if (swarm->phase == MEASURING) {
        skep_swarm_stop_keepers(swarm->members);
        enter(swarm, STOPPING);
    }
}

/* The model as files, so that it can be used after the keepers have stopped. False if the tool cannot start. */
static bool run_export(struct swarm *swarm)
{
    char *folder = skep_format("%s/model", swarm->options.dir);
    char *addresses = keeper_addresses(swarm);
    const char *words[] = {"export",      folder,    "--project", swarm->project,
                           "--bootstrap", addresses, NULL};
    int result = run_tool(swarm, words, on_exported);
    free(folder);
    free(addresses);
    return result == SKEP_OK;
}

static void on_measured(void *user, int status)
{
    struct swarm *swarm = user;
    tool_over(swarm);
    if (status == 0 && swarm->tool_measured) {
        swarm->heldout = swarm->tool_figure;
        swarm->measured = true;
        swarm->figures.heldout = swarm->tool_figure;
    } else {
        skep_swarm_view_event(swarm->view, "the held-out data could not be measured; see %s/log",
                              swarm->options.dir);
        swarm->status = swarm->status == 0 ? 1 : swarm->status;
    }
    if (swarm->phase == MEASURING && !run_export(swarm)) {
        skep_swarm_stop_keepers(swarm->members);
        enter(swarm, STOPPING);
    }
}

static void run_eval(struct swarm *swarm, const char *bytes, skep_process_exit on_exit)
{
    char *addresses = keeper_addresses(swarm);
    const char *words[] = {"eval",        "--project", swarm->project,
                           "--bootstrap", addresses,   bytes == NULL ? NULL : "--bytes",
                           bytes,         NULL};
    swarm->tool_measured = false;
    if (run_tool(swarm, words, on_exit) != SKEP_OK && swarm->phase == MEASURING) {
        swarm->status = 1;
        skep_swarm_stop_keepers(swarm->members);
        enter(swarm, STOPPING);
    }
    free(addresses);
}

static void drain(struct swarm *swarm, const char *why)
{
    skep_swarm_view_event(swarm->view, "%s: the donors finish, then the result is measured", why);
    skep_swarm_stop_donors(swarm->members);
    enter(swarm, DRAINING);
}

static uint64_t tokens_of_this_run(struct swarm *swarm)
{
    int64_t tokens = 0;
    for (size_t i = 0; i < swarm->figures.donor_count; i++) {
        const struct skep_donor_figures *donor = &swarm->figures.donors[i].donor;
        swarm->figures.classifier = swarm->figures.classifier || donor->records;
        if (swarm->tokens_before[i] < 0 && donor->known) {
            swarm->tokens_before[i] = donor->tokens;
        }
        if (swarm->tokens_before[i] >= 0 && donor->tokens > swarm->tokens_before[i]) {
            tokens += donor->tokens - swarm->tokens_before[i];
        }
    }
    return (uint64_t)tokens;
}

static void tick_running(struct swarm *swarm, uint64_t now)
{
    swarm->figures.elapsed_s = (double)(now - swarm->started_ms) / 1000;
    swarm->figures.left_s =
        swarm->options.minutes > 0 ? swarm->options.minutes * 60 - swarm->figures.elapsed_s : -1;
    struct skep_swarm_totals totals = skep_swarm_sum(&swarm->figures);
    uint64_t tokens = tokens_of_this_run(swarm);
    if (swarm->options.minutes > 0 && swarm->figures.left_s <= 0) {
        drain(swarm, "time is up");
    } else if (swarm->options.tokens > 0 && tokens >= swarm->options.tokens) {
        drain(swarm, "enough tokens");
    } else if (swarm->tool == NULL && totals.round > 0 &&
               now - swarm->sampled_ms > SAMPLE_PERIOD_MS) {
        swarm->sampled_ms = now;
        run_eval(swarm, swarm->figures.classifier ? SAMPLE_RECORD_BYTES : SAMPLE_BYTES, on_sampled);
    }
}

/* Over when no donor runs, all keepers are in one state, and that has been so since the last look. */
static void tick_draining(struct swarm *swarm, uint64_t waited_ms)
{
    struct skep_swarm_totals totals = skep_swarm_sum(&swarm->figures);
    bool donors_gone = skep_swarm_running(swarm->members, false) == 0;
    int64_t waiting = 0;
    for (size_t i = 0; i < swarm->figures.keeper_count; i++) {
        waiting += swarm->figures.keepers[i].keeper.waiting;
    }
    bool agreed = totals.keepers_agree == swarm->figures.keeper_count && waiting == 0;
    bool settled = donors_gone && agreed && waited_ms > 3000;
    if (swarm->tool == NULL && (settled || waited_ms > DRAIN_LIMIT_MS)) {
        enter(swarm, MEASURING);
        run_eval(swarm, NULL, on_measured);
    }
}

static void on_tick(void *user)
{
    struct swarm *swarm = user;
    uint64_t now = skep_loop_now_ms(swarm->loop);
    uint64_t waited_ms = now - swarm->phase_ms;
    if (swarm->phase != STOPPING) {
        skep_swarm_members_tick(swarm->members);
    }
    switch (swarm->phase) {
    case STARTING:
        tick_starting(swarm, waited_ms);
        break;
    case RUNNING:
        tick_running(swarm, now);
        break;
    case DRAINING:
        tick_draining(swarm, waited_ms);
        break;
    case STOPPING:
        if ((skep_swarm_running(swarm->members, true) == 0 &&
             skep_swarm_running(swarm->members, false) == 0) ||
            waited_ms > STOP_LIMIT_MS) {
            enter(swarm, FINISHED);
            skep_loop_stop(swarm->loop);
        }
        break;
    case MEASURING:
        if (waited_ms > MEASURE_LIMIT_MS && swarm->tool != NULL) {
            skep_process_signal(swarm->tool, SIGKILL); /* its end is heard as a failure */
        }
        break;
    case PUBLISHING:
    case FINISHED:
        break;
    }
    if (swarm->phase < STOPPING) { /* what ends shows nothing new */
        skep_swarm_view_show(swarm->view, &swarm->figures);
    }
}

static void on_signal(void *user, int number)
{
    struct swarm *swarm = user;
    if (swarm->phase == RUNNING && number != SIGHUP) {
        drain(swarm, "stopping (Ctrl-C again skips the measuring)");
    } else if (swarm->phase < STOPPING) {
        skep_swarm_stop_donors(swarm->members);
        skep_swarm_stop_keepers(swarm->members);
        enter(swarm, STOPPING);
    }
}

/* Whoever started us with nohup wants us to outlive the terminal. */
static bool is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

/* DIR/project: the project's id and, on a line of its own, how many keepers its manifest names. With fewer a version may never find
 * its majority; more would stand idle. */
static int read_project(struct swarm *swarm, const char *path, struct skep_error *err)
{
    struct skep_buffer text = {0};
    int result = skep_file_read(path, 200, &text, err);
    if (result != SKEP_OK) {
        return result;
    }
    skep_buffer_append_u8(&text, 0);
    unsigned keepers = 0;
    int found = sscanf((const char *)text.data, "%64s %u", swarm->project, &keepers);
    skep_buffer_done(&text);
    if (found == 2 && keepers != swarm->options.keepers) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "--keepers is %u, but the project in %s has %u; start it with "
                              "--keepers %u or choose another --dir",
                              swarm->options.keepers, swarm->options.dir, keepers, keepers);
    }
    return SKEP_OK;
}

static int swarm_open(struct swarm *swarm, struct skep_error *err)
{
    char *lock = skep_format("%s/lock", swarm->options.dir);
    char *project = skep_format("%s/project", swarm->options.dir);
    int result = skep_folder_make(swarm->options.dir, err);
    if (result == SKEP_OK) {
        result = skep_lock_take(lock, "skep swarm", &swarm->lock, err);
    }
    if (result == SKEP_OK && skep_file_exists(project)) {
        result = read_project(swarm, project, err);
    } else if (result == SKEP_OK && swarm->options.data == NULL && swarm->options.task == NULL) {
        result =
            skep_error_set(err, SKEP_ERR_ARGUMENT,
                           "--data is missing: %s holds no project yet, name a text to train on",
                           swarm->options.dir);
    } else if (result == SKEP_OK && swarm->options.data != NULL &&
               skep_file_size(swarm->options.data) < 0) {
        result = skep_error_set(err, SKEP_ERR_NOT_FOUND, "--data %s cannot be read",
                                swarm->options.data);
    } else if (result == SKEP_OK && swarm->options.data != NULL) {
        /* Task files name data relative to themselves. */
        swarm->data_path = realpath(swarm->options.data, NULL);
        swarm->options.data = swarm->data_path;
    }
    free(lock);
    free(project);
    return result;
}

static void print_result(const struct swarm *swarm)
{
    struct skep_swarm_totals totals = skep_swarm_sum(&swarm->figures);
    char heldout[16] = "-";
    if (swarm->measured) {
        snprintf(heldout, sizeof heldout, "%.4f", swarm->heldout);
    }
    printf("%s=%s rounds=%lld merged=%lld donors=%lld keepers_agree=%zu/%zu\n",
           swarm->figures.classifier ? "accuracy" : "bits_per_byte", heldout,
           (long long)totals.round, (long long)totals.merged, (long long)totals.donors,
           totals.keepers_agree, swarm->figures.keeper_count);
    fflush(stdout);
}

static int run(struct swarm *swarm)
{
    struct skep_error err = {0};
    swarm->loop = skep_loop_new();
    swarm->timer = skep_timer_new(swarm->loop, on_tick, swarm);
    swarm->view = skep_swarm_view_open(swarm->options.plain);
    swarm->figures.project = swarm->project;
    swarm->figures.left_s = -1;
    swarm->members =
        skep_swarm_members_new(swarm->loop, &swarm->options, &swarm->figures, on_event, swarm);
    skep_loop_on_signal(swarm->loop, SIGINT, on_signal, swarm);
    skep_loop_on_signal(swarm->loop, SIGTERM, on_signal, swarm);
    if (!is_ignored(SIGHUP)) {
        skep_loop_on_signal(swarm->loop, SIGHUP, on_signal, swarm);
    }
    enter(swarm, STARTING);
    skep_swarm_view_event(swarm->view, "%u keepers start in %s", swarm->options.keepers,
                          swarm->options.dir);
    if (swarm->project[0] != '\0') {
        skep_swarm_view_event(swarm->view,
                              "its project goes on; no text or task file is read again");
    }
    if (skep_swarm_start_keepers(swarm->members, &err) != SKEP_OK) {
        give_up(swarm, err.text, skep_err_exit_status(err.code));
    }
    skep_timer_start(swarm->timer, TICK_MS, TICK_MS);
    skep_loop_run(swarm->loop);
    for (size_t i = 0; i < swarm->figures.keeper_count; i++) {
        swarm->figures.keepers[i].running = swarm->figures.keepers[i].keeper.known;
    }
    skep_swarm_view_close(swarm->view);
    skep_process_free(swarm->tool);
    skep_swarm_members_free(swarm->members);
    skep_timer_free(swarm->timer);
    skep_loop_free(swarm->loop);
    return swarm->status;
}

int skep_swarm_main(int argc, char **argv)
{
    static struct swarm swarm;
    struct skep_error err = {0};
    int result = skep_swarm_options_parse(argc - 1, argv + 1, &swarm.options, &err);
    if (result == SKEP_OK && swarm.options.help) {
        fputs(skep_swarm_usage(), stdout);
        return 0;
    }
    if (result == SKEP_OK) {
        result = swarm_open(&swarm, &err);
    }
    if (result != SKEP_OK) {
        fprintf(stderr, "skep swarm: %s\n", err.text);
        return skep_err_exit_status(err.code);
    }
    int status = run(&swarm);
    print_result(&swarm);
    free(swarm.data_path);
    return status;
}
