#include "common/sys/loop.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <uv.h>

#include "common/base/alloc.h"
#include "common/sys/loop-internal.h"

struct skep_loop {
    uv_loop_t uv;
    uv_async_t awake;  /* keeps uv_run() waiting when nothing else does */
    uv_timer_t limit;  /* of skep_loop_run_until() */
    uv_prepare_t look; /* the same: looks at the flag before each wait */
    bool stopped;
};

/* Handles stand first in their structs, so that closing can free either by the handle's address. */
struct skep_timer {
    uv_timer_t uv;
    skep_loop_callback callback;
    void *user;
};

struct skep_async {
    uv_async_t uv;
    skep_loop_callback callback;
    void *user;
};

struct signal_watch {
    uv_signal_t uv;
    skep_signal_callback callback;
    void *user;
};

struct work {
    uv_work_t uv;
    skep_loop_callback work;
    skep_loop_callback done;
    void *user;
};

static void on_closed_free(uv_handle_t *handle)
{
    free(handle);
}

static void on_awake(uv_async_t *async)
{
    (void)async;
}

void *skep_loop_uv(struct skep_loop *loop)
{
    return &loop->uv;
}

struct skep_loop *skep_loop_new(void)
{
    /* A peer that hangs up and a file that grows too large are errors of a call, not the end of the program. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    struct skep_loop *loop = skep_alloc(1, sizeof *loop);
    int bad = uv_loop_init(&loop->uv) || uv_async_init(&loop->uv, &loop->awake, on_awake) ||
              uv_timer_init(&loop->uv, &loop->limit) || uv_prepare_init(&loop->uv, &loop->look);
    assert(!bad && "no descriptors left for an event loop");
    return loop;
}

static void close_if_ours(uv_handle_t *handle, void *arg)
{
    struct skep_loop *loop = arg;
    if (uv_is_closing(handle)) {
        return;
    }
    if (handle == (uv_handle_t *)&loop->awake || handle == (uv_handle_t *)&loop->limit ||
        handle == (uv_handle_t *)&loop->look) {
        uv_close(handle, NULL);
    } else if (handle->type == UV_TIMER || handle->type == UV_SIGNAL || handle->type == UV_ASYNC) {
        uv_close(handle, on_closed_free);
    } else {
        /* A child that was killed closes itself when its end is seen. */
        assert(handle->type == UV_PROCESS && "a server or client was not closed before its loop");
    }
}

void skep_loop_free(struct skep_loop *loop)
{
    if (loop == NULL) {
        return;
    }
    uv_walk(&loop->uv, close_if_ours, loop);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    int busy = uv_loop_close(&loop->uv);
    assert(busy == 0 && "something on the loop was not closed before it");
    free(loop);
}

void skep_loop_run(struct skep_loop *loop)
{
    while (!loop->stopped) {
        uv_run(&loop->uv, UV_RUN_DEFAULT);
    }
    loop->stopped = false;
}

static void on_limit(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* libuv runs due timers before it waits: a flag that one of them sets must keep it from waiting. */
static void on_look(uv_prepare_t *look)
{
    if (*(const bool *)look->data) {
        uv_stop(look->loop);
    }
}

bool skep_loop_run_until(struct skep_loop *loop, const bool *flag, uint64_t limit_ms)
{
    bool expired = false;
    loop->limit.data = &expired;
    uv_update_time(&loop->uv);
    uv_timer_start(&loop->limit, on_limit, limit_ms, 0);
    loop->look.data = (void *)flag;
    uv_prepare_start(&loop->look, on_look);
    while (!*flag && !expired && !loop->stopped) {
        uv_run(&loop->uv, UV_RUN_ONCE);
    }
    uv_prepare_stop(&loop->look);
    uv_timer_stop(&loop->limit);
    return *flag;
}

void skep_loop_stop(struct skep_loop *loop)
{
    loop->stopped = true;
    uv_stop(&loop->uv);
}

uint64_t skep_loop_now_ms(struct skep_loop *loop)
{
    (void)loop; /* uv_now() is as old as the last wait; callers want the time it is */
    return uv_hrtime() / 1000000;
}

static void on_timer(uv_timer_t *handle)
{
    struct skep_timer *timer = (struct skep_timer *)handle;
    timer->callback(timer->user);
}

struct skep_timer *skep_timer_new(struct skep_loop *loop, skep_loop_callback callback, void *user)
{
    struct skep_timer *timer = skep_alloc(1, sizeof *timer);
    uv_timer_init(&loop->uv, &timer->uv);
    timer->callback = callback;
    timer->user = user;
    return timer;
}

void skep_timer_start(struct skep_timer *timer, uint64_t delay_ms, uint64_t repeat_ms)
{
    /* libuv counts from when the loop last woke: after a long callback a timer would come early. */
    uv_update_time(timer->uv.loop);
    uv_timer_start(&timer->uv, on_timer, delay_ms, repeat_ms);
}

void skep_timer_stop(struct skep_timer *timer)
{
    uv_timer_stop(&timer->uv);
}

void skep_timer_free(struct skep_timer *timer)
{
    if (timer != NULL) {
        uv_close((uv_handle_t *)&timer->uv, on_closed_free);
    }
}

static void on_signal(uv_signal_t *handle, int signal_number)
{
    struct signal_watch *watch = (struct signal_watch *)handle;
    watch->callback(watch->user, signal_number);
}

void skep_loop_on_signal(struct skep_loop *loop, int signal_number, skep_signal_callback callback,
                         void *user)
{
    struct signal_watch *watch = skep_alloc(1, sizeof *watch);
    uv_signal_init(&loop->uv, &watch->uv);
    watch->callback = callback;
    watch->user = user;
    int bad = uv_signal_start(&watch->uv, on_signal, signal_number);
    assert(bad == 0 && "a signal that cannot be caught");
}

static void do_work(uv_work_t *request)
{
    struct work *work = (struct work *)request;
    work->work(work->user);
}

static void after_work(uv_work_t *request, int status)
{
    (void)status; /* never cancelled */
    struct work *work = (struct work *)request;
    work->done(work->user);
    free(work);
}

void skep_loop_work(struct skep_loop *loop, skep_loop_callback work, skep_loop_callback done,
                    void *user)
{
    struct work *request = skep_alloc(1, sizeof *request);
    request->work = work;
    request->done = done;
    request->user = user;
    uv_queue_work(&loop->uv, &request->uv, do_work, after_work);
}

static void on_async(uv_async_t *uv)
{
    struct skep_async *async = (struct skep_async *)uv;
    async->callback(async->user);
}

struct skep_async *skep_async_new(struct skep_loop *loop, skep_loop_callback callback, void *user)
{
    struct skep_async *async = skep_alloc(1, sizeof *async);
    async->callback = callback;
    async->user = user;
    int failed = uv_async_init(&loop->uv, &async->uv, on_async);
    assert(!failed);
    (void)failed;
    return async;
}

void skep_async_send(struct skep_async *async)
{
    uv_async_send(&async->uv);
}

void skep_async_free(struct skep_async *async)
{
    if (async != NULL) {
        uv_close((uv_handle_t *)&async->uv, on_closed_free);
    }
}
