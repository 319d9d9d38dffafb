/* Threads and stopping. What threads compute is checked in test-ops. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/tensor/ops.h"
#include "common/tensor/split.h"
#include "tests/lib/cmocka.h"

#define MANY ((size_t)300000)

struct counted {
    atomic_uint *visits;
};

static void count_visits(const void *raw, size_t begin, size_t end)
{
    const struct counted *call = raw;
    for (size_t i = begin; i < end; i++) {
        atomic_fetch_add_explicit(&call->visits[i], 1, memory_order_relaxed);
    }
}

static void check_visits(size_t count, size_t step)
{
    struct counted call = {skep_alloc(count + 1, sizeof *call.visits)};
    skep_split(count_visits, &call,
               (struct skep_split){.count = count, .cost = 100000 / (count + 1) + 1, .step = step});
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(call.visits[i], 1);
    }
    assert_int_equal(call.visits[count], 0);
    free(call.visits);
}

static void every_item_is_computed_once(void **state)
{
    (void)state;
    static const size_t COUNTS[] = {0, 1, 2, 3, 63, 64, 65, 1000, MANY};
    for (unsigned threads = 1; threads <= 4; threads++) {
        skep_ops_set_threads(threads);
        for (size_t i = 0; i < sizeof COUNTS / sizeof COUNTS[0]; i++) {
            check_visits(COUNTS[i], 1);
            check_visits(COUNTS[i], 64);
        }
    }
    skep_ops_set_threads(1);
}

static void threads_exist_only_while_more_than_one_is_asked_for(void **state)
{
    (void)state;
    check_visits(MANY, 1);
    assert_int_equal(skep_split_living(), 0);
    skep_ops_set_threads(4);
    assert_int_equal(skep_split_living(), 0); /* none before there is work */
    check_visits(MANY, 1);
    assert_int_equal(skep_split_living(), 3);
    skep_ops_set_threads(2);
    check_visits(MANY, 1);
    assert_int_equal(skep_split_living(), 1);
    skep_ops_set_threads(1);
    assert_int_equal(skep_split_living(), 0);
}

static void ask_for_one_thread(const void *raw, size_t begin, size_t end)
{
    (void)raw, (void)begin, (void)end;
    skep_ops_set_threads(1);
}

static void threads_given_up_in_the_middle_of_a_call_leave_at_its_end(void **state)
{
    (void)state;
    skep_ops_set_threads(4);
    skep_split(ask_for_one_thread, NULL, (struct skep_split){.count = MANY, .cost = 1, .step = 1});
    assert_int_equal(skep_split_threads(), 1);
    assert_int_equal(skep_split_living(), 0);
}

static void asking_for_no_threads_or_very_many_is_harmless(void **state)
{
    (void)state;
    skep_ops_set_threads(0);
    assert_int_equal(skep_split_threads(), 1);
    check_visits(MANY, 1);
    skep_ops_set_threads(1000000);
    assert_true(skep_split_threads() <= 1024);
    skep_ops_set_threads(1);
}

static void *compute(void *raw)
{
    (void)raw;
    for (int i = 0; i < 60; i++) {
        check_visits(MANY, 64);
    }
    return NULL;
}

static void several_callers_compute_while_the_number_of_threads_changes(void **state)
{
    (void)state;
    pthread_t callers[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&callers[i], NULL, compute, NULL), 0);
    }
    for (unsigned i = 0; i < 200; i++) {
        skep_ops_set_threads(1 + i % 4);
        sched_yield();
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(callers[i], NULL);
    }
    skep_ops_set_threads(1);
    assert_int_equal(skep_split_living(), 0);
}

static void once_stopped_every_operation_returns_at_once(void **state)
{
    (void)state;
    atomic_bool stop = true;
    float x[4] = {1, 2, 3, 4};
    float y[4] = {0};
    skep_ops_set_stop(&stop);
    assert_true(skep_ops_stopped());
    const struct skep_ops *ops = skep_ops_cpu();
    ops->add(x, 4, y);
    ops->gemm((struct skep_gemm_size){2, 2, 2}, (struct skep_matrix){x, 2, false},
              (struct skep_matrix){x, 2, false}, 1, y, 2);
    ops->gelu((struct skep_rows){2, 2, NULL}, x, x, y);
    assert_true(y[0] == 0 && y[3] == 0 && x[0] == 1);
    /* Products of both kinds that are not the CBLAS's. */
    float *long_x = skep_alloc(300 * 64, sizeof *long_x);
    float long_y[64 * 64] = {1};
    for (size_t inner = 30; inner <= 300; inner += 270) {
        ops->gemm((struct skep_gemm_size){64, 64, inner},
                  (struct skep_matrix){long_x, inner, false},
                  (struct skep_matrix){long_x, 64, false}, 0, long_y, 64);
        assert_true(long_y[0] == 1);
    }
    free(long_x);
    atomic_store(&stop, false);
    assert_false(skep_ops_stopped());
    ops->add(x, 4, y);
    assert_true(y[3] == 4);
    skep_ops_set_stop(NULL);
    assert_false(skep_ops_stopped());
}

/* c = a b with sides that take a third of a second and more. */
struct long_product {
    float *a;
    float *b;
    float *c;
    atomic_bool stop;
};
#define SIDE ((size_t)3000)
#define INNER ((size_t)1500)

/* Waits until the first block of the result is there: then the product is under way. */
static void *stop_product(void *raw)
{
    struct long_product *job = raw;
    const volatile float *first = job->c;
    while (isnan(*first)) {
        sched_yield();
    }
    atomic_store(&job->stop, true);
    return NULL;
}

static void a_long_product_stops_on_its_way(void **state)
{
    (void)state;
    struct long_product job = {skep_alloc(SIDE * INNER, sizeof(float)),
                               skep_alloc(SIDE * INNER, sizeof(float)),
                               skep_alloc(SIDE * SIDE, sizeof(float)), false};
    for (size_t i = 0; i < SIDE * SIDE; i++) {
        job.c[i] = NAN;
    }
    skep_ops_set_stop(&job.stop);
    pthread_t stopper;
    assert_int_equal(pthread_create(&stopper, NULL, stop_product, &job), 0);
    skep_ops_cpu()->gemm((struct skep_gemm_size){SIDE, SIDE, INNER},
                         (struct skep_matrix){job.a, INNER, false},
                         (struct skep_matrix){job.b, SIDE, false}, 0, job.c, SIDE);
    pthread_join(stopper, NULL);
    skep_ops_set_stop(NULL);
    assert_true(job.c[0] == 0);
    assert_true(isnan(job.c[SIDE * SIDE - 1]));
    free(job.a);
    free(job.b);
    free(job.c);
}

/* Compared with the product in one piece, which a CBLAS may sum otherwise at the edges of its tiles. */
static void a_product_in_blocks_is_the_whole_product(void **state)
{
    (void)state;
    const size_t rows = 700;
    const size_t columns = 550;
    const size_t inner = 2100; /* some times a block's work */
    float *a = skep_alloc(rows * inner, sizeof *a);
    float *b = skep_alloc(columns * inner, sizeof *b);
    float *c = skep_alloc(2 * rows * columns, sizeof *c);
    for (size_t i = 0; i < rows * inner; i++) {
        a[i] = (float)(i % 17) - 8;
    }
    for (size_t i = 0; i < columns * inner; i++) {
        b[i] = (float)(i % 23) - 11; /* small whole numbers: their sums are exact */
    }
    struct skep_linear shape = {rows, inner, columns};
    atomic_bool stop = false;
    skep_linear_forward(skep_ops_cpu(), shape, a, b, 0, c);
    skep_ops_set_stop(&stop);
    skep_linear_forward(skep_ops_cpu(), shape, a, b, 0, c + rows * columns);
    skep_ops_set_stop(NULL);
    assert_memory_equal(c, c + rows * columns, rows * columns * sizeof *c);
    free(a);
    free(b);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_computed_once),
        cmocka_unit_test(threads_exist_only_while_more_than_one_is_asked_for),
        cmocka_unit_test(threads_given_up_in_the_middle_of_a_call_leave_at_its_end),
        cmocka_unit_test(asking_for_no_threads_or_very_many_is_harmless),
        cmocka_unit_test(several_callers_compute_while_the_number_of_threads_changes),
        cmocka_unit_test(once_stopped_every_operation_returns_at_once),
        cmocka_unit_test(a_long_product_stops_on_its_way),
        cmocka_unit_test(a_product_in_blocks_is_the_whole_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
