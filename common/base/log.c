#include "common/base/log.h"

#include <stdarg.h>
#include <time.h>

static struct {
    enum skep_log_level level;
    const char *where;
    FILE *stream;
} sink = {SKEP_LOG_INFO, "skep", NULL};

void skep_log_configure(enum skep_log_level level, const char *where, FILE *stream)
{
    sink.level = level;
    sink.where = where;
    sink.stream = stream;
}

void skep_log(enum skep_log_level level, const char *format, ...)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    if (level > sink.level) {
        return;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm parts;
    gmtime_r(&now.tv_sec, &parts);
    char stamp[32];
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &parts);
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    FILE *stream = sink.stream == NULL ? stderr : sink.stream;
    fprintf(stream, "%s.%03ldZ %s %s: %s\n", stamp, now.tv_nsec / 1000000, names[level], sink.where,
            line);
    fflush(stream);
}
