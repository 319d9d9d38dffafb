/* The clocks that programs read and hand to the pure parts. */
#ifndef SKEP_SYS_CLOCK_H
#define SKEP_SYS_CLOCK_H

#include <stdint.h>

uint64_t skep_clock_monotonic_ms(void);
int64_t skep_clock_unix_s(void);

#endif
