#include "client/agent/stamp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/crypto/scrypt.h"
#include "common/sys/clock.h"
#include "common/sys/file.h"

#define TEXT_MOST 32u
#define RETRY_MS 60000u
#define TRIES_SAID 200u /* between two lines of the log: some ten seconds */

void skep_stamp_load(const char *folder, struct skep_stamp_search *search)
{
    char *path = skep_format("%s/stamp", folder);
    struct skep_buffer text = {0};
    struct skep_error err = {0};
    char *end = NULL;
    if (!search->found && skep_file_exists(path) &&
        skep_file_read(path, TEXT_MOST, &text, &err) == SKEP_OK) {
        skep_buffer_append_u8(&text, 0);
        errno = 0;
        uint64_t nonce = strtoull((const char *)text.data, &end, 10);
        if (errno == 0 && strcmp(end, "\n") == 0 &&
            skep_stamp_check(&search->project, &search->donor, search->bits, nonce, &err) ==
                SKEP_OK) {
            search->nonce = nonce;
            search->found = true;
        } else {
            skep_log(SKEP_LOG_WARNING, "%s holds no stamp of ours: a new one is searched for",
                     path);
        }
    }
    skep_buffer_done(&text);
    free(path);
}

void skep_stamp_save(const char *folder, const struct skep_stamp_search *search)
{
    char *path = skep_format("%s/stamp", folder);
    char *text = skep_format("%llu\n", (unsigned long long)search->nonce);
    struct skep_error err = {0};
    if (skep_file_write(path, 0600, text, strlen(text), &err) != SKEP_OK) {
        skep_log(SKEP_LOG_WARNING, "the stamp is not kept: %s", err.text);
    }
    free(text);
    free(path);
}

struct skep_stamper {
    struct skep_loop *loop;
    char *folder;
    struct skep_stamp_search search; /* the helper's while one is under way */
    struct skep_error err;
    struct skep_timer *timer; /* once memory was wanting */
    uint64_t started_ms;
    bool ready; /* what the search found may be read */
    bool busy;
    bool said; /* that memory is wanting */
    bool closed;
    skep_loop_callback found;
    void *user;
};

static void stamper_free(struct skep_stamper *stamper)
{
    free(stamper->folder);
    free(stamper);
}

static void try_once(void *user)
{
    struct skep_stamper *stamper = user;
    stamper->err = (struct skep_error){0};
    (void)skep_stamp_try(&stamper->search, &stamper->err);
    skep_scrypt_leave();
}

static void go_on(struct skep_stamper *stamper);

void skep_stamper_retry(void *user)
{
    struct skep_stamper *stamper = user;
    if (!stamper->busy && !stamper->ready) {
        go_on(stamper);
    }
}

/* Others may need the memory only for a while. */
static void wait_for_memory(struct skep_stamper *stamper)
{
    if (!stamper->said) {
        skep_log(SKEP_LOG_WARNING, "no stamp can be searched for: %s; it is tried again every %u s",
                 stamper->err.text, RETRY_MS / 1000);
        stamper->said = true;
    }
    if (stamper->timer == NULL) {
        stamper->timer = skep_timer_new(stamper->loop, skep_stamper_retry, stamper);
    }
    skep_timer_start(stamper->timer, RETRY_MS, 0);
}

static void on_tried(void *user)
{
    struct skep_stamper *stamper = user;
    const struct skep_stamp_search *search = &stamper->search;
    stamper->busy = false;
    if (stamper->closed) {
        stamper_free(stamper);
        return;
    }
    if (stamper->err.code != SKEP_OK) {
        wait_for_memory(stamper);
        return;
    }
    stamper->said = false;
    if (!search->found) {
        if (search->tries % TRIES_SAID == 0) {
            skep_log(SKEP_LOG_INFO, "still searching for a stamp after %llu tries",
                     (unsigned long long)search->tries);
        }
        go_on(stamper);
        return;
    }
    skep_log(SKEP_LOG_INFO, "found a stamp for project %.12s after %llu tries in %llu ms",
             skep_id_text(search->project.bytes), (unsigned long long)search->tries,
             (unsigned long long)(skep_clock_monotonic_ms() - stamper->started_ms));
    skep_stamp_save(stamper->folder, search);
    stamper->ready = true;
    stamper->found(stamper->user);
}

static void go_on(struct skep_stamper *stamper)
{
    stamper->busy = true;
    skep_loop_work(stamper->loop, try_once, on_tried, stamper);
}

struct skep_stamper *skep_stamper_open(struct skep_loop *loop, const char *folder,
                                       const struct skep_stamp_search *begun,
                                       skep_loop_callback found, void *user)
{
    struct skep_stamper *stamper = skep_alloc(1, sizeof *stamper);
    stamper->loop = loop;
    stamper->folder = skep_strdup(folder);
    stamper->search = *begun;
    stamper->found = found;
    stamper->user = user;
    stamper->started_ms = skep_clock_monotonic_ms();
    skep_stamp_load(folder, &stamper->search);
    stamper->ready = stamper->search.found;
    if (!stamper->ready) {
        skep_log(SKEP_LOG_INFO,
                 "searching for a stamp for project %.12s: %u zero bits, about %llu tries",
                 skep_id_text(begun->project.bytes), begun->bits, 1ull << begun->bits);
        go_on(stamper);
    }
    return stamper;
}

void skep_stamper_close(struct skep_stamper *stamper)
{
    if (stamper == NULL) {
        return;
    }
    stamper->closed = true;
    skep_timer_free(stamper->timer);
    if (!stamper->busy) {
        stamper_free(stamper);
    }
}

bool skep_stamper_found(const struct skep_stamper *stamper, uint64_t *ret_nonce)
{
    if (stamper == NULL || !stamper->ready) {
        return false;
    }
    *ret_nonce = stamper->search.nonce;
    return true;
}
