#include "common/tensor/split.h"

#include <pthread.h>
#include <stdatomic.h>

/* Values in a part: small enough that stopping waits below a millisecond and that threads finish together. */
#define PART_VALUES ((size_t)256 << 10)
/* Below this waking threads costs more than they save (some microseconds each). */
#define ALONE_VALUES ((size_t)64 << 10)
#define MAX_THREADS 256

static atomic_uint wanted_threads = 1;
static const atomic_bool *_Atomic stop_flag;

/* What the threads are working on; written by the caller who holds pool.use while no thread is at work. */
struct round {
    skep_split_part part;
    const void *call;
    size_t count;
    size_t size; /* items in a part */
    bool whole;  /* as in skep_split */
    atomic_size_t next;
};

static struct {
    pthread_mutex_t use; /* held by the caller whose work the threads do */
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_cond_t idle;
    struct round round;
    unsigned long number; /* of the round */
    unsigned busy;        /* threads that have not finished the round */
    bool leave;
    unsigned count; /* threads that exist; the caller is one more. Under `use`. */
    pthread_t threads[MAX_THREADS];
    unsigned long born[MAX_THREADS]; /* the round before each thread's first */
} pool = {.use = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .idle = PTHREAD_COND_INITIALIZER};

bool skep_ops_stopped(void)
{
    const atomic_bool *flag = atomic_load_explicit(&stop_flag, memory_order_relaxed);
    return flag != NULL && atomic_load_explicit(flag, memory_order_relaxed);
}

void skep_ops_set_stop(const atomic_bool *stop)
{
    atomic_store(&stop_flag, stop);
}

bool skep_split_can_stop(void)
{
    return atomic_load_explicit(&stop_flag, memory_order_relaxed) != NULL;
}

static void run_round(struct round *round)
{
    while (round->whole || !skep_ops_stopped()) {
        size_t begin = atomic_fetch_add_explicit(&round->next, round->size, memory_order_relaxed);
        if (begin >= round->count) {
            return;
        }
        size_t end = round->count - begin < round->size ? round->count : begin + round->size;
        round->part(round->call, begin, end);
    }
}

static void *pool_thread(void *raw)
{
    const unsigned long *born = raw;
    unsigned long done = *born;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (!pool.leave && pool.number == done) {
            pthread_cond_wait(&pool.work, &pool.lock);
        }
        if (pool.leave) {
            break;
        }
        done = pool.number;
        pthread_mutex_unlock(&pool.lock);
        run_round(&pool.round);
        pthread_mutex_lock(&pool.lock);
        if (--pool.busy == 0) {
            pthread_cond_signal(&pool.idle);
        }
    }
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

/* Under pool.use, with no thread at work. Fewer than asked for when the system gives no more: that only costs time. */
static void resize(unsigned count)
{
    if (pool.count > count) {
        pthread_mutex_lock(&pool.lock);
        pool.leave = true;
        pthread_cond_broadcast(&pool.work);
        pthread_mutex_unlock(&pool.lock);
        for (unsigned i = 0; i < pool.count; i++) {
            pthread_join(pool.threads[i], NULL);
        }
        pool.leave = false;
        pool.count = 0;
    }
    bool more = true;
    while (more && pool.count < count) {
        unsigned long *born = &pool.born[pool.count];
        *born = pool.number;
        more = pthread_create(&pool.threads[pool.count], NULL, pool_thread, born) == 0;
        pool.count += more;
    }
}

unsigned skep_split_threads(void)
{
    return atomic_load_explicit(&wanted_threads, memory_order_relaxed);
}

unsigned skep_split_living(void)
{
    pthread_mutex_lock(&pool.use);
    unsigned count = pool.count;
    pthread_mutex_unlock(&pool.use);
    return count;
}

/* Lets those go that are too many, unless a caller has them: it does so itself when it gives them back. */
static void let_go(void)
{
    if (pthread_mutex_trylock(&pool.use) == 0) {
        if (pool.count > skep_split_threads() - 1) {
            resize(skep_split_threads() - 1);
        }
        pthread_mutex_unlock(&pool.use);
    }
}

void skep_ops_set_threads(unsigned threads)
{
    unsigned some = threads > 0 ? threads : 1;
    atomic_store(&wanted_threads, some < MAX_THREADS ? some : MAX_THREADS);
    let_go();
}

/* Under pool.use. */
static void run_in_pool(struct round *round)
{
    pthread_mutex_lock(&pool.lock);
    pool.round.part = round->part;
    pool.round.call = round->call;
    pool.round.count = round->count;
    pool.round.size = round->size;
    pool.round.whole = round->whole;
    atomic_store(&pool.round.next, 0);
    pool.busy = pool.count;
    pool.number++;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    run_round(&pool.round);
    pthread_mutex_lock(&pool.lock);
    while (pool.busy > 0) {
        pthread_cond_wait(&pool.idle, &pool.lock);
    }
    pthread_mutex_unlock(&pool.lock);
}

/* Items in a part: of PART_VALUES values, or fewer so that each thread gets some. */
static size_t part_size(struct skep_split split, unsigned threads)
{
    size_t cost = split.cost > 0 ? split.cost : 1;
    size_t items = PART_VALUES / cost;
    size_t share = split.count / (4 * (size_t)threads);
    if (threads > 1 && share < items) {
        items = share;
    }
    return (items / split.step + 1) * split.step;
}

void skep_split(skep_split_part part, const void *call, struct skep_split split)
{
    if (split.count == 0 || (!split.whole && skep_ops_stopped())) {
        return;
    }
    unsigned threads = skep_split_threads();
    bool alone = threads == 1 || split.count <= split.step ||
                 split.count < ALONE_VALUES / (split.cost > 0 ? split.cost : 1);
    struct round round = {.part = part,
                          .call = call,
                          .count = split.count,
                          .size = part_size(split, alone ? 1 : threads),
                          .whole = split.whole};
    if (!alone && pthread_mutex_trylock(&pool.use) == 0) {
        resize(threads - 1);
        run_in_pool(&round);
        pthread_mutex_unlock(&pool.use);
        let_go();
        return;
    }
    if (!skep_split_can_stop()) {
        part(call, 0, split.count);
        return;
    }
    run_round(&round);
}
