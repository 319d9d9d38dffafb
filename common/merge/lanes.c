#include "common/merge/lanes.h"

#include <assert.h>
#include <string.h>

static void add_exchange(struct skep_lanes_network *network, size_t low, size_t high)
{
    assert(network->exchange_count < SKEP_LANES_EXCHANGES_MOST);
    network->exchanges[2 * network->exchange_count] = (uint8_t)low;
    network->exchanges[2 * network->exchange_count + 1] = (uint8_t)high;
    network->exchange_count++;
}

/* Algorithm M's own names: p, q, r, d. */
static void add_pass(struct skep_lanes_network *network, size_t p, size_t r, size_t d)
{
    for (size_t i = 0; i + d < network->n; i++) {
        if ((i & p) == r) {
            add_exchange(network, i, i + d);
        }
    }
}

void skep_lanes_network_init(struct skep_lanes_network *network, size_t n, size_t trimmed)
{
    assert(n >= 1 && n <= SKEP_LIMIT_UPDATES_PER_ROUND && n > 2 * trimmed);
    *network = (struct skep_lanes_network){.n = n, .trimmed = trimmed};
    size_t top = 1;
    while (2 * top < n) {
        top *= 2;
    }
    for (size_t p = n > 1 ? top : 0; p > 0; p /= 2) {
        size_t r = 0;
        size_t d = p;
        for (size_t q = top; q >= p; q /= 2) {
            add_pass(network, p, r, d);
            d = q - p;
            r = p;
        }
    }
}

/* Numbers of a few lanes: as many as a register has, since compilers compare vectors wider than that one number at a time. */
#ifdef __x86_64__
#define VECTOR_LANES 4u
#else
#define VECTOR_LANES 2u
#endif
#define VECTORS (SKEP_LANES / VECTOR_LANES)
typedef int64_t vector __attribute__((vector_size(8 * VECTOR_LANES)));
typedef uint64_t bits __attribute__((vector_size(8 * VECTOR_LANES)));

static inline __attribute__((always_inline)) void exchange(vector *low, vector *high)
{
    vector a = *low;
    vector b = *high;
    vector swapped = (a ^ b) & (a > b);
    *low = a ^ swapped;
    *high = b ^ swapped;
}

static inline __attribute__((always_inline)) void
sum_lanes(const struct skep_lanes_network *network, const struct skep_lanes *lanes,
          int64_t *ret_sums)
{
    vector sums[SKEP_LIMIT_UPDATES_PER_ROUND][VECTORS];
    size_t n = network->n;
    memset(sums, 0, n * sizeof *sums);
    for (size_t k = 0; k < lanes->rows; k++) {
        vector values[VECTORS];
        bits sets[VECTORS];
        memcpy(values, lanes->values[k], sizeof values);
        memcpy(sets, lanes->sets[k], sizeof sets);
        for (size_t i = 0; i < n; i++) {
            for (size_t v = 0; v < VECTORS; v++) {
                sums[i][v] += values[v] & ((vector)sets[v] < 0);
                sets[v] += sets[v];
            }
        }
    }
    for (size_t e = 0; e < network->exchange_count; e++) {
        vector *low = sums[network->exchanges[2 * e]];
        vector *high = sums[network->exchanges[2 * e + 1]];
        for (size_t v = 0; v < VECTORS; v++) {
            exchange(&low[v], &high[v]);
        }
    }
    vector sum[VECTORS] = {{0}};
    for (size_t i = network->trimmed; i < n - network->trimmed; i++) {
        for (size_t v = 0; v < VECTORS; v++) {
            sum[v] += sums[i][v];
        }
    }
    memcpy(ret_sums, sum, sizeof sum);
}

static void sum_anywhere(const struct skep_lanes_network *network, const struct skep_lanes *lanes,
                         int64_t *ret_sums)
{
    sum_lanes(network, lanes, ret_sums);
}

#ifdef __x86_64__
/* The same code for processors that have such registers. Integers: the same bits. */
static __attribute__((target("avx2"))) void sum_avx2(const struct skep_lanes_network *network,
                                                     const struct skep_lanes *lanes,
                                                     int64_t *ret_sums)
{
    sum_lanes(network, lanes, ret_sums);
}
#endif

void skep_lanes_sum(const struct skep_lanes_network *network, const struct skep_lanes *lanes,
                    int64_t ret_sums[SKEP_LANES])
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        sum_avx2(network, lanes, ret_sums);
        return;
    }
#endif
    sum_anywhere(network, lanes, ret_sums);
}
