/*
 * The event loop of every program (libuv): timers, signals and blocking work on helper threads. All callbacks run on the thread
 * that runs the loop, so programs need no locks.
 */
#ifndef SKEP_SYS_LOOP_H
#define SKEP_SYS_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct skep_loop;
struct skep_timer;

typedef void (*skep_loop_callback)(void *user);
typedef void (*skep_signal_callback)(void *user, int signal_number);

/* Also makes the process ignore SIGPIPE and SIGXFSZ: both are seen as errors of the call that met them. */
struct skep_loop *skep_loop_new(void);
/* Closes timers, signals and wake-ups that are still open and frees. Servers, clients and processes must have been closed before by
 * their owners. Work still under way is waited for and its `done` is called, so what that uses must still be there. */
void skep_loop_free(struct skep_loop *loop);
/* Runs until skep_loop_stop(); at once back if that was called since the last run. */
void skep_loop_run(struct skep_loop *loop);
/* Runs until *flag is true or `limit_ms` have passed; true if the flag was set. For programs that wait for one
 * thing. Gives up early when skep_loop_stop() is called (a signal), and the next skep_loop_run() then ends too. */
bool skep_loop_run_until(struct skep_loop *loop, const bool *flag, uint64_t limit_ms);
void skep_loop_stop(struct skep_loop *loop);
/* Monotonic milliseconds. */
uint64_t skep_loop_now_ms(struct skep_loop *loop);

struct skep_timer *skep_timer_new(struct skep_loop *loop, skep_loop_callback callback, void *user);
/* Fires after delay_ms, then every repeat_ms (0: once). Starting again replaces. */
void skep_timer_start(struct skep_timer *timer, uint64_t delay_ms, uint64_t repeat_ms);
void skep_timer_stop(struct skep_timer *timer);
void skep_timer_free(struct skep_timer *timer);

/* Calls back for each arrival of the signal until the loop is freed. */
void skep_loop_on_signal(struct skep_loop *loop, int signal_number, skep_signal_callback callback,
                         void *user);

/* A wake-up from any thread: skep_async_send() may be called by anyone at any time until skep_async_free(), and `callback` then runs
 * on the loop's thread, once for any number of sends that came before it. */
struct skep_async;
struct skep_async *skep_async_new(struct skep_loop *loop, skep_loop_callback callback, void *user);
void skep_async_send(struct skep_async *async);
void skep_async_free(struct skep_async *async);

/* Runs `work` on a helper thread, then `done` on the loop's. `work` must touch nothing that the loop's thread touches. */
void skep_loop_work(struct skep_loop *loop, skep_loop_callback work, skep_loop_callback done,
                    void *user);

#endif
