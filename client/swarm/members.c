#include "client/swarm/members.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/sys/file.h"
#include "common/sys/ipc.h"

#define ASK_TIMEOUT_MS 900u

struct skep_swarm_members {
    struct skep_loop *loop;
    struct skep_http_client *http;
    struct skep_swarm_figures *figures;
    skep_swarm_event event;
    void *user;
    char *project;
    size_t keeper_count;
    size_t donor_count;
    struct skep_swarm_member keepers[SKEP_SWARM_MOST_KEEPERS];
    struct skep_swarm_member donors[SKEP_SWARM_MOST_DONORS];
};

static struct skep_swarm_row *row_of(const struct skep_swarm_member *member)
{
    struct skep_swarm_figures *figures = member->members->figures;
    return member->is_keeper ? &figures->keepers[member->number - 1]
                             : &figures->donors[member->number - 1];
}

static void member_init(struct skep_swarm_members *members, struct skep_swarm_member *member,
                        bool is_keeper, unsigned number, const char *dir)
{
    /* The swarm's folder picks the loopback network, so that two swarms on one machine do not meet. */
    struct skep_rng rng = skep_rng_of_bytes(dir, strlen(dir));
    unsigned a = 64 + (unsigned)skep_rng_below(&rng, 64);
    unsigned b = (unsigned)skep_rng_below(&rng, 250);
    member->members = members;
    member->is_keeper = is_keeper;
    member->number = number;
    member->dir = skep_format("%s/%s-%u", dir, is_keeper ? "keeper" : "donor", number);
    snprintf(member->host, sizeof member->host, "127.%u.%u.%u", a, b,
             (is_keeper ? 0 : 100) + number);
    struct skep_swarm_row *row = row_of(member);
    snprintf(row->name, sizeof row->name, "%s %u", is_keeper ? "keeper" : "donor", number);
}

struct skep_swarm_members *skep_swarm_members_new(struct skep_loop *loop,
                                                  const struct skep_swarm_options *options,
                                                  struct skep_swarm_figures *figures,
                                                  skep_swarm_event event, void *user)
{
    struct skep_swarm_members *members = skep_alloc(1, sizeof *members);
    members->loop = loop;
    members->http = skep_http_client_new(loop, 32);
    members->figures = figures;
    members->event = event;
    members->user = user;
    members->keeper_count = options->keepers;
    members->donor_count = options->donors;
    figures->keeper_count = options->keepers;
    figures->donor_count = options->donors;
    for (unsigned i = 0; i < options->keepers; i++) {
        member_init(members, &members->keepers[i], true, i + 1, options->dir);
    }
    for (unsigned i = 0; i < options->donors; i++) {
        member_init(members, &members->donors[i], false, i + 1, options->dir);
    }
    return members;
}

static void member_done(struct skep_swarm_member *member)
{
    skep_process_free(member->process);
    free(member->dir);
}

void skep_swarm_members_free(struct skep_swarm_members *members)
{
    if (members == NULL) {
        return;
    }
    skep_http_client_free(members->http);
    for (size_t i = 0; i < members->donor_count; i++) {
        member_done(&members->donors[i]);
    }
    for (size_t i = 0; i < members->keeper_count; i++) {
        member_done(&members->keepers[i]);
    }
    free(members->project);
    free(members);
}

static void tell(const struct skep_swarm_members *members, char *take_sentence)
{
    members->event(members->user, take_sentence);
    free(take_sentence);
}

static void on_line(void *user, const char *line)
{
    struct skep_swarm_member *member = user;
    if (strstr(line, " listening on ") != NULL) {
        member->ready = true;
    }
}

static void on_exit_of_member(void *user, int status)
{
    struct skep_swarm_member *member = user;
    skep_process_free(member->process);
    member->process = NULL;
    member->ready = false;
    member->died_ms = skep_loop_now_ms(member->members->loop);
    struct skep_swarm_row *row = row_of(member);
    row->running = false;
    if (!member->wanted) {
        return;
    }
    if (status < 0) {
        tell(member->members, skep_format("%s was ended by signal %d; it starts again in %d s",
                                          row->name, -status, SKEP_SWARM_RESTART_MS / 1000));
    } else {
        tell(member->members,
             skep_format("%s ended with status %d (its log: %s/log); it starts again in %d s",
                         row->name, status, member->dir, SKEP_SWARM_RESTART_MS / 1000));
    }
}

static int start(struct skep_swarm_member *member, const char *const *arguments,
                 struct skep_error *err)
{
    int result = skep_folder_make(member->dir, err);
    if (result != SKEP_OK) {
        return result;
    }
    char *log = skep_format("%s/log", member->dir);
    struct skep_process_options options = {
        .arguments = arguments,
        .stderr_path = log,
        .apart = true,
        .on_line = on_line,
        .on_exit = on_exit_of_member,
        .user = member,
    };
    member->ready = false;
    result = skep_process_start(member->members->loop, &options, &member->process, err);
    free(log);
    if (result == SKEP_OK) {
        member->wanted = true;
        struct skep_swarm_row *row = row_of(member);
        row->running = true;
        row->keeper.known = false;
        row->donor.known = false;
    }
    return result;
}

/* The DHT node of keeper `i`: by default one port after its HTTPS port. */
static void dht_address(const struct skep_swarm_members *members, size_t i, char to[32])
{
    snprintf(to, 32, "%s:%u", members->keepers[i].host, SKEP_SWARM_PORT + 1);
}

static int start_keeper(struct skep_swarm_member *member, struct skep_error *err)
{
    const struct skep_swarm_members *members = member->members;
    char *program = skep_process_find("skep-keeper");
    char *listen = skep_format("%s:%u", member->host, SKEP_SWARM_PORT);
    const char *arguments[8 + 2 * SKEP_SWARM_MOST_KEEPERS + 3] = {program, "--dir", member->dir,
                                                                  "--listen", listen};
    size_t count = 5;
    /* Any other keeper will do to enter the DHT; the first has nobody before it, and after a restart somebody behind. */
    char entry[32];
    dht_address(members, member->number == 1 ? 1 : 0, entry);
    if (members->keeper_count > 1) {
        arguments[count++] = "--bootstrap";
        arguments[count++] = entry;
    }
    char peers[SKEP_SWARM_MOST_KEEPERS][32];
    for (size_t i = 0; i < members->keeper_count; i++) {
        if (i + 1 != member->number) {
            snprintf(peers[i], sizeof peers[i], "%s", skep_swarm_keeper_address(members, i));
            arguments[count++] = "--peer";
            arguments[count++] = peers[i];
        }
    }
    int result = start(member, arguments, err);
    free(program);
    free(listen);
    return result;
}

static int start_donor(struct skep_swarm_member *member, struct skep_error *err)
{
    const struct skep_swarm_members *members = member->members;
    char *program = skep_process_find("skepd");
    /* Donors know one DHT node of the swarm each, a different one: any must do. A keeper that is alone has no other node to announce
     * itself to, so its own address is what they get. */
    char first[32];
    if (members->keeper_count > 1) {
        dht_address(members, (member->number - 1) % members->keeper_count, first);
    } else {
        snprintf(first, sizeof first, "%s", skep_swarm_keeper_address(members, 0));
    }
    const char *const arguments[] = {program,          "--dir",       member->dir, "--listen-host",
                                     member->host,     "--bootstrap", first,       "--attach",
                                     members->project, NULL};
    int result = start(member, arguments, err);
    free(program);
    return result;
}

int skep_swarm_start_keepers(struct skep_swarm_members *members, struct skep_error *err)
{
    for (size_t i = 0; i < members->keeper_count; i++) {
        int result = start_keeper(&members->keepers[i], err);
        if (result != SKEP_OK) {
            return result;
        }
    }
    return SKEP_OK;
}

int skep_swarm_start_donors(struct skep_swarm_members *members, const char *project,
                            struct skep_error *err)
{
    free(members->project);
    members->project = skep_strdup(project);
    for (size_t i = 0; i < members->donor_count; i++) {
        int result = start_donor(&members->donors[i], err);
        if (result != SKEP_OK) {
            return result;
        }
    }
    return SKEP_OK;
}

static void stop_all(struct skep_swarm_member *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        all[i].wanted = false;
        if (all[i].process != NULL) {
            skep_process_signal(all[i].process, SIGTERM);
        }
    }
}

void skep_swarm_stop_donors(struct skep_swarm_members *members)
{
    stop_all(members->donors, members->donor_count);
}

void skep_swarm_stop_keepers(struct skep_swarm_members *members)
{
    stop_all(members->keepers, members->keeper_count);
}

bool skep_swarm_keepers_ready(const struct skep_swarm_members *members)
{
    for (size_t i = 0; i < members->keeper_count; i++) {
        if (!members->keepers[i].ready) {
            return false;
        }
    }
    return true;
}

size_t skep_swarm_running(const struct skep_swarm_members *members, bool keepers)
{
    const struct skep_swarm_member *all = keepers ? members->keepers : members->donors;
    size_t count = 0;
    for (size_t i = 0; i < (keepers ? members->keeper_count : members->donor_count); i++) {
        count += all[i].process != NULL;
    }
    return count;
}

const char *skep_swarm_keeper_address(const struct skep_swarm_members *members, size_t i)
{
    static char ring[8][32];
    static unsigned next;
    char *text = ring[next++ % 8];
    snprintf(text, sizeof ring[0], "%s:%u", members->keepers[i].host, SKEP_SWARM_PORT);
    return text;
}

static void on_keeper_status(void *user, int result, const struct skep_http_answer *answer,
                             const struct skep_error *err)
{
    (void)err;
    if (result == SKEP_ERR_CANCELLED) {
        return;
    }
    struct skep_swarm_member *member = user;
    member->asked = false;
    if (result == SKEP_OK && answer->status == 200) {
        skep_keeper_figures_read(answer->body.data, answer->body.size, &row_of(member)->keeper,
                                 NULL);
    }
}

static void ask_keeper(struct skep_swarm_member *member)
{
    struct skep_http_request request = {
        .method = "GET",
        .host = member->host,
        .port = SKEP_SWARM_PORT,
        .path = "/v1/status",
        .timeout_ms = ASK_TIMEOUT_MS * (uint64_t)3,
    };
    member->asked = true;
    skep_http_send(member->members->http, &request, on_keeper_status, member);
}

/* A donor's answer on its way from the helper thread. */
struct donor_question {
    struct skep_swarm_member *member;
    char *path;
    struct skep_buffer answer;
    int result;
};

static void ask_donor_work(void *user)
{
    struct donor_question *question = user;
    question->result = skep_ipc_call(question->path, "{\"op\":\"status\"}", ASK_TIMEOUT_MS,
                                     &question->answer, NULL);
}

static void ask_donor_done(void *user)
{
    struct donor_question *question = user;
    question->member->asked = false;
    if (question->result == SKEP_OK) {
        skep_donor_figures_read(question->answer.data, question->answer.size,
                                &row_of(question->member)->donor, NULL);
    }
    skep_buffer_done(&question->answer);
    free(question->path);
    free(question);
}

static void ask_donor(struct skep_swarm_member *member)
{
    struct donor_question *question = skep_alloc(1, sizeof *question);
    question->member = member;
    question->path = skep_format("%s/control.sock", member->dir);
    member->asked = true;
    skep_loop_work(member->members->loop, ask_donor_work, ask_donor_done, question);
}

static void tick(struct skep_swarm_member *member)
{
    struct skep_swarm_members *members = member->members;
    if (member->process == NULL) {
        uint64_t now = skep_loop_now_ms(members->loop);
        if (member->wanted && now - member->died_ms >= SKEP_SWARM_RESTART_MS) {
            struct skep_error err = {0};
            int result = member->is_keeper ? start_keeper(member, &err) : start_donor(member, &err);
            if (result != SKEP_OK) {
                member->died_ms = now;
                tell(members, skep_format("%s did not start: %s", row_of(member)->name, err.text));
            }
        }
    } else if (!member->asked && member->is_keeper) {
        ask_keeper(member);
    } else if (!member->asked) {
        ask_donor(member);
    }
}

void skep_swarm_members_tick(struct skep_swarm_members *members)
{
    for (size_t i = 0; i < members->keeper_count; i++) {
        tick(&members->keepers[i]);
    }
    for (size_t i = 0; i < members->donor_count; i++) {
        tick(&members->donors[i]);
    }
}
