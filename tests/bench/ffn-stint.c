/*
 * Our side of tests/bench/engine-torch.py: an expert of kind ffn, forward and backward (gradients of all parameters and of x), on one
 * thread, in stints that take turns with another program's.
 *
 *   ffn-stint DIM BATCH        then for every line on stdin, a number of passes: runs them and prints the seconds of one
 *
 * Seconds are processor time: other processes on the machine do not count.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/rng.h"
#include "common/model/expert.h"

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static skep_real *values(const struct skep_ops *ops, size_t count, double range)
{
    static uint64_t seed = 1;
    struct skep_rng rng = skep_rng_of(seed++);
    skep_real *memory = ops->memory_new(count * sizeof *memory);
    for (size_t i = 0; i < count; i++) {
        memory[i] = (skep_real)((2 * skep_rng_unit(&rng) - 1) * range);
    }
    return memory;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: ffn-stint DIM BATCH\n");
        return 2;
    }
    skep_ops_set_threads(1);
    const struct skep_ops *ops = skep_ops_cpu();
    struct skep_rows rows = {.count = strtoul(argv[2], NULL, 10),
                             .dim = strtoul(argv[1], NULL, 10)};
    struct skep_expert_shape shape = {SKEP_EXPERT_FFN, rows.dim, 4 * rows.dim};
    size_t parameters = skep_expert_parameters(shape);
    const skep_real *weights = values(ops, parameters, 0.05);
    skep_real *y = values(ops, rows.count * rows.dim, 1);
    struct skep_expert_backward pass = {.x = values(ops, rows.count * rows.dim, 1),
                                        .dy = values(ops, rows.count * rows.dim, 1),
                                        .work = values(ops, skep_expert_work(shape, rows.count), 1),
                                        .scratch =
                                            values(ops, skep_expert_scratch(shape, rows.count), 1),
                                        .dx = values(ops, rows.count * rows.dim, 1),
                                        .dparameters = values(ops, parameters, 1)};
    char line[32];
    while (fgets(line, sizeof line, stdin) != NULL) {
        unsigned long passes = strtoul(line, NULL, 10);
        double start = now_s();
        for (unsigned long i = 0; i < passes; i++) {
            skep_expert_forward(ops, shape, weights, rows, pass.x, pass.work, y);
            /* PyTorch writes a new gradient of the input, so ours is not added to an old one either. */
            ops->fill(rows.count * rows.dim, 0, pass.dx);
            skep_expert_backward(ops, shape, weights, rows, &pass);
        }
        printf("%.9f\n", (now_s() - start) / (double)passes);
        fflush(stdout);
    }
    return 0;
}
