/*
 * The log sink: one line per event on stderr (or a file the program opened), `time level where: sentence`. The only
 * global state in the libraries besides parsed options.
 */
#ifndef SKEP_BASE_LOG_H
#define SKEP_BASE_LOG_H

#include <stdio.h>

enum skep_log_level {
    SKEP_LOG_ERROR,
    SKEP_LOG_WARNING,
    SKEP_LOG_INFO,
    SKEP_LOG_DEBUG,
};

/* Lines above `level` are dropped; `where` (borrowed for ever) names the program in each line; NULL stream is stderr. */
void skep_log_configure(enum skep_log_level level, const char *where, FILE *stream);
void skep_log(enum skep_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
