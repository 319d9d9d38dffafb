/*
 * What stopping costs and how soon it works (common/tensor/ops.h).
 *
 *   stop_cost_*      the rate of products with a stop flag, so cut into blocks, against the rate without one; one thread, taking turns
 *   stop_latency_*   from setting the flag in another thread to the return of the product, the worst of some tries, in real time;
 *                    reference: the processor time of it, which is what the block under way still took where others use the machine
 *
 *   engine-stop [--quick]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/rng.h"
#include "common/tensor/ops.h"

static double now_s(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

struct product {
    struct skep_linear shape;
    skep_real *x;
    skep_real *w;
    skep_real *y;
};

static skep_real *values(size_t count)
{
    struct skep_rng rng = skep_rng_of(count);
    skep_real *memory = skep_ops_cpu()->memory_new(count * sizeof *memory);
    if (memory == NULL) {
        fprintf(stderr, "engine-stop: no memory for %zu values\n", count);
        exit(1);
    }
    for (size_t i = 0; i < count; i++) {
        memory[i] = (skep_real)(skep_rng_unit(&rng) - 0.5);
    }
    return memory;
}

static struct product product_of(struct skep_linear shape)
{
    return (struct product){shape, values(shape.rows * shape.inputs),
                            values(shape.outputs * shape.inputs),
                            values(shape.rows * shape.outputs)};
}

static void product_done(struct product *product)
{
    skep_ops_cpu()->memory_free(product->x);
    skep_ops_cpu()->memory_free(product->w);
    skep_ops_cpu()->memory_free(product->y);
}

static double run(const struct product *product, double best)
{
    double start = now_s(CLOCK_PROCESS_CPUTIME_ID);
    skep_linear_forward(skep_ops_cpu(), product->shape, product->x, product->w, 0, product->y);
    double took = now_s(CLOCK_PROCESS_CPUTIME_ID) - start;
    return took < best ? took : best;
}

static void cost(struct skep_linear shape, unsigned runs)
{
    struct product product = product_of(shape);
    atomic_bool stop = false;
    double whole = 1e9;
    double blocks = 1e9;
    for (unsigned i = 0; i < runs; i++) {
        skep_ops_set_stop(NULL);
        whole = run(&product, whole);
        skep_ops_set_stop(&stop);
        blocks = run(&product, blocks);
    }
    skep_ops_set_stop(NULL);
    double gflop = 2e-9 * (double)shape.rows * (double)shape.inputs * (double)shape.outputs;
    printf("stop_cost_%zu_%zu_%zu\t%.2f\tGFLOP/s\t%.2f\t%.3f\n", shape.rows, shape.inputs,
           shape.outputs, gflop / blocks, gflop / whole, whole / blocks);
    product_done(&product);
}

struct stopper {
    atomic_bool *stop;
    double wait_s;
    double set_at_s;
    double worked_s; /* processor time by then */
};

static void *set_later(void *raw)
{
    struct stopper *stopper = raw;
    struct timespec wait = {0, (long)(1e9 * stopper->wait_s)};
    nanosleep(&wait, NULL);
    stopper->worked_s = now_s(CLOCK_PROCESS_CPUTIME_ID);
    stopper->set_at_s = now_s(CLOCK_MONOTONIC);
    atomic_store(stopper->stop, true);
    return NULL;
}

static void latency(struct skep_linear shape, unsigned tries)
{
    struct product product = product_of(shape);
    double worst = 0;
    double most_work = 0;
    for (unsigned i = 0; i < tries; i++) {
        atomic_bool stop = false;
        struct stopper stopper = {&stop, 0.01 + 0.0013 * i, 0, 0};
        pthread_t thread;
        skep_ops_set_stop(&stop);
        if (pthread_create(&thread, NULL, set_later, &stopper) != 0) {
            fprintf(stderr, "engine-stop: no thread could be started\n");
            exit(1);
        }
        while (!skep_ops_stopped()) {
            run(&product, 0);
        }
        double end = now_s(CLOCK_MONOTONIC);
        double worked = now_s(CLOCK_PROCESS_CPUTIME_ID);
        pthread_join(thread, NULL);
        worked -= stopper.worked_s;
        most_work = worked > most_work ? worked : most_work;
        worst = end - stopper.set_at_s > worst ? end - stopper.set_at_s : worst;
        skep_ops_set_stop(NULL);
    }
    printf("stop_latency_%zu_%zu_%zu\t%.1f\tms\t%.1f\t%.3f\n", shape.rows, shape.inputs,
           shape.outputs, 1e3 * worst, 1e3 * most_work, worst / most_work);
    product_done(&product);
}

int main(int argc, char **argv)
{
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    unsigned runs = quick ? 5 : 20;
    cost((struct skep_linear){512, 1024, 4096}, runs);
    cost((struct skep_linear){512, 4096, 1024}, runs);
    cost((struct skep_linear){4096, 512, 1024}, runs);
    cost((struct skep_linear){64, 4096, 4096}, runs);
    cost((struct skep_linear){2048, 2048, 2048}, runs);
    latency((struct skep_linear){512, 4096, 1024}, quick ? 10 : 40);
    latency((struct skep_linear){4096, 4096, 1024}, quick ? 10 : 40);
    return 0;
}
