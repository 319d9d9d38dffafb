#include "client/plan/size.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char UNITS[] = "BKMGT";

/* The power of 1024 that a unit stands for, or -1. */
static int power_of(const char *unit)
{
    const char *at = unit[0] == '\0' ? UNITS : strchr(UNITS, unit[0]);
    if (at == NULL || unit[0] == '\0') {
        return unit[0] == '\0' ? 0 : -1;
    }
    bool bare = unit[1] == '\0' || (at != UNITS && strcmp(unit + 1, "iB") == 0);
    return bare ? (int)(at - UNITS) : -1;
}

int skep_size_parse(const char *name, const char *text, uint64_t *ret_bytes, struct skep_error *err)
{
    char *end = NULL;
    double value = strtod(text, &end);
    int power = end == text ? -1 : power_of(end + (*end == ' '));
    double bytes = power < 0 ? -1 : ldexp(value, 10 * power);
    if (!(bytes >= 0 && bytes < 9e15)) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "%s is \"%.40s\"; allowed: an amount of bytes such as 512MiB or 2GiB",
                              name, text);
    }
    *ret_bytes = (uint64_t)bytes;
    return SKEP_OK;
}

void skep_size_format(uint64_t bytes, char ret_text[SKEP_SIZE_TEXT])
{
    int power = 0;
    double value = (double)bytes;
    while (value >= 1023.95 && power < 4) { /* which would be written as 1024.0 */
        value /= 1024;
        power++;
    }
    if (power == 0) {
        snprintf(ret_text, SKEP_SIZE_TEXT, "%.0f B", value);
    } else {
        snprintf(ret_text, SKEP_SIZE_TEXT, "%.1f %ciB", value, UNITS[power]);
    }
}
