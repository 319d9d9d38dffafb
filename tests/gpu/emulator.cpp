#include "tests/gpu/emulator.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include "tests/gpu/emulated.h"
#include "tests/gpu/emulator-state.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED
#include <sanitizer/common_interface_defs.h>
#endif

#define STACK ((size_t)256 << 10)
#define MOST_THREADS 24u

struct emulated_index threadIdx;
struct emulated_index blockIdx;
struct emulated_index blockDim;
struct emulated_index gridDim;

/* ---- fibers ---- */

/* Whoever comes to a barrier waits until as many as `members` have come. */
struct barrier {
    unsigned members;
    unsigned arrived;
    unsigned turn;
};

struct fiber {
    ucontext_t context;
    char *stack;
    void *fake_stack; /* AddressSanitizer's */
    bool done;
};

static struct fiber fibers[MOST_THREADS];
static ucontext_t scheduler;
static void *scheduler_fake_stack;
static const void *scheduler_stack;
static size_t scheduler_stack_size;
static const std::function<void()> *running;
static size_t progress; /* barriers passed and threads ended */
static struct barrier block_barrier;
static struct barrier warp_barriers[MOST_THREADS / LANES];
static uint64_t places[MOST_THREADS / LANES][2][LANES];
static unsigned place_turn[MOST_THREADS];

/* AddressSanitizer wants to know whose stack is in use. */
static void leaving(void **fake_stack, const void *stack, size_t size)
{
#ifdef SANITIZED
    __sanitizer_start_switch_fiber(fake_stack, stack, size);
#else
    (void)fake_stack, (void)stack, (void)size;
#endif
}

static void arrived(void *fake_stack, const void **ret_stack, size_t *ret_size)
{
#ifdef SANITIZED
    __sanitizer_finish_switch_fiber(fake_stack, ret_stack, ret_size);
#else
    (void)fake_stack, (void)ret_stack, (void)ret_size;
#endif
}

static void yield_thread(void)
{
    unsigned self = threadIdx.x;
    leaving(&fibers[self].fake_stack, scheduler_stack, scheduler_stack_size);
    swapcontext(&fibers[self].context, &scheduler);
    arrived(fibers[self].fake_stack, nullptr, nullptr);
}

static void fiber_main(void)
{
    arrived(nullptr, &scheduler_stack, &scheduler_stack_size);
    unsigned self = threadIdx.x;
    (*running)();
    fibers[self].done = true;
    progress++;
    leaving(nullptr, scheduler_stack, scheduler_stack_size);
    swapcontext(&fibers[self].context, &scheduler);
}

static void resume(unsigned thread)
{
    threadIdx.x = thread;
    leaving(&scheduler_fake_stack, fibers[thread].stack, STACK);
    swapcontext(&scheduler, &fibers[thread].context);
    arrived(scheduler_fake_stack, nullptr, nullptr);
}

static void wait_at(struct barrier *barrier)
{
    unsigned turn = barrier->turn;
    if (++barrier->arrived == barrier->members) {
        barrier->arrived = 0;
        barrier->turn++;
        progress++;
        return;
    }
    while (barrier->turn == turn) {
        yield_thread();
    }
}

void __syncthreads(void)
{
    wait_at(&block_barrier);
}

const uint64_t *skep_emulated_exchange(uint64_t mine)
{
    /* Two sets of places in turn: one is read while the next is written. */
    unsigned which = place_turn[threadIdx.x]++ % 2;
    uint64_t *set = places[threadIdx.x / LANES][which];
    set[threadIdx.x % LANES] = mine;
    wait_at(&warp_barriers[threadIdx.x / LANES]);
    return set;
}

static void prepare_fiber(unsigned thread)
{
    struct fiber *fiber = &fibers[thread];
    if (fiber->stack == nullptr) {
        fiber->stack = (char *)malloc(STACK);
        assert(fiber->stack != nullptr);
    }
    fiber->done = false;
    fiber->fake_stack = nullptr;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = STACK;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, fiber_main, 0);
}

static void run_block(void)
{
    static unsigned luck;
    unsigned count = blockDim.x;
    unsigned done = 0;
    block_barrier = {count, 0, 0};
    for (unsigned i = 0; i < count; i++) {
        prepare_fiber(i);
        place_turn[i] = 0;
        warp_barriers[i / LANES] = {LANES, 0, 0};
    }
    while (done < count) {
        size_t before = progress;
        luck = luck * 1664525u + 1013904223u;
        unsigned first = (luck >> 8) % count;
        bool backwards = (luck & 0x80u) != 0;
        for (unsigned i = 0; i < count; i++) {
            unsigned thread = (backwards ? first + count - i : first + i) % count;
            if (!fibers[thread].done) {
                resume(thread);
                done += fibers[thread].done;
            }
        }
        if (progress == before) {
            fprintf(stderr, "emulator: not all threads of a block come to the same barrier\n");
            abort();
        }
    }
}

void skep_emulate(const std::function<void()> &kernel)
{
    static const struct {
        unsigned blocks;
        unsigned threads;
    } SHAPES[] = {{1, 8}, {2, 16}, {3, 24}, {5, 8}};
    static size_t launch;
    size_t shape = launch++ % (sizeof SHAPES / sizeof SHAPES[0]);
    if (!skep_emulated_present()) {
        return;
    }
    skep_emulated_unlock();
    running = &kernel;
    gridDim.x = SHAPES[shape].blocks;
    blockDim.x = SHAPES[shape].threads;
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) {
        run_block();
    }
    skep_emulated_lock();
}
