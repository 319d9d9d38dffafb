#include "client/agent/showing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/sys/clock.h"
#include "common/sys/file.h"

#define SOON_MS 250u
#define ASK_TIMEOUT_MS 10000u
#define SEND_TIMEOUT_MS 120000u
#define WANTED 512u                        /* in one answer */
#define ROUNDS (SKEP_SHOWING_VERSIONS + 1) /* in which a job is drawn, and one to spare */

struct skep_showing {
    struct skep_session *session;
    char *folder;
    struct skep_timer *timer;
    struct skep_peer_id donor;
    bool has_donor;
    bool has_jobs; /* in the folder */
    bool busy;
    size_t keeper;         /* that is asked */
    uint64_t now_ms;       /* of the last step */
    uint64_t next_ms;      /* when keepers are asked */
    uint64_t until_ms;     /* and not later than this */
    struct skep_hash sent; /* last: a keeper that still wants it did not take it */
    size_t sends;          /* to this keeper in this pass */
};

static void ask(struct skep_showing *showing);

/* ---- the time ---- */

/* Steps may be far apart; those of tests may be ahead of the clock. */
static uint64_t now_of(const struct skep_showing *showing)
{
    uint64_t now_ms = skep_clock_monotonic_ms();
    return now_ms > showing->now_ms ? now_ms : showing->now_ms;
}

uint64_t skep_showing_due(const struct skep_showing *showing)
{
    bool idle = !showing->session->manifest.trust.audits || !showing->has_donor ||
                !showing->has_jobs || showing->busy;
    return idle || showing->next_ms > showing->until_ms ? UINT64_MAX : showing->next_ms;
}

static void set_timer(struct skep_showing *showing)
{
    uint64_t now_ms = now_of(showing);
    uint64_t due_ms = skep_showing_due(showing);
    if (due_ms == UINT64_MAX) {
        skep_timer_stop(showing->timer);
    } else {
        skep_timer_start(showing->timer, due_ms > now_ms ? due_ms - now_ms : 0, 0);
    }
}

/* There is something that keepers may want from now on. */
static void prolong(struct skep_showing *showing)
{
    showing->until_ms = now_of(showing) + SKEP_SHOWING_FOR_MS +
                        (uint64_t)ROUNDS * showing->session->manifest.merge.window_ms;
}

/* ---- the files ---- */

static char *path_of(const char *folder, const struct skep_hash *history, const char *what)
{
    return skep_format("%s/%s.%s", folder, skep_id_text(history->bytes), what);
}

static void hold(const char *from, const char *to)
{
    if (link(from, to) != 0 && errno != EEXIST && errno != ENOENT) {
        skep_log(SKEP_LOG_WARNING, "cannot keep %s to show it: %s", from, strerror(errno));
    }
}

void skep_showing_keep(struct skep_showing *showing, uint64_t trunk_version,
                       const struct skep_hash *ticket, const struct skep_hash *history,
                       const char *moments_path, const char *residual_path)
{
    struct skep_error err = {0};
    if (!showing->session->manifest.trust.audits) {
        return;
    }
    char *folder = skep_format("%s/%020llu-%.16s", showing->folder,
                               (unsigned long long)trunk_version, skep_id_text(ticket->bytes));
    if (skep_folder_make(folder, &err) == 0) {
        char *moments = path_of(folder, history, "moments");
        char *residual = path_of(folder, history, "residual");
        hold(moments_path, moments);
        hold(residual_path, residual);
        showing->has_jobs = true;
        prolong(showing);
        set_timer(showing);
        free(moments);
        free(residual);
    } else {
        skep_log(SKEP_LOG_WARNING, "%s", err.text);
    }
    free(folder);
}

/* Names in the folder, in order: the oldest job first. */
struct jobs {
    char **names;
    size_t count;
};

static void add_job(void *user, const char *name)
{
    struct jobs *jobs = user;
    jobs->names = skep_realloc(jobs->names, jobs->count + 1, sizeof *jobs->names);
    jobs->names[jobs->count++] = skep_strdup(name);
}

static struct jobs list_jobs(const struct skep_showing *showing)
{
    struct jobs jobs = {0};
    (void)skep_folder_list(showing->folder, add_job, &jobs, NULL);
    return jobs;
}

static void jobs_done(struct jobs *jobs)
{
    for (size_t i = 0; i < jobs->count; i++) {
        free(jobs->names[i]);
    }
    free(jobs->names);
}

void skep_showing_prune(struct skep_showing *showing)
{
    struct jobs jobs = list_jobs(showing);
    for (size_t i = 0; i + SKEP_SHOWING_JOBS < jobs.count; i++) {
        struct skep_error err = {0};
        char *path = skep_format("%s/%s", showing->folder, jobs.names[i]);
        if (skep_folder_remove(path, &err) != 0) {
            skep_log(SKEP_LOG_WARNING, "%s", err.text);
        }
        free(path);
    }
    jobs_done(&jobs);
}

/* A history as it goes over the wire. */
static int read_history(const struct skep_showing *showing, const struct skep_hash *history,
                        struct skep_buffer *ret_bytes, struct skep_error *err)
{
    struct jobs jobs = list_jobs(showing);
    int rc = skep_error_set(err, SKEP_ERR_NOT_FOUND, "history %.16s is not kept any more",
                            skep_id_text(history->bytes));
    for (size_t i = jobs.count; i > 0 && rc != 0; i--) {
        struct skep_buffer residual = {0};
        char *folder = skep_format("%s/%s", showing->folder, jobs.names[i - 1]);
        char *first = path_of(folder, history, "moments");
        char *second = path_of(folder, history, "residual");
        if (skep_file_exists(first) && skep_file_exists(second)) {
            rc = skep_file_read(first, SKEP_LIMIT_HTTP_BODY, ret_bytes, err);
            if (rc == 0) {
                rc = skep_file_read(second, SKEP_LIMIT_HTTP_BODY, &residual, err);
            }
            skep_buffer_append(ret_bytes, residual.data, rc == 0 ? residual.size : 0);
            skep_buffer_done(&residual);
        }
        free(folder);
        free(first);
        free(second);
    }
    jobs_done(&jobs);
    if (rc == 0 && ret_bytes->size > SKEP_LIMIT_HTTP_BODY) {
        rc = skep_error_set(err, SKEP_ERR_TOO_LARGE,
                            "history %.16s has %zu bytes; no more than %u can be sent",
                            skep_id_text(history->bytes), ret_bytes->size, SKEP_LIMIT_HTTP_BODY);
    }
    return rc;
}

/* ---- the keepers ---- */

static const struct skep_record *record_of(const struct skep_showing *showing)
{
    const struct skep_manifest *manifest = &showing->session->manifest;
    return skep_peers_find_keeper(showing->session->peers, &manifest->keepers[showing->keeper]);
}

static void go_on(struct skep_showing *showing)
{
    showing->keeper++;
    showing->sends = 0;
    memset(&showing->sent, 0, sizeof showing->sent);
    ask(showing);
}

static void on_sent(void *user, int result, const struct skep_http_answer *answer,
                    const struct skep_error *failure)
{
    struct skep_showing *showing = user;
    struct skep_error err = {0};
    if (showing->session->closing) {
        return;
    }
    if (skep_answer_check(result, answer, failure, "history", &err) != 0) {
        skep_log(SKEP_LOG_INFO, "a keeper did not take what it asked for: %s", err.text);
        go_on(showing);
    } else {
        ask(showing); /* what else it wants */
    }
}

static int send_history(struct skep_showing *showing, const struct skep_hash *history,
                        struct skep_error *err)
{
    struct skep_session *session = showing->session;
    const struct skep_record *record = record_of(showing);
    struct skep_buffer bytes = {0};
    if (record == NULL) {
        return skep_error_set(err, SKEP_ERR_NETWORK, "the keeper is gone");
    }
    int rc = read_history(showing, history, &bytes, err);
    if (rc == 0) {
        char *path = skep_format("/v1/evidence/%s", skep_id_text(history->bytes));
        struct skep_http_request request = {.method = "PUT",
                                            .host = record->host,
                                            .port = record->port,
                                            .path = path,
                                            .pin = &record->tls_pin,
                                            .content_type = "application/octet-stream",
                                            .body = bytes.data,
                                            .body_size = bytes.size,
                                            .timeout_ms = SEND_TIMEOUT_MS};
        showing->sent = *history;
        session->transport.send(session->transport.user, &request, on_sent, showing);
        free(path);
    }
    skep_buffer_done(&bytes);
    return rc;
}

/* Sends the first of the list that is here; false if there is none. */
static bool send_one(struct skep_showing *showing, const struct skep_json *list)
{
    for (size_t i = 0; i < skep_json_array_size(list) && showing->sends < SKEP_SHOWING_SENDS; i++) {
        struct skep_hash history;
        struct skep_error err = {0};
        if (skep_json_get_hex(skep_json_array_at(list, i), "evidence", "history", history.bytes,
                              sizeof history.bytes, &err) != 0 ||
            skep_hash_equal(&history, &showing->sent)) {
            continue;
        }
        showing->sends++;
        if (send_history(showing, &history, &err) == 0) {
            prolong(showing);
            return true;
        }
        skep_log(SKEP_LOG_INFO, "a keeper asks in vain: %s", err.text);
    }
    return false;
}

static void on_wanted(void *user, int result, const struct skep_http_answer *answer,
                      const struct skep_error *failure)
{
    struct skep_showing *showing = user;
    struct skep_json *root = NULL;
    const struct skep_json *list = NULL;
    struct skep_error err = {0};
    if (showing->session->closing) {
        return;
    }
    int rc = skep_answer_json(result, answer, failure, "evidence", &root, &err);
    if (rc == 0) {
        rc = skep_json_get_array(root, "evidence", "wanted", WANTED, &list, &err);
    }
    bool sending = rc == 0 && send_one(showing, list);
    skep_json_free(root);
    if (!sending) {
        go_on(showing);
    }
}

/* The next keeper that is there; ends the pass after the last. */
static void ask(struct skep_showing *showing)
{
    struct skep_session *session = showing->session;
    const struct skep_manifest *manifest = &session->manifest;
    const struct skep_record *record = NULL;
    while (showing->keeper < manifest->keeper_count && (record = record_of(showing)) == NULL) {
        showing->keeper++;
    }
    if (record == NULL) {
        showing->busy = false;
        set_timer(showing);
        return;
    }
    char *path =
        skep_format("/v1/projects/%s/evidence?donor=%s", skep_id_text(session->project.bytes),
                    skep_id_text(showing->donor.bytes));
    struct skep_http_request request = {.method = "GET",
                                        .host = record->host,
                                        .port = record->port,
                                        .path = path,
                                        .pin = &record->tls_pin,
                                        .timeout_ms = ASK_TIMEOUT_MS};
    session->transport.send(session->transport.user, &request, on_wanted, showing);
    free(path);
}

void skep_showing_introduce(struct skep_showing *showing, const struct skep_peer_id *donor)
{
    showing->donor = *donor;
    showing->has_donor = true;
    set_timer(showing);
}

void skep_showing_hurry(struct skep_showing *showing)
{
    uint64_t soon = now_of(showing) + SOON_MS;
    showing->next_ms = showing->next_ms < soon ? showing->next_ms : soon;
    prolong(showing);
    set_timer(showing);
}

void skep_showing_step(struct skep_showing *showing, uint64_t now_ms)
{
    showing->now_ms = now_ms;
    if (now_ms < skep_showing_due(showing)) {
        set_timer(showing);
        return;
    }
    showing->busy = true;
    showing->next_ms = now_ms + SKEP_SHOWING_MS;
    showing->keeper = 0;
    showing->sends = 0;
    memset(&showing->sent, 0, sizeof showing->sent);
    ask(showing);
}

static void on_tick(void *user)
{
    skep_showing_step(user, skep_clock_monotonic_ms());
}

int skep_showing_new(struct skep_session *session, struct skep_showing **ret_showing,
                     struct skep_error *err)
{
    struct skep_showing *showing = skep_alloc(1, sizeof *showing);
    showing->session = session;
    showing->folder = skep_format("%s/evidence", session->folder);
    showing->now_ms = skep_clock_monotonic_ms();
    showing->timer = skep_timer_new(session->loop, on_tick, showing);
    int rc = skep_folder_make(showing->folder, err);
    if (rc != 0) {
        skep_showing_free(showing);
        return rc;
    }
    struct jobs jobs = list_jobs(showing); /* of the last run */
    showing->has_jobs = jobs.count > 0;
    jobs_done(&jobs);
    prolong(showing);
    *ret_showing = showing;
    return 0;
}

void skep_showing_free(struct skep_showing *showing)
{
    if (showing != NULL) {
        skep_timer_free(showing->timer);
        free(showing->folder);
        free(showing);
    }
}
