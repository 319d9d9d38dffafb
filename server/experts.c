#include "server/experts.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/model/layout.h"
#include "common/sys/loop.h"
#include "server/api/reply.h"
#include "server/host.h"
#include "server/shard.h"

struct runner {
    struct skep_remote *remote;
    pthread_t thread;
    struct skep_remote_desk desk;
};

struct skep_remote {
    struct skep_host *host;
    struct skep_async *wake; /* of the loop */
    struct skep_remote_sessions *sessions;
    size_t bytes; /* bodies and answers of requests under way */

    struct skep_remote_parameters *cache;
    size_t cache_bytes;
    size_t cache_limit;

    size_t runner_count;
    struct runner *runners;
    atomic_bool stop; /* kernels look at it too (tensor/ops.h) */

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t work;
    struct skep_remote_queue queue;
    struct skep_remote_task *done;
};

/* ---- runners ---- */

static struct skep_remote_task *wait_for_batch(struct skep_remote *remote)
{
    struct skep_remote_task *batch = NULL;
    pthread_mutex_lock(&remote->lock);
    while (!atomic_load(&remote->stop) && batch == NULL) {
        batch = skep_remote_queue_take(&remote->queue, remote->host->options.remote_batch);
        if (batch == NULL) {
            pthread_cond_wait(&remote->work, &remote->lock);
        }
    }
    pthread_mutex_unlock(&remote->lock);
    return batch;
}

static void give_back(struct skep_remote *remote, struct skep_remote_task *batch)
{
    struct skep_remote_task *last = batch;
    while (last->next != NULL) {
        last = last->next;
    }
    pthread_mutex_lock(&remote->lock);
    last->next = remote->done;
    remote->done = batch;
    pthread_mutex_unlock(&remote->lock);
    skep_async_send(remote->wake);
}

static void *run(void *user)
{
    struct runner *runner = user;
    struct skep_remote_task *batch = NULL;
    while ((batch = wait_for_batch(runner->remote)) != NULL) {
        skep_remote_desk_run(&runner->desk, batch);
        give_back(runner->remote, batch);
    }
    return NULL;
}

/* ---- the floats of experts ---- */

static void parameters_free(struct skep_remote *remote, struct skep_remote_parameters **link)
{
    struct skep_remote_parameters *parameters = *link;
    assert(parameters->users == 0);
    *link = parameters->next;
    remote->cache_bytes -= parameters->shape->layout.parameters * sizeof(float);
    free(parameters->values);
    free(parameters);
}

/* Drops what this version replaces, and then the longest unused until there is room or all is in use. */
static void cache_make_room(struct skep_remote *remote, const struct skep_shape *shape)
{
    size_t bytes = shape->layout.parameters * sizeof(float);
    for (struct skep_remote_parameters **link = &remote->cache; *link != NULL;) {
        if ((*link)->shape == shape && (*link)->users == 0) {
            parameters_free(remote, link);
        } else {
            link = &(*link)->next;
        }
    }
    while (remote->cache_bytes + bytes > remote->cache_limit) {
        struct skep_remote_parameters **oldest = NULL;
        for (struct skep_remote_parameters **link = &remote->cache; *link != NULL;
             link = &(*link)->next) {
            if ((*link)->users == 0 && (oldest == NULL || (*link)->used_ms < (*oldest)->used_ms)) {
                oldest = link;
            }
        }
        if (oldest == NULL) {
            return;
        }
        parameters_free(remote, oldest);
    }
}

static int load(struct skep_remote *remote, struct skep_kept_shard *shard,
                struct skep_remote_parameters **ret_parameters, struct skep_error *err)
{
    const struct skep_layout *layout = &shard->shape.layout;
    const struct skep_kept_version *head = skep_kept_shard_head(shard);
    size_t bytes = layout->parameters * sizeof(float);
    if (bytes > remote->cache_limit) {
        return skep_error_set(err, SKEP_ERR_FULL,
                              "the weights of %s take %zu bytes; this keeper allows %zu to all "
                              "experts that it computes (--remote-memory)",
                              shard->text, bytes, remote->cache_limit);
    }
    cache_make_room(remote, &shard->shape);
    if (remote->cache_bytes + bytes > remote->cache_limit) {
        return skep_error_set(err, SKEP_ERR_STATE,
                              "there is no room for the weights of %s until others are done; try "
                              "again later",
                              shard->text);
    }
    float *values = calloc(layout->parameters, sizeof *values);
    if (values == NULL) {
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory for the %zu parameters of %s",
                              layout->parameters, shard->text);
    }
    int result = skep_state_read(layout, shard->file.data, shard->file.size, values, err);
    if (result != SKEP_OK) {
        free(values);
        return result;
    }
    struct skep_remote_parameters *parameters = skep_alloc(1, sizeof *parameters);
    *parameters = (struct skep_remote_parameters){.next = remote->cache,
                                                  .shape = &shard->shape,
                                                  .version = head->version,
                                                  .root = head->root,
                                                  .payload = head->payload,
                                                  .values = values};
    remote->cache = parameters;
    remote->cache_bytes += bytes;
    *ret_parameters = parameters;
    return SKEP_OK;
}

static int parameters_of(struct skep_remote *remote, struct skep_kept_shard *shard,
                         struct skep_remote_parameters **ret_parameters, struct skep_error *err)
{
    uint64_t version = skep_kept_shard_head(shard)->version;
    struct skep_remote_parameters *found = remote->cache;
    while (found != NULL && (found->shape != &shard->shape || found->version != version)) {
        found = found->next;
    }
    if (found == NULL) {
        int result = load(remote, shard, &found, err);
        if (result != SKEP_OK) {
            return result;
        }
    }
    assert(found != NULL);
    found->used_ms = skep_remote_now_ms(remote);
    *ret_parameters = found;
    return SKEP_OK;
}

/* ---- requests ---- */

int skep_remote_request_new(struct skep_remote *remote, size_t count,
                            struct skep_remote_request **ret_request, struct skep_error *err)
{
    struct skep_remote_request *request = skep_alloc(1, sizeof *request);
    request->remote = remote;
    request->tasks = calloc(count + 1, sizeof *request->tasks);
    if (request->tasks == NULL) {
        free(request);
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory for a call of %zu experts", count);
    }
    request->count = count;
    for (size_t i = 0; i < count; i++) {
        request->tasks[i].request = request;
    }
    *ret_request = request;
    return SKEP_OK;
}

void skep_remote_request_free(struct skep_remote_request *request)
{
    if (request == NULL) {
        return;
    }
    for (size_t i = 0; i < request->count; i++) {
        struct skep_remote_task *task = &request->tasks[i];
        if (task->parameters != NULL) {
            task->parameters->users--;
        }
        if (task->account != NULL) {
            skep_remote_account_release(task->account, skep_remote_now_ms(request->remote));
        }
        skep_buffer_done(&task->step.body);
    }
    skep_buffer_done(&request->answer);
    free(request->tasks);
    free(request);
}

int skep_remote_request_expert(struct skep_remote_request *request, size_t i,
                               struct skep_kept_shard *shard, struct skep_error *err)
{
    struct skep_remote_parameters *parameters = NULL;
    int result = parameters_of(request->remote, shard, &parameters, err);
    if (result == SKEP_OK) {
        parameters->users++;
        request->tasks[i].parameters = parameters;
    }
    return result;
}

void skep_remote_request_account(struct skep_remote_request *request, size_t i,
                                 struct skep_remote_account *account)
{
    skep_remote_account_hold(account);
    request->tasks[i].account = account;
}

int skep_remote_submit(struct skep_remote_request *request,
                       const struct skep_http_exchange *exchange, struct skep_error *err)
{
    struct skep_remote *remote = request->remote;
    request->bytes = exchange->body_size + request->answer.size;
    bool fits = request->bytes <= SKEP_REMOTE_BYTES - remote->bytes;
    assert(request->count > 0);
    if (fits) {
        pthread_mutex_lock(&remote->lock);
        fits = skep_remote_queue_push(&remote->queue, request->tasks, request->count);
        if (fits) {
            request->left = request->count;
        }
        pthread_mutex_unlock(&remote->lock);
    }
    if (!fits) {
        return skep_error_set(err, SKEP_ERR_STATE,
                              "too many calls of experts wait here; try again later");
    }
    /* The lock is free again: whoever wakes needs it. */
    if (request->count == 1) {
        pthread_cond_signal(&remote->work);
    } else {
        pthread_cond_broadcast(&remote->work);
    }
    remote->bytes += request->bytes;
    request->held = skep_http_hold(exchange);
    return SKEP_OK;
}

/* ---- answers ---- */

static void answer(struct skep_remote_request *request)
{
    struct skep_http_reply reply = {.status = 500};
    const struct skep_remote_task *failed = NULL;
    for (size_t i = 0; i < request->count && failed == NULL; i++) {
        failed = request->tasks[i].result != SKEP_OK ? &request->tasks[i] : NULL;
    }
    if (failed != NULL) {
        bool leaving = failed->err.code == SKEP_ERR_CANCELLED;
        skep_reply_error(&reply, leaving ? 503 : skep_reply_status_of(failed->err.code),
                         &failed->err);
        skep_log(SKEP_LOG_DEBUG, "a call of experts failed: %s", failed->err.text);
    } else {
        request->finish(request, &reply);
    }
    request->remote->bytes -= request->bytes;
    struct skep_http_held *held = request->held;
    skep_remote_request_free(request);
    skep_http_answer(held, &reply);
}

/* On the loop: some tasks were done. */
static void on_wake(void *user)
{
    struct skep_remote *remote = user;
    pthread_mutex_lock(&remote->lock);
    struct skep_remote_task *done = remote->done;
    remote->done = NULL;
    pthread_mutex_unlock(&remote->lock);
    while (done != NULL) {
        struct skep_remote_task *task = done;
        done = done->next; /* the request and its tasks end with its last task */
        if (--task->request->left == 0) {
            answer(task->request);
        }
    }
}

/* ---- opening and closing ---- */

static void init(struct skep_remote *remote, struct skep_host *host)
{
    const struct skep_options *options = &host->options;
    remote->host = host;
    remote->wake = skep_async_new(host->loop, on_wake, remote);
    remote->sessions = skep_remote_sessions_new(options->remote_memory);
    remote->cache_limit = options->remote_memory;
    remote->queue.limit = SKEP_REMOTE_TASKS;
    pthread_mutex_init(&remote->lock, NULL);
    pthread_cond_init(&remote->work, NULL);
    remote->runners = skep_alloc(options->remote_threads, sizeof *remote->runners);
    skep_ops_set_stop(&remote->stop);
}

int skep_remote_open(struct skep_host *host, struct skep_remote **ret_remote,
                     struct skep_error *err)
{
    if (host->options.remote_threads == 0) {
        return SKEP_OK;
    }
    struct skep_remote *remote = skep_alloc(1, sizeof *remote);
    init(remote, host);
    for (unsigned i = 0; i < host->options.remote_threads; i++) {
        struct runner *runner = &remote->runners[i];
        runner->remote = remote;
        runner->desk.ops = skep_ops_cpu();
        int number = pthread_create(&runner->thread, NULL, run, runner);
        if (number != 0) {
            skep_remote_close(remote);
            return skep_error_set(err, skep_err_from_errno(number),
                                  "cannot start thread %u of --remote-threads: %s", i + 1,
                                  strerror(number));
        }
        remote->runner_count++;
    }
    *ret_remote = remote;
    return SKEP_OK;
}

static void fail_task(struct skep_remote_task *task)
{
    task->result =
        skep_error_set(&task->err, SKEP_ERR_CANCELLED, "this keeper is leaving; ask another one");
}

/* Everything that was taken, computed or not, becomes an answer. */
static void fail_waiting(struct skep_remote *remote)
{
    struct skep_remote_task *task = NULL;
    for (task = remote->done; task != NULL; task = task->next) {
        fail_task(task); /* what a runner was stopped in is worth nothing */
    }
    on_wake(remote);
    while ((task = skep_remote_queue_take(&remote->queue, 0)) != NULL) {
        fail_task(task);
        task->next = NULL;
        remote->done = task;
        on_wake(remote);
    }
}

void skep_remote_close(struct skep_remote *remote)
{
    if (remote == NULL) {
        return;
    }
    pthread_mutex_lock(&remote->lock);
    atomic_store(&remote->stop, true);
    pthread_cond_broadcast(&remote->work);
    pthread_mutex_unlock(&remote->lock);
    for (size_t i = 0; i < remote->runner_count; i++) {
        pthread_join(remote->runners[i].thread, NULL);
        skep_remote_desk_done(&remote->runners[i].desk);
    }
    skep_ops_set_stop(NULL);
    fail_waiting(remote);
    while (remote->cache != NULL) {
        parameters_free(remote, &remote->cache);
    }
    skep_remote_sessions_free(remote->sessions);
    skep_async_free(remote->wake);
    pthread_cond_destroy(&remote->work);
    pthread_mutex_destroy(&remote->lock);
    free(remote->runners);
    free(remote);
}

struct skep_remote_sessions *skep_remote_sessions_of(struct skep_remote *remote)
{
    return remote->sessions;
}

uint64_t skep_remote_now_ms(const struct skep_remote *remote)
{
    return skep_loop_now_ms(remote->host->loop);
}

size_t skep_remote_rows_limit(const struct skep_remote *remote)
{
    return remote->host->options.remote_batch;
}
